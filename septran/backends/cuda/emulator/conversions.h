// Floats to integers as the device converts them: cut or rounded, out of range the nearest number there is. NaN is 0, and
// where one side has 64 bits the sign bit alone (PTX ISA, cvt; AMD's instructions always give 0). A host's own conversion
// gives INT_MIN for all of these, so `prepare` puts these in place of the casts that it can read.
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>
#include "types.h"

namespace cuemu {

template <class T> constexpr bool kFloat = std::is_floating_point_v<T> || std::is_same_v<T, _Float16>;
template <class T> constexpr bool kStoredFloat = false;  // the 16-bit classes of cuda_fp16.h

/// Of a float without a fraction.
template <class D, class S> constexpr D saturated(S s) {
  using Limits = std::numeric_limits<D>;
  constexpr bool wide = sizeof(D) == 8 || sizeof(S) == 8;
  if (s != s) return wide && CUEMU_WAVE == 32 ? static_cast<D>(1ull << (8 * sizeof(D) - 1)) : D(0);
  if (s >= 2 * static_cast<double>(Limits::max() / 2 + 1)) return Limits::max();
  if (s <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<D>(s);
}

/// A cast to D. Narrower integers are cut from one of 32 bits, as compilers for the device do it.
template <class D, class S> constexpr D to(S s) {
  if constexpr (kStoredFloat<S>) {
    return to<D>(static_cast<float>(s));
  } else if constexpr (std::is_same_v<S, _Float16>) {
    return to<D>(static_cast<float>(s));
  } else if constexpr (kFloat<S> && std::is_integral_v<D> && !std::is_same_v<D, bool>) {
    using Register = std::conditional_t<(sizeof(D) >= 4), D, std::conditional_t<std::is_signed_v<D>, int, unsigned>>;
    return static_cast<D>(saturated<Register>(s));
  } else {
    return (D)s;
  }
}

/// What stands between a C cast and its operand: (int)x is (int)(cuemu::Cast<int>)x.
template <class D> struct Cast {
  D value;
  template <class S> constexpr Cast(S s) : value(to<D>(s)) {}
  constexpr operator D() const { return value; }
};

}  // namespace cuemu

#define CUEMU_ROUNDED(from, F, name, D)                                                        \
  static inline D __##from##2##name##_rn(F x) { return cuemu::to<D>(std::nearbyint(x)); }      \
  static inline D __##from##2##name##_rz(F x) { return cuemu::to<D>(x); }                      \
  static inline D __##from##2##name##_ru(F x) { return cuemu::to<D>(std::ceil(x)); }           \
  static inline D __##from##2##name##_rd(F x) { return cuemu::to<D>(std::floor(x)); }
#define CUEMU_ROUNDED_ALL(from, F)                \
  CUEMU_ROUNDED(from, F, int, int)                \
  CUEMU_ROUNDED(from, F, uint, unsigned)          \
  CUEMU_ROUNDED(from, F, ll, long long)           \
  CUEMU_ROUNDED(from, F, ull, unsigned long long)
CUEMU_ROUNDED_ALL(float, float)
CUEMU_ROUNDED_ALL(double, double)
#undef CUEMU_ROUNDED_ALL
#undef CUEMU_ROUNDED
static inline float __int2float_rn(int i) { return static_cast<float>(i); }
static inline float __uint2float_rn(unsigned i) { return static_cast<float>(i); }
static inline float __ll2float_rn(long long i) { return static_cast<float>(i); }
static inline double __int2double_rn(int i) { return i; }
