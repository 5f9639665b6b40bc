// Who stored and who loaded each byte of shared memory last: only in a noted build, whose kernel is compiled so that every
// access calls here (the names are those that compilers give to calls of a thread sanitizer). Two accesses of different
// threads, one a store, are a race when nothing stands between them: no barrier of the block, no meeting of a warp that
// both are in, no wait for an mbarrier. Threads run one after another, so what no order of threads shows is seen, too.
// Where it was stored or loaded by others, a store that leaves a byte as it was is none: many threads may store one value.
// From a launch's first atomic operation on nothing is noted in it: atomic operations order what no barrier does.
// The words and the idea of epochs: FastTrack (Flanagan and Freund, PLDI 2009), with one thread known of each kind.
#ifdef CUEMU_NOTES_ACCESSES
#include "asynchronous.h"

namespace cuemu {

namespace {
constexpr uint16_t kManyLanes = 0x8000, kManyWarps = 0x4000, kThread = 0x3FF;
static_assert(kMostThreads == kThread + 1);

/// The latest access of one kind. moment: of the block; meeting: of its warp. Many*: there were others of this moment that
/// nothing orders with it, of its warp or of another one.
struct Note {
  uint32_t moment;
  uint16_t meeting, thread;
};
struct Byte {
  Note store, load;
  uint16_t store_before, load_before;  // the thread of one of the others
};
constexpr size_t kDynamic = kMostShared, kBytes = kDynamic + kStaticShared;
Byte notes[kBytes];
uint32_t moment;
uint16_t meetings[kMostThreads / kWave];

/// A store that has not been made yet, over bytes that others touched in this moment.
constexpr size_t kMostPending = 64;
struct {
  char* at;
  size_t count;
  int thread;
  char before[kMostPending];
  uint16_t other[kMostPending];  // who; kNobody where nobody else is
  bool loaded[kMostPending];
} pending;
constexpr uint16_t kNobody = 0xFFFF;

size_t first_note(uintptr_t p) {
  const uintptr_t dynamic = p - reinterpret_cast<uintptr_t>(shared_room);
  return dynamic < kDynamic ? dynamic : kDynamic + (p - reinterpret_cast<uintptr_t>(static_room));
}
size_t within(uintptr_t p, size_t n) {
  const uintptr_t dynamic = p - reinterpret_cast<uintptr_t>(shared_room);
  const size_t left = dynamic < kDynamic ? kDynamic - dynamic : kStaticShared - (p - reinterpret_cast<uintptr_t>(static_room));
  return n < left ? n : left;
}

/// Whether an access of `me` now has another one of this kind that nothing orders with it.
bool beside(const Note& note, unsigned me, uint16_t meeting) {
  if (note.moment != moment) return false;
  const unsigned other = note.thread & kThread;
  if (note.thread & kManyWarps || other / kWave != me / kWave) return true;
  return note.meeting == meeting && (other != me || note.thread & kManyLanes);
}
uint16_t one_of(const Note& note, uint16_t before, unsigned me) {
  const uint16_t other = note.thread & kThread;
  return other != me ? other : before;
}
void add(Note& note, uint16_t& before, unsigned me, uint16_t meeting) {
  uint16_t flags = 0;
  if (note.moment == moment) {
    const unsigned other = note.thread & kThread;
    flags = note.thread & kManyWarps;
    if (other / kWave != me / kWave) flags |= kManyWarps;
    else if (note.meeting == meeting) flags |= (note.thread & kManyLanes) | (other != me ? kManyLanes : 0);
    if (flags && other != me) before = static_cast<uint16_t>(other);
  }
  note = {moment, meeting, static_cast<uint16_t>(me | flags)};
}

[[noreturn]] void race(unsigned one, const char* does, unsigned two, const char* did, const char* p) {
  char where[160];
  name_shared(p, where, sizeof where);
  fail("race", "thread %u %s %s, which thread %u %s, and nothing orders the two: a barrier is missing", one, does, where, two, did);
}

void settle_pending() {
  const size_t n = pending.count;
  pending.count = 0;
  for (size_t i = 0; i < n; i++)
    if (pending.other[i] != kNobody && pending.at[i] != pending.before[i])
      race(static_cast<unsigned>(pending.thread), "changes", pending.other[i], pending.loaded[i] ? "loads" : "stores", pending.at + i);
}

// What a program may hand on but not look into: mbarriers, by 8 bytes of shared memory.
bool barriers[kBytes / 8];
bool any_barrier;
void set_barriers(uintptr_t p, size_t n, bool on) {
  for (size_t b = first_note(p) / 8, end = (first_note(p) + n - 1) / 8; b <= end; b++) barriers[b] = on;
}
void check_opaque(uintptr_t p, size_t n) {
  for (size_t b = first_note(p) / 8, end = (first_note(p) + n - 1) / 8; b <= end; b++)
    if (barriers[b]) fail("opaque", "thread %d reads the bits of an mbarrier; what they mean is the device's own", thread_linear);
}

void note_stored(uintptr_t p, size_t n, unsigned me) {
  n = within(p, n);
  if (any_barrier) set_barriers(p, n, false);
  if (st_foreign) proxy_stored(reinterpret_cast<const char*>(p), n);
  const uint16_t meeting = meetings[me / kWave];
  Byte* b = notes + first_note(p);
  for (size_t i = 0; i < n; i++) {
    const bool stored = beside(b[i].store, me, meeting), loaded = beside(b[i].load, me, meeting);
    if ((stored || loaded) && i < kMostPending) {
      if (!pending.count) pending.at = reinterpret_cast<char*>(p), pending.thread = static_cast<int>(me);
      while (pending.count <= i) pending.other[pending.count++] = kNobody;
      pending.before[i] = pending.at[i];
      pending.other[i] = stored ? one_of(b[i].store, b[i].store_before, me) : one_of(b[i].load, b[i].load_before, me);
      pending.loaded[i] = !stored;
    }
    add(b[i].store, b[i].store_before, me, meeting);
  }
}
void note_loaded(uintptr_t p, size_t n, unsigned me) {
  n = within(p, n);
  if (any_barrier) check_opaque(p, n);
  const uint16_t meeting = meetings[me / kWave];
  Byte* b = notes + first_note(p);
  for (size_t i = 0; i < n; i++) {
    if (beside(b[i].store, me, meeting) && !(b[i].store.thread & (kManyWarps | kManyLanes)))
      race(me, "loads", b[i].store.thread & kThread, "stores", reinterpret_cast<const char*>(p + i));
    add(b[i].load, b[i].load_before, me, meeting);
  }
}
}  // namespace

// Words of device memory that the block has stored, once a kernel was seen to read by __ldg: such a load goes through a cache that
// knows nothing of stores. What other blocks store is a race.
namespace {
constexpr size_t kStored = 1 << 16;
struct {
  uintptr_t word;
  uint32_t block;
} stored[kStored];
uint32_t stored_block = 1;
size_t stored_count;
bool reads_constants;

size_t stored_at(uintptr_t word) {
  size_t i = (word * 0x9E3779B97F4A7C15ull) >> 48;
  while (stored[i].block == stored_block && stored[i].word != word) i = (i + 1) % kStored;
  return i;
}
void note_global_store(uintptr_t p, size_t n) {
  for (uintptr_t w = p / 4; reads_constants && w <= (p + n - 1) / 4 && stored_count < kStored / 2; w++) {
    const size_t i = stored_at(w);
    stored_count += stored[i].block != stored_block;
    stored[i] = {w, stored_block};
  }
}
}  // namespace
void forget_stored() {
  if (any_barrier) memset(barriers, 0, sizeof barriers), any_barrier = false;
  stored_block++;
  stored_count = 0;
}
void read_only(const void* p, size_t bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(p) / 4, last = (reinterpret_cast<uintptr_t>(p) + bytes - 1) / 4;
  reads_constants = true;
  for (uintptr_t w = first; w <= last; w++)
    if (stored[stored_at(w)].block == stored_block)
      fail("constant", "thread %d reads by __ldg what its block stored in this launch: a device may give it what was there before", thread_linear);
}

void opaque_barrier(const void* p) {
  if (!st_foreign) return;
  any_barrier = true;
  set_barriers(reinterpret_cast<uintptr_t>(p), 8, true);
}
void settle() {
  if (pending.count) settle_pending();
}
void begin_noting() { atomics = false; }
void next_moment() {
  settle();
  moment++;
}
uint32_t this_moment() { return moment; }
void next_meeting() {
  settle();
  if (!++meetings[thread_linear / kWave]) moment++;  // all of this moment is over: the count begins anew
}
void note_store(const void* p, size_t n) {
  settle();
  if (in_shared(reinterpret_cast<uintptr_t>(p)) && !atomics) note_stored(reinterpret_cast<uintptr_t>(p), n, static_cast<unsigned>(thread_linear));
}
void note_load(const void* p, size_t n, int thread) {
  settle();
  if (in_shared(reinterpret_cast<uintptr_t>(p)) && !atomics) note_loaded(reinterpret_cast<uintptr_t>(p), n, static_cast<unsigned>(thread));
}

}  // namespace cuemu

