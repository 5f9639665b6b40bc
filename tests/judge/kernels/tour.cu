// Small CUDA kernels with host functions, as people write them.
#include <cuda_runtime.h>

__global__ void relu_kernel(const float* x, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = fmaxf(x[i], 0.0f);
}

void relu(const float* x, float* out, int n) { relu_kernel<<<2, 128>>>(x, out, n); }

__global__ void gelu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

void gelu(const float* x, float* out, int n) { gelu_kernel<<<(n + 127) / 128, 128>>>(x, out, n); }

__global__ void transpose_kernel(const float* x, float* out, int m, int n) {
    __shared__ float tile[16][17];
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i < m && j < n) tile[threadIdx.y][threadIdx.x] = x[i * n + j];
    __syncthreads();
    i = blockIdx.x * 16 + threadIdx.y;
    j = blockIdx.y * 16 + threadIdx.x;
    if (i < n && j < m) out[i * m + j] = tile[threadIdx.x][threadIdx.y];
}

void transpose(const float* x, float* out, int m, int n) {
    transpose_kernel<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(x, out, m, n);
}

__global__ void rms_kernel(const float* x, const float* w, float* out, int cols, float eps) {
    __shared__ float part[64];
    const float* row = x + blockIdx.x * cols;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 64) sum += row[j] * row[j];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half >>= 1) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    const float scale = rsqrtf(part[0] / cols + eps);
    for (int j = threadIdx.x; j < cols; j += 64) out[blockIdx.x * cols + j] = row[j] * scale * w[j];
}

void rms_norm(const float* x, const float* w, float* out, int rows, int cols, float eps) {
    rms_kernel<<<rows, 64>>>(x, w, out, cols, eps);
}

__global__ void naive_kernel(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.0f;
    for (int p = 0; p < k; p++) sum += a[row * k + p] * b[p * n + col];
    c[row * n + col] = sum;
}

void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    dim3 block(8, 8);
    naive_kernel<<<dim3((n + 7) / 8, (m + 7) / 8), block>>>(a, b, c, m, n, k);
}
