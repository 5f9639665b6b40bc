// Thread indices, barriers, votes, shuffles, atomics and device math as macros and functions.
#pragma once
#include <cmath>
#include <type_traits>
#include "api.h"
#include "conversions.h"
#include "integers.h"

using std::isfinite;
using std::isinf;
using std::isnan;

#define CUEMU_TEXT_(x) #x
#define CUEMU_TEXT(x) CUEMU_TEXT_(x)
#define CUEMU_HERE(n) n " at " __FILE__ ":" CUEMU_TEXT(__LINE__)
#define threadIdx (cuemu::thread_id)
#define blockIdx (cuemu::block_id)
// names of variables, not macros: host functions have locals of these names (`dim3 gridDim(..)`)
extern dim3 blockDim CUEMU_CALL(block_dim);
extern dim3 gridDim CUEMU_CALL(grid_dim);
constexpr int warpSize = CUEMU_WAVE;
#define __syncthreads() cuemu::block_barrier(CUEMU_HERE("__syncthreads"))
#define __syncthreads_or(p) cuemu::block_vote(p, 1, CUEMU_HERE("__syncthreads_or"))
#define __syncthreads_count(p) cuemu::block_vote(p, 0, CUEMU_HERE("__syncthreads_count"))
#define __syncthreads_and(p) cuemu::block_vote(p, 2, CUEMU_HERE("__syncthreads_and"))
#define __syncwarp(...) cuemu::warp_barrier(CUEMU_HERE("__syncwarp") __VA_OPT__(, ) __VA_ARGS__)

namespace cuemu {

inline int lane() { return thread_linear % kWave; }

/// All lanes named in `mask` give a payload; the last to arrive runs `act(payloads)` for everybody.
template <class P, class F> void warp_collective(Mask mask, const char* where, P& payload, F act) {
  warp_meeting(
      mask, where, &payload,
      [](void** all, void* context) {
        P* given[kWave] __attribute__((uninitialized));  // set whole in the next line
        for (int i = 0; i < kWave; i++) given[i] = static_cast<P*>(all[i]);
        (*static_cast<F*>(context))(given);
      },
      &act);
}
inline void warp_barrier(const char* where, Mask mask = ~Mask(0)) {
  warp_meeting(mask, where, nullptr, nullptr, nullptr);
}

template <class T> struct Shuffle { T value, result; int source; };

/// What a lane gets from one that is not in the mask is undefined, and harmless where nobody uses it: the upper lanes of a tree of
/// shuffles under a partial mask. It is a NaN, or as an integer a large number or a negative one.
template <class T> void undefined_value(T& value, int lane) {
  char* bytes = reinterpret_cast<char*>(&value);
  for (size_t i = 0; i < sizeof value; i++) bytes[i] = static_cast<char>(std::is_integral_v<T> && lane % 2 == 0 ? 0x7F : 0xFF);
}

/// Every lane of `mask` gives a value and takes the one of lane `source` (-1: keeps its own).
template <class T> T shuffle(Mask mask, T value, int source, const char* where) {
  Shuffle<T> mine{value, value, source};
  warp_collective(mask, where, mine, [](Shuffle<T>** all) {
    for (int i = 0; i < kWave; i++)
      if (all[i] && all[i]->source >= 0) {
        if (!all[all[i]->source]) undefined_value(all[i]->result, i);
        else all[i]->result = all[all[i]->source]->value;
      }
  });
  return mine.result;
}
struct Ballot { int p; unsigned result; };
inline unsigned ballot(unsigned mask, int p, const char* where) {
  Ballot mine{p, 0};
  warp_collective(mask, where, mine, [](Ballot** all) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++)
      if (all[i] && all[i]->p) r |= 1u << i;
    for (int i = 0; i < 32; i++)
      if (all[i]) all[i]->result = r;
  });
  return mine.result;
}
template <class T> struct Same { using type = T; };
template <class T> using same_t = typename Same<T>::type;
template <class T, class F> CUEMU_NOTSAN T atomic(T* p, F f) {
  note_atomic(p);
  if (std::is_floating_point_v<T> || sizeof(T) == 2) float_atomics = true;
  T old = *p;
  *p = f(old);
  return old;
}
}  // namespace cuemu

