// Wrappers of the instructions CUDA C++ has no word for. Each has a twin for the CPU emulation.
#pragma once
#ifdef SEPTRAN_EMULATE
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define ST_SHARED(T, name, n)               \
  static constexpr char name##_site = 0;    \
  T* const name = static_cast<T*>(cuemu::shared_array(&name##_site, (n) * sizeof(T), 16))
#define ST_LAUNCH(kernel, grid, block, smem, stream, ...) \
  cuemu::launch(#kernel, cuemu::Launch(grid, block, smem, stream), [&](auto... a) { kernel(a...); }, __VA_ARGS__)
#define ST_DYNAMIC_SHARED(name) unsigned char* const name = reinterpret_cast<unsigned char*>(cuemu::dynamic_shared)
#else
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#define ST_SHARED(T, name, n) __shared__ alignas(16) T name[n]
#define ST_LAUNCH(kernel, grid, block, smem, stream, ...) kernel<<<grid, block, smem, stream>>>(__VA_ARGS__)
#define ST_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#endif
#define ST_DEVICE __device__ __forceinline__
#define ST_CONST __host__ __device__ constexpr
#ifdef SEPTRAN_EMULATE
#define ST_ASSUME(condition)
#else
#define ST_ASSUME(condition) __builtin_assume(condition)
#endif

namespace st {

using uint = unsigned int;

constexpr int wave = 32;  // threads that run in step
/// How a warp's lanes lie on a tile in LM rows. pair: rows of a block of mma.sync that a lane holds; steps: from the lane of
/// one row (column) to that of the next.
template <int LM> struct Lanes { static constexpr int pair = LM == 8 ? 2 : 1, row_step = wave / LM, col_step = 1; };
template <class T> ST_DEVICE T lane_xor(T v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }

// ---- cp.async: global -> shared without registers; lands after wait<N> (N groups may stay open) ----
template <int BYTES> ST_DEVICE void cp_async(void* dst, const void* src, int valid) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
#ifdef SEPTRAN_EMULATE
  cuemu::async_copy(dst, src, BYTES, valid);
#else
  const uint d = static_cast<uint>(__cvta_generic_to_shared(dst));
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src), "r"(valid) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;\n" ::"r"(d), "l"(src), "r"(valid), "n"(BYTES) : "memory");
#endif
}
ST_DEVICE void cp_commit() {
#ifdef SEPTRAN_EMULATE
  cuemu::async_commit();
#else
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}
template <int N> ST_DEVICE void cp_wait() {
#ifdef SEPTRAN_EMULATE
  cuemu::async_wait(N);
#else
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
#endif
}

// ---- ldmatrix: four (or two) 8 x 8 matrices of 16-bit elements from shared memory ----
template <bool TRANS> ST_DEVICE void ldmatrix4(uint (&r)[4], const void* p) {
#ifdef SEPTRAN_EMULATE
  cuemu::load_matrix(r, p, 4, TRANS, "ldmatrix.x4");
#else
  const uint a = static_cast<uint>(__cvta_generic_to_shared(p));
  if constexpr (TRANS)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
#endif
}

// ---- mma.sync: D[16,8] += A[16,K] B[K,8], K = 16 for 16-bit types, 8 for tf32 ----
template <class T> ST_DEVICE void mma(float* d, const uint (&a)[4], const uint (&b)[2]);
template <> ST_DEVICE void mma<__half>(float* d, const uint (&a)[4], const uint (&b)[2]) {
#ifdef SEPTRAN_EMULATE
  cuemu::mma_16816(d, a, b, cuemu::product_half, "mma.m16n8k16.f16");
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
template <> ST_DEVICE void mma<__nv_bfloat16>(float* d, const uint (&a)[4], const uint (&b)[2]) {
#ifdef SEPTRAN_EMULATE
  cuemu::mma_16816(d, a, b, cuemu::product_bfloat, "mma.m16n8k16.bf16");
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
template <> ST_DEVICE void mma<float>(float* d, const uint (&a)[4], const uint (&b)[2]) {
#ifdef SEPTRAN_EMULATE
  cuemu::mma_1688_tf32(d, a, b, "mma.m16n8k8.tf32");
#else
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
/// float32 rounded to tf32 (10 mantissa bits), as bits.
ST_DEVICE uint to_tf32(float x) {
#ifdef SEPTRAN_EMULATE
  uint u = cuemu::bits<uint>(x);
  return x != x ? u : (u + 0x1000u) & 0xFFFFE000u;
#else
  uint u;
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(u) : "f"(x));
  return u;
#endif
}

}  // namespace st
