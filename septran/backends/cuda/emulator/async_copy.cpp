// cp.async with the unkindest legal timing: data lands when its thread waits for it, not before.
// Until then the destination holds NaN, so a missing wait cannot go unnoticed.
#include "machine.h"

namespace cuemu {

void async_copy(void* dst, const void* src, int bytes, int valid) {
  if (reinterpret_cast<uintptr_t>(dst) % bytes || (valid && reinterpret_cast<uintptr_t>(src) % bytes))
    fail("alignment", "cp.async of %d bytes on an address that is not a multiple of it", bytes);
  if (valid < 0 || valid > bytes) fail("async", "cp.async source size outside 0..%d", bytes);
  // The read happens now so that an out-of-bounds source faults at the line that issued it.
  volatile const char* probe = static_cast<const char*>(src);
  if (valid) (void)probe[0], (void)probe[valid - 1];
  if (counting) {
    const void* code = __builtin_return_address(0);
    if (in_global(reinterpret_cast<uintptr_t>(src))) count_access(code, reinterpret_cast<uintptr_t>(src), static_cast<size_t>(valid), false);
    count_access(code, reinterpret_cast<uintptr_t>(dst), static_cast<size_t>(bytes), true);
  }
  memset(dst, 0xFF, static_cast<size_t>(bytes));
  current->copies.push({dst, src, bytes, valid});
}

void async_commit() { async_bind(nullptr); }

void async_bind(const void* barrier) {
  Thread& t = *current;
  t.bound.push(barrier);
  t.groups.push(t.copies.count - t.grouped);
  t.grouped = t.copies.count;
}

void async_wait(int allowed) {
  Thread& t = *current;
  const size_t groups = t.groups.count, keep = static_cast<size_t>(allowed);
  const size_t landing = groups > keep ? groups - keep : 0;
  size_t n = 0;
  for (size_t i = 0; i < landing; i++) n += t.groups[i];
  for (size_t i = 0; i < n; i++) {
    const AsyncCopy& c = t.copies[i];
    note_store(c.dst, static_cast<size_t>(c.bytes));
    memcpy(c.dst, c.src, static_cast<size_t>(c.valid));
    memset(static_cast<char*>(c.dst) + c.valid, 0, static_cast<size_t>(c.bytes - c.valid));
  }
  t.copies.drop(0, n);
  t.groups.drop(0, landing);
  t.bound.drop(0, landing);
  t.grouped -= n;
}

void async_land(const void* barrier) {
  for (size_t left = 0, groups = current->groups.count; left < groups; left++)
    if (current->bound[groups - 1 - left] == barrier) return async_wait(static_cast<int>(left));
}

}  // namespace cuemu
