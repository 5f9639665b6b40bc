"""Integers and conditions of somebody's kernel as functions of who runs it: piecewise affine, exact (isl).

A number is a Python int while nothing makes it depend on the place; None is a value nobody knows (data).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import islpy as isl

MOST_OPERATIONS = 20_000_000
"""isl's steps for one launch; what takes more is not proven"""
_MOST_CASES = 64


class TooHard(Exception):
    """Deciding takes more steps than are granted."""


class Space:
    """The places at which statements run: workers, loops and lanes by name."""

    def __init__(self, names: Sequence[str]) -> None:
        """names: all dimensions there will be."""
        import islpy as isl

        self.names = tuple(names)
        self.context = isl.Context()
        self.context.set_max_operations(MOST_OPERATIONS)
        self._space = isl.Space.create_from_names(self.context, set=list(names))
        self._local = isl.LocalSpace.from_space(self._space)

    def var(self, name: str) -> isl.PwAff:
        """Return the coordinate called `name`."""
        import islpy as isl

        at = self.names.index(name)
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(self._local, isl.dim_type.set, at))

    def lift(self, value: int | isl.PwAff) -> isl.PwAff:
        """Return a number as a function of the place."""
        import islpy as isl

        if not isinstance(value, int):
            return value
        val = isl.Val.int_from_si(self.context, value)
        return isl.PwAff.from_aff(isl.Aff.val_on_domain(self._local, val))

    def val(self, value: int) -> isl.Val:
        """Return an isl integer."""
        import islpy as isl

        return isl.Val.int_from_si(self.context, value)

    @property
    def everywhere(self) -> isl.Set:
        """All places."""
        import islpy as isl

        return isl.Set.universe(self._space)

    @property
    def nowhere(self) -> isl.Set:
        """No place."""
        import islpy as isl

        return isl.Set.empty(self._space)

    def box(self, extents: Mapping[str, int]) -> isl.Set:
        """Return where 0 <= name < extent for each of `extents`."""
        found = self.everywhere
        for name, extent in extents.items():
            x = self.var(name)
            found = found & x.ge_set(self.lift(0)) & x.lt_set(self.lift(extent))
        return found

    def rename(self, value: isl.PwAff | isl.Set, old_of: Mapping[str, str | None]) -> Any:
        """Return `value` with the coordinate `name` taken from `old_of[name]`: None is 0."""
        import islpy as isl

        inside = ", ".join(self.names)
        outside = ", ".join(old_of.get(n, n) or "0" for n in self.names)
        shift = isl.MultiAff.read_from_str(self.context, f"{{ [{inside}] -> [{outside}] }}")
        if isinstance(value, isl.Set):
            return value.preimage_multi_aff(shift)
        return value.pullback_multi_aff(shift)


Number = Any
"""int, an isl function of the place, or None: nobody knows"""


