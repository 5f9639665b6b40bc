// What the parts of the emulation's machine share with each other and with no kernel. All of it is of one call: the
// static host takes memory back after each (`forget`), but not of a file that SepTran did not write; a library keeps it.
#pragma once
#include <cstdio>
#include <cstdlib>
#include "api.h"
#include "fiber.h"

// linked with such a file; hidden, so that a library without it imports nothing
extern "C" char st_foreign[] __attribute__((weak, visibility("hidden")));

// the emulation's own image, which holds the stacks of its threads
extern "C" char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" char _end[] __attribute__((visibility("hidden")));

namespace cuemu {

/// Plain values one after the other; their room stays when they are cleared.
template <class T> struct List {
  T* data = nullptr;
  size_t count = 0, room = 0;
  T* begin() const { return data; }
  T* end() const { return data + count; }
  T& operator[](size_t i) const { return data[i]; }
  void clear() { count = 0; }
  /// After a call: its room is gone with the rest of memory, or it is kept, so that it does not grow from call to call.
  void forget() {
    if (!st_foreign) data = nullptr, room = 0;
    count = 0;
  }
  void size(size_t n) {
    if (n > room) {
      room = n < 2 * room ? 2 * room : n < 16 ? 16 : n;
      data = static_cast<T*>(realloc(static_cast<void*>(data), room * sizeof(T)));
      if (!data) fail("memory", "the emulation needs more than there is");
    }
    count = n;
  }
  void push(const T& value) {
    const T copy = value;
    size(count + 1);
    data[count - 1] = copy;
  }
  void drop(size_t first, size_t n) {
    memmove(static_cast<void*>(data + first), data + first + n, (count - first - n) * sizeof(T));
    count -= n;
  }
};

/// What memory holds that nobody wrote: NaN, in some calls large or small numbers (see run_orders).
extern int unset_byte;
// ownership.cpp
void reached_by_device(const void* p, size_t bytes);
void given_back(const void* p);
void host_begins(const void* frame);    // a host function is called from here
void device_begins(const void* frame);  // a launch begins
void forget_owners();
enum class State : uint8_t { ready, block_wait, warp_wait, poll, done };
enum Order : int { forward, reverse, shuffled };
constexpr unsigned kMostThreads = 1024;
constexpr size_t kMostShared = 256 * 1024, kGuard = 1024;  // a block's dynamic shared memory; bytes watched behind it
constexpr size_t kStaticShared = 48 * 1024;  // what a block may have without asking, on every device

struct AsyncCopy {
  void* dst;
  const void* src;
  int bytes, valid;
};

struct Thread : Fiber {
  uint3 tid;
  int linear;
  State state;
  const char* where;
  unsigned block_generation, warp_generation;
  List<AsyncCopy> copies;     // issued, oldest first
  List<size_t> groups;        // of how many of them each committed group is, oldest first
  List<const void*> bound;    // whose arrival each of these waits for, null: none's
  size_t grouped;             // of how many all groups are
  const void* polled;         // the mbarrier a thread in State::poll waits for; none: it has arrived and is held back
                              // while others can run
  unsigned parity;
  bool gave_up;               // its last try at an mbarrier
  List<uint32_t> unfenced;    // 16-byte units it wrote that only a proxy fence shows to wgmma
};

struct Warp {
  Mask arrived, alive;
  // of each that has arrived, whom it waits for and where: parts of a warp may meet at different places
  Mask need[kWave];
  const char* where[kWave];
  bool alike;  // all that have arrived wait for the same lanes at the same place
  void* payload[kWave];
  // lanes that asked who runs with them: where, and, once it is decided, the answer
  const char* file[kWave];
  int line[kWave];
  Mask together[kWave];
};

extern Thread threads[kMostThreads];
extern Warp warps[kMostThreads / kWave];
extern size_t thread_count;
extern Thread* current;
extern int order;
extern unsigned block_serial;
extern bool atomics, device_atomics;  // an atomic operation was made in this launch; one of memory that other blocks see
extern int report_thread;
extern const char* report_kernel;

inline Warp& warp() { return warps[thread_linear / kWave]; }
inline int lane() { return thread_linear % kWave; }
void yield(State s, const char* where);
void run_block(void (*body)(void*), void* argument);
extern char shared_room[kMostShared + kGuard], static_room[kStaticShared + kGuard];
inline bool in_shared(uintptr_t p) {
  return p - reinterpret_cast<uintptr_t>(shared_room) < kMostShared || p - reinterpret_cast<uintptr_t>(static_room) < kStaticShared;
}
/// A block begins with no `__shared__` array, and ends with nothing written behind those it had.
void begin_shared_arrays();
void end_shared_arrays();
/// Say in words which byte of shared memory `p` is.
void name_shared(const char* p, char* words, size_t size);

// Of a noted build (accesses.cpp); in others nothing is known of accesses.
#ifdef CUEMU_NOTES_ACCESSES
void begin_noting();  // a launch begins
void forget_stored();  // a block begins
void settle();        // a thread yields: its last store is made
void next_moment();   // all threads of the block see what was stored before
uint32_t this_moment();
void next_meeting();  // of the warp that runs: its lanes do
void note_store(const void* p, size_t n);
void note_load(const void* p, size_t n, int thread);
void check_owner(uintptr_t p, size_t n, bool store);  // device code reaches no memory of the host, nor the host of the device
// What accesses of warps take (warp_accesses.cpp), while it is counted. code: where the access returns to.
extern bool counting;
extern uintptr_t stack_low;
constexpr uintptr_t kStackAbove = 8 << 20;
void begin_counting(bool in_this_call);
void begin_blocks();  // of a launch; what lies above the caller is no device's memory
void end_blocks();
/// Whether it is device memory that somebody allocated: no shared memory, stack, parameter or variable of the emulation.
inline bool in_global(uintptr_t p) {
  const uintptr_t image = reinterpret_cast<uintptr_t>(__ehdr_start);
  return p - image >= reinterpret_cast<uintptr_t>(_end) - image && p - stack_low >= kStackAbove;
}
void count_access(const void* code, uintptr_t p, size_t n, bool store);  // of shared or global memory
void count_rows(const void* code, const void* const* rows);  // 8 rows of 16 bytes that one ldmatrix reads at a time
void end_accesses();  // the lanes of a warp met, or all of them wait
void counted_words(char* text, size_t room);  // JSON
#else
inline constexpr bool counting = false;
inline bool in_global(uintptr_t) { return false; }
inline void begin_counting(bool) {}
inline void begin_blocks() {}
inline void end_blocks() {}
inline void count_access(const void*, uintptr_t, size_t, bool) {}
inline void count_rows(const void*, const void* const*) {}
inline void end_accesses() {}
inline void counted_words(char* text, size_t) { *text = 0; }
inline void begin_noting() {}
inline void forget_stored() {}
inline void settle() {}
inline void next_moment() {}
inline uint32_t this_moment() { return 0; }
inline void next_meeting() {}
inline void note_store(const void*, size_t) {}
inline void note_load(const void*, size_t, int) {}
#endif

// Defined by the parts that need them; called at the ends of a block and when every thread waits.
bool phase_done(const void* barrier, unsigned parity);  // has this mbarrier completed the phase?
bool deliver_copy();                                    // land one tensor copy; false when there is none
void end_copies();
void end_products();

/// Drop what lies in memory that is taken back.
void forget_launches();
void forget_shared_arrays();
void forget_copies();
void forget_products();

}  // namespace cuemu
