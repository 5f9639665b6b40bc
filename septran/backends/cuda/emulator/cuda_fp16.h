// __half and __nv_bfloat16 with their vector types and the intrinsics kernels use.
// Arithmetic rounds after every operation, as the hardware does.
#pragma once
#include <cmath>
#include <type_traits>
#include "intrinsics.h"

#define CUEMU_16BIT(H, HI)                                                                     \
  struct H {                                                                                   \
    uint16_t v;                                                                                \
    H() = default;                                                                             \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                      \
    H(T f) : v(HI::encode(static_cast<float>(f))) {}                                           \
    operator float() const { return HI::decode(v); }                                           \
    H& operator+=(H o) { return *this = H((float)*this + (float)o); }                          \
    H& operator-=(H o) { return *this = H((float)*this - (float)o); }                          \
    H& operator*=(H o) { return *this = H((float)*this * (float)o); }                          \
    H& operator/=(H o) { return *this = H((float)*this / (float)o); }                          \
  };                                                                                           \
  struct alignas(4) H##2 { H x, y; };                                                          \
  inline H operator+(H a, H b) { return H((float)a + (float)b); }                              \
  inline H operator-(H a, H b) { return H((float)a - (float)b); }                              \
  inline H operator*(H a, H b) { return H((float)a * (float)b); }                              \
  inline H operator/(H a, H b) { return H((float)a / (float)b); }                              \
  inline H operator-(H a) { return H(-(float)a); }                                             \
  inline bool operator<(H a, H b) { return (float)a < (float)b; }                              \
  inline bool operator>(H a, H b) { return (float)a > (float)b; }                              \
  inline bool operator<=(H a, H b) { return (float)a <= (float)b; }                            \
  inline bool operator>=(H a, H b) { return (float)a >= (float)b; }                            \
  inline bool operator==(H a, H b) { return (float)a == (float)b; }                            \
  inline bool operator!=(H a, H b) { return (float)a != (float)b; }                            \
  inline H __hadd(H a, H b) { return a + b; }                                                  \
  inline H __hsub(H a, H b) { return a - b; }                                                  \
  inline H __hmul(H a, H b) { return a * b; }                                                  \
  inline H __hdiv(H a, H b) { return a / b; }                                                  \
  inline H __hfma(H a, H b, H c) { return H(fmaf(a, b, c)); }                                  \
  inline H __hneg(H a) { return -a; }                                                          \
  inline H __habs(H a) { return H(fabsf(a)); }                                                 \
  inline H __hmax(H a, H b) { return H(fmaxf(a, b)); }                                         \
  inline H __hmin(H a, H b) { return H(fminf(a, b)); }                                         \
  inline bool __hgt(H a, H b) { return a > b; }                                                \
  inline bool __hlt(H a, H b) { return a < b; }                                                \
  inline bool __hge(H a, H b) { return a >= b; }                                               \
  inline bool __hle(H a, H b) { return a <= b; }                                               \
  inline bool __heq(H a, H b) { return a == b; }                                               \
  inline bool __hne(H a, H b) { return a != b && a == a && b == b; }                           \
  inline bool __hisnan(H a) { return std::isnan((float)a); }                                   \
  inline int __hisinf(H a) { return std::isinf((float)a) ? ((float)a < 0 ? -1 : 1) : 0; }      \
  inline H hfloor(H a) { return H(floorf(a)); }                                                \
  inline H hceil(H a) { return H(ceilf(a)); }                                                  \
  inline H hrint(H a) { return H(rintf(a)); }                                                  \
  inline H htrunc(H a) { return H(truncf(a)); }                                                \
  inline H hexp(H a) { return H(expf(a)); }                                                    \
  inline H hlog(H a) { return H(logf(a)); }                                                    \
  inline H hsqrt(H a) { return H(sqrtf(a)); }                                                  \
  inline H hrsqrt(H a) { return H(1.f / sqrtf(a)); }                                           \
  inline H hrcp(H a) { return H(1.f / (float)a); }                                             \
  inline H hsin(H a) { return H(sinf(a)); }                                                    \
  inline H hcos(H a) { return H(cosf(a)); }                                                    \
  inline H htanh(H a) { return H(tanhf(a)); }                                                  \
  inline H hexp2(H a) { return H(exp2f(a)); }                                                  \
  inline H##2 __hadd2(H##2 a, H##2 b) { return {a.x + b.x, a.y + b.y}; }                       \
  inline H##2 __hsub2(H##2 a, H##2 b) { return {a.x - b.x, a.y - b.y}; }                       \
  inline H##2 __hmul2(H##2 a, H##2 b) { return {a.x * b.x, a.y * b.y}; }                       \
  inline H##2 __hfma2(H##2 a, H##2 b, H##2 c) {                                                \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                     \
  }                                                                                            \
  inline H##2 __hmax2(H##2 a, H##2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }         \
  inline H##2 __hmin2(H##2 a, H##2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }         \
  inline H##2 h2exp(H##2 a) { return {hexp(a.x), hexp(a.y)}; }                                 \
  inline H##2 h2exp2(H##2 a) { return {hexp2(a.x), hexp2(a.y)}; }                              \
  inline H##2 h2log(H##2 a) { return {hlog(a.x), hlog(a.y)}; }                                 \
  inline H##2 h2sqrt(H##2 a) { return {hsqrt(a.x), hsqrt(a.y)}; }                              \
  inline H##2 h2rsqrt(H##2 a) { return {hrsqrt(a.x), hrsqrt(a.y)}; }                           \
  inline H##2 h2rcp(H##2 a) { return {hrcp(a.x), hrcp(a.y)}; }                                 \
  inline H##2 __h2div(H##2 a, H##2 b) { return {a.x / b.x, a.y / b.y}; }                       \
  inline H##2 __hneg2(H##2 a) { return {-a.x, -a.y}; }                                         \
  inline H##2 __habs2(H##2 a) { return {__habs(a.x), __habs(a.y)}; }                           \
  inline H##2 __hgt2(H##2 a, H##2 b) { return {H(a.x > b.x), H(a.y > b.y)}; }                  \
  inline H##2 __hlt2(H##2 a, H##2 b) { return {H(a.x < b.x), H(a.y < b.y)}; }                  \
  inline H##2 operator+(H##2 a, H##2 b) { return __hadd2(a, b); }                              \
  inline H##2 operator-(H##2 a, H##2 b) { return __hsub2(a, b); }                              \
  inline H##2 operator*(H##2 a, H##2 b) { return __hmul2(a, b); }
