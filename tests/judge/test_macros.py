"""Macros of judged C++ and CUDA files: put in where they are expressions, read over where they check a call, else not read."""

from __future__ import annotations

import pytest

from septran.backends.judged.c_macros import expanded
from septran.prove.foreign.launch import NotRead

CHECK = """#define CHECK(call) do { \\
    cudaError_t e = (call);  \\
    if (e != cudaSuccess) { fprintf(stderr, __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } \\
  } while (0)
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#define N 32\nint a[N];", "\nint a[(32)];"),
        ("#define N 4\n#define M (N * 2)\nM", "\n\n((" + "(4) * 2))"),
        ("#define UP(a, b) (((a) + (b) - 1) / (b))\nUP(n, 4)", "\n(((n) + (4) - 1) / (4))"),
        ("#define AT(i, j) ((i) * n + (j))\nx[AT(f(a, b), AT(1, 2))]", "\nx[((f(a, b)) * n + (((1) * n + (2))))]"),
        ("#define F4(p) (reinterpret_cast<float4 *>(&(p))[0])\nF4(x[i])", "\n(reinterpret_cast<float4 *>(&(x[i]))[0])"),
        (f"{CHECK}CHECK(cudaMalloc(&p, n * sizeof(float)));", "\n\n\n\ncudaMalloc(&p, n * sizeof(float));"),
        (f"{CHECK}CHECK(f(a,\n  b));\nx", "\n\n\n\nf(a,   b)\n;\nx"),
        ("#define N 3\n#pragma unroll\nN", "\n#pragma unroll\n(3)"),
        ("#define HALF(x) (0.5f * x)\nHALFWAY(3)", "\nHALFWAY(3)"),
    ],
)  # fmt: skip
def test_what_a_macro_stands_for(text: str, wanted: str) -> None:
    assert expanded(text) == wanted
    assert expanded(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "#if N\nint x;\n#endif",
        "#define GLUE(a, b) a##b\nGLUE(x, y)",
        "#define TWICE(call) do { cudaError_t e = (call); if (e != cudaSuccess) e = (call); } while (0)\nTWICE(f(p));",
        "#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) exit(1); p[0] = 1; } while (0)\nCHECK(f(p));",
        "#define CHECK(call) do { other(call); } while (0)\nCHECK(f(p));",
        "#define SWAP(a, b) { float t = a; a = b; b = t; }\nSWAP(x, y)",
        "#define ADD(a, b) (a + b)\nADD(x)",
        "#define ADD(a) (a + 1)\n#define ADD(a) (a + 2)\nADD(x)",
        "#define N 3\n#undef N\nN",
        "#define OPEN(a) (a\nOPEN(x",
    ],
)
def test_what_is_more_is_not_read(text: str) -> None:
    with pytest.raises(NotRead, match="macro or condition"):
        expanded(text)


def test_a_macro_that_nobody_calls_is_no_matter() -> None:
    assert expanded("#define SWAP(a, b) { float t = a; a = b; b = t; }\nint x;") == "\nint x;"


def test_macros_that_name_each_other_end() -> None:
    with pytest.raises(NotRead, match="macro or condition"):
        expanded("#define A(x) (A(x) + A(x))\nA(1)")
