// cub::BlockStore: a block's tile of memory from N items in a row of each thread (in stripes with BLOCK_STORE_STRIPED).
#pragma once
#include "block_exchange.cuh"

namespace cub {

enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

template <class T, int X, int N, BlockStoreAlgorithm A = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0> class BlockStore {
  using Block = cuemu::Threads<X, Y, Z>;
  using Exchange = BlockExchange<T, X, N, false, Y, Z>;
  static constexpr bool kExchanged = A >= BLOCK_STORE_TRANSPOSE, kStriped = A == BLOCK_STORE_STRIPED || kExchanged;
  struct Nothing { char unused; };

 public:
  using TempStorage = std::conditional_t<kExchanged, typename Exchange::TempStorage, Nothing>;
  BlockStore() : temp_(cuemu::own_room<BlockStore, TempStorage>()) {}
  BlockStore(TempStorage& temp) : temp_(temp) {}

  template <class I> void Store(I to, T (&items)[N]) { Store(to, items, Block::count * N); }
  template <class I> void Store(I to, T (&items)[N], int valid) {
    const int me = Block::rank("cub::BlockStore");
    T moved[N];
    for (int i = 0; i < N; i++) moved[i] = items[i];
    if constexpr (kExchanged) Exchange(temp_).BlockedToStriped(moved);
    for (int i = 0; i < N; i++) {
      const int at = kStriped ? me + i * Block::count : me * N + i;
      if (at < valid) to[at] = moved[i];
    }
  }

 private:
  TempStorage& temp_;
};

}  // namespace cub
