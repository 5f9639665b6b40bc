// cub::BlockScan: what the values of the threads up to each one come to.
#pragma once
#include "../warp/warp_scan.cuh"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0> class BlockScan {
  using Block = cuemu::Threads<X, Y, Z>;
  static constexpr const char* kWhat = "cub::BlockScan";
  template <class... P> using if_prefix = std::enable_if_t<(... && !std::is_convertible_v<P, T>)>;

 public:
  /// A warp's sum each, and what a prefix gives.
  using TempStorage = cuemu::Room<T, Block::warps + 1>;
  BlockScan() : temp_(cuemu::own_room<BlockScan, TempStorage>()) {}
  BlockScan(TempStorage& temp) : temp_(temp) {}

  // ---- one value a thread
  template <class F> void InclusiveScan(T in, T& out, F op) {
    T all;
    InclusiveScan(in, out, op, all);
  }
  template <class F> void InclusiveScan(T in, T& out, F op, T& all) {
    const Scanned found = scanned(in, op);
    out = found.upto, all = found.all;
  }
  template <class F, class P, class = if_prefix<F, P>> void InclusiveScan(T in, T& out, F op, P& prefix) {
    const Scanned found = scanned(in, op);
    out = op(prefixed(found.all, prefix), found.upto);
  }
  template <class F, class = if_prefix<F>> void InclusiveScan(T in, T& out, T first, F op) {
    const Scanned found = scanned(in, op);
    out = op(first, found.upto);
  }
  /// The first thread's result is open.
  template <class F> void ExclusiveScan(T in, T& out, F op) {
    T all;
    ExclusiveScan(in, out, op, all);
  }
  template <class F> void ExclusiveScan(T in, T& out, F op, T& all) {
    const Scanned found = scanned(in, op);
    out = found.before, all = found.all;
  }
  template <class F> void ExclusiveScan(T in, T& out, T first, F op) {
    T all;
    ExclusiveScan(in, out, first, op, all);
  }
  template <class F> void ExclusiveScan(T in, T& out, T first, F op, T& all) {
    const Scanned found = scanned(in, op);
    out = cuemu::thread_linear ? op(first, found.before) : first, all = found.all;
  }
  template <class F, class P, class = if_prefix<F, P>> void ExclusiveScan(T in, T& out, F op, P& prefix) {
    const Scanned found = scanned(in, op);
    const T first = prefixed(found.all, prefix);
    out = cuemu::thread_linear ? op(first, found.before) : first;
  }

  // ---- several values a thread, in a row
  template <int N, class F, class... More> void InclusiveScan(T (&in)[N], T (&out)[N], F op, More&... more) {
    T before;
    ExclusiveScan(total(in, op), before, op, more...);
    const bool open = !takes_prefix<More...>;
    for (int i = 0; i < N; i++) {
      const T value = in[i];
      before = open && i == 0 && cuemu::thread_linear == 0 ? value : op(before, value);
      out[i] = before;
    }
  }
  template <int N, class F, class... More> void ExclusiveScan(T (&in)[N], T (&out)[N], F op, More&... more) {
    T before;
    ExclusiveScan(total(in, op), before, op, more...);
    const bool open = !takes_prefix<More...>;
    for (int i = 0; i < N; i++) {
      const T value = in[i], next = open && i == 0 && cuemu::thread_linear == 0 ? value : op(before, value);
      out[i] = before;
      before = next;
    }
  }
  template <int N, class F> void ExclusiveScan(T (&in)[N], T (&out)[N], T first, F op) {
    T all;
    ExclusiveScan(in, out, first, op, all);
  }
  template <int N, class F> void ExclusiveScan(T (&in)[N], T (&out)[N], T first, F op, T& all) {
    T before;
    ExclusiveScan(total(in, op), before, first, op, all);
    for (int i = 0; i < N; i++) {
      const T next = op(before, in[i]);
      out[i] = before;
      before = next;
    }
  }

  // ---- sums
  void InclusiveSum(T in, T& out) { InclusiveScan(in, out, cub::Sum()); }
  template <class More> void InclusiveSum(T in, T& out, More& more) { InclusiveScan(in, out, cub::Sum(), more); }
  template <int N, class... More> void InclusiveSum(T (&in)[N], T (&out)[N], More&... more) { InclusiveScan(in, out, cub::Sum(), more...); }
  void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T{}, cub::Sum()); }
  void ExclusiveSum(T in, T& out, T& all) { ExclusiveScan(in, out, T{}, cub::Sum(), all); }
  template <class P, class = if_prefix<P>> void ExclusiveSum(T in, T& out, P& prefix) { ExclusiveScan(in, out, cub::Sum(), prefix); }
  template <int N> void ExclusiveSum(T (&in)[N], T (&out)[N]) { ExclusiveScan(in, out, T{}, cub::Sum()); }
  template <int N> void ExclusiveSum(T (&in)[N], T (&out)[N], T& all) { ExclusiveScan(in, out, T{}, cub::Sum(), all); }
  template <int N, class P, class = if_prefix<P>> void ExclusiveSum(T (&in)[N], T (&out)[N], P& prefix) { ExclusiveScan(in, out, cub::Sum(), prefix); }

 private:
  struct Scanned { T upto, before, all; };
  template <class... M> static constexpr bool takes_prefix = (... || !std::is_convertible_v<M, T>);

  template <int N, class F> static T total(T (&in)[N], F op) {
    T sum = in[0];
    for (int i = 1; i < N; i++) sum = op(sum, in[i]);
    return sum;
  }

  /// upto: with the thread's own value; before: without it, open for the first thread; all: of the block.
  template <class F> Scanned scanned(T in, F op) {
    constexpr int wave = cuemu::kWave;
    const int me = Block::rank(kWhat), warp = me / wave;
    Scanned found{};
    found.upto = cuemu::scan_lanes(in, wave, op, kWhat);
    found.before = cuemu::from_below(found.upto, 1, wave, kWhat);
    if (me == 0) cuemu::undefined_value(found.before, 0);
    if (me % wave == wave - 1 || me == Block::count - 1) temp_.set(warp, found.upto);
    cuemu::block_barrier(kWhat);
    T earlier = temp_.get(0);
    found.all = earlier;
    for (int w = 1; w < Block::warps; w++) {
      if (w == warp) earlier = found.all;
      found.all = op(found.all, temp_.get(w));
    }
    if (warp) {
      found.upto = op(earlier, found.upto);
      found.before = me % wave ? op(earlier, found.before) : earlier;
    }
    return found;
  }
  /// The first warp asks with the block's result; its first lane's answer is what comes before the block.
  template <class P> T prefixed(T all, P& prefix) {
    if (cuemu::thread_linear < cuemu::kWave) {
      const T first = prefix(all);
      if (cuemu::thread_linear == 0) temp_.set(Block::warps, first);
    }
    cuemu::block_barrier(kWhat);
    return temp_.get(Block::warps);
  }

  TempStorage& temp_;
};

}  // namespace cub
