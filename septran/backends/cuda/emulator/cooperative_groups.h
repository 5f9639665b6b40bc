// Cooperative groups of a block: the block itself, tiles of up to 32 threads, and lanes that run together. Groups of a grid or a
// cluster are not here.
#pragma once
#include "cuda.h"

namespace cooperative_groups {

struct thread_block {
  static void sync() { cuemu::block_barrier("a group's sync"); }
  static unsigned thread_rank() { return static_cast<unsigned>(cuemu::thread_linear); }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
  static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

template <unsigned N, class Parent = void> struct thread_block_tile {
  static_assert(N <= 32 && (N & (N - 1)) == 0, "the emulation has tiles of up to 32 threads");
  thread_block_tile() = default;
  /// A tile of any group is one of which the group is not said, as device functions take it.
  template <class P> thread_block_tile(const thread_block_tile<N, P>&) {
    static_assert(std::is_void_v<Parent>, "a tile of one group is no tile of another");
  }
  static unsigned mask() { return (N == 32 ? ~0u : (1u << N) - 1) << cuemu::lane() / N * N; }
  static void sync() { cuemu::warp_barrier("a tile's sync", mask()); }
  static unsigned thread_rank() { return unsigned(cuemu::thread_linear) % N; }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  static unsigned meta_group_rank() { return unsigned(cuemu::thread_linear) / N; }
  static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  template <class T> static T shfl(T v, int s) { return __shfl_sync(mask(), v, s, N); }
  template <class T> static T shfl_xor(T v, unsigned x) { return __shfl_xor_sync(mask(), v, x, N); }
  template <class T> static T shfl_down(T v, unsigned d) { return __shfl_down_sync(mask(), v, d, N); }
  template <class T> static T shfl_up(T v, unsigned d) { return __shfl_up_sync(mask(), v, d, N); }
  static unsigned ballot(int p) { return __ballot_sync(mask(), p) >> cuemu::lane() / N * N; }
  static bool any(int p) { return __any_sync(mask(), p); }
  static bool all(int p) { return __all_sync(mask(), p); }
};
template <unsigned N, class G> thread_block_tile<N, G> tiled_partition(const G&) { return {}; }

/// Lanes of a warp, numbered in their order.
struct coalesced_group {
  unsigned lanes;
  void sync() const { cuemu::warp_barrier("a group's sync", lanes); }
  unsigned size() const { return static_cast<unsigned>(__builtin_popcount(lanes)); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return static_cast<unsigned>(__builtin_popcount(lanes & ((1u << cuemu::lane()) - 1))); }
  static unsigned meta_group_rank() { return 0; }
  static unsigned meta_group_size() { return 1; }
  template <class T> T shfl(T v, int rank) const { return cuemu::shuffle(lanes, v, lane_of(static_cast<unsigned>(rank)), "a group's shfl"); }
  template <class T> T shfl_down(T v, unsigned d) const {
    const unsigned from = thread_rank() + d;
    return cuemu::shuffle(lanes, v, from < size() ? lane_of(from) : -1, "a group's shfl_down");
  }
  template <class T> T shfl_up(T v, unsigned d) const {
    const unsigned me = thread_rank();
    return cuemu::shuffle(lanes, v, me >= d ? lane_of(me - d) : -1, "a group's shfl_up");
  }
  unsigned ballot(int p) const { return ranks_of(__ballot_sync(lanes, p)); }
  bool any(int p) const { return __any_sync(lanes, p); }
  bool all(int p) const { return __all_sync(lanes, p); }
  template <class T> unsigned match_any(T v) const { return ranks_of(__match_any_sync(lanes, v)); }

