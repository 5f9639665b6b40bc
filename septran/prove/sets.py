"""A Program as integer sets and maps: what runs when, and which elements it touches.

Every Copy, LeafCall, Sync, Post and Await becomes a Statement: its instances are the values of the loops
around it (with each `When` as a constraint), its time is the usual interleaving of positions and loop
variables, and each region it touches is a map from instances to buffer elements, ring slot included.
Source: the polyhedral model (Feautrier 1991), decided by isl (Verdoolaege 2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Literal, TypeAlias

from septran.errors import Span
from septran.ir import nodes as ir
from septran.ir.expr import Bin, Const, Expr, Var, to_text
from septran.ir.nodes import Dim
from septran.prove.storage import Radix, radixes

if TYPE_CHECKING:
    import islpy as isl

DirectFlow: TypeAlias = "tuple[isl.UnionMap, isl.UnionMap, list[isl.Map]]"
Kind = Literal["copy", "leaf", "sync", "post", "await"]


# isl reads a text slower than it composes maps, and each check of a kernel says much the same ones
@lru_cache(maxsize=4096)
def read_set(text: str) -> isl.Set:
    """Return the isl set that `text` writes."""
    import islpy as isl

    return isl.Set(text)


@lru_cache(maxsize=4096)
def read_map(text: str) -> isl.Map:
    """Return the isl map that `text` writes."""
    import islpy as isl

    return isl.Map(text)


class NotAffine(Exception):
    """An expression multiplies or divides by something that is not a constant; the text says which law would help."""


FLATTENED = "the law that numbering the blocks of a grid is a bijection"


@dataclass(frozen=True, slots=True)
class Access:
    """One operand of a statement: the region it reads or writes."""

    operand: str
    region: ir.Region
    mode: Literal["r", "w"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement with the loops and conditions around it.

    path: positions and loop variables from the outside in; the schedule. label: for people.
    engine: who carries it out (see `septran.ir.nodes`).
    """

    name: str
    kind: Kind
    stmt: ir.Stmt
    loops: tuple[ir.For, ...]
    guards: tuple[ir.When, ...]
    path: tuple[int | str, ...]
    accesses: tuple[Access, ...] = ()
    label: str = ""
    engine: str = ""

    @property
    def vars(self) -> tuple[str, ...]:
        """The loop variables, outermost first."""
        return tuple(f.var for f in self.loops)

    @property
    def span(self) -> Span | None:
        """Where the user's file asks for it."""
        return getattr(self.stmt, "span", None)

    @property
    def parallel(self) -> tuple[int, ...]:
        """Positions of the parallel loops among `loops`."""
        return tuple(k for k, f in enumerate(self.loops) if f.parallel)


def affine(e: Expr) -> str:
    """Return isl's text of an index expression.

    Raises:
        NotAffine: it is outside Presburger arithmetic.
    """
    match e:
        case Const(value):
            return f"({value})"
        case Var(name):
            return name
        case Bin("+" | "-" as op, a, b):
            return f"({affine(a)} {op} {affine(b)})"
        case Bin("*", Const(v), other) | Bin("*", other, Const(v)):
            return f"({v} * {affine(other)})"
        case Bin("//", a, Const(v)) if v > 0:
            return f"floor({affine(a)}/{v})"
        case Bin("%", a, Const(v)) if v > 0:
            return f"({affine(a)} mod {v})"
        case Bin("min" | "max" as op, a, b):
            return f"{op}({affine(a)}, {affine(b)})"
    raise NotAffine(f"{to_text(e)} multiplies or divides open numbers: {FLATTENED} is missing")


