"""Printed kernels read back: hand-built Programs are what their text says, and a slip in the text is refused."""

from __future__ import annotations

import ast
import importlib.util
import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from septran.backends.triton.backend import TRITON_CUDA
from septran.backends.triton.reading import read
from septran.ir.expr import Const, Var
from septran.ir.nodes import Alloc, Copy, For, Program, Stmt
from septran.kernel import Kernel
from septran.passes.interpret import check_order
from septran.prove.ordering import ordering
from septran.prove.printed import Unreadable
from septran.prove.sets import model
from septran.prove.text import same_text
from septran.prove.text_in_place import read_in_place
from tests.backends.triton import programs as P
from tests.backends.triton import running as R
from tests.backends.triton.test_emit import GOLDENS
from tests.backends.triton.test_mutants import MUTANTS
from tests.passes.mutants import unseen, without_one

IN_LEAVES = (
    "accumulator dropped", "accumulator not cleared", "tf32", "operands swapped", "bias ignored",
    "relu ignored", "maximum over padding", "sum over padding", "normalisation dropped",
    "causal shifted", "rescale dropped", "padding of k not masked", "minimum instead of maximum",
)  # fmt: skip
"""faults of leaves, which are tested and not read"""


def refused(program: Program, text: str | None = None) -> str:
    """Return why a Program's text, or `text` for it, is refused; "" when it is proven."""
    kernel = R.build_kernel(program)
    if text is not None:
        kernel = replace(kernel, files=((kernel.main, text),))
    try:
        printed = TRITON_CUDA.finished(program, {})
        told = read(kernel, printed)
        return str(next(same_text(model(printed), told), None) or "")
    except Unreadable as e:
        return f"unreadable: {e}"


def slipped(program: Program, old: str, new: str, count: int = 1) -> str:
    kernel: Kernel = R.build_kernel(program)
    assert old in kernel.source, f"{old} is not in\n{kernel.source}"
    return refused(program, kernel.source.replace(old, new, count))


@pytest.mark.parametrize("name", GOLDENS)
def test_the_golden_kernels_are_their_programs(name: str) -> None:
    assert refused(GOLDENS[name]) == ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.title)
def test_what_the_emulator_rejects_is_refused_outside_of_leaves(mutant) -> None:
    found = refused(mutant.case, mutant.of(R.build_kernel(mutant.case).source, count=1))
    assert bool(found) == (mutant.title not in IN_LEAVES), found


def _host() -> Program:
    out, src = P.buf("Y", (4, 8), "float32"), P.buf("X", (4, 8), "float32")
    t, j = Var("t"), Var("j")
    y, x = P.region(out, (t, j * 4), (1, 4)), P.region(src, (t, j * 4), (1, 4))
    call = P.leaf("c", [("Y", y, "w"), ("X", x, "r")], [P.prim("copy", "Y", "X")])
    grid = For(var="j", extent=Const(2), proc="BLOCK", parallel=True, body=(call,))
    return P.program(
        "host", [(out, "w"), (src, "r")], [For(var="t", extent=Const(4), body=(grid,))]
    )


def test_a_loop_of_the_host_is_read() -> None:
    assert refused(_host()) == ""
    assert "leaves an iteration out" in slipped(_host(), "range(4)", "range(3)")
    assert "lies elsewhere" in slipped(_host(), "X_0 = t +", "X_0 = 0 * t +")
    assert "is Y" in slipped(_host(), "](Y, X, t", "](X, Y, t")


def _fence() -> Program:
    out, src = P.buf("Y", (8,), "float32"), P.buf("X", (8,), "float32")
    first = P.leaf(
        "a", [("Y", P.region(out), "w"), ("X", P.region(src), "r")], [P.prim("copy", "Y", "X")]
    )
    second = P.leaf(
        "b", [("Y", P.region(out), "rw")], [P.prim("map", "Y", named=[("y", "Y")], expr="y + 1")]
    )
    return P.program("fence", [(out, "w"), (src, "r")], [first, second])


