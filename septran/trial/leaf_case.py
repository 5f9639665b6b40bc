"""A leaf on its own: the smallest Program and Problem that call one leaf on its primitives' meaning.

The Program stages the operands exactly as the kernel does (memories, layouts), and its ragged
extents are run-time expressions, so its LeafSpec equals the kernel's and the same source fits both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from septran.ir import nodes as ir
from septran.ir.access import map_buffers, map_statements, regions
from septran.ir.expr import Bin, Const, Expr, Var
from septran.kernel import LeafSpec, kernel_params, leaf_specs
from septran.reference import Reference
from septran.rounding import Rounding
from septran.tasklang.primitives import PRIMITIVES
from septran.verify.problem import Problem

Dim = tuple[str, int]
"""(parameter, axis)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafCase:
    """A leaf's Program and Problem for one choice of run-time extents."""

    program: ir.Program
    problem: Problem
    label: str


def leaf_cases(
    spec: LeafSpec, *, machine: str, scalars: Mapping[str, int] | None = None
) -> tuple[LeafCase, ...]:
    """Return the cases a leaf is judged on: its full tile, and each ragged dim cut to 1 and to an odd size."""
    groups = _dim_groups(spec)
    ragged = [g for g in groups if any(_ragged(spec, d) for d in g)]
    shapes: list[dict[Dim, int]] = [{}]
    odd = {d: max(1, (_bound(spec, g) * 5) // 8 | 1) for g in ragged for d in g}
    if ragged:
        shapes.append({d: min(odd[d], _bound(spec, g)) for g in ragged for d in g})
        shapes.append({d: 1 for g in ragged for d in g})
    found = []
    for cut in shapes:
        label = (
            "full tile"
            if not cut
            else "edge tile " + "x".join(str(n) for n in dict.fromkeys(cut.values()))
        )
        found.append(_case(spec, cut, machine, dict(scalars or {}), label))
    return tuple(found)


def _ragged(spec: LeafSpec, dim: Dim) -> bool:
    param = next(p for p in spec.params if p.name == dim[0])
    return param.ragged[dim[1]]


def _bound(spec: LeafSpec, group: frozenset[Dim]) -> int:
    return min(p.shape[axis] for p in spec.params for name, axis in group if p.name == name)


def _dim_groups(spec: LeafSpec) -> list[frozenset[Dim]]:
    """Return the dims that have equal extents, by the primitives' index letters."""
    parent: dict[Dim, Dim] = {
        (p.name, d): (p.name, d) for p in spec.params for d in range(len(p.shape))
    }

    def find(x: Dim) -> Dim:
        while parent[x] != x:
            x = parent[x]
        return x

    shapes = {p.name: p.shape for p in spec.params}
    for prim in spec.prims:
        for a, b in _equal_dims(prim, shapes):
            if shapes[a[0]][a[1]] == shapes[b[0]][b[1]]:
                parent[find(a)] = find(b)
    groups: dict[Dim, set[Dim]] = {}
    for dim in parent:
        groups.setdefault(find(dim), set()).add(dim)
    return [frozenset(g) for g in groups.values()]


def _equal_dims(prim: ir.Prim, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[Dim, Dim]]:
    ranks = {name: len(shape) for name, shape in shapes.items()}
    out = prim.out
    if prim.name in ("gemm", "gemm_acc"):
        a, b = prim.ins
        ra, rb, rc = ranks[a], ranks[b], ranks[out]
        am, ak = (ra - 1, ra - 2) if prim.attr("trans_a") else (ra - 2, ra - 1)
        bk, bn = (rb - 1, rb - 2) if prim.attr("trans_b") else (rb - 2, rb - 1)
        yield (a, ak), (b, bk)
        yield (out, rc - 1), (b, bn)
        yield (out, rc - 2), (a, am)
        rows_c = [d for d in range(rc - 2) if shapes[out][d] != 1]
        rows_a = [d for d in range(ra - 2) if shapes[a][d] != 1]
        yield from (((out, c), (a, d)) for c, d in zip(rows_c, rows_a, strict=False))
    elif prim.name in ("gather", "scatter_acc"):
        many = out if prim.name == "gather" else prim.ins[0]
        for d in range(ranks[out]):
            yield (many, d), (prim.ins[1], d)
            if d != prim.axis(ranks[out]):
                yield (out, d), (prim.ins[0], d)
    elif prim.name in ("reduce", "reduce_acc", "argreduce"):
        x = prim.ins[0]
        along = prim.axis(ranks[x])
        yield from (((out, d), (x, d)) for d in range(ranks[x]) if d != along)
    elif prim.name == "extern":
        return
    elif prim.name == "transpose":
        yield from (((out, d), (prim.ins[0], p)) for d, p in enumerate(prim.perm))
    else:
        for name in (*prim.ins, *(n for _, n in prim.named)):
            if name in ranks:
                shift = ranks[out] - ranks[name]
                yield from (((out, d + shift), (name, d)) for d in range(ranks[name]))


def _case(
    spec: LeafSpec, cut: Mapping[Dim, int], machine: str, scalars: dict[str, int], label: str
) -> LeafCase:
    params, args = [], []
    for p in spec.params:
        extents = tuple(cut.get((p.name, d), n) for d, n in enumerate(p.shape))
        shape = tuple((n - 1) * s + 1 for n, s in zip(extents, p.step, strict=True))
        buffer = ir.Buffer(
            name=f"{p.name}_in" if p.name == "p0" else p.name,
            shape=shape,
            dtype=p.dtype,
            mem="GLOBAL",
        )
        region = ir.Region(
            buffer=buffer,
            offset=(Const(0),) * len(shape),
            extent=tuple(
                _runtime(n, bound) if loose else Const(bound)
                for n, bound, loose in zip(extents, p.shape, p.ragged, strict=True)
            ),
            tile=p.shape,
            step=p.step,
            grid=(0,) * len(shape),
        )
        params.append(ir.Param(buffer=buffer, privilege=p.privilege))
        args.append(
            ir.LeafArg(
                param=p.name,
                region=region,
                privilege=p.privilege,
                mem="" if p.mem == "GLOBAL" else p.mem,
                unread=p.name in spec.unread,
            )
        )
    values = {
        name: scalars.get(name, 3) if kind == "int" else float(kind) for name, kind in spec.scalars
    }
    call = ir.LeafCall(
        task=spec.task,
        impl="auto",
        args=tuple(args),
        scalars=tuple(
            (n, _runtime(v, v + 1) if isinstance(v, int) else v) for n, v in values.items()
        ),
        prims=spec.prims,
    )
    program = ir.Program(
        name=f"leaf_{spec.task}",
        target=spec.backend,
        arch=spec.arch,
        machine=machine,
        params=tuple(params),
        body=(ir.For(var="p0", extent=Const(1), body=(call,), proc=spec.proc, parallel=True),)
        if spec.proc != "HOST"
        else (call,),
        options=spec.options,
    )
    return LeafCase(program=program, problem=_problem(spec, program, cut, values), label=label)


def _runtime(value: int, bound: int) -> Expr:
    """Return an expression of value `value` that the compiler does not see as a constant."""
    shift = Bin("*", Var("p0"), Const(max(bound, 1)))
    return Bin("min", Const(max(bound, 1)), Bin("-", Const(value), shift))


def _problem(
    spec: LeafSpec, program: ir.Program, cut: Mapping[Dim, int], values: Mapping[str, int | float]
) -> Problem:
    steps = {p.name: p.step for p in spec.params}
    outs = [p.name for p in spec.params if "w" in p.privilege]

    def computed(given: Mapping[str, Any], rounding: Rounding | None = None) -> Any:
        """Run the primitives; each result, or each sum by its terms, is then changed as `rounding` says."""
        import torch

        from septran.tasklang.oracle import apply_primitive
        from septran.tasklang.sums import root_of_squares

        terms = rounding is not None and rounding.of_terms
        change = rounding.changes() if rounding and not terms else None
        shift = rounding.shifts() if rounding and terms else None
        wide = next(
            (
                t.dtype
                for t in given.values()
                if hasattr(t, "is_floating_point") and t.is_floating_point()
            ),
            torch.float64,
        )
        tensors: dict[str, Any] = {}
        whole: dict[str, Any] = {}
        for p in program.params:
            name = p.buffer.name
            start = given.get(name)
            if start is None:
                start = torch.full(p.buffer.shape, float("nan"), dtype=wide)
            whole[name] = start.clone()
            strides = tuple(slice(None, None, s) for s in steps[name])
            tensors[name] = whole[name][strides]
        tensors.update(values)
        for prim in spec.prims:
            attrs = dict(prim.attrs) | {k: tensors[v] for k, v in prim.named}
            out, ins = tensors[prim.out], tuple(tensors[n] for n in prim.ins)
            scale = root_of_squares(prim.name, out, ins, attrs) if shift else None
            apply_primitive(prim.name, out, ins, attrs)
            if change and out.is_floating_point():
                out.copy_(change(out))
            elif shift and scale is not None:
                out.add_(shift(scale))
        found = tuple(whole[n] for n in outs)
        return found[0] if len(found) == 1 else found

    def reference(**given: Any) -> Any:
        return computed(given)

    magnitude = _magnitude(spec, reference, values) if _only_a_map(spec) else None
    reduced = [_reduction(prim, {p.name: p.shape for p in spec.params}) for prim in spec.prims]
    simple = len(spec.prims) == 1
    kind = {
        "gemm": "gemm",
        "gemm_acc": "gemm",
        "fill": "exact",
        "copy": "exact",
        "transpose": "exact",
    }
    return Problem(
        name=program.name,
        params=kernel_params(program),
        reference=Reference(
            fn=reference,
            rounded=lambda rounding: lambda **given: computed(given, rounding),
            summed=lambda rounding: lambda **given: computed(given, rounding),
            kind=kind.get(spec.prims[0].name, "chain") if simple else "chain",  # type: ignore[arg-type]
            reduction=lambda dims: max([1, *reduced]),
            magnitude=magnitude,
        ),
        dims={f"{n}.{d}": size for (n, d), size in itertools.islice(cut.items(), 16)},
    )


def _reduction(prim: ir.Prim, shapes: Mapping[str, tuple[int, ...]]) -> int:
    if prim.name == "extern":
        return max(n for shape in shapes.values() for n in shape)
    if not PRIMITIVES[prim.name].flops or prim.name == "map":
        return 1
    x = shapes[prim.ins[0]]
    if prim.name in ("gemm", "gemm_acc"):
        return x[-2] if prim.attr("trans_a") else x[-1]
    return x[prim.axis(len(x))]


def unused_operands(program: ir.Program, spec: LeafSpec) -> frozenset[str]:
    """Return the operands that a leaf writes and that nothing of its kernel reads afterwards."""
    read = {region.buffer.name for region, privilege in regions(*program.body) if "r" in privilege}
    calls = [call for call, own in leaf_specs(program) if own.key == spec.key]
    live = {
        arg.param
        for call in calls
        for arg in call.args
        if arg.region.buffer.mem == "GLOBAL" or arg.region.buffer.name in read
    }
    wrote = {p.name for p in spec.params if "w" in p.privilege}
    unread = frozenset(spec.unread)
    return unread | (wrote - live) if calls and wrote & live else unread


def _only_a_map(spec: LeafSpec) -> bool:
    """One formula on whole tiles: its nodes' roundings are known, so they are allowed for as in a kernel."""
    steps = {p.step for p in spec.params}
    return [p.name for p in spec.prims] == ["map"] and all(set(s) <= {1} for s in steps)


def _magnitude(
    spec: LeafSpec, reference: Callable[..., Any], values: Mapping[str, int | float]
) -> Callable[..., Any]:
    """Return the scale of roundings inside a map's formula, per element of its output."""
    prim = spec.prims[0]

    def magnitude(**given: Any) -> Any:
        from septran.tasklang.rounding import roundings

        y = reference(**given)
        tensors = {**given, **values}
        operands = {k: y if v == prim.out and v not in given else tensors[v] for k, v in prim.named}
        return roundings(str(prim.attr("expr")), operands, y)

    return magnitude


def as_in_the_kernel(program: ir.Program, spec: LeafSpec) -> ir.Program:
    """Return a leaf's lowered program with the operands where the kernel has them: memory, layout, and what is stored.

    Passes choose them from what else uses a buffer (a fragment's grid follows from the kernel's products, a copy into
    panels widens halves), and a leaf alone has no such neighbours.
    """
    call = ir.leaf_calls(program)[0]
    wanted = {p.name: p for p in spec.params}
    new: dict[str, ir.Buffer] = {}
    for arg in call.args:
        param, buffer = wanted[arg.param], arg.region.buffer
        placed = "GLOBAL" not in (buffer.mem, param.mem)  # what lies in GLOBAL was not placed
        here = replace(buffer, mem=param.mem, layout=param.layout, dtype=param.dtype)
        if placed and here != buffer:
            new[buffer.name] = here
    if not new:
        return program

    return replace(program, body=map_buffers(program.body, lambda b: new.get(b.name, b)))


def without_steps(program: ir.Program, unused: frozenset[str]) -> ir.Program:
    """Return a leaf's lowered program that copies no operand of `unused` out: a leaf need not write what only holds a step between.

    A simulator that knows what was written would take the copy for the leaf's own mistake.
    """

    def kept(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
        if not isinstance(stmt, ir.Copy):
            return (stmt,)
        to = stmt.dst.buffer
        return () if to.mem == "GLOBAL" and to.name in unused else (stmt,)

    return replace(program, body=map_statements(program.body, kept))
