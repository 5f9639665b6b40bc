// Launches, the orders in which a call runs them, and the memory that they use.
#include <sys/mman.h>
#include <initializer_list>
#include "block_races.h"
#include "machine.h"
#include "said.h"

namespace cuemu {

namespace {
constexpr size_t kUnasked = 48 * 1024;  // dynamic shared memory that every device gives
size_t dynamic_limit = kUnasked;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
alignas(4096) char stacks[kMostThreads][kStack];  // pages that no thread touches cost nothing
#endif
size_t stacks_used;

char* stack_of(size_t i) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return threads[i].stack ? threads[i].stack : static_cast<char*>(aligned_alloc(64, kStack));
#else
  return stacks[i];
#endif
}

void check_launch(const dim3& grid, const dim3& block, size_t shared) {
  const size_t n = size_t(block.x) * block.y * block.z;
  if (n == 0 || n > kMostThreads || block.z > 64) fail("launch", "a block of %zu threads; the limit is 1024", n);
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    fail("launch", "grid %u,%u,%u is outside 1..2147483647, 65535, 65535", grid.x, grid.y, grid.z);
  if (shared > dynamic_limit)
    fail("launch",
         "%zu bytes of dynamic shared memory; %zu are allowed without (a larger) cudaFuncAttributeMaxDynamicSharedMemorySize",
         shared, dynamic_limit);
}

/// A launch as its blocks see it.
struct Grid {
  void (*body)(void*);
  void* argument;
  unsigned total;

  void turn(unsigned i) const {
    const unsigned b = order == reverse ? total - 1 - i : i;  // blocks have no order either
    const unsigned row = grid_dim.x, plane = row * grid_dim.y;
    block_id = {b % row, b / row % grid_dim.y, b / plane};
    run_block(body, argument);
#if !defined(__SANITIZE_ADDRESS__)
    for (size_t j = 0; j < kGuard; j++)
      if (dynamic_shared[dynamic_shared_size + j] != 0x7B)
        fail("shared memory", "write past the end of the block's dynamic shared memory");
#endif
  }
};
}  // namespace

alignas(1024) char shared_room[kMostShared + kGuard];

void run_grid(const char* name, const dim3& grid, const dim3& block, size_t shared, void (*body)(void*), void* argument) {
  report_kernel = name;
  check_launch(grid, block, shared);
  block_dim = block;
  grid_dim = grid;
  thread_count = size_t(block.x) * block.y * block.z;
  for (size_t i = 0; i < thread_count; i++) {
    Thread& t = threads[i];
    t.stack = stack_of(i);
    t.linear = static_cast<int>(i);
    t.tid = {unsigned(i % block.x), unsigned(i / block.x % block.y), unsigned(i / block.x / block.y)};
  }
  if (thread_count > stacks_used) stacks_used = thread_count;
  dynamic_shared = shared_room;
  dynamic_shared_size = shared;
  memset(shared_room + shared, 0x7B, kGuard);
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(shared_room + shared, kGuard);
#endif
#if defined(__SANITIZE_THREAD__)
  main_fiber.tsan = __tsan_get_current_fiber();
#endif
  begin_noting();
  begin_blocks();
  device_begins(__builtin_frame_address(0));
  const Grid run{body, argument, grid.x * grid.y * grid.z};
  BlocksApart apart;
  apart.try_all(run.total, [&](unsigned i) { run.turn(i); });
  for (unsigned i = 0; i < run.total; i++) run.turn(i);
  end_blocks();
  apart.compare();
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(shared_room + shared, kGuard);
#endif
  dynamic_shared = nullptr;
  dynamic_shared_size = 0;
}

int unset_byte = 0xFF;
unsigned default_nan = 0x7FC00000;