template <class T> T __shfl_sync(unsigned m, T v, int s, int w = 32) {
  return cuemu::shuffle(m, v, cuemu::lane() / w * w + (s & (w - 1)), "__shfl_sync");
}
template <class T> T __shfl_xor_sync(unsigned m, T v, int x, int w = 32) {
  int l = cuemu::lane(), s = l ^ x;
  return cuemu::shuffle(m, v, s / w == l / w ? s : -1, "__shfl_xor_sync");
}
template <class T> T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32) {
  int l = cuemu::lane(), s = l + static_cast<int>(d);
  return cuemu::shuffle(m, v, s / w == l / w ? s : -1, "__shfl_down_sync");
}
template <class T> T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32) {
  int l = cuemu::lane(), s = l - static_cast<int>(d);
  return cuemu::shuffle(m, v, s >= l / w * w ? s : -1, "__shfl_up_sync");
}
static inline unsigned __ballot_sync(unsigned m, int p) { return cuemu::ballot(m, p, "__ballot_sync"); }
static inline int __any_sync(unsigned m, int p) { return cuemu::ballot(m, p, "__any_sync") != 0; }
static inline int __all_sync(unsigned m, int p) { return cuemu::ballot(m, p, "__all_sync") == m; }
#define CUEMU_REDUCED(name, op)                                                                   \
  template <class T> T __reduce_##name##_sync(unsigned m, T v) {                                  \
    T mine = v;                                                                                   \
    cuemu::warp_collective(m, "__reduce_" #name "_sync", mine, [](T** all) {                      \
      T r{};                                                                                      \
      bool any = false;                                                                           \
      for (int i = 0; i < cuemu::kWave; i++)                                                      \
        if (all[i]) r = any ? op(r, *all[i]) : *all[i], any = true;                               \
      for (int i = 0; i < cuemu::kWave; i++)                                                      \
        if (all[i]) *all[i] = r;                                                                  \
    });                                                                                           \
    return mine;                                                                                  \
  }
#define CUEMU_PLUS(a, b) T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b))
#define CUEMU_LESS(a, b) ((b) < (a) ? (b) : (a))
#define CUEMU_MORE(a, b) ((a) < (b) ? (b) : (a))
CUEMU_REDUCED(add, CUEMU_PLUS)
CUEMU_REDUCED(min, CUEMU_LESS)
CUEMU_REDUCED(max, CUEMU_MORE)
#define CUEMU_AND(a, b) ((a) & (b))
#define CUEMU_OR(a, b) ((a) | (b))
#define CUEMU_XOR(a, b) ((a) ^ (b))
CUEMU_REDUCED(and, CUEMU_AND)
CUEMU_REDUCED(or, CUEMU_OR)
CUEMU_REDUCED(xor, CUEMU_XOR)
#undef CUEMU_REDUCED
namespace cuemu {
template <class T> struct Matched { T value; unsigned same; bool whole; };
template <class T> Matched<T> matched(unsigned mask, T value, const char* where) {
  Matched<T> mine{value, 0, true};
  warp_collective(mask, where, mine, [](Matched<T>** all) {
    for (int i = 0; i < 32; i++)
      for (int j = 0; all[i] && j < 32; j++)
        if (all[j]) {
          const bool same = memcmp(&all[i]->value, &all[j]->value, sizeof(T)) == 0;
          if (same) all[i]->same |= 1u << j;
          else all[i]->whole = false;
        }
  });
  return mine;
}
}  // namespace cuemu
/// Which lanes give the same bits.
template <class T> unsigned __match_any_sync(unsigned m, T v) { return cuemu::matched(m, v, "__match_any_sync").same; }
template <class T> unsigned __match_all_sync(unsigned m, T v, int* all) {
  const auto found = cuemu::matched(m, v, "__match_all_sync");
  *all = found.whole;
  return found.whole ? m : 0;
}
#define __activemask() static_cast<unsigned>(cuemu::lanes_together(__FILE__, __LINE__))
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) {}

