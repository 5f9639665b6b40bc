"""`map` expressions as Triton text."""

from __future__ import annotations

from septran.backends.text.spell import Spelling
from septran.backends.triton.shapes import TL_DTYPE


def float_text(value: float, dtype: str = "float32") -> str:
    """Return text of a float constant inside a Triton function; a bare one would be rounded to float32."""
    text = (
        f'float("{value}")' if value != value or abs(value) == float("inf") else repr(float(value))
    )
    return f"tl.full((1,), {text}, tl.float64)" if dtype == "float64" else text


SPELLING = Spelling(
    language="Triton",
    formats={
        "exp": "tl.exp({0:a})",
        "exp2": "tl.exp2({0:a})",
        "power": "st_power({0:a}, {1:a}, {2}, {3})",
        "rescale": "st_rescale({0:a}, {1:a}, {2}, {3})",
        "log": "tl.log({0:a})",
        "sqrt": "tl.sqrt_rn({0:a})",  # tl.sqrt is approximate in float32; the rounded form is float32's only
        "sqrt:float64": "tl.sqrt({0:a})",
        "rsqrt": "tl.rsqrt({0:a})",
        "tanh": "st_tanh({0:a})",
        "sigmoid": "tl.sigmoid({0:a})",
        "erf": "tl.erf({0:a})",
        "abs": "tl.abs({0:a})",
        "sin": "tl.sin({0:a})",
        "cos": "tl.cos({0:a})",
        "floor": "tl.floor({0:a})",
        "ceil": "tl.ceil({0:a})",
        "trunc": "tl.where({0} < 0, tl.ceil({0:a}), tl.floor({0:a}))",
        "select": "tl.where({0}, {1:a}, {2:a})",
        "max": "tl.maximum({0:a}, {1:a}, propagate_nan=tl.PropagateNan.ALL)",
        "min": "tl.minimum({0:a}, {1:a}, propagate_nan=tl.PropagateNan.ALL)",
        "max:int": "tl.maximum({0:a}, {1:a})",
        "min:int": "tl.minimum({0:a}, {1:a})",
        "**2": "({0:w} * {0:w})",
        "**3": "({0:w} * {0:w} * {0:w})",
        "**4": "({0:w} * {0:w} * {0:w} * {0:w})",
        "**": "st_pow({0:t}, {1})",
        "float": "{0:w}.to({dtype})",
        "float:scalar": "({0:w} * 1.0)",
        "int": "{0:w}.to(tl.int32)",
        "int64": "{0:w}.to(tl.int64)",
        "int64:scalar": "tl.full((1,), {0}, tl.int64)",
    },
    real=float_text,
    scalar="tl.full((1,), {0}, {dtype})",
    dtypes=TL_DTYPE,
)