@dataclass(slots=True)
class Model:
    """A Program's statements and buffers.

    homes: buffer -> the loops inside which it is allocated. shapes: parameter -> extents, where symbolic.
    direct_flow: what `septran.prove.dataflow` found.
    radixes: array that is seen in another layout -> coordinates of its elements; the others' are their index.
    """

    program: ir.Program
    dims: tuple[Dim, ...]
    statements: tuple[Statement, ...]
    buffers: dict[str, ir.Buffer]
    homes: dict[str, tuple[ir.For, ...]]
    shapes: dict[str, tuple[Expr, ...]]
    depth: int
    radixes: Mapping[str, Radix] = field(default_factory=dict)
    direct_flow: DirectFlow | None = None
    _accesses: dict[tuple[str, int], isl.Map] = field(default_factory=dict)

    def set(self, body: str) -> isl.Set:
        """Return the isl set `{ body }` with the symbolic sizes as parameters."""
        return read_set(f"[{', '.join(d.name for d in self.dims)}] -> {{ {body} }}")

    def map(self, body: str) -> isl.Map:
        """Return the isl map `{ body }` with the symbolic sizes as parameters."""
        return read_map(f"[{', '.join(d.name for d in self.dims)}] -> {{ {body} }}")

    @property
    def sizes(self) -> str:
        """The condition on the symbolic sizes, "" when there are none."""
        return " and ".join(f"{d.low} <= {d.name} <= {d.high}" for d in self.dims)

    def when(self, s: Statement) -> str:
        """Return the condition under which an instance of `s` runs."""
        conds = [self.sizes] if self.dims else []
        conds += [f"0 <= {f.var} < {affine(f.extent)}" for f in s.loops]
        conds += [f"{w.low} <= {affine(w.expr)} < {w.high}" for w in s.guards]
        return " and ".join(conds) or "true"

    def instances(self, s: Statement, extra: str = "") -> isl.Set:
        """Return the instances of `s`, those that fulfil `extra` if given."""
        more = f" and ({extra})" if extra else ""
        return self.set(f"{s.name}[{', '.join(s.vars)}] : {self.when(s)}{more}")

    def extents(self, buffer: ir.Buffer) -> tuple[str, ...]:
        """Return the extents of a buffer, or of a view, as isl text; they may be symbolic."""
        if self.dims and buffer.extent:
            return tuple(affine(e) for e in buffer.extent)
        if buffer.name in self.shapes and not buffer.strides:
            return tuple(affine(e) for e in self.shapes[buffer.name])
        return tuple(str(n) for n in buffer.shape)

    def box(self, name: str) -> isl.Set:
        """Return all elements of parameter `name`."""
        at, conds = self.elements(name, "x")
        return self.set(f"{name}_[{', '.join(['0', *at])}] : {conds}")

    def elements(self, name: str, prefix: str) -> tuple[list[str], str]:
        """Return variables for the coordinates of a parameter's elements, and the condition that one is inside."""
        seen = self.radixes.get(name)
        buffer = self.buffers[name]
        size = self.extents(buffer) if seen is None else self._digits(buffer, seen)
        at = [f"{prefix}_{d}" for d in range(len(size))]
        conds = [f"0 <= {x} < {n}" for x, n in zip(at, size, strict=True)]
        conds += [self.sizes] if self.dims else []
        return at, " and ".join(conds) or "true"

    def _digits(self, buffer: ir.Buffer, seen: Radix) -> tuple[str, ...]:
        """Return how many values each digit of an array has; of the heaviest one, an open size may decide."""
        found = tuple(map(str, seen.extents))
        if not (self.dims and buffer.extent):
            return found
        factor, opened = factors(buffer.extent)
        if not opened:
            return found
        heaviest = seen.weights[0]
        if len(opened) > 1 or factor % heaviest:
            raise NotAffine(f"another layout of {buffer.name}, whose sizes are open, is not affine")
        return (f"{factor // heaviest} * {affine(opened[0])}", *found[1:])

    def cells(self, region: ir.Region, index: Sequence[str]) -> str:
        """Return the element at `index` (isl texts) of a region's buffer as isl text: slot and coordinates."""
        seen = self.radixes.get(region.buffer.name)
        return element(region, index if seen is None else seen.cells(region.buffer, index))

    def apart(self, region: ir.Region) -> bool:
        """Return whether no two positions of a region can be one element of its array."""
        xs = [f"x_{d}" for d in range(region.rank)]
        size = zip(xs, region.tile, region.buffer.shape, strict=True)
        box = " and ".join(f"0 <= {x} < {n if tile > 1 else 1}" for x, tile, n in size)
        whole = replace(region, version=None)
        return bool(
            self.map(f"T[{', '.join(xs)}] -> {self.cells(whole, xs)} : {box}").is_injective()
        )

    def index(self, name: str, coordinates: Sequence[int]) -> tuple[int, ...]:
        """Return the index, in an array as it is stored, of an element with these coordinates."""
        seen = self.radixes.get(name)
        return tuple(coordinates) if seen is None else seen.index(coordinates)

    def outside(self, region: ir.Region, index: Sequence[str]) -> str:
        """Return the condition that `index` lies outside a guarded region's buffer, "" where it cannot."""
        if not region.guard:
            return ""
        size = self.extents(region.buffer)
        return " or ".join(f"{x} < 0 or {x} >= {n}" for x, n in zip(index, size, strict=True))

    def touched(self, s: Statement, at: int) -> isl.Map:
        """Return the elements of access number `at`: instance -> [slot, index..]."""
        key = (s.name, at)
        if key not in self._accesses:
            self._accesses[key] = self._touched(s, s.accesses[at].region)
        return self._accesses[key]

    def _touched(self, s: Statement, region: ir.Region) -> isl.Map:
        xs = [f"x_{d}" for d in range(region.rank)]
        conds = [self.when(s)]
        for x, offset, extent, step in zip(
            xs, region.offset, region.extent, region.step, strict=True
        ):
            low = affine(offset)
            conds.append(f"{low} <= {x} <= {low} + {step} * ({affine(extent)} - 1)")
            if step != 1:
                conds.append(f"({x} - {low}) mod {step} = 0")
        head = f"{s.name}[{', '.join(s.vars)}]"
        if region.buffer.name not in self.radixes:
            return self.map(f"{head} -> {element(region, xs)} : {' and '.join(conds)}")
        if out := self.outside(region, xs):
            conds.append(f"not ({out})")
        cells = self.radixes[region.buffer.name].cells(region.buffer, xs)
        ys = [f"y_{k}" for k in range(len(cells))]
        conds += [f"{y} = {cell}" for y, cell in zip(ys, cells, strict=True)]
        seen = f"exists ({', '.join(xs)} : {' and '.join(conds)})" if xs else " and ".join(conds)
        return self.map(f"{head} -> {element(region, ys)} : {seen}")

    def time(self, s: Statement, phase: int | None = None) -> str:
        """Return the schedule of `s` as an isl tuple; phase: a last component of its own."""
        items = [str(p) for p in s.path]
        items += ["0"] * (self.depth - len(items))
        return ", ".join(items if phase is None else [*items, str(phase)])

    def schedule(self, s: Statement) -> isl.Map:
        """Return instance -> time."""
        return self.map(f"{s.name}[{', '.join(s.vars)}] -> [{self.time(s)}] : {self.when(s)}")

    def pairs(self, a: Statement, b: Statement, relation: str = "true") -> isl.Map:
        """Return instances of `a` -> instances of `b` under `relation` on variables y_k and z_k."""
        ys = ", ".join(f"y_{k}" for k in range(len(a.loops)))
        zs = ", ".join(f"z_{k}" for k in range(len(b.loops)))
        return self.map(f"{a.name}[{ys}] -> {b.name}[{zs}] : {relation}")

    def before(self, a: Statement, b: Statement) -> isl.Map:
        """Return a -> b where a comes earlier within one iteration of every parallel loop they share."""
        import islpy as isl

        times = self.schedule(a)
        later = isl.Map.lex_lt(times.range().get_space())
        found = times.apply_range(later).apply_range(self.schedule(b).reverse())
        return found.intersect(self.pairs(a, b, self._same_iteration(a, b)))

    def _same_iteration(self, a: Statement, b: Statement) -> str:
        equal = []
        for k, (f, g) in enumerate(zip(a.loops, b.loops, strict=False)):
            if f is not g:
                break
            if f.parallel:
                equal.append(f"y_{k} = z_{k}")
        return " and ".join(equal) or "true"


