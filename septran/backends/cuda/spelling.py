"""`map` expressions as scalar CUDA C++: float (or double) arithmetic, exact integer comparisons."""

from __future__ import annotations

import math

from septran.backends.text.c_expr import CExpression, Value

__all__ = ["MapExpression", "Value", "literal"]

_UNARY = {
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "sqrt": "sqrt",
    "tanh": "tanh",
    "erf": "erf",
    "abs": "fabs",
    "rsqrt": "rsqrt",
}


def literal(value: float | int, *, double: bool) -> str:
    """Return a CUDA C++ floating literal of `value` in the compute type."""
    kind = "double" if double else "float"
    if math.isnan(value):
        return f"({kind})__int_as_float(0x7fc00000)"
    if math.isinf(value) or (not double and abs(value) > 3.4028235677973366e38):
        return f"({kind})__int_as_float({'0xff800000' if value < 0 else '0x7f800000'})"
    text = repr(float(value))
    return text if double else f"{text}f"


class MapExpression(CExpression):
    """Scalars: one element at a time."""

    LANGUAGE = "CUDA C++"

    def literal(self, value: float | int) -> str:
        """Return a literal, in parentheses when negative."""
        text = literal(value, double=self.double)
        return f"({text})" if text.startswith("-") else text

    def splat(self, value: float | int) -> str:
        """Return the literal itself."""
        return self.literal(value)

    def integer(self, value: int) -> str:
        """Return an integer literal."""
        return f"({value})" if value < 0 else str(value)

    def from_integer(self, text: str) -> str:
        """Return a cast."""
        return f"({'double' if self.double else 'float'})({text})"

    def non_zero(self, value: Value) -> str:
        """Return a comparison; integers are compared as such."""
        if value.i:
            return f"({value.i} != 0)"
        return f"({self.as_float(value)} != {self.literal(0)})"

    def power(self, base: str, exponent: Value) -> str:
        """Return a product, a root or pow."""
        match exponent.constant:
            case 2:
                return f"({base} * {base})"
            case 0.5:
                return self._standard("sqrt", base)
            case -0.5:
                return self._standard("rsqrt", base)
        return f"{'pow' if self.double else 'powf'}({base}, {self.as_float(exponent)})"

    def function(self, name: str, arguments: tuple[str, ...]) -> str | None:
        """Return a call of the standard functions or of ours with torch's NaN rules."""
        if name in ("max", "min"):
            return f"st::{name}imum({', '.join(arguments)})"
        if name == "sigmoid":
            return f"st::sigmoid({arguments[0]})"
        return self._standard(name, arguments[0]) if name in _UNARY else None

    def _standard(self, name: str, argument: str) -> str:
        return f"{_UNARY[name]}{'' if self.double else 'f'}({argument})"