def test_stores_that_are_loaded_later_need_their_barriers() -> None:
    assert refused(_fence()) == ""
    barrier = "    tl.debug_barrier()\n"
    parts = R.build_kernel(_fence()).source.split(barrier)
    assert len(parts) == 3
    for at in (1, 2):
        one = barrier.join(parts[:at]) + barrier.join(["", *parts[at:]][1:])
        assert "the text has a copy there" in refused(_fence(), one), at
    last = R.build_kernel(_fence()).source
    more = last.replace("\n\n\ndef entry", "\n" + barrier + "\n\ndef entry")
    assert "a sync of BLOCK that is not in the Program" in refused(_fence(), more)


def test_barriers_between_stores_and_loads_cannot_be_left_out() -> None:
    ready = TRITON_CUDA.finished(_fence(), {})
    check_order(ready)
    assert next(ordering(model(ready)), None) is None
    less = list(without_one(ready))
    assert len(less) == 2 and unseen(iter(less)) == []
    assert all(next(ordering(model(x)), None) for _, x in less)


def _window(fill: float) -> Program:
    """Y[i] = what stands one row above in X, `fill` above the first."""
    out, src = P.buf("Y", (10, 5), "float32"), P.buf("X", (10, 5), "float32")
    i = Var("i")
    x = replace(P.region(src, (i * 4 - 1, 0), (4, 5), guard=True), fill=fill)
    x = replace(x, extent=P.region(out, (i * 4, 0), (4, 5)).extent)
    call = P.leaf(
        "c", [("Y", P.region(out, (i * 4, 0), (4, 5)), "w"), ("X", x, "r")],
        [P.prim("copy", "Y", "X")],
    )  # fmt: skip
    grid = For(var="i", extent=Const(3), proc="BLOCK", parallel=True, body=(call,))
    return P.program("window", [(out, "w"), (src, "r")], [grid])


def test_what_windows_read_outside_is_compared() -> None:
    low = _window(float("-inf"))
    assert refused(low) == "" and refused(_window(0.0)) == ""
    text = R.build_kernel(low).source
    assert "beyond its extents" in refused(low, _without_where(text))
    assert "outside in the text" in slipped(low, 'other=float("-inf")', "other=0")
    assert "undefined" in slipped(low, ', other=float("-inf")', "")
    assert "outside in the text" in slipped(_window(0.0), "other=0", "other=1")


def _without_where(text: str) -> str:
    line = next(x for x in text.splitlines() if "tl.where(" in x and "tl.load(" in x)
    load = line[line.index("tl.load(") : line.rindex(", 0)")]
    return text.replace(line, f"{line[: line.index('tl.where(')]}{load}")


def _staged() -> Program:
    """A leaf leaves its result in a tile of 5 x 3 that another reads, then it is copied out."""
    out, src = P.buf("Y", (5, 3), "float16"), P.buf("X", (5, 3), "float32")
    s, r = P.buf("s", (5, 3), "float32", "SHARED"), P.buf("r", (5, 3), "float32", "REGISTER")
    s2 = P.buf("s2", (5, 3), "float32", "SHARED")
    body = (
        Alloc(buffer=s), Alloc(buffer=r), Alloc(buffer=s2),
        P.leaf("a", [("Y", P.region(s), "w"), ("X", P.region(src), "r")], [P.prim("copy", "Y", "X")]),
        P.leaf("b", [("Y", P.region(r), "w"), ("X", P.region(s), "r")], [P.prim("copy", "Y", "X")]),
        Copy(dst=P.region(s2), src=P.region(r)),
        Copy(dst=P.region(out), src=P.region(s2)),
    )  # fmt: skip
    return P.program("staged", [(out, "w"), (src, "r")], body)


