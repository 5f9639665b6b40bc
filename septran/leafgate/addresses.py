"""Where the addresses of a leaf point, so that none tells where tensors lie.

Which of two objects lies first is one thing where a leaf is judged and another where it is used, so addresses are compared within one
object only. Every operand, variable, array and parameter is an object; a pointer points into those that any assignment of the leaf
gives it, in whatever order: what is compared is decided when the whole leaf is known (the inclusion constraints of Andersen's
points-to analysis, without fields).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Place = int
Places = frozenset[Place]
UNKNOWN: Place = 0
"""An object that is not followed: it is the same as none, itself included."""
NULL: Place = 1
"""No object."""
SOMEWHERE: Places = frozenset((UNKNOWN,))


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression's value.

    levels: of an address, the places that it points to, then those that the addresses there point to. inside: of what has an address,
    the places it is part of. data: of a view or an array of views, where its elements lie; of other things that may be views, the same.
    """

    levels: tuple[Places, ...] = ()
    inside: Places = SOMEWHERE
    data: Places = frozenset()

    @property
    def address(self) -> bool:
        """Whether it is an address: a pointer, or an array, which becomes one."""
        return bool(self.levels)

    @property
    def elements(self) -> Places:
        """Where the elements of a view lie."""
        return self.data or SOMEWHERE

    def element(self) -> Value:
        """Return what an index or a * takes out of it."""
        if self.levels:
            return Value(self.levels[1:], inside=self.levels[0], data=self.data)
        return Value(inside=self.elements)


@dataclass(frozen=True, slots=True)
class Type:
    """What a name of the leaf's own for a type stands for. number: a number's type. view: its values hold an address."""

    number: bool = False
    view: bool = False


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a lambda. pointer: declared with *; changes: a reference through which what is given can be changed."""

    pointer: bool = False
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """What a call of the leaf's own lambda takes and gives: how many levels the address has that it returns."""

    params: tuple[Param, ...] = ()
    levels: int = 0


def either(first: Value, second: Value) -> Value:
    """Return what is known of a value that is one of two."""
    longer = max(first.levels, second.levels, key=len)
    levels = []
    for at in range(len(longer)):
        found = [
            v.levels[at] if at < len(v.levels) else frozenset((NULL,)) for v in (first, second)
        ]
        levels.append(found[0] | found[1])
    data = first.elements | second.elements if first.data or second.data else frozenset[Place]()
    return Value(tuple(levels), first.inside | second.inside, data)


class Origins:
    """The places of one leaf, and what may point where."""

    def __init__(self) -> None:
        self._objects: set[Place] = {UNKNOWN, NULL}
        self._of: dict[Place, set[Place]] = {}
        self._next = NULL + 1

    def object(self) -> Places:
        """Return the place of a new object."""
        (made,) = self.holder()
        self._objects.add(made)
        return frozenset((made,))

    def holder(self, *of: Places) -> Places:
        """Return a place that stands for those that something points to: `of`, and what is assigned later."""
        made = frozenset((self._next,))
        self._next += 1
        for places in of:
            self.flows(made, places)
        return made

    def flows(self, into: Iterable[Place], places: Places) -> None:
        """Note that `into` may stand for what `places` stand for."""
        for place in into:
            self._of.setdefault(place, set()).update(places)

    def held(self, levels: tuple[Places, ...], *, alias: bool = False) -> tuple[Places, ...]:
        """Return the levels of a new variable that is set to an address; what it points to is shared. alias: so is the variable."""
        made = tuple(self.holder(places) for places in levels)
        for at, (new, places) in enumerate(zip(made, levels, strict=True)):
            if at or alias:
                self.flows(places, new)
        return made

    def given(self, levels: tuple[Places, ...], new: tuple[Places, ...]) -> None:
        """Note an assignment to what has `levels` of a value that has `new`; () is a null pointer."""
        for at, places in enumerate(levels):
            source = new[at] if at < len(new) else frozenset((NULL,))
            self.flows(places, source)
            if at:
                self.flows(source, places)

    def objects(self, places: Places) -> Places:
        """Return the objects that `places` stand for."""
        return frozenset(self._reached(places)) & frozenset(self._objects)

    def _reached(self, places: Places) -> Iterator[Place]:
        seen, left = set(places), list(places)
        while left:
            place = left.pop()
            yield place
            for more in self._of.get(place, ()):
                if more not in seen:
                    seen.add(more)
                    left.append(more)

    def apart(self, places: Places) -> bool:
        """Return whether addresses of `places` may be of several objects, or of one that is not known."""
        found = self.objects(places)
        return UNKNOWN in found or len(found) != 1
