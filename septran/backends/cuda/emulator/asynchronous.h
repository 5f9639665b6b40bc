// How the asynchronous engines see a block's shared memory.
#pragma once
#include "machine.h"

namespace cuemu {

/// The 128-byte swizzle: bits 4..6 of an address are xor-ed with bits 7..9.
inline uint64_t swizzled(uint64_t address) { return address ^ (address >> 7 & 7) << 4; }
/// The same of an address in a smaller pattern: 2 for 64 bytes, 1 for 32, 0 for none.
inline uint64_t swizzled(uint64_t address, int kind) {
  return kind == 3 ? swizzled(address) : kind == 2 ? address ^ (address >> 7 & 3) << 4 : kind == 1 ? address ^ (address >> 7 & 1) << 4 : address;
}
/// So many bytes of what `barrier` waits for have landed.
void landed_bytes(void* barrier, int bytes);
/// Of tensor_maps.cpp: land one copy, false when there is none; a block ends; a call does; this thread's stores are shown.
bool deliver_bulk();
void end_bulk();
void forget_bulk();
void fence_stores();
/// Of a noted build: an mbarrier lies there, whose bits no document gives a meaning.
void opaque_barrier(const void* p);
/// A copy that an mbarrier is to be told of is begun.
void check_copies_begin(const void* barrier);
/// The bytes of shared memory from `address` on, all of which the block has.
char* shared_bytes(uint64_t address, size_t n, const char* who);
/// What threads stored to shared memory and no proxy fence has shown to the asynchronous engines yet: in a noted build.
void proxy_stored(const char* p, size_t n);
void proxy_landed(const char* p, size_t n);
void check_proxy(const char* p, size_t n, const char* who);
/// Whether the last writes to the 16 bytes at `offset` were shown to wgmma by a proxy fence.
bool seen_by_wgmma(uint64_t offset);

}  // namespace cuemu