template <class T> T atomicAdd(T* p, cuemu::same_t<T> v) { return cuemu::atomic(p, [&](T o) { return T(o + v); }); }
template <class T> T atomicSub(T* p, cuemu::same_t<T> v) { return cuemu::atomic(p, [&](T o) { return T(o - v); }); }
template <class T> T atomicMax(T* p, cuemu::same_t<T> v) { return cuemu::atomic(p, [&](T o) { return v > o ? v : o; }); }
template <class T> T atomicMin(T* p, cuemu::same_t<T> v) { return cuemu::atomic(p, [&](T o) { return v < o ? v : o; }); }
template <class T> T atomicExch(T* p, cuemu::same_t<T> v) { return cuemu::atomic(p, [&](T) { return v; }); }
template <class T> T atomicOr(T* p, cuemu::same_t<T> v) { return cuemu::atomic(p, [&](T o) { return T(o | v); }); }
template <class T> T atomicAnd(T* p, cuemu::same_t<T> v) { return cuemu::atomic(p, [&](T o) { return T(o & v); }); }
template <class T> T atomicXor(T* p, cuemu::same_t<T> v) { return cuemu::atomic(p, [&](T o) { return T(o ^ v); }); }
static inline unsigned atomicInc(unsigned* p, unsigned last) { return cuemu::atomic(p, [&](unsigned o) { return o >= last ? 0 : o + 1; }); }
static inline unsigned atomicDec(unsigned* p, unsigned last) {
  return cuemu::atomic(p, [&](unsigned o) { return o == 0 || o > last ? last : o - 1; });
}
template <class T> T atomicCAS(T* p, cuemu::same_t<T> c, cuemu::same_t<T> v) {
  return cuemu::atomic(p, [&](T o) { return o == c ? v : o; });
}

// of a block or of the whole system: the emulation has one scope
#define CUEMU_SCOPES(name)                                                                                \
  template <class T, class... V> T name##_block(T* p, V... v) { return name(p, static_cast<T>(v)...); }   \
  template <class T, class... V> T name##_system(T* p, V... v) { return name(p, static_cast<T>(v)...); }
CUEMU_SCOPES(atomicAdd)
CUEMU_SCOPES(atomicSub)
CUEMU_SCOPES(atomicMax)
CUEMU_SCOPES(atomicMin)
CUEMU_SCOPES(atomicExch)
CUEMU_SCOPES(atomicCAS)
#undef CUEMU_SCOPES

template <class T> T __ldg(const T* p) {
  cuemu::read_only(p, sizeof(T));
  return *p;
}
template <class T> T __ldlu(const T* p) { return *p; }
template <class T> T __ldcv(const T* p) { return *p; }
template <class T, class U> void __stwb(T* p, U v) { *p = v; }
template <class T, class U> void __stwt(T* p, U v) { *p = v; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldca(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T, class U> void __stcs(T* p, U v) { *p = v; }
template <class T, class U> void __stcg(T* p, U v) { *p = v; }
template <class A, class B, class R = std::common_type_t<A, B>,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr R min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; }
template <class A, class B, class R = std::common_type_t<A, B>,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }

