// Runs blocks one after another; inside a block, fibers run to their next barrier in an order that
// is chosen to be unkind: forward, reverse or shuffled (a missing barrier gives other results).
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>
#include "fiber.h"
#include "report.h"

namespace cuemu {

enum class State : uint8_t { ready, block_wait, warp_wait, poll, done };
enum Order : int { forward = 0, reverse = 1, shuffled = 2 };

struct AsyncCopy {
  void* dst;
  const void* src;
  int bytes, valid;
};

struct Thread : Fiber {
  uint3 tid{};
  int linear = 0;
  State state = State::ready;
  const char* where = "";
  unsigned block_generation = 0, warp_generation = 0;
  std::vector<AsyncCopy> open;                  // issued, not yet committed
  std::vector<std::vector<AsyncCopy>> groups;   // committed, oldest first
  const void* polled = nullptr;                 // the mbarrier a thread in State::poll waits for; none: it has arrived
                                                // and is held back while others can run
  unsigned parity = 0;
  std::vector<uint32_t> unfenced;               // 16-byte units it wrote that only a proxy fence shows to wgmma
};

struct Warp {
  unsigned arrived = 0, alive = 0;
  const char* where = nullptr;
  void* payload[32] = {};
};

inline Thread* current = nullptr;
inline dim3 block_dim, grid_dim;
// Pointers, made by the first launch: a library with static objects would run code when it is loaded.
inline std::vector<Thread>* all_threads = nullptr;
inline std::vector<Warp>* all_warps = nullptr;
inline void (*body)(void*) = nullptr;
inline void* body_argument = nullptr;
inline char* dynamic_shared = nullptr;
inline size_t dynamic_shared_size = 0;
inline size_t static_shared_size = 0;
inline unsigned block_serial = 0;
inline int order = forward;
inline bool float_atomics = false;
inline bool atomics = false;
// Set by bulk_copy.h and warpgroup.h when a kernel uses them.
inline bool (*phase_done)(const void*, unsigned) = nullptr;  // has this mbarrier completed the phase?
inline bool (*deliver)() = nullptr;                          // land one tensor copy; false when there is none
inline void (*group_block_end)() = nullptr;
inline void (*copy_block_end)() = nullptr;
inline int vote_count = 0, vote_or = 0, vote_and = 1, vote_result[3] = {};
inline char barrier_key[2], warp_key[64][2], start_key, end_key;

inline int lane() { return current->linear % 32; }
inline Warp& warp() { return (*all_warps)[current->linear / 32]; }

CUEMU_NOTSAN inline void yield(State s, const char* where) {
  current->state = s;
  current->where = where;
  switch_to_main(*current, s == State::done);
}

CUEMU_NOTSAN inline void thread_main() {
  entered();
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(&start_key);
#endif
  body(body_argument);
#if defined(__SANITIZE_THREAD__)
  __tsan_release(&end_key);
#endif
  warp().alive &= ~(1u << lane());
  yield(State::done, "exit");
  abort();
}

CUEMU_NOTSAN inline void resume(Thread& t) {
  current = &t;
  report_thread = t.linear;
  switch_to(t);
}

CUEMU_NOTSAN inline void block_barrier(const char* where) {
#if defined(__SANITIZE_THREAD__)
  // Keys alternate by generation: one key would hide a write-after-read race across two barriers.
  unsigned g = current->block_generation++ & 1;
  __tsan_release(&barrier_key[g]);
  yield(State::block_wait, where);
  __tsan_acquire(&barrier_key[g]);
#else
  yield(State::block_wait, where);
#endif
}

/// All lanes named in `mask` meet; the last to arrive runs `act(payloads)` for everybody.
template <class P, class F>
CUEMU_NOTSAN void warp_collective(unsigned mask, const char* where, P& payload, F act) {
  Warp& w = warp();
  const int me = lane(), base = current->linear - me;
  if (!(mask >> me & 1)) fail("divergence", std::string("thread is not in its own mask at ") + where);
  const unsigned size = block_dim.x * block_dim.y * block_dim.z - base;
  const unsigned need = size < 32 ? mask & ((1u << size) - 1) : mask;
  if (w.arrived & need) {
    if (std::string(w.where) != where)
      fail("divergence", std::string("lanes of one warp meet at ") + where + " and " + w.where);
  }
  w.where = where;
#if defined(__SANITIZE_THREAD__)
  unsigned g = current->warp_generation++ & 1;
  __tsan_release(&warp_key[current->linear / 32][g]);
#endif
  w.payload[me] = &payload;
  w.arrived |= 1u << me;
  if ((w.arrived & need) == need) {
    P* all[32] = {};
    for (int i = 0; i < 32; i++)
      if (need >> i & 1) all[i] = static_cast<P*>(w.payload[i]);
    act(all);
    w.arrived &= ~need;
    for (int i = 0; i < 32; i++)
      if (need >> i & 1) (*all_threads)[base + i].state = State::ready;
  } else {
    yield(State::warp_wait, where);
  }
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(&warp_key[current->linear / 32][g]);
#endif
}

struct Nothing {};
inline void warp_barrier(unsigned mask, const char* where) {
  Nothing n;
  warp_collective(mask, where, n, [](Nothing**) {});
}

inline void release_barrier(size_t done) {
  auto& threads = *all_threads;
  const char* where = nullptr;
  for (auto& t : threads) {
    if (t.state != State::block_wait) continue;
    report_thread = t.linear;
    if (where && std::string(where) != t.where)
      fail("divergence", std::string("threads wait at different barriers: ") + where + " and " + t.where);
    where = t.where;
  }
  if (done)
    fail("divergence", std::string(where) + " is not reached by " + std::to_string(done) +
                           " threads that returned before it");
  vote_result[0] = vote_count, vote_result[1] = vote_or, vote_result[2] = vote_and;
  vote_count = vote_or = 0;
  vote_and = 1;
  for (auto& t : threads) t.state = State::ready;
}

inline std::vector<int> thread_order() {
  std::vector<int> result(all_threads->size());
  for (size_t i = 0; i < result.size(); i++) result[i] = static_cast<int>(i);
  if (order == reverse) std::reverse(result.begin(), result.end());
  if (order == shuffled) {
    uint64_t seed = 0x9E3779B97F4A7C15ull + block_serial;
    for (size_t i = result.size(); i > 1; i--) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      std::swap(result[i - 1], result[(seed >> 33) % i]);
    }
  }
  return result;
}

