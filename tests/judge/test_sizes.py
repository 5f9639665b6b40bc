"""A file is also called at sizes where its own comparisons of sizes come out the other way, as far as the reference takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.backends.judged import py_sizes
from septran.backends.judged.c_sizes import sizes_asked
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest

INDEX = "__global__ void k(float* y, int n) { const int i = blockIdx.x * blockDim.x + threadIdx.x;"
HEAD = "void f(const float* x, float* y, int n) { "


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (HEAD + "if (n > 5000) y[0] = 0; }", ["n > 5000"]),
        ("void f(float* y, size_t rows) { if (rows % 128==0) y[0] = 0; }", ["rows % 128 == 0"]),
        (HEAD + "if (5'000 <= n) y[0] = 0; }", ["n >= 5000"]),
        (HEAD + "const int k = n; if (n % 4 == 0 || k > 64) y[0] = 0; }", ["n > 64"]),
        ("constexpr int BIG = 0x1000;\n" + HEAD + "if (n >= BIG) y[0] = 0; }", ["n >= 4096"]),
        ("#define BIG 4096\n" + HEAD + "if (n >= BIG) y[0] = 0; }", ["n >= 4096"]),
        ("auto rows = x.size(0); if (rows > 64) f();", ["x.size(0) > 64"]),
        ("if (x.numel() > 64) f();", ["x.numel() > 64"]),
        (HEAD + "int m = n / 2; if (m > 5000) y[0] = 0; }", ["n / 2 > 5000"]),
        (HEAD + "if (n * 3 > 9999 || (n >> 4) & 1) y[0] = 0; }", ["n * 3 > 9999", "(n >> 4) & 1"]),
        (
            f"int half(int v) {{ return v / 2; }}\n{HEAD}if (half(n) > 99) y[0] = 0; }}",
            ["n / 2 > 99"],
        ),
        (
            f"bool big(int v) {{ return v > 99; }}\n{HEAD}if (big(n / 4)) y[0] = 0; }}",
            ["n / 4 > 99"],
        ),
        (
            f"void k(float* y, int n) {{ if (n > 99) y[0] = 0; }}\n{HEAD}k<<<1, 64>>>(y, n / 4); }}",
            ["n / 4 > 99"],
        ),
        (HEAD + "const int m = std::min(n, 512); }", ["n <= 512"]),
        (HEAD + "if ((n & (n - 1)) == 0) y[0] = 0; }", ["(n & (n - 1)) == 0"]),
        (
            HEAD + "double m = n * 0.5; m += 1; if (m > 99) y[0] = 0; }",
            ["n * 0.5 > 99", "(n * 0.5) + 1 > 99", "((n * 0.5) + 1) + 1 > 99"],
        ),
        (
            f"struct P {{ int n; float a; }};\n{HEAD}P p{{n, 1}}; if (p.n > 99) y[0] = 0; }}",
            ["n > 99"],
        ),
        (HEAD + "auto big = [](int v) { return v > 99; }; if (big(n)) y[0] = 0; }", ["n > 99"]),
        (
            HEAD
            + "int k = 0; for (; k + 64 <= n; k += 64) y[k] = 0; for (; k < n; k++) y[k] = 0; }",
            [],
        ),
        (HEAD + "for (int i = 0; i < n; i++) y[i] = i > 99 ? 0 : x[i]; }", ["n - 1 > 99"]),
        (
            HEAD
            + "for (int i = 0; i < n; i++) for (int j = 0; j < 64; j++) if (j > 40 && i % 4) y[i] = 0; }",
            [],
        ),
        (HEAD + "int m; memcpy(&m, &n, 4); if (m > 99) y[0] = 0; }", ["n > 99"]),
        (HEAD + "int d[2] = {n, 1}; if (d[0] > 99) y[0] = 0; }", ["n > 99"]),
        (
            f"__global__ void k(float* y) {{ if (c > 99) y[0] = 0; }}\n{HEAD}cudaMemcpyToSymbol(c, &n, 4); }}",
            ["n > 99"],
        ),
        (f"{INDEX} if (i < n) y[i] = i > 99; }}", ["n - 1 > 99"]),
        (
            f"{INDEX} if (i >= n) return; if (threadIdx.x < 32 || blockIdx.x > 70) y[i] = 0; }}",
            ["blockIdx.x > 70"],
        ),
        (HEAD + "if (x[n] + n > 99 || f(n) > 99 || x[0] * (n + 1) > 99) y[0] = 0; }", []),
        (HEAD + "for (int i = 0; i < (n + 3) / 4; i++) y[i] = (n + 7) / 8 * 8; }", []),
        (HEAD + "for (int i = 0; i < 100; i++) y[i] = n < 2.5; }", []),
        (HEAD + "if (x[0] > 5000 || n << 40 || n && 77) y[0] = 0; } // n > 64", []),
    ],
)
def test_what_a_text_asks_of_its_sizes(text: str, asks: list[str]) -> None:
    assert list(map(str, sizes_asked(text))) == asks


KERNEL = "@triton.jit\ndef k(p, n, B: tl.constexpr):\n    "
LAUNCH = "\ndef f(x):\n    n = x.numel()\n    k[(1,)](x, n, B=128)\n"


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (f"{KERNEL}if n > 5000: pass{LAUNCH}", ["x.numel() > 5000"]),
        (f"{KERNEL}even = n % 128 == 0{LAUNCH}", ["x.numel() % 128 == 0"]),
        (f"{KERNEL}if B > 64: pass{LAUNCH}", []),
        (f"{KERNEL}if n % 16 == 0 or tl.load(p) > 64: pass{LAUNCH}", []),
        (f"{KERNEL}g(n)\n@triton.jit\ndef g(m):\n    if 64 < m: pass{LAUNCH}", ["x.numel() > 64"]),
        (f"{KERNEL}m = n // 2\n    if m > 99: pass{LAUNCH}", ["x.numel() / 2 > 99"]),
        (f"{KERNEL}if n * 3 > 999 or (n >> 4) & 1: pass{LAUNCH}", ["x.numel() * 3 > 999", "(x.numel() >> 4) & 1"]),
        ("def half(v):\n    return v // 2\ndef f(x):\n    most = 9 * 9\n    if half(len(x)) > most: pass", ["len(x) / 2 > 81"]),
        ("def f(x):\n    g = (min(triton.cdiv(x.numel(), 64), 32),)", ["cdiv(x.numel(), 64) <= 32"]),
        ("def f(x):\n    m, n = x.shape\n    if m == n: pass\n    for i in range(n):\n        if i > 64: pass", ["m == n", "n - 1 > 64"]),
        (f"{KERNEL}at = tl.program_id(0) * B + tl.arange(0, B)\n    y = (at < n) & (at > 99){LAUNCH}", ["x.numel() - 1 > 99"]),
        (f"{KERNEL}y = tl.program_id(0) * 64 + tl.arange(0, 64) > 999{LAUNCH}", ["(tl.program_id(0) * 64) + 0 > 999"]),
        ("def f(n=300):\n    with T.Kernel(T.ceildiv(n, 64)) as bx:\n        for i in T.Parallel(64):\n            a = (bx > 70) & (i > 40)", ["bx > 70"]),
        ("BIG = 1 << 12\ndef f(x):\n    if x.shape[0] >= BIG: pass", ["x.shape[0] >= 4096"]),
        ("BIG = tl.constexpr(64)\ndef f(x):\n    if len(x) >= BIG: pass", ["len(x) >= 64"]),
        ("def f(x):\n    M, N = x.shape\n    if N % 64: pass", ["N % 64 != 0"]),
        ("def f(x, rows):\n    if x.size(1) & 63 or rows < 99: pass", ["x.size(1) & 63", "rows < 99"]),
        ('h = {"EVEN": lambda args: args["n"] % 64 == 0}\ndef f(x):\n    n = x.numel()', ["args['n'] % 64 == 0"]),
        ("def f(M=9, block=64):\n    def main(A: T.Tensor((M, 4), t)):\n        if M > 77 or block > 32: pass", ["M > 77"]),
    ],
)  # fmt: skip
def test_what_a_python_text_asks_of_its_sizes(text: str, asks: list[str]) -> None:
    assert list(map(str, py_sizes.sizes_asked(text))) == asks


def test_hostile_texts_are_read_in_no_time() -> None:
    deep = HEAD + "if (" + "(" * 5000 + "n" + ")" * 5000 + " > 99) y[0] = 0; }"
    long = (
        HEAD
        + "".join(f"int m{k + 1} = m{k} + n;" for k in range(3000)).replace("m0 +", "n +")
        + "if (m3000 > 99) y[0] = 0; }"
    )
    large = (
        HEAD
        + f"if (n > 1{'0' * 400} || n * (1 << 63) * 1e300 > 1e301 || n % 0 == 1 || n >> 99 > 5) y[0] = 0; }}"
    )
    for text in (deep, long, large):
        sizes_asked(text)
    py_sizes.sizes_asked(
        "def f(n):\n    if n" + " + n" * 900 + " > 99 or n ** 10 ** 9 > 5 or n % 0: pass"
    )


def judged(folder: Path, text: str, reference: str, **more: object) -> Judgement:
    (folder / "k.cpp").write_text(text)
    (folder / "r.py").write_text(f"import torch\n{reference}")
    request = JudgeRequest(file=folder / "k.cpp", reference=folder / "r.py", **more)  # type: ignore[arg-type]
    return judge(request, settings=settings.load(project=folder))


TWO = """extern "C" void f(const float* x, float* y, int m, int n) {{
  for (int i = 0; i < m * n; i++) y[i] = 2 * x[i];
  if ({when}) y[0] = 7;
}}
"""
TWICE = "def reference(x):\n    return x * 2\ndef get_inputs():\n    return [torch.rand(31, 45)]\n"


@pytest.mark.wider
def test_a_number_that_is_a_size_follows_it(tmp_path: Path) -> None:
    found = judged(tmp_path, TWO.format(when="m > 2000"), TWICE, numbers={"m": 31, "n": 45})
    assert found.code == 1 and "x [2002, 45], where m > 2000" in found.verdict.message
    assert "--sizes given" in found.verdict.hint


@pytest.mark.wider
def test_a_file_for_the_sizes_that_are_given_is_called_at_no_others(tmp_path: Path) -> None:
    """A flag says it; what the file asks of sizes is then unchecked."""
    text = TWO.format(when="m > 2000")
    found = judged(tmp_path, text, TWICE, numbers={"m": 31, "n": 45}, sizes="given")
    assert found.code == 0
    assert "other sizes: it asks m > 2000; --sizes given" in found.verdict.not_checked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "shown"),
    [("m == n", "x [45, 45], where m == n"), ("m * n > 9999", "where m * n > 9999")],
)
def test_two_sizes_decide_together(tmp_path: Path, when: str, shown: str) -> None:
    found = judged(tmp_path, TWO.format(when=when), TWICE, numbers={"m": 31, "n": 45})
    assert found.code == 1 and shown in found.verdict.message


@pytest.mark.slow
def test_a_number_that_is_no_size_leaves_it_unchecked(tmp_path: Path) -> None:
    scaled = TWO.replace("int n)", "int n, int lanes)")
    numbers = {"m": 31, "n": 45, "lanes": 64}
    found = judged(tmp_path, scaled.format(when="m > 2000"), TWICE, numbers=numbers)
    (told,) = [one for one in found.verdict.not_checked if one.startswith("other sizes")]
    assert found.code == 0 and "m > 2000; nobody says what --number lanes=64 is" in told


BROADCAST = TWICE.replace("return x * 2", "return x * torch.full((31, 45), 2.0)")
FIXED = TWICE.replace("return x * 2", "return x.reshape(31, 45) * 2")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "when", "why"),
    [
        (FIXED, "m > 2000", "the reference fixes its sizes"),
        (BROADCAST, "m > 2000", "the reference fixes its sizes"),
        (TWICE, "m > 2000000", "no size up to 262144 elements turns it"),
    ],
)
def test_what_no_call_can_turn_is_named(
    tmp_path: Path, reference: str, when: str, why: str
) -> None:
    found = judged(tmp_path, TWO.format(when=when), reference, numbers={"m": 31, "n": 45})
    told = [one for one in found.verdict.not_checked if one.startswith("other sizes")]
    assert found.code == 0 and told == [f"other sizes: it asks {when}; {why}"]


EXTENSION = """#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const float* a = x.data_ptr<float>(); float* b = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); i++) b[i] = 2 * a[i];
  if (x.size(0) > 100) b[0] = 7;
  return y;
}
"""


@pytest.mark.slow
def test_an_extension_is_called_at_other_sizes(tmp_path: Path) -> None:
    found = judged(tmp_path, EXTENSION, TWICE)
    assert found.code == 1 and "where x.size(0) > 100 comes out otherwise" in found.verdict.message
