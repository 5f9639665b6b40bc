// A product whose tiles come by copies that are bound to barriers of the block, two in turn.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda_runtime.h>
#include <utility>

namespace cg = cooperative_groups;
constexpr int TILE = 16;

__global__ void product_kernel(const float* a, const float* b, float* c, int n) {
    __shared__ float at[2][TILE][TILE];
    __shared__ float bt[2][TILE][TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar[2];
    auto block = cg::this_thread_block();
    const int ty = threadIdx.y, tx = threadIdx.x;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    if (block.thread_rank() == 0) {
        init(&bar[0], block.size());
        init(&bar[1], block.size());
    }
    block.sync();
    const int tiles = n / TILE;
    cuda::memcpy_async(&at[0][ty][tx], &a[row * n + tx], sizeof(float), bar[0]);
    cuda::memcpy_async(&bt[0][ty][tx], &b[ty * n + col], sizeof(float), bar[0]);
    float sum = 0.0f;
    for (int t = 0; t < tiles; t++) {
        const int now = t % 2, next = 1 - now;
        if (t + 1 < tiles) {
            cuda::memcpy_async(&at[next][ty][tx], &a[row * n + (t + 1) * TILE + tx], sizeof(float), bar[next]);
            cuda::memcpy_async(&bt[next][ty][tx], &b[((t + 1) * TILE + ty) * n + col], sizeof(float), bar[next]);
        }
        bar[now].arrive_and_wait();
        for (int k = 0; k < TILE; k++) sum += at[now][ty][k] * bt[now][k][tx];
        block.sync();
    }
    c[row * n + col] = sum;
}

void product(const float* a, const float* b, float* c, int n) {
    product_kernel<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(a, b, c, n);
}
