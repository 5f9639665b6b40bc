"""The Program: what a kernel does, after the mapping is applied, before any target's syntax.

A Program is a tree of frozen statements. Semantics are sequential, except where a statement names an
`engine`: then it is only issued when it is reached, and is ordered with the statements of other engines
by `Sync`, `Post` and `Await` alone. The interpreter in `septran.passes.interpret` runs exactly that and
starts every buffer as NaN.

Engines are names that a target's passes give. Five have a fixed meaning:

    ""        the processor itself: in order.
    THREADS   all threads of the processor together, sharing a statement's work in a way that nobody
              knows: two such statements are ordered by a Sync only, unless the memory is private.
    ASYNC     copies in flight (cp.async): they land in any order; a Post takes all that were issued.
    BULK      copies that a barrier object counts (TMA): a Post takes those since the last Post.
    ALL       all queues of the processor: a leaf that gives out commands of its own.

An Await by THREADS is seen by every thread; an Await by THREAD only tells each thread of its own part of
the copies, which a Sync then makes known to all. Every other engine is an in-order queue.

Shapes are static per Program (a Program is bound for given dims); extents at ragged edges are
expressions over loop variables, always `1 <= extent <= tile`. The exception are dims that stay open until
the kernel runs (`Program.dims`): they are variables of every expression, and parameters have extents over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from septran.errors import Span
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const, Expr
from septran.ir.strides import row_major

Privilege = Literal["r", "w", "rw"]
THREADS, THREAD, ASYNC, BULK, ALL = "THREADS", "THREAD", "ASYNC", "BULK", "ALL"
"""Engines with a fixed meaning (see above)."""
VALUES = "values"
"""Option of a Program: memories whose buffers are values of the target's language, which orders their reads and writes."""
CORE_ID, CORE_NUM = "core_id", "core_num"
"""Free variables of a distributed Program: this core's number and how many cores there are."""
Scalar = Expr | float
"""A scalar leaf argument: an integer expression over loop variables, or a float constant."""

