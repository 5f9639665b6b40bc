// Kernels that use CUB's collectives of blocks and warps.
#include <cub/cub.cuh>
#include <cuda_runtime.h>
#include <cuda/std/functional>
#include <math_constants.h>

// CUDA 13 has no cub::Sum and cub::Max any more
struct Plus {
    template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};
struct Larger {
    template <class T> __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};

__global__ void rms_norm_kernel(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ out, float eps, int cols) {
    using BlockReduce = cub::BlockReduce<float, 1024>;
    __shared__ typename BlockReduce::TempStorage room;
    __shared__ float scale;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        const float v = x[blockIdx.x * cols + i];
        squares += v * v;
    }
    squares = BlockReduce(room).Reduce(squares, Plus{}, blockDim.x);
    if (threadIdx.x == 0) scale = rsqrtf(squares / cols + eps);
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) out[blockIdx.x * cols + i] = x[blockIdx.x * cols + i] * scale * w[i];
}

void rms_norm(const float* x, const float* w, float* out, int rows, int cols, float eps) {
    rms_norm_kernel<<<rows, min((cols + 31) / 32 * 32, 1024)>>>(x, w, out, eps, cols);
}

// the maximum and the sum of its exponentials, together
struct Part {
    float most, sum;
};
struct Merge {
    __device__ Part operator()(const Part& a, const Part& b) const {
        const Part& big = a.most > b.most ? a : b;
        const Part& small = a.most > b.most ? b : a;
        return {big.most, big.sum + small.sum * expf(small.most - big.most)};
    }
};

template <int kThreads>
__global__ void softmax_kernel(const float* x, float* out, int cols) {
    typedef cub::BlockReduce<Part, kThreads> Reduce;
    __shared__ typename Reduce::TempStorage room;
    __shared__ Part row;
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    Part mine = {-CUDART_INF_F, 0.0f};
    for (int i = threadIdx.x; i < cols; i += kThreads) mine = mine.sum == 0.0f ? Part{x[i], 1.0f} : Merge()(mine, Part{x[i], 1.0f});
    Part all = Reduce(room).Reduce(mine, Merge(), min(kThreads, cols));
    if (threadIdx.x == 0) row = all;
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += kThreads) out[i] = expf(x[i] - row.most) / row.sum;
}

void softmax(const float* x, float* out, int rows, int cols) { softmax_kernel<128><<<rows, 128>>>(x, out, cols); }

// a running total over tiles of one block
struct Running {
    float total;
    __device__ float operator()(float tile) {
        const float before = total;
        total += tile;
        return before;
    }
};

__global__ void cumsum_kernel(const float* x, float* out, int cols) {
    constexpr int kThreads = 64, kItems = 4;
    using Load = cub::BlockLoad<float, kThreads, kItems, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<float, kThreads, kItems, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<float, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
    } room;
    Running running{0.0f};
    for (int first = 0; first < cols; first += kThreads * kItems) {
        float items[kItems];
        const int valid = min(kThreads * kItems, cols - first);
        Load(room.load).Load(x + blockIdx.x * cols + first, items, valid, 0.0f);
        __syncthreads();
        Scan(room.scan).InclusiveSum(items, items, running);
        __syncthreads();
        Store(room.store).Store(out + blockIdx.x * cols + first, items, valid);
        __syncthreads();
    }
}

void cumsum(const float* x, float* out, int rows, int cols) { cumsum_kernel<<<rows, 64>>>(x, out, cols); }

constexpr int kSorted = 200;

__global__ void sort_kernel(const float* x, float* out, long long* places) {
    using Sort = cub::BlockRadixSort<float, 128, 2, int>;
    __shared__ Sort::TempStorage room;
    float keys[2];
    int from[2];
    for (int i = 0; i < 2; i++) {
        from[i] = threadIdx.x * 2 + i;
        keys[i] = from[i] < kSorted ? x[blockIdx.x * kSorted + from[i]] : CUDART_INF_F;
    }
    Sort(room).Sort(keys, from);
    for (int i = 0; i < 2; i++) {
        const int at = threadIdx.x * 2 + i;
        if (at < kSorted) {
            out[blockIdx.x * kSorted + at] = keys[i];
            places[blockIdx.x * kSorted + at] = from[i];
        }
    }
}

void sort_rows(const float* x, float* out, long long* places, int rows) { sort_kernel<<<rows, 128>>>(x, out, places); }

__global__ void sums_kernel(const float* x, float* sums, float* most, int rows, int cols) {
    using WarpReduce = cub::WarpReduce<float>;
    __shared__ WarpReduce::TempStorage room[4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 4 + warp;
    if (row >= rows) return;
    float sum = 0.0f, top = -CUDART_INF_F;
    for (int i = lane; i < cols; i += 32) {
        sum += x[row * cols + i];
        top = fmaxf(top, x[row * cols + i]);
    }
    sum = WarpReduce(room[warp]).Sum(sum);
    top = WarpReduce(room[warp]).Reduce(top, Larger());
    if (lane == 0) {
        sums[row] = sum;
        most[row] = top;
    }
}

void sums_and_maxima(const float* x, float* sums, float* most, int rows, int cols) {
    sums_kernel<<<(rows + 3) / 4, 128>>>(x, sums, most, rows, cols);
}

__global__ void moments_kernel(const float* x, float* mean, float* var, int cols) {
    using Reduce = cub::BlockReduce<float, 96>;
    __shared__ Reduce::TempStorage room;
    __shared__ float middle;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 96) sum += x[blockIdx.x * cols + i];
    sum = Reduce(room).Reduce(sum, cuda::std::plus<>());
    if (threadIdx.x == 0) middle = sum / cols;
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += 96) {
        const float d = x[blockIdx.x * cols + i] - middle;
        squares += d * d;
    }
    squares = Reduce(room).Sum(squares);
    if (threadIdx.x == 0) mean[blockIdx.x] = middle, var[blockIdx.x] = squares / (cols - 1);
}

void moments(const float* x, float* mean, float* var, int rows, int cols) { moments_kernel<<<rows, 96>>>(x, mean, var, cols); }

__global__ void kept_kernel(const float* x, float* out, int cols) {
    // elements above 0 to the front of their row, in their order, zeros behind
    using Scan = cub::BlockScan<int, 64>;
    __shared__ Scan::TempStorage room;
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    int kept = 0;
    for (int first = 0; first < cols; first += 64) {
        const int at = first + threadIdx.x;
        const float value = at < cols ? x[at] : 0.0f;
        int before, all;
        Scan(room).ExclusiveSum(value > 0.0f ? 1 : 0, before, all);
        if (value > 0.0f) out[kept + before] = value;
        kept += all;
        __syncthreads();
    }
    for (int at = kept + threadIdx.x; at < cols; at += 64) out[at] = 0.0f;
}

void kept(const float* x, float* out, int rows, int cols) { kept_kernel<<<rows, 64>>>(x, out, cols); }
