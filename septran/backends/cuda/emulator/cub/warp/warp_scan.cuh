// cub::WarpScan: what the lanes up to each one come to.
#pragma once
#include "../thread/thread_operators.cuh"

namespace cub {

template <class T, int N = 32, int = 0> class WarpScan {
  static_assert(N > 0 && N <= 32 && (N & (N - 1)) == 0, "a warp has 32 threads");
  static constexpr const char* kWhat = "cub::WarpScan";

 public:
  struct TempStorage { char unused; };
  WarpScan() = default;
  WarpScan(TempStorage&) {}

  template <class F> void InclusiveScan(T in, T& out, F op) { out = cuemu::scan_lanes(in, N, op, kWhat); }
  template <class F> void InclusiveScan(T in, T& out, F op, T& all) {
    InclusiveScan(in, out, op);
    all = Broadcast(out, N - 1);
  }
  /// The first lane's result is open.
  template <class F> void ExclusiveScan(T in, T& out, F op) {
    T upto;
    InclusiveScan(in, upto, op);
    out = cuemu::from_below(upto, 1, N, kWhat);
    if (cuemu::lane() % N == 0) cuemu::undefined_value(out, 0);
  }
  template <class F> void ExclusiveScan(T in, T& out, T first, F op) {
    ExclusiveScan(in, out, op);
    out = cuemu::lane() % N == 0 ? first : op(first, out);
  }
  template <class F> void ExclusiveScan(T in, T& out, T first, F op, T& all) {
    T upto;
    InclusiveScan(in, upto, op, all);  // without the first value
    ExclusiveScan(in, out, first, op);
  }
  void InclusiveSum(T in, T& out) { InclusiveScan(in, out, cub::Sum()); }
  void InclusiveSum(T in, T& out, T& all) { InclusiveScan(in, out, cub::Sum(), all); }
  void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T{}, cub::Sum()); }
  void ExclusiveSum(T in, T& out, T& all) { ExclusiveScan(in, out, T{}, cub::Sum(), all); }
  T Broadcast(T value, unsigned lane) { return cuemu::from_lane(value, static_cast<int>(lane), N, kWhat); }
};

}  // namespace cub
