"""How a module's results hang together, as plain values: lists, tuples, named tuples and dicts, one in another.

A structure is a number (of a result), None, `["tuple", ...]`, `["list", ...]`, `["named", NAME, [FIELD, ..], ...]`,
`["dict", [[KEY, structure], ..]]`, `["ordered", [[KEY, structure], ..]]`, or a dict with text keys.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, namedtuple
from typing import Any

from septran.errors import InputError

_MOST = 1000
"""characters of a name, entries of a row"""


def structure_of(value: Any) -> Any:
    """Return how results hang together; raises InputError V220 for what plain values cannot say."""
    match value:
        case bool():
            pass
        case None | int():
            return value
        case tuple() if hasattr(value, "_fields"):
            kind = type(value)
            return ["named", kind.__name__, list(value._fields), *map(structure_of, value)]
        case tuple() | list() if type(value) in (tuple, list):
            word = "tuple" if isinstance(value, tuple) else "list"
            return [word, *map(structure_of, value)]
        case dict() if type(value) is dict and all(isinstance(k, str) for k in value):
            return {k: structure_of(v) for k, v in value.items()}
        case dict() if type(value) in (dict, OrderedDict) and all(map(_plain, value)):
            word = "ordered" if isinstance(value, OrderedDict) else "dict"
            return [word, [[k, structure_of(v)] for k, v in value.items()]]
    raise InputError.of(
        "V220",
        f"a module that returns a {type(value).__name__} cannot be saved",
        help="tuples, named tuples, lists and dicts, with text or numbers as keys, can be",
    )


def _plain(key: Any) -> bool:
    return type(key) in (str, int, bool)


def structured(structure: Any, results: list[Any]) -> Any:
    """Return the results put together as `structure` says.

    Raises:
        ValueError: it is no structure.
    """
    match structure:
        case int():
            return results[structure]
        case ["tuple", *items]:
            return tuple(structured(s, results) for s in items)
        case ["list", *items]:
            return [structured(s, results) for s in items]
        case ["named", str(name), [*fields], *items] if len(fields) == len(items):
            return named(name, tuple(fields))(*(structured(s, results) for s in items))
        case ["dict", [*pairs]]:
            return {k: structured(v, results) for k, v in pairs if _plain(k)}
        case ["ordered", [*pairs]]:
            return OrderedDict((k, structured(v, results)) for k, v in pairs if _plain(k))
        case dict():
            return {k: structured(v, results) for k, v in structure.items()}
        case None:
            return None
    raise ValueError("no structure of results")


@functools.lru_cache(maxsize=64)
def named(name: str, fields: tuple[str, ...]) -> Any:
    """Return a named tuple's class: the same name and fields, made here, because no class of a saved folder is imported.

    Raises:
        ValueError: they are no names.
    """
    words = (name, *fields)
    if len(words) > _MOST or any(not isinstance(w, str) or len(w) > _MOST for w in words):
        raise ValueError("a named tuple with names that are too long, or too many")
    return namedtuple(name, fields)
