"""The text of one kernel: refs, loops, leaf calls; what stays in which block is in its `Plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from septran.backends.pallas.blocks import UNBOUNDED, Operand, Plan
from septran.backends.pallas.shapes import (
    JNP_DTYPE,
    free_names,
    held,
    index_text,
    iota,
    lead,
    shape_text,
)
from septran.backends.pallas.spelling import float_text
from septran.backends.text.leaf_shape import leaf_shape
from septran.backends.text.names import Names
from septran.ir import nodes as ir
from septran.ir.expr import Bin, Const, Expr, make
from septran.kernel import Leaf


@dataclass(slots=True)
class KernelText:
    """Prints one kernel. host_vars: loop variables of the host, keyword arguments of the kernel.

    sources: operands that the kernel gets as inputs; kept: names of those whose output starts as the input.
    """

    name: str
    plan: Plan
    leaves: Mapping[str, Leaf]
    host_vars: tuple[str, ...]
    kept: frozenset[str]
    names: Names = field(default_factory=free_names)
    lines: list[str] = field(default_factory=list)
    vars: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    operands: dict[str, Operand] = field(default_factory=dict)
    signals: dict[str, str] = field(default_factory=dict)
    """event -> its semaphores"""

    def __post_init__(self) -> None:
        for leaf in self.leaves.values():
            self.names.taken.add(leaf.spec.symbol)
        self.operands = {o.buffer.name: o for o in self.plan.operands}
        for name, operand in self.operands.items():
            if not operand.written:
                self.inputs[name] = self.refs[name] = self.names.fresh(name)
        for name in (n for n in self.operands if n in self.kept):  # last, as the launch passes them
            self.inputs[name] = self.names.fresh(f"{name}_in")
        for name, operand in self.operands.items():
            if operand.written:
                self.refs[name] = self.names.fresh(name)
        for buffer in self.plan.scratch:
            self.refs[buffer.name] = self.names.fresh(buffer.name)
        self.signals = {f.event: self.names.fresh(f.event) for f in self.plan.flights}
        self.vars = {v: self.names.fresh(v) for v in self.host_vars}

    def render(self) -> str:
        """Return the source of the kernel function."""
        outs = [self.refs[n] for n, o in self.operands.items() if o.written]
        args = [*self.inputs.values(), *outs, *(self.refs[b.name] for b in self.plan.scratch)]
        args += self.signals.values()
        args += [f"*, {', '.join(self.vars[v] for v in self.host_vars)}"] if self.host_vars else []
        for axis, (var, _) in enumerate(self.plan.grid):
            self.vars[var] = self.names.fresh(var)
            self._emit(1, f"{self.vars[var]} = pl.program_id({axis})")
        self._carry_in()
        loop = self.plan.loop
        if loop is None:
            self._body(self.plan.first, 1)
        else:
            var, steps = self.vars[loop.var], dict(self.plan.grid)[loop.var]
            self._when(f"{var} == 0", self.plan.first, 1)
            if loop.extent == Const(steps):
                self._body(loop.body, 1)
            else:
                self._when(f"{var} < {self._index(loop.extent, 1)}", loop.body, 1)
            self._when(f"{var} == {steps - 1}", self.plan.last, 1)
        return "\n".join([f"def {self.name}({', '.join(args)}):", *self.lines]) + "\n"

    def _emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def _index(self, e: Expr, parent: int = 0) -> str:
        return index_text(e, self.vars, parent)

    def _carry_in(self) -> None:
        """Outputs that are also read start as what they held before."""
        for name in self.kept & self.operands.keys():
            operand = self.operands[name]
            if operand.copied:
                continue  # it is the same array, of which copies take parts
            stays = [self.vars[v] for v, _ in self.plan.grid if v not in operand.by]
            line = f"{self.refs[name]}[...] = {self.inputs[name]}[...]"
            if stays:
                self._emit(1, f"@pl.when({' & '.join(f'({v} == 0)' for v in stays)})")
                self._emit(1, "def _():")
            self._emit(2 if stays else 1, line)

    def _when(self, condition: str, body: tuple[ir.Stmt, ...], indent: int) -> None:
        if all(isinstance(s, ir.Alloc | ir.Sync | ir.Post) for s in body):
            return
        self._emit(indent, f"@pl.when({condition})")
        self._emit(indent, "def _():")
        self._body(body, indent + 1)

    def _body(self, body: tuple[ir.Stmt, ...], indent: int) -> None:
        for at, stmt in enumerate(body):
            match stmt:
                case ir.Copy(dst=dst, src=src, engine=ir.BULK):
                    said = body[at + 1]
                    assert isinstance(said, ir.Post)  # `plan_rings` gives each copy its own event
                    self._flight(self._ref(src), self._ref(dst), said, "start", indent)
                case ir.Await(event=event):
                    tile = next(f.tile for f in self.plan.flights if f.event == event)
                    whole = replace(ir.Region.whole(tile), version=stmt.slot)
                    # whoever waits counts the bytes of the target; where they come from does not matter
                    self._flight(self._ref(whole), self._ref(whole), stmt, "wait", indent)
                case ir.Copy(dst=dst, src=src):
                    text = self._read(src)
                    if src.buffer.dtype != dst.buffer.dtype:
                        text += f".astype({JNP_DTYPE[dst.buffer.dtype]})"
                    if held(src.tile) != held(dst.tile):
                        text = f"jnp.reshape({text}, {shape_text(held(dst.tile))})"
                    self._write(dst, text, indent)
                case ir.LeafCall():
                    self._call(stmt, indent)
                case ir.For():
                    self._loop(stmt, indent)
                case ir.When(expr=expr, low=low, high=high):
                    text = self._index(expr, 1)
                    tests = f"({text} >= {low}) & ({text} < {high})"
                    if high == UNBOUNDED:
                        tests = f"{text} >= {low}"
                    elif low == -UNBOUNDED:
                        tests = f"{text} < {high}"
                    self._when(tests, stmt.body, indent)
                case ir.Alloc() | ir.Sync() | ir.Post():
                    continue  # tiles are scratch of the kernel; a copy signals its end itself

    def _flight(self, src: str, dst: str, said: ir.Post | ir.Await, verb: str, indent: int) -> None:
        """Begin a copy, or wait for one."""
        signal = f"{self.signals[said.event]}.at[{self._index(said.slot)}]"
        self._emit(indent, f"pltpu.make_async_copy({src}, {dst}, {signal}).{verb}()")

    def _ref(self, region: ir.Region) -> str:
        """Return the text of what a copy takes or fills."""
        return f"{self.refs[region.buffer.name]}.at[{self._place(region)}]"

    def _loop(self, loop: ir.For, indent: int) -> None:
        var = self.vars[loop.var] = self.names.fresh(loop.var)
        function = self.names.fresh(f"step_{loop.var}")
        self._emit(indent, f"def {function}({var}, carry):")
        self._body(loop.body, indent + 1)
        self._emit(indent + 1, "return carry")
        self._emit(indent, f"lax.fori_loop(0, {self._index(loop.extent)}, {function}, 0)")

    # -- data -------------------------------------------------------------------------------

    def _held(self, region: ir.Region) -> tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...]]:
        """Extents, moving variables and zeros in front of the memory behind a ref."""
        operand = self.operands.get(region.buffer.name)
        if operand is not None:
            return operand.block, operand.by, operand.before
        shape = held(region.buffer.shape)
        return shape, ("",) * len(shape), (0,) * len(shape)

    def _place(self, region: ir.Region) -> str:
        """Return the text between the brackets of a ref."""
        block, by, before = self._held(region)
        missing = lead(region.rank)
        words = [":"] * missing
        for own in range(region.rank):
            d = own + missing
            offset, step, tile = region.offset[own], region.step[own], region.tile[own]
            if by[d]:
                words.append(":")
                continue
            start = make("+", offset, before[d])
            if start == Const(0) and step == 1 and tile == block[d]:
                words.append(":")
            elif isinstance(start, Const) and step == 1:
                words.append(f"{start.value}:{start.value + tile}")
            else:
                tail = f", stride={step}" if step != 1 and tile != 1 else ""
                words.append(f"pl.ds({self._start(start)}, {tile}{tail})")
        text = "..." if set(words) == {":"} else ", ".join(words)
        return text if region.version is None else f"{self._index(region.version)}, {text}"

    def _start(self, start: Expr) -> str:
        """A start that the compiler knows to be a multiple says so."""
        text = self._index(start)
        if isinstance(start, Bin) and start.op == "*" and isinstance(start.b, Const):
            return f"pl.multiple_of({text}, {start.b.value})"
        return text

    def _read(self, region: ir.Region) -> str:
        return f"{self.refs[region.buffer.name]}[{self._place(region)}]"

    def _write(self, region: ir.Region, value: str, indent: int) -> None:
        place = f"{self.refs[region.buffer.name]}[{self._place(region)}]"
        mask = self._mask(region)
        text = f"jnp.where({mask}, {value}, {place})" if mask else value
        self._emit(indent, f"{place} = {text}")

    def _mask(self, region: ir.Region) -> str:
        """The condition under which an element may be written, "" when all of the tile may.

        Beyond a tensor's end stores are dropped, and what lies beyond a tile's extents is anybody's.
        """
        if region.buffer.mem != "GLOBAL":
            if region.is_whole:
                return ""
            block = held(region.buffer.shape)
        else:
            block = self._held(region)[0]
        parts = []
        missing = lead(region.rank)
        for own, (extent, tile) in enumerate(zip(region.extent, region.tile, strict=True)):
            if extent == Const(tile) or _ends(region, own):
                continue
            if block[own + missing] == tile and region.buffer.mem != "GLOBAL":
                continue
            place = iota(held(region.tile), own + missing)
            parts.append(f"({place} < {self._index(extent, 1)})")
        return " & ".join(parts)

    def _call(self, call: ir.LeafCall, indent: int) -> None:
        spec = self.leaves[call.symbol].spec
        shape = leaf_shape(spec, free_names())
        args = [self._read(call.arg(p.name).region) for p in shape.tiles]
        args += [self._index(call.arg(p).region.extent[d]) for p, d in shape.extents]
        args += [self._index(v) if isinstance(v, Expr) else float_text(v) for _, v in call.scalars]
        text = f"{call.symbol}({', '.join(args)})"
        targets = [call.arg(p.name).region for p in shape.outs]
        if len(targets) == 1:
            self._write(targets[0], text, indent)
            return
        results = [self.names.fresh(f"{r.buffer.name}_t") for r in targets]
        self._emit(indent, f"{', '.join(results)} = {text}")
        for region, result in zip(targets, results, strict=True):
            self._write(region, result, indent)


def _ends(region: ir.Region, d: int) -> bool:
    """True when the tensor's end is the only reason for a short extent."""
    extent = region.extent[d]
    if region.buffer.mem != "GLOBAL" or region.step[d] != 1 or not isinstance(extent, Bin):
        return False
    left = make("-", region.buffer.shape[d], region.offset[d])
    return extent.op == "min" and {extent.a, extent.b} == {Const(region.tile[d]), left}
