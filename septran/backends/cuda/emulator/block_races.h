// Races between blocks: each block of a launch runs from the memory that the launch found, so it sees no other block.
// A byte that two blocks change, or a result that differs from that of blocks run in turn, is a race. Launches with
// atomic operations on memory that other blocks see are left out: their blocks are meant to see each other.
#pragma once
#include <new>
#include "machine.h"

namespace cuemu {

using Outputs = List<Output>;
constexpr size_t kMostCopied = size_t(1) << 30;   // bytes copied for one launch, above which it is not watched
inline Outputs* watched = nullptr;                // outputs and device memory; none: blocks are not watched

/// What outputs held at one moment, one after the other.
class Contents {
 public:
  explicit Contents(const Outputs& of) {
    for (auto& o : of) bytes_ += o.bytes;
    data_ = static_cast<char*>(malloc(bytes_ + 1));
    if (!data_) fail("memory", "the emulation needs more than there is");
    size_t at = 0;
    for (auto& o : of) memcpy(data_ + at, o.data, o.bytes), at += o.bytes;
  }
  ~Contents() { free(data_); }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  char* of(const Outputs& outputs, size_t i) const {
    char* p = data_;
    for (size_t j = 0; j < i; j++) p += outputs[j].bytes;
    return p;
  }
  void put_back(const Outputs& outputs) const {
    size_t at = 0;
    for (auto& o : outputs) {
      if (at + o.bytes > bytes_) return;  // allocated since
      memcpy(o.data, data_ + at, o.bytes), at += o.bytes;
    }
  }
  /// The first byte of output `i` that differs from then, -1 when none does.
  long first_difference(const Outputs& outputs, size_t i) const {
    const char *then = of(outputs, i), *now = static_cast<char*>(outputs[i].data);
    if (!memcmp(then, now, outputs[i].bytes)) return -1;
    long b = 0;
    while (then[b] == now[b]) b++;
    return b;
  }

 private:
  char* data_;
  size_t bytes_ = 0;
};

/// What memory holds after every block has run on its own.
class BlocksApart {
 public:
  /// Nothing is known when nobody asks or blocks use atomic operations on memory that all see.
  template <class Turn> void try_all(unsigned total, Turn turn) {
    if (!watched || total < 2) return;
    size_t bytes = 0;
    for (auto& o : *watched) bytes += o.bytes;
    if (bytes * total > kMostCopied) return;
    Contents before(*watched);
    merged_ = new (malloc(sizeof(Contents))) Contents(*watched);
    List<unsigned> owner;
    owner.size(bytes);
    memset(static_cast<void*>(owner.data), 0, bytes * sizeof(unsigned));
    device_atomics = false;
    for (unsigned block = 0; block < total && merged_; block++) {
      turn(block);
      if (device_atomics) drop();
      else take(before, owner, block);
      before.put_back(*watched);
    }
    free(owner.data);
  }
  void compare() {
    if (!merged_) return;
    for (size_t i = 0; i < watched->count; i++)
      if (merged_->first_difference(*watched, i) >= 0)
        fail("race", "a block reads what another block of the same launch writes");
    drop();
  }

 private:
  void take(const Contents& before, const List<unsigned>& owner, unsigned block) {
    size_t at = 0;
    for (size_t i = 0; i < watched->count; at += (*watched)[i].bytes, i++) {
      if (before.first_difference(*watched, i) < 0) continue;
      const char *then = before.of(*watched, i), *now = static_cast<char*>((*watched)[i].data);
      char* merged = merged_->of(*watched, i);
      for (size_t b = 0; b < (*watched)[i].bytes; b++) {
        if (now[b] == then[b]) continue;
        if (owner[at + b])
          fail("race", "blocks %u and %u both write byte %zu of output or memory %zu", owner[at + b] - 1, block, b, i);
        owner[at + b] = block + 1;
        merged[b] = now[b];
      }
    }
  }
  void drop() {
    merged_->~Contents();
    free(static_cast<void*>(merged_));
    merged_ = nullptr;
  }

  Contents* merged_ = nullptr;
};

}  // namespace cuemu
