// A product as people write it for Hopper: tensor copies bring the tiles, a warpgroup multiplies them. C = A * B^T.
#include <cuda.h>
#include <cuda/barrier>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

using bf16 = __nv_bfloat16;
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;

constexpr int BM = 64, BN = 32, BK = 64;

__device__ uint64_t field(uint64_t x) { return (x & 0x3FFFF) >> 4; }

// rows of 64 elements in the 128-byte pattern, 8 rows every 1024 bytes
__device__ uint64_t describe(const bf16* tile) {
    const uint64_t address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    return field(address) | field(16) << 16 | field(1024) << 32 | 1ull << 62;
}

template <int Keep> __device__ void multiply(float (&d)[4][4], const bf16* a, const bf16* b) {
    const uint64_t left = describe(a), right = describe(b);
    asm volatile(
        "{\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, %18, %19, %20, %21, %22;\n"
        "}\n"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
          "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3])
        : "l"(left), "l"(right), "n"(Keep), "n"(1), "n"(1), "n"(0), "n"(0));
}

__global__ __launch_bounds__(128) void product_kernel(
    const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* c, int m, int n, int k) {
    __shared__ alignas(1024) bf16 a_tile[BM * BK];
    __shared__ alignas(1024) bf16 b_tile[BN * BK];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full;
    if (threadIdx.x == 0) {
        init(&full, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    float d[4][4] = {};
    for (int at = 0; at < k; at += BK) {
        barrier::arrival_token token;
        if (threadIdx.x == 0) {
            cde::cp_async_bulk_tensor_2d_global_to_shared(a_tile, &a_map, at, row, full);
            cde::cp_async_bulk_tensor_2d_global_to_shared(b_tile, &b_map, at, col, full);
            token = cuda::device::barrier_arrive_tx(full, 1, sizeof(a_tile) + sizeof(b_tile));
        } else {
            token = full.arrive();
        }
        full.wait(std::move(token));
        asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
        multiply<1>(d, a_tile, b_tile);
        multiply<1>(d, a_tile + 16, b_tile + 16);
        multiply<1>(d, a_tile + 32, b_tile + 32);
        multiply<1>(d, a_tile + 48, b_tile + 48);
        asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(0) : "memory");
        __syncthreads();
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int part = 0; part < 4; part++)
        for (int half = 0; half < 2; half++) {
            const int i = row + warp * 16 + half * 8 + lane / 4, j = col + part * 8 + lane % 4 * 2;
            if (i < m && j < n) c[i * n + j] = d[part][half * 2];
            if (i < m && j + 1 < n) c[i * n + j + 1] = d[part][half * 2 + 1];
        }
}

static CUtensorMap map_of(const bf16* data, int rows, int cols, int box_rows) {
    CUtensorMap map;
    const cuuint64_t size[] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[] = {(cuuint64_t)cols * sizeof(bf16)};
    const cuuint32_t box[] = {BK, (cuuint32_t)box_rows}, step[] = {1, 1};
    cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)data, size, stride, box, step,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
}

void product(const bf16* a, const bf16* b, float* c, int m, int n, int k) {
    const CUtensorMap a_map = map_of(a, m, k, BM), b_map = map_of(b, n, k, BN);
    product_kernel<<<dim3((n + BN - 1) / BN, (m + BM - 1) / BM), 128>>>(a_map, b_map, c, m, n, k);
}
