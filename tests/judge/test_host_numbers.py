"""Numbers of a host function that nobody gave: what their names say of the reference's sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.cli.main import main
from septran.outcome import Level, Status
from septran.run.host_numbers import guesses
from septran.run.judge_numbers import with_other_numbers
from septran.run.judgement import Judgement, JudgeRequest
from septran.verify.verdict import Verdict

SQUARE = """
extern "C" void mm(const float* a, const float* b, float* c, int n) {
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
"""
TWICE = """
extern "C" void twice(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) y[i] = 2 * x[i];
}
"""
PRODUCT = """
extern "C" void mm(const float* a, const float* b, float* c, int M, int N, int K) {
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
            c[i * N + j] = sum;
        }
}
"""
INNER = """
extern "C" void mm(const float* a, const float* b, float* c, int m, int n, int k) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < k; ++j) {
            float sum = 0;
            for (int h = 0; h < n; ++h) sum += a[i * n + h] * b[h * k + j];
            c[i * k + j] = sum;
        }
}
"""
ROWS = """
extern "C" void row_max(const float* x, float* y, int num_rows, int num_cols) {
    for (int r = 0; r < num_rows; ++r) {
        float most = x[r * num_cols];
        for (int c = 1; c < num_cols; ++c) most = x[r * num_cols + c] > most ? x[r * num_cols + c] : most;
        y[r] = most;
    }
}
"""
NAMED = """
#include <cmath>
namespace ops::rows {
namespace {
float most(const float* x, size_t n) {
    float m = x[0];
    for (size_t i = 1; i < n; ++i) m = x[i] > m ? x[i] : m;
    return m;
}
}
void row_max(const float* x, float* y, std::size_t rows, std::size_t cols) {
    for (std::size_t r = 0; r < rows; ++r) y[r] = most(x + r * cols, cols);
}
}
int main() {}
"""
SCALED = """
extern "C" void scaled(const float* x, float* y, int rows, int cols, float by) {
    for (int i = 0; i < rows * cols; ++i) y[i] = by * x[i];
}
"""
REFERENCE = """
import torch
def reference({args}): return {said}
def get_inputs(): return [{inputs}]
"""
PAIR = "torch.randn(24, 24), torch.randn(24, 24)"
OBLONG = "torch.randn(37, 53), torch.randn(53, 29)"
ONE = "torch.randn(24, 24)"
TALL = "torch.randn(29, 17)"


def judged(folder, text, said, inputs, capsys):
    args = [a for a in "abx" if a in said.replace("amax", "")]
    (folder / "own.cpp").write_text(text)
    reference = REFERENCE.format(args=", ".join(args), said=said, inputs=inputs)
    (folder / "ref.py").write_text(reference)
    main(["judge", str(folder / "own.cpp"), "--reference", str(folder / "ref.py"), "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "said", "inputs", "taken"),
    [
        (SQUARE, "a @ b", PAIR, {"n": 24}),
        (TWICE, "2 * x", ONE, {"n": 576}),
        (PRODUCT, "a @ b", OBLONG, {"M": 37, "N": 29, "K": 53}),
        (ROWS, "x.amax(-1)", TALL, {"num_rows": 29, "num_cols": 17}),
        (NAMED, "x.amax(-1)", TALL, {"rows": 29, "cols": 17}),
        (INNER, "a @ b", OBLONG, {"m": 37, "n": 53, "k": 29}),
    ],
)
def test_an_honest_file_is_right_without_numbers(tmp_path, text, said, inputs, taken, capsys):
    found = judged(tmp_path, text, said, inputs, capsys)
    assert found["ok"], found["reason"]
    assert found["taken"] == taken


def test_a_number_that_is_no_size_is_the_references(tmp_path, capsys):
    (tmp_path / "own.cpp").write_text(SCALED)
    reference = "import torch\ndef reference(x, by): return x * by\ndef get_inputs(): return [torch.randn(5, 7), 1.5]\n"
    (tmp_path / "ref.py").write_text(reference)
    words = ["judge", str(tmp_path / "own.cpp"), "--reference", str(tmp_path / "ref.py"), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["taken"] == {"rows": 5, "cols": 7}


@pytest.mark.wider
@pytest.mark.parametrize(
    ("text", "old", "new", "said", "inputs", "finding"),
    [
        (SQUARE, "k = 0", "k = 1", "a @ b", PAIR, "wrong"),
        (TWICE, "i < n", "i <= n", "2 * x", ONE, "bounds"),
        (TWICE, "2 *", "3 *", "2 * x", ONE, "wrong"),
        (PRODUCT, "k * N + j", "j * K + k", "a @ b", OBLONG, "wrong"),
        (PRODUCT, "k = 0", "k = 1", "a @ b", OBLONG, "wrong"),
        (INNER, "h = 0", "h = 1", "a @ b", OBLONG, "wrong"),
        (NAMED, "y[r] = most", "y[r] = -most", "x.amax(-1)", TALL, "wrong"),
        (ROWS, "c < num_cols", "c <= num_cols", "x.amax(-1)", TALL, "bounds"),
    ],
)
def test_its_mistakes_are_found_and_the_numbers_told(
    tmp_path, text, old, new, said, inputs, finding, capsys
):
    found = judged(tmp_path, text.replace(old, new), said, inputs, capsys)
    assert (found["ok"], found["finding"]) == (False, finding), found["reason"]
    assert found["taken"] and "nobody said that" in found["hint"]


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ((1, "wrong"), (3, ""), 576),
        ((1, "bounds"), (0, ""), 24),
        ((1, "bounds"), (1, "race"), 24),
        ((1, "bounds"), (1, "uninitialised"), 576),
        ((3, ""), (0, ""), 576),
    ],
)
def test_what_was_found_is_not_hidden_by_other_numbers(first, second, taken):
    def judgement(said):
        level = {0: Level.ACCURATE, 1: Level.RAN, 3: Level.UNAVAILABLE}[said[0]]
        status = {0: Status.PASSED, 1: Status.INCORRECT_NUMERICAL, 3: Status.UNAVAILABLE}[said[0]]
        verdict = Verdict(
            level=level, status=status, where="native", kernel="k", kernel_sha="", backend="cpp", arch="native"
        )  # fmt: skip
        return Judgement(
            request=JudgeRequest(file=Path("k.cpp"), reference=Path("r.py")), backend="cpp", entry="k",
            verdict=verdict, finding=said[1], left_out=(), sha="",
            guesses=((("n", 576),), (("n", 24),)), taken={"n": 576},
        )  # fmt: skip

    assert with_other_numbers(judgement(first), lambda guess: judgement(second)).taken == {
        "n": taken
    }


def guessed(names, inputs, outputs):
    """Tensors are called input and kernel, and output, as far as there are any."""
    given = dict(zip(("input", "kernel", "c"), inputs, strict=False))
    return guesses(names.split(), given, dict(zip(("output",), outputs, strict=True)))


@pytest.mark.parametrize(
    ("names", "inputs", "outputs", "first"),
    [
        ("N", [(7, 9)], [(7, 9)], {"N": 63}),
        ("n", [(40,), (40,)], [(1,)], {"n": 40}),
        ("M N K", [(5, 7), (3, 7)], [(5, 3)], {"M": 5, "N": 3, "K": 7}),
        ("B M N K", [(2, 5, 7), (2, 7, 3)], [(2, 5, 3)], {"B": 2, "M": 5, "N": 3, "K": 7}),
        ("K N M", [(7, 5), (7, 3)], [(5, 3)], {"K": 7, "N": 3, "M": 5}),
        ("width height", [(6, 8)], [(8, 6)], {"width": 8, "height": 6}),
        ("n d", [(6, 8)], [(6, 8)], {"n": 6, "d": 8}),
        ("m n", [(6, 8), (8,)], [(6,)], {"m": 6, "n": 8}),
        ("n m", [(6, 8), (8,)], [(6,)], {"n": 6, "m": 8}),
        ("tokens hidden_size", [(2, 3, 8), (8,)], [(2, 3, 8)], {"tokens": 6, "hidden_size": 8}),
        ("input_size kernel_size", [(300,), (7,)], [(294,)], {"input_size": 300, "kernel_size": 7}),
        ("inputRows inputCols", [(30, 9), (3, 3)], [(28, 7)], {"inputRows": 30, "inputCols": 9}),
        ("N num_bins", [(300,)], [(16,)], {"N": 300, "num_bins": 16}),
        ("N C H W", [(2, 3, 8, 9)], [(2, 3, 4, 4)], {"N": 2, "C": 3, "H": 8, "W": 9}),
        ("M N d", [(5, 8), (7, 8), (7, 8)], [(5, 8)], {"M": 5, "N": 7, "d": 8}),
        ("C H W", [(3, 8, 9)], [(3, 8, 9)], {"C": 3, "H": 8, "W": 9}),
        (
            "B T C block_size",
            [(2, 8, 9), (9,)],
            [(2, 8, 9)],
            {"B": 2, "T": 8, "C": 9, "block_size": 256},
        ),
        ("batch seq_len dim", [(2, 8, 9)], [(2, 8, 9)], {"batch": 2, "seq_len": 8, "dim": 9}),
        ("B H S D", [(2, 3, 8, 9)] * 3, [(2, 3, 8, 9)], {"B": 2, "H": 3, "S": 8, "D": 9}),
    ],
)
def test_what_names_say(names, inputs, outputs, first):
    assert dict(guessed(names, inputs, outputs)[0]) == first


@pytest.mark.parametrize(
    ("names", "inputs", "outputs"),
    [
        ("seed", [(7, 9)], [(7, 9)]),
        ("M N K", [(5, 7), (4, 3)], [(5, 3)]),
        ("rows rows_", [(5, 7)], [(5, 7)]),
        ("rows stride", [(5, 7)], [(5, 7)]),
        ("n", [(5, 7), (3, 2)], [(5, 7)]),
        ("rows cols", [(5,)], [(5,)]),
        ("N C H K", [(2, 3, 8, 9)], [(2, 3, 4, 4)]),
    ],
)
def test_where_names_say_nothing_nobody_guesses(names, inputs, outputs):
    assert guessed(names, inputs, outputs) == ()
