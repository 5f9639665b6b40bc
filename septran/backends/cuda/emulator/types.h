// CUDA's builtin types and qualifiers, for a host compiler.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#ifdef CUEMU_SETS_CONSTANTS  // of a file whose host writes them: cudaMemcpyToSymbol
#define __constant__ static
#else
#define __constant__ static const
#endif
#define __shared__ static
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 { unsigned x, y, z; };

namespace cuemu {
template <class T> struct alignas(2 * sizeof(T)) V2 { T x, y; };
template <class T> struct V3 { T x, y, z; };
template <class T> struct alignas(sizeof(T) < 8 ? 4 * sizeof(T) : 16) V4 { T x, y, z, w; };
template <class D, class S> inline D bits(S s) {
  static_assert(sizeof(D) == sizeof(S));
  D d;
  memcpy(&d, &s, sizeof d);
  return d;
}
struct Half {
  static uint16_t encode(float f) { return bits<uint16_t>(static_cast<_Float16>(f)); }
  static float decode(uint16_t u) {
    float f = static_cast<float>(bits<_Float16>(u));
    // Keeps the compiler from comparing as _Float16, which calls libgcc.
#if defined(__x86_64__)
    asm("" : "+x"(f));
#elif defined(__aarch64__)
    asm("" : "+w"(f));
#endif
    return f;
  }
};
struct Bfloat {
  static uint16_t encode(float f) {
    if (f != f) return 0x7fff;
    uint32_t u = bits<uint32_t>(f);
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  static float decode(uint16_t u) { return bits<float>(static_cast<uint32_t>(u) << 16); }
};
}  // namespace cuemu

#define CUEMU_VECTORS(T, n)                                                       \
  using n##2 = cuemu::V2<T>;                                                      \
  using n##3 = cuemu::V3<T>;                                                      \
  using n##4 = cuemu::V4<T>;                                                      \
  static inline n##2 make_##n##2(T a, T b) { return {a, b}; }                     \
  static inline n##3 make_##n##3(T a, T b, T c) { return {a, b, c}; }             \
  static inline n##4 make_##n##4(T a, T b, T c, T d) { return {a, b, c, d}; }
CUEMU_VECTORS(float, float)
CUEMU_VECTORS(double, double)
CUEMU_VECTORS(int, int)
CUEMU_VECTORS(short, short)
CUEMU_VECTORS(signed char, char)
CUEMU_VECTORS(unsigned char, uchar)
CUEMU_VECTORS(unsigned short, ushort)
CUEMU_VECTORS(long long, longlong)
CUEMU_VECTORS(long, long)
CUEMU_VECTORS(unsigned long, ulong)
CUEMU_VECTORS(unsigned long long, ulonglong)
#undef CUEMU_VECTORS
struct float1 { float x; };
struct int1 { int x; };
struct uint1 { unsigned x; };
struct double1 { double x; };
static inline float1 make_float1(float a) { return {a}; }
static inline int1 make_int1(int a) { return {a}; }
static inline uint1 make_uint1(unsigned a) { return {a}; }
static inline uint3 make_uint3(unsigned a, unsigned b, unsigned c) { return {a, b, c}; }
using uint2 = cuemu::V2<unsigned>;
using uint4 = cuemu::V4<unsigned>;
static inline uint2 make_uint2(unsigned a, unsigned b) { return {a, b}; }
static inline uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d) { return {a, b, c, d}; }
