"""What the C-family subset lets a leaf do with addresses: point, step, load and store, and compare within one object.

Nothing else: no number, no choice and no other type is made of one. `Expressions` asks at each operator and call.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

from septran.leafgate import names as n
from septran.leafgate.addresses import NULL, SOMEWHERE, Called, Value
from septran.leafgate.tokens import Token
from septran.leafgate.type_names import TypeNames

DISTANCE = (
    "the distance of two addresses that may be of different tensors or variables",
    "count with an index: what a leaf computes may not depend on where tensors lie",
)
_PLACE = (
    "what is made of an address",
    "step a tile's addr by + and +=: what a leaf computes may not depend on where tiles lie",
)
_APART = (
    "addresses are compared that may be of different tensors or variables",
    "count with an index; only two addresses of one tensor or array may be compared: what a leaf computes may not depend on where they lie",
)
MADE_OF = (
    "what is made of an address",
    "an address is indexed, stepped, stored in a pointer and given to the runtime's loads and stores: what a leaf computes may not depend on where tensors lie",
)


@dataclass(frozen=True, slots=True)
class Declared:
    """How a variable is declared. rows: how many dims its array has. guessed: by auto. view: its type's values hold an address."""

    guessed: bool = False
    constant: bool = False
    number: bool = False
    view: bool = False
    pointer: bool = False
    reference: bool = False
    rows: int = 0


