"""What was printed, read back from the text alone: loops, conditions, operands and scalars of each statement.

A target's reader fills these in from the source; it knows the spelling, not the Program. `septran.prove.text`
compares them with the Program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from septran.ir.expr import Const, Expr, Var
from septran.ir.nodes import LeafCall, Scalar, Stmt

Kind = Literal["copy", "fill", "leaf", "sync", "post", "await"]
Number = Expr | float


class Unreadable(Exception):
    """The text says something that its reader does not know: nothing is claimed about it."""


class Unread(Unreadable):
    """Kernels of this kind have no reader."""


class Broken(Unreadable):
    """The text means nothing in its language: a name that nothing binds, tiles that do not fit. file: "" until the reader says it."""

    def __init__(self, what: str, line: int, file: str = "") -> None:
        super().__init__(f"line {line}: {what}")
        self.what, self.line, self.file = what, line, file


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loop:
    """A loop of the text, told apart by identity.

    indices: what stands for the Program's loop variables: None = the loop's own; of a grid, expressions of the block's number.
    parallel: whether the text runs its iterations at once. squares: indices of a grid that the text permutes, with the extents it says they
    have. stages: how deep the text pipelines it, None where it does not say.
    """

    var: str
    extent: Expr
    line: int
    parallel: bool = False
    indices: tuple[tuple[str, Expr], ...] | None = None
    squares: tuple[tuple[str, int], ...] = ()
    stages: int | None = None


@dataclass(frozen=True, slots=True)
class Test:
    """The condition `a op b`, op one of < <= > >= ==."""

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An operand that is a value: a tile of static extents, each position of which has one element.

    shape: its extents, () where the text does not say. index: the variables of a position. tests: the positions that are read or
    written. fill: what the others read as, None = anything. within: the positions that keep what they have, None = all; the others
    are 0. wide: whether addresses have 64 bits.
    """

    shape: tuple[int, ...] = ()
    index: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    fill: float | None = None
    within: tuple[Test, ...] | None = None
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An operand that is a part of the block of an array that a step holds: a tile of static extents.

    shape: its extents. index: the variables of a position. at: the array's element at a position, per dim as the text holds the array.
    inside: (index, extent) with 0 <= index < extent for each position that lies in the block. zeros: how many stand before and
    behind the array, per dim. tests: the positions that are written.
    """

    shape: tuple[int, ...]
    index: tuple[str, ...]
    at: tuple[Expr, ...]
    inside: tuple[tuple[Expr, int], ...]
    zeros: tuple[tuple[int, int], ...]
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An operand: element at + sum of strides[d] * i_d of the array `base`, for 0 <= i_d < extent[d].

    extent: None where the text leaves it to others. strides: None for arrays the target lays out itself.
    unit: what `at` counts an element as, 1 or its bytes. dtype, memory: "" where the text does not say. flat: it is a tile of
    rows and columns, whatever the rank of the Program's region.
    outside, step: of a padded operand, its first index per dimension, which may lie outside, and its steps; `extent` counts
    positions and `whole` is the array's shape. fill: what it reads as outside. held: of an operand that is a value; `at` is then the
    element at a position. part: of an operand that is a part of a block; it says more than `at`.
    """

    base: str
    at: Expr
    extent: tuple[Expr, ...] | None
    strides: tuple[int, ...] | None
    unit: int = 1
    dtype: str = ""
    memory: str = ""
    flat: bool = False
    outside: tuple[Expr, ...] = ()
    step: tuple[Expr, ...] = ()
    whole: tuple[Expr, ...] = ()
    fill: float = 0.0
    held: Held | None = None
    part: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Elements that the text copies: dst[into] = src[taken] for each position of `box` (variable, extent) where `tests` hold.

    into, taken: an index per dim of the arrays as the text declares them. rest: what dst[into] gets at the other positions, None:
    nothing. src "": `rest` is written at all positions. tiles: whole tiles are copied, with what lies beyond their extents.
    dtype: what elements become on the way, "" = they stay as they are. fits: whether both sides have the same extents.
    """

    dst: str
    into: tuple[Expr, ...]
    box: tuple[tuple[str, Expr], ...]
    src: str = ""
    taken: tuple[Expr, ...] = ()
    tests: tuple[Test, ...] = ()
    rest: float | None = None
    tiles: bool = False
    dtype: str = ""
    fits: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One printed statement.

    move: of a copy or fill that is said element by element. what: a copy's or leaf's name, a signal's name. views: in the order of the Program's operands. needs: expressions whose
    division or remainder is only the floor's where they are not negative. engine: ASYNC of a copy that is only begun. tile: static
    extents that a copy is made for; full: that they are the whole array. pending: groups of copies that a wait leaves under way.
    """

    kind: Kind
    what: str
    line: int
    loops: tuple[Loop, ...]
    tests: tuple[Test, ...]
    views: tuple[View, ...] = ()
    scalars: tuple[Number, ...] = ()
    needs: tuple[Expr, ...] = ()
    engine: str = ""
    tile: tuple[int, ...] = ()
    full: bool = False
    pending: int | None = None
    move: Move | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where the text puts a buffer: `offset` bytes into `memory`, alive inside `scope` (blocks from the outside in).

    memory: "" where the compiler finds the room. layout, shape: as declared, "" and () where the text does not say.
    allocator: the call that makes it, likewise.
    """

    memory: str
    offset: int
    scope: tuple[int, ...]
    line: int
    dtype: str = ""
    layout: str = ""
    shape: tuple[int, ...] = ()
    allocator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How a target lays out one version of a buffer.

    address: element index -> position. size: positions of one version. strides: what a view of it says, () = nothing.
    cells, shape: of a target whose text indexes the array: element index -> index, and the extents that the text declares.
    allocator: the call that makes it, "" where none does.
    """

    index: tuple[str, ...]
    address: Expr
    size: int
    strides: tuple[int, ...] = ()
    packed: bool = False
    cells: tuple[Expr, ...] = ()
    shape: tuple[int, ...] = ()
    allocator: str = ""

    @classmethod
    def of_cells(
        cls,
        rank: int,
        cells: Callable[[tuple[Expr, ...]], tuple[Expr, ...]],
        shape: tuple[int, ...],
        allocator: str,
    ) -> Place:
        """Return the place of an array that the text indexes; cells: element index -> the text's index."""
        index = tuple(f"x_{d}" for d in range(rank))
        found = cells(tuple(Var(x) for x in index))
        address: Expr = Const(0)
        for cell, n in zip(found, shape, strict=True):
            address = address * n + cell
        return cls(
            index=index,
            address=address,
            size=math.prod(shape),
            cells=found,
            shape=shape,
            allocator=allocator,
        )

    @classmethod
    def of_steps(cls, steps: tuple[int, ...], size: int, start: int = 0) -> Place:
        """Return the place of an array of so many positions whose elements lie by strides."""
        index = tuple(f"x_{d}" for d in range(len(steps)))
        address: Expr = Const(start)
        for name, step in zip(index, steps, strict=True):
            address = address + Var(name) * step
        return cls(index=index, address=address, size=size, strides=steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What a language whose tiles are values adds: a leaf takes those it reads and returns those it writes, and loops of one iteration are not printed.

    tiles: buffers that the text has a tile for; parts of the others are read where they were copied from. padded: extent -> that of the
    tile that holds it; None: operands are parts of blocks and have the Program's extents. clean: memories whose tiles hold 0 beyond their extents. undefined: buffer -> the loops in which the text leaves its
    tile undefined.
    """

    tiles: frozenset[str]
    padded: Callable[[int], int] | None
    clean: frozenset[str]
    undefined: Mapping[str, tuple[Loop, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A kernel's text, read back.

    names: the text's name -> the Program's buffer. order: which of the caller's arrays each parameter is. rooms: by the text's name.
    memories: memory -> bytes the text reserves. places: the Program's buffers as the target lays them out. silent: kinds of statements that
    the target has no text for. widened: kinds that may run more often than the Program says. tiled: statements are cut into loops
    around tiles. symbol, scalars: how a leaf is called, and the numbers it gets. wrong: lines that the reader itself refuses, and why.
    values: of a language whose tiles are values. steps: what a statement of the Program becomes, None: itself.
    clean: tiles hold 0 beyond the extents that were copied. unrolled: loops of one iteration are not printed. options: what the text
    says of the Program's options. began: the scalar of a product that is 0 where the fill before it is not printed.
    """

    file: str
    acts: tuple[Act, ...]
    names: Mapping[str, str]
    order: tuple[str, ...]
    rooms: Mapping[str, Room] = field(default_factory=dict)
    memories: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    silent: frozenset[Kind] = frozenset()
    widened: frozenset[Kind] = frozenset()
    tiled: bool = False
    clean: bool = False
    unrolled: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    began: str = ""
    steps: Callable[[Stmt], tuple[Kind, ...] | None] = lambda stmt: None
    symbol: Callable[[LeafCall], str] = lambda call: call.symbol
    scalars: Callable[[LeafCall], list[Scalar]] = lambda call: [v for _, v in call.scalars]
    wrong: tuple[tuple[int, str], ...] = ()
    values: Values | None = None
