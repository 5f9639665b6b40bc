"""Temporaries that nobody reads are not stored, or live where the result will be; divisions by a row value are products."""

from __future__ import annotations

import ctypes
import re

import ml_dtypes
import numpy as np
import pytest

from septran.backends.cpp.backend import CPP
from septran.backends.cpp.emit import runtime_folder
from septran.kernel import leaf_specs
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.backends.cpp.programs import prim, run_leaf
from tests.support.shared import compile_shared


def leaf_text(op: str, task: str | None, **dims: int) -> str:
    program = lower_plan(resolve(GenRequest(op=op, backend="cpp", dims=dims))).program
    spec = next(spec for _, spec in leaf_specs(program) if task in (None, spec.task))
    leaf = CPP.library(spec)
    assert leaf is not None
    return leaf.source


def stored(text: str) -> set[str]:
    return set(re.findall(r"store(?:_n|_pairs)?\((\w+?)_row", text))


@pytest.mark.parametrize(
    ("op", "task", "names"),
    [
        ("gemv", "dot_rows", set()),
        ("cross_entropy", "cross_entropy_leaf", set()),
        ("layernorm", "layernorm_leaf", {"Y"}),
        ("softmax", "softmax_leaf", {"Y"}),
    ],
)
def test_only_the_result_is_stored(op, task, names):
    assert stored(leaf_text(op, task)) == names


def test_exponentials_wait_in_the_row_of_the_result():
    text = leaf_text("softmax", "softmax_leaf")
    assert "load<F>(Y_row" in text
    assert not re.search(r"\bt_row\b", text)


def test_a_result_of_another_type_is_no_home():
    plan = resolve(GenRequest(op="softmax", backend="cpp", dtype="bfloat16"))
    (_, spec), *_ = leaf_specs(lower_plan(plan).program)
    leaf = CPP.library(spec)
    assert leaf is not None
    assert stored(leaf.source) == {"t", "Y"}


def test_scores_are_walked_twice():
    """The sum joins the loop of the exponentials, which wait in the scores' place."""
    text = leaf_text("attention", "online")
    turns = text.split("for (; i0 < ")
    assert [len(re.findall(r"load<F>\(S_row", turn)) for turn in turns] == [4, 2]  # two rows, one
    assert stored(text) == {"S", "acc"}


def test_rows_of_a_core_fill_each_others_gaps():
    """Two at once where a later walk waits for a row's maximum; rows of a tensor stream one after another."""
    text = leaf_text("attention", "online")
    assert "i0 + 2 <= " in text
    both = text[: text.index("for (; i0 < ")]
    assert both.index("total<Max>(m_new_acc)") < both.index("total<Max>(m_new_acc_)")
    assert both.index("total<Max>(m_new_acc_)") < both.index("total<Sum>(l_acc)")
    for op in ("softmax", "layernorm", "rmsnorm"):
        assert " + 2 <= " not in leaf_text(op, None)


def test_exponentials_of_two_rows_are_stored_once():
    """Each row stores its exponentials once in whole vectors and once in the rest, as a row alone does; its scores stay where they are."""
    two, one = leaf_text("attention", "online").split("for (; i0 < ")
    for turn, rows in ((two, ("S_row", "S_row_")), (one, ("S_row",))):
        first, second = turn.split(" l_acc[4]", 1)
        for row in rows:
            stored = [len(re.findall(rf"store(?:_n)?\({row} ", walk)) for walk in (first, second)]
            assert stored == [0, 2]


@pytest.mark.parametrize(
    ("op", "dims", "at_once"),
    [
        ("gemv", {"M": 64, "K": 4096}, True),
        ("gemv", {"M": 64, "K": 1024}, False),  # short rows are one stream
        ("row_sum", {"M": 64, "N": 4096}, False),  # share nothing
    ],
)
def test_long_rows_that_share_an_operand_are_read_four_at_once(op, dims, at_once):
    text = leaf_text(op, "dot_rows" if op == "gemv" else None, **dims)
    assert ("i0 + 4 <= " in text) is at_once


def test_the_next_row_is_asked_for_in_the_second_pass_and_long_rows_are_not():
    text = leaf_text("layernorm", "layernorm_leaf", M=64, N=1024)
    assert len(re.findall(r"next_row\(X_row", text)) == 1
    assert text.index("next_row(X_row") < text.index("vrsqrt") < text.index("next_output(Y_row")
    assert "next_row" not in leaf_text("softmax", "softmax_leaf", M=8, N=32768)


