"""Program -> C over a vendor's calls, through TensorIR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from septran.backends.dsa.codegen import CodeGenDSA
from septran.backends.dsa.machine import Storage, storage
from septran.backends.dsa.passes.expand_leaves import can_expand, expand_call
from septran.backends.dsa.passes.operations import whole
from septran.backends.dsa.tir import to_prim_func
from septran.backends.dsa.vendor import Vendor, load_vendor
from septran.backends.text.seen import viewed
from septran.errors import ConfigError
from septran.ir import nodes as ir
from septran.ir.expr import Const
from septran.kernel import Kernel, Leaf, LeafSpec

_HEAD = "/* dsa operations, expanded in place */"


def runtime_folder() -> Path:
    """Return the folder with the vendor headers and the simulator."""
    return Path(__file__).resolve().parent / "simulator"


def library_leaf(spec: LeafSpec) -> Leaf | None:
    """Return the library's leaf of `spec`: its list of operations; None when a primitive is missing."""
    if can_expand(spec.prims):
        return None
    args = tuple(
        ir.LeafArg(
            param=p.name,
            region=whole(
                ir.Buffer(name=p.name, shape=p.shape, dtype=p.dtype, mem=p.mem),
                tuple(Const(n) for n in p.shape),
            ),
            privilege=p.privilege,
        )
        for p in spec.params
    )
    scalars = tuple(
        (name, Const(1) if value == "int" else float(value)) for name, value in spec.scalars
    )
    call = ir.LeafCall(task=spec.task, impl="auto", args=args, scalars=scalars, prims=spec.prims)
    lines = [_HEAD]
    for stmt in expand_call(call, "tmp"):
        lines.extend(_describe(stmt))
    gemm = any(p.name.startswith("gemm") for p in spec.prims)
    return Leaf(
        spec=spec,
        writer="library",
        name="dsa.mma" if gemm else "dsa.vec",
        source="\n".join(lines) + "\n",
        inline=True,
    )


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
    own = [leaf for leaf in leaves.values() if not leaf.inline]
    if vendor.lanes:
        _refuse_on_lanes(program, own, vendor)
    prelude = "".join(leaf.source.strip() + "\n\n" for leaf in own)
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


def _may(spec: LeafSpec) -> str:
    """Return what a leaf may do with each view, the scratch last: w, or r where it is read and nothing else."""
    free = set(spec.unread)
    return "".join("w" if "w" in p.privilege or p.name in free else "r" for p in spec.params) + "w"


def _refuse_on_lanes(program: ir.Program, own: Sequence[Leaf], vendor: Vendor) -> None:
    """Raise C122 where rows of a local tile cannot lie on lanes: a leaf in C, or a tile seen in another layout."""
    why = ""
    if own:
        why = f"no leaves that are functions in C: {own[0].spec.task}"
    flat = viewed(program)
    for b in ir.buffers(program):
        if b.mem != "GLOBAL" and b.name in flat:
            why = f"no tile across the lanes: {b.name} is seen in another layout"
    if why:
        name = vendor.name
        raise ConfigError.of(
            "C122", f"vendor table {name} has {why}", help=f"see configs/vendors/{name}.yaml"
        )
