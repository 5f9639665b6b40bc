// Bulk copies of Hopper in both directions, by libcu++ and by PTX, and a product whose tiles one warp brings while others multiply.
#include <cuda.h>
#include <cuda/barrier>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;

static CUtensorMap map_of(const void* data, CUtensorMapDataType kind, int item, int rows, int cols, int box_rows, int box_cols,
                          CUtensorMapSwizzle swizzle) {
    CUtensorMap map{};
    cuuint64_t size[2] = {(cuuint64_t)cols, (cuuint64_t)rows};
    cuuint64_t stride[1] = {(cuuint64_t)cols * item};
    cuuint32_t box[2] = {(cuuint32_t)box_cols, (cuuint32_t)box_rows}, step[2] = {1, 1};
    void* found = nullptr;
    cudaDriverEntryPointQueryResult known;
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &known);
    if (found == nullptr || known != cudaDriverEntryPointSuccess) return map;
    reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
        &map, kind, 2, const_cast<void*>(data), size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
}

// ---- a tile comes, is changed where it lies, and goes back
constexpr int TILE = 16;

__global__ void square_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y) {
    __shared__ alignas(128) float tile[TILE][TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier bar;
    const int col = blockIdx.x * TILE, row = blockIdx.y * TILE;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &x, col, row, bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(tile));
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < TILE * TILE; i += blockDim.x) tile[i / TILE][i % TILE] *= tile[i / TILE][i % TILE];
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(&y, col, row, &tile);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}

void square(const float* x, float* y, int rows, int cols) {
    const CUtensorMap from = map_of(x, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, rows, cols, TILE, TILE, CU_TENSOR_MAP_SWIZZLE_NONE);
    const CUtensorMap to = map_of(y, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, rows, cols, TILE, TILE, CU_TENSOR_MAP_SWIZZLE_NONE);
    square_kernel<<<dim3((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE), 64>>>(from, to);
}

// ---- lines, by PTX, in turns of two
constexpr int LINE = 256;

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void bar_init(uint64_t* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count));
}
__device__ void bar_expect(uint64_t* bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}
__device__ void bar_arrive(uint64_t* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ void bar_wait(uint64_t* bar, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "AGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra OVER;\n"
        "bra AGAIN;\n"
        "OVER:\n"
        "}\n" ::"r"(shared_address(bar)), "r"(parity) : "memory");
}

__global__ void add_kernel(const float* a, const float* b, float* c, int lines) {
    extern __shared__ __align__(128) float room[];
    float (*left)[LINE] = reinterpret_cast<float (*)[LINE]>(room), (*right)[LINE] = left + 2;
    __shared__ uint64_t full[2];
    if (threadIdx.x == 0) {
        bar_init(&full[0], 1);
        bar_init(&full[1], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    auto bring = [&](int line, int at) {
        bar_expect(&full[at], 2 * LINE * sizeof(float));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(left[at])),
                     "l"(a + line * LINE), "r"(LINE * 4), "r"(shared_address(&full[at])) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(right[at])),
                     "l"(b + line * LINE), "r"(LINE * 4), "r"(shared_address(&full[at])) : "memory");
    };
    const int first = blockIdx.x, step = gridDim.x;
    if (threadIdx.x == 0 && first < lines) bring(first, 0);
    for (int line = first, turn = 0; line < lines; line += step, turn++) {
        const int at = turn % 2;
        if (threadIdx.x == 0 && line + step < lines) {
            // what is to be brought there may still be read by the copy before
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            bring(line + step, 1 - at);
        }
        bar_wait(&full[at], turn / 2 % 2);
        for (int i = threadIdx.x; i < LINE; i += blockDim.x) left[at][i] += right[at][i];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(c + line * LINE), "r"(shared_address(left[at])),
                         "r"(LINE * 4) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

void add(const float* a, const float* b, float* c, int lines) {
    add_kernel<<<2, 96, 4 * LINE * sizeof(float)>>>(a, b, c, lines);
}

// ---- one warp brings, four multiply
constexpr int BM = 64, BN = 16, BK = 32, STAGES = 3;

struct Stage {
    half a[BM * BK], b[BN * BK];
};
__device__ uint64_t describe(const half* tile) {  // rows of 32 elements in the 64-byte pattern
    return (uint64_t)(shared_address(tile) & 0x3FFFF) >> 4 | 1ull << 16 | (uint64_t)(512 >> 4) << 32 | 2ull << 62;
}
__device__ void bring_tile(half* to, const CUtensorMap* map, int x, int y, uint64_t* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                     shared_address(to)), "l"(map), "r"(shared_address(bar)), "r"(x), "r"(y) : "memory");
}
__device__ void multiply(float (&d)[8], uint64_t a, uint64_t b, int keep) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "r"(keep));
}

__global__ void __launch_bounds__(160) streamed_kernel(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                                                       float* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Stage* stages = reinterpret_cast<Stage*>(memory);
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) bar_init(&full[s], 1), bar_init(&empty[s], 128);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const int row = blockIdx.y * BM, col = blockIdx.x * BN, steps = (k + BK - 1) / BK;
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128)
            for (int i = 0; i < steps; i++) {
                const int s = i % STAGES;
                if (i >= STAGES) bar_wait(&empty[s], (i / STAGES - 1) % 2);
                bar_expect(&full[s], sizeof(Stage));
                bring_tile(stages[s].a, &a_map, i * BK, row, &full[s]);
                bring_tile(stages[s].b, &b_map, i * BK, col, &full[s]);
            }
        return;
    }
    float d[8];
    for (int i = 0; i < steps; i++) {
        const int s = i % STAGES;
        bar_wait(&full[s], i / STAGES % 2);
        const uint64_t a = describe(stages[s].a), b = describe(stages[s].b);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        multiply(d, a, b, i > 0);
        multiply(d, a + (32 >> 4), b + (32 >> 4), 1);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        bar_arrive(&empty[s]);
    }
    const int i = row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, j = col + threadIdx.x % 4 * 2;
    for (int r = 0; r < 8; r++) {
        const int y = i + r / 2 % 2 * 8, x = j + r / 4 * 8 + r % 2;
        if (y < m && x < n) c[y * n + x] = d[r];
    }
}

void streamed(const half* a, const half* b, float* c, int m, int n, int k) {
    const CUtensorMap left = map_of(a, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, m, k, BM, BK, CU_TENSOR_MAP_SWIZZLE_64B);
    const CUtensorMap right = map_of(b, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, n, k, BN, BK, CU_TENSOR_MAP_SWIZZLE_64B);
    cudaFuncSetAttribute(streamed_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(STAGES * sizeof(Stage)));
    streamed_kernel<<<dim3((n + BN - 1) / BN, (m + BM - 1) / BM), 160, STAGES * sizeof(Stage)>>>(left, right, c, m, n, k);
}
