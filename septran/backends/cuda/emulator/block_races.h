// Races between blocks: each block of a launch runs from the memory that the launch found, so it sees no other block.
// A byte that two blocks change, or a result that differs from that of blocks run in turn, is a race. Launches with
// atomic operations are left out: their blocks are meant to see each other.
#pragma once
#include "scheduler.h"

namespace cuemu {

struct Output {
  void* data;
  size_t bytes;
};

constexpr size_t kMostCopied = size_t(1) << 30;  // bytes copied for one launch, above which it is not watched
inline std::vector<Output>* watched = nullptr;   // outputs and device memory; none: blocks are not watched

inline void watch_blocks(const std::vector<Output>& outputs) {
  delete watched;
  watched = outputs.empty() ? nullptr : new std::vector<Output>(outputs);
}

inline void watch_more(void* data, size_t bytes) {
  if (watched) watched->push_back({data, bytes});
}

inline void watch_less(void* data) {
  if (watched) std::erase_if(*watched, [&](const Output& o) { return o.data == data; });
}

inline std::vector<std::string> copies() {
  std::vector<std::string> all;
  for (auto& o : *watched) all.emplace_back(static_cast<char*>(o.data), o.bytes);
  return all;
}

inline void put_back(const std::vector<std::string>& before) {
  for (size_t i = 0; i < before.size(); i++) memcpy((*watched)[i].data, before[i].data(), before[i].size());
}

/// What memory holds after every block has run on its own; empty when nobody asks or blocks use atomic operations.
template <class Turn> std::vector<std::string> blocks_apart(unsigned total, Turn turn) {
  if (!watched || total < 2) return {};
  size_t bytes = 0;
  for (auto& o : *watched) bytes += o.bytes;
  if (bytes * total > kMostCopied) return {};
  const auto before = copies();
  auto merged = before;
  std::vector<std::vector<unsigned>> owner;
  for (auto& b : before) owner.emplace_back(b.size(), 0u);
  atomics = false;
  for (unsigned block = 0; block < total; block++) {
    turn(block);
    if (atomics) {
      put_back(before);
      return {};
    }
    for (size_t i = 0; i < before.size(); i++) {
      const char* now = static_cast<char*>((*watched)[i].data);
      if (!memcmp(now, before[i].data(), before[i].size())) continue;
      for (size_t b = 0; b < before[i].size(); b++) {
        if (now[b] == before[i][b]) continue;
        if (owner[i][b])
          fail("race", "blocks " + std::to_string(owner[i][b] - 1) + " and " + std::to_string(block) +
                           " both write byte " + std::to_string(b) + " of output or memory " + std::to_string(i));
        owner[i][b] = block + 1;
        merged[i][b] = now[b];
      }
    }
    put_back(before);
  }
  return merged;
}

inline void same_as_apart(const std::vector<std::string>& apart) {
  for (size_t i = 0; i < apart.size(); i++)
    if (memcmp(apart[i].data(), (*watched)[i].data, apart[i].size()))
      fail("race", "a block reads what another block of the same launch writes");
}

}  // namespace cuemu
