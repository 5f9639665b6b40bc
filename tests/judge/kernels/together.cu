// Lanes that run together make one atomic operation for all of them; a function that any group may call.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__device__ int place(int* counter) {
    auto active = cg::coalesced_threads();
    int first;
    if (active.thread_rank() == 0) first = atomicAdd(counter, active.size());
    first = active.shfl(first, 0);
    return first + active.thread_rank();
}

// rows' sums of what is above 0, by compaction
__global__ void filter_kernel(const float* x, float* kept, int* count, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f) kept[place(count)] = x[i];
}

__global__ void sum_kernel(const float* kept, const int* count, float* out) {
    float mine = 0.0f;
    for (int i = threadIdx.x; i < *count; i += blockDim.x) mine += kept[i];
    for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(0xffffffff, mine, d);
    if (threadIdx.x == 0) *out = mine;
}

void positives(const float* x, float* out, int n) {
    float* kept;
    int* count;
    cudaMalloc(&kept, n * sizeof(float));
    cudaMalloc(&count, sizeof(int));
    cudaMemset(count, 0, sizeof(int));
    filter_kernel<<<(n + 127) / 128, 128>>>(x, kept, count, n);
    sum_kernel<<<1, 32>>>(kept, count, out);
    cudaFree(kept);
    cudaFree(count);
}

__device__ float reduced(cg::thread_group group, float* temp, float value) {
    const int rank = group.thread_rank();
    for (int i = group.size() / 2; i > 0; i /= 2) {
        temp[rank] = value;
        group.sync();
        if (rank < i) value += temp[rank + i];
        group.sync();
    }
    return value;
}

__global__ void total_kernel(float* sum, const float* x, int n) {
    extern __shared__ float temp[];
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) mine += x[i];
    auto tile = cg::tiled_partition(cg::this_thread_block(), 16);
    const float part = reduced(tile, temp + threadIdx.x / 16 * 16, mine);
    if (tile.thread_rank() == 0) atomicAdd(sum, part);
}

void total(const float* x, float* sum, int n) {
    cudaMemset(sum, 0, sizeof(float));
    total_kernel<<<3, 128, 128 * sizeof(float)>>>(sum, x, n);
}
