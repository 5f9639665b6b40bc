"""A leaf on dsa_c as text: the library's, and one that is a plain list of calls and is put where it is called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from septran.backends.dsa.backend import DSA_C
from septran.backends.dsa.emit import held, library_leaf, signature
from septran.backends.dsa.leaf_calls import operations
from septran.backends.dsa.passes.expand_leaves import expand_call
from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var, minimum
from septran.kernel import Leaf, LeafParam, LeafSpec, leaf_specs
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.prove import prove_lowered
from tests.backends.dsa_c_tools import kernel_of, run_text
from tests.backends.dsa_programs import gemm
from tests.leafgate import consistency


def calls(op: str, dtype: str = "float32") -> Iterator[tuple[ir.LeafCall, LeafSpec]]:
    plan = resolve(GenRequest(op=op, backend="dsa_c", dtype=dtype, dims=consistency.OPERATORS[op]))
    yield from leaf_specs(lower_plan(plan).program)


def shape(stmts: tuple[ir.Stmt, ...], call: ir.LeafCall) -> list[object]:
    """Return operations with temporaries by the order in which they are written first."""
    given = {a.region.buffer.name for a in call.args}
    names: dict[str, str] = {}

    def region(r: ir.Region) -> object:
        name = r.buffer.name
        known = name if name in given else names.setdefault(name, f"t{len(names)}")
        return known, r.buffer.dtype, r.offset[-2:], r.extent[-2:], r.tile[-2:]

    def means(s: ir.LeafCall) -> object:  # a copy may be said as a primitive or as a map
        return s.task == "dsa.vec_copy" or (s.prims[0].name, s.prims[0].attrs)

    return [
        (s.task, s.scalars, means(s), [region(a.region) for a in s.args])
        for s in ir.walk(stmts)
        if isinstance(s, ir.LeafCall)
    ]


@pytest.mark.few(8)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", [*consistency.OPERATORS])
def test_the_library_reads_back_as_itself(op: str, dtype: str) -> None:
    for call, spec in calls(op, dtype):
        leaf = library_leaf(spec)
        assert leaf is not None and leaf.inline and not leaf.listed
        found = operations(leaf, call, "p")
        assert found is not None, leaf.source
        mine, its = shape(found, call), shape(expand_call(call, "l"), call)
        assert mine == its


GELU = next(spec for _, spec in calls("gelu"))
HEAD = "const vl_tile y = vl_matrix(Y), x = vl_matrix(X);\n"
PLAIN = {
    "one call": "vendor_lib_vec_scalar(VL_MAX, vl_matrix(Y), vl_matrix(X), 0.0);",
    "names": f"{HEAD}vendor_lib_vec_scalar(VL_MAX, y, x, -0.5f);",
    "a sum that C would do": f"{HEAD}const double third = 1.0 / 3;\nvendor_lib_vec_scalar(VL_MUL, y, x, 2 * third);",
    "a tile of the scratch": f"{HEAD}vl_tile t = vl_temp(scratch, 4096, x.rows, x.cols);\nvendor_lib_vec_unary(VL_EXP, t, x);\nvendor_lib_vec_unary(VL_COPY, y, t);",
    "integers": f"{HEAD}vl_tile t = vl_temp_of(scratch, 0, 1, X.n[0], VL_I32);\nvendor_lib_vec_unary(VL_COPY, t, x);\nvendor_lib_vec_unary(VL_COPY, y, t);",
    "it waits for itself": f"{HEAD}vendor_lib_vec_unary(VL_EXP, y, x);\nvendor_lib_sync();\nvendor_lib_vec_unary(VL_COPY, y, y);",
    "lowest": f"{HEAD}vendor_lib_fill(y, -VL_INF);",
}  # fmt: skip
FUNCTIONS = {
    "a condition": f"{HEAD}if (x.cols > 3) {{ vendor_lib_vec_unary(VL_EXP, y, x); }}",
    "a tile that is changed": "vl_tile y = vl_matrix(Y);\ny.cols = 3;\nvendor_lib_vec_unary(VL_EXP, y, vl_matrix(X));",
    "a tile made by hand": f"{HEAD}vl_tile t = {{X.space, X.addr, 1, X.n[0], X.n[0], X.dtype}};\nvendor_lib_vec_unary(VL_EXP, y, t);",
    "it writes what it reads": f"{HEAD}vendor_lib_vec_unary(VL_EXP, x, x);\nvendor_lib_vec_unary(VL_COPY, y, x);",
    "a part that may leave its tile": f"{HEAD}vendor_lib_vec_unary(VL_EXP, vl_part(y, 0, 1, 1, x.cols), x);",
    "tiles that share scratch": f"{HEAD}vl_tile a = vl_temp(scratch, 0, 1, x.cols), b = vl_temp(scratch, 64, 1, x.cols);\nvendor_lib_vec_unary(VL_EXP, a, x);\nvendor_lib_vec_unary(VL_EXP, b, a);\nvendor_lib_vec_unary(VL_COPY, y, b);",
    "more than its scratch": f"{HEAD}vl_tile a = vl_temp(scratch, 65536, 1, x.cols);\nvendor_lib_vec_unary(VL_EXP, a, x);\nvendor_lib_vec_unary(VL_COPY, y, a);",
    "before its scratch": f"{HEAD}vl_tile a = vl_temp(scratch, -64, 1, x.cols);\nvendor_lib_vec_unary(VL_EXP, a, x);\nvendor_lib_vec_unary(VL_COPY, y, a);",
    "no rows": f"{HEAD}vl_tile a = vl_temp(scratch, 0, -1, x.cols);\nvendor_lib_vec_unary(VL_COPY, y, a);",
    "another size": f"{HEAD}vendor_lib_vec_unary(VL_EXP, y, vl_part(x, 0, 0, 1, 3));",
    "numbers in single precision": f"{HEAD}vendor_lib_vec_scalar(VL_MUL, y, x, 1.0f / 3.0f);",
    "an event that nobody takes": f"{HEAD}vendor_lib_vec_unary(VL_EXP, y, x);\nvendor_lib_set(VL_Q_VEC, VL_Q_MMA, 48);",
    "it moves": f"{HEAD}vendor_lib_dma_copy(y, x);",
    "nothing": "(void)scratch;",
    "a name of a view": f"{HEAD}const int X = 3;\nvendor_lib_vec_unary(VL_EXP, y, vl_matrix(X));",
}  # fmt: skip
"""What may mean something else where it is called, or what the simulator refuses in a function."""


def called(spec: LeafSpec, extent: Expr) -> ir.LeafCall:
    """Return a call of a leaf whose vectors have a size that is known when it runs."""
    args = tuple(
        ir.LeafArg(
            param=p.name,
            region=ir.Region.whole(
                ir.Buffer(name=f"{p.name}_s", shape=p.shape, dtype=p.dtype, mem=p.mem), (extent,)
            ),
            privilege=p.privilege,
        )
        for p in spec.params
    )
    return ir.LeafCall(task=spec.task, impl="auto", args=args, prims=spec.prims, symbol=spec.symbol)


def written(spec: LeafSpec, body: str) -> Leaf:
    return Leaf(spec=spec, writer="llm", name="own", source=f"{signature(spec)} {{\n{body}\n}}\n")


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_list_is_read(name: str) -> None:
    for extent in (Const(GELU.params[0].shape[0]), minimum(1024, Const(9) - Var("i"))):
        found = operations(written(GELU, PLAIN[name]), called(GELU, extent), "p")
        assert found and all(isinstance(s, ir.Alloc | ir.LeafCall) for s in found)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_more_stays_a_function(name: str) -> None:
    call = called(GELU, Const(GELU.params[0].shape[0]))
    assert operations(written(GELU, FUNCTIONS[name]), call, "p") is None


PRODUCT = """  const vl_tile c = vl_matrix(C), a = vl_matrix(A), b = vl_matrix(B);
  vendor_lib_mma(c, a, b, 0);"""
TWO = f"""{PRODUCT}
  vendor_lib_set(VL_Q_MMA, VL_Q_VEC, 48);
  vendor_lib_wait(VL_Q_MMA, VL_Q_VEC, 48);
  vendor_lib_vec_scalar(VL_ADD, c, c, 1.0);"""
LOOP = """  const vl_tile c = vl_matrix(C);
  for (int i = 0; i < c.rows; i++) {
    vendor_lib_vec_scalar(VL_ADD, vl_part(c, i, 0, 1, c.cols), vl_part(c, i, 0, 1, c.cols), 1.0);
  }
  vendor_lib_set(VL_Q_VEC, VL_Q_MMA, 49);
  vendor_lib_wait(VL_Q_VEC, VL_Q_MMA, 49);
  vendor_lib_mma(c, vl_matrix(A), vl_matrix(B), 0);"""
UNORDERED = f"{PRODUCT}\n  vendor_lib_vec_scalar(VL_ADD, c, c, 1.0);"


@pytest.mark.parametrize("body", [TWO, LOOP])
def test_a_leaf_on_two_queues_is_put_in_place(body: str, tmp_path: Path) -> None:
    """One turn of the loop over k, so that 1 is added once."""
    kernel = kernel_of(gemm(50, 37, 30), own={"mma": body})
    symbol = next(leaf.spec.symbol for leaf in kernel.leaves if leaf.name == "own")
    assert f"  {symbol}(" not in kernel.source and body in held(kernel.source, symbol)
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((50, 30), (30, 37)))
    found, report = run_text(kernel, tmp_path, [np.zeros((50, 37), np.float32), a, b], "compute")
    assert report["errors"] == []
    np.testing.assert_allclose(found[0], a @ b + 1, rtol=1e-4, atol=1e-4)


def test_queues_that_nothing_orders_are_the_leafs_own_fault(tmp_path: Path) -> None:
    kernel = kernel_of(gemm(50, 37, 30), own={"mma": UNORDERED})
    arrays = [np.zeros(s, np.float32) for s in ((50, 37), (50, 30), (30, 37))]
    errors = run_text(kernel, tmp_path, arrays)[1]["errors"]
    assert errors and "nothing orders them" in errors[0]


@pytest.mark.wider
def test_a_plain_leaf_takes_the_librarys_cycles(tmp_path: Path) -> None:
    leaf = next(iter(consistency.leaves("dsa_c", "softmax", "float32")))
    found = consistency.sent_back(leaf, "softmax", "float32", tmp_path)
    assert found.verified and found.speedup == 1.0, found.message


def test_a_stored_kernel_says_what_was_put_in_place() -> None:
    """Its text alone is what a proof reads: with the leaf in it the Program is printed again, and is the same."""
    plan = resolve(GenRequest(op="gelu", backend="dsa_c", dims={"N": 5000}))
    lowered = lower_plan(plan)
    spec = leaf_specs(lowered.program)[0][1]
    kernel = DSA_C.emit(lowered.program, {spec.key: written(spec, PLAIN["a tile of the scratch"])})
    stored = replace(kernel, leaves=())
    for one in (kernel, stored):
        proof = prove_lowered(plan, lowered, kernel=one)
        text = next(r for r in proof.certificate.rules if r.rule == "text")
        assert text.state == "proved", text.findings


def spec_of(
    prim: ir.Prim, *shapes: tuple[int, ...], mem: str = "SHARED", step: int = 1
) -> LeafSpec:
    params = tuple(
        LeafParam(
            name=name,
            shape=s,
            dtype="float32",
            mem=mem,
            layout="row",
            privilege="w" if name == "Y" else "r",
            ragged=(False,) * len(s),
            step=(*(1,) * (len(s) - 1), step),
        )
        for name, s in zip("YXZ", shapes, strict=False)
    )
    return LeafSpec(task="t", backend="dsa_c", arch="generic", proc="CORE", params=params, scalars=(), prims=(prim,))  # fmt: skip


MOVED = ir.Prim(name="transpose", out="Y", ins=("X",), attrs=(("perm", (1, 0, 2)),))
COPIED = ir.Prim(name="copy", out="Y", ins=("X",))
PRODUCT_OF = ir.Prim(name="gemm", out="Y", ins=("X", "Z"))
SUMS = ir.Prim(name="scan", out="Y", ins=("X",), attrs=(("axis", 0), ("op", "sum")))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (spec_of(MOVED, (4, 3, 5), (3, 4, 5)), "it moves other axes than the last two"),
        (spec_of(COPIED, (4, 8), (4, 8), step=2), "neighbours in a row of Y are 2 elements apart"),
        (spec_of(PRODUCT_OF, (4, 4), (4, 4), (4, 4)), "a tile of its own in REGISTER"),
    ],
)
def test_what_a_leaf_cannot_say_is_told(spec: LeafSpec, says: str) -> None:
    leaf = library_leaf(spec)
    assert leaf is not None and leaf.listed and says in leaf.source
    assert "dsa." in leaf.source or "copy" in leaf.source


def test_loops_over_leading_dims_and_slices_are_said() -> None:
    leaf = library_leaf(spec_of(COPIED, (2, 3, 4, 5), (2, 3, 4, 5)))
    assert leaf is not None and not leaf.listed
    assert "vl_matrix(vl_slice(vl_slice(X, i), i2))" in leaf.source
    assert "(Y, i)" in leaf.source
    scan = library_leaf(spec_of(SUMS, (6, 16), (6, 16)))
    assert scan is not None and "vl_part(Y_tile, (tmp_r1 + 1), 0, 1, Y.n[1])" in scan.source


def test_operands_in_global_memory_are_copied_in_order() -> None:
    leaf = library_leaf(spec_of(COPIED, (4, 16), (4, 16), mem="GLOBAL"))
    assert leaf is not None and not leaf.listed
    order = re.findall(r"vendor_lib_(\w+)\((?:VL_Q_(\w+), VL_Q_(\w+))?", leaf.source)
    assert order == [
        ("dma_copy", "", ""),
        ("set", "LOAD", "STORE"),
        ("wait", "LOAD", "STORE"),
        ("dma_copy", "", ""),
    ]