void run_orders(const Output* outputs, size_t count, bool blocks_apart, void (*kernel)(void*), void* argument) {
  static unsigned calls = 0;
  const uint64_t call = st_variant ? st_variant() : calls++;
  // as floats: NaN twice, 8e37, 2e-38; as integers: odd and even, above zero and below
  static const int bytes[] = {0xFF, 0xFF, 0x7E, 0x01};
  unset_byte = bytes[call % 4];
  if (call % 4 == 3) default_nan = 0xFFC00000;  // as a sign that was turned round, or left as it was, may show
  else if (kWave == 32 && call % 2 == 0) default_nan = 0x7FFFFFFF;  // as PTX has it; in other calls another, because PTX promises none
  else default_nan = 0x7FC00000;
  begin_counting(call == 0);
  host_begins(__builtin_frame_address(0));
#ifdef CUEMU_NOTES_ACCESSES
  const bool first = false;  // what is noted in one order holds for all
#else
  const bool first = call == 0;
#endif
  if (!first) {
    order = static_cast<int>(call % 3);
    kernel(argument);
  } else {
    Outputs all;
    for (size_t i = 0; i < count; i++) all.push(outputs[i]);
    Contents* earlier = nullptr;
    if (blocks_apart) {
      watched = &all;
      Contents before(all);
      order = forward;
      kernel(argument);
      watched = nullptr;
      all.size(count);
      earlier = new (malloc(sizeof(Contents))) Contents(all);
      before.put_back(all);
    }
    Contents before(all);
    order = forward;
    kernel(argument);
    Contents expected(all);
    for (size_t i = 0; earlier && i < count; i++)
      if (earlier->first_difference(all, i) >= 0)
        fail("state", "output %zu of the very first call is another than that of the second on the same inputs", i);
    if (earlier) earlier->~Contents(), free(static_cast<void*>(earlier));
    for (int other : {int(reverse), int(shuffled)}) {
      before.put_back(all);
      order = other;
      kernel(argument);
      if (float_atomics) continue;
      for (size_t i = 0; i < count; i++) {
        const long b = expected.first_difference(all, i);
        if (b >= 0)
          fail("race", "output %zu differs at byte %ld between threads run forward and %s: a barrier is missing", i, b,
               other == reverse ? "reverse" : "shuffled");
      }
    }
    free(all.data);
  }
  if (!st_say) return;
  char text[8192] = "";
  if (call == 0) counted_words(text, sizeof text);
  char report[sizeof text + 64];
  snprintf(report, sizeof report, *text ? "{\"errors\": [], \"accesses\": %s}" : "{\"errors\": []}", text);
  st_say(report);
}

void* device_memory(size_t bytes) {
  const size_t unit = 256;  // as cudaMalloc aligns
  void* p = aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (!p && bytes) fail("memory", "cudaMalloc of %zu bytes", bytes);
  if (bytes) memset(p, unset_byte, bytes);
  if (watched) watched->push({p, bytes});
  reached_by_device(p, bytes);
  return p;
}

void free_device_memory(void* p) {
  for (size_t i = 0; watched && i < watched->count; i++)
    if ((*watched)[i].data == p) watched->drop(i--, 1);
  given_back(p);
  free(p);
}

long long clock_now() { return 0; }

void allow_dynamic_shared(size_t bytes, size_t limit) {
  if (bytes > limit || bytes > kMostShared)
    fail("launch", "%zu bytes of shared memory a block; this device has %zu", bytes, limit);
  if (bytes > dynamic_limit) dynamic_limit = bytes;
}

void forget_launches() {
  watched = nullptr;
  forget_owners();
  for (Thread& t : threads) t.copies.forget(), t.groups.forget(), t.bound.forget(), t.unfenced.forget();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (stacks_used) madvise(stacks, stacks_used * kStack, MADV_DONTNEED);
#endif
  stacks_used = 0;
  dynamic_limit = kUnasked;
  memset(shared_room, unset_byte, sizeof shared_room);
}

}  // namespace cuemu

/// The static host calls this after each call, when it has taken back what was allocated.
extern "C" void st_after_call() {
  cuemu::forget_launches();
  cuemu::forget_shared_arrays();
  cuemu::forget_copies();
  cuemu::forget_products();
}

/// The kernel's code ends in a trap where its compiler was asked to check what it does (SIGILL, septran/host/host.c).
extern "C" void st_at_trap(int) {
  cuemu::fail("alignment or bounds",
              "a misaligned access (a float4 takes addresses that are multiples of 16 bytes), an index outside its array, a shift by as many bits as "
              "there are or more, or a float beyond an integer's range that becomes one without a cast, which this emulation does not give the "
              "device's value: write (int)x");
}
