"""Program -> C over a vendor's calls, through TensorIR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from septran.backends.dsa.codegen import CodeGenDSA
from septran.backends.dsa.machine import Storage, storage
from septran.backends.dsa.passes.expand_leaves import can_expand, expand_call, expand_leaves
from septran.backends.dsa.passes.operations import whole
from septran.backends.dsa.passes.order_engines import distribute, order_engines
from septran.backends.dsa.tir import to_prim_func
from septran.backends.dsa.vendor import Vendor, load_vendor
from septran.ir.expr import Const
from septran.ir.nodes import (
    Alloc,
    Buffer,
    For,
    LeafArg,
    LeafCall,
    Program,
    Region,
    Stmt,
    When,
)
from septran.kernel import Kernel, KernelParam, Leaf, LeafSpec, leaf_specs
from septran.passes.place_buffers import place_buffers

INLINE = "/* dsa operations, expanded in place */"
"""First line of a library leaf: the compiler expands its operations; other leaves are C functions."""
SCRATCH_BYTES = 65536


def runtime_folder() -> Path:
    """Return the folder with the vendor headers and the simulator."""
    return Path(__file__).resolve().parent / "simulator"


def library_leaf(spec: LeafSpec) -> Leaf | None:
    """Return the library's leaf of `spec`: its list of operations; None when a primitive is missing."""
    if can_expand(spec.prims):
        return None
    args = tuple(
        LeafArg(
            param=p.name,
            region=whole(
                Buffer(name=p.name, shape=p.shape, dtype=p.dtype, mem=p.mem),
                tuple(Const(n) for n in p.shape),
            ),
            privilege=p.privilege,
        )
        for p in spec.params
    )
    scalars = tuple(
        (name, Const(1) if value == "int" else float(value)) for name, value in spec.scalars
    )
    call = LeafCall(task=spec.task, impl="auto", args=args, scalars=scalars, prims=spec.prims)
    lines = [INLINE]
    for stmt in expand_call(call, "tmp"):
        lines.extend(_describe(stmt))
    gemm = any(p.name.startswith("gemm") for p in spec.prims)
    return Leaf(
        spec=spec,
        writer="library",
        name="dsa.mma" if gemm else "dsa.vec",
        source="\n".join(lines) + "\n",
    )


def _describe(stmt: Stmt) -> list[str]:
    from septran.ir.nodes import Copy

    match stmt:
        case Alloc(buffer=b):
            return [f"{b.name} = alloc {b.mem} {b.dtype}{list(b.shape)}"]
        case Copy():
            return [f"copy {stmt.dst.buffer.name} <- {stmt.src.buffer.name}"]
        case LeafCall():
            names = [a.region.buffer.name for a in stmt.args]
            names += [str(v) for _, v in stmt.scalars]
            return [f"{stmt.impl}({', '.join(names)})"]
        case For():
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


def arrange(
    program: Program, inline: Mapping[int, bool] | None = None, *, rules: Storage | None = None
) -> Program:
    """Return `program` with leaves expanded, buffers placed, cores and engines ordered.

    inline: id(call) -> whether the library expands it; calls not named are expanded.
    """
    rules = rules or storage(program.machine)
    chosen = inline or {}
    program = expand_leaves(program, lambda call: chosen.get(id(call), True))
    program = place_buffers(program, rules.banks(), rules.nbytes)
    return order_engines(distribute(program), rules.nbytes, rules.limit("events", 64))


def check_capacity(program: Program) -> Program:
    """Pass: return `program`; raises MappingError M011 when its buffers and temporaries do not fit."""
    rules = storage(program.machine)
    place_buffers(expand_leaves(program), rules.banks(), rules.nbytes)
    return program


def emit(program: Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the kernel of `program` in C over the calls of its machine's vendor."""
    rules = storage(program.machine)
    return emit_for(program, leaves, load_vendor(rules.vendor), rules)


def emit_for(
    program: Program, leaves: Mapping[str, Leaf], vendor: Vendor, rules: Storage | None = None
) -> Kernel:
    """Return the kernel of `program` in C over the calls of `vendor`; entry `<name>_entry`."""
    rules = rules or storage(program.machine)
    specs = leaf_specs(program)
    used = {spec.key: leaves[spec.key] for _, spec in specs}
    inline = {id(c): leaves[s.key].source.startswith(INLINE) for c, s in specs}
    symbols = {id(c): s.symbol for c, s in specs}
    named = _name_functions(program, inline, symbols)
    calls = _functions(named)
    ready = arrange(named, {id(c): False for c in calls}, rules=rules)
    func = to_prim_func(ready, rules.pitch, expand=False)
    own = [leaf for leaf in used.values() if not leaf.source.startswith(INLINE)]
    prelude = "".join(leaf.source.strip() + "\n\n" for leaf in own)
    entry = f"{program.name}_entry"
    main = f"{program.name}.c"
    text = CodeGenDSA(vendor).function(func, entry, prelude)
    files = [(main, text), ("vl_config.h", rules.config())]
    texts = dict(vendor.texts)
    for header in ("vendor_lib.h", *vendor.headers):
        body = texts.get(header) or (runtime_folder() / header).read_text(encoding="utf-8")
        if (header, body) not in files:
            files.append((header, body))
    return Kernel(
        name=program.name,
        backend=program.target,
        arch=program.arch,
        entry=entry,
        params=tuple(
            KernelParam(
                name=p.buffer.name,
                shape=p.buffer.shape,
                dtype=p.buffer.dtype,
                privilege=p.privilege,
            )
            for p in program.params
        ),
        main=main,
        files=tuple(files),
        leaves=tuple(used.values()),
        options=program.options,
    )


def _name_functions(
    program: Program, inline: Mapping[int, bool], symbols: Mapping[int, str]
) -> Program:
    """Give calls of C leaves their symbol and a scratch buffer."""
    count = 0

    def body(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        nonlocal count
        out: list[Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, For | When):
                out.append(replace(stmt, body=body(stmt.body)))
            elif isinstance(stmt, LeafCall) and not inline[id(stmt)]:
                buffer = Buffer(
                    name=f"scratch_{count}",
                    shape=(SCRATCH_BYTES // 4,),
                    dtype="float32",
                    mem="SHARED",
                )
                count += 1
                region: Region = whole(buffer, (Const(SCRATCH_BYTES // 4),))
                extra = LeafArg(param="scratch", region=region, privilege="w")
                # scalars come before the scratch in the signature
                out.append(Alloc(buffer=buffer))
                out.append(replace(stmt, impl=f"fn.{symbols[id(stmt)]}", args=(*stmt.args, extra)))
            else:
                out.append(stmt)
        return tuple(out)

    return replace(program, body=body(program.body))


def _functions(program: Program) -> list[LeafCall]:
    from septran.ir.nodes import leaf_calls

    return [c for c in leaf_calls(program) if c.impl.startswith("fn.")]
