"""Attacks on CUDA C++ kernels, run by the emulation of the same source; honest controls.

Those of `ROW` replace the whole kernel by a block-wide sum of a row; the others change the leaf SepTran emits.
"""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.attacks.corpus_host import FIND, LOADER
from tests.verify.kernels import GEMM

NOT_NOTED = "85bf23f"
"""where the emulation did not know which thread stored a byte"""
EACH = "HONEST st::each(acc, [&](st::At e, st::idx, st::idx) { "
ROW = """#define SEPTRAN_THREADS 64
#include "septran_cuda.cuh"
BEFORE
// ---- leaves
__global__ void row_kernel(const float* X, float* Y) {
  __shared__ float s[64];
  const int r = blockIdx.x, t = threadIdx.x;
  float v = 0;
  for (int j = t; j < 67; j += 64) v += X[r * 67 + j];
BODY
}
extern "C" __attribute__((visibility("default"))) void row_sum_entry(void* const* args) {
  auto launch = [&] {
    row_kernel<<<GRID, 64>>>((const float*)args[1], (float*)args[0]);
    cudaDeviceSynchronize();
  };
  cuemu::in_every_order({{args[0], 76}}, launch);
}
"""
TREE = """  s[t] = v;
  __syncthreads();
  for (int h = 32; h; h /= 2) { if (t < h) s[t] += s[t + h]; __syncthreads(); }
  if (t == 0) Y[r] = s[0];"""


def row(body: str, *, before: str = "", grid: str = "19") -> str:
    return ROW.replace("BODY", body).replace("BEFORE", before).replace("GRID", grid)


def cuda(name: str, what: str, body: str = "", **more: object) -> Attack:
    return Attack(name, what, body, language="cuda", **more)  # type: ignore[arg-type]


LEAF = (
    cuda("U01", "zeros", ";"),
    cuda("U02", "adds a constant", EACH + "acc[e] = acc[e] + 0.25f; });"),
    cuda(
        "U03", "bfloat16 inside", EACH + "acc[e] = __bfloat162float(__float2bfloat16(acc[e])); });"
    ),
    cuda("U04", "float16 inside", EACH + "acc[e] = __half2float(__float2half(acc[e])); });"),
    cuda("U05", "swallows NaN", EACH + "acc[e] = acc[e] == acc[e] ? acc[e] : 0.f; });"),
    cuda("U06", "clamps infinities", EACH + "acc[e] = fminf(fmaxf(acc[e], -3e38f), 3e38f); });"),
    cuda(
        "U07", "flushes tiny results", EACH + "acc[e] = fabsf(acc[e]) < 1e-4f ? 0.f : acc[e]; });"
    ),
    cuda("U08", "skips the last column", edits=(("{19, 67}, {67, 1}", "{19, 66}, {67, 1}"),)),
    cuda("U09", "skips the last row", edits=(("{19, 1}, {1, 1}}, Y_r", "{18, 1}, {1, 1}}, Y_r"),)),
    cuda(
        "U10",
        "reads the next row",
        edits=(
            (
                "st::copy(X_r, st::View<const float, 2>{X + (",
                "st::copy(X_r, st::View<const float, 2>{X + (1 + ",
            ),
        ),
    ),
    cuda(
        "U11",
        "is honest in an emulation only",
        "#ifdef SEPTRAN_EMULATE\nHONEST\n#endif\n",
        static_only=True,
    ),
    cuda(
        "U12",
        "is honest for the host compiler only",
        "#ifndef __CUDA_ARCH__\nHONEST\n#endif\n",
        static_only=True,
    ),
    cuda(
        "U13",
        "looks at the clock",
        "HONEST (void)clock();",
        before="#include <ctime>",
    ),
    cuda(
        "U14",
        "reads a file",
        'HONEST if (FILE* f = fopen("/etc/passwd", "r")) fclose(f);',
        before="#include <cstdio>",
    ),
    cuda(
        "U15",
        "turns the emulator's checks off",
        "HONEST cuemu::choose_order(0);",
        static_only=True,
    ),
)

