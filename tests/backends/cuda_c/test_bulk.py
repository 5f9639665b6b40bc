"""Tensor maps, bulk copies and wgmma as files of others say them: against layouts that numpy makes, and mistakes that are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.cuda.prepare import unsupported
from septran.backends.cuda.ptx import translated, untranslated
from tests.backends.cuda_c.raw import Ran, run_cuda

SWIZZLES = ("NONE", "32B", "64B", "128B")
FIRST = 0x400
"""the address of a block's first byte of dynamic shared memory"""


def swizzled(address: int, kind: int) -> int:
    """The place of a byte in the pattern of 2^kind units of 16 bytes: its unit is xor-ed with its line of 128 bytes."""
    unit, line = address // 16 % 8, address // 128 % 8
    return address - unit * 16 + (unit ^ line % (1 << kind) if kind < 3 else unit ^ line) * 16


def test_the_pattern_is_that_of_the_documents() -> None:
    # PTX ISA, "Swizzling modes": the second line of the 128-byte pattern begins with units 1 0 3 2 5 4 7 6
    assert [swizzled(128 + 16 * u, 3) // 16 % 8 for u in range(8)] == [1, 0, 3, 2, 5, 4, 7, 6]
    assert [swizzled(16 * u, 3) // 16 for u in range(8)] == list(range(8))


# ---- copies of boxes
LOAD = """
#include <cuda.h>
__global__ void kernel(const __grid_constant__ CUtensorMap map, unsigned char* out) {
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ uint64_t bar;
    const unsigned at = (unsigned)__cvta_generic_to_shared(room), b = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(@BYTES@));
        asm volatile("cp.async.bulk.tensor.@RANK@d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {@COORDS@}], [%2];"
                     :: "r"(at), "l"(&map), "r"(b)@PLACES@ : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra L; }" :: "r"(b));
    for (int i = threadIdx.x; i < @BYTES@; i += blockDim.x) out[i] = room[i];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* a) {
    CUtensorMap map;
    const cuuint64_t size[] = {@SIZES@}, stride[] = {@STRIDES@ 0};
    const cuuint32_t box[] = {@BOX@}, step[] = {1, 1, 1, 1, 1};
    CUresult told = cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_@KIND@, @RANK@, a[0], size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_@MODE@, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_@FILL@);
    if (told) cuemu::fail("launch", "refused");
    kernel<<<1, 33, @BYTES@>>>(map, (unsigned char*)a[1]);
}
"""


def loaded(
    x: np.ndarray, box: tuple[int, ...], at: tuple[int, ...], folder: Path, *, mode: int = 0,
    kind: str = "UINT8", fill: str = "NONE",
) -> Ran:  # fmt: skip
    """What shared memory holds after a copy of a box; sizes, boxes and places innermost last, as numpy has them."""
    size, rank = int(np.prod(box)) * x.itemsize, x.ndim
    words = {
        "BYTES": str(size),
        "RANK": str(rank),
        "COORDS": ", ".join(f"%{3 + d}" for d in range(rank)),
        "PLACES": "".join(f', "r"({one})' for one in reversed(at)),
        "SIZES": ", ".join(map(str, reversed(x.shape))),
        "STRIDES": "".join(f"{s}, " for s in reversed(x.strides[:-1])),
        "BOX": ", ".join(map(str, reversed(box))),
        "KIND": kind,
        "MODE": SWIZZLES[mode],
        "FILL": fill,
    }
    text = LOAD
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    assert untranslated(text) == ()
    return run_cuda(translated(text), [x, np.zeros(size, np.uint8)], folder)


def box_of(x: np.ndarray, box: tuple[int, ...], at: tuple[int, ...], fill: object) -> np.ndarray:
    """The box of a tensor, `fill` where it has nothing."""
    wide = np.full([n + 2 * b for n, b in zip(x.shape, box, strict=True)], fill, x.dtype)
    wide[tuple(slice(b, b + n) for n, b in zip(x.shape, box, strict=True))] = x
    return wide[tuple(slice(p + b, p + 2 * b) for p, b in zip(at, box, strict=True))]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("shape", "box", "at", "dtype", "kind"),
    [
        ((64,), (32,), (16,), np.float32, "FLOAT32"),
        ((64,), (32,), (48,), np.float32, "FLOAT32"),
        ((20, 48), (8, 16), (-3, 40), np.uint8, "UINT8"),
        ((20, 24), (8, 8), (15, -4), np.int64, "INT64"),
        ((5, 6, 16), (2, 3, 8), (4, -1, 12), np.float16, "FLOAT16"),
        ((3, 4, 5, 8), (2, 1, 2, 8), (-1, 3, 4, 0), np.uint16, "UINT16"),
        ((2, 3, 2, 3, 4), (1, 2, 1, 2, 4), (1, 2, 0, -1, 2), np.int32, "INT32"),
    ],
)
def test_a_box_is_copied_and_what_is_outside_is_zero(
    shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], dtype: type, kind: str, tmp_path: Path
) -> None:  # fmt: skip
    x = (np.arange(np.prod(shape)) % 250 + 1).astype(dtype).reshape(shape)
    ran = loaded(x, box, at, tmp_path, kind=kind)
    assert ran.code == 0, ran.message
    found = ran.outputs[1].view(dtype).reshape(box)
    assert (found == box_of(x, box, at, 0)).all()


