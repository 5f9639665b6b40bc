// HIP's words for what the other parts use, and the instructions HIP C++ has no word for. Wavefronts of 64 (CDNA).
#pragma once
#include <hip/hip_runtime.h>
#include <hip/hip_bfloat16.h>
#ifdef SEPTRAN_EMULATE
#define ST_SHARED(T, name, n)               \
  static constexpr char name##_site = 0;    \
  T* const name = static_cast<T*>(cuemu::shared_array(&name##_site, (n) * sizeof(T), 16))
#define ST_LAUNCH(kernel, grid, block, smem, stream, ...) \
  cuemu::launch(#kernel, cuemu::Launch(grid, block, smem, stream), [&](auto... a) { kernel(a...); }, __VA_ARGS__)
#define ST_DYNAMIC_SHARED(name) unsigned char* const name = reinterpret_cast<unsigned char*>(cuemu::dynamic_shared)
#else
#include <cstdio>
#include <cstdlib>
#define ST_SHARED(T, name, n) __shared__ __align__(16) T name[n]
#define ST_LAUNCH(kernel, grid, block, smem, stream, ...) kernel<<<grid, block, smem, stream>>>(__VA_ARGS__)
#define ST_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif
#define ST_DEVICE __device__ __forceinline__
#define ST_CONST __host__ __device__ constexpr
#define ST_ASSUME(condition)  // threadIdx.x is a call here, of which clang assumes nothing and warns

namespace st {

// What the other parts call CUDA's types. float16 is the compiler's own type: HIP's header of it does not fit every clang.
using __half = _Float16;
using __nv_bfloat16 = hip_bfloat16;
ST_DEVICE float __half2float(__half x) { return static_cast<float>(x); }
ST_DEVICE __half __float2half_rn(float x) { return static_cast<__half>(x); }
#ifndef SEPTRAN_EMULATE
ST_DEVICE float __bfloat162float(hip_bfloat16 x) { return static_cast<float>(x); }
ST_DEVICE hip_bfloat16 __float2bfloat16_rn(float x) { return hip_bfloat16(x); }
#endif

using uint = unsigned int;

constexpr int wave = 64;  // threads that run in step
#ifndef SEPTRAN_EMULATE
/// __syncthreads as HIP defines it, without the function of the device libraries that not every clang finds there.
ST_DEVICE void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define __syncthreads() st::block_barrier()
#endif
/// How a wavefront's lanes lie on a tile in LM rows. pair: rows of a block that a lane holds; steps: from the lane of one
/// row (column) to that of the next. Sixteen rows lie as MFMA has them: lane l on row l % 16.
template <int LM> struct Lanes {
  static constexpr int pair = 1, row_step = LM == 16 ? 1 : wave / LM, col_step = LM == 16 ? 16 : 1;
};
template <class T> ST_DEVICE T lane_xor(T v, int mask) {
#ifdef SEPTRAN_EMULATE
  return cuemu::shuffle(~cuemu::Mask(0), v, cuemu::lane() ^ mask, "__shfl_xor");
#else
  static_assert(sizeof v % sizeof(int) == 0, "lanes exchange words of 4 bytes");
  int words[sizeof v / sizeof(int)];
  __builtin_memcpy(words, &v, sizeof v);
#pragma unroll
  for (int& word : words) word = __builtin_amdgcn_ds_bpermute(static_cast<int>((threadIdx.x % wave) ^ mask) * 4, word);
  __builtin_memcpy(&v, words, sizeof v);
  return v;
#endif
}

// ---- copies to shared memory: the machine has none that write anywhere without registers, so they are done at once.
// The emulation keeps them apart until they are waited for, as in CUDA C++.
template <int BYTES> ST_DEVICE void cp_async(void* dst, const void* src, int valid) {
  static_assert(BYTES == 16, "copies are 16 bytes");
#ifdef SEPTRAN_EMULATE
  cuemu::async_copy(dst, src, BYTES, valid);
#else
  struct alignas(16) Unit { uint v[4]; };
  if (valid == BYTES) {
    *static_cast<Unit*>(dst) = *static_cast<const Unit*>(src);
  } else {
#pragma unroll
    for (int i = 0; i < BYTES; i++)
      static_cast<unsigned char*>(dst)[i] = i < valid ? static_cast<const unsigned char*>(src)[i] : 0;
  }
#endif
}
ST_DEVICE void cp_commit() {
#ifdef SEPTRAN_EMULATE
  cuemu::async_commit();
#endif
}
template <int N> ST_DEVICE void cp_wait() {
#ifdef SEPTRAN_EMULATE
  cuemu::async_wait(N);
#endif
}

}  // namespace st
