#include <cstdint>

namespace st {

// A size that the caller tells: one 64-bit number.
inline long size(const void* where) { return static_cast<long>(*static_cast<const int64_t*>(where)); }

}  // namespace st
