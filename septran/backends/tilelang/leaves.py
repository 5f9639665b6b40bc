"""The shipped TileLang leaves: one macro per leaf, derived from its primitives.

Contract of a leaf macro (also what a leaf writer must reproduce, see `signature`):

    @T.macro
    def SYMBOL(C, A, ..., <param>_<dim>, ..., <scalars>):

Tensors are whole scratch buffers (fragments, or shared tiles for matrix operands) laid out as in
`shapes`. `<param>_<dim>` is the run-time extent of each ragged dim. Padding (beyond the
tile or the run-time extent) is zero on entry and must be zero, or at least finite where nothing
contracts it, on return; library leaves keep it zero.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

from septran.backends.text.spell import argument, spell
from septran.backends.tilelang.along import (
    emit_argreduce,
    emit_gather,
    emit_scan,
    emit_scatter,
)
from septran.backends.tilelang.contract import emit_gemm, emit_reduce, in_shared
from septran.backends.tilelang.leaf_text import (
    INDICES,
    LeafText,
    cast,
    leaf_name,
)
from septran.backends.tilelang.shapes import (
    groups,
    is_aligned,
    logical_index,
    operand_index,
    physical_index,
)
from septran.backends.tilelang.spelling import SPELLING, literal
from septran.ir.dtypes import is_float, nbytes
from septran.ir.masks import changes_something
from septran.ir.nodes import Prim
from septran.ir.scalar import Const, Index, Name
from septran.ir.written_out import written_out
from septran.kernel import Leaf, LeafParam, LeafSpec

POWER = '''\
def power(s, n, k, near):
    """Give 2 ** ((s - n) * k), the weight of a score s with n the largest of its row; `near`: the power of two next to k."""
    r = T.if_then_else(T.abs(n) * k < 67108864.0, T.float32(k), T.float32(near))
    return T.exp2(s * r - n * r)
'''
IN_VECTORS = '''\
def in_vectors(tile, threads, n):
    """Spread a tile over the threads of a block so that each holds n neighbours of a row."""
    across = tile.shape[1] // n
    down = threads // across
    spread = lambda i, j: (i % down * across + j // n, i // down * n + j % n)
    T.annotate_layout({tile: T.Fragment(tile.shape, forward_fn=spread)})
'''
RESCALE = '''\
def rescale(m, n, k, near):
    """Give 2 ** ((m - n) * k), from weights of m to weights of n; each product rounded (no multiply-add) as `power` has it."""
    r = T.if_then_else(T.abs(n) * k < 67108864.0, T.float32(k), T.float32(near))
    low = T.float32(-3.4e38)
    return T.exp2(keep_nan(T.max(m * r, low), m) - keep_nan(T.max(n * r, low), n))
'''
KEEP_NAN = '''\
def keep_nan(result, *operands):
    """Give NaN where an operand is NaN: T.max and T.min alone would drop it."""
    for x in operands:
        result = T.if_then_else(T.isnan(x), x, result)
    return result
'''
_PRELUDE = {"in_vectors": IN_VECTORS, "rescale": RESCALE, "power": POWER, "keep_nan": KEEP_NAN}
"""What leaves may call, by name; a function before those that it calls."""


def prelude_of(sources: Sequence[str]) -> list[str]:
    """Return the functions that the sources of leaves call, in the order in which they are printed."""
    found: list[str] = []
    for name, text in _PRELUDE.items():
        if any(f"{name}(" in s for s in (*sources, *found)):
            found.insert(0, text)
    return found


def signature(spec: LeafSpec) -> str:
    """Return the `def` line of the leaf macro."""
    names = [leaf_name(p.name) for p in spec.params]
    names += [f"{p}_{d}" for p, d in spec.ragged]
    names += [leaf_name(name) for name, _ in spec.scalars]
    return f"@T.macro\ndef {spec.symbol}({', '.join(names)}):"


def rounded(text: str, kind: str, dtype: str) -> str:
    """Return the text cast for storing into `dtype` when it is not already."""
    if dtype == "bool":
        return text if kind == "bool" else f"({text}) != 0"
    if kind == "float" and dtype == "float32":
        return text
    return cast(text, dtype)


def emit_map(leaf: LeafText, prim: Prim) -> None:
    """Y[i] = expr."""
    out = leaf.param(prim.out)
    names = INDICES[: len(groups(out.shape))]
    dtype = leaf.spec.computes(prim)
    logical = logical_index(out.shape, names)
    apart = _axes_apart(leaf)

    def operand(node: Name | Index, want: str) -> str:
        if isinstance(node, Index):
            text, have = logical[node.axis], "int32"
            text = text if text.isidentifier() or text.isdigit() else f"({text})"
        elif not node.tile:
            text, have = leaf_name(node.name), "int32"
        else:
            p = leaf.param(node.name)
            index = operand_index(out.shape, names, p.shape)
            spread = apart and p.mem == "REGISTER" and any(len(at) > 1 for at in index)
            source = in_shared(leaf, p) if spread else leaf_name(p.name)
            text, have = f"{source}[{', '.join(index)}]", p.dtype
        own = have if have == "int64" else "int32"  # shorter ones would overflow
        wanted = {"float": dtype, "int": own}.get(want, want)
        return text if have == wanted else cast(text, wanted)

    tree = written_out(leaf.spec.printed(prim), SPELLING.formats, leaf.spec.computes(prim))
    if isinstance(tree, Const):
        text = argument(tree, SPELLING, operand, dtype)
    else:
        text = spell(tree, SPELLING, operand, dtype)
    only = changes_something(tree, out.name, out.shape)
    with contextlib.ExitStack() as stack:
        if only is not None and out.mem == "REGISTER":  # the same for all threads
            test = spell(only, SPELLING, operand)
            stack.enter_context(leaf.lines.block(f"if {test}:"))
        stack.enter_context(leaf.lines.block(leaf.loop(out)))
        kind = "wide" if tree.kind == "float" and dtype == "float64" else tree.kind
        leaf.store(out, rounded(text, kind, out.dtype))


def _axes_apart(leaf: LeafText) -> bool:
    """Return whether the leaf reduces along several axes: TileLang finds no layout of registers for rows and columns at once."""
    axes = {
        prim.axis(len(leaf.param(prim.ins[0]).shape))
        for prim in leaf.spec.prims
        if prim.name in ("reduce", "reduce_acc")
    }
    return len(axes) > 1


def emit_fill(leaf: LeafText, prim: Prim) -> None:
    """Y = value, with zero padding."""
    out = leaf.param(prim.out)
    value = float(prim.attr("value", 0.0))  # type: ignore[arg-type]
    name = leaf_name(out.name)
    if is_float(out.dtype):
        text = literal(value, out.dtype)
    else:
        text = str(bool(value)) if out.dtype == "bool" else str(int(value))
    if value == 0 or not leaf.valid(out):
        leaf.lines.add(f"T.fill({name}, {text})")
        return
    with leaf.lines.block(leaf.loop(out)):
        leaf.store(out, f"T.{out.dtype}({text})" if not text.startswith(("T.", "-T.")) else text)


def emit_copy(leaf: LeafText, prim: Prim) -> None:
    """Y = cast(X)."""
    out, src = leaf.param(prim.out), leaf.param(prim.ins[0])
    if out.shape == src.shape and out.ragged == src.ragged:
        leaf.lines.add(f"T.copy({leaf_name(src.name)}, {leaf_name(out.name)})")
        return
    names = INDICES[: len(groups(out.shape))]
    index = operand_index(out.shape, names, src.shape)
    text = f"{leaf_name(src.name)}[{', '.join(index)}]"
    with leaf.lines.block(leaf.loop(out)):
        leaf.store(out, text if src.dtype == out.dtype else cast(text, out.dtype))


def emit_transpose(leaf: LeafText, prim: Prim) -> None:
    """Y.shape[d] = X.shape[perm[d]]; goes through shared memory, which every thread can read."""
    out, src = leaf.param(prim.out), leaf.param(prim.ins[0])
    name = leaf_name(src.name)
    if _turns_vectors(leaf.spec, out, src):
        # rows four bytes longer than they are lie in other banks than their neighbours
        size = nbytes(src.dtype)
        leaf.lines.add(
            f'turned = T.alloc_shared(({name}.shape[0], {name}.shape[1] + {4 // size}), "{src.dtype}")'
        )
        with leaf.lines.block(leaf.loop(src)):
            leaf.lines.add(f"turned[i, j] = {name}[i, j]")
        leaf.lines.add(
            f"in_vectors({leaf_name(out.name)}, {_threads(leaf.spec)}, {16 // nbytes(out.dtype)})"
        )
        name = "turned"
    elif src.mem == "REGISTER":
        shared = leaf.temp(name, src.dtype, "shared")
        leaf.lines.add(f"T.copy({name}, {shared})")
        name = shared
    logical = logical_index(out.shape, INDICES[: len(groups(out.shape))])
    source = [""] * len(src.shape)
    for d, axis in enumerate(prim.perm):
        source[axis] = logical[d]
    text = f"{name}[{', '.join(physical_index(src.shape, source))}]"
    with leaf.lines.block(leaf.loop(out)):
        leaf.store(out, text if src.dtype == out.dtype else cast(text, out.dtype))


def _threads(spec: LeafSpec) -> int:
    found = dict(spec.options).get("threads", 0)
    return found if isinstance(found, int) else 0


def _turns_vectors(spec: LeafSpec, out: LeafParam, src: LeafParam) -> bool:
    """Return whether threads can write whole vectors of 16 bytes of the result, each thread as many."""
    held = out.mem == src.mem == "REGISTER" and len(spec.prims) == 1
    if not held or nbytes(src.dtype) > 4 or any(len(groups(p.shape)) != 2 for p in (out, src)):
        return False
    rows, columns = out.shape[-2:]
    across, over = divmod(columns, 16 // nbytes(out.dtype))
    plain = math.prod(out.shape[:-2]) == 1 and is_aligned(rows) and is_aligned(columns)
    threads = _threads(spec)
    return plain and not over and threads % across == 0 and rows % max(1, threads // across) == 0


def library(spec: LeafSpec) -> Leaf | None:
    """Return the shipped leaf for `spec`, None when a primitive has no TileLang form."""
    emitters = {
        "map": emit_map,
        "fill": emit_fill,
        "copy": emit_copy,
        "transpose": emit_transpose,
        "gemm": emit_gemm,
        "gemm_acc": emit_gemm,
        "reduce": emit_reduce,
        "reduce_acc": emit_reduce,
        "scan": emit_scan,
        "argreduce": emit_argreduce,
        "gather": emit_gather,
        "scatter_acc": emit_scatter,
    }
    leaf = LeafText(spec)
    leaf.lines.add("@T.macro")
    with leaf.lines.block(signature(spec).splitlines()[1]):
        for prim in spec.prims:
            if prim.name not in emitters:
                return None
            emitters[prim.name](leaf, prim)
        for name, total in leaf.again:
            p = leaf.param(name)
            names = INDICES[: len(groups(p.shape))]
            where = f"[{', '.join(names)}]"
            with leaf.lines.block(leaf.loop(p)):
                old = f"{leaf_name(name)}{where}"
                leaf.store(p, f"keep_nan({old}, {leaf_name(total)}{where})")
    kinds = "+".join(dict.fromkeys(p.name for p in spec.prims))
    return Leaf(spec=spec, writer="library", name=f"tilelang_{kinds}", source=str(leaf.lines))
