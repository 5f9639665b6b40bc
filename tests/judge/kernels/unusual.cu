// CUDA kernels that are right in less usual ways: templates, vectors, functors, double buffers, tables.
#include <cuda_runtime.h>
#include <cfloat>

template <int BLOCK>
__global__ void sum_blocks(const float* __restrict__ x, float* total, int n) {
    __shared__ float warps[BLOCK / 32];
    float mine = 0.0f;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += BLOCK * gridDim.x) mine += __ldg(&x[i]);
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) mine += __shfl_down_sync(0xffffffffu, mine, d);
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        mine = threadIdx.x < BLOCK / 32 ? warps[threadIdx.x] : 0.0f;
        for (int d = 16; d > 0; d >>= 1) mine += __shfl_down_sync(0xffffffffu, mine, d);
        if (threadIdx.x == 0) atomicAdd(total, mine);
    }
}

void sum(const float* x, float* total, int n) {
    cudaMemsetAsync(total, 0, sizeof(float), 0);
    sum_blocks<128><<<3, 128>>>(x, total, n);
}

__global__ void add_vectors(const float* x, const float* y, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int quads = n / 4;
    if (i < quads) {
        const float4 a = reinterpret_cast<const float4*>(x)[i];
        const float4 b = reinterpret_cast<const float4*>(y)[i];
        reinterpret_cast<float4*>(out)[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    if (i < n - 4 * quads) out[4 * quads + i] = x[4 * quads + i] + y[4 * quads + i];
}

void add(const float* x, const float* y, float* out, int n) {
    add_vectors<<<(n / 4 + 127) / 128 + 1, 128>>>(x, y, out, n);
}

template <int TILE>
__global__ void two_buffers(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[2][TILE][TILE + 1];
    __shared__ float bs[2][TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    const int steps = (k + TILE - 1) / TILE;
    float sum = 0.0f;
    as[0][ty][tx] = row < m && tx < k ? a[row * k + tx] : 0.0f;
    bs[0][ty][tx] = ty < k && col < n ? b[ty * n + col] : 0.0f;
    __syncthreads();
    for (int p = 0; p < steps; ++p) {
        const int now = p % 2, next = (p + 1) % 2;
        if (p + 1 < steps) {
            const int ac = (p + 1) * TILE + tx, br = (p + 1) * TILE + ty;
            as[next][ty][tx] = row < m && ac < k ? a[row * k + ac] : 0.0f;
            bs[next][ty][tx] = br < k && col < n ? b[br * n + col] : 0.0f;
        }
        for (int i = 0; i < TILE; ++i) sum += as[now][ty][i] * bs[now][i][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    const dim3 block(8, 8);
    two_buffers<8><<<dim3((n + 7) / 8, (m + 7) / 8), block>>>(a, b, c, m, n, k);
}

struct Positive {
    __device__ float operator()(float v) const { return v > 0.0f ? v : 0.0f; }
};

template <class F>
__global__ void map(const float* x, float* out, int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = f(x[i]);
}

void relu(const float* x, float* out, int n) { map<<<4, 64>>>(x, out, n, Positive()); }

__constant__ float slopes[2] = {0.0f, 1.0f};

__global__ void by_table(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * slopes[x[i] > 0.0f ? 1 : 0];
}

void relu_by_table(const float* x, float* out, int n) { by_table<<<(n + 255) / 256, 256>>>(x, out, n); }

__global__ void online_rows(const float* x, float* out, int rows, int cols) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float best = -FLT_MAX, total = 0.0f;
    for (int j = lane; j < cols; j += 32) {
        const float v = x[row * cols + j], more = fmaxf(best, v);
        total = total * expf(best - more) + expf(v - more);
        best = more;
    }
    for (int d = 16; d > 0; d /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, best, d), sum = __shfl_xor_sync(0xffffffff, total, d);
        const float more = fmaxf(best, other);
        total = total * expf(best - more) + sum * expf(other - more);
        best = more;
    }
    for (int j = lane; j < cols; j += 32) out[row * cols + j] = expf(x[row * cols + j] - best) / total;
}

void softmax(const float* x, float* out, int rows, int cols) {
    online_rows<<<(rows * 32 + 127) / 128, 128>>>(x, out, rows, cols);
}
