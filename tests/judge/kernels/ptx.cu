// Kernels with inline PTX, as libraries have them: guarded and cached accesses, 4-bit weights, products on tensor cores.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDMATRIX_X4(r, address)                                                          \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"      \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3])                  \
               : "r"(address))

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float load_if(const float* p, bool there) {
  float v;
  asm volatile(
      "{\n"
      "  .reg .pred inside;\n"
      "  setp.ne.b32 inside, %2, 0;\n"
      "  mov.f32 %0, 0f00000000;\n"
      "  @inside ld.global.nc.L1::no_allocate.f32 %0, [%1];\n"
      "}\n"
      : "=f"(v)
      : "l"(p), "r"(static_cast<int>(there)));
  return v;
}

__global__ void sigmoid_kernel(const float* x, float* y, int n) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (first >= n) return;
  float v[4];
  for (int k = 0; k < 4; k++) v[k] = inverse(1.0f + power_of_two(-1.4426950408889634f * load_if(x + first + k, first + k < n)));
  if (first + 3 < n)
    asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(y + first), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
  else
    for (int k = 0; first + k < n; k++) y[first + k] = v[k];
}

void sigmoid(const float* x, float* y, int n) { sigmoid_kernel<<<(n + 511) / 512, 128>>>(x, y, n); }

// ---- eight weights of 4 bits in a word, by the bits of half-precision numbers
__device__ inline uint32_t pick(uint32_t word, uint32_t mask) {
  uint32_t found;
  asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(found) : "r"(word), "r"(mask), "r"(0x64006400), "n"((0xf0 & 0xcc) | 0xaa));
  return found;
}

__device__ inline void unpacked(uint32_t word, half2* out) {
  uint32_t low = pick(word, 0x000f000f), high = pick(word, 0x00f000f0);
  asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(*reinterpret_cast<uint32_t*>(&out[0])) : "r"(low), "r"(0x64086408));
  asm volatile("fma.rn.f16x2 %0, %1, %2, %3;\n" : "=r"(*reinterpret_cast<uint32_t*>(&out[1])) : "r"(high), "r"(0x2c002c00), "r"(0xd480d480));
}

__global__ void weights_kernel(const int* words, const half* scales, half* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  half2 w[4];
  unpacked(words[i], w);
  unpacked(words[i] >> 8, w + 2);
  for (int j = 0; j < 4; j++) reinterpret_cast<half2*>(y)[i * 4 + j] = __hmul2(w[j], __half2half2(scales[i]));
}

void weights(const int* words, const half* scales, half* y, int n) { weights_kernel<<<(n + 127) / 128, 128>>>(words, scales, y, n); }

// ---- C = A B^T in bfloat16: two warps, tiles of 32 x 16, two stages
constexpr int ROWS = 32, COLUMNS = 16, DEPTH = 16;

__device__ __forceinline__ uint32_t in_shared(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void fetch(void* to, const void* from, bool there) {
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(in_shared(to)), "l"(from), "r"(bytes));
}

__global__ void matmul_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k) {
  __shared__ __align__(16) __nv_bfloat16 as[2][ROWS][DEPTH + 8], bs[2][COLUMNS][DEPTH + 8];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.y * ROWS, column = blockIdx.x * COLUMNS;
  float sum[2][4] = {};
  auto bring = [&](int stage, int at) {
    const int i = t / 2, j = t % 2 * 8;
    bool there = row + i < m && at + j < k;
    fetch(&as[stage][i][j], there ? a + static_cast<size_t>(row + i) * k + at + j : a, there);
    if (i < COLUMNS) {
      there = column + i < n && at + j < k;
      fetch(&bs[stage][i][j], there ? b + static_cast<size_t>(column + i) * k + at + j : b, there);
    }
    CP_ASYNC_COMMIT();
  };
  bring(0, 0);
  const int steps = (k + DEPTH - 1) / DEPTH;
  for (int s = 0; s < steps; s++) {
    bring((s + 1) % 2, (s + 1) * DEPTH);
    CP_ASYNC_WAIT(1);
    __syncthreads();
    uint32_t x[4], y[4];
    LDMATRIX_X4(x, in_shared(&as[s % 2][warp * 16 + lane % 16][lane / 16 * 8]));
    LDMATRIX_X4(y, in_shared(&bs[s % 2][lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]));
    for (int h = 0; h < 2; h++)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
          : "+f"(sum[h][0]), "+f"(sum[h][1]), "+f"(sum[h][2]), "+f"(sum[h][3])
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * h]), "r"(y[2 * h + 1]));
    __syncthreads();  // the next turn brings into what this one has read
  }
  CP_ASYNC_WAIT(0);
  for (int h = 0; h < 2; h++)
    for (int q = 0; q < 4; q++) {
      const int i = row + warp * 16 + lane / 4 + q / 2 * 8, j = column + h * 8 + lane % 4 * 2 + q % 2;
      if (i < m && j < n) c[static_cast<size_t>(i) * n + j] = sum[h][q];
    }
}

void matmul(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k) {
  matmul_kernel<<<dim3((n + COLUMNS - 1) / COLUMNS, (m + ROWS - 1) / ROWS), 64>>>(a, b, c, m, n, k);
}
