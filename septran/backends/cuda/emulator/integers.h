// Integer and bit intrinsics, and what reads a double's bits (CUDA math API: integer, type casting, SIMD dot products).
#pragma once
#include <cmath>
#include "types.h"

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned long long __brevll(unsigned long long x) {
  unsigned long long r = 0;
  for (int i = 0; i < 64; i++) r |= (x >> i & 1) << (63 - i);
  return r;
}
static inline unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }
/// Bytes of y:x picked by the nibbles of s; a nibble's high bit repeats the byte's sign.
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  const uint64_t both = static_cast<uint64_t>(y) << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned pick = s >> 4 * i & 15;
    const unsigned byte = static_cast<unsigned>(both >> 8 * (pick & 7) & 255);
    r |= (pick & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return r;
}
/// The upper or the lower 32 bits of hi:lo, shifted by n modulo 32, or (c) by at most 32.
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
  return static_cast<unsigned>((static_cast<uint64_t>(hi) << 32 | lo) << (n & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
  return static_cast<unsigned>((static_cast<uint64_t>(hi) << 32 | lo) >> (n & 31));
}
static inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n) {
  return n >= 32 ? lo : __funnelshift_l(lo, hi, n);
}
static inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) {
  return n >= 32 ? hi : __funnelshift_r(lo, hi, n);
}
static inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
static inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(static_cast<__int128>(a) * b >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
/// The lower 32 bits of a product of the lower 24 bits of each.
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFFu) * (b & 0xFFFFFFu); }
static inline int __mul24(int a, int b) {
  const auto low = [](int x) { return static_cast<int64_t>((x & 0xFFFFFF) ^ 0x800000) - 0x800000; };
  return static_cast<int>(static_cast<uint32_t>(low(a) * low(b)));
}
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
static inline unsigned __sad(int a, int b, unsigned c) {
  return (a > b ? static_cast<unsigned>(a) - static_cast<unsigned>(b) : static_cast<unsigned>(b) - static_cast<unsigned>(a)) + c;
}
static inline int __hadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b) >> 1); }
static inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b + 1) >> 1); }
static inline unsigned __uhadd(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) + b) >> 1); }
/// Four products of bytes, added to c.
static inline int __dp4a(int a, int b, int c) {
  uint32_t sum = static_cast<uint32_t>(c);
  for (int i = 0; i < 4; i++)
    sum += static_cast<uint32_t>(static_cast<int8_t>(a >> 8 * i) * static_cast<int8_t>(b >> 8 * i));
  return static_cast<int>(sum);
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}

static inline long long __double_as_longlong(double d) { return cuemu::bits<long long>(d); }
static inline double __longlong_as_double(long long i) { return cuemu::bits<double>(i); }
static inline int __double2loint(double d) { return static_cast<int>(cuemu::bits<uint64_t>(d)); }
static inline int __double2hiint(double d) { return static_cast<int>(cuemu::bits<uint64_t>(d) >> 32); }
static inline double __hiloint2double(int hi, int lo) {
  return cuemu::bits<double>(static_cast<uint64_t>(static_cast<uint32_t>(hi)) << 32 | static_cast<uint32_t>(lo));
}
