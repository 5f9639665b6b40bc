// cub::BlockLoad: a block's tile of memory, N items in a row for each thread (in stripes with BLOCK_LOAD_STRIPED).
#pragma once
#include "block_exchange.cuh"

namespace cub {

enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};

template <class T, int X, int N, BlockLoadAlgorithm A = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0> class BlockLoad {
  using Block = cuemu::Threads<X, Y, Z>;
  using Exchange = BlockExchange<T, X, N, false, Y, Z>;
  static constexpr bool kExchanged = A >= BLOCK_LOAD_TRANSPOSE, kStriped = A == BLOCK_LOAD_STRIPED || kExchanged;
  struct Nothing { char unused; };

 public:
  using TempStorage = std::conditional_t<kExchanged, typename Exchange::TempStorage, Nothing>;
  BlockLoad() : temp_(cuemu::own_room<BlockLoad, TempStorage>()) {}
  BlockLoad(TempStorage& temp) : temp_(temp) {}

  template <class I> void Load(I from, T (&items)[N]) { Load(from, items, Block::count * N); }
  /// What lies behind `valid` items is not touched.
  template <class I> void Load(I from, T (&items)[N], int valid) {
    const int me = Block::rank("cub::BlockLoad");
    for (int i = 0; i < N; i++) {
      const int at = kStriped ? me + i * Block::count : me * N + i;
      if (at < valid) items[i] = from[at];
    }
    if constexpr (kExchanged) Exchange(temp_).StripedToBlocked(items);
  }
  template <class I, class D> void Load(I from, T (&items)[N], int valid, D otherwise) {
    for (int i = 0; i < N; i++) items[i] = otherwise;
    Load(from, items, valid);
  }

 private:
  TempStorage& temp_;
};

}  // namespace cub
