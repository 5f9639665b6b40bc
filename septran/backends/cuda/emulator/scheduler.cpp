// Runs blocks one after another; inside a block, fibers run to their next barrier in an order that
// is chosen to be unkind: forward, reverse or shuffled (a missing barrier gives other results).
#include "machine.h"

#if defined(__SANITIZE_THREAD__)
#define CUEMU_ACQUIRE(key) __tsan_acquire(key)
#define CUEMU_RELEASE(key) __tsan_release(key)
#else
#define CUEMU_ACQUIRE(key) (void)(key)
#define CUEMU_RELEASE(key) (void)(key)
#endif

namespace cuemu {

uint3 thread_id, block_id;
dim3 block_dim, grid_dim;
int thread_linear;
char* dynamic_shared;
size_t dynamic_shared_size;
bool atomics, device_atomics, float_atomics;

constinit Thread threads[kMostThreads] = {};
constinit Warp warps[kMostThreads / kWave] = {};
size_t thread_count;
Thread* current;
int order = forward;
unsigned block_serial;

namespace {
void (*thread_body)(void*);
void* thread_argument;
int vote_count, vote_or, vote_and = 1, vote_result[3];
char barrier_key[2], warp_key[kMostThreads / kWave][2], start_key, end_key;

CUEMU_NOTSAN void thread_main() {
  entered();
  CUEMU_ACQUIRE(&start_key);
  thread_body(thread_argument);
  CUEMU_RELEASE(&end_key);
  warp().alive &= ~(Mask(1) << lane());
  yield(State::done, "exit");
  abort();
}

CUEMU_NOTSAN void resume(Thread& t) {
  current = &t;
  thread_id = t.tid;
  thread_linear = report_thread = t.linear;
  switch_to(t);
}

void release_barrier(size_t done) {
  const char* where = nullptr;
  for (size_t i = 0; i < thread_count; i++) {
    const Thread& t = threads[i];
    if (t.state != State::block_wait) continue;
    report_thread = t.linear;
    if (where && strcmp(where, t.where)) fail("divergence", "threads wait at different barriers: %s and %s", where, t.where);
    where = t.where;
  }
  if (done) fail("divergence", "%s is not reached by %zu threads that returned before it", where, done);
  vote_result[0] = vote_count, vote_result[1] = vote_or, vote_result[2] = vote_and;
  vote_count = vote_or = 0;
  vote_and = 1;
  next_moment();
  for (size_t i = 0; i < thread_count; i++) threads[i].state = State::ready;
}

/// The order in which threads run, and warps by their first thread.
void choose_sequence(uint16_t* lanes, uint16_t* warp_sequence) {
  const size_t n = thread_count;
  uint16_t sequence[kMostThreads];
  for (size_t i = 0; i < n; i++) sequence[i] = static_cast<uint16_t>(order == reverse ? n - 1 - i : i);
  if (order == shuffled) {
    uint64_t seed = 0x9E3779B97F4A7C15ull + block_serial;
    for (size_t i = n; i > 1; i--) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      const size_t j = (seed >> 33) % i;
      const uint16_t kept = sequence[i - 1];
      sequence[i - 1] = sequence[j], sequence[j] = kept;
    }
  }
  size_t warps_seen = 0;
  uint16_t filled[kMostThreads / kWave] = {};
  for (size_t i = 0; i < n; i++) {
    const uint16_t which = sequence[i] / kWave;
    if (!filled[which]) warp_sequence[warps_seen++] = which;
    lanes[which * kWave + filled[which]++] = sequence[i];
  }
}

[[noreturn]] void deadlock() {
  char text[400] = "";
  size_t at = 0;
  int shown = 0;
  for (size_t i = 0; i < thread_count; i++) {
    const Thread& t = threads[i];
    if (t.state == State::ready || t.state == State::done || shown++ >= 3) continue;
    at += static_cast<size_t>(
        snprintf(text + at, sizeof text - at, "%sthread %d waits at %.100s", at ? "; " : "", t.linear, t.where));
  }
  fail("deadlock", "%s", text);
}
}  // namespace

CUEMU_NOTSAN void yield(State s, const char* where) {
  settle();
  current->state = s;
  current->where = where;
  switch_to_main(*current, s == State::done);
}

CUEMU_NOTSAN void block_barrier(const char* where) {
  // Keys alternate by generation: one key would hide a write-after-read race across two barriers.
  const unsigned g = current->block_generation++ & 1;
  CUEMU_RELEASE(&barrier_key[g]);
  yield(State::block_wait, where);
  CUEMU_ACQUIRE(&barrier_key[g]);
}

int block_vote(int p, int which, const char* where) {
  vote_count += !!p;
  vote_or |= !!p;
  vote_and &= !!p;
  block_barrier(where);
  return vote_result[which];
}