def test_tiles_that_leaves_rely_on_are_cleared_beyond_their_extents() -> None:
    program = _staged()
    assert refused(program) == ""
    lines = [x for x in R.build_kernel(program).source.splitlines() if "zeros_like" in x]
    assert len(lines) == 2
    leaf = next(x for x in lines if x.strip().startswith("s ="))
    assert "keeps what lies beyond" in slipped(program, f"{leaf}\n", "")
    copy = next(x for x in lines if x is not leaf)
    assert "keeps what lies beyond" in slipped(program, copy, "    s2 = r")
    assert "loses a position" in slipped(program, "< 5) & ", "< 4) & ")
    plain = next(x for x in R.build_kernel(program).source.splitlines() if x.startswith("    r ="))
    lost = f"{plain}\n    r = tl.where((tl.arange(0, 8) < 4)[:, None], r, tl.zeros_like(r))"
    assert "loses a position" in slipped(program, plain, lost)
    assert "is float32 in the text" in slipped(program, ".to(tl.float16)", ".to(tl.float32)")


def _large() -> Program:
    out, src = P.buf("Y", (1 << 16, 1 << 16), "float32"), P.buf("X", (1 << 16, 1 << 16), "float32")
    i, j = Var("i"), Var("j")
    y, x = (P.region(b, (i * 64, j * 64), (64, 64)) for b in (out, src))
    call = P.leaf("c", [("Y", y, "w"), ("X", x, "r")], [P.prim("copy", "Y", "X")])
    grid = For(
        var="i", extent=Const(1024), proc="BLOCK", parallel=True,
        body=(For(var="j", extent=Const(1024), proc="BLOCK", parallel=True, body=(call,)),),
    )  # fmt: skip
    return P.program("large", [(out, "w"), (src, "r")], [grid])


def test_large_arrays_need_addresses_of_64_bits() -> None:
    assert refused(_large()) == ""
    assert "more than 32 bits" in slipped(_large(), ".to(tl.int64)", "")


def _turned() -> Program:
    """Y = the right half of X, turned: X is seen in another layout."""
    out, src = P.buf("Y", (4, 8), "float32"), P.buf("X", (8, 8), "float32")
    view = replace(src, shape=(4, 8), strides=(1, 8), start=4)
    call = P.leaf(
        "c", [("Y", P.region(out), "w"), ("X", P.region(view), "r")], [P.prim("copy", "Y", "X")]
    )
    return P.program("turned", [(out, "w"), (src, "r")], [call])


def test_arrays_in_another_layout_are_compared_by_their_elements() -> None:
    assert refused(_turned()) == ""
    assert "lies elsewhere" in slipped(_turned(), "X + 4 +", "X + 3 +")
    assert "lies elsewhere" in slipped(_turned(), "[None, :] * 8)", "[None, :] * 7)")


def _parts() -> Program:
    """Rows of a staged tile, one by one."""
    out, src = P.buf("Y", (4, 8), "float32"), P.buf("X", (4, 8), "float32")
    t = P.buf("t", (4, 8), "float32", "SHARED")
    row = Var("row")
    one = P.leaf(
        "c", [("Y", P.region(out, (row, 0), (1, 8)), "w"), ("X", P.region(t, (row, 0), (1, 8)), "r")],
        [P.prim("copy", "Y", "X")],
    )  # fmt: skip
    body = (
        Alloc(buffer=t),
        Copy(dst=P.region(t), src=P.region(src)),
        For(var="row", extent=Const(4), body=(one,)),
    )
    return P.program("parts", [(out, "w"), (src, "r")], body)


def test_parts_of_a_tile_are_read_where_it_was_copied_from() -> None:
    assert refused(_parts()) == ""
    assert "lies elsewhere" in slipped(_parts(), "X_0 = row", "X_0 = 0 * row")


