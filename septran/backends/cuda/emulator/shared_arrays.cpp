// `__shared__` declarations: NaN in every block, with bytes behind the last one that nobody may write.
#include "machine.h"

namespace cuemu {

namespace {
struct Array {
  const void* site;
  size_t at, bytes;
};
Array arrays[64];
size_t known, used;
}  // namespace

alignas(1024) char static_room[kStaticShared + kGuard];

CUEMU_NOTSAN void* shared_array(const void* site, size_t bytes, size_t alignment) {
  for (size_t i = 0; i < known; i++)
    if (arrays[i].site == site) return static_room + arrays[i].at;
  const size_t at = (used + alignment - 1) / alignment * alignment;
  if (known == sizeof arrays / sizeof *arrays || at + bytes > kStaticShared)
    fail("shared memory", "__shared__ arrays of %zu bytes; a block may have %zu", at + bytes, kStaticShared);
  arrays[known++] = {site, at, bytes};
  used = at + bytes;
  // Not memset: the thread sanitizer would take it for a write of this CUDA thread.
  for (size_t i = 0; i < kGuard; i++) static_cast<volatile char*>(static_room)[used + i] = 0x7B;
  for (size_t i = at; i < used; i++) static_cast<volatile char*>(static_room)[i] = static_cast<char>(unset_byte);
  return static_room + at;
}

// A block's shared memory has addresses of its own: dynamic shared memory, then the `__shared__` arrays. Descriptors hold 18 bits of one.
namespace {
constexpr uint32_t kFirst = 0x400;
uint32_t static_address() { return kFirst + static_cast<uint32_t>((dynamic_shared_size + 1023) / 1024 * 1024); }
}  // namespace

uint32_t shared_address(const void* p) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p);
  const uintptr_t fixed = at - reinterpret_cast<uintptr_t>(static_room), dynamic = at - reinterpret_cast<uintptr_t>(shared_room);
  if (fixed < kStaticShared) return static_address() + static_cast<uint32_t>(fixed);
  if (dynamic < kMostShared + kGuard) return kFirst + static_cast<uint32_t>(dynamic);
  fail("shared memory", "an address outside of the block's shared memory is taken for one of it");
}

void* shared_pointer(uint32_t address) {
  const uint32_t fixed = address - static_address(), dynamic = address - kFirst;
  if (fixed < used) return static_room + fixed;
  if (dynamic < dynamic_shared_size) return shared_room + dynamic;
  fail("shared memory", "an access at shared address 0x%x, where the block has no shared memory", address);
}

void name_shared(const char* p, char* words, size_t size) {
  for (size_t i = 0; i < known; i++) {
    const char* start = static_room + arrays[i].at;
    if (p >= start && p < start + arrays[i].bytes) {
      const char* name = static_cast<const char*>(arrays[i].site);  // as `prepare` writes it, or nothing
      snprintf(words, size, "byte %td of %s%.80s", p - start, *name ? "the __shared__ array " : "a __shared__ array", name);
      return;
    }
  }
  snprintf(words, size, "byte %td of the block's dynamic shared memory", p - shared_room);
}

void begin_shared_arrays() { known = used = 0; }

void end_shared_arrays() {
#if !defined(__SANITIZE_ADDRESS__)
  for (size_t i = 0; known && i < kGuard; i++)
    if (static_room[used + i] != 0x7B) fail("shared memory", "write past the end of the block's __shared__ arrays");
#endif
}

void forget_shared_arrays() {
  known = used = 0;
  memset(static_room, unset_byte, sizeof static_room);
}

}  // namespace cuemu
