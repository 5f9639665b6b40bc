"""Device functions that emitted kernels may call."""

from __future__ import annotations

from septran.backends.text.prelude import Prelude

PRELUDE: Prelude = (
    (
        "st_max",
        '''@triton.jit
def st_max(a, b):
    """Maximum that lets NaN through, for tl.reduce."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    ),
    (
        "st_min",
        '''@triton.jit
def st_min(a, b):
    """Minimum that lets NaN through, for tl.reduce."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    ),
    (
        "st_prod",
        '''@triton.jit
def st_prod(a, b):
    """Product, for tl.reduce."""
    return a * b
''',
    ),
    (
        "st_sum",
        '''@triton.jit
def st_sum(a, b):
    """Sum, for tl.associative_scan."""
    return a + b
''',
    ),
    (
        "st_argmax",
        '''@triton.jit
def st_argmax(a, i, b, j):
    """The larger of two values with its position, NaN above all, of equal ones the first; for tl.reduce."""
    equal = (a == b) | ((a != a) & (b != b))
    second = (b > a) | ((b != b) & (a == a)) | (equal & (j < i))
    return tl.where(second, b, a), tl.where(second, j, i)
''',
    ),
    (
        "st_argmin",
        '''@triton.jit
def st_argmin(a, i, b, j):
    """The smaller of two values with its position, NaN below all, of equal ones the first; for tl.reduce."""
    equal = (a == b) | ((a != a) & (b != b))
    second = (b < a) | ((b != b) & (a == a)) | (equal & (j < i))
    return tl.where(second, b, a), tl.where(second, j, i)
''',
    ),
    (
        "st_tanh",
        '''@triton.jit
def st_tanh(x):
    """tanh: odd polynomial below 0.625 (Cephes tanhf), exponential form above."""
    z = x * x
    p = -5.70498872745e-3 * z + 2.06390887954e-2
    p = p * z - 5.37397155531e-2
    p = p * z + 1.33314422036e-1
    p = p * z - 3.33332819422e-1
    near = p * z * x + x
    t = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - t) / (1.0 + t)
    far = tl.where(x < 0.0, -far, far)
    return tl.where(tl.abs(x) < 0.625, near, far)
''',
    ),
    (
        "st_power",
        '''@triton.jit
def st_power(s, n, k: tl.constexpr, near: tl.constexpr):
    """2 ** ((s - n) * k), the weights of scores s with n the largest of a row; `near`: the power of two next to k."""
    r = tl.where(tl.abs(n) * k < 67108864.0, k, near)
    return tl.exp2(s * r - n * r)
''',
    ),
    (
        "st_rescale",
        '''@triton.jit
def st_rescale(m, n, k: tl.constexpr, near: tl.constexpr):
    """From weights of m to weights of n: 2 ** ((m - n) * k), each product rounded (no multiply-add) as st_power has it."""
    r = tl.where(tl.abs(n) * k < 67108864.0, k, near)
    old = tl.maximum(m * r, -3.4e38, propagate_nan=tl.PropagateNan.ALL)
    new = tl.maximum(n * r, -3.4e38, propagate_nan=tl.PropagateNan.ALL)
    return tl.exp2(old - new)
''',
    ),
    (
        "st_pow",
        '''@triton.jit
def st_pow(a, b):
    """a ** b; a negative base needs an integral exponent, otherwise the result is NaN."""
    b = b + tl.zeros_like(a)
    size = tl.exp2(b * tl.log2(tl.abs(a)))
    whole = tl.floor(b) == b
    odd = tl.floor(b * 0.5) * 2.0 != b
    signed = tl.where(whole, tl.where(odd, -size, size), float("nan"))
    size = tl.where(a < 0.0, signed, size)
    return tl.where(b == 0.0, 1.0, size)
''',
    ),
    (
        "st_grow",
        '''@triton.jit
def st_grow(x, R: tl.constexpr, C: tl.constexpr, N: tl.constexpr):
    """[R, C] -> [N, C] with zero rows below; tl.dot needs 16 rows."""
    y = tl.broadcast_to(tl.expand_dims(x, 0), (N // R, R, C))
    y = tl.where(tl.arange(0, N // R)[:, None, None] == 0, y, tl.zeros_like(y))
    return tl.reshape(y, (N, C))
''',
    ),
    (
        "st_take",
        '''@triton.jit
def st_take(x, N: tl.constexpr, C: tl.constexpr, R: tl.constexpr):
    """[N, C] -> the first R rows."""
    y = tl.reshape(x, (N // R, R, C))
    y = tl.where(tl.arange(0, N // R)[:, None, None] == 0, y, tl.zeros_like(y))
    return tl.sum(y, 0)
''',
    ),
)
