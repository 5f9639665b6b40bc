"""`map` expressions as C++ on vectors: F is a vector of floats, I of integers of the same width."""

from __future__ import annotations

import math

from septran.backends.text.c_expr import CExpression, Value

__all__ = ["MapExpression", "Value", "literal"]

_FUNCTIONS = {
    "exp": "vexp",
    "exp2": "vexp2",
    "log": "vlog",
    "sqrt": "vsqrt",
    "rsqrt": "vrsqrt",
    "tanh": "vtanh",
    "sigmoid": "vsigmoid",
    "erf": "verf",
    "abs": "vabs",
    "max": "vmax",
    "min": "vmin",
}


def literal(value: float | int, *, double: bool) -> str:
    """Return a C++ floating literal of `value` in the compute type."""
    kind = "double" if double else "float"
    if math.isnan(value):
        return f"std::numeric_limits<{kind}>::quiet_NaN()"
    if math.isinf(value) or (not double and abs(value) > 3.4028235677973366e38):
        return f"{'-' if value < 0 else ''}std::numeric_limits<{kind}>::infinity()"
    text = repr(float(value))
    return text if double else f"{text}f"


class MapExpression(CExpression):
    """Vectors: masks are vectors too, so they combine bit by bit."""

    AND, OR, NOT = "&", "|", "~"

    def literal(self, value: float | int) -> str:
        """Return a scalar literal."""
        return literal(value, double=self.double)

    def splat(self, value: float | int) -> str:
        """Return a vector of one value."""
        return f"splat<F>({self.literal(value)})"

    def integer(self, value: int) -> str:
        """Return a vector of one integer."""
        return f"splat<I>({value})"

    def from_integer(self, text: str) -> str:
        """Return a conversion lane by lane."""
        return f"convert<F>({text})"

    def non_zero(self, value: Value) -> str:
        """Return a comparison in the compute type."""
        return f"({self.as_float(value)} != {self.literal(0.0)})"

    def term(self, value: Value) -> str:
        """Return a bare literal for a constant: it combines with a vector on the other side."""
        if value.constant is None:
            return self.as_float(value)
        text = self.literal(value.constant)
        return f"({text})" if text.startswith("-") else text

    def power(self, base: str, exponent: Value) -> str:
        """Return products for small integer exponents, else a root or vpow."""
        constant = exponent.constant
        if constant is not None and float(constant).is_integer() and abs(constant) <= 16:
            return f"power<{int(constant)}>({base})"
        if constant == 0.5:
            return f"vsqrt({base})"
        if constant == -0.5:
            return f"vrsqrt({base})"
        return f"vpow({base}, {self.as_float(exponent)})"

    def function(self, name: str, arguments: tuple[str, ...]) -> str | None:
        """Return a call of the vector mathematics."""
        return f"{_FUNCTIONS[name]}({', '.join(arguments)})" if name in _FUNCTIONS else None
