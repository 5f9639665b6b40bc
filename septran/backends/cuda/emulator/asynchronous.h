// How the asynchronous engines see a block's shared memory.
#pragma once
#include "machine.h"

namespace cuemu {

/// The 128-byte swizzle: bits 4..6 of an address are xor-ed with bits 7..9.
inline uint64_t swizzled(uint64_t address) { return address ^ (address >> 7 & 7) << 4; }
/// Whether the last writes to the 16 bytes at `offset` were shown to wgmma by a proxy fence.
bool seen_by_wgmma(uint64_t offset);

}  // namespace cuemu