def slot(region: ir.Region) -> str:
    """Return the ring slot a region lies in as isl text."""
    return "0" if region.version is None else affine(region.version)


def element(region: ir.Region, coordinates: Sequence[str]) -> str:
    """Return the isl tuple of an element in a region's slot."""
    return f"{region.buffer.name}_[{', '.join([slot(region), *coordinates])}]"


def factors(extent: Sequence[Expr]) -> tuple[int, tuple[Expr, ...]]:
    """Return the number and the open sizes that extents multiply to."""
    factor, opened = 1, []
    todo = list(extent)
    while todo:
        match todo.pop():
            case Const(n):
                factor *= n
            case Bin("*", a, b):
                todo += [a, b]
            case size:
                opened.append(size)
    return factor, tuple(opened)


def union(maps: Iterable[isl.Map]) -> isl.Map | None:
    """Return the union, None of nothing."""
    found = list(maps)
    return reduce(lambda a, b: a.union(b), found) if found else None


def model(
    program: ir.Program,
    dims: Sequence[Dim] = (),
    shapes: dict[str, tuple[Expr, ...]] | None = None,
    *others: ir.Program,
) -> Model:
    """Return the model of a Program.

    dims: sizes that stay symbolic. shapes: parameter -> extents over them, where they are. others: Programs with the same parameters,
    with which elements are compared.

    Raises:
        NotAffine: an array of which more than one size is symbolic is seen in another layout.
    """
    seen = radixes(program, *others, highs={d.name: d.high for d in dims})
    build = _Builder(buffers={p.buffer.name: p.buffer for p in program.params})
    build.body(program.body, (), (), ())
    return Model(
        program=program,
        dims=tuple(dims),
        statements=tuple(build.statements),
        buffers=build.buffers,
        homes={**{p.buffer.name: () for p in program.params}, **build.homes},
        shapes=dict(shapes or {}),
        depth=max((len(s.path) for s in build.statements), default=1),
        radixes=seen,
    )


