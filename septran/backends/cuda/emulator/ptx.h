// What inline PTX does, for the C++ that septran/backends/cuda/ptx writes in its place (PTX ISA, "Instruction Set").
#pragma once
#include <cmath>
#include <type_traits>
#include "cuda_pipeline.h"

namespace cuemu::ptx {

// ---- registers: bits of one size, read as the type an instruction names
template <class T> inline constexpr bool is_pointer = std::is_pointer_v<T>;

/// A register's bits as a T; a wider integer register gives its low bits, a narrower one is extended.
template <class T, class V> T as(V v) {
  if constexpr (std::is_same_v<T, V>) return v;
  else if constexpr (std::is_same_v<T, bool> || std::is_same_v<V, bool>) return static_cast<T>(v);
  else if constexpr (sizeof(T) == sizeof(V)) return bits<T>(v);
  else if constexpr (std::is_integral_v<T> && std::is_integral_v<V>) return static_cast<T>(v);
  else if constexpr (sizeof(V) == 8 && std::is_integral_v<V> && std::is_same_v<T, float>) return bits<float>(static_cast<uint32_t>(v));
  else static_assert(sizeof(T) == 0, "an operand of inline PTX has another size than its instruction");
}
/// Give a register a value.
template <class V, class T> void set(V& v, T value) {
  if constexpr (is_pointer<V>) v = reinterpret_cast<V>(static_cast<uint64_t>(value));
  else if constexpr (std::is_enum_v<V>) v = static_cast<V>(value);
  else if constexpr (sizeof(T) == sizeof(V) && !std::is_same_v<T, bool>) v = bits<V>(value);
  else if constexpr (std::is_arithmetic_v<V> && std::is_integral_v<T> && std::is_integral_v<V>) v = static_cast<V>(value);
  else static_assert(sizeof(T) == 0, "an operand of inline PTX has another size than its instruction");
}
/// An expression as the register of its constraint.
template <class C, class E> C given(const E& e) {
  if constexpr (std::is_array_v<E>) return reinterpret_cast<C>(&e[0]);
  else if constexpr (is_pointer<E>) return static_cast<C>(reinterpret_cast<uint64_t>(e));
  else if constexpr (std::is_enum_v<E>) return static_cast<C>(e);
  else if constexpr (std::is_floating_point_v<C> && std::is_arithmetic_v<E>) return static_cast<C>(e);
  else if constexpr (std::is_integral_v<E>) return static_cast<C>(e);
  else return bits<C>(e);
}

template <class T> struct Unsigned { using type = std::make_unsigned_t<T>; };
template <class T> typename Unsigned<T>::type low(T v) { return static_cast<typename Unsigned<T>::type>(v); }
template <class T> struct Doubled;
template <> struct Doubled<int16_t> { using type = int32_t; };
template <> struct Doubled<uint16_t> { using type = uint32_t; };
template <> struct Doubled<int32_t> { using type = int64_t; };
template <> struct Doubled<uint32_t> { using type = uint64_t; };
template <class T> using Twice = typename Doubled<T>::type;

inline uint32_t joined(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }
inline uint64_t joined(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }

// ---- integers
template <class T> T left(T v, uint32_t n) { return n >= 8 * sizeof(T) ? T(0) : static_cast<T>(v << n); }
template <class T> T right(T v, uint32_t n) {
  if (n >= 8 * sizeof(T)) return std::is_signed_v<T> && v < 0 ? T(-1) : T(0);
  return static_cast<T>(v >> n);
}
inline uint32_t funnel_left(uint32_t a, uint32_t b, uint32_t n) { return static_cast<uint32_t>(joined(a, b) << n >> 32); }
inline uint32_t funnel_right(uint32_t a, uint32_t b, uint32_t n) { return static_cast<uint32_t>(joined(a, b) >> n); }
template <class T> uint32_t leading_zeros(T v) {
  uint32_t n = 0;
  for (T bit = T(1) << (8 * sizeof(T) - 1); bit && !(v & bit); bit >>= 1) n++;
  return n;
}
inline uint32_t reversed(uint32_t v) {
  uint32_t r = 0;
  for (int i = 0; i < 32; i++) r |= (v >> i & 1u) << (31 - i);
  return r;
}
template <class T> T field(T v, uint32_t at, uint32_t count) {
  at &= 0xFF, count &= 0xFF;
  const uint64_t all = std::is_signed_v<T> ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint32_t>(v);
  if (!count) return 0;
  const uint64_t found = at > 63 ? all >> 63 : all >> at;
  if (count >= 32) return static_cast<T>(found);
  const uint32_t part = static_cast<uint32_t>(found) & ((1u << count) - 1);
  return static_cast<T>(std::is_signed_v<T> && part >> (count - 1) ? part | ~0u << count : part);
}
inline uint32_t with_field(uint32_t part, uint32_t v, uint32_t at, uint32_t count) {
  at &= 0xFF, count &= 0xFF;
  for (uint32_t i = 0; i < count && at + i < 32; i++) v = (v & ~(1u << (at + i))) | (i < 32 ? part >> i & 1u : 0u) << (at + i);
  return v;
}
inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t how) {
  const uint64_t all = joined(a, b);
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) {
    const uint32_t pick = how >> 4 * i & 0xF;
    uint32_t byte = static_cast<uint32_t>(all >> 8 * (pick & 7)) & 0xFF;
    if (pick & 8) byte = byte & 0x80 ? 0xFF : 0;
    r |= byte << 8 * i;
  }
  return r;
}
inline uint32_t logic(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t r = 0;
  for (int i = 0; i < 8; i++)
    if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return r;
}
template <class T, class S> S dot4(uint32_t a, uint32_t b, S c) {
  for (int i = 0; i < 4; i++) c += static_cast<S>(static_cast<T>(a >> 8 * i)) * static_cast<S>(static_cast<T>(b >> 8 * i));
  return c;
}

