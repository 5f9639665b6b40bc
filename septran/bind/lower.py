"""Walk the traced tasks along the mapping's instances and write down the Program's statements.

Rule P (processors): going from level Q to a lower level P consumes one parallel loop: the one around
the launch, else the callee's outermost one (the instance is *spread*), else a grid of size 1.
Rule M (memories): an un-spread instance stages its arguments at entry; a spread one stages the
pieces at each leaf launch; a leaf binding may name memories of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from septran.bind.complete import check_complete, check_walked
from septran.bind.layout import Bound
from septran.bind.scope import Probe, Scope, Size, Value, loop_var
from septran.bind.shapes import check_shapes
from septran.bind.stream import stream_leaf
from septran.errors import MappingError, TaskLangError, closest
from septran.ir import nodes as ir
from septran.ir.access import regions
from septran.ir.expr import Const, Expr, bounds, free
from septran.machine import Machine
from septran.mapping.schema import Binding, Instance, Tune
from septran.tasklang.check import Traces, leaf_privileges
from septran.tasklang.tree import AllocLocal, Launch, Loop, Node, PrimCall, Task, Traced, walk
from septran.tasklang.values import Laid, Piece, Shift, SymInt, SymTensor, Tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSite:
    """One place where a leaf is launched; what policies look at. prims: as the file has them, not in steps."""

    instance: str
    task: str
    args: Mapping[str, Bound]
    local_args: frozenset[str]
    prims: tuple[ir.Prim, ...]
    privileges: Mapping[str, ir.Privilege]
    skips: bool
    """whether a loop around it leaves out blocks that depend on an outer loop, as below a diagonal"""


@dataclass(slots=True)
class Lowering:
    """The walk; one per bind."""

    traces: Traces
    tasks: Mapping[str, Task]
    instances: Mapping[str, Instance]
    machine: Machine
    missing: Callable[[str, Tunable | None], int | None]
    accumulate: str = "float32"
    probe: Probe = field(default_factory=Probe)
    sites: list[LeafSite] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    locals_seen: dict[str, set[str]] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    """inclusive range of every loop variable made so far"""
    symbolic: frozenset[str] = frozenset()
    """dims that stay open"""
    replaced: set[str] = field(default_factory=set)
    """tensors between the steps of a reduction that a streamed one has in the size of its blocks"""
    skipping: bool = False
    """whether the walk is in a loop that leaves blocks out"""

    def fresh(self, name: str) -> str:
        """Return `name`, or `name_2`, `name_3`, ... when it is taken."""
        self.taken[name] = self.taken.get(name, 0) + 1
        return name if self.taken[name] == 1 else self.fresh(f"{name}_{self.taken[name]}")

    def mem(self, name: str, instance: Instance, *path: str) -> str:
        """Return the canonical memory name (M010 when the machine has none such)."""
        memory = self.machine.memory(name)
        if memory is None:
            known = list(self.machine.memories)
            raise MappingError.of(
                "M010",
                f"{instance.name}: {self.machine.name} has no memory {name!r}; "
                f"it has {known}{closest(name, known)}",
                instance.span(*path),
            )
        return memory.name

    def instance(
        self, inst: Instance, chain: tuple[Instance, ...], env: dict[str, Value], level: int
    ) -> tuple[ir.Stmt, ...]:
        """Return the statements of one instance entered at processor level `level`."""
        chain = (*chain, inst)
        task = self.tasks.get(inst.task_name)
        if task is None:
            callee = self.instances[next(iter(inst.calls.values()))]
            return self.instance(callee, chain, env, level)
        ranks = {p: v.region.rank for p, v in env.items() if isinstance(v, Bound)}
        traced = self.traces.get(task, ranks)
        own = self.machine.level(inst.proc)
        scope = Scope(
            chain=chain,
            env=dict(env),
            index={},
            ranges=dict(self.ranges),
            missing=self.missing,
            probe=self.probe,
        )
        spread = own > level
        if spread and not any(isinstance(n, Loop) and n.kind == "parallel" for n in traced.body):
            var = self.fresh("p0")
            inner = self._unspread(inst, traced, scope, own)
            return (ir.For(var=var, extent=Const(1), body=inner, proc=inst.proc, parallel=True),)
        if spread:
            found = self.body(traced.body, inst, scope, level)
        else:
            found = self._unspread(inst, traced, scope, level)
        check_walked(self.traces.walked.get(id(traced), ()), scope)
        check_complete(self.traces.slices.get(id(traced), ()), scope)
        return found

    def _unspread(
        self, inst: Instance, traced: Traced, scope: Scope, level: int
    ) -> tuple[ir.Stmt, ...]:
        before: list[ir.Stmt] = []
        after: list[ir.Stmt] = []
        granted = self.traces.privileges_of(traced)
        for param, value in list(scope.env.items()):
            want = inst.mems.get(param, "")
            if not isinstance(value, Bound) or want in ("", "NONE") or param not in granted:
                continue
            want = self.mem(want, inst, "mems", param)
            if want == value.region.buffer.mem:
                continue
            staged = self.staged(value.region, want, value.region.buffer.dtype)
            before.append(ir.Alloc(buffer=staged.buffer))
            if "r" in granted[param]:
                before.append(ir.Copy(dst=staged, src=value.region))
            if "w" in granted[param]:
                after.append(ir.Copy(dst=value.region, src=staged))
            scope.env[param] = Bound(staged, value.root, value.taints)
        return (*before, *self.body(traced.body, inst, scope, level), *after)

    def staged(self, region: ir.Region, mem: str, dtype: str) -> ir.Region:
        """Return the whole region of a fresh buffer that holds a tile of `region` in `mem`."""
        base = (
            region.buffer.name.split("_", 1)[0]
            if region.buffer.mem != "GLOBAL"
            else region.buffer.name
        )
        buffer = ir.Buffer(
            name=self.fresh(f"{base}_{mem[0].lower()}"), shape=region.tile, dtype=dtype, mem=mem
        )
        return whole(buffer, region)

    def body(
        self, nodes: tuple[Node, ...], inst: Instance, scope: Scope, level: int
    ) -> tuple[ir.Stmt, ...]:
        """Return the statements of a task body."""
        out: list[ir.Stmt] = []
        for node in nodes:
            try:
                out.extend(self.node(node, inst, scope, level))
            except TaskLangError as e:  # a size knows no place; the statement that uses it does
                raise TaskLangError(
                    [d if d.span else replace(d, span=node.span) for d in e.diagnostics]
                ) from e.__cause__
        return tuple(
            s for s in out if not isinstance(s, ir.Alloc) or s.buffer.name not in self.replaced
        )

    def node(self, node: Node, inst: Instance, scope: Scope, level: int) -> tuple[ir.Stmt, ...]:
        """Return the statements of one node of a task body."""
        match node:
            case Loop():
                return self.loop(node, inst, scope, level)
            case AllocLocal():
                return (self.local(node, inst, scope, level),)
            case Launch() if node.task.leaf:
                return self.leaf(node, inst, scope)
            case Launch():
                return self.call(node, inst, scope, level)
        raise AssertionError("primitives only in leaves")

    def loop(self, node: Loop, inst: Instance, scope: Scope, level: int) -> tuple[ir.Stmt, ...]:
        """Return a loop nest; a parallel one takes a processor level when one is due."""
        sizes = [scope.size(e) for e in node.extents]
        names = [self.fresh(n) for n in node.names]
        index = {n: loop_var(f) for n, f in zip(node.names, names, strict=True)}
        ranges = {f: (0, max(0, s.bound - 1)) for f, s in zip(names, sizes, strict=True)}
        self.ranges.update(ranges)
        proc, inner_level = "", level
        if node.kind == "parallel":
            due = self._due(node, inst, level)
            if due > level:
                proc, inner_level = self.machine.procs[due], due
        outside, self.skipping = self.skipping, self.skipping or any(map(self._skips, sizes))
        body = self.body(node.body, inst, scope.child(index, ranges), inner_level)
        self.skipping = outside
        if any(s.bound < 1 for s in sizes):  # no iteration; walked all the same for policies
            return ()
        innermost = node.kind == "sequential" and not any(
            isinstance(n, Loop) and n.kind == "sequential" for n in walk(node.body)
        )
        depth = inst.options.get("pipeline") if innermost else None
        for name, size in reversed(list(zip(names, sizes, strict=True))):
            body = (
                ir.For(
                    var=name,
                    extent=size.expr,
                    body=body,
                    proc=proc,
                    parallel=node.kind == "parallel",
                    pipeline=depth if isinstance(depth, int) else 0,
                    warpspecialize=bool(inst.options.get("warpspecialize")) and bool(depth),
                    span=node.span,
                ),
            )
            depth = None
        return body

    def _skips(self, count: Size) -> bool:
        """Return whether a loop runs more often halfway through an outer loop than at its start; a ragged edge is at the end."""
        outer = [v for v in free(count.expr) if v in self.ranges and v not in self.symbolic]
        first = dict.fromkeys(outer, (0, 0))
        half = {v: (self.ranges[v][1] // 2,) * 2 for v in outer}
        runs = [bounds(count.expr, {**self.ranges, **at}) for at in (first, half)]
        return runs[0] < runs[1]

    def _due(self, node: Loop, inst: Instance, level: int) -> int:
        """Return the processor level this parallel loop binds to, `level` when to none."""
        own = self.machine.level(inst.proc)
        if own > level:
            return own
        below = [
            self.machine.level(self.instances[inst.calls[n.task.name]].proc)
            for n in walk(node.body)
            if isinstance(n, Launch) and not n.task.leaf and n.task.name in inst.calls
        ]
        deeper = [b for b in below if b > level]
        return min(deeper) if deeper else level

    def local(self, node: AllocLocal, inst: Instance, scope: Scope, level: int) -> ir.Stmt:
        """Return the allocation of a local tensor in the memory the mapping gives it."""
        sizes = [scope.size(d) for d in node.dims]
        if any(s.bound < 1 for s in sizes):
            raise TaskLangError.of(
                "E136",
                f"tensor {node.tensor.name!r} would have the shape {[s.bound for s in sizes]}",
                node.span,
            )
        default = "REGISTER" if "REGISTER" in self.machine.memories else "GLOBAL"
        mem = self.mem(inst.mems.get(node.tensor.name, default), inst, "mems", node.tensor.name)
        innermost = self.machine.memories[mem].locals
        if innermost and level > self.machine.level(innermost):
            raise MappingError.of(
                "M014",
                f"{inst.name}: {self.machine.name} cannot make {node.tensor.name} in {mem} on "
                f"{self.machine.procs[level]}; only {innermost} can",
                inst.span("mems", node.tensor.name),
                notes=() if node.span is None else (f"made at {node.span}",),
                help="map it to a memory of that processor, or make it in the caller",
            )
        self.locals_seen.setdefault(inst.name, set()).add(node.tensor.name)
        extent = tuple(s.expr for s in sizes)
        buffer = ir.Buffer(
            name=self.fresh(node.tensor.name),
            shape=tuple(s.bound for s in sizes),
            dtype=self._dtype(node.dtype, scope),
            mem=mem,
            extent=extent if self._stays_open(inst, extent) else (),
        )
        region = ir.Region.whole(buffer, extent)
        scope.env[node.tensor.name] = Bound(region, node.tensor.name, tuple(s.taint for s in sizes))
        return ir.Alloc(buffer=buffer, span=node.span)

    def _stays_open(self, inst: Instance, extent: tuple[Expr, ...]) -> bool:
        """Return whether a tensor between kernels has sizes that are told when the kernel runs."""
        asked = frozenset[str]().union(*map(free, extent))
        return inst.proc == "HOST" and bool(asked) and asked <= self.symbolic

    def _dtype(self, dtype: str, scope: Scope) -> str:
        """Return a local's dtype; "like:X" takes that of tensor X."""
        if dtype == "accumulate":
            return self.accumulate
        if not dtype.startswith("like:"):
            return dtype
        found = scope.env[dtype.removeprefix("like:")]
        assert isinstance(found, Bound)
        return found.region.buffer.dtype

    def call(self, node: Launch, inst: Instance, scope: Scope, level: int) -> tuple[ir.Stmt, ...]:
        """Return the statements of a launched inner task."""
        name = node.task.name
        if name not in inst.calls:
            raise MappingError.of(
                "M004",
                f"{inst.name}: no mapping for launched task {name!r}; add it to calls",
                inst.key_span("calls"),
                notes=() if node.span is None else (f"launched at {node.span}",),
            )
        callee = self.instances[inst.calls[name]]
        if self.machine.level(callee.proc) < self.machine.level(inst.proc):
            raise MappingError.of(
                "M008",
                f"{inst.name} ({inst.proc}) calls {callee.name} ({callee.proc}): "
                "a callee must run at or below its caller",
                callee.span("proc"),
            )
        env = dict(zip(node.task.params, (self.argument(a, scope) for a in node.args), strict=True))
        env = {
            p: Bound(v.region, p, v.taints) if isinstance(v, Bound) else v for p, v in env.items()
        }
        return self.instance(callee, scope.chain, env, level)

    def argument(self, arg: object, scope: Scope) -> Value:
        """Return a launch argument's value."""
        match arg:
            case float():
                return arg
            case SymTensor() | Piece() | Shift() | Laid():
                return scope.view(arg)
            case SymInt():
                from septran.tasklang.values import SymScalar

                if isinstance(arg, SymScalar):
                    return scope.env[arg.name]
                return scope.size(arg)
        raise TypeError(arg)

    def leaf(self, node: Launch, inst: Instance, scope: Scope) -> tuple[ir.Stmt, ...]:
        """Return the call of a leaf, streamed block by block where a panel changes memory."""
        values = {
            p: self.argument(a, scope) for p, a in zip(node.task.params, node.args, strict=True)
        }
        bounds = {p: v for p, v in values.items() if isinstance(v, Bound)}
        traced = self.traces.get(node.task, {p: b.region.rank for p, b in bounds.items()})
        calls = tuple(n for n in traced.body if isinstance(n, PrimCall))
        prims = tuple(n.prim for n in calls)
        granted = leaf_privileges(prims)
        check_shapes(node, bounds, (n.of or n.prim for n in calls))
        binding = inst.leaf_task_bindings.get(node.task.name, Binding())
        if isinstance(binding.kernel, Tune):
            raise MappingError.of(
                "M090",
                f"{inst.name}: the binding of {node.task.name} is still !tune",
                inst.span("leaf_task_bindings", node.task.name),
                help="pick one value",
            )
        spread_mems = inst.mems
        args = []
        for param, bound in bounds.items():
            if param not in granted:
                continue
            want = binding.mems.get(param) or spread_mems.get(bound.root, "")
            if param in binding.mems:
                want = self.mem(want, inst, "leaf_task_bindings", node.task.name, "mems", param)
            elif want and want != "NONE":
                want = self.mem(want, inst, "mems", bound.root)
            if bound.root in self.locals_seen.get(inst.name, set()) and param not in binding.mems:
                want = ""
            if want == "NONE" or want == bound.region.buffer.mem:
                want = ""
            args.append(
                ir.LeafArg(param=param, region=bound.region, privilege=granted[param], mem=want)
            )
        self.sites.append(
            LeafSite(
                instance=inst.name,
                task=node.task.name,
                args=bounds,
                local_args=frozenset(
                    p for p, b in bounds.items() if b.root in self.locals_seen.get(inst.name, set())
                ),
                prims=tuple(dict.fromkeys(n.of or n.prim for n in calls)),
                privileges=granted,
                skips=self.skipping,
            )
        )
        scalars = tuple(
            (p, v.expr if isinstance(v, Size) else v)
            for p, v in values.items()
            if not isinstance(v, Bound)
        )
        call = ir.LeafCall(
            task=node.task.name,
            impl=str(binding.kernel),
            args=tuple(args),
            scalars=scalars,
            prims=prims,
            span=node.span,
        )
        depth = inst.options.get("pipeline")
        reduction = one_reduction(calls)
        found = stream_leaf(
            call,
            inst,
            fresh=self.fresh,
            staged=self.staged,
            pipeline=depth if isinstance(depth, int) else 0,
            warpspecialize=bool(inst.options.get("warpspecialize")),
            register=self.ranges,
            accumulator="REGISTER" if "REGISTER" in self.machine.memories else "GLOBAL",
            whole=reduction,
        )
        kept = {r.buffer.name for r, _ in regions(*found)}
        between = {p.out for p in prims[:-1]} if reduction is not None else set[str]()
        self.replaced |= {a.region.buffer.name for a in args if a.param in between} - kept
        return found


def one_reduction(calls: tuple[PrimCall, ...]) -> ir.Prim | None:
    """Return the primitive that a leaf is, alone or in steps; None for a leaf of several."""
    if len(calls) == 1:
        return calls[0].prim
    first = calls[0].of
    return first if first and all(c.of is first for c in calls) else None


def whole(buffer: ir.Buffer, like: ir.Region) -> ir.Region:
    """Return the region of `buffer` that holds a tile with the extents of `like`."""
    return replace(ir.Region.whole(buffer, like.extent), tile=like.tile, grid=like.grid)
