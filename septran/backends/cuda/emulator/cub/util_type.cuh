// Types and memory that CUB's collectives share.
#pragma once
#include <cstring>
#include <type_traits>
#include "../cuda_runtime.h"

namespace cub {

struct NullType {};
template <int A> struct Int2Type { enum { VALUE = A }; };

template <class K, class V> struct KeyValuePair {
  using Key = K;
  using Value = V;
  K key;
  V value;
  KeyValuePair() = default;
  KeyValuePair(const K& k, const V& v) : key(k), value(v) {}
  bool operator!=(const KeyValuePair& other) const { return value != other.value || key != other.key; }
};

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };
template <CacheLoadModifier M, class I> auto ThreadLoad(I at) { return *at; }
template <CacheStoreModifier M, class I, class T> void ThreadStore(I at, T value) { *at = value; }

}  // namespace cub

namespace cuemu {

/// Room for `N` values in memory that nothing constructs, so that it may lie in a union.
template <class T, int N> struct Room {
  struct alignas(T) Raw { char bytes[sizeof(T)]; };
  Raw at[N];
  T get(int i) const {
    Raw copy = at[i];
    T value;
    std::memcpy(static_cast<void*>(&value), &copy, sizeof value);
    return value;
  }
  void set(int i, const T& value) {
    Raw copy;
    std::memcpy(&copy, static_cast<const void*>(&value), sizeof value);
    at[i] = copy;
  }
};

/// Memory of a collective that is given none: its own in each block.
template <class Collective, class Storage> Storage& own_room() {
  static constexpr char site[] = "a collective";
  return *static_cast<Storage*>(shared_array(site, sizeof(Storage), alignof(Storage)));
}

/// A block of X * Y * Z threads, as a collective's template says it.
template <int X, int Y, int Z> struct Threads {
  static constexpr int count = X * Y * Z, warps = (count + kWave - 1) / kWave;
  /// The thread's place in the block; more threads than the collective has memory for are an error.
  static int rank(const char* what) {
    if (thread_linear >= count)
      fail("launch", "%s is made for %d threads, and thread %d of the block calls it", what, count, thread_linear);
    return thread_linear;
  }
};

/// The value of lane `lane + d`, where that is one of the same `width` lanes; else the lane's own.
template <class T> T from_above(T value, int d, int width, const char* what) {
  const int me = lane(), source = me + d;
  return shuffle(~Mask(0), value, source / width == me / width ? source : -1, what);
}
template <class T> T from_below(T value, int d, int width, const char* what) {
  const int me = lane(), source = me - d;
  return shuffle(~Mask(0), value, source >= me / width * width ? source : -1, what);
}
template <class T> T from_lane(T value, int source, int width, const char* what) {
  return shuffle(~Mask(0), value, lane() / width * width + source, what);
}

/// What the first `count` lanes of `width` reduce to, in the first of them; others have parts of it.
template <class T, class F> T reduce_lanes(T value, int count, int width, F op, const char* what) {
  const int place = lane() % width;
  for (int d = 1; d < width; d *= 2) {
    const T other = from_above(value, d, width, what);
    if (place + d < count) value = op(value, other);
  }
  return value;
}
template <class T, class F> T scan_lanes(T value, int width, F op, const char* what) {
  const int place = lane() % width;
  for (int d = 1; d < width; d *= 2) {
    const T other = from_below(value, d, width, what);
    if (place >= d) value = op(other, value);
  }
  return value;
}

}  // namespace cuemu
