// Kernels as courses and blogs have them, with their macros.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#define TILE_WIDTH 16
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)

__global__ void MatrixMulShared(const float *A, const float *B, float *C, int numARows, int numACols, int numBCols) {
  __shared__ float ds_A[TILE_WIDTH][TILE_WIDTH];
  __shared__ float ds_B[TILE_WIDTH][TILE_WIDTH];
  int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
  int Row = by * blockDim.y + ty, Col = bx * blockDim.x + tx;
  float Pvalue = 0.0f;
  for (int p = 0; p < (numACols - 1) / TILE_WIDTH + 1; ++p) {
    if (Row < numARows && p * TILE_WIDTH + tx < numACols) ds_A[ty][tx] = A[Row * numACols + p * TILE_WIDTH + tx];
    else ds_A[ty][tx] = 0.0f;
    if (p * TILE_WIDTH + ty < numACols && Col < numBCols) ds_B[ty][tx] = B[(p * TILE_WIDTH + ty) * numBCols + Col];
    else ds_B[ty][tx] = 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE_WIDTH; ++i) Pvalue += ds_A[ty][i] * ds_B[i][tx];
    __syncthreads();
  }
  if (Row < numARows && Col < numBCols) C[Row * numBCols + Col] = Pvalue;
}

void matmul(const float *A, const float *B, float *C, int M, int K, int N) {
  dim3 DimGrid((N - 1) / TILE_WIDTH + 1, (M - 1) / TILE_WIDTH + 1, 1), DimBlock(TILE_WIDTH, TILE_WIDTH, 1);
  MatrixMulShared<<<DimGrid, DimBlock>>>(A, B, C, M, K, N);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

__inline__ __device__ float warpReduceSum(float val) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2) val += __shfl_down_sync(0xffffffff, val, offset);
  return val;
}
__inline__ __device__ float blockReduceSum(float val) {
  static __shared__ float shared[32];
  int lane = threadIdx.x % warpSize;
  int wid = threadIdx.x / warpSize;
  val = warpReduceSum(val);
  if (lane == 0) shared[wid] = val;
  __syncthreads();
  val = (threadIdx.x < blockDim.x / warpSize) ? shared[lane] : 0;
  if (wid == 0) val = warpReduceSum(val);
  return val;
}
__global__ void deviceReduceKernel(const float *in, float *out, int N) {
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += blockDim.x * gridDim.x) sum += in[i];
  sum = blockReduceSum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
void reduce(const float *in, float *out, int N) {
  int threads = 256;
  int blocks = min((N + threads - 1) / threads, 1024);
  float *partial;
  CHECK(cudaMalloc(&partial, sizeof(float) * blocks));
  deviceReduceKernel<<<blocks, threads>>>(in, partial, N);
  deviceReduceKernel<<<1, 1024>>>(partial, out, blocks);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(partial));
}

__global__ void scan_hillis_steele(const float *g_idata, float *g_odata, int n) {
  extern __shared__ float temp[];
  int thid = threadIdx.x;
  int pout = 0, pin = 1;
  temp[pout * n + thid] = (thid < n) ? g_idata[blockIdx.x * n + thid] : 0;
  __syncthreads();
  for (int offset = 1; offset < n; offset *= 2) {
    pout = 1 - pout;
    pin = 1 - pout;
    if (thid >= offset) temp[pout * n + thid] = temp[pin * n + thid] + temp[pin * n + thid - offset];
    else temp[pout * n + thid] = temp[pin * n + thid];
    __syncthreads();
  }
  g_odata[blockIdx.x * n + thid] = temp[pout * n + thid];
}
void hillis(const float *x, float *y, int rows, int n) {
  scan_hillis_steele<<<rows, n, 2 * n * sizeof(float)>>>(x, y, n);
}

__global__ void prescan(float *g_odata, const float *g_idata, int n) {
  extern __shared__ float temp[];
  int thid = threadIdx.x;
  int offset = 1;
  const float *in = g_idata + blockIdx.x * n;
  float *out = g_odata + blockIdx.x * n;
  temp[2 * thid] = in[2 * thid];
  temp[2 * thid + 1] = in[2 * thid + 1];
  for (int d = n >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (thid < d) {
      int ai = offset * (2 * thid + 1) - 1;
      int bi = offset * (2 * thid + 2) - 1;
      temp[bi] += temp[ai];
    }
    offset *= 2;
  }
  if (thid == 0) temp[n - 1] = 0;
  for (int d = 1; d < n; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (thid < d) {
      int ai = offset * (2 * thid + 1) - 1;
      int bi = offset * (2 * thid + 2) - 1;
      float t = temp[ai];
      temp[ai] = temp[bi];
      temp[bi] += t;
    }
  }
  __syncthreads();
  out[2 * thid] = temp[2 * thid] + in[2 * thid];
  out[2 * thid + 1] = temp[2 * thid + 1] + in[2 * thid + 1];
}
void blelloch(const float *x, float *y, int rows, int n) {
  prescan<<<rows, n / 2, n * sizeof(float)>>>(y, x, n);
}

__global__ void histo_kernel(const int *buffer, long size, int *histo) {
  __shared__ unsigned int temp[256];
  temp[threadIdx.x] = 0;
  __syncthreads();
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  int offset = blockDim.x * gridDim.x;
  while (i < size) {
    atomicAdd(&temp[buffer[i] & 255], 1);
    i += offset;
  }
  __syncthreads();
  atomicAdd(&histo[threadIdx.x], temp[threadIdx.x]);
}
void histogram(const int *x, int *y, int n) {
  CHECK(cudaMemset(y, 0, 256 * sizeof(int)));
  histo_kernel<<<8, 256>>>(x, n, y);
}

const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;
__global__ void transposeNoBankConflicts(float *odata, const float *idata, int width, int height) {
  __shared__ float tile[TILE_DIM][TILE_DIM + 1];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
void transpose(const float *in, float *out, int width, int height) {
  dim3 dimGrid((width + TILE_DIM - 1) / TILE_DIM, (height + TILE_DIM - 1) / TILE_DIM, 1);
  dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);
  transposeNoBankConflicts<<<dimGrid, dimBlock>>>(out, in, width, height);
}

#define RADIUS 3
#define BLOCK_SIZE 128
__global__ void stencil_1d(const float *in, float *out, int n) {
  __shared__ float temp[BLOCK_SIZE + 2 * RADIUS];
  int gindex = threadIdx.x + blockIdx.x * blockDim.x;
  int lindex = threadIdx.x + RADIUS;
  temp[lindex] = gindex < n ? in[gindex] : 0.0f;
  if (threadIdx.x < RADIUS) {
    int left = gindex - RADIUS, right = gindex + BLOCK_SIZE;
    temp[lindex - RADIUS] = left >= 0 ? in[left] : 0.0f;
    temp[lindex + BLOCK_SIZE] = right < n ? in[right] : 0.0f;
  }
  __syncthreads();
  float result = 0;
  for (int offset = -RADIUS; offset <= RADIUS; offset++) result += temp[lindex + offset];
  if (gindex < n) out[gindex] = result;
}
void stencil(const float *in, float *out, int n) {
  stencil_1d<<<(n + BLOCK_SIZE - 1) / BLOCK_SIZE, BLOCK_SIZE>>>(in, out, n);
}

