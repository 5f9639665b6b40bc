// torch's extension interface as C++ extensions for the processor use it: tensors that they are given and allocate, accessors,
// loops over threads, dispatch by dtype, checks. What computes (torch::matmul, a + b, x.sum()) is left out: a kernel does that.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <omp.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// the static host's (septran/host/host.c); a program that ThreadSanitizer watches, or that inputs are sought with, has no such host
extern "C" {
void st_say(const char* words);
void st_fresh(void* memory, size_t bytes);
}

namespace septran_tensors {
constexpr bool kOnDevice = false;
constexpr int kFound = 86, kThrew = 97;  // exit statuses: something was found; an exception left the host function

/// Say what is wrong, in printf's words, and end the process.
[[noreturn]] __attribute__((format(printf, 2, 3))) inline void fail(const char* kind, const char* format, ...) {
#ifndef SEPTRAN_WATCHED
  char message[600];
  va_list rest;
  va_start(rest, format);
  vsnprintf(message, sizeof message, format, rest);
  va_end(rest);
  std::string said = "{\"errors\": [{\"kind\": \"" + std::string(kind) + "\", \"message\": \"";
  for (const char* s = message; *s; s++) {
    if (*s == '"' || *s == '\\') said += '\\';
    if (static_cast<unsigned char>(*s) >= 32) said += *s;
  }
  st_say((said + "\"}]}").c_str());
#endif
  std::_Exit(kFound);
}

/// Memory as torch aligns it, which nobody has written.
inline void* device_memory(size_t bytes) {
  const size_t unit = 64;
  void* p = aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (!p) fail("memory", "a tensor of %zu bytes", bytes);
#ifndef SEPTRAN_WATCHED
  st_fresh(p, bytes);
#endif
  return p;
}
inline void free_device_memory(void* p) { free(p); }

struct Output {
  void* data;
  size_t bytes;
};
/// Run a host function; what it throws ends the process.
template <class F> void judged(std::initializer_list<Output>, F call) {
  try {
    call();
  } catch (...) {
    std::_Exit(kThrew);
  }
}

/// A float of 16 bits that computes as a float of 32 and is rounded where it is stored. Bits: how.
template <class Bits> struct Short {
  uint16_t x;
  Short() = default;
  template <class T> requires std::is_arithmetic_v<T> Short(T f) : x(Bits::encode(static_cast<float>(f))) {}
  operator float() const { return Bits::decode(x); }
  Short& operator+=(Short o) { return *this = Short(float(*this) + float(o)); }
  Short& operator-=(Short o) { return *this = Short(float(*this) - float(o)); }
  Short& operator*=(Short o) { return *this = Short(float(*this) * float(o)); }
  Short& operator/=(Short o) { return *this = Short(float(*this) / float(o)); }
};
template <class B> Short<B> operator+(Short<B> a, Short<B> b) { return float(a) + float(b); }
template <class B> Short<B> operator-(Short<B> a, Short<B> b) { return float(a) - float(b); }
template <class B> Short<B> operator*(Short<B> a, Short<B> b) { return float(a) * float(b); }
template <class B> Short<B> operator/(Short<B> a, Short<B> b) { return float(a) / float(b); }
template <class B> Short<B> operator-(Short<B> a) { return -float(a); }

template <class To, class From> To bits(From from) {
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
struct HalfBits {
  static uint16_t encode(float f) { return bits<uint16_t>(static_cast<_Float16>(f)); }
  static float decode(uint16_t u) { return bits<_Float16>(u); }
};
struct BFloat16Bits {
  static uint16_t encode(float f) {
    if (f != f) return 0x7fc0;
    const uint32_t u = bits<uint32_t>(f);
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  static float decode(uint16_t u) { return bits<float>(static_cast<uint32_t>(u) << 16); }
};
}  // namespace septran_tensors

namespace c10 {
using Half = septran_tensors::Short<septran_tensors::HalfBits>;
using BFloat16 = septran_tensors::Short<septran_tensors::BFloat16Bits>;
}  // namespace c10
#include "tensors/tensor.h"
#include "tensors/dispatch.h"
#include "tensors/bindings.h"
#define TORCH_WARN(...) ((void)0)
#define C10_LIKELY(x) __builtin_expect(static_cast<bool>(x), 1)
#define C10_UNLIKELY(x) __builtin_expect(static_cast<bool>(x), 0)
#define C10_RESTRICT __restrict

namespace c10 {
/// The numbers of a range, for `for`.
template <class T> struct Counted {
  struct At {
    T n;
    T operator*() const { return n; }
    At& operator++() { return ++n, *this; }
    bool operator!=(const At& o) const { return n < o.n; }
  };
  T first, last;
  At begin() const { return {first}; }
  At end() const { return {last}; }
};
template <class T> Counted<T> irange(T last) { return {T(0), last}; }
template <class A, class B> Counted<B> irange(A first, B last) { return {static_cast<B>(first), last}; }
struct NoGradGuard {
  NoGradGuard() {}
};
}  // namespace c10

namespace at {
inline int get_num_threads() { return omp_get_max_threads(); }
inline int get_thread_num() { return omp_get_thread_num(); }
inline bool in_parallel_region() { return omp_in_parallel(); }
template <class T> T divup(T a, T b) { return (a + b - 1) / b; }

/// As torch's with OpenMP: one piece a thread, none smaller than the grain, all of it at once where it is no larger.
template <class F> void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  const int64_t count = end - begin;
  if (count <= 0) return;
  if (count <= grain || count == 1 || in_parallel_region() || get_num_threads() == 1) {
    f(begin, end);
    return;
  }
#pragma omp parallel
  {
    int64_t threads = omp_get_num_threads();
    if (grain > 0) threads = std::min(threads, divup(count, grain));
    const int64_t each = divup(count, threads), first = begin + omp_get_thread_num() * each;
    try {
      if (first < end) f(first, std::min(end, first + each));
    } catch (...) {
      std::_Exit(septran_tensors::kThrew);
    }
  }
}
template <class T, class F, class Join>
T parallel_reduce(int64_t begin, int64_t end, int64_t grain, const T identity, const F& f, const Join& join) {
  struct Part {
    T value;
  };
  std::vector<Part> parts(static_cast<size_t>(std::max(get_num_threads(), 1)), Part{identity});
  parallel_for(begin, end, grain, [&](int64_t first, int64_t last) { parts[get_thread_num()].value = f(first, last, identity); });
  T result = identity;
  for (const Part& part : parts) result = join(result, part.value);
  return result;
}

/// What torch sums in, on the processor.
template <class T, bool Cuda> struct AccumulateType {
  static_assert(!Cuda, "of the processor");
  using type = std::conditional_t<std::is_same_v<T, bool>, bool, std::conditional_t<std::is_integral_v<T>, int64_t, double>>;
};
template <> struct AccumulateType<Half, false> { using type = float; };
template <> struct AccumulateType<BFloat16, false> { using type = float; };
template <class T, bool Cuda> using acc_type = typename AccumulateType<T, Cuda>::type;
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
}  // namespace at
namespace torch {
using namespace at;
}  // namespace torch
