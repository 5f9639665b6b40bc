"""What a Python emulation says of a kernel's comparisons to the search for inputs that turn them (septran/host/sought.c).

Runs in the confined child. A tile's comparison has two sides for each of its lanes. Beside them it is told how far several comparisons
are from holding together, each by a margin that is positive where it holds (as Tracey et al., "An automated framework for
structural test-data generation", 1998, measure distances): those that `&`, `|` and `~` make a mask of, those that decide whether another is made or its choice
is taken, and each two of like tiles, in whatever way the kernel brings them together.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

_REAL, _WHOLE = 0, 1
_MANY, _PLACES, _PARTS = 1 << 16, 12, 6
"""lanes of a joint comparison, comparisons that are paired with others, and comparisons that are joined, at most"""
_LEAST = np.finfo(np.float64).tiny
_ROOM = 1 << 20
"""places of one line: addresses of the program are lines times this"""
Array = np.ndarray[Any, np.dtype[Any]]
Parts = tuple[Array, ...]
"""margins of comparisons that hold together, which broadcast against each other"""


class Told:
    """One search: `begin` before each call, then what the call compares.

    Masks are known by their objects: arrays, of which views are followed, or whatever else an emulation has.
    """

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._margins: dict[int, tuple[Any, Parts]] = {}
        self._chosen: dict[int, tuple[Any, list[Parts]]] = {}
        self._path: list[Parts] = []
        self._latest: dict[int, Array] = {}
        self._pairs: dict[tuple[int, int], int] = {}
        self._signs: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._moving: list[int] = []
        self._where: dict[tuple[int, object], int] = {}

    def seek(self, asked: str, brought: str, call: Callable[[Any], None]) -> None:
        """Run the search; call: addresses of the kernel's parameters -> the kernel is called on them."""
        kind = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))
        self._library.st_seek(asked.encode(), brought.encode(), kind(call))

    def begin(self) -> None:
        """A call begins. A comparison counts once inputs are seen to change what it compares."""
        for place, sign in self._signs.items():
            first = self._first.setdefault(place, sign)
            if sign != first and place not in self._moving and len(self._moving) < _PLACES:
                self._moving.append(place)
        self._signs.clear()
        self._margins.clear()
        self._chosen.clear()
        self._latest.clear()
        self._path.clear()

    def compared(
        self, line: int, which: object, op: str, a: Array, b: Array, found: Array, mask: Any = None
    ) -> None:
        """Tell a comparison `a op b` (< <= > >= == !=), with its result. which: tells it from others of its line.

        mask: the object that holds the result, None: the array itself.
        """
        whole = a.dtype.kind in "iub" and b.dtype.kind in "iub"
        left, right = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
        place = self._place(line, which)
        self._say(place, left, right, _WHOLE if whole else _REAL)
        self._signs[place] = hash((self._signs.get(place), left.tobytes(), right.tobytes()))
        if place not in self._moving or left.size > _MANY:
            return
        margin = _margin(op, left, right, np.asarray(found))
        self._keep(found if mask is None else mask, (margin,))
        if self._path:
            for sides in (margin, -margin):
                self._join(line, (which, sides is margin), (*_all(self._path), sides))
        for other, known in self._latest.items():
            if other != place:
                self._pair((place, margin), (other, known))
        self._latest[place] = margin

    def joined(self, line: int, which: object, op: str, a: Any, b: Any, mask: Any) -> None:
        """Tell a mask that is made of two (& | ^)."""
        x, y = self._parts(a), self._parts(b)
        if x is None and y is None:
            return
        x = (_sure(a),) if x is None else x
        y = (_sure(b),) if y is None else y
        if op == "&":
            made = (*x, *y)
        elif op == "|":
            made = (np.maximum(_least(x), _least(y)),)
        else:
            one, other = _least(x), _least(y)
            made = (np.maximum(np.minimum(one, -other), np.minimum(-one, other)),)
        made = _together(made)
        self._keep(mask, made)
        self._join(line, which, (*_all(self._path), *made))

    def known(self, mask: Any) -> bool:
        """Whether comparisons decide a mask, or a number that is 1 where they hold."""
        return self._parts(mask) is not None

    def turned(self, a: Any, mask: Any) -> None:
        """Tell a mask that is another's opposite."""
        parts = self._parts(a)
        if parts is not None:
            self._keep(mask, (-_least(parts),))

    def same(self, a: Any, mask: Any) -> None:
        """Tell what is 1 where a mask is true, else 0."""
        parts = self._parts(a)
        if parts is not None:
            self._keep(mask, parts)

    def chose(self, line: int, which: object, mask: Any, a: Any, b: Any, made: Any) -> None:
        """Tell that `made` is `a` where a mask is true, else `b`: a choice within is taken where both decide so."""
        parts = self._parts(mask)
        if parts is None:
            return
        sides = ((a, parts), (b, (-_least(parts),)))
        found = [side for _, side in sides]
        for value, side in sides:
            for number, inner in enumerate(self._choices(value)):
                both = _together((*side, *inner)) if _fit(side, inner) else ()
                if both:
                    self._join(line, (which, side is parts, number), both)
                    found.append(both)
        self._chosen[id(made)] = (made, found[:8])

    def decided(self, mask: Any, *, as_it_is: bool = True) -> None:
        """Tell that what follows runs where a mask is true (or false)."""
        parts = self._parts(mask)
        if parts is not None:
            self._path.append(parts if as_it_is else (-_least(parts),))

    def path(self) -> int:
        """Return how many decisions lie behind; `back` goes to where there were so many."""
        return len(self._path)

    def another(self) -> None:
        """Another block begins: what it compares does not hold together with what the last one compared."""
        self._latest.clear()

    def back(self, to: int = 0) -> None:
        """Tell that what follows no longer depends on the decisions after the first `to`."""
        del self._path[to:]

    def _pair(self, one: tuple[int, Array], other: tuple[int, Array]) -> None:
        (low, x), (high, y) = sorted((one, other), key=lambda each: each[0])
        if x.ndim != y.ndim or not _fit((x,), (y,)):
            return
        number = self._pairs.setdefault((low, high), len(self._pairs))
        for sides, parts in enumerate(((x, y), (x, -y), (-x, y), (-x, -y))):
            self._told((1 << 50) + 4 * number + sides, parts)

    def _join(self, line: int, which: object, parts: Parts) -> None:
        rank = max(part.ndim for part in parts)
        # a program's own number, and those of its tile: the first axis is the program
        parts = tuple(p.reshape(p.shape + (1,) * (rank - p.ndim)) for p in parts)
        if len(parts) > 1 and _fit(parts):
            self._told(self._place(line, ("joint", which)), _together(parts))

    def _told(self, place: int, parts: Parts) -> None:
        rows = np.broadcast_arrays(*parts)
        if rows[0].size > _MANY or len(rows) > _PARTS:
            return
        table = np.ascontiguousarray(np.stack([row.reshape(-1) for row in rows]), np.float64)
        self._library.st_joint(ctypes.c_uint64(place), ctypes.c_uint64(rows[0].size), _pointer(table), len(rows))  # fmt: skip

    def _place(self, line: int, which: object) -> int:
        """Return the address of a comparison: `lines_of` undoes it."""
        number = self._where.setdefault((line, which), len(self._where) + 1)
        return line * _ROOM + number % _ROOM

    def _say(self, place: int, a: Array, b: Array, kind: int) -> None:
        left, right = (np.ascontiguousarray(x, np.float64) for x in (a, b))
        self._library.st_compared(
            ctypes.c_uint64(place), ctypes.c_uint64(left.size), _pointer(left), _pointer(right), kind
        )  # fmt: skip

    def _keep(self, mask: Any, parts: Parts) -> None:
        if isinstance(mask, np.ndarray):
            if not mask.flags.c_contiguous or mask.base is not None:
                return
            parts = tuple(np.ascontiguousarray(np.broadcast_to(p, mask.shape)) for p in parts)
        self._margins[id(mask)] = (mask, parts)

    def _parts(self, mask: Any) -> Parts | None:
        """Return the margins of a mask, or of what broadcasting and reshaping made of one."""
        root = mask
        while isinstance(root, np.ndarray) and isinstance(root.base, np.ndarray):
            root = root.base
        held, parts = self._margins.get(id(root), (None, ()))
        if held is not root or not parts:
            return None
        return parts if mask is root else tuple(_viewed(mask, root, part) for part in parts)

    def _choices(self, made: Any) -> list[Parts]:
        held, found = self._chosen.get(id(made), (None, []))
        return found if held is made else []