def test_the_row_that_is_written_last_is_asked_for_by_a_walk_over_what_the_cache_has():
    text = leaf_text("layernorm", "layernorm_leaf", M=8, N=1024)
    assert text.index("next_row(X_row") < text.index("own_output(Y_row") < text.index("vrsqrt")
    # One walk before the last: it brings its own row from memory. Exponentials in the row of results: it is there already.
    assert "own_output" not in leaf_text("rmsnorm", "rmsnorm_leaf", M=8, N=1024)
    assert "own_output" not in leaf_text("softmax", "softmax_leaf", M=8, N=1024)


def test_a_row_that_is_only_summed_is_read_in_order():
    whole = "#pragma GCC unroll 1\n"
    assert leaf_text("layernorm", "layernorm_leaf", M=8, N=1024).count(whole) == 1
    assert whole not in leaf_text("rmsnorm", "rmsnorm_leaf", M=8, N=1024)


@pytest.mark.few(2)
@pytest.mark.parametrize("rows", [1, 3, 4, 7, 9])
def test_a_row_has_the_same_bits_alone_and_among_others(rows):
    rng = np.random.default_rng(rows)
    x, w = (rng.standard_normal(s, np.float32) for s in ((rows, 4111), (4111,)))
    sums = [
        prim("map", "T", named={"a": "X", "x": "W"}, expr="a * x"),
        prim("reduce", "Y", "T", op="sum", axis=1),
    ]

    def dot(some):
        made = {"T": (some.shape, "float32"), "Y": ((len(some), 1), "float32")}
        return run_leaf(sums, {"X": some, "W": w}, made)["Y"]

    got = dot(x)
    for i in {0, rows - 1}:
        assert got[i].tobytes() == dot(x[i : i + 1])[0].tobytes()


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [1, 31, 64, 333, 4096])
def test_words_of_two_bfloat16_are_reduced_as_elements_are(n):
    rng = np.random.default_rng(n)
    x = rng.integers(-8, 9, (5, n)).astype(ml_dtypes.bfloat16)  # sums of these are exact
    x[1, n // 2] = 2.0**-130  # subnormal
    sums = [prim("reduce", "Y", "X", op="sum", axis=1), prim("reduce", "Z", "X", op="max", axis=1)]
    got = run_leaf(sums, {"X": x}, dict.fromkeys("YZ", ((5, 1), "float32")))
    wide = x.astype(np.float64)
    assert np.array_equal(got["Y"][:, 0], wide.sum(1).astype(np.float32))
    assert np.array_equal(got["Z"][:, 0], wide.max(1).astype(np.float32))


def test_where_places_count_elements_stay_in_order():
    x = np.arange(200, dtype=np.float32).reshape(2, 100).astype(ml_dtypes.bfloat16)
    tail = [
        prim("map", "T", named={"x": "X"}, expr="select(index(1) >= 90, x, 0)"),
        prim("reduce", "Y", "T", op="sum", axis=1),
    ]
    made = {"T": (x.shape, "float32"), "Y": ((2, 1), "float32")}
    got = run_leaf(tail, {"X": x}, made)["Y"]
    assert np.array_equal(got[:, 0], x[:, 90:].astype(np.float32).sum(1))


def test_bfloat16_is_rounded_to_nearest_even_and_keeps_subnormal_numbers():
    bits = np.arange(0, 2**32, 40961, dtype=np.uint64).astype(np.uint32)
    halfway = (bits & 0xFFFF0000) | 0x8000
    few = np.array([0, 1, 0x7FFFFF, 0x7F8000, 0x807F8001, 0x7F7FFFFF, 0x7F800001, 0xFFC00001], np.uint32)  # fmt: skip
    for some in (bits, halfway, np.repeat(few, 5)):
        x = some.view(np.float32)[None, :]
        narrow = [prim("map", "Y", named={"x": "X"}, expr="x + 0.0")]
        got = run_leaf(narrow, {"X": x}, {"Y": (x.shape, "bfloat16")})["Y"]
        with np.errstate(all="ignore"):
            want = (x + np.float32(0)).astype(ml_dtypes.bfloat16)
        nan = np.isnan(want.astype(np.float32))
        assert np.array_equal(np.isnan(got.astype(np.float32)), nan)
        assert np.array_equal(got.view(np.uint16)[~nan], want.view(np.uint16)[~nan])


@pytest.mark.parametrize("arch", ["native", "x86_64_v3", "generic"])
def test_two_vectors_stored_as_pairs_are_rounded_as_one_is(arch, tmp_path):
    headers = "".join((runtime_folder() / f"{n}.h").read_text() for n in ("view", "vec"))
    loop = """extern "C" __attribute__((visibility("default"))) void pairs(const float* x, const float* z, st::bf16* y, long n) {
        using namespace st;
        for (long i = 0; i < n; i += lanes<f32v>) store_pairs(y + 2 * i, load<f32v>(x + i), load<f32v>(z + i)); }"""
    built = compile_shared(headers + loop, tmp_path, arch=arch)
    assert built.ok, built.log
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 1 << 16, dtype=np.uint32)
    bits[::3] = (bits[::3] & 0xFFFF0000) | 0x8000  # halfway
    bits[5::96] &= 0x807FFFFF  # subnormal, alone in its vector
    bits[1 << 15 :] |= 0x40000000
    bits[7 << 13 :] &= 0x80000000  # zeros
    bits[(7 << 13) + 11] = 0x00345678
    x = bits.view(np.float32)
    got = np.zeros(x.size, ml_dtypes.bfloat16)
    even, odd = (np.ascontiguousarray(part) for part in (x[::2], x[1::2]))
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (even, odd, got)]
    ctypes.CDLL(str(built.artifact)).pairs(*pointers, ctypes.c_long(even.size))
    with np.errstate(all="ignore"):
        want = x.astype(ml_dtypes.bfloat16)
    nan = np.isnan(x)
    assert np.array_equal(np.isnan(got.astype(np.float32)), nan)
    assert np.array_equal(got.view(np.uint16)[~nan], want.view(np.uint16)[~nan])


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [1, 31, 32, 65, 1000])
def test_maps_of_bfloat16_are_computed_in_pairs_unless_a_result_is_read_again(n):
    rng = np.random.default_rng(n)
    x, z = (rng.standard_normal((3, n)).astype(ml_dtypes.bfloat16) for _ in range(2))
    product = prim("map", "Y", named={"x": "X", "z": "Z"}, expr="x * z")
    again = prim("map", "W", named={"y": "Y", "x": "X"}, expr="y - x")
    made = {"Y": (x.shape, "bfloat16"), "W": (x.shape, "bfloat16")}
    one = run_leaf([product], {"X": x, "Z": z}, {"Y": made["Y"]})["Y"]
    two = run_leaf([product, again], {"X": x, "Z": z}, made)
    want = (x.astype(np.float32) * z.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(one, want)
    assert np.array_equal(two["Y"], want)
    assert np.array_equal(two["W"], want - x)


@pytest.mark.parametrize(
    ("op", "pairs"),
    [("gelu", True), ("rmsnorm", True), ("softmax", False)],  # exponentials are float32
)
def test_pairs_are_stored_where_all_that_is_walked_is_bfloat16(op, pairs):
    plan = resolve(GenRequest(op=op, backend="cpp", dtype="bfloat16"))
    (_, spec), *_ = leaf_specs(lower_plan(plan).program)
    leaf = CPP.library(spec)
    assert leaf is not None
    assert ("store_pairs(" in leaf.source) is pairs


def test_division_by_a_row_value_is_right_at_every_size():
    by = np.array(
        [1, 3, -7, 1e-45, 1e-39, 2.0**-126, 1e-30, 1e30, 3e38, np.inf, -np.inf, 0.0, -0.0, np.nan],
        np.float32,
    )[:, None]
    row = [0.0, -0.0, 1, -3, 1e-45, 1e-38, 1e-20, 1e20, 3e38, np.inf, -np.inf, np.nan, 0.1, 5e-39]
    x = np.tile(np.array(row * 2, np.float32), (len(by), 1))
    quotient = [prim("map", "Y", named={"x": "X", "c": "C"}, expr="x / c")]
    got = run_leaf(quotient, {"X": x, "C": by}, {"Y": (x.shape, "float32")})["Y"]
    with np.errstate(all="ignore"):
        want = x.astype(np.float64) / by
        rounded = want.astype(np.float32)
        room = 2 * np.maximum(np.abs(want) * 2.0**-23, 2.0**-149)
    finite = np.isfinite(rounded)
    assert np.array_equal(got[~finite], rounded[~finite], equal_nan=True)
    assert (np.abs(got[finite] - want[finite]) <= room[finite]).all()
    assert np.array_equal(np.signbit(got[finite]), np.signbit(rounded[finite]))
