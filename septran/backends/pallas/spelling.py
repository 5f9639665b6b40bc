"""`map` expressions as JAX text."""

from __future__ import annotations

import math

from septran.backends.pallas.shapes import JNP_DTYPE
from septran.backends.text.spell import Spelling


def float_text(value: float, dtype: str = "float32") -> str:
    """Return text of a float constant; JAX gives it the other operand's dtype."""
    return repr(float(value)) if math.isfinite(value) else f'float("{value}")'


SPELLING = Spelling(
    language="Pallas",
    formats={
        "exp": "jnp.exp({0:a})",
        "exp2": "jnp.exp2({0:a})",
        "log": "jnp.log({0:a})",
        "sqrt": "jnp.sqrt({0:a})",
        "rsqrt": "st_rsqrt({0:a})",
        "tanh": "jnp.tanh({0:a})",
        "sigmoid": "st_sigmoid({0:a})",
        "erf": "st_erf({0:a})",
        "abs": "jnp.abs({0:a})",
        "select": "jnp.where({0}, {1:a}, {2:a})",
        "max": "jnp.maximum({0:a}, {1:a})",
        "min": "jnp.minimum({0:a}, {1:a})",
        "**2": "({0:w} * {0:w})",
        "**3": "({0:w} * {0:w} * {0:w})",
        "**4": "({0:w} * {0:w} * {0:w} * {0:w})",
        "**": "jnp.power({0:a}, {1:a})",
        "float": "jnp.asarray({0}, {dtype})",
        "int": "jnp.asarray({0}, jnp.int32)",
        "int64": "{0:w}",  # of 32 bits; what needs more is refused
    },
    real=float_text,
    constant="jnp.float32({0})",
    scalar="jnp.asarray({0}, {dtype})",
    dtypes=JNP_DTYPE,
)