 private:
  int lane_of(unsigned rank) const {
    unsigned rest = lanes;
    for (; rank && rest; rank--) rest &= rest - 1;
    return rest ? __builtin_ctz(rest) : -1;
  }
  unsigned ranks_of(unsigned some) const {
    unsigned found = 0, rank = 0;
    for (unsigned rest = lanes; rest; rest &= rest - 1, rank++) found |= (some >> __builtin_ctz(rest) & 1) << rank;
    return found;
  }
};
/// Any group, as functions take it that do not say which.
class thread_group {
 public:
  thread_group(const thread_block&) : lanes_(0), rank_(thread_block::thread_rank()), size_(thread_block::size()) {}
  thread_group(const coalesced_group& group) : lanes_(group.lanes), rank_(group.thread_rank()), size_(group.size()) {}
  template <unsigned N, class P>
  thread_group(const thread_block_tile<N, P>& tile) : lanes_(tile.mask()), rank_(tile.thread_rank()), size_(N) {}
  void sync() const { lanes_ ? cuemu::warp_barrier("a group's sync", lanes_) : cuemu::block_barrier("a group's sync"); }
  unsigned thread_rank() const { return rank_; }
  unsigned size() const { return size_; }
  unsigned num_threads() const { return size_; }

 private:
  unsigned lanes_, rank_, size_;  // lanes_: 0 for a whole block
};
/// Parts of `size` threads each, a power of two up to 32.
inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
  if (size < 1 || size > 32 || size & (size - 1) || size > parent.size()) cuemu::fail("launch", "a tile of %u threads of a group of %u", size, parent.size());
  return coalesced_group{(size == 32 ? ~0u : (1u << size) - 1) << static_cast<unsigned>(cuemu::lane()) / size * size};
}
inline coalesced_group coalesced_threads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {static_cast<unsigned>(cuemu::lanes_together(file, line))};
}
inline unsigned lanes_of(const coalesced_group& group) { return group.lanes; }
template <unsigned N, class G> unsigned lanes_of(const thread_block_tile<N, G>& tile) { return tile.mask(); }
/// The threads of a group that give the same label.
template <class G, class T> coalesced_group labeled_partition(const G& group, T label) {
  return {__match_any_sync(lanes_of(group), label)};
}
template <class G> coalesced_group binary_partition(const G& group, bool which) { return labeled_partition(group, int(which)); }

template <class G> void sync(const G& group) { group.sync(); }

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class G, class T, class F> T reduce(const G& group, T value, F op) {
  for (unsigned d = group.size() / 2; d; d /= 2) value = op(value, group.shfl_xor(value, d));
  return value;
}
template <class T, class F> T reduce(const coalesced_group& group, T value, F op) {
  T all = group.shfl(value, 0);
  for (unsigned r = 1; r < group.size(); r++) all = op(all, group.shfl(value, static_cast<int>(r)));
  return all;
}
template <class G, class T, class F = plus<T>> T inclusive_scan(const G& group, T value, F op = {}) {
  for (unsigned d = 1; d < group.size(); d *= 2) {
    const T before = group.shfl_up(value, d);
    if (group.thread_rank() >= d) value = op(before, value);
  }
  return value;
}
/// The first thread gets a T of nothing.
template <class G, class T, class F = plus<T>> T exclusive_scan(const G& group, T value, F op = {}) {
  const T before = group.shfl_up(inclusive_scan(group, value, op), 1);
  return group.thread_rank() ? before : T{};
}

/// Thread r copies 4-byte words r, r + size, ..; what is no whole word goes byte by byte, at once.
template <class G, class T> void memcpy_async(const G& group, T* dst, const T* src, size_t bytes) {
  auto* to = reinterpret_cast<char*>(dst);
  auto* from = reinterpret_cast<const char*>(src);
  const size_t words = (reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from)) % 4 ? 0 : bytes / 4;
  for (size_t w = group.thread_rank(); w < words; w += group.size()) cuemu::async_copy(to + 4 * w, from + 4 * w, 4, 4);
  for (size_t b = 4 * words + group.thread_rank(); b < bytes; b += group.size()) to[b] = from[b];
  cuemu::async_commit();
}
template <class G> void wait(const G& group) {
  cuemu::async_wait(0);
  group.sync();
}
template <unsigned N, class G> void wait_prior(const G& group) {
  cuemu::async_wait(N);
  group.sync();
}

}  // namespace cooperative_groups