def test_what_is_outside_may_be_nan(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    ran = loaded(x, (4, 4), (6, 6), tmp_path, kind="FLOAT32", fill="NAN_REQUEST_ZERO_FMA")
    found = ran.outputs[1].view(np.float32).reshape(4, 4)
    assert (found[:2, :2] == x[6:, 6:]).all() and np.isnan(found[2:]).all() and np.isnan(found[:2, 2:]).all()  # fmt: skip


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_pattern_places_units_of_16_bytes(mode: int, tmp_path: Path) -> None:
    width = 8 << mode  # elements of 2 bytes in a line of the pattern
    x = np.arange(16 * 128, dtype=np.uint16).reshape(16, 128)
    ran = loaded(x, (16, width), (0, 32), tmp_path, kind="UINT16", mode=mode)
    assert ran.code == 0, ran.message
    plain = x[:, 32 : 32 + width].tobytes()
    for byte in range(0, len(plain), 2):
        to = swizzled(FIRST + byte, mode) - FIRST
        assert bytes(ran.outputs[1][to : to + 2]) == plain[byte : byte + 2], byte


@pytest.mark.parametrize(
    ("shape", "box", "kind", "mode"),
    [
        ((8, 12), (4, 12), "UINT8", 0),  # lines of 12 bytes
        ((8, 24), (4, 16), "UINT8", 0),  # a stride of 24 bytes
        ((8, 64), (4, 64), "UINT8", 1),  # a line of 64 bytes in a pattern of 32
        ((512, 16), (257, 16), "UINT8", 0),  # a box of 257
    ],
)
def test_what_the_driver_refuses_is_refused(
    shape: tuple[int, ...], box: tuple[int, ...], kind: str, mode: int, tmp_path: Path
) -> None:
    ran = loaded(np.zeros(shape, np.uint8), box, (0, 0), tmp_path, kind=kind, mode=mode)
    assert ran.code != 0 and ran.message == "refused"


# ---- operands of wgmma
PRODUCT = """
#include <cuda.h>
#include <cuda_fp16.h>
__global__ void kernel(const uint4* a, const uint4* b, float* c, const half* plain, uint64_t da, uint64_t db) {
    extern __shared__ __align__(1024) uint4 room[];
    for (int i = threadIdx.x; i < 512; i += 128) room[i] = a[i], room[512 + i] = b[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const uint64_t at = (__cvta_generic_to_shared(room) & 0x3FFFF) >> 4;
    float d[8];
    for (int i = 0; i < 8; i++) d[i] = 1000.f;
    uint32_t held[4];
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    for (int q = 0; q < 4; q++) held[q] = *(const uint32_t*)(plain + (row + q % 2 * 8) * 16 + lane % 4 * 2 + q / 2 * 8);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    INSTRUCTION
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int r = 0; r < 8; r++) c[(row + r / 2 % 2 * 8) * 16 + lane % 4 * 2 + r / 4 * 8 + r % 2] = d[r];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* a) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 16384);
    kernel<<<1, 128, 16384>>>((const uint4*)a[0], (const uint4*)a[1], (float*)a[2], (const half*)a[3], DAull, DBull);
}
"""
SUMS = ", ".join(f"%{i}" for i in range(8))
WRITTEN = ", ".join(f'"+f"(d[{i}])' for i in range(8))
SAID = (
    'asm volatile("{ .reg .pred p; setp.ne.b32 p, KEEP, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {SUMS}, LEFT, p, SIGN, TURNED; }"'
    ' : WRITTEN : "l"(db + at + 512), GIVEN);'
)


def image(x: np.ndarray, kind: int, mn: bool) -> tuple[np.ndarray, int]:
    """Return 8 KiB of shared memory that hold an operand [rows, 16] in the canonical layout of a pattern, and its descriptor without an address.

    As the PTX ISA has it under "Strides": core matrices of 8 lines of 16 bytes; in a pattern lines are 2^kind units long.
    """
    rows, depth = x.shape
    room, wide = np.zeros(4096, np.float16), 8 << kind
    stride, lead = (256, 4096) if kind == 0 else (1024, 2048 if mn else 16)
    for r in range(rows):
        for k in range(depth):
            if mn:
                outer, inner = divmod(r, wide)
                at = inner * 2 + k % 8 * wide * 2 + outer * (lead if kind else stride) + k // 8 * (stride if kind else lead)  # fmt: skip
            else:
                at = (
                    r % 8 * wide * 2
                    + r // 8 * stride
                    + (k * 2 if kind else k % 8 * 2 + k // 8 * lead)
                )
            room[swizzled(at, kind) // 2] = x[r, k]
    mode = 4 - kind if kind else 0
    return room, (lead >> 4) << 16 | (stride >> 4) << 32 | mode << 62


def product(
    folder: Path, *, a_kind: int = 3, b_kind: int = 3, mn_a: bool = False, mn_b: bool = False,
    keep: int = 0, sign: int = 1, held: bool = False, change: tuple[str, str] = ("", ""),
) -> tuple[Ran, np.ndarray]:  # fmt: skip
    """Run one instruction; return what it left, and what numpy says."""
    rng = np.random.default_rng(a_kind * 4 + b_kind)
    a = rng.integers(-4, 5, (64, 16)).astype(np.float16)
    b = rng.integers(-4, 5, (16, 16)).astype(np.float16)
    left, da = image(a, a_kind, mn_a)
    right, db = image(b, b_kind, mn_b)
    given = ", ".join(f'"r"(held[{q}])' for q in range(4)) if held else '"l"(da + at)'
    operand = "{%9, %10, %11, %12}, %8" if held else "%9, %8"
    last = 13 if held else 10
    turned = f"{int(mn_b)}" if held else f"{int(mn_a)}, {int(mn_b)}"
    said = SAID.replace("SUMS", SUMS).replace("WRITTEN", WRITTEN).replace("LEFT", operand)
    said = said.replace("KEEP", f"%{last}").replace("SIGN", f"{sign}, 1").replace("TURNED", turned)
    said = said.replace("GIVEN", f'{given}, "r"({keep})')
    text = PRODUCT.replace("INSTRUCTION", said).replace("DAull", f"{da}ull").replace("DBull", f"{db}ull")  # fmt: skip
    text = text.replace(*change)
    assert untranslated(text) == ()
    ran = run_cuda(translated(text), [left, right, np.zeros((64, 16), np.float32), a], folder)
    exact = sign * (a.astype(np.float32) @ b.astype(np.float32).T) + 1000 * keep
    return ran, exact


@pytest.mark.parametrize("mn", [False, True])
@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_operands_lie_as_their_descriptors_say(kind: int, mn: bool, tmp_path: Path) -> None:
    # of the second 16 rows alone: a pattern of 128 bytes has 64 of them side by side
    ran, exact = product(tmp_path, a_kind=kind, b_kind=min(kind, 1) if mn else kind, mn_a=mn, mn_b=mn)  # fmt: skip
    assert ran.code == 0, ran.message
    assert (ran.outputs[2] == exact).all()


@pytest.mark.parametrize(("keep", "sign", "held"), [(1, 1, False), (0, -1, False), (1, -1, True), (0, 1, True)])  # fmt: skip
def test_sums_are_kept_signs_turned_and_registers_taken(
    keep: int, sign: int, held: bool, tmp_path: Path
) -> None:
    ran, exact = product(tmp_path, keep=keep, sign=sign, held=held)
    assert ran.code == 0, ran.message
    assert (ran.outputs[2] == exact).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', "", "without wgmma.fence"),
        ('asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");', "", "before wgmma has been waited for"),
        ("<<<1, 128,", "<<<1, 96,", "no whole warpgroup"),
        ('"l"(db + at + 512)', '"l"(db + at + threadIdx.x / 32)', "different descriptors"),
        ('"l"(db + at + 512)', '"l"(db + at + 1020)', "where the block has no shared memory"),
        ("float d[8];", "float d[8]; if (threadIdx.x >= 96) return;", "not issued by all warps"),
        ('asm volatile("wgmma.commit', 'room[threadIdx.x] = {}; asm volatile("wgmma.commit', "changed before it was waited for"),
    ],
)  # fmt: skip
def test_mistakes_with_products_are_told(old: str, new: str, said: str, tmp_path: Path) -> None:
    ran, _ = product(tmp_path, change=(old, new))
    assert ran.code != 0 and said in ran.message, ran.message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0}, %1, %2, p, 1, 1;", "m64n8k8"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], m;", "multicast"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 16;", "cp.reduce"),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1}], [%2];", "1 coordinates of 2 dims"),
    ],
)  # fmt: skip
def test_what_there_is_no_model_of_is_named(text: str, why: str) -> None:
    operands = ", ".join(f'"l"(x{i})' for i in range(5))
    (told,) = untranslated(f'asm volatile("{text}" :: {operands});')
    assert why in told


