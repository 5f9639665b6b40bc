"""Comparisons of places in the grid, sizes and numbers are decided by no input, and the card does not say that none turned them."""

from __future__ import annotations

import pytest

from septran.backends.judged.c_places import lines_of_places
from septran.cli.main import main

TILES = """__global__ void scale(const float* x, float* y, int n, int tiles) {
    __shared__ float part[64];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int i = tile * 64 + threadIdx.x;
        if (blockIdx.x < tiles) part[threadIdx.x] = i < n ? x[i] : 0.0f;
        __syncthreads();
        if (i < n) y[i] = 2.0f * part[threadIdx.x];
        __syncthreads();
    }
}
extern "C" void launch(const float* x, float* y, int n) {
    int tiles = (n + 63) / 64;
    scale<<<tiles, 64>>>(x, y, n, tiles);
}
"""
REFERENCE = (
    "import torch\ndef reference(x): return 2 * x\ndef get_inputs(): return [torch.randn(101)]\n"
)
DATA = """__global__ void kernel(const float* x, float* y, const int* next, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    int big = (int)x[0];
    if (big > 3) y[0] = 1;
    int j = 0;
    j = next[j];
    if (j < n) y[1] = 2;
    if (i < n && x[i] > 0) y[i] = 3;
    int k = n;
    change(&k);
    if (k < n) y[2] = 1;
    bool flag = x[3] > 2;
    if (flag && i < n) y[3] = 1;
    if (x[i] >
        3 && i < n) y[4] = 1;
    if (handed(next[0], n)) y[5] = 1;
}
__device__ int handed(int a, int b) { return a < b; }
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "", False),
        # planted: a branch that no drawn input takes is still told of
        ("i < n) y[i] =", "i < n && x[i] != 0.37251f) y[i] =", False),
        ("i < n) y[i] =", "i < n && x[i] * x[i] + 1.0f > 0.0f) y[i] =", True),
    ],
    ids=["places", "met", "data"],
)
def test_the_card_names_lines_that_data_decide_alone(old, new, told, tmp_path, capsys):
    file, wanted = tmp_path / "tiles.cu", tmp_path / "wanted.py"
    file.write_text(TILES.replace(old, new) if old else TILES)
    wanted.write_text(REFERENCE)
    main(["judge", str(file), "--reference", str(wanted)])
    assert ("no input turned those of line 7" in capsys.readouterr().out) is told


def test_places_and_sizes_are_told_from_what_data_decide():
    assert lines_of_places(TILES) == {3, 5, 7}
    assert lines_of_places(DATA) == frozenset()
    assert lines_of_places(DATA.replace("if (big > 3)", "if (i + 1 < n)")) == {4}
    by_reference = TILES + "__device__ void change(int& i) { i = 0; }\n"
    assert lines_of_places(by_reference) == frozenset()
