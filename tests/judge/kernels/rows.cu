// Row kernels: a softmax with warp shuffles, a sum over everything with atomics, an addition.
#include <cuda_runtime.h>
#include <cfloat>

__inline__ __device__ float warp_max(float v) {
    for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, d));
    return v;
}

__inline__ __device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
    return v;
}

__global__ void softmax_kernel(const float* x, float* out, int cols) {
    __shared__ float maxima[8];
    __shared__ float sums[8];
    const float* row = x + (size_t)blockIdx.x * cols;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float best = -FLT_MAX;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) best = fmaxf(best, row[j]);
    best = warp_max(best);
    if (lane == 0) maxima[warp] = best;
    __syncthreads();
    best = warp_max(lane < 8 ? maxima[lane] : -FLT_MAX);
    float total = 0.0f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) total += expf(row[j] - best);
    total = warp_sum(total);
    if (lane == 0) sums[warp] = total;
    __syncthreads();
    total = warp_sum(lane < 8 ? sums[lane] : 0.0f);
    for (int j = threadIdx.x; j < cols; j += blockDim.x) out[(size_t)blockIdx.x * cols + j] = expf(row[j] - best) / total;
}

void softmax(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
    softmax_kernel<<<rows, 256, 0, stream>>>(x, out, cols);
}

__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}

void add(const float* x, const float* y, float* out, int n) {
    add_kernel<<<(n + 255) / 256, 256>>>(x, y, out, n);
}

__global__ void sum_kernel(const float* x, float* total, int n) {
    extern __shared__ float part[];
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, part[0]);
}

void sum(const float* x, float* total, int n) {
    cudaMemset(total, 0, sizeof(float));
    sum_kernel<<<4, 128, 128 * sizeof(float)>>>(x, total, n);
}