def test_a_tile_may_have_the_name_of_an_index_line() -> None:
    out, src = P.buf("Y", (8,), "float32"), P.buf("X", (8,), "float32")
    tile = P.buf("X_0", (8,), "float32", "REGISTER")
    body = (
        Copy(dst=P.region(P.buf("s", (8,), "float32", "SHARED")), src=P.region(src)),
        Alloc(buffer=tile),
        P.leaf("a", [("Y", P.region(tile), "w"), ("X", P.region(src), "r")], [P.prim("copy", "Y", "X")]),
        P.leaf("b", [("Y", P.region(out), "w"), ("X", P.region(tile), "r")], [P.prim("copy", "Y", "X")]),
    )  # fmt: skip
    body = (Alloc(buffer=body[0].dst.buffer), *body)  # type: ignore[union-attr]
    program = P.program("names", [(out, "w"), (src, "r")], body)
    assert "X_0_2 = leaf_a" in R.build_kernel(program).source
    assert refused(program) == ""


def test_parts_stay_where_their_source_is_written_meanwhile() -> None:
    """The tile holds what X was; reading X in place would read what it is now."""
    program = _parts()
    alloc, copy, loop = program.body
    assert isinstance(copy, Copy) and isinstance(loop, For)
    write = P.leaf("w", [("X", copy.src, "w")], [P.prim("fill", "X", value=1.0)])
    for body in ((alloc, copy, write, loop), (alloc, copy, loop, replace(copy, src=copy.src))):
        other = replace(program, body=body)
        assert read_in_place(other, lambda name: False) == other
    assert len(read_in_place(program, lambda name: False).body) == 2


def test_workspaces_are_told_apart_by_their_names() -> None:
    out, src = P.buf("Y", (8,), "float32"), P.buf("X", (8,), "float32")
    chain = [src, P.buf("t", (8,), "float32"), P.buf("t_1", (8,), "float32"), out]
    body: list[Stmt] = [Alloc(buffer=b) for b in chain[1:3]]
    for at, (a, b) in enumerate(itertools.pairwise(chain)):
        call = P.leaf(
            f"c{at}", [("Y", P.region(b), "w"), ("X", P.region(a), "r")], [P.prim("copy", "Y", "X")]
        )
        body.append(For(var=f"i{at}", extent=Const(1), proc="BLOCK", parallel=True, body=(call,)))
    program = P.program("chain", [(out, "w"), (src, "r")], body)
    assert refused(program) == ""
    assert "is X in the text" in slipped(
        program, "_kernel_2[(1,)](t, t_1", "_kernel_2[(1,)](X, t_1"
    )


def test_loops_grids_and_options() -> None:
    gemm = GOLDENS["gemm_float16"]
    assert "squares of another size" in slipped(gemm, "i1, 8, 8, 8)", "i1, 8, 9, 8)")
    assert "stages" in slipped(gemm, "num_stages=3)", "num_stages=4)")
    assert "two blocks" in slipped(gemm, "tl.program_id(0)", "tl.program_id(1)")
    assert "64 loops" not in slipped(gemm, "num_warps=8, ", "num_warps=16, ")
    assert refused(gemm, R.build_kernel(gemm).source + "\nimport os\n").startswith("unreadable")


def test_swizzled_blocks_are_a_permutation() -> None:
    """The reader trusts this of Triton; its source is run on numbers."""
    found = importlib.util.find_spec("triton.language.standard")
    assert found is not None and found.origin is not None
    tree = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
    (function,) = (s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "swizzle2d")
    function.decorator_list = []
    scope: dict[str, Any] = {"core": SimpleNamespace(minimum=min)}
    exec(compile(ast.Module([function], []), "swizzle2d", "exec"), scope)
    for rows, columns, group in itertools.product((1, 2, 5, 8, 13), (1, 3, 8), (1, 2, 4, 8, 9)):
        box = list(itertools.product(range(rows), range(columns)))
        moved = [scope["swizzle2d"](i, j, rows, columns, group) for i, j in box]
        assert sorted(moved) == box
