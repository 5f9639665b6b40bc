"""The leaf contract as text: everything a LeafSpec says, for a model (or a person) to read.

`render_leafspec` is what `septran show --leafspec` prints and what every prompt carries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from septran.accuracy import load_policy
from septran.agent.moved import SUMS, moved
from septran.agent.tile_work import tile_bytes, tile_flops
from septran.aten.text import parse_text
from septran.backends.base import Backend
from septran.ir.dtypes import HALVES
from septran.ir.nodes import Prim
from septran.kernel import UNREAD, LeafParam, LeafSpec
from septran.machine import load_machine

_INDEX = "ijklmnpqu"
_WORD = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*\()")
_CALLS = (
    "what the target's API document names and what the leaf itself defines; nothing that allocates, "
    "prints, waits, reads a clock or a file, or starts threads."
)
_ROOMY = 4 << 20  # bytes; a memory of this size never limits a leaf's tile
_PRIVILEGE = {
    "r": "read only",
    "w": "write only (undefined before: write every element, never read it first)",
    "rw": "read and written",
}


def render_leafspec(spec: LeafSpec, backend: Backend) -> str:
    """Return the contract: signature, parameters, meaning, edges, error allowed, machine.

    Raises:
        ConfigError: C012, C120 when the target's machine file is missing or malformed.
    """
    parts = [
        f"Leaf `{spec.symbol}` (task {spec.task}, key {spec.key})",
        f"Target: {backend.title}"
        + (f", arch {spec.arch}" if spec.arch else "")
        + f"; executed by one {spec.proc}"
        + (f"; options {_options(spec)}" if _options(spec) else ""),
        "",
        "Signature (generated, not to be changed):",
        _indent(backend.signature(spec).rstrip()),
        "",
        "Parameters (tile = upper bound of the run-time extent):",
        *(_indent(_param(p, spec)) for p in spec.params),
        *(_indent(_scalar(name, kind)) for name, kind in spec.scalars),
        "",
        "Meaning (in this order, each statement for all elements of its output):",
        *(_indent(f"{i}. {meaning(spec, p)}") for i, p in enumerate(spec.prims, 1)),
        "",
        "Edges: " + _edges(spec),
        "Arithmetic: " + _arithmetic(spec),
        "Error allowed: " + _budget(spec),
        "Compared: " + _compared(spec, backend),
        "Work of a full tile: " + _work(spec),
        "May be called: " + _CALLS,
        *_machine(spec, backend),
    ]
    return "\n".join(parts) + "\n"


_TIMED = "Then the kernel is timed against the same kernel with the library's leaf."
_RATED = (
    "Then it is rated against the same kernel with the library's leaf by what there is here: a device's clock, a "
    "simulator's cycles, or the registers and spills that the device's compiler reports."
)


def _compared(spec: LeafSpec, backend: Backend) -> str:
    if spec.opaque:
        return (
            "element by element, on what the module hands to the leaf for many secret inputs. No library has this leaf: what is "
            "written is the only one, so a plain right one is worth more than a fast one."
        )
    return (
        "element by element what the kernel reads after the leaf, at full and ragged extents, with NaN, infinities and "
        "large values among the inputs; a written operand that only holds a step in between is free. "
        + (_TIMED if backend.where == "native" else _RATED)
    )


def _work(spec: LeafSpec) -> str:
    read, written = tile_bytes(spec)
    flops = tile_flops(spec)
    rate = f" ({flops / (read + written):.2g} a byte)" if flops else ""
    return (
        f"{'unknown' if spec.opaque else format(flops, ',')} operations{rate} on {read:,} bytes read and {written:,} written; a function counts as 16, a division as 4. "
        "No leaf can be faster than these take on the units below."
    )


def _budget(spec: LeafSpec) -> str:
    policy = load_policy()
    wide = any(p.dtype == "float64" for p in spec.params)
    unit = f"u = 2^-{53 if wide else 24}"
    sums = f"{policy.zero_mean_coefficient:g} u times the sum of the absolute terms"
    maps = f"{policy.probe_coefficient:g} u pushed through the formula"
    names = {prim.name for prim in spec.prims}
    said = [
        text
        for text, of in (
            (f"sums and products within {sums}", SUMS),
            (f"maps within {maps}", {"map"}),
            ("copies exact", {"copy", "fill", "transpose", "gather"}),
            ("positions exact", {"argreduce"}),
            (_graph_budget(spec), {"extern"}),
        )
        if names & of
    ]
    return f"per element against float64, with {unit}: {', '.join(said)}; plus one rounding of the stored type."


def _graph_budget(spec: LeafSpec) -> str:
    """Return the budget of an opaque leaf: that of a chain (docs/verification.md), in the words of a formula."""
    policy = load_policy()
    terms = max(n for p in spec.params for n in p.shape)
    factor = policy.probe_coefficient + policy.probe_per_sqrt * math.sqrt(terms)
    return (
        f"the graph's result within {factor:.3g} u (that is {policy.probe_coefficient:g} + {policy.probe_per_sqrt:g} sqrt({terms})) "
        "times what a relative change of 1 in each input does to it at most (measured, to first order), "
        f"and {policy.torch_error_factor:g} times the error of torch in float32; so accumulate long sums in double"
    )


def _machine(spec: LeafSpec, backend: Backend) -> list[str]:
    machine = load_machine(backend.machine(spec.arch))
    held = {p.mem for p in spec.params}
    sizes = [
        f"{name} {memory.capacity // 1024} KiB"
        for name, memory in machine.memories.items()
        if name in held and memory.capacity and memory.capacity < _ROOMY
    ]
    facts = [*([f"capacity {', '.join(sizes)}"] if sizes else []), *machine.facts]
    return [f"Machine: {'; '.join(facts)}."] if facts else []


def _options(spec: LeafSpec) -> str:
    return ", ".join(f"{k}={v}" for k, v in spec.options if k != UNREAD)


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def _param(p: LeafParam, spec: LeafSpec) -> str:
    shape = " x ".join(f"<={n}" if r else str(n) for n, r in zip(p.shape, p.ragged, strict=True))
    facts = [f"{p.name}: {p.dtype} [{shape}]", f"in {p.mem}"]
    if p.layout != "row":
        facts.append(f"layout {layout_text(p.layout)}")
    if any(s != 1 for s in p.step):
        facts.append("step " + " x ".join(str(s) for s in p.step))
    unread = "; what the leaf leaves here is not read" if p.name in spec.unread else ""
    return ", ".join(facts) + f"; {_PRIVILEGE[p.privilege]}{unread}"


def layout_text(layout: str) -> str:
    """Return a layout's name with its element order."""
    kind, _, size = layout.partition(":")
    if kind == "panel_m":
        return f"{layout} (stored [ceil(m/{size})][k][{size}], zero padded)"
    if kind == "panel_n":
        return f"{layout} (stored [ceil(n/{size})][k][{size}], zero padded)"
    return layout


