// `__shared__` declarations: NaN in every block, with bytes behind the last one that nobody may write.
#include "machine.h"

namespace cuemu {

namespace {
constexpr size_t kStatic = 48 * 1024;  // what a block may have without asking, on every device
struct Array {
  const void* site;
  size_t at;
};
alignas(1024) char room[kStatic + kGuard];
Array arrays[64];
size_t known, used;
}  // namespace

CUEMU_NOTSAN void* shared_array(const void* site, size_t bytes, size_t alignment) {
  for (size_t i = 0; i < known; i++)
    if (arrays[i].site == site) return room + arrays[i].at;
  const size_t at = (used + alignment - 1) / alignment * alignment;
  if (known == sizeof arrays / sizeof *arrays || at + bytes > kStatic)
    fail("shared memory", "__shared__ arrays of %zu bytes; a block may have %zu", at + bytes, kStatic);
  arrays[known++] = {site, at};
  used = at + bytes;
  // Not memset: the thread sanitizer would take it for a write of this CUDA thread.
  for (size_t i = 0; i < kGuard; i++) static_cast<volatile char*>(room)[used + i] = 0x7B;
  for (size_t i = at; i < used; i++) static_cast<volatile char*>(room)[i] = static_cast<char>(unset_byte);
  return room + at;
}

void begin_shared_arrays() { known = used = 0; }

void end_shared_arrays() {
#if !defined(__SANITIZE_ADDRESS__)
  for (size_t i = 0; known && i < kGuard; i++)
    if (room[used + i] != 0x7B) fail("shared memory", "write past the end of the block's __shared__ arrays");
#endif
}

void forget_shared_arrays() {
  known = used = 0;
  memset(room, unset_byte, sizeof room);
}

}  // namespace cuemu
