"""What a name of somebody's kernel stands for while its text is followed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from septran.prove.foreign.quantity import Number, Where


@dataclass(frozen=True, slots=True)
class Tile:
    """Numbers, one per lane. n: None is data. shape: () for one number, None unknown. where: of conditions."""

    n: Number
    shape: tuple[int, ...] | None = ()
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Pointer:
    """Addresses into a memory, in its elements. at: None unknown. width: elements that one access takes."""

    memory: str
    at: Number
    shape: tuple[int, ...] | None = ()
    width: int = 1
    why: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A tensor descriptor: no access leaves `sizes`. offsets: of its next access."""

    base: Pointer
    sizes: tuple[Number, ...]
    strides: tuple[Number, ...]
    offsets: tuple[Number, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Other:
    """Anything that is no number and no address: a dtype, a constant's name, a module."""

    name: str = ""


Value = Any
"""Tile, Pointer, Block, Other, or a plain int, float, bool, str, None or tuple"""


def numbers(value: Value) -> tuple[Number, ...] | None:
    """Return the numbers that a loop may move, None where `value` has none."""
    match value:
        case bool() | float():
            return None
        case int():
            return (value,)
        case Tile(n, _, None):
            return (n,)
        case Pointer():
            return (value.at,)
        case Block():
            return value.offsets
    return None


def moved(value: Value, found: tuple[Number, ...]) -> Value:
    """Return `value` with other numbers."""
    match value:
        case Tile():
            return replace(value, n=found[0])
        case Pointer():
            return replace(value, at=found[0])
        case Block():
            return replace(value, offsets=found)
    return found[0] if isinstance(found[0], int) else Tile(found[0])


def unknown(value: Value, why: str = "it is not known after a loop") -> Value:
    """Return what is known of `value` when only its kind stays."""
    match value:
        case Pointer():
            return replace(value, at=None, why=value.why or why)
        case Block():
            return replace(value, offsets=tuple(None for _ in value.offsets))
        case Tile():
            return Tile(None, value.shape)
        case bool() | int() | float():
            return Tile(None)
        case tuple():
            return tuple(unknown(v, why) for v in value)
    return value