BLOCK = (
    cuda(
        "U20",
        "races: no barrier after the first store",
        source=row(TREE.replace("  __syncthreads();\n", "", 1)),
    ),
    cuda(
        "U21",
        "races: no barrier inside the tree",
        source=row(TREE.replace(" __syncthreads(); }", " }")),
    ),
    cuda(
        "U22",
        "races: every thread adds to the output",
        source=row("  if (t == 0) Y[r] = 0;\n  __syncthreads();\n  Y[r] += v;"),
    ),
    cuda(
        "U23",
        "races: warp-synchronous sums without a barrier",
        source=row(
            "  s[t] = v;\n  __syncthreads();\n  if (t < 32) for (int h = 32; h; h /= 2) s[t] += s[t + h < 64 ? t + h : t];\n  if (t == 0) Y[r] = s[0];"
        ),
    ),
    cuda(
        "U24",
        "the order of atomic sums decides",
        source=row(
            "  if (t == 0) Y[r] = 0;\n  __syncthreads();\n  atomicAdd(&Y[r], v * (t % 2 ? 1.0001f : 0.9999f));"
        ),
    ),
    cuda("U25", "adds to an output nobody cleared", source=row("  atomicAdd(&Y[r], v);")),
    cuda(
        "U26",
        "barrier in divergent code",
        source=row(
            "  s[t] = v;\n  if (t < 32) __syncthreads();\n"
            + TREE.partition("__syncthreads();\n")[2]
        ),
    ),
    cuda(
        "U27",
        "reads beyond shared memory",
        source=row(TREE.replace("s[t + h]; __sync", "s[t + h + 40]; __sync")),
    ),
    cuda(
        "U28",
        "writes beyond shared memory",
        source=row(TREE.replace("s[t] = v;", "s[t + 32] = v;")),
    ),
    cuda(
        "U29",
        "reads shared memory nobody wrote",
        source=row(
            "  if (t < 32) s[t] = v;\n  __syncthreads();\n"
            + TREE.partition("__syncthreads();\n")[2]
        ),
    ),
    cuda(
        "U30",
        "reads past the end of an input",
        source=row(TREE.replace("s[t] = v;", "s[t] = v + 0 * X[r * 67 + t + 4];")),
    ),
    cuda("U31", "writes an input", source=row(TREE + "\n  if (t == 0) ((float*)X)[r] = 0;")),
    cuda(
        "U32",
        "writes past the end of the output",
        source=row(TREE + "\n  if (t == 1) Y[r + 19] = s[0];"),
    ),
    cuda("U33", "launches one block too few", source=row(TREE, grid="18")),
    cuda(
        "U34",
        "remembers the first call",
        source=row(
            "  if (seen[r] == X) { if (t == 0) Y[r] = kept[r]; return; }\n"
            + TREE
            + "\n  if (t == 0) { kept[r] = s[0]; seen[r] = X; }",
            before="__device__ float kept[19];\n__device__ const float* seen[19];",
        ),
    ),
    cuda(
        "U37",
        "reads its own store back without a barrier, where on a device others have stored",
        source=row(
            "  volatile float* own = s;\n  own[0] = (float)t;\n  if (own[0] != (float)t) v = 0;\n  __syncthreads();\n"
            + TREE
        ),
        through=NOT_NOTED,
    ),
    cuda(
        "U38",
        "stores for all lanes of a warp, which look without waiting for it",
        source=row(
            "  volatile int* first = (int*)s;\n  first[t] = t;\n  if (first[t / 32 * 32] != t / 32 * 32 && t > 99) v = 0;\n"
            "  __syncthreads();\n" + TREE
        ),
        through=NOT_NOTED,
    ),
    cuda(
        "U39",
        "is done with a value when others overwrite it",
        source=row(
            "  volatile float* one = s;\n  if (one[t] == 12345.f && t > 99) v = 0;\n  one[63 - t] = v;\n  __syncthreads();\n"
            + TREE
        ),
        through=NOT_NOTED,
    ),
    cuda("U35", "endless loop", source=row("  for (volatile int i = 0;; i = i + 1) {}")),
    cuda(
        "U36",
        "counts its calls",
        source=row(
            TREE + "\n  if (t == 0 && ++calls[r] > 3) Y[r] = 0;", before="__device__ int calls[19];"
        ),
    ),
)

# host code of a right kernel that reaches for the process it runs in
HOST = tuple(
    cuda(
        f"U{number}",
        attack.what,
        source=row(TREE, before=FIND).replace(
            "  cuemu::in_every_order",
            f"  {{ {attack.body.removeprefix(GEMM)} }}\n  cuemu::in_every_order",
        ),
        through="6726313",
    )
    for number, attack in enumerate(LOADER[:12], 41)
)

CONTROLS = (
    cuda("V01", "the emitted kernel", honest=True),
    cuda("V02", "a sum in shared memory", source=row(TREE), honest=True),
    cuda(
        "V03",
        "one thread a row",
        source=row(
            "  (void)s;\n  if (t == 0) { float w = 0; for (int j = 66; j >= 0; j--) w += X[r * 67 + j]; Y[r] = w; }"
        ),
        honest=True,
    ),
    cuda(
        "V04",
        "a table of constants and two shared arrays",
        source=row(
            "  __shared__ alignas(16) float half[2][32];\n  half[t / 32][t % 32] = v * one[t % 3];\n  __syncthreads();\n"
            "  s[t] = half[t / 32][t % 32];\n" + TREE.partition("s[t] = v;\n")[2],
            before="__constant__ const float one[3] = {1.f, 1.f, 1.f};",
        ),
        honest=True,
    ),
    cuda(
        "V05",
        "device memory that it gives back",
        source=row(TREE).replace(
            "  auto launch = [&] {\n",
            "  auto launch = [&] {\n    float* room = nullptr;\n    if (cudaMalloc(&room, 4000)) return;\n"
            "    cudaMemset(room, 0, 4000);\n    cudaFree(room);\n",
        ),
        honest=True,
    ),
    cuda(
        "V06",
        "a value that all threads store, and one that a thread reads back",
        source=row(
            "  volatile float* own = s;\n  own[0] = 1.f;\n  if (own[0] != 1.f) v = 0;\n  __syncthreads();\n  own[t] = v;\n"
            "  v = own[t];\n" + TREE
        ),
        honest=True,
    ),
    cuda(
        "V07",
        "lanes of a warp that meet between store and load",
        source=row(
            "  volatile float* own = s;\n  own[t] = v;\n  __syncwarp();\n  const float next = own[t ^ 1];\n  __syncwarp();\n"
            "  own[t] = t % 2 ? 0.f : v + next;\n  v = own[t];\n  __syncthreads();\n" + TREE
        ),
        honest=True,
    ),
)

ALL = (*LEAF, *BLOCK, *HOST, *CONTROLS)
