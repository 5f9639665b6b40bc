// Launches and the few runtime calls a kernel file makes; limits are those of the real device.
#pragma once
#include "intrinsics.h"
#include "block_races.h"

typedef int cudaError_t;
typedef void* cudaStream_t;
typedef void* cudaEvent_t;
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };

#ifndef SEPTRAN_SHARED_LIMIT
#define SEPTRAN_SHARED_LIMIT 232448  // sm_90: 227 KiB a block may opt in to
#endif

namespace cuemu {

inline size_t dynamic_limit = 48 * 1024;

struct Launch {
  dim3 grid, block;
  size_t shared;
  Launch(dim3 g, dim3 b, size_t s = 0, cudaStream_t = nullptr) : grid(g), block(b), shared(s) {}
};

inline void check_launch(const Launch& c) {
  size_t n = size_t(c.block.x) * c.block.y * c.block.z;
  if (n == 0 || n > 1024 || c.block.z > 64) fail("launch", "a block of " + std::to_string(n) + " threads; the limit is 1024");
  if (!c.grid.x || !c.grid.y || !c.grid.z || c.grid.x > 0x7fffffffu || c.grid.y > 65535 || c.grid.z > 65535)
    fail("launch", "grid " + std::to_string(c.grid.x) + "," + std::to_string(c.grid.y) + "," + std::to_string(c.grid.z) +
                       " is outside 1..2147483647, 65535, 65535");
  if (c.shared > dynamic_limit)
    fail("launch", std::to_string(c.shared) + " bytes of dynamic shared memory; " + std::to_string(dynamic_limit) +
                       " are allowed without (a larger) cudaFuncAttributeMaxDynamicSharedMemorySize");
}

template <class F, class... A> void launch(const char* name, Launch c, F f, A... a) {
  report_kernel = name;
  check_launch(c);
  auto call = [&] { f(a...); };
  using Call = decltype(call);
  body = [](void* p) { (*static_cast<Call*>(p))(); };
  body_argument = &call;
  block_dim = c.block;
  grid_dim = c.grid;
  const size_t n = size_t(c.block.x) * c.block.y * c.block.z;
  static auto& stacks = *new std::vector<char*>;  // kept between launches
  if (!all_threads) all_threads = new std::vector<Thread>, all_warps = new std::vector<Warp>;
  auto& threads = *all_threads;
  threads.clear();
  threads.resize(n);
  while (stacks.size() < n) stacks.push_back(static_cast<char*>(aligned_alloc(64, kStack)));
  for (size_t i = 0; i < n; i++) {
    threads[i].stack = stacks[i];
    threads[i].linear = static_cast<int>(i);
    threads[i].tid = {unsigned(i % c.block.x), unsigned(i / c.block.x % c.block.y), unsigned(i / c.block.x / c.block.y)};
  }
  all_warps->assign((n + 31) / 32, Warp{});
  const size_t guard = 1024, room = (c.shared + guard - 1) / guard * guard;
  dynamic_shared_size = c.shared;
  dynamic_shared = static_cast<char*>(aligned_alloc(1024, room + guard));
  memset(dynamic_shared, 0x7B, room + guard);
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(dynamic_shared + c.shared, room + guard - c.shared);
#endif
#if defined(__SANITIZE_THREAD__)
  main_fiber.tsan = __tsan_get_current_fiber();
#endif
  const unsigned blocks_xy = c.grid.x * c.grid.y, total = blocks_xy * c.grid.z;
  auto turn = [&](unsigned i) {
    const unsigned b = order == reverse ? total - 1 - i : i;  // blocks have no order either
    block_id = {b % c.grid.x, b / c.grid.x % c.grid.y, b / blocks_xy};
    run_block();
    for (size_t j = c.shared; j < room + guard; j++) {
#if !defined(__SANITIZE_ADDRESS__)
      if (dynamic_shared[j] != 0x7B) fail("shared memory", "write past the end of the block's dynamic shared memory");
#endif
    }
  };
  const auto apart = blocks_apart(total, turn);
  for (unsigned i = 0; i < total; i++) turn(i);
  same_as_apart(apart);
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(dynamic_shared + c.shared, room + guard - c.shared);
#endif
  free(dynamic_shared);
  dynamic_shared = nullptr;
  dynamic_shared_size = 0;
}

/// Run `kernel` with threads forward, reverse and shuffled; outputs that differ are a race. Later calls
/// run one order each, in turn. Float atomics may round differently, so they get a tolerance of none
/// but the verifier's.
template <class F> void in_every_order(const std::vector<Output>& outputs, F kernel) {
  static int calls = 0;
  if (calls++ > 0) {
    order = calls % 3;
    kernel();
    return;
  }
  auto snapshot = [&] {
    std::vector<std::string> all;
    for (auto& o : outputs) all.emplace_back(static_cast<char*>(o.data), o.bytes);
    return all;
  };
  const auto before = snapshot();
  order = forward;
  kernel();
  const auto expected = snapshot();
  const char* names[] = {"forward", "reverse", "shuffled"};
  for (int other : {int(reverse), int(shuffled)}) {
    for (size_t i = 0; i < outputs.size(); i++) memcpy(outputs[i].data, before[i].data(), outputs[i].bytes);
    order = other;
    kernel();
    if (float_atomics) continue;
    const auto now = snapshot();
    for (size_t i = 0; i < outputs.size(); i++)
      for (size_t b = 0; b < outputs[i].bytes; b++)
        if (now[i][b] != expected[i][b])
          fail("race", "output " + std::to_string(i) + " differs at byte " + std::to_string(b) +
                           " between threads run forward and " + names[other] + ": a barrier is missing");
  }
}

/// As in_every_order; before the first call all launches are also run with blocks that do not see each other.
template <class F> void in_every_order_and_block(const std::vector<Output>& outputs, F kernel) {
  static bool first = true;
  if (first) {
    first = false;
    watch_blocks(outputs);
    const auto before = copies();
    order = forward;
    kernel();
    put_back(before);
    watch_blocks({});
  }
  in_every_order(outputs, kernel);
}

}  // namespace cuemu

static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
static inline const char* cudaGetErrorString(cudaError_t e) { return e ? "invalid argument" : "no error"; }
static inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
template <class T> cudaError_t cudaMalloc(T** p, size_t n) {
  *p = static_cast<T*>(malloc(n));
  memset(static_cast<void*>(*p), 0xFF, n);
  cuemu::watch_more(*p, n);
  return cudaSuccess;
}
static inline cudaError_t cudaFree(void* p) { cuemu::watch_less(p); free(p); return cudaSuccess; }
template <class T> cudaError_t cudaMallocAsync(T** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
static inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
static inline cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind) { memcpy(d, s, n); return cudaSuccess; }
static inline cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind, cudaStream_t = nullptr) {
  memcpy(d, s, n);
  return cudaSuccess;
}
static inline cudaError_t cudaMemset(void* d, int v, size_t n) { memset(d, v, n); return cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void* d, int v, size_t n, cudaStream_t = nullptr) { memset(d, v, n); return cudaSuccess; }
template <class F> cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int v) {
  if (v > SEPTRAN_SHARED_LIMIT)
    cuemu::fail("launch", std::to_string(v) + " bytes of shared memory a block; this device has " +
                              std::to_string(SEPTRAN_SHARED_LIMIT));
  cuemu::dynamic_limit = std::max<size_t>(cuemu::dynamic_limit, v);
  return cudaSuccess;
}