# ---- the same by cuda::ptx
BY_NAME = """
#include <cuda/ptx>
namespace p = cuda::ptx;
__global__ void kernel(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, float* sums) {
    __shared__ alignas(128) float tile[8][8];
    __shared__ alignas(16) float line[8];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        p::mbarrier_init(&bar, 1);
        p::fence_mbarrier_init(p::sem_release, p::scope_cluster);
    }
    __syncthreads();
    const int32_t at[2] = {(int32_t)blockIdx.x * 8, 0};
    if (threadIdx.x < 32 && p::elect_sync(~0u)) {
        p::cp_async_bulk_tensor(p::space_cluster, p::space_global, tile, &from, at, &bar);
        p::mbarrier_arrive_expect_tx(p::sem_release, p::scope_cta, p::space_shared, &bar, sizeof(tile));
    }
    while (!p::mbarrier_try_wait_parity(&bar, 0)) {}
    for (int i = threadIdx.x; i < 64; i += blockDim.x) tile[i / 8][i % 8] += 1;
    __syncthreads();
    if (threadIdx.x < 8) {
        line[threadIdx.x] = 0;
        for (int i = 0; i < 8; i++) line[threadIdx.x] += tile[i][threadIdx.x];
    }
    p::fence_proxy_async(p::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        p::cp_async_bulk_tensor(p::space_global, p::space_shared, &to, at, tile);
        p::cp_async_bulk(p::space_global, p::space_shared, sums + blockIdx.x * 8, line, sizeof(line));
        p::cp_async_bulk_commit_group();
        p::cp_async_bulk_wait_group_read(p::n32_t<0>());
    }
}
extern "C" __attribute__((visibility("default"))) void run(void* const* a) {
    CUtensorMap map[2];
    const cuuint64_t size[] = {20, 8}, stride[] = {80};
    const cuuint32_t box[] = {8, 8}, step[] = {1, 1};
    for (int i = 0; i < 2; i++)
        cuTensorMapEncodeTiled(&map[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, a[i], size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
            CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    kernel<<<3, 64>>>(map[0], map[1], (float*)a[2]);
}
"""


def test_the_names_of_cuda_ptx_do_what_the_instructions_do(tmp_path: Path) -> None:
    assert unsupported(BY_NAME) == ()
    x = np.arange(160, dtype=np.float32).reshape(8, 20)
    ran = run_cuda(BY_NAME, [x, np.zeros_like(x), np.zeros(24, np.float32)], tmp_path)
    assert ran.code == 0, ran.message
    assert (ran.outputs[1] == x + 1).all()  # clipped at the edge, both ways
    wide = np.pad(x, ((0, 0), (0, 4))) + 1
    assert (ran.outputs[2] == wide.sum(0)).all()
