"""What values an operator's input may take; the verifier draws its secret inputs inside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DomainKind = Literal["real", "positive", "unit", "index", "bool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The values one input may take.

    kind: real = any number; positive = above 0; unit = 0..1; index = integers in [low, high);
        bool = 0 or 1.
    low, high: bounds of real/positive inputs (inclusive), and of index inputs (high exclusive; a dim's
        name or a number). None = unbounded.
    one_sign: bound of real inputs where all of them have the same sign (sums of products then grow in every
        layer of a network). None = `high`.
    sentinel: of index inputs, an integer outside of the range that stands for "none" and may come as well.
    nonzero: of integers, 0 does not come: something is divided by them.
    rising: of index inputs, the first is `low`, and each is at least the one before: where bags begin.
    distinct: of index inputs, no two are the same along the last dim: each says where something is written.
    paired: of real inputs, what the last dim repeats: "halves", the first half comes again as the second (a rotary table), or
        "neighbours", each number comes twice.
    value: the bytes of the one value that the input has; it is not drawn. Only of what stands in a module's own text.
    specials: NaN, infinities, denormals, signed zeros and huge values may be given. Switch it off only
        where the operator's meaning is undefined for them.
    """

    kind: DomainKind = "real"
    low: float | str | None = None
    high: float | str | None = None
    one_sign: float | None = None
    sentinel: int | None = None
    nonzero: bool = False
    rising: bool = False
    distinct: bool = False
    paired: Literal["", "halves", "neighbours"] = ""
    value: bytes | None = None
    specials: bool = True
