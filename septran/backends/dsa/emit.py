"""Program -> C over a vendor's calls, through TensorIR."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from septran.backends.dsa import leaf_text
from septran.backends.dsa.codegen import CodeGenDSA
from septran.backends.dsa.leaf_tiles import NoText
from septran.backends.dsa.machine import Storage, storage
from septran.backends.dsa.passes.expand_leaves import can_expand, expand_call
from septran.backends.dsa.tir import to_prim_func
from septran.backends.dsa.vendor import Vendor, load_vendor
from septran.backends.text.seen import viewed
from septran.errors import ConfigError
from septran.ir import nodes as ir
from septran.kernel import Kernel, Leaf, LeafSpec

_PLACED = "/* put in place where it is called:\n"
_HEAD = "/* dsa operations, expanded in place"


def runtime_folder() -> Path:
    """Return the folder with the vendor headers and the simulator."""
    return Path(__file__).resolve().parent / "simulator"


def library_leaf(spec: LeafSpec) -> Leaf | None:
    """Return the library's leaf of `spec`: its operations, in place; None when a primitive is missing."""
    if can_expand(spec.prims):
        return None
    gemm = any(p.name.startswith("gemm") for p in spec.prims)
    try:
        source, listed = f"{signature(spec)} {{\n{leaf_text.body(spec)}}}\n", False
    except NoText as why:
        source, listed = _list(spec, str(why)), True
    return Leaf(
        spec=spec,
        writer="library",
        name="dsa.mma" if gemm else "dsa.vec",
        source=source,
        inline=True,
        listed=listed,
    )


def _list(spec: LeafSpec, why: str) -> str:
    """Return the operations of a leaf that has no text."""
    lines = [f"{_HEAD}: {why} */"]
    for stmt in expand_call(leaf_text.leaf_call(spec), "tmp"):
        lines.extend(_describe(stmt))
    return "\n".join(lines) + "\n"


def _describe(stmt: ir.Stmt) -> list[str]:
    from septran.ir.nodes import Copy

    match stmt:
        case ir.Alloc(buffer=b):
            return [f"{b.name} = alloc {b.mem} {b.dtype}{list(b.shape)}"]
        case Copy():
            return [f"copy {stmt.dst.buffer.name} <- {stmt.src.buffer.name}"]
        case ir.LeafCall():
            names = [a.region.buffer.name for a in stmt.args]
            names += [str(v) for _, v in stmt.scalars]
            return [f"{stmt.impl}({', '.join(names)})"]
        case ir.For():
            inner = [f"  {x}" for s in stmt.body for x in _describe(s)]
            return [f"for {stmt.var}:", *inner]
    return []


def signature(spec: LeafSpec) -> str:
    """Return the C declaration a leaf written by hand or by a model must define."""
    params = [f"vl_view {p.name}" for p in spec.params]
    params += [
        f"long {name}" if value == "int" else f"double {name}" for name, value in spec.scalars
    ]
    params.append("vl_view scratch")
    return f"static void {spec.symbol}({', '.join(params)})"


def emit(program: ir.Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the kernel of a finished `program` in C over the calls of its machine's vendor."""
    rules = storage(program.machine)
    return emit_for(program, leaves, load_vendor(rules.vendor), rules)


def emit_for(
    program: ir.Program, leaves: Mapping[str, Leaf], vendor: Vendor, rules: Storage | None = None
) -> Kernel:
    """Return the kernel of a finished `program` in C over the calls of `vendor`; entry `<name>_entry`.

    leaves: by symbol, in the order in which they are printed.
    """
    rules = rules or storage(program.machine)
    func = to_prim_func(program, rules.stored, expand=False)
    called = {call.symbol for call in ir.leaf_calls(program)}
    written = [leaf for leaf in leaves.values() if not leaf.inline]
    own = [leaf for leaf in written if leaf.spec.symbol in called]
    if vendor.lanes:
        _refuse_on_lanes(program, own, vendor)
    prelude = "".join(_function_or_note(leaf, leaf in own) for leaf in written)
    entry = f"{program.name}_entry"
    main = f"{program.name}.c"
    may = {leaf.spec.symbol: _may(leaf.spec) for leaf in own}
    text = CodeGenDSA(vendor, may).function(func, entry, prelude)
    config = [] if vendor.library is not None else [("vl_config.h", rules.config())]
    headers = vendor.headers if vendor.library is not None else ("vendor_lib.h", *vendor.headers)
    shipped = [(header, vendor.text(header)) for header in dict.fromkeys(headers)]
    files = [(main, text), *config, *shipped]
    return Kernel.of(
        program,
        entry=entry,
        main=main,
        files=tuple(files),
        leaves=leaves,
    )


def _function_or_note(leaf: Leaf, called: bool) -> str:
    text = leaf.source.strip()
    return f"{text}\n\n" if called else f"{_PLACED}{text}\n*/\n\n"


def held(text: str, symbol: str) -> str:
    """Return the leaf that a kernel says was put in place, "" when it says none of this symbol."""
    found = re.search(rf"^{re.escape(_PLACED)}(static void {symbol}\(.*?)^\*/$", text, re.M | re.S)
    return found[1] if found else ""


def _may(spec: LeafSpec) -> str:
    """Return what a leaf may do with each view, the scratch last: w, or r where it is read and nothing else."""
    free = set(spec.unread)
    return "".join("w" if "w" in p.privilege or p.name in free else "r" for p in spec.params) + "w"


def _refuse_on_lanes(program: ir.Program, own: Sequence[Leaf], vendor: Vendor) -> None:
    """Raise C122 where rows of a local tile cannot lie on lanes: a leaf in C, or a tile seen in another layout."""
    why, advice = "", f"see configs/vendors/{vendor.name}.yaml"
    if own:
        advice = "a leaf that is a plain list of calls is none: it is put where it is called (docs/backends.md)"
        why = f"no leaves that are functions in C: {own[0].spec.task}"
    flat = viewed(program)
    for b in ir.buffers(program):
        if b.mem != "GLOBAL" and b.name in flat:
            why = f"no tile across the lanes: {b.name} is seen in another layout"
    if why:
        raise ConfigError.of("C122", f"vendor table {vendor.name} has {why}", help=advice)
