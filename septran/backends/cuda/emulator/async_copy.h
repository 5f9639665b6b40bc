// cp.async with the unkindest legal timing: data lands when its thread waits for it, not before.
// Until then the destination holds NaN, so a missing wait cannot go unnoticed.
#pragma once
#include "scheduler.h"

namespace cuemu {

inline void async_copy(void* dst, const void* src, int bytes, int valid) {
  if (reinterpret_cast<uintptr_t>(dst) % bytes || (valid && reinterpret_cast<uintptr_t>(src) % bytes))
    fail("alignment", "cp.async of " + std::to_string(bytes) + " bytes on an address that is not a multiple of it");
  if (valid < 0 || valid > bytes) fail("async", "cp.async source size outside 0.." + std::to_string(bytes));
  // The read happens now so that an out-of-bounds source faults at the line that issued it.
  volatile const char* probe = static_cast<const char*>(src);
  if (valid) (void)probe[0], (void)probe[valid - 1];
  memset(dst, 0xFF, bytes);
  current->open.push_back({dst, src, bytes, valid});
}

inline void async_commit() {
  current->groups.push_back(std::move(current->open));
  current->open.clear();
}

inline void async_wait(int allowed) {
  auto& groups = current->groups;
  size_t landing = groups.size() > static_cast<size_t>(allowed) ? groups.size() - allowed : 0;
  for (size_t i = 0; i < landing; i++)
    for (auto& c : groups[i]) {
      memcpy(c.dst, c.src, c.valid);
      memset(static_cast<char*>(c.dst) + c.valid, 0, c.bytes - c.valid);
    }
  groups.erase(groups.begin(), groups.begin() + landing);
}

}  // namespace cuemu