def _scalar(name: str, kind: str) -> str:
    return f"{name}: integer" if kind == "int" else f"{name}: the constant {kind}"


def _edges(spec: LeafSpec) -> str:
    ragged = [p.name for p in spec.params if any(p.ragged)]
    if not ragged:
        return "all extents equal their tile; strides are run-time values."
    return (
        f"the run-time extents of {', '.join(ragged)} can be smaller than the tile (1 <= extent <= tile); "
        "never read or write outside them."
    )


def _arithmetic(spec: LeafSpec) -> str:
    if spec.opaque:
        return "compute in float32 or double, as the error allows; round once when storing; inputs are finite."
    wide = any(p.dtype == "float64" for p in spec.params)
    text = f"compute and accumulate in {'float64' if wide else 'float32'}; round once when storing"
    if any(p.dtype in HALVES for p in spec.params):
        text += "; 16-bit types are storage only"
    return (
        text
        + "; max and min return NaN when an operand is NaN; inputs may hold NaN and infinities."
    )


def meaning(spec: LeafSpec, prim: Prim) -> str:
    """Return one primitive as an index equation, e.g. "C[i, j] += sum over k of A[i, k] * B[k, j]"."""
    shapes = {p.name: p.shape for p in spec.params}
    out = _indexed(prim.out, len(shapes[prim.out]))
    match prim.name:
        case "fill":
            return f"fill: {out} = {prim.attr('value')}"
        case "copy":
            return f"copy: {out} = {_broadcast(prim.ins[0], prim.out, shapes)}"
        case "transpose":
            return f"transpose: {out} = {_permuted(prim, shapes)}"
        case "gemm" | "gemm_acc":
            return f"{prim.name}: {_gemm(prim, shapes)}"
        case "map":
            expr = str(prim.attr("expr"))
            operands = {n: _broadcast(p, prim.out, shapes) for n, p in prim.named}
            return f"map: {out} = {substitute_operands(expr, operands)}"
        case "reduce" | "reduce_acc":
            return f"{prim.name}: {_reduce(prim, shapes)}"
        case "extern":
            return _extern(prim)
        case "scan" | "argreduce" | "gather" | "scatter_acc":
            return f"{prim.name}: {moved(prim, len(shapes[prim.out]))}"
    return f"{prim.name}: {prim.out} from {', '.join(prim.ins)} {dict(prim.attrs)}"