CUEMU_NOTSAN void warp_meeting(Mask mask, const char* where, void* mine, void (*act)(void** all, void* context),
                               void* context) {
  Warp& w = warp();
  const int me = lane(), base = thread_linear - me;
  if (!(mask >> me & 1)) fail("divergence", "thread is not in its own mask at %s", where);
  const size_t size = thread_count - static_cast<size_t>(base);
  const Mask all_lanes = ~Mask(0) >> (64 - kWave);
  const Mask need = mask & (size < kWave ? (Mask(1) << size) - 1 : all_lanes);
  Mask here = Mask(1) << me;  // those who wait for this lane, too; others are still at a meeting of their own
  const int one = w.arrived ? __builtin_ctzll(w.arrived) : me;
  w.alike = !w.arrived || (w.alike && w.need[one] == need && w.where[one] == where);
  if (w.alike) here |= w.arrived;
  for (Mask rest = w.alike ? 0 : w.arrived & need; rest; rest &= rest - 1) {
    const int i = __builtin_ctzll(rest);
    if (!(w.need[i] >> me & 1)) continue;
    if (w.where[i] != where && strcmp(w.where[i], where)) fail("divergence", "lanes of one warp meet at %s and %s", where, w.where[i]);
    here |= Mask(1) << i;
  }
  w.where[me] = where;
  w.need[me] = need;
  const unsigned g = current->warp_generation++ & 1;
  CUEMU_RELEASE(&warp_key[thread_linear / kWave][g]);
  w.payload[me] = mine;
  w.arrived |= Mask(1) << me;
  if (here == need) {
    void* all[kWave] = {};
    for (int i = 0; i < kWave; i++)
      if (need >> i & 1) all[i] = w.payload[i];
    next_meeting();
    if (counting && need == w.alive) end_accesses();
    if (act) act(all, context);
    next_meeting();
    w.arrived &= ~need;
    for (int i = 0; i < kWave; i++)
      if (need >> i & 1) threads[base + i].state = State::ready;
  } else {
    yield(State::warp_wait, where);
  }
  CUEMU_ACQUIRE(&warp_key[thread_linear / kWave][g]);
}

void note_atomic(const void* p) {
  atomics = true;
  if (!in_shared(reinterpret_cast<uintptr_t>(p))) device_atomics = true;
}

Mask lanes_together(const char* file, int line) {
  Warp& w = warp();
  const int me = lane(), base = thread_linear - me;
  w.file[me] = file, w.line[me] = line, w.together[me] = 0;
  // Goes on when no other lane of the warp can, and none waits so further up in the text: they may come here, too.
  for (bool others = true; others;) {
    current->polled = nullptr;
    yield(State::poll, "the lanes that run together");
    if (w.together[me]) return w.together[me];
    others = false;
    for (int i = 0; i < kWave; i++)
      if (i != me && w.alive >> i & 1) others = others || (w.file[i] ? w.line[i] < line : threads[base + i].state == State::ready);
  }
  Mask all = 0;
  for (int i = 0; i < kWave; i++)
    if (w.file[i] && w.line[i] == line && !strcmp(w.file[i], file)) all |= Mask(1) << i;
  for (int i = 0; i < kWave; i++)
    if (all >> i & 1) w.together[i] = all, w.file[i] = nullptr;
  return all;
}
void choose_order(int wanted) { order = wanted; }

void run_block(void (*body)(void*), void* argument) {
  thread_body = body;
  thread_argument = argument;
  block_serial++;
  memset(dynamic_shared, unset_byte, dynamic_shared_size);
  begin_shared_arrays();
  forget_stored();
  next_moment();
  vote_count = vote_or = 0;
  vote_and = 1;
  const size_t n = thread_count, warp_count = (n + kWave - 1) / kWave;
  for (size_t i = 0; i < warp_count; i++) warps[i] = Warp{};
  for (size_t i = 0; i < n; i++) {
    Thread& t = threads[i];
    t.state = State::ready;
    t.copies.clear();
    t.groups.clear();
    t.bound.clear();
    t.grouped = 0;
    t.block_generation = t.warp_generation = 0;
    t.unfenced.clear();
    prepare(t, thread_main);
    warps[t.linear / kWave].alive |= Mask(1) << (t.linear % kWave);
  }
  CUEMU_RELEASE(&start_key);
  uint16_t lanes[kMostThreads], warp_sequence[kMostThreads / kWave];
  choose_sequence(lanes, warp_sequence);
  for (;;) {
    bool progress = false;
    // One warp runs as far as it can before the next one starts: nothing but barriers holds it back.
    for (size_t w = 0; w < warp_count; w++) {
      const size_t first = warp_sequence[w] * size_t(kWave), size = n - first < kWave ? n - first : kWave;
      for (bool again = true; again;) {
        again = false;
        for (size_t i = first; i < first + size; i++)
          if (threads[lanes[i]].state == State::ready) {
            resume(threads[lanes[i]]);
            progress = again = true;
          }
      }
      if (counting) end_accesses();
    }
    size_t done = 0, waiting = 0;
    bool woken = false;
    for (size_t i = 0; i < n; i++) {
      Thread& t = threads[i];
      if (t.state == State::poll && t.polled && phase_done(t.polled, t.parity)) t.state = State::ready, woken = true;
    }
    for (size_t i = 0; i < n; i++) {
      Thread& t = threads[i];
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
    if (!progress && deliver_copy()) continue;
    if (!progress) deadlock();
  }
  CUEMU_ACQUIRE(&end_key);
  report_thread = -1;
  end_products();
  end_copies();
  end_shared_arrays();
}

}  // namespace cuemu
