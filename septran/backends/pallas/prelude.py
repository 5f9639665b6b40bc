"""Functions that emitted kernels may call."""

from __future__ import annotations

from septran.backends.text.prelude import Prelude

PRELUDE: Prelude = (
    (
        "st_index",
        '''def st_index(shape, axis):
    """0, 1, .. along `axis` of a tile."""
    return lax.broadcasted_iota(jnp.int32, shape, axis)
''',
    ),
    (
        "st_erf",
        """def st_erf(x):
    return lax.erf(x)
""",
    ),
    (
        "st_rsqrt",
        """def st_rsqrt(x):
    return lax.rsqrt(x)
""",
    ),
    (
        "st_sigmoid",
        """def st_sigmoid(x):
    return lax.logistic(x)
""",
    ),
    (
        "st_prod",
        '''def st_prod(x, axis):
    """Product along `axis`, which is kept; the compiler has no such reduction."""
    while x.shape[axis] > 1:
        n = x.shape[axis]
        half = n // 2
        rest = lax.slice_in_dim(x, 2 * half, n, axis=axis)
        x = lax.slice_in_dim(x, 0, half, axis=axis) * lax.slice_in_dim(x, half, 2 * half, axis=axis)
        if n % 2:
            x = jnp.concatenate([x, rest], axis=axis)
    return x
''',
    ),
    (
        "st_max",
        '''def st_max(x, axis):
    """Maximum along `axis`, which is kept; NaN where one is NaN, which the reduction alone may drop."""
    missing = jnp.max(jnp.where(x != x, 1.0, 0.0), axis=axis, keepdims=True)
    return jnp.where(missing > 0, jnp.nan, jnp.max(x, axis=axis, keepdims=True))
''',
    ),
    (
        "st_min",
        '''def st_min(x, axis):
    """Minimum along `axis`, which is kept; NaN where one is NaN, which the reduction alone may drop."""
    missing = jnp.max(jnp.where(x != x, 1.0, 0.0), axis=axis, keepdims=True)
    return jnp.where(missing > 0, jnp.nan, jnp.min(x, axis=axis, keepdims=True))
''',
    ),
    (
        "st_dot",
        '''def st_dot(a, b, trans_a, trans_b):
    """Product of two matrices, accumulated in float32; float32 operands are not rounded to bfloat16."""
    exact = lax.Precision.HIGHEST if a.dtype == jnp.float32 else lax.Precision.DEFAULT
    dims = (((0 if trans_a else 1,), (1 if trans_b else 0,)), ((), ()))
    return lax.dot_general(a, b, dims, precision=exact, preferred_element_type=jnp.float32)
''',
    ),
)
