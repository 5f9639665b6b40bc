// Copies that a thread starts and waits for, as cp.async: the functions of C, and cuda::pipeline of one thread.
#pragma once
#include "cuda.h"

#define __pipeline_memcpy_async(...) cuemu::pipeline_copy(__VA_ARGS__)
#define __pipeline_commit() cuemu::async_commit()
#define __pipeline_wait_prior(n) cuemu::async_wait(n)

namespace cuemu {
inline void pipeline_copy(void* dst, const void* src, size_t bytes, size_t zeros = 0) {
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("async", "cp.async of %zu bytes; it copies 4, 8 or 16", bytes);
  async_copy(dst, src, static_cast<int>(bytes), static_cast<int>(bytes - zeros));
}
}  // namespace cuemu

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
template <size_t N> struct aligned_size_t {
  size_t value;
  constexpr explicit aligned_size_t(size_t n) : value(n) {}
  constexpr operator size_t() const { return value; }
};

template <thread_scope S> struct pipeline {
  static_assert(S == thread_scope_thread, "the emulation has pipelines of one thread");
  size_t begun = 0, done = 0;  // groups committed, groups released
  void producer_acquire() {}
  void producer_commit() { cuemu::async_commit(), begun++; }
  void consumer_wait() { cuemu::async_wait(static_cast<int>(begun - done - 1)); }
  void consumer_release() { done++; }
};
inline pipeline<thread_scope_thread> make_pipeline() { return {}; }
template <unsigned N, thread_scope S> void pipeline_consumer_wait_prior(pipeline<S>&) { cuemu::async_wait(N); }

namespace cuemu_detail {
inline void copy(char* to, const char* from, size_t bytes, size_t first, size_t step) {
  const size_t words = (reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from)) % 4 ? 0 : bytes / 4;
  for (size_t w = first; w < words; w += step) cuemu::async_copy(to + 4 * w, from + 4 * w, 4, 4);
  for (size_t b = 4 * words + first; b < bytes; b += step) to[b] = from[b];
}
}  // namespace cuemu_detail
template <class T, class N, thread_scope S> void memcpy_async(T* dst, const T* src, N bytes, pipeline<S>&) {
  cuemu_detail::copy(reinterpret_cast<char*>(dst), reinterpret_cast<const char*>(src), bytes, 0, 1);
}
template <class G, class T, class N, thread_scope S>
void memcpy_async(const G& group, T* dst, const T* src, N bytes, pipeline<S>&) {
  cuemu_detail::copy(reinterpret_cast<char*>(dst), reinterpret_cast<const char*>(src), bytes, group.thread_rank(), group.size());
}

}  // namespace cuda
