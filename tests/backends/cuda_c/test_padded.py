"""Windows beyond a tensor's edges, by 16 bytes and by elements: the same numbers, for every fill, step and offset."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from tests.backends.cuda_c.raw import run_cuda

H, W = 4, 6
TILE = (3, 5, 16)
SOURCE = """
#define SEPTRAN_THREADS 64
#include "septran_cuda.cuh"
__global__ void __launch_bounds__(64) window(const __half* __restrict__ x, __half* __restrict__ y, const int* __restrict__ p) {
    ST_DYNAMIC_SHARED(smem);
    __half* const s = reinterpret_cast<__half*>(smem);
    const int channels = p[0], pitch = p[1], kept = p[3];
    const st::idx offset[3] = {p[4], p[5], p[6]}, step[3] = {p[7], p[8], p[9]};
    const st::View<__half, 3> to{s, {3, 5, kept}, {120, 24, 1}};
    const st::View<const __half, 3> from{x + p[2], {4, 6, channels}, {6 * pitch, pitch, 1}};
    for (int e = threadIdx.x; e < 360; e += 64) s[e] = __float2half(7.f);
    __syncthreads();
    const float fill = p[10] ? -INFINITY : 0.f;
    if (kept == 16) st::copy_padded<st::Tile<3, 5, 16>, true>(to, from, offset, step, fill);
    else st::copy_padded<st::Tile<3, 5, 16>, false>(to, from, offset, step, fill);
    __syncthreads();
    for (int e = threadIdx.x; e < 240; e += 64) y[e] = s[e / 80 * 120 + e / 16 % 5 * 24 + e % 16];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* args) {
    const int* p = (const int*)args[2];
    for (int n = 0; n < *(const int*)args[3]; n++)
        ST_LAUNCH(window, dim3(1), dim3(64), 3 * 120 * 2, nullptr, (const __half*)args[0], (__half*)args[1] + n * 240, p + n * 11);
}
"""
# channels, elements from one position to the next, elements before the first, channels of the tile that count
LAYOUTS = {
    "whole": (16, 16, 0, 16),
    "further on": (24, 24, 8, 16),
    "odd address": (16, 16, 1, 16),
    "cut channels": (12, 16, 0, 16),
    "odd pitch": (16, 18, 0, 16),
    "cut tile": (16, 16, 0, 13),
}
OFFSETS = ((-1, -2, 0), (2, 3, -8), (0, 0, 3))
STEPS = ((1, 1, 1), (2, 1, 1), (1, 1, 2))


def test_a_window_is_what_it_reads_or_the_fill(tmp_path: Path) -> None:
    cases = list(itertools.product(LAYOUTS.values(), OFFSETS, STEPS, (0, 1)))
    x = np.random.default_rng(5).standard_normal(H * W * 24 + 64).astype(np.float16)
    y = np.full((len(cases), 240), np.nan, np.float16)
    words = np.array([(*layout, *o, *s, fill) for layout, o, s, fill in cases], np.int32)
    got = run_cuda(SOURCE, [x, y, words, np.array([len(cases)], np.int32)], tmp_path)
    assert got.code == 0, got.message or got.stderr
    for ((channels, pitch, shift, kept), offset, step, fill), found in zip(
        cases, got.outputs[1], strict=True
    ):
        want = np.full(TILE, float("-inf") if fill else 0.0, np.float16)
        want[..., kept:] = 7  # as it was
        for i in itertools.product(*map(range, (*TILE[:2], kept))):
            h, w, c = (o + s * n for o, s, n in zip(offset, step, i, strict=True))
            if 0 <= h < H and 0 <= w < W and 0 <= c < channels:
                want[i] = x[shift + (h * W + w) * pitch + c]
        assert np.array_equal(found.reshape(TILE), want), (offset, step, fill)
