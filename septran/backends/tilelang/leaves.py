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

from septran.backends.text.pystyle import MapDialect, Term, map_text, safe_name
from septran.backends.tilelang.contract import emit_gemm, emit_reduce
from septran.backends.tilelang.leaf_text import (
    FLOATS,
    IDENTITY,
    INDICES,
    LeafText,
    cast,
    compute_dtype,
)
from septran.backends.tilelang.shapes import (
    groups,
    logical_index,
    operand_index,
    physical_index,
)
from septran.ir.nodes import Prim
from septran.kernel import Leaf, LeafSpec

PRELUDE = '''\
def keep_nan(result, *operands):
    """Give NaN where an operand is NaN: T.max and T.min alone would drop it."""
    for x in operands:
        result = T.if_then_else(T.isnan(x), x, result)
    return result
'''


def _extremum(name: str, a: Term, b: Term) -> str:
    watched = ", ".join(t.text for t in (a, b) if t.literal is None)
    result = f"T.{name}({a.text}, {b.text})"
    return f"keep_nan({result}, {watched})" if watched else result


TILELANG_MAP = MapDialect(
    functions={
        "exp": "T.exp({0})",
        "exp2": "T.exp2({0})",
        "log": "T.log({0})",
        "sqrt": "T.sqrt({0})",
        "rsqrt": "T.rsqrt({0})",
        "tanh": "T.tanh({0})",
        "sigmoid": "1.0 / (1.0 + T.exp(-({0})))",
        "erf": "T.erf({0})",
        "abs": "T.abs({0})",
        "select": "T.if_then_else({0}, {1}, {2})",
        "max": "T.max({0}, {1})",
        "min": "T.min({0}, {1})",
        "pow": "T.pow({0}, {1})",
    },
    cast=cast,
    infinity=lambda dtype: f'T.infinity("{dtype}")',
    literal=lambda text, dtype: f"T.{dtype}({text})",
    extremum=_extremum,
)


def ragged_args(spec: LeafSpec) -> tuple[tuple[str, int], ...]:
    """Return (param, dim) of every run-time extent a leaf macro takes, in order."""
    return tuple((p.name, d) for p in spec.params for d, short in enumerate(p.ragged) if short)


def signature(spec: LeafSpec) -> str:
    """Return the `def` line of the leaf macro."""
    names = [safe_name(p.name) for p in spec.params]
    names += [f"{p}_{d}" for p, d in ragged_args(spec)]
    names += [safe_name(name) for name, _ in spec.scalars]
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
    operands: dict[str, Term] = {}
    dtype = compute_dtype(leaf.spec, [prim.out, *(p for _, p in prim.named)])
    scalars = dict(leaf.spec.scalars)
    for name, param in prim.named:
        if param in scalars:
            operands[name] = scalar_term(param, scalars[param])
            continue
        p = leaf.param(param)
        index = operand_index(out.shape, names, p.shape)
        text = f"{safe_name(p.name)}[{', '.join(index)}]"
        operands[name] = tensor_term(text, p.dtype, dtype)
    for name, kind in scalars.items():
        operands.setdefault(name, scalar_term(name, kind))
    logical = logical_index(out.shape, names)
    term = map_text(str(prim.attr("expr")), operands, lambda d: logical[d], TILELANG_MAP, dtype)
    with leaf.lines.block(leaf.loop(out)):
        text = term.text
        if term.literal is not None:
            text = f"T.{dtype}({text})"
            term = Term(text, "float")
        leaf.store(out, rounded(text, _kind_of(term, dtype), out.dtype))


def _kind_of(term: Term, dtype: str) -> str:
    return "wide" if term.kind == "float" and dtype == "float64" else term.kind


def tensor_term(text: str, stored: str, dtype: str) -> Term:
    """Return an operand read from a buffer of dtype `stored`, ready for arithmetic in `dtype`."""
    if stored == "bool":
        return Term(text, "bool")
    if stored in FLOATS:
        return Term(text if stored == dtype else cast(text, dtype), "float")
    return Term(text, "int")


def scalar_term(name: str, kind: str) -> Term:
    """Return a scalar argument: an integer, or a float constant passed by name."""
    return Term(safe_name(name), "int" if kind == "int" else "float")


def emit_fill(leaf: LeafText, prim: Prim) -> None:
    """Y = value, with zero padding."""
    out = leaf.param(prim.out)
    value = float(prim.attr("value", 0.0))  # type: ignore[arg-type]
    name = safe_name(out.name)
    if out.dtype in FLOATS:
        text = (
            TILELANG_MAP.infinity(out.dtype)
            if value in IDENTITY.values() and abs(value) > 1
            else repr(value)
        )
        text = f"-{text}" if value == float("-inf") else text
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
        leaf.lines.add(f"T.copy({safe_name(src.name)}, {safe_name(out.name)})")
        return
    names = INDICES[: len(groups(out.shape))]
    index = operand_index(out.shape, names, src.shape)
    text = f"{safe_name(src.name)}[{', '.join(index)}]"
    with leaf.lines.block(leaf.loop(out)):
        leaf.store(out, text if src.dtype == out.dtype else cast(text, out.dtype))


def emit_transpose(leaf: LeafText, prim: Prim) -> None:
    """Y.shape[d] = X.shape[perm[d]]; goes through shared memory, which every thread can read."""
    out, src = leaf.param(prim.out), leaf.param(prim.ins[0])
    perm = prim.attr("perm")
    assert isinstance(perm, list | tuple)
    name = safe_name(src.name)
    if src.mem == "REGISTER":
        shared = leaf.temp(name, src.dtype, "shared")
        leaf.lines.add(f"T.copy({name}, {shared})")
        name = shared
    logical = logical_index(out.shape, INDICES[: len(groups(out.shape))])
    source = [""] * len(src.shape)
    for d, axis in enumerate(perm):
        source[int(axis)] = logical[d]
    text = f"{name}[{', '.join(physical_index(src.shape, source))}]"
    with leaf.lines.block(leaf.loop(out)):
        leaf.store(out, text if src.dtype == out.dtype else cast(text, out.dtype))


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
    }
    leaf = LeafText(spec)
    leaf.lines.add("@T.macro")
    with leaf.lines.block(signature(spec).splitlines()[1]):
        for prim in spec.prims:
            if prim.name not in emitters:
                return None
            emitters[prim.name](leaf, prim)
    names = "+".join(dict.fromkeys(p.name for p in spec.prims))
    return Leaf(spec=spec, writer="library", name=f"tilelang_{names}", source=str(leaf.lines))