class AddressRules(TypeNames, abc.ABC):
    """Rules over what is known of values; `Expressions` builds on it."""

    def no_place(self, *addresses: bool) -> None:
        """Refuse what makes a number or a choice of an address, where addresses are numbers: in C."""
        if self.language.plain_c and any(addresses):
            self.refuse(*_PLACE)

    def no_number(self, *values: Value) -> None:
        """Refuse addresses where a number is made of one, or a choice."""
        if not self.language.plain_c and any(v.address for v in values):
            self.refuse(*MADE_OF)

    def compare(self, token: Token, *values: Value) -> None:
        """Note that addresses are compared. Refuses the comparison of an address with what is none."""
        if self.language.plain_c or not any(v.address for v in values):
            return
        if not all(v.address for v in values):
            self.refuse(*MADE_OF, token)
        self._together(token, _APART, *values)

    def distance(self, token: Token, left: Value, right: Value) -> None:
        """Note that an address is taken from another; one taken from a number is refused."""
        if self.language.plain_c or not left.address:
            self.refuse(*DISTANCE)
        self._together(token, DISTANCE, left, right)

    def _together(self, token: Token, told: tuple[str, str], *values: Value) -> None:
        places = frozenset[int]().union(*(v.levels[0] for v in values))
        self.compared.append((places, token, told))

    def settle(self) -> None:
        """Refuse comparisons of addresses in different objects, of which the leaf's end decides."""
        for places, token, told in self.compared:
            if self.scopes.origins.apart(places):
                self.refuse(*told, token)

    def given(self, left: Value, sign: str, right: Value) -> None:
        """Note an assignment, or refuse what it would make of an address. Not of plain C, whose addresses are numbers."""
        if self.language.plain_c:
            self.no_place(right.address and not left.address)
            self.no_place(left.address and sign not in ("=", "+=", "-="))
            return
        if sign != "=":
            self.no_number(right)
            if sign not in ("+=", "-="):
                self.no_number(left)
        elif left.address:
            if right.address and len(left.levels) != len(right.levels):
                self.refuse("a pointer to pointers", "keep each pointer in a variable")
            self.scopes.origins.given(left.levels, right.levels)
        else:
            self.no_number(right)
            if left.data:
                self.scopes.origins.flows(left.data, right.elements)

    def prefixed(self, sign: Token, value: Value) -> Value:
        """Return the value of an operator before `value`."""
        if sign.text == "*":
            return value.element()
        if sign.text == "&":
            if value.address:
                self.refuse("the address of an address", "write &a[0] of an array a", sign)
            if value.data:
                instead = "v.p and &v(i, j) are of its elements; of a number, declare it by its type's name"
                self.refuse("the address of a view", instead, sign)
            return Value((value.inside,))
        return value if sign.text in ("++", "--", "+") else Value()

    def member(self, name: str, of: Value) -> Value:
        """Return what is known of a member."""
        if name in self.language.pointers:
            return Value((of.elements,), inside=of.inside)
        if name in self.language.inner_arrays:
            return Value((of.inside,), inside=of.inside)
        return Value(inside=of.inside)

    def called(self, of: Called, values: list[Value]) -> Value:
        """Return what a lambda of the leaf's own returns. Its pointers are unlike all others: it may be given several."""
        for param, value in zip(of.params, values, strict=False):
            if value.address and (not param.pointer or len(value.levels) > 1 or value.data):
                self.refuse(
                    "an address is given to a parameter that is not declared with *",
                    "write `const float* x` or `const auto* x`: one * and one level",
                )
            if param.changes and value.data:
                self.scopes.origins.flows(value.data, SOMEWHERE)
        return Value((SOMEWHERE,) * of.levels)

    def computed(self, token: Token, path: str, values: list[Value]) -> Value:
        """Return what a function of the runtime returns."""
        held = [v for v in values if v.address]
        full = self.scopes.find(path)[1]
        if any(v.data for v in held):
            if full not in self.language.of_views:
                self.refuse(
                    "an array of views",
                    f"{' '.join(sorted(self.language.of_views))} take one",
                    token,
                )
        elif full not in self.language.addressed:
            self.no_number(*values)
        elif any(len(v.levels) > 1 for v in held):
            self.refuse("an address of addresses or of rows", "write &a[0][0]", token)
        if full in self.language.pointing:
            return Value((frozenset[int]().union(*(v.elements for v in values[:1])),))
        return Value()

    def constructed(self, path: str, values: list[Value]) -> None:
        """Refuse addresses of which something else than a view is made."""
        if path not in self.language.views:
            self.no_number(*values)
        self.value = Value(data=SOMEWHERE)

    def declare(self, name: str, kind: Declared, value: Value) -> None:
        """Give a variable that is declared with `value` what is known of its own."""
        if not self.language.plain_c:
            self.scopes.declare(name, n.VARIABLE, self._declared(kind, value))
            return
        own = self.scopes.origins.object()
        self.no_place(value.address and kind.rows > 0)
        levels = (own,) if kind.rows or value.address else ()
        self.scopes.declare(name, n.VARIABLE, Value(levels, inside=own))

    def _declared(self, kind: Declared, value: Value) -> Value:
        origins = self.scopes.origins
        if kind.pointer and (kind.view or (value.data and not kind.guessed)):
            self.refuse("a pointer to a view", "name the view")
        if kind.rows:
            own = origins.object()
            held = (origins.holder(),) if kind.pointer else ()
            if kind.pointer:
                self._only(value, 1)
                origins.given(held, value.levels)
            elif not kind.view:
                self.no_number(value)
            data = SOMEWHERE if kind.view else value.data
            return Value((own,) * kind.rows + held, inside=own, data=data)
        if kind.pointer and not kind.guessed:
            self._only(value, 1)
            levels = origins.held(value.levels or (frozenset((NULL,)),))
            return Value(levels, inside=origins.object())
        if kind.guessed and value.address:
            levels = origins.held(value.levels, alias=kind.reference)
            inside = value.inside if kind.reference else origins.object()
            return Value(levels, inside=inside, data=value.data)
        if not kind.view:
            self.no_number(value)
        return self._other(kind, value)

    def _other(self, kind: Declared, value: Value) -> Value:
        """Return what is known of a variable that is no address: a number, a vector, a view."""
        origins = self.scopes.origins
        inside = origins.holder(value.inside) if kind.reference else origins.object()
        if kind.number or not (kind.guessed or kind.view):
            return Value(inside=inside)
        if kind.reference:
            if value.data and not kind.constant:
                origins.flows(value.data, SOMEWHERE)
            return Value(inside=inside, data=value.elements)
        if value.address or value.data == SOMEWHERE or not value.data:
            data = origins.object() if kind.constant else SOMEWHERE
        else:
            data = origins.holder(value.data)
        return Value(inside=inside, data=data)

    def _only(self, value: Value, levels: int) -> None:
        """Refuse an address of addresses or of rows."""
        if len(value.levels) > levels:
            self.refuse("a pointer to pointers or rows", "write &a[0][0], or `auto* p = a;`")