CUEMU_16BIT(__half, cuemu::Half)
CUEMU_16BIT(__nv_bfloat16, cuemu::Bfloat)
#undef CUEMU_16BIT
namespace cuemu {
template <> constexpr bool kStoredFloat<__half> = true;
template <> constexpr bool kStoredFloat<__nv_bfloat16> = true;
}  // namespace cuemu
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline float __half2float(half h) { return h; }
inline half __float2half(float f) { return half(f); }
inline half __float2half_rn(float f) { return half(f); }
inline half __int2half_rn(int i) { return half(i); }
inline int __half2int_rz(half h) { return __float2int_rz(h); }
inline int __half2int_rn(half h) { return __float2int_rn(h); }
inline int __half2int_rd(half h) { return __float2int_rd(h); }
inline int __half2int_ru(half h) { return __float2int_ru(h); }
inline float2 __half22float2(half2 h) { return {h.x, h.y}; }
inline half2 __float22half2_rn(float2 f) { return {half(f.x), half(f.y)}; }
inline half2 __floats2half2_rn(float a, float b) { return {half(a), half(b)}; }
inline half2 __float2half2_rn(float a) { return {half(a), half(a)}; }
inline half2 __halves2half2(half a, half b) { return {a, b}; }
inline half2 __half2half2(half a) { return {a, a}; }
inline half __low2half(half2 h) { return h.x; }
inline half __high2half(half2 h) { return h.y; }
inline float __low2float(half2 h) { return h.x; }
inline float __high2float(half2 h) { return h.y; }
inline unsigned short __half_as_ushort(half h) { return h.v; }
inline short __half_as_short(half h) { return static_cast<short>(h.v); }
inline half __short_as_half(short u) { half h; h.v = static_cast<unsigned short>(u); return h; }
inline half2 make_half2(half a, half b) { return {a, b}; }
inline half2 __lows2half2(half2 a, half2 b) { return {a.x, b.x}; }
inline half2 __highs2half2(half2 a, half2 b) { return {a.y, b.y}; }
inline half2 __low2half2(half2 a) { return {a.x, a.x}; }
inline half2 __high2half2(half2 a) { return {a.y, a.y}; }
inline half2 __lowhigh2highlow(half2 a) { return {a.y, a.x}; }
inline unsigned __half2uint_rz(half h) { return __float2uint_rz(h); }
inline unsigned __half2uint_rn(half h) { return __float2uint_rn(h); }
inline half __ushort_as_half(unsigned short u) { half h; h.v = u; return h; }
inline float __bfloat162float(nv_bfloat16 h) { return h; }
inline nv_bfloat16 __float2bfloat16(float f) { return nv_bfloat16(f); }
inline nv_bfloat16 __float2bfloat16_rn(float f) { return nv_bfloat16(f); }
inline float2 __bfloat1622float2(nv_bfloat162 h) { return {h.x, h.y}; }
inline nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {nv_bfloat16(a), nv_bfloat16(b)}; }
inline nv_bfloat162 __float22bfloat162_rn(float2 f) { return {nv_bfloat16(f.x), nv_bfloat16(f.y)}; }
inline unsigned short __bfloat16_as_ushort(nv_bfloat16 h) { return h.v; }
inline nv_bfloat16 __ushort_as_bfloat16(unsigned short u) { nv_bfloat16 h; h.v = u; return h; }
inline nv_bfloat162 __halves2bfloat162(nv_bfloat16 a, nv_bfloat16 b) { return {a, b}; }
inline nv_bfloat162 __bfloat162bfloat162(nv_bfloat16 a) { return {a, a}; }
inline nv_bfloat162 __float2bfloat162_rn(float a) { return {nv_bfloat16(a), nv_bfloat16(a)}; }
inline nv_bfloat162 make_bfloat162(nv_bfloat16 a, nv_bfloat16 b) { return {a, b}; }
inline nv_bfloat16 __low2bfloat16(nv_bfloat162 h) { return h.x; }
inline nv_bfloat16 __high2bfloat16(nv_bfloat162 h) { return h.y; }
inline float __low2float(nv_bfloat162 h) { return h.x; }
inline float __high2float(nv_bfloat162 h) { return h.y; }