@dataclass(slots=True)
class _Builder:
    buffers: dict[str, ir.Buffer]
    homes: dict[str, tuple[ir.For, ...]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    calls: int = 0

    def body(
        self,
        body: tuple[ir.Stmt, ...],
        loops: tuple[ir.For, ...],
        guards: tuple[ir.When, ...],
        path: tuple[int | str, ...],
    ) -> None:
        for at, stmt in enumerate(body):
            here = (*path, at)
            match stmt:
                case ir.Alloc():
                    self.buffers[stmt.buffer.name] = stmt.buffer
                    self.homes[stmt.buffer.name] = loops
                case ir.For():
                    self.body(stmt.body, (*loops, stmt), guards, (*here, stmt.var))
                case ir.When():
                    self.body(stmt.body, loops, (*guards, stmt), here)
                case _:
                    self.statements.append(self._statement(stmt, loops, guards, here))

    def _statement(
        self,
        stmt: ir.Stmt,
        loops: tuple[ir.For, ...],
        guards: tuple[ir.When, ...],
        path: tuple[int | str, ...],
    ) -> Statement:
        kind, accesses, label, engine = self._what(stmt)
        return Statement(
            name=f"S{len(self.statements)}",
            kind=kind,
            stmt=stmt,
            loops=loops,
            guards=guards,
            path=path,
            accesses=accesses,
            label=label,
            engine=engine,
        )

    def _what(self, stmt: ir.Stmt) -> tuple[Kind, tuple[Access, ...], str, str]:
        match stmt:
            case ir.Copy(dst=dst, src=src):
                both = (Access("src", src, "r"), Access("dst", dst, "w"))
                return (
                    "copy",
                    both,
                    f"copy {dst.buffer.name} <- {src.buffer.name}",
                    stmt.engine,
                )
            case ir.LeafCall():
                touched = [Access(a.param, a.region, "r") for a in stmt.args if "r" in a.privilege]
                touched += [Access(a.param, a.region, "w") for a in stmt.args if "w" in a.privilege]
                self.calls += 1
                return (
                    "leaf",
                    tuple(touched),
                    f"L{self.calls - 1}_{stmt.task}",
                    stmt.engine,
                )
            case ir.Post():
                return "post", (), f"post {stmt.event}", stmt.engine
            case ir.Await():
                return "await", (), f"await {stmt.event}", stmt.engine
            case ir.Sync():
                return "sync", (), f"sync {stmt.scope}", ""
        raise TypeError(stmt)