// A call that concerns no shared memory ends after two comparisons.
#define CUEMU_ACCESS(what, name, parameters, n)                                                                      \
  extern "C" void __tsan_##name parameters {                                                                         \
    if (__builtin_expect(cuemu::pending.count != 0, 0)) cuemu::settle_pending();                                     \
    const bool shared = cuemu::in_shared(p);                                                                         \
    if (cuemu::counting && (shared || cuemu::in_global(p)))                                                          \
      cuemu::count_access(__builtin_return_address(0), p, n, #what[0] == 's');                                       \
    if (!shared) cuemu::check_owner(p, n, #what[0] == 's');                                                          \
    if (!shared && #what[0] == 's') cuemu::note_global_store(p, n);                                                  \
    if (shared && !cuemu::atomics) cuemu::note_##what(p, n, static_cast<unsigned>(cuemu::thread_linear));             \
  }
#define CUEMU_ACCESSES(n)                                  \
  CUEMU_ACCESS(loaded, read##n, (uintptr_t p), n)          \
  CUEMU_ACCESS(stored, write##n, (uintptr_t p), n)         \
  CUEMU_ACCESS(loaded, unaligned_read##n, (uintptr_t p), n) \
  CUEMU_ACCESS(stored, unaligned_write##n, (uintptr_t p), n)
CUEMU_ACCESSES(1)
CUEMU_ACCESSES(2)
CUEMU_ACCESSES(4)
CUEMU_ACCESSES(8)
CUEMU_ACCESSES(16)
CUEMU_ACCESS(loaded, read_range, (uintptr_t p, size_t n), n)
CUEMU_ACCESS(stored, write_range, (uintptr_t p, size_t n), n)
extern "C" void __tsan_init() {}
// Host code counts references and guards its statics; a kernel whose own text has such operations is not noted.
#define CUEMU_ATOMIC(bits)                                                                                               \
  extern "C" uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t* p, int) { return *p; }                        \
  extern "C" void __tsan_atomic##bits##_store(uint##bits##_t* p, uint##bits##_t v, int) { *p = v; }                        \
  extern "C" uint##bits##_t __tsan_atomic##bits##_fetch_add(uint##bits##_t* p, uint##bits##_t v, int) { return (*p += v) - v; } \
  extern "C" uint##bits##_t __tsan_atomic##bits##_fetch_sub(uint##bits##_t* p, uint##bits##_t v, int) { return (*p -= v) + v; }
CUEMU_ATOMIC(8)
CUEMU_ATOMIC(32)
CUEMU_ATOMIC(64)
extern "C" void __tsan_vptr_read(void**) {}
extern "C" void __tsan_vptr_update(void**, void*) {}
#else
#include "asynchronous.h"
namespace cuemu {
void read_only(const void*, size_t) {}
void opaque_barrier(const void*) {}
}  // namespace cuemu
#endif
