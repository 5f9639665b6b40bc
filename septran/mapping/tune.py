"""`!tune {type: choice, values: [...], default: ...}`: a value that a mapping leaves to the tuner."""

from __future__ import annotations

from typing import Any

from septran.errors import Diagnostic, MappingError, Span, closest
from septran.mapping.schema import Tune

_KEYS = {"choice": ("values",), "range": ("min", "max", "step"), "pow2": ("min", "max")}


def read_tune(value: Any, span: Span) -> Tune:
    """Return the Tune of a tagged value; raises MappingError M091."""

    def wrong(message: str) -> MappingError:
        return MappingError(Diagnostic(code="M091", message=message, span=span))

    if not isinstance(value, dict) or "type" not in value:
        raise wrong("!tune needs {type: choice|range|pow2, ...}")
    kind = value["type"]
    if kind not in _KEYS:
        raise wrong(
            f"!tune type {kind!r} is unknown; known: {', '.join(_KEYS)}{closest(str(kind), _KEYS)}"
        )
    for key in value:
        if key not in ("type", "default", *_KEYS[kind]):
            raise wrong(
                f"!tune {{type: {kind}}} has no {key!r}; it has {', '.join(_KEYS[kind])}"
                f"{closest(str(key), _KEYS[kind])}"
            )
    default = value.get("default")
    if isinstance(default, bool) or not isinstance(default, int | str | None):
        raise wrong("!tune: default is the value that is taken until something better is found")
    if kind == "choice":
        values = value.get("values")
        if not isinstance(values, list) or not values:
            raise wrong("!tune {type: choice} needs values: [...] with at least one entry")
        return Tune(kind=kind, values=tuple(values), default=default, span=span)
    low, high = value.get("min"), value.get("max")
    if not isinstance(low, int) or not isinstance(high, int) or low > high or low < 1:
        raise wrong(f"!tune {{type: {kind}}} needs integers 1 <= min <= max")
    if kind == "range":
        step = value.get("step", 1)
        if not isinstance(step, int) or step < 1:
            raise wrong("!tune {type: range} needs step >= 1")
        return Tune(kind=kind, values=tuple(range(low, high + 1, step)), default=default, span=span)
    powers = tuple(1 << e for e in range(31) if low <= 1 << e <= high)
    if not powers:
        raise wrong(f"!tune {{type: pow2}}: there is no power of two between {low} and {high}")
    return Tune(kind=kind, values=powers, default=default, span=span)
