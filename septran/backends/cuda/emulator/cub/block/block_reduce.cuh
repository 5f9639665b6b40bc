// cub::BlockReduce: what a block's values reduce to, in its first thread. Warps reduce on their own, their results meet in shared
// memory, so that memory used again without a barrier between is a race, as it is on the device.
#pragma once
#include "../warp/warp_reduce.cuh"

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
  BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC,
};

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0> class BlockReduce {
  using Block = cuemu::Threads<X, Y, Z>;
  static constexpr const char* kWhat = "cub::BlockReduce";

 public:
  using TempStorage = cuemu::Room<T, Block::warps>;
  BlockReduce() : temp_(cuemu::own_room<BlockReduce, TempStorage>()) {}
  BlockReduce(TempStorage& temp) : temp_(temp) {}

  template <class F> T Reduce(T value, F op) { return Reduce(value, op, Block::count); }
  /// Of the first `valid` threads.
  template <class F> T Reduce(T value, F op, int valid) {
    const int me = Block::rank(kWhat), warp = me / cuemu::kWave, first = warp * cuemu::kWave;
    const int here = valid - first;
    value = cuemu::reduce_lanes(value, here < cuemu::kWave ? here : cuemu::kWave, cuemu::kWave, op, kWhat);
    if (me == first) temp_.set(warp, value);
    cuemu::block_barrier(kWhat);
    if (me == 0)
      for (int w = 1; w < Block::warps && w * cuemu::kWave < valid; w++) value = op(value, temp_.get(w));
    return value;
  }
  template <int N, class F> T Reduce(T (&values)[N], F op) {
    T value = values[0];
    for (int i = 1; i < N; i++) value = op(value, values[i]);
    return Reduce(value, op);
  }
  T Sum(T value) { return Reduce(value, cub::Sum()); }
  T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
  template <int N> T Sum(T (&values)[N]) { return Reduce(values, cub::Sum()); }

 private:
  TempStorage& temp_;
};

}  // namespace cub
