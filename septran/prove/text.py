"""Rule `text`: what was printed runs the statements of the Program, in its loops, on its addresses.

Statements are compared in order. Each has to run for the same values of the loops, in loops of its own where the Program has
them; an operand has to begin at the same position of the same array, with the same extents and strides, for every
iteration. Arrays that live at the same time lie apart, inside what the text reserves, and each element has a position
of its own. So what is proven of the Program holds for the text, as far as loops, addresses and order go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from septran.errors import Span
from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var, const, substitute
from septran.prove.certificate import Finding
from septran.prove.printed import Act, Kind, Loop, Move, Place, Printed, Values, View
from septran.prove.sets import Access, Model, Statement, affine, model
from septran.prove.text_arrays import Arrays
from septran.prove.text_held import HeldOperand
from septran.prove.text_in_place import read_in_place, unrolled
from septran.prove.text_instance import Instance
from septran.prove.text_moves import Moves
from septran.prove.text_operands import CODE, No, condition, operands, place_of, position
from septran.prove.text_parts import PartOperand, part_of
from septran.prove.text_silent import fills_left_out
from septran.prove.text_tiles import Tiles
from septran.prove.witness import describe


def same_text(found: Model, printed: Printed) -> Iterator[Finding]:
    """Yield where the text differs from the Program (P070)."""
    for line, text in printed.wrong:
        yield Finding(code=CODE, text=text, places=_at(printed, line))
    shown = _as_printed(found, printed)
    yield from Arrays(shown, printed).findings()
    yield from _Statements(shown, printed).findings()
    if printed.began:
        silent = [s for s in shown.statements if printed.steps(s.stmt) == ()]
        yield from fills_left_out(shown, silent, printed.began)


def _as_printed(m: Model, printed: Printed) -> Model:
    """Return the model of the Program as its language prints it."""
    values = printed.values
    if values is None and not printed.unrolled:
        return m
    program = unrolled(m.program)
    if values is not None:
        program = read_in_place(program, lambda name: name in values.tiles)
    return model(program, m.dims, m.shapes)


def _at(printed: Printed, line: int) -> tuple[Span, ...]:
    return (Span(printed.file, line),)


@dataclass(slots=True)
class _Statements:
    model: Model
    printed: Printed
    loops: dict[int, Loop] = field(default_factory=dict)
    """the Program's loop (id) -> the text's loop whose index it is"""
    shown: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """the text's loop (id) -> the Program's loops (ids)"""
    settled: set[int] = field(default_factory=set)
    """grids (id) whose blocks are known to be different"""

    def findings(self) -> Iterator[Finding]:
        mine = [s for s in self.model.statements if s.kind not in self.printed.silent]
        live = [s for s in mine if not self.model.instances(s).is_empty()]
        acts = [a for a in self.printed.acts if self._runs(a)]
        for s, kind in ((x, kind) for x in live for kind in self._steps(x)):
            if not acts:
                yield Finding(code=CODE, text=f"the text ends before {describe(s)}")
                return
            different = next(self._compare(s, acts.pop(0), kind), None)
            if different is not None:
                yield different  # what follows is compared with the wrong statements
                return
        if acts:
            text = f"the text has a {acts[0].kind} of {acts[0].what} that is not in the Program"
            yield Finding(code=CODE, text=text, places=_at(self.printed, acts[0].line))
        if self.printed.values is not None:
            yield from self._undefined(self.printed.values)

    def _undefined(self, values: Values) -> Iterator[Finding]:
        """A tile is left undefined where the Program allocates it, not while it is in use."""
        for name, loops in values.undefined.items():
            homes = [self.loops.get(id(f)) for f in self.model.homes.get(name, ())]
            asked = {id(x) for x in homes if x is not None}
            inside = [x for x in loops if x.indices != ()]
            if asked != {id(x) for x in inside}:
                where = _at(self.printed, self.printed.rooms[name].line)
                text = f"{name} is left undefined in other loops than the Program's"
                yield Finding(code=CODE, text=text, places=where)

    def _runs(self, act: Act) -> bool:
        """Whether the text ever reaches a statement; passes leave some behind that no core does."""
        if not act.tests:
            return True
        names, conds = [], [self.model.sizes] if self.model.dims else []
        for loop in act.loops:
            names += [loop.var.replace(".", "_")]
            conds.append(f"0 <= {names[-1]} < {_own(loop.extent)}")
            for name, value in loop.indices or ():
                names.append(name)
                conds.append(f"{name} = {_own(value)}")
        conds += [condition(t, _own) for t in act.tests]
        return not self.model.set(f"[{', '.join(names)}] : {' and '.join(conds)}").is_empty()

    def _steps(self, s: Statement) -> tuple[Kind, ...]:
        """Return what a statement is printed as; one that is cut into tiles first fills all of it."""
        if self.printed.tiled and isinstance(s.stmt, ir.Copy) and s.stmt.src.guard:
            return ("copy", "copy")
        steps = self.printed.steps(s.stmt)
        return (s.kind,) if steps is None else steps

    def _compare(self, s: Statement, act: Act, kind: Kind) -> Iterator[Finding]:
        def no(text: str) -> Finding:
            return Finding(
                code=CODE,
                text=f"{describe(s)}: {text}",
                statements=(describe(s), f"{self.printed.file}:{act.line}: {act.what}"),
                places=(*_at(self.printed, act.line), *((s.span,) if s.span else ())),
            )

        if act.kind != kind:
            yield no(f"the text has a {act.kind} there")
            return
        names = self._bind(s, act)
        if isinstance(names, str):
            yield no(names)
            return
        stmt = s.stmt
        if act.move is not None:
            yield from self._move(s, act, act.move, names, no)
            return
        here = Instance(self.model, s, act, names)
        yield from here.divisions(no)
        if isinstance(stmt, ir.LeafCall):
            if act.what != self.printed.symbol(stmt):
                yield no(f"the text calls {act.what}")
            yield from here.scalars(no, self.printed.scalars(stmt))
        if any(v.flat for v in act.views):
            yield from Tiles(self.model, self.printed, s, act, names).findings(no)
            return
        yield from here.domain(no, widened=s.kind in self.printed.widened)
        if isinstance(stmt, ir.Copy):
            yield from _copy(no, stmt, act)
            padded = self.printed.values.padded if self.printed.values else None
            if padded and [*map(padded, stmt.dst.tile)] != [*map(padded, stmt.src.tile)]:
                yield no("the two sides have tiles of two shapes, and the text does not reshape")
        if s.kind in ("copy", "leaf"):
            accesses = operands(s, values=self.printed.values is not None)
            if len(accesses) != len(act.views):
                yield no(f"the text has {len(act.views)} operands, the Program {len(accesses)}")
                return
            for access, view in zip(accesses, act.views, strict=True):
                yield from self._operand(here, no, access, view)
        if s.kind in ("post", "await", "sync"):
            yield from here.signal(no)

    def _move(
        self, s: Statement, act: Act, move: Move, names: dict[str, Expr], no: No
    ) -> Iterator[Finding]:
        """Compare what is said element by element."""
        shared = [x for x in act.loops if x.indices is not None or x.var in names]
        here = Instance(self.model, s, replace(act, loops=tuple(shared)), names)
        inner = [x for x in act.loops if x not in shared]
        moves = Moves(self.printed, here, no, move, inner, filled_before="fill" in self._steps(s))
        yield from here.domain(no, widened=False)
        match s.stmt:
            case ir.Copy() as copy if act.kind == "copy":
                yield from moves.copied(copy)
            case ir.Copy(dst=dst, src=src):
                yield from moves.filled(dst, src.fill)
            case ir.LeafCall(prims=prims) as call:
                prim = next(p for p in prims if p.name in ("fill", "gemm"))
                value = prim.attr("value", 0.0)
                yield from moves.filled(call.arg(prim.out).region, float(value))  # type: ignore[arg-type]

    def _bind(self, s: Statement, act: Act) -> dict[str, Expr] | str:
        """Return the text's loop variables as the Program's; or what is wrong with the loops."""
        flat: list[tuple[str, Loop]] = []
        for loop in act.loops:
            shown = ((loop.var, loop.extent),) if loop.indices is None else loop.indices
            flat += [(name, loop) for name, _ in shown]
        more = len(flat) - len(s.loops)
        inner = act.move is not None or (self.printed.tiled and act.views)
        if more and not (more > 0 and inner):
            return f"it lies in {len(s.loops)} loops, in the text in {len(flat)}"
        names: dict[str, Expr] = {}
        of: dict[int, tuple[int, ...]] = {}
        for mine, (name, loop) in zip(s.loops, flat[: len(s.loops)], strict=True):
            if self.loops.setdefault(id(mine), loop) is not loop:
                return f"the loop over {mine.var} is cut in two in the text"
            if loop.parallel and not mine.parallel:
                return f"the loop over {mine.var} is parallel in the text"
            if loop.stages is not None and max(loop.stages, 1) != max(mine.pipeline, 1):
                return f"the loop over {mine.var} has {loop.stages} stages in the text"
            if any(who == name and mine.extent != Const(n) for who, n in loop.squares):
                return f"the loop over {mine.var} is put in squares of another size"
            names[name] = Var(mine.var)
            of[id(loop)] = (*of.get(id(loop), ()), id(mine))
        if any(self.shown.setdefault(text, loops) != loops for text, loops in of.items()):
            return "the text has it in the loop of other statements"
        grids = (x for x in act.loops if x.indices is not None)
        if any(self._blocks_meet(x) for x in grids if id(x) not in self.settled):
            return "two blocks of the grid have the same indices in the text"
        return names

    def _blocks_meet(self, grid: Loop) -> bool:
        self.settled.add(id(grid))
        at = ", ".join(affine(substitute(e, {grid.var: Var("b")})) for _, e in grid.indices or ())
        blocks = self.model.map(f"B[b] -> G[{at}] : 0 <= b < {affine(grid.extent)}")
        return not blocks.is_injective()

    def _operand(self, here: Instance, no: No, access: Access, view: View) -> Iterator[Finding]:
        region = access.region
        base = self.printed.names.get(view.base, view.base)
        who = f"{access.operand}, part of {region.buffer.name},"
        if base != region.buffer.name:
            yield no(f"{who} is {base} in the text")
            return
        buffer = region.buffer
        for told, meant in ((view.dtype, buffer.dtype), (view.memory, buffer.mem)):
            if told not in ("", meant):
                yield no(f"{who} is {told} in the text, not {meant}")
        if self.printed.values is not None:
            values = self.printed.values
            if values.padded is None:
                part = part_of(view.part, view.base)
                lies = self.printed.places[buffer.name]
                yield from PartOperand(here, no, access, lies, part).findings()
                return
            clean = region.buffer.mem in values.clean and _may_leave_more(here.s, values)
            yield from HeldOperand(
                here, no, access, self.printed, values.padded, view, clean=clean
            ).findings()
            return
        if view.extent is not None:
            shown = view.extent
            if len(shown) != region.rank:
                yield no(f"{who} has {len(shown)} dims in the text")
                return
            for d, (x, y) in enumerate(zip(shown, region.extent, strict=True)):
                yield from here.equal(no, f"{who} has another extent along dim {d}", x, y)
        place = place_of(self.model, self.printed, region.buffer)
        if place is not None and place.cells and not region.is_whole:
            yield no(f"{who} is all of its tile in the text")
        if place is None:
            if any(o != Const(0) for o in region.offset):
                yield no(f"{who} does not begin at 0")
            return
        if region.guard:
            yield from self._padded(here, no, who, region, view, place)
            return
        if view.outside:
            yield no(f"{who} is read as if it had a border")
        first = position(place, region, region.offset) * view.unit
        yield from here.equal(no, f"{who} begins elsewhere", view.at, first)
        if view.strides is not None:
            step = place.strides if place.packed else _steps(place.strides, region.step)
            if view.strides != step[: len(view.strides)]:
                yield no(f"{who} has strides {view.strides} in the text, not {step}")

    def _padded(
        self, here: Instance, no: No, who: str, region: ir.Region, view: View, place: Place
    ) -> Iterator[Finding]:
        shape = tuple(Const(n) for n in region.buffer.shape)
        for what, mine, text in (
            ("first index", region.offset, view.outside),
            ("step", tuple(const(n) for n in region.step), view.step),
            ("shape", shape, view.whole),
        ):
            if len(mine) != len(text):
                yield no(f"{who} has no {what} in the text")
                return
            for x, y in zip(text, mine, strict=True):
                yield from here.equal(no, f"{who} has another {what}", x, y)
        if view.strides != place.strides:
            yield no(f"{who} has strides {view.strides} in the text, not {place.strides}")
        yield from here.equal(no, f"{who} begins elsewhere", view.at, Const(region.buffer.start))
        if view.fill != region.fill:
            yield no(f"{who} reads as {view.fill} outside in the text, not as {region.fill}")


def _may_leave_more(s: Statement, values: Values) -> bool:
    """Whether what a statement writes may be other than 0 beyond its extents: a leaf's result, or a tile that nobody cleaned."""
    return not (isinstance(s.stmt, ir.Copy) and s.stmt.src.buffer.mem in values.clean)


def _copy(no: No, stmt: ir.Copy, act: Act) -> Iterator[Finding]:
    if act.engine and act.engine != stmt.engine:
        yield no("the text only begins the copy")
    if act.tile and act.tile != stmt.dst.tile:
        yield no(f"the text copies tiles of {act.tile}, the Program of {stmt.dst.tile}")
    if act.full and stmt.dst.tile != stmt.dst.buffer.shape:
        yield no("the text takes the tile for the whole array")


def _steps(strides: tuple[int, ...], step: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(s * t for s, t in zip(strides, step, strict=True))


def _own(e: Expr) -> str:
    """Return an expression over the text's own names as isl text."""
    return affine(e).replace(".", "_")