class Arithmetic:
    """Exact arithmetic on numbers of one space, of places inside `bounds`."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.bounds = space.everywhere

    def add(self, a: Number, b: Number) -> Number:
        """Return a + b."""
        return self._two(a, b, lambda x, y: x + y, lambda x, y: x.add(y))

    def sub(self, a: Number, b: Number) -> Number:
        """Return a - b."""
        return self._two(a, b, lambda x, y: x - y, lambda x, y: x.sub(y))

    def least(self, a: Number, b: Number) -> Number:
        """Return the smaller of two numbers."""
        return self._two(a, b, min, lambda x, y: x.min(y))

    def most(self, a: Number, b: Number) -> Number:
        """Return the larger of two numbers."""
        return self._two(a, b, max, lambda x, y: x.max(y))

    def mul(self, a: Number, b: Number) -> Number:
        """Return a * b; None where neither has few values."""
        if any(isinstance(x, int) and x == 0 for x in (a, b)):
            return 0
        if a is None or b is None:
            return None
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            return a.scale_val(self.space.val(b))
        for x, y in ((a, b), (b, a)):
            found = self._cases(y, lambda value, x=x: self.mul(x, value))  # type: ignore[misc]
            if found is not None:
                return found
        return None

    def divide(self, a: Number, b: Number, *, floor: bool = False) -> Number:
        """Return a / b, rounded towards 0 as C and Triton do, or down."""
        if a is None or b is None:
            return None
        if isinstance(b, int):
            if b == 0:
                return None
            if isinstance(a, int):
                return a // b if floor or a % b == 0 or (a < 0) == (b < 0) else -(-a // b)
            if floor or (b > 0 and not self.possible(self.below(a, 0))):
                return a.scale_down_val(self.space.val(b)).floor()
            return a.tdiv_q(self.space.lift(b))
        return self._cases(b, lambda value: self.divide(a, value, floor=floor))

    def modulo(self, a: Number, b: Number, *, floor: bool = False) -> Number:
        """The remainder of `divide`."""
        if a is None or b is None:
            return None
        if isinstance(b, int):
            if b == 0:
                return None
            if isinstance(a, int):
                return a % b if floor else int(math.fmod(a, b))
            if b > 0 and (floor or not self.possible(self.below(a, 0))):
                return a.mod_val(self.space.val(b))
            return self.sub(a, self.mul(self.divide(a, b, floor=floor), b))
        return self._cases(b, lambda value: self.modulo(a, value, floor=floor))

    def below(self, a: Number, b: Number) -> isl.Set:
        """Where a < b."""
        return self.space.lift(a).lt_set(self.space.lift(b))

    def compare(self, op: str, a: Number, b: Number) -> Where:
        """Where `a op b` holds."""
        if a is None or b is None:
            return Where(self.space.everywhere, exact=False)
        x, y = self.space.lift(a), self.space.lift(b)
        asked = {
            "<": "lt_set",
            "<=": "le_set",
            ">": "gt_set",
            ">=": "ge_set",
            "==": "eq_set",
            "!=": "ne_set",
        }[op]
        return Where(getattr(x, asked)(y))

    def choose(self, where: Where, a: Number, b: Number) -> Number:
        """`a` where the condition holds, else `b`."""
        if a is None or b is None or not where.exact:
            return None
        if isinstance(a, int) and isinstance(b, int) and a == b:
            return a
        x = self.space.lift(a).intersect_domain(where.set)
        return x.union_add(self.space.lift(b).intersect_domain(where.set.complement())).coalesce()

    def possible(self, where: isl.Set) -> bool:
        """Whether it holds anywhere inside the bounds."""
        return not (where & self.bounds).is_empty()

    def constant(self, a: Number) -> int | None:
        """Return the value of `a` if it has only one inside the bounds."""
        if a is None or isinstance(a, int):
            return a
        values = self._values(a, 1)
        return values[0] if values is not None and len(values) == 1 else None

    def _two(
        self, a: Number, b: Number, plain: Callable[..., int], exact: Callable[..., Any]
    ) -> Number:
        if a is None or b is None:
            return None
        if isinstance(a, int) and isinstance(b, int):
            return plain(a, b)
        return exact(self.space.lift(a), self.space.lift(b))

    def _cases(self, of: Any, result: Callable[[int], Number]) -> Number:
        """Return `result` of the value of `of`, place by place; None where it has too many values."""
        values = self._values(of, _MOST_CASES)
        if values is None:
            return None
        found: Any = None
        for value in values:
            part = result(value)
            if part is None:
                return None
            piece = self.space.lift(part).intersect_domain(of.eq_set(self.space.lift(value)))
            found = piece if found is None else found.union_add(piece)
        return found

    def _values(self, of: Any, most: int) -> list[int] | None:
        import islpy as isl

        image = isl.Map.from_pw_aff(of.intersect_domain(self.bounds)).range()
        if image.is_empty():
            return []
        try:
            low, high = image.dim_min_val(0), image.dim_max_val(0)
        except isl.Error:
            return None
        if not (low.is_int() and high.is_int()):
            return None
        first, last = int(low.to_python()), int(high.to_python())
        return None if last - first >= most else list(range(first, last + 1))


class Where:
    """Where a condition may hold; exact: it does hold there."""

    def __init__(self, places: isl.Set, *, exact: bool = True) -> None:
        self.set = places
        self.exact = exact

    def __and__(self, other: Where) -> Where:
        return Where(self.set & other.set, exact=self.exact and other.exact)

    def __or__(self, other: Where) -> Where:
        return Where(self.set | other.set, exact=self.exact and other.exact)

    def negated(self) -> Where:
        """Where the condition may fail."""
        if not self.exact:
            return Where(self.set | self.set.complement(), exact=False)
        return Where(self.set.complement())
