// Kernels with cooperative groups and copies that threads wait for.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void transpose_kernel(const float* x, float* out, int m, int n) {
    __shared__ float tile[16][17];
    cg::thread_block block = cg::this_thread_block();
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i < m && j < n) tile[threadIdx.y][threadIdx.x] = x[i * n + j];
    block.sync();
    i = blockIdx.x * 16 + threadIdx.y;
    j = blockIdx.y * 16 + threadIdx.x;
    if (i < n && j < m) out[i * m + j] = tile[threadIdx.x][threadIdx.y];
}

void transpose(const float* x, float* out, int m, int n) {
    transpose_kernel<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(x, out, m, n);
}

__global__ void sum_kernel(const float* x, float* total, int n) {
    __shared__ float part[4];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + block.thread_rank(); i < n; i += gridDim.x * block.size()) mine += x[i];
    mine = cg::reduce(warp, mine, cg::plus<float>());
    if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = mine;
    cg::sync(block);
    if (warp.meta_group_rank() == 0) {
        mine = warp.thread_rank() < 4 ? part[warp.thread_rank()] : 0.0f;
        for (int d = 16; d > 0; d /= 2) mine += warp.shfl_down(mine, d);
        if (warp.thread_rank() == 0) atomicAdd(total, mine);
    }
}

void sum(const float* x, float* total, int n) {
    cudaMemset(total, 0, sizeof(float));
    sum_kernel<<<2, 128>>>(x, total, n);
}

__global__ void warp_kernel(const float* x, float* total, int n) {
    __shared__ float part[64];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int first = threadIdx.x / 32 * 32, lane = warp.thread_rank();
    float mine = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) mine += x[i];
    part[threadIdx.x] = mine;
    warp.sync();
    for (int d = 16; d > 0; d /= 2) {
        if (lane < d) mine += part[first + lane + d];
        warp.sync();
        if (lane < d) part[first + lane] = mine;
        warp.sync();
    }
    if (lane == 0) atomicAdd(total, mine);
}

void sum_in_warps(const float* x, float* total, int n) {
    cudaMemset(total, 0, sizeof(float));
    warp_kernel<<<1, 64>>>(x, total, n);
}

__global__ void turn_kernel(const float* x, float* out, int n) {
    __shared__ float tile[128];
    const int first = blockIdx.x * 128, i = first + threadIdx.x;
    if (i < n) __pipeline_memcpy_async(&tile[threadIdx.x], &x[i], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    const int have = min(128, n - first), from = have - 1 - threadIdx.x;
    if (from >= 0) out[first + from] = fmaxf(tile[from], 0.0f);
}

void relu(const float* x, float* out, int n) { turn_kernel<<<(n + 127) / 128, 128>>>(x, out, n); }

template <int TILE>
__global__ void two_stages(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[2][TILE][TILE];
    __shared__ float bs[2][TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    const int steps = (k + TILE - 1) / TILE;
    float sum = 0.0f;
    for (int p = 0; p <= steps; ++p) {
        if (p < steps) {
            const int ac = p * TILE + tx, br = p * TILE + ty, next = p % 2;
            const int in_a = row < m && ac < k, in_b = br < k && col < n;
            __pipeline_memcpy_async(&as[next][ty][tx], in_a ? &a[row * k + ac] : a, 4, in_a ? 0 : 4);
            __pipeline_memcpy_async(&bs[next][ty][tx], in_b ? &b[br * n + col] : b, 4, in_b ? 0 : 4);
        }
        __pipeline_commit();
        if (p > 0) {
            const int now = (p - 1) % 2;
            __pipeline_wait_prior(1);
            __syncthreads();
            for (int i = 0; i < TILE; ++i) sum += as[now][ty][i] * bs[now][i][tx];
            __syncthreads();
        }
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    two_stages<8><<<dim3((n + 7) / 8, (m + 7) / 8), dim3(8, 8)>>>(a, b, c, m, n, k);
}

__global__ void row_kernel(const float* x, float* out, int cols) {
    extern __shared__ float row[];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, row, x + blockIdx.x * cols, sizeof(float) * cols);
    cg::wait(block);
    float best = row[0], total = 0.0f;
    for (int j = 1; j < cols; ++j) best = fmaxf(best, row[j]);
    for (int j = 0; j < cols; ++j) total += expf(row[j] - best);
    for (int j = threadIdx.x; j < cols; j += blockDim.x) out[blockIdx.x * cols + j] = expf(row[j] - best) / total;
}

void softmax(const float* x, float* out, int rows, int cols) {
    row_kernel<<<rows, 64, cols * sizeof(float)>>>(x, out, cols);
}

__global__ void staged_kernel(const float* x, float* out, int n) {
    __shared__ float stage[2][64];
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    const int chunks = n / 64;
    pipe.producer_acquire();
    cuda::memcpy_async(&stage[0][threadIdx.x], &x[threadIdx.x], sizeof(float), pipe);
    pipe.producer_commit();
    for (int c = 0; c < chunks; ++c) {
        if (c + 1 < chunks) {
            pipe.producer_acquire();
            cuda::memcpy_async(&stage[(c + 1) % 2][threadIdx.x], &x[(c + 1) * 64 + threadIdx.x], sizeof(float), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        __syncthreads();
        out[c * 64 + 63 - threadIdx.x] = fmaxf(stage[c % 2][63 - threadIdx.x], 0.0f);
        __syncthreads();
        pipe.consumer_release();
    }
    for (int i = chunks * 64 + threadIdx.x; i < n; i += 64) out[i] = fmaxf(x[i], 0.0f);
}

void relu_in_stages(const float* x, float* out, int n) { staged_kernel<<<1, 64>>>(x, out, n); }
