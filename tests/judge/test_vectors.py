"""C++ files that load and store vectors where none may lie, which the build that is judged would not mind."""

from __future__ import annotations

import platform

import pytest

from septran.toolchain.compilers import host_features
from tests.judge.test_tutorials import judged

HERE = pytest.mark.skipif(
    platform.machine() != "x86_64" or "avx2" not in host_features(), reason="needs AVX2"
)
ROWS = """#include <immintrin.h>
void scale(const float* a, float* out, int m, int n) {
  #pragma omp parallel for
  for (int i = 0; i < m; i++) {
    int j = 0;
    for (; j + 8 <= n; j += 8) {
      __m256 x = _mm256_loadu_ps(a + i * n + j);
      x = _mm256_fmadd_ps(x, _mm256_set1_ps(2.0f), x);
      _mm256_storeu_ps(out + i * n + j, x);
    }
    for (; j < n; j++) out[i * n + j] = a[i * n + j] * 3.0f;
  }
}
"""
WANTED = (
    "import torch\ndef reference(a): return a * 3\ndef get_inputs(): return [torch.randn(9, {n})]\n"
)


@HERE
@pytest.mark.parametrize(
    ("old", "new", "n", "code", "word"),
    [
        ("loadu", "load", 75, 1, "rows.cpp:7: __m256 is loaded from an address that is no multiple of 32"),
        pytest.param("loadu", "load", 80, 0, "accurate", marks=pytest.mark.wider),
    ],
)  # fmt: skip
def test_an_aligned_load_of_rows_that_are_not_is_found_with_its_line(old, new, n, code, word, tmp_path, capsys):  # fmt: skip
    """With AVX it becomes an operand of the multiplication, which any address does; another compiler may keep the load."""
    text = ROWS.replace(old, new).replace(
        "__m256 x = _mm256_load_ps(a + i * n + j);\n      x = _mm256_fmadd_ps(x, _mm256_set1_ps(2.0f), x);",
        "__m256 x = _mm256_mul_ps(_mm256_set1_ps(3.0f), _mm256_load_ps(a + i * n + j));\n",
    )
    more = ("--number", "m=9", "--number", f"n={n}")
    assert judged(tmp_path, text, WANTED.format(n=n), "rows.cpp", *more) == code
    assert word in capsys.readouterr().out
