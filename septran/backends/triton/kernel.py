"""One Triton kernel: grid, loops, tiles as SSA values, leaf calls, loads and stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from septran.backends.text.leaf_shape import leaf_shape
from septran.backends.text.names import Names
from septran.backends.triton.arches import ARCHES
from septran.backends.triton.shapes import TL_DTYPE, index_text, padded_shape, shape_text
from septran.backends.triton.spelling import float_text
from septran.backends.triton.tile import TileText, undefined
from septran.errors import InternalError
from septran.ir import nodes as ir
from septran.ir.access import regions
from septran.ir.expr import Const, Expr, Var, substitute
from septran.ir.launch import Launch, block_index
from septran.kernel import Leaf
from septran.passes.order_blocks import is_swizzled


def loads_and_stores(body: tuple[ir.Stmt, ...]) -> dict[str, ir.Buffer]:
    """Return the GLOBAL buffers that `body` touches, by name, in order of appearance."""
    found: dict[str, ir.Buffer] = {}
    for region, _ in regions(*body):
        if region.buffer.mem == "GLOBAL":
            found.setdefault(region.buffer.name, region.buffer)
    return found


@dataclass(slots=True)
class KernelText:
    """Renders one kernel. `pointers`: GLOBAL buffers in argument order; `host_vars`: loop vars."""

    name: str
    program: ir.Program
    leaves: Mapping[str, Leaf]
    pointers: tuple[str, ...]
    host_vars: tuple[str, ...]
    names: Names = field(default_factory=Names)
    lines: list[str] = field(default_factory=list)
    vars: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Expr] = field(default_factory=dict)
    tiles: dict[str, str] = field(default_factory=dict)
    text: TileText = field(init=False)

    def __post_init__(self) -> None:
        for leaf in self.leaves.values():
            self.names.taken.add(leaf.spec.symbol)
        ptr = {b: self.names.fresh(b) for b in self.pointers}
        self.vars = {v: self.names.fresh(v) for v in self.host_vars}
        flat = ARCHES[self.program.arch].runtime == "npu"
        self.text = TileText(names=self.names, vars=self.vars, pointers=ptr, flat=flat)

    def pointer(self, buffer: str) -> str:
        """Return the kernel's argument name for a GLOBAL buffer."""
        return self.text.pointers[buffer]

    def host_name(self, var: str) -> str:
        """Return the kernel's argument name for a host loop variable."""
        return self.vars[var]

    def render(self, launch: Launch) -> tuple[str, int]:
        """Return (source of the kernel, number of programs)."""
        args = ", ".join([*self.text.pointers.values(), *(self.vars[v] for v in self.host_vars)])
        self._grid(launch)
        self._body(launch.body, 1)
        if not self.lines:
            self.lines.append("    pass")
        head = ["@triton.jit", f"def {self.name}({args}):"]
        return "\n".join([*head, *self.lines]) + "\n", launch.blocks

    # -- structure --------------------------------------------------------------------------

    def _emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def _index(self, e: Expr, parent: int = 0) -> str:
        return index_text(substitute(e, self.constants), self.vars, parent)

    def _region(self, region: ir.Region) -> ir.Region:
        if not self.constants:
            return region
        return replace(
            region,
            offset=tuple(substitute(e, self.constants) for e in region.offset),
            extent=tuple(substitute(e, self.constants) for e in region.extent),
        )

    def _grid(self, launch: Launch) -> None:
        live = [(g, n) for g, n in zip(launch.grid, launch.sizes, strict=True) if n != 1]
        block = "tl.program_id(0)" if len(live) == 1 else "pid"
        if len(live) > 1:
            self._emit(1, "pid = tl.program_id(0)")
        index = block_index(launch.grid, Var("pid"))
        self.constants.update({v: e for v, e in index.items() if isinstance(e, Const)})
        for loop, _ in live:
            self.vars[loop.var] = self.names.fresh(loop.var)
        for loop, _ in reversed(live):
            at = index_text(index[loop.var], {"pid": block})
            self._emit(1, f"{self.vars[loop.var]} = {at}")
        if live and is_swizzled(self.program, live[-1][0]):
            (a, n), (b, m) = live[-2:]
            i, j, group = self.vars[a.var], self.vars[b.var], self.program.option("swizzle")
            self._emit(1, f"{i}, {j} = tl.swizzle2d({i}, {j}, {n}, {m}, {group})")

    def _body(self, body: tuple[ir.Stmt, ...], indent: int) -> None:
        self.text.scopes.append({})
        for at, stmt in enumerate(body):
            match stmt:
                case ir.Alloc(buffer=buffer):
                    self._alloc(buffer, body[at + 1 :], indent)
                case ir.Copy():
                    self._copy(stmt, indent)
                case ir.LeafCall():
                    self._call(stmt, indent)
                case ir.For():
                    self._loop(stmt, indent)
                case ir.When(expr=expr, low=low, high=high):
                    text = self._index(expr, 1)
                    self._emit(indent, f"if ({text} >= {low}) & ({text} < {high}):")
                    self._body(stmt.body, indent + 1)
                case ir.Sync(scope="BLOCK"):
                    self._emit(indent, "tl.debug_barrier()")
                case ir.Sync() | ir.Post() | ir.Await():
                    continue  # tiles are values; Triton orders its own copies
        self.text.scopes.pop()

    def _loop(self, loop: ir.For, indent: int) -> None:
        if loop.extent == Const(1):
            self.constants[loop.var] = Const(0)
            self._body(loop.body, indent)
            del self.constants[loop.var]
            return
        var = self.vars[loop.var] = self.names.fresh(loop.var)
        stages = f", num_stages={loop.pipeline}" if loop.pipeline else ""
        ranged = "tl.range" if stages else "range"
        self._emit(indent, f"for {var} in {ranged}(0, {self._index(loop.extent)}{stages}):")
        before = len(self.lines)
        self._body(loop.body, indent + 1)
        if len(self.lines) == before:
            self._emit(indent + 1, "pass")

    def _alloc(self, buffer: ir.Buffer, rest: tuple[ir.Stmt, ...], indent: int) -> None:
        if buffer.mem == "GLOBAL":
            raise InternalError(f"{buffer.name} is allocated in GLOBAL inside a kernel")
        self.tiles[buffer.name] = self.names.fresh(buffer.name)
        if _written_first(buffer.name, rest):
            return
        # NaN shows a read before a write; a name first bound in a loop would be unbound after it
        self._emit(indent, f"{self.tiles[buffer.name]} = {undefined(buffer.shape, buffer.dtype)}")

    # -- data -------------------------------------------------------------------------------

    def _read(self, region: ir.Region, indent: int, wanted: str) -> str:
        """Return a variable or expression that holds the padded tile of `region`."""
        region = self._region(region)
        name = region.buffer.name
        if region.buffer.mem == "GLOBAL":
            lines, text = self.text.load(region)
            for line in lines:
                self._emit(indent, line)
            variable = self.names.fresh(wanted)
            self._emit(indent, f"{variable} = {text}")
            return variable
        return self.tiles[name]

    def _store(self, region: ir.Region, value: str, indent: int) -> None:
        region = self._region(region)
        for line in self.text.store(region, value):
            self._emit(indent, line)

    def _copy(self, copy: ir.Copy, indent: int) -> None:
        dst, src = copy.dst, copy.src
        local = dst.buffer.mem != "GLOBAL"
        text: str
        if src.buffer.mem == "GLOBAL" and local:
            lines, text = self.text.load(self._region(src))
            for line in lines:
                self._emit(indent, line)
        else:
            text = self._read(src, indent, f"{src.buffer.name}_t")
        if src.buffer.dtype != dst.buffer.dtype:
            text = f"{text}.to({TL_DTYPE[dst.buffer.dtype]})"
        if padded_shape(src.tile) != padded_shape(dst.tile):
            text = f"tl.reshape({text}, {shape_text(padded_shape(dst.tile))})"
        if not local:
            self._store(dst, text, indent)
            return
        from_register = src.buffer.mem == "REGISTER"
        mask = self.text.mask(self._region(dst)) if from_register else ""
        if dst.buffer.mem == "SHARED" and mask:
            text = f"tl.where({mask}, {text}, tl.zeros_like({text}))"
        self._emit(indent, f"{self.tiles[dst.buffer.name]} = {text}")

    def _extent(self, e: Expr, indent: int) -> str:
        """A name or number for a run-time extent; one line per distinct extent and scope."""
        text = self._index(e)
        if isinstance(substitute(e, self.constants), Const):
            return text
        lines: list[str] = []
        name = self.text.line(lines, "n", text)
        for line in lines:
            self._emit(indent, line)
        return name

    def _call(self, call: ir.LeafCall, indent: int) -> None:
        spec = self.leaves[call.symbol].spec
        shape = leaf_shape(spec, Names())
        args = []
        for p in shape.tiles:
            region = call.arg(p.name).region
            args.append(self._read(region, indent, f"{region.buffer.name}_t"))
        for param, axis in shape.extents:
            args.append(self._extent(call.arg(param).region.extent[axis], indent))
        for _, value in call.scalars:
            args.append(self._index(value) if isinstance(value, Expr) else float_text(value))
        outs: list[str] = []
        stores: list[tuple[ir.Region, str]] = []
        for p in shape.outs:
            region = call.arg(p.name).region
            if region.buffer.mem == "GLOBAL":
                outs.append(self.names.fresh(f"{region.buffer.name}_t"))
                stores.append((region, outs[-1]))
            else:
                outs.append(self.tiles[region.buffer.name])
        symbol = call.symbol
        self._emit(indent, f"{', '.join(outs)} = {symbol}({', '.join(args)})")
        for p, out in zip(shape.outs, outs, strict=True):
            region = self._region(call.arg(p.name).region)
            mask = self.text.mask(region) if region.buffer.mem == "SHARED" else ""
            if mask:
                self._emit(indent, f"{out} = tl.where({mask}, {out}, tl.zeros_like({out}))")
        for region, out in stores:
            self._store(region, out, indent)


def _written_first(name: str, rest: tuple[ir.Stmt, ...]) -> bool:
    """True when the first statement that touches `name` overwrites all of it, outside any loop."""
    for stmt in rest:
        nested = isinstance(stmt, ir.For | ir.When)
        how = [h for r, h in regions(stmt) if r.buffer.name == name]
        if any(nested or "r" in h for h in how):
            return False
        if how:
            return True
    return True
