"""Vector functions against float64 over the whole float range, on every instruction set here."""

import ctypes
import math

import numpy as np
import pytest

from septran.backends.cpp.emit import runtime_folder
from tests.support.shared import compile_shared

UFUNCS = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "abs": np.abs,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}
ULPS = {
    "exp": 1.5,
    "exp2": 1.5,
    "log": 1.0,
    "tanh": 1.5,
    "sqrt": 0.51,
    "rsqrt": 1.6,
    "abs": 0.0,
    "sigmoid": 2.5,
    "erf": 5.5,  # 3e-7 of the result; the budget of an elementwise operator is 8 ulps
}
SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1e-45,
    -1e-45,
    1e-40,
    1,
    -1,
    88.7,
    88.73,
    89.5,
    -87.4,
    -103.9,
    -104.1,
    127.99,
    128,
    -149,
    -150,
    -126.5,
    3.4e38,
    -3.4e38,
]


def values():
    bits = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32)
    dense = np.linspace(-20, 20, 100_003).astype(np.float32)
    return np.concatenate([bits.view(np.float32), dense, np.array(SPECIAL, np.float32)])


@pytest.fixture(params=["native", "x86_64_v3", "generic"])
def library(request, tmp_path):
    text = "".join((runtime_folder() / f"{n}.h").read_text() for n in ("view", "vec", "vmath"))
    for name in UFUNCS:
        text += (
            f'extern "C" __attribute__((visibility("default"))) void f_{name}(const float* x, float* y, long n)'
            f" {{ using namespace st; for (long i = 0; i < n; i += lanes<f32v>)"
            f" store_n(y + i, v{name}(load_n<f32v>(x + i, n - i)), n - i); }}\n"
        )
    for name in ("Sum", "Prod", "Max", "Min"):
        text += (
            f'extern "C" __attribute__((visibility("default"))) float f_{name}(const float* x)'
            f" {{ using namespace st; return fold<{name}>(load<f32v>(x)); }}\n"
        )
    text += 'extern "C" __attribute__((visibility("default"))) int f_lanes() { return st::lanes<st::f32v>; }'
    built = compile_shared(text, tmp_path, arch=request.param)
    assert built.ok, built.log
    return ctypes.CDLL(str(built.artifact))


def test_functions_are_within_their_error_and_keep_special_values(library):
    x = values()
    for name, ufunc in UFUNCS.items():
        y = np.empty_like(x)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, y)]
        library[f"f_{name}"](*pointers, ctypes.c_long(x.size))
        with np.errstate(all="ignore"):
            want = ufunc(x.astype(np.float64))
            rounded = want.astype(np.float32)
        assert np.array_equal(np.isnan(y), np.isnan(want)), name
        infinite = np.isinf(rounded)
        assert np.array_equal(y[infinite], rounded[infinite]), name
        good = ~np.isnan(want) & ~infinite
        unit = np.spacing(np.maximum(np.abs(rounded[good]), np.float32(1.2e-38))).astype(np.float64)
        error = np.abs(y[good].astype(np.float64) - want[good]) / unit
        assert error.max() <= ULPS[name], (name, error.max(), x[good][error.argmax()])
        sign = ~np.isnan(want)
        assert np.array_equal(np.signbit(y[sign]), np.signbit(want[sign])), name


def _greater(a, b):
    return a if a > b or a != a else b


FOLDS = {
    "Sum": lambda a, b: a + b,
    "Prod": lambda a, b: a * b,
    "Max": _greater,
    "Min": lambda a, b: a if a < b or a != a else b,
}


def test_lanes_are_combined_pairwise_in_one_order(library):
    """What a row's sum is must not depend on how a compiler shuffles lanes."""
    rng = np.random.default_rng(0)
    lanes = library.f_lanes()
    rows = rng.standard_normal((200, lanes)).astype(np.float32)
    rows[::7, rng.integers(lanes)] = np.nan
    rows[3::7] = np.where(rng.random(rows[3::7].shape) < 0.5, np.float32(0.0), np.float32(-0.0))
    for name, of in FOLDS.items():
        call = library[f"f_{name}"]
        call.restype = ctypes.c_float
        for row in rows:
            part, width = list(row), lanes // 2
            while width:
                part[:width] = [of(part[i], part[i + width]) for i in range(width)]
                width //= 2
            got, want = np.float32(call(row.ctypes.data_as(ctypes.c_void_p))), part[0]
            assert np.isnan(got) == np.isnan(want), name
            assert np.isnan(got) or got.tobytes() == want.tobytes(), (name, row)
