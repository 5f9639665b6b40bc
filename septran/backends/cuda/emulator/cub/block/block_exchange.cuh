// cub::BlockExchange: items of a block's threads in another order, through shared memory.
#pragma once
#include "../util_type.cuh"

namespace cub {

template <class T, int X, int N, bool = false, int Y = 1, int Z = 1, int = 0> class BlockExchange {
  using Block = cuemu::Threads<X, Y, Z>;
  static constexpr const char* kWhat = "cub::BlockExchange";

 public:
  using TempStorage = cuemu::Room<T, Block::count * N>;
  BlockExchange() : temp_(cuemu::own_room<BlockExchange, TempStorage>()) {}
  BlockExchange(TempStorage& temp) : temp_(temp) {}

  template <class U> void StripedToBlocked(const T (&in)[N], U (&out)[N]) { moved(in, out, striped, blocked); }
  template <class U> void BlockedToStriped(const T (&in)[N], U (&out)[N]) { moved(in, out, blocked, striped); }
  void StripedToBlocked(T (&items)[N]) { moved(items, items, striped, blocked); }
  void BlockedToStriped(T (&items)[N]) { moved(items, items, blocked, striped); }
  template <class R> void ScatterToBlocked(T (&items)[N], R (&ranks)[N]) {
    moved(items, items, [&](int, int i) { return static_cast<int>(ranks[i]); }, blocked);
  }
  template <class R> void ScatterToStriped(T (&items)[N], R (&ranks)[N]) {
    moved(items, items, [&](int, int i) { return static_cast<int>(ranks[i]); }, striped);
  }

 private:
  static int blocked(int thread, int i) { return thread * N + i; }
  static int striped(int thread, int i) { return thread + i * Block::count; }
  template <class U, class From, class To> void moved(const T (&in)[N], U (&out)[N], From from, To to) {
    const int me = Block::rank(kWhat);
    for (int i = 0; i < N; i++) temp_.set(from(me, i), in[i]);
    cuemu::block_barrier(kWhat);
    for (int i = 0; i < N; i++) out[i] = temp_.get(to(me, i));
  }

  TempStorage& temp_;
};

}  // namespace cub