def substitute_operands(expr: str, operands: Mapping[str, str]) -> str:
    """Return the expression of a map with each operand's name replaced by `operands[name]`."""
    return _WORD.sub(lambda m: operands.get(m[0], m[0]), expr)


def _indexed(name: str, rank: int) -> str:
    return f"{name}[{', '.join(_INDEX[:rank])}]"


def broadcast_indices(shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[int | None, ...]:
    """Return, per dimension of an operand, the output dimension that indexes it; None stands for index 0."""
    shift = len(out) - len(shape)
    return tuple(None if n == 1 and out[d + shift] != 1 else d + shift for d, n in enumerate(shape))


def _broadcast(name: str, out: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    if name not in shapes:
        return name  # a scalar of the leaf
    found = broadcast_indices(shapes[name], shapes[out])
    return f"{name}[{', '.join('0' if d is None else _INDEX[d] for d in found)}]"


def _permuted(prim: Prim, shapes: Mapping[str, tuple[int, ...]]) -> str:
    source = ["?"] * len(shapes[prim.ins[0]])
    for d, p in enumerate(prim.perm):
        source[p] = _INDEX[d]
    return f"{prim.ins[0]}[{', '.join(source)}]"


def _gemm(prim: Prim, shapes: Mapping[str, tuple[int, ...]]) -> str:
    a, b = prim.ins[:2]
    lead = len(shapes[prim.out]) - 2
    rows = [*_INDEX[2 : 2 + lead], "i"] if lead else ["i"]
    rows = ["bcdefgh"[d] for d in range(lead)] + ["i"]

    def index(name: str, last: tuple[str, str], lead_of: list[str]) -> str:
        return f"{name}[{', '.join([*lead_of, *last])}]"

    a_lead = rows[:-1] if len(shapes[a]) > 2 else []
    b_lead = ["0"] * (len(shapes[b]) - 2)
    a_last = ("k", "i") if prim.attr("trans_a") else ("i", "k")
    b_last = ("j", "k") if prim.attr("trans_b") else ("k", "j")
    sign = "+=" if prim.name == "gemm_acc" else "="
    return (
        f"{index(prim.out, ('i', 'j'), rows[:-1])} {sign} sum over k of "
        f"{index(a, a_last, a_lead)} * {index(b, b_last, b_lead)}"
    )


def _extern(prim: Prim) -> str:
    """Return what an opaque leaf computes: its graph line by line, and which operand is which of its inputs."""
    graph = parse_text(str(prim.attr("graph")))
    result = graph.outputs[int(str(prim.attr("result", 0)))].value.name
    pairs = zip(graph.inputs, prim.ins, strict=True)
    given = [f"{one.name} is {name}" for one, name in pairs if one.name != name]
    lines = str(prim.attr("graph")).strip().splitlines()
    return "\n".join(
        [
            f"extern: {prim.out} = {result} of this PyTorch graph (ATen operators)"
            + (f", where {', '.join(given)}:" if given else ":"),
            *(f"     {line}" for line in lines),
        ]
    )


def _reduce(prim: Prim, shapes: Mapping[str, tuple[int, ...]]) -> str:
    source, op = prim.ins[0], prim.op
    axis = prim.axis(len(shapes[source]))
    letters = list(_INDEX[: len(shapes[source])])
    kept = ["0" if d == axis else letter for d, letter in enumerate(letters)]
    out = f"{prim.out}[{', '.join(kept[-len(shapes[prim.out]) :])}]"
    over = f"{op} over {letters[axis]} of {source}[{', '.join(letters)}]"
    if prim.name == "reduce":
        return f"{out} = {over}"
    joined = {"sum": f"{out} + ({over})", "prod": f"{out} * ({over})"}.get(
        op, f"{op}({out}, {over})"
    )
    return f"{out} = {joined}"


def primitive_words(spec: LeafSpec) -> frozenset[str]:
    """Return the words that select rows of the documentation's decision table."""
    words = {p.name for p in spec.prims}
    words |= {name.removesuffix("_acc") for name in words}
    words |= {str(p.attr("op")) for p in spec.prims if p.attr("op")}
    words |= {"softmax"} if {"reduce", "map"} <= words else set()
    return frozenset(words | {p.dtype for p in spec.params})