// glibc declares some of these names with other linkage, hence the macros.
#define __expf cuemu_expf
#define __logf cuemu_logf
#define __powf cuemu_powf
#define __sinf cuemu_sinf
#define __cosf cuemu_cosf
#define __log2f cuemu_log2f
#define __tanhf cuemu_tanhf
#define __exp10f cuemu_exp10f
#define __log10f cuemu_log10f
#define __tanf cuemu_tanf
#define __sincosf cuemu_sincosf
// As the device makes them of its own powers, logarithms and circles (CUDA C++ programming guide, "intrinsic functions"): products in
// single precision before and behind, a tanh to eleven bits. What its documents allow beyond that is not made worse on purpose: a
// logarithm to 2^-22 near 1, and 0 for a quotient by more than 2^126.
static inline float cuemu_log2f(float x) { return log2f(x); }
static inline float cuemu_logf(float x) { return cuemu_log2f(x) * 0.693147182f; }
static inline float cuemu_log10f(float x) { return cuemu_log2f(x) * 0.301029995f; }
static inline float cuemu_expf(float x) { return exp2f(x * 1.44269502f); }
static inline float cuemu_exp10f(float x) { return exp2f(x * 3.32192802f); }
static inline float cuemu_powf(float a, float b) { return exp2f(b * cuemu_log2f(a)); }
static inline float cuemu_turn(float x) {
  const float turns = x * 0.159154937f;
  return (turns - rintf(turns)) * 6.28318548f;
}
static inline float cuemu_sinf(float x) { return sinf(cuemu_turn(x)); }
static inline float cuemu_cosf(float x) { return cosf(cuemu_turn(x)); }
static inline float cuemu_tanf(float x) { return cuemu_sinf(x) / cuemu_cosf(x); }
static inline void cuemu_sincosf(float x, float* s, float* c) { *s = cuemu_sinf(x), *c = cuemu_cosf(x); }
static inline float cuemu_tanhf(float x) {
  float t = tanhf(x);
  unsigned bits;
  memcpy(&bits, &t, 4);
  bits &= ~0xFFFu;
  memcpy(&t, &bits, 4);
  return x == x ? t : x;
}
static inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
static inline double rsqrt(double x) { return 1. / sqrt(x); }
static inline float __frsqrt_rn(float x) { return 1.f / sqrtf(x); }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.f / x; }
static inline float __fdividef(float a, float b) { return a / b; }
// rounded on their own: no compiler may make them part of a multiply-add
#define CUEMU_ALONE static __attribute__((noinline, optimize("fp-contract=off")))
CUEMU_ALONE float __fmul_rn(float a, float b) { return a * b; }
CUEMU_ALONE float __fadd_rn(float a, float b) { return a + b; }
CUEMU_ALONE float __fsub_rn(float a, float b) { return a - b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
CUEMU_ALONE double __dadd_rn(double a, double b) { return a + b; }
CUEMU_ALONE double __dsub_rn(double a, double b) { return a - b; }
CUEMU_ALONE double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __drcp_rn(double a) { return 1. / a; }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __double2float_rn(double a) { return static_cast<float>(a); }
static inline float fdividef(float a, float b) { return a / b; }
static inline float rcbrtf(float x) { return static_cast<float>(1 / cbrt(static_cast<double>(x))); }
static inline float rhypotf(float a, float b) { return static_cast<float>(1 / hypot(static_cast<double>(a), static_cast<double>(b))); }
static inline float norm3df(float a, float b, float c) { return static_cast<float>(sqrt(double(a) * a + double(b) * b + double(c) * c)); }
static inline float norm4df(float a, float b, float c, float d) {
  return static_cast<float>(sqrt(double(a) * a + double(b) * b + double(c) * c + double(d) * d));
}
[[noreturn]] static inline void __trap() { cuemu::fail("check", "__trap()"); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static inline float normcdff(float x) { return .5f * erfcf(-x * 0.70710678f); }
namespace cuemu {
/// The bits of a float. A host's own NaN has a sign, which no GPU's has; NVIDIA's keep no payload of what an operation reads. Whether
/// a sign that is turned round (`-x`) shows on a NaN, no vendor says: in some calls it does, in others not.
inline unsigned float_bits(float f) {
  const unsigned u = bits<unsigned>(f);
  if (f == f || (u == 0x7FC00000u && default_nan != 0xFFC00000u)) return u;
  return u << 1 == 0x7FC00000u << 1 || default_nan == 0x7FFFFFFFu ? default_nan : u;
}
template <class A, class B> auto copysigned(A a, B b) {
  return b == b ? copysign(a, b) : copysign(a, static_cast<B>(float_bits(static_cast<float>(b)) >> 31 ? -1 : 1));
}
}  // namespace cuemu
static inline int __float_as_int(float f) { return static_cast<int>(cuemu::float_bits(f)); }
static inline float __int_as_float(int i) { return cuemu::bits<float>(i); }
static inline unsigned __float_as_uint(float f) { return cuemu::float_bits(f); }
static inline float __uint_as_float(unsigned i) { return cuemu::bits<float>(i); }
static inline long long clock64() { return cuemu::clock_now(); }
static inline size_t __cvta_generic_to_shared(const void* p) { return cuemu::shared_address(p); }
static inline size_t __cvta_generic_to_global(const void* p) { return reinterpret_cast<size_t>(p); }
static inline void* __cvta_global_to_generic(size_t a) { return reinterpret_cast<void*>(a); }
static inline void* __cvta_shared_to_generic(size_t a) { return cuemu::shared_pointer(static_cast<uint32_t>(a)); }
#define CUDART_INF_F INFINITY