INLINE = "inline"
"""`LeafCall.impl` of a leaf that is no function: the target's passes put its operations in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A named array in one memory.

    name: unique in the Program; parameters keep the user's name.
    shape: static extents. A staged tile has the tile's full extents, also at ragged edges.
    mem: a memory of the machine (GLOBAL, SHARED, REGISTER, ...). Parameters are in GLOBAL.
    layout: "row" (row-major, the default) or a named layout a leaf asks for, e.g. "panel_m:14"
        ([ceil(m/14)][k][14], zero padded) or "panel_n:32" ([ceil(n/32)][k][32], zero padded).
    versions: number of copies of the buffer for n-buffering; a Region picks one by `version`.
    offset, size: first byte inside its memory per processor, and bytes of one version as stored, once
        `place_buffers` has run.
    strides, start: of another view of the array `name` (`task.reshape`, `permute`, `slice`): the strides
        of `shape` and the first element, in elements of the array. () = row-major from the start.
    extent: of memory with open sizes, its sizes over the Program's open dims, of which `shape` bounds one case; () = `shape`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    mem: str
    layout: str = "row"
    versions: int = 1
    offset: int | None = None
    size: int | None = None
    strides: tuple[int, ...] = ()
    start: int = 0
    extent: tuple[Expr, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides of `shape` in elements."""
        return self.strides or row_major(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of one version in row layout."""
        total = nbytes(self.dtype)
        for extent in self.shape:
            total *= extent
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A rectangular, possibly strided, part of a buffer.

    offset[d] + step[d] * i, for 0 <= i < extent[d], addresses dimension d of the buffer.
    tile[d]: static upper bound of extent[d].
    grid[d]: for a panel (':' index), the block size along d; 0 otherwise. Used by `stream`.
    guard: positions outside the buffer read as `fill` (convolution padding); only for reading.
    """

    buffer: Buffer
    offset: tuple[Expr, ...]
    extent: tuple[Expr, ...]
    tile: tuple[int, ...]
    step: tuple[int, ...]
    grid: tuple[int, ...]
    guard: bool = False
    version: Expr | None = None
    fill: float = 0.0

    @classmethod
    def whole(cls, buffer: Buffer, extent: tuple[Expr, ...] | None = None) -> Region:
        """Return `buffer` from its origin to its static end, or to the run-time `extent`."""
        rank = len(buffer.shape)
        return cls(
            buffer=buffer,
            offset=(Const(0),) * rank,
            extent=tuple(Const(n) for n in buffer.shape) if extent is None else extent,
            tile=buffer.shape,
            step=(1,) * rank,
            grid=(0,) * rank,
        )

    def part(self, inner: Region) -> Region:
        """Return the part of this region that `inner` is of a tile which holds it whole."""
        steps = zip(self.offset, inner.offset, self.step, strict=True)
        return replace(
            self,
            offset=tuple(o + p * s for o, p, s in steps),
            extent=inner.extent,
            tile=inner.tile,
            step=tuple(a * b for a, b in zip(self.step, inner.step, strict=True)),
            grid=(0,) * inner.rank,
        )

    @property
    def rank(self) -> int:
        """Number of dimensions (that of the buffer)."""
        return len(self.tile)

    @property
    def is_whole(self) -> bool:
        """True for an unversioned buffer from its origin to its static end (extents may be shorter)."""
        return (
            self.tile == self.buffer.shape
            and all(o == Const(0) for o in self.offset)
            and all(s == 1 for s in self.step)
            and not self.guard
            and self.version is None
            and self.buffer.versions == 1
        )


PRIMITIVE_NAMES = (
    "fill", "copy", "transpose", "gemm", "gemm_acc", "map", "reduce", "reduce_acc",
    "scan", "argreduce", "gather", "scatter_acc", "extern",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Prim:
    """One primitive inside a leaf: names refer to the leaf's parameters.

    out: the parameter written. ins: positional operands read. named: keyword operands of `map`
    (operand name in the expression -> parameter). attrs: value=, expr=, op=, axis=, trans_a=,
    trans_b=, perm=, graph=, result= (sorted by name).
    """

    name: str
    out: str
    ins: tuple[str, ...] = ()
    named: tuple[tuple[str, str], ...] = ()
    attrs: tuple[tuple[str, object], ...] = ()

    def attr(self, key: str, default: object = None) -> object:
        """Return the attribute `key`, or `default`."""
        return dict(self.attrs).get(key, default)

    def axis(self, rank: int) -> int:
        """Return `axis=` counted from the front of an operand of `rank` dims, its last one where none is named."""
        return int(str(self.attr("axis", -1))) % rank

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return all of `axis=`, as `axis` counts them; bind leaves each primitive one."""
        found = self.attr("axis", -1)
        return found if isinstance(found, tuple) else (self.axis(rank),)

    @property
    def op(self) -> str:
        """Return `op=`, "" where there is none."""
        return str(self.attr("op", ""))

    @property
    def perm(self) -> tuple[int, ...]:
        """Return `perm=`: the source's axis of each axis of the output."""
        return tuple(int(d) for d in self.attr("perm"))  # type: ignore[attr-defined]

    @property
    def turned(self) -> tuple[bool, bool]:
        """Return whether a product reads its first operand, and its second, with rows and columns swapped."""
        return bool(self.attr("trans_a")), bool(self.attr("trans_b"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafArg:
    """One tensor argument of a leaf call.

    mem: the memory the mapping wants the operand in, "" = where it is. `insert_copies` stages
    operands whose memory differs and clears the field.
    unread: nothing reads what the call leaves here, so a leaf may leave anything (`mark_unread`).
    """

    param: str
    region: Region
    privilege: Privilege
    mem: str = ""
    unread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Alloc:
    """Bring a buffer to life for the rest of the enclosing body; contents undefined (NaN).

    Met again on the same processor it is the same memory, which may still be in use.
    """

    buffer: Buffer
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Inside:
    """Positions of one dim of a copy that lie in its source: `first` <= p < `end`.

    singly: they are loaded one by one, so there may be none, and they may be steps apart.
    """

    first: Expr
    end: Expr
    singly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy src into dst (same extents; casts; applies dst.buffer.layout). engine: who runs it.

    inside: of a target that cannot load a padded or strided window: dst gets the window's fill, then only these
        positions of each dim are loaded; () = the copy does all of it.
    """

    dst: Region
    src: Region
    engine: str = ""
    inside: tuple[Inside, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafCall:
    """Run a leaf task on regions.

    impl: what the mapping asks for: a leaf kernel's name or "auto"; INLINE once a leaf is chosen that the
        target expands in place; later the operation that it became.
    prims: its meaning. symbol: the chosen leaf, "" before `name_leaves`. engine: who runs it.
    """

    task: str
    impl: str
    args: tuple[LeafArg, ...]
    scalars: tuple[tuple[str, Scalar], ...] = ()
    prims: tuple[Prim, ...] = ()
    symbol: str = ""
    engine: str = ""
    span: Span | None = field(default=None, compare=False)

    def arg(self, param: str) -> LeafArg:
        """Return the argument bound to `param`; KeyError when it is none."""
        for a in self.args:
            if a.param == param:
                return a
        raise KeyError(param)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Wait until `engines` have done all they were given and all processors of `scope` have arrived.

    engines: those that are waited for; None = all. A block barrier that waits for no copy has ().
    """

    scope: str
    engines: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """`engine` signals `event` (slot) after everything it was given before (see BULK above)."""

    event: str
    slot: Expr
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """`engine` waits for `event` (slot) before anything it is given later, and takes the signal."""

    event: str
    slot: Expr
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class For:
    """`for var in 0..extent`. proc: the processor level the iterations run on, "" = sequential.

    parallel: iterations are independent (checked on the logic). pipeline: depth asked for by the
    mapping (0 = none); warpspecialize: producer/consumer split asked for.
    """

    var: str
    extent: Expr
    body: tuple[Stmt, ...]
    proc: str = ""
    parallel: bool = False
    pipeline: int = 0
    warpspecialize: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Run the body only where `low <= expr < high` (used by pipelined prologues)."""

    expr: Expr
    low: int
    high: int
    body: tuple[Stmt, ...]


Stmt = Alloc | Copy | LeafCall | Sync | Post | Await | For | When


@dataclass(frozen=True, slots=True)
class Dim:
    """A size that stays open: every value from `low` to `high` is meant."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A kernel parameter: its buffer and whether the kernel reads and/or writes it."""

    buffer: Buffer
    privilege: Privilege


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One bound kernel. `proc` levels outermost first; `options` from the mapping (threads, ...).

    dims: sizes that are known when the kernel runs, not before.
    """

    name: str
    target: str
    arch: str
    machine: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    options: tuple[tuple[str, object], ...] = ()
    dims: tuple[Dim, ...] = ()

    def option(self, key: str, default: object = None) -> object:
        """Return a mapping option (threads, math, swizzle, smem_limit, ...)."""
        return dict(self.options).get(key, default)

    def with_options(self, more: Mapping[str, object]) -> Program:
        """Return the Program with these options added or replaced; options are sorted by name."""
        return replace(self, options=tuple(sorted({**dict(self.options), **more}.items())))


def private_memories(program: Program) -> frozenset[str]:
    """Return the memories that each of THREADS has for itself, or that the target's language orders."""
    values = program.option(VALUES, ())
    assert isinstance(values, list | tuple)
    return frozenset(("REGISTER", *values))


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the nested statements of `stmt`."""
    return stmt.body if isinstance(stmt, For | When) else ()


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Yield every statement, outside in, in order."""
    for stmt in body:
        yield stmt
        yield from walk(children(stmt))


def allocated(body: tuple[Stmt, ...]) -> Iterator[Buffer]:
    """Yield the buffers that are allocated anywhere in `body`, in order."""
    return (s.buffer for s in walk(body) if isinstance(s, Alloc))


def buffers(program: Program) -> tuple[Buffer, ...]:
    """Return parameters and allocated buffers."""
    return (*(p.buffer for p in program.params), *allocated(program.body))


def leaf_calls(program: Program) -> tuple[LeafCall, ...]:
    """Return all leaf calls in order of appearance."""
    return tuple(s for s in walk(program.body) if isinstance(s, LeafCall))