def lines_of(places: list[int]) -> dict[int, int]:
    """Return the line of each place that `Told` said."""
    return {place: (place + 1) // _ROOM for place in places}


def _pointer(x: Array) -> Any:
    return x.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def _viewed(mask: Array, root: Array, margin: Array) -> Array:
    """Return of a margin that lies as `root` does what `mask` is of `root`."""
    start = mask.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    step = margin.itemsize // mask.itemsize
    flat = margin.reshape(-1)[start // mask.itemsize :]
    strides = [step * stride for stride in mask.strides]
    return np.lib.stride_tricks.as_strided(flat, mask.shape, strides, writeable=False)


def _all(path: list[Parts]) -> Parts:
    return tuple(part for parts in path for part in parts)


def _fit(*groups: Parts) -> bool:
    """Whether margins broadcast against each other."""
    try:
        np.broadcast_shapes(*(part.shape for parts in groups for part in parts))
    except ValueError:
        return False
    return True


def _least(parts: Parts) -> Array:
    found = parts[0]
    for part in parts[1:]:
        found = np.minimum(found, part)
    return found


def _together(parts: Parts) -> Parts:
    """Return as many margins as are told; what is more becomes one."""
    return parts if len(parts) <= _PARTS else (*parts[: _PARTS - 1], _least(parts[_PARTS - 1 :]))


def _margin(op: str, a: Array, b: Array, found: Array) -> Array:
    with np.errstate(all="ignore"):
        away = np.where(a == b, 0.0, a - b)
    if op in ("==", "!="):
        away = np.abs(away) if op == "!=" else -np.abs(away)
    elif op.startswith("<"):
        away = -away
    away = np.where(np.isnan(away), np.where(found, np.inf, -np.inf), away)
    return np.where(found, np.maximum(away, _LEAST), np.minimum(away, -_LEAST))


def _sure(mask: Any) -> Array:
    """Return the margin of a mask that no input decides."""
    held = getattr(mask, "data", mask)
    return np.where(
        np.asarray(mask if isinstance(mask, np.ndarray) else held, bool), np.inf, -np.inf
    )