inline void run_block() {
  auto& threads = *all_threads;
  auto& warps = *all_warps;
  const size_t n = threads.size();
  block_serial++;
  memset(dynamic_shared, 0xFF, dynamic_shared_size);  // 0xFF.. is a NaN in every float format
  vote_count = vote_or = 0;
  vote_and = 1;
  for (auto& w : warps) w = Warp{};
  for (auto& t : threads) {
    t.state = State::ready;
    t.open.clear();
    t.groups.clear();
    t.block_generation = t.warp_generation = 0;
    t.unfenced.clear();
    prepare(t, thread_main);
    warps[t.linear / 32].alive |= 1u << (t.linear % 32);
  }
#if defined(__SANITIZE_THREAD__)
  __tsan_release(&start_key);
#endif
  const auto sequence = thread_order();
  std::vector<int> warp_sequence;
  std::vector<std::vector<int>> lanes(warps.size());
  for (int i : sequence) lanes[i / 32].push_back(i);
  for (int i : sequence)
    if (std::find(warp_sequence.begin(), warp_sequence.end(), i / 32) == warp_sequence.end())
      warp_sequence.push_back(i / 32);
  for (;;) {
    bool progress = false;
    // One warp runs as far as it can before the next one starts: nothing but barriers holds it back.
    for (int w : warp_sequence)
      for (bool again = true; again;) {
        again = false;
        for (int i : lanes[w])
          if (threads[i].state == State::ready) {
            resume(threads[i]);
            progress = again = true;
          }
      }
    size_t done = 0, waiting = 0;
    bool woken = false;
    for (auto& t : threads)
      if (t.state == State::poll && t.polled && phase_done(t.polled, t.parity)) {
        t.state = State::ready;
        woken = true;
      }
    for (auto& t : threads) {
      if (!woken && t.state == State::poll && !t.polled) t.state = State::ready, progress = true;
      done += t.state == State::done;
      waiting += t.state == State::block_wait;
    }
    progress = progress || woken;
    if (done == n) break;
    if (waiting + done == n) {
      release_barrier(done);
      continue;
    }
    // A tensor copy lands as late as it can: when every thread waits for something.
    if (!progress && deliver && deliver()) continue;
    if (!progress) {
      std::string text;
      int shown = 0;
      for (auto& t : threads)
        if (t.state != State::ready && t.state != State::done && shown++ < 3)
          text += (text.empty() ? "" : "; ") + ("thread " + std::to_string(t.linear)) + " waits at " + t.where;
      fail("deadlock", text);
    }
  }
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(&end_key);
#endif
  report_thread = -1;
  if (group_block_end) group_block_end();
  if (copy_block_end) copy_block_end();
}

/// A `__shared__` array: fresh (NaN) in every block.
CUEMU_NOTSAN inline void shared_array(void* p, size_t bytes, unsigned& serial) {
  if (serial == block_serial) return;
  serial = block_serial;
  // Not memset: the thread sanitizer would take it for a write of this CUDA thread.
  for (size_t i = 0; i < bytes; i++) static_cast<volatile unsigned char*>(p)[i] = 0xFF;
}

}  // namespace cuemu