// ---- floats
inline float flushed(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.f, v) : v; }
CUEMU_ALONE float alone_add(float a, float b) { return a + b; }
CUEMU_ALONE float alone_mul(float a, float b) { return a * b; }
CUEMU_ALONE double alone_add(double a, double b) { return a + b; }
CUEMU_ALONE double alone_mul(double a, double b) { return a * b; }
/// `f` of each 16-bit number of registers of one or two.
template <class F, class Of, class R, class... More> R each_half(Of f, R a, More... more) {
  R out = 0;
  for (size_t i = 0; i < sizeof(R) / 2; i++) {
    const auto part = [i](R v) { return static_cast<double>(F::decode(static_cast<uint16_t>(v >> 16 * i))); };
    out = static_cast<R>(out | static_cast<R>(static_cast<R>(F::encode(static_cast<float>(f(part(a), part(more)...)))) << 16 * i));
  }
  return out;
}

// ---- memory
inline void* in_shared_memory(uint32_t address) { return shared_pointer(address); }
inline void* in_memory(uint64_t address) { return reinterpret_cast<void*>(address); }
template <class T, int N> void aligned(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % (sizeof(T) * N)) fail("alignment", "an access of %zu bytes on an address that is no multiple of it", sizeof(T) * N);
}
template <class T, int N> const T* load(const void* p) {
  aligned<T, N>(p);
  return static_cast<const T*>(p);
}
template <class T, int N> const T* load_constant(const void* p) {
  aligned<T, N>(p);
  read_only(p, sizeof(T) * N);
  return static_cast<const T*>(p);
}
template <class T, int N> T* place(void* p) {
  aligned<T, N>(p);
  return static_cast<T*>(p);
}
inline void copy_async(void* dst, const void* src, int bytes, int valid, int only) {
  if (only && bytes != only) fail("async", "cp.async.cg of %d bytes; it copies %d", bytes, only);
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("async", "cp.async of %d bytes; it copies 4, 8 or 16", bytes);
  async_copy(dst, src, bytes, valid);
}
/// Arrive `times` at an mbarrier, the first time with `bytes` to wait for; its state before.
inline uint64_t arrive(void* barrier, int bytes, int times) {
  if (times < 1) fail("async", "%d arrivals at an mbarrier", times);
  const uint64_t state = mbarrier_token(barrier);
  for (int i = 0; i < times; i++) mbarrier_arrive(barrier, i ? 0 : bytes);
  return state;
}

struct StoredMatrix { void* row; uint32_t values[4]; };
/// Lane 8 * q + r names where row r of matrix q goes.
template <int COUNT> void store_matrix(void* row, const uint32_t (&values)[COUNT], bool transposed, const char* where) {
  StoredMatrix mine{row, {}};
  for (int i = 0; i < COUNT; i++) mine.values[i] = values[i];
  warp_collective(~Mask(0), where, mine, [transposed](StoredMatrix** all) {
    for (int q = 0; q < COUNT; q++)
      for (int l = 0; l < 32; l++)
        for (int h = 0; h < 2; h++) {
          const int i = transposed ? l % 4 * 2 + h : l / 4, j = transposed ? l / 4 : l % 4 * 2 + h;
          static_cast<uint16_t*>(all[8 * q + i]->row)[j] = static_cast<uint16_t>(all[l]->values[q] >> 16 * h);
        }
  });
}

// ---- tensor cores
struct Bytes { int* d; const uint32_t *a, *b; };
/// D[16,8] += A[16,32] B[32,8] of bytes, four in a register.
template <class L, class R> void multiply_bytes(int* d, const uint32_t* a, const uint32_t* b, const char* where) {
  Bytes mine{d, a, b};
  warp_collective(~Mask(0), where, mine, [](Bytes** all) {
    int A[16][32], B[32][8];
    for (int l = 0; l < 32; l++)
      for (int k = 0; k < 4; k++) {
        const int g = l / 4, t = l % 4 * 4 + k;
        for (int r = 0; r < 4; r++) A[g + (r & 1) * 8][t + (r >> 1) * 16] = static_cast<L>(all[l]->a[r] >> 8 * k);
        for (int r = 0; r < 2; r++) B[t + r * 16][g] = static_cast<R>(all[l]->b[r] >> 8 * k);
      }
    for (int l = 0; l < 32; l++)
      for (int r = 0; r < 4; r++) {
        const int i = l / 4 + (r >> 1) * 8, j = l % 4 * 2 + (r & 1);
        uint32_t sum = static_cast<uint32_t>(all[l]->d[r]);
        for (int k = 0; k < 32; k++) sum += static_cast<uint32_t>(A[i][k] * B[k][j]);
        all[l]->d[r] = static_cast<int>(sum);
      }
  });
}

}  // namespace cuemu::ptx
