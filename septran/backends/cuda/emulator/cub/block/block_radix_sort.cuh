// cub::BlockRadixSort: keys of a block in order, equal ones in the order they came in; with values beside them.
#pragma once
#include "../util_type.cuh"

namespace cub {

template <class K, int X, int N, class V = NullType, int = 4, bool = true, int = 0, int = 0, int Y = 1, int Z = 1, int = 0>
class BlockRadixSort {
  using Block = cuemu::Threads<X, Y, Z>;
  static constexpr const char* kWhat = "cub::BlockRadixSort";
  static constexpr int kItems = Block::count * N;
  using Bits = std::conditional_t<sizeof(K) == 1, uint8_t, std::conditional_t<sizeof(K) == 2, uint16_t, std::conditional_t<sizeof(K) == 4, uint32_t, uint64_t>>>;

 public:
  struct TempStorage {
    cuemu::Room<Bits, kItems> bits;
    cuemu::Room<K, kItems> keys;
    cuemu::Room<V, kItems> values;
  };
  BlockRadixSort() : temp_(cuemu::own_room<BlockRadixSort, TempStorage>()) {}
  BlockRadixSort(TempStorage& temp) : temp_(temp) {}

  void Sort(K (&keys)[N], int first = 0, int last = sizeof(K) * 8) { sorted(keys, none_, first, last, false, false); }
  void Sort(K (&keys)[N], V (&values)[N], int first = 0, int last = sizeof(K) * 8) { sorted(keys, values, first, last, false, false); }
  void SortDescending(K (&keys)[N], int first = 0, int last = sizeof(K) * 8) { sorted(keys, none_, first, last, true, false); }
  void SortDescending(K (&keys)[N], V (&values)[N], int first = 0, int last = sizeof(K) * 8) { sorted(keys, values, first, last, true, false); }
  void SortBlockedToStriped(K (&keys)[N], int first = 0, int last = sizeof(K) * 8) { sorted(keys, none_, first, last, false, true); }
  void SortBlockedToStriped(K (&keys)[N], V (&values)[N], int first = 0, int last = sizeof(K) * 8) { sorted(keys, values, first, last, false, true); }
  void SortDescendingBlockedToStriped(K (&keys)[N], int first = 0, int last = sizeof(K) * 8) { sorted(keys, none_, first, last, true, true); }
  void SortDescendingBlockedToStriped(K (&keys)[N], V (&values)[N], int first = 0, int last = sizeof(K) * 8) { sorted(keys, values, first, last, true, true); }

 private:
  /// Bits that are in the order of the keys; the two zeros of floats are one.
  static Bits ordered(K key, int first, int last) {
    constexpr Bits sign = Bits(1) << (sizeof(K) * 8 - 1);
    constexpr bool integer = std::is_integral_v<K>;
    Bits bits;
    std::memcpy(&bits, static_cast<const void*>(&key), sizeof bits);
    if constexpr (!integer) {
      if (bits == sign) bits = 0;
      bits = bits & sign ? Bits(~bits) : Bits(bits ^ sign);
    } else if constexpr (std::is_signed_v<K>) bits ^= sign;
    const int width = last - first;
    bits = Bits(bits >> first);
    return width < int(sizeof(K) * 8) ? Bits(bits & ((Bits(1) << width) - 1)) : bits;
  }
  template <class W> void sorted(K (&keys)[N], W (&values)[N], int first, int last, bool descending, bool striped) {
    const int me = Block::rank(kWhat);
    Bits mine[N];
    int place[N];
    for (int i = 0; i < N; i++) {
      mine[i] = ordered(keys[i], first, last);
      if (descending) mine[i] = Bits(~mine[i]);
      temp_.bits.set(me * N + i, mine[i]);
      place[i] = 0;
    }
    cuemu::block_barrier(kWhat);
    for (int at = 0; at < kItems; at++) {
      const Bits other = temp_.bits.get(at);
      for (int i = 0; i < N; i++) place[i] += other < mine[i] || (other == mine[i] && at < me * N + i);
    }
    for (int i = 0; i < N; i++) {
      temp_.keys.set(place[i], keys[i]);
      if constexpr (!std::is_same_v<W, Absent>) temp_.values.set(place[i], values[i]);
    }
    cuemu::block_barrier(kWhat);
    for (int i = 0; i < N; i++) {
      const int at = striped ? me + i * Block::count : me * N + i;
      keys[i] = temp_.keys.get(at);
      if constexpr (!std::is_same_v<W, Absent>) values[i] = temp_.values.get(at);
    }
  }

  struct Absent {};
  Absent none_[N];
  TempStorage& temp_;
};

}  // namespace cub
