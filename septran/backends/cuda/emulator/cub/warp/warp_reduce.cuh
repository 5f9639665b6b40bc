// cub::WarpReduce: what lanes reduce to, in the first of them.
#pragma once
#include "../thread/thread_operators.cuh"

namespace cub {

template <class T, int N = 32, int = 0> class WarpReduce {
  static_assert(N > 0 && N <= 32, "a warp has 32 threads");
  static constexpr const char* kWhat = "cub::WarpReduce";

 public:
  struct TempStorage { char unused; };
  WarpReduce() = default;
  WarpReduce(TempStorage&) {}
  template <class F> T Reduce(T value, F op) { return cuemu::reduce_lanes(value, N, kWidth, op, kWhat); }
  template <class F> T Reduce(T value, F op, int valid) { return cuemu::reduce_lanes(value, valid < N ? valid : N, kWidth, op, kWhat); }
  T Sum(T value) { return Reduce(value, cub::Sum()); }
  T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
  T Max(T value) { return Reduce(value, cub::Max()); }
  T Max(T value, int valid) { return Reduce(value, cub::Max(), valid); }
  T Min(T value) { return Reduce(value, cub::Min()); }
  T Min(T value, int valid) { return Reduce(value, cub::Min(), valid); }

 private:
  // a logical warp that is no power of two is alone in its warp
  static constexpr int kWidth = (N & (N - 1)) == 0 ? N : 32;
};

}  // namespace cub
