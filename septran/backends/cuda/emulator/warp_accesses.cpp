// How many sectors of global memory and how many wavefronts of shared memory the accesses of warps take: only in a noted
// build (accesses.cpp), in its first call, of which it is part of the report. Rules: CUDA C++ Programming Guide, "Global
// Memory" and "Shared Memory" of compute capability 5.x and later; Best Practices Guide, "Coalesced Access to Global
// Memory". For wavefronts of 64 lanes: AMD's Composable Kernel documentation, "LDS and Bank Conflicts".
//   global  a warp's access takes the sectors of 32 bytes (AMD: 64) that its lanes touch; it needs as many as hold its bytes.
//   shared  32 banks of 4 bytes. A warp's access goes in parts of as many lanes as ask for 128 bytes together (32 lanes of up
//           to 4 bytes, 16 of 8, 8 of 16); a part takes as many wavefronts as its worst bank has different words, and needs 1.
// One access of a warp: the n-th of each lane at one place of the machine code since the lanes last met (a barrier, a meeting of
// all of a warp). Threads run one after another, so lanes that skip a round of a loop are counted with the next one's.
// Not counted: local and constant memory, parameters, `__device__` variables, bulk copies, operands of wgmma, what an atomic
// operation waits for (it counts as a load and a store).
#ifdef CUEMU_NOTES_ACCESSES
#include "machine.h"

namespace cuemu {

bool counting;
uintptr_t stack_low;

namespace {
constexpr uintptr_t kSector = kWave == 32 ? 32 : 64;
constexpr unsigned kBanks = 32;
constexpr size_t kPart = 128, kWidest = 16;
constexpr size_t kMostSites = 2048, kMostGroups = 1 << 15, kShown = 6;
constexpr uint64_t kMostCounted = 2'000'000;  // accesses of warps in a call
constexpr uint32_t kNone = ~0u;

/// One access of a warp.
struct Group {
  Mask lanes;
  uint32_t next;
  uintptr_t at[kWave];
};
struct Site {
  uintptr_t code;  // where the access returns to; 0: no site
  bool shared, store, listed;
  uint32_t bytes, first, last[kWave];
  uint64_t times, taken, needed;
  uint32_t worst;  // sectors of one access, or wavefronts of one part
};
Group groups[kMostGroups];
Site sites[kMostSites];
uint16_t touched[kMostSites];
size_t group_count, touched_count, site_count;
uint64_t counted, left_out;
bool wanted;

Site* site_of(uintptr_t code, bool shared, bool store, uint32_t bytes) {
  const uint64_t mixed = (code * 128 + bytes * 4 + shared * 2 + store) * 0x9E3779B97F4A7C15ull;
  for (size_t i = mixed >> 40;; i++) {
    Site& s = sites[i % kMostSites];
    if (s.code == code && s.shared == shared && s.store == store && s.bytes == bytes) return &s;
    if (s.code) continue;
    if (site_count + 1 == kMostSites) return nullptr;
    site_count++;
    s.code = code, s.shared = shared, s.store = store, s.bytes = bytes, s.first = kNone;
    for (uint32_t& last : s.last) last = kNone;
    return &s;
  }
}

size_t sorted(const Group& g, uintptr_t (&at)[kWave]) {
  size_t n = 0;
  for (int l = 0; l < kWave; l++) {
    if (!(g.lanes >> l & 1)) continue;
    size_t i = n++;
    for (; i && at[i - 1] > g.at[l]; i--) at[i] = at[i - 1];
    at[i] = g.at[l];
  }
  return n;
}

void add(Site& s, uint64_t taken, uint64_t needed, uint32_t worst) {
  s.times++, s.taken += taken, s.needed += needed;
  if (worst > s.worst) s.worst = worst;
}

void count_global(Site& s, const Group& g) {
  uintptr_t at[kWave], seen = 0, end = 0;
  const size_t n = sorted(g, at);
  uint64_t taken = 0, bytes = 0;
  for (size_t i = 0; i < n; i++) {
    const uintptr_t last = (at[i] + s.bytes - 1) / kSector + 1;  // sectors count from 1
    for (uintptr_t k = at[i] / kSector + 1; k <= last; k++)
      if (k > seen) seen = k, taken++;
    const uintptr_t begin = at[i] > end ? at[i] : end;
    if (at[i] + s.bytes > begin) bytes += at[i] + s.bytes - begin, end = at[i] + s.bytes;
  }
  add(s, taken, (bytes + kSector - 1) / kSector, static_cast<uint32_t>(taken));
}

/// Wavefronts of a part: `n` accesses of `bytes` each.
uint32_t wavefronts(const uintptr_t* at, size_t n, size_t bytes) {
  uintptr_t words[kBanks][kWave + 1];
  uint32_t count[kBanks] = {}, most = 0;
  for (size_t i = 0; i < n; i++)
    for (uintptr_t w = at[i] / 4; w <= (at[i] + bytes - 1) / 4; w++) {
      const size_t bank = w % kBanks;
      uint32_t j = 0;
      while (j < count[bank] && words[bank][j] != w) j++;
      if (j == count[bank] && j < kWave) words[bank][count[bank]++] = w;
      if (count[bank] > most) most = count[bank];
    }
  return most;
}

void count_shared(Site& s, const Group& g) {
  const int lanes = static_cast<int>(kPart / (s.bytes > 4 ? s.bytes > 8 ? 16 : 8 : 4));
  uint64_t taken = 0, needed = 0;
  uint32_t worst = 0;
  for (int first = 0; first < kWave; first += lanes) {
    uintptr_t at[kWave];
    size_t n = 0;
    for (int l = first; l < first + lanes && l < kWave; l++)
      if (g.lanes >> l & 1) at[n++] = g.at[l];
    if (!n) continue;
    const uint32_t took = wavefronts(at, n, s.bytes);
    taken += took, needed++;
    if (took > worst) worst = took;
  }
  add(s, taken, needed, worst);
}

void count_one(uintptr_t code, uintptr_t p, uint32_t bytes, bool store, bool shared) {
  Site* s = site_of(code, shared, store, bytes);
  if (!s) return void(left_out++);
  const int l = lane();
  uint32_t& mine = s->last[l];
  uint32_t next = mine == kNone ? s->first : groups[mine].next;
  if (next == kNone) {
    if (group_count == kMostGroups) return void(left_out++);
    next = static_cast<uint32_t>(group_count++);
    groups[next].lanes = 0, groups[next].next = kNone;
    (mine == kNone ? s->first : groups[mine].next) = next;
  }
  if (!s->listed) s->listed = true, touched[touched_count++] = static_cast<uint16_t>(s - sites);
  groups[next].lanes |= Mask(1) << l;
  groups[next].at[l] = p;
  mine = next;
}

/// The excess of a site over what it needs; of global memory in sectors.
uint64_t excess(const Site& s) { return s.taken - s.needed; }
}  // namespace

void begin_counting(bool in_this_call) {
  memset(static_cast<void*>(sites), 0, sizeof sites);
  group_count = touched_count = site_count = 0;
  counted = left_out = 0;
  counting = false;
  wanted = in_this_call;
}
void begin_blocks() {
  stack_low = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  counting = wanted;
}
void end_blocks() { counting = false; }

void count_access(const void* code, uintptr_t p, size_t n, bool store) {
  const bool shared = in_shared(p);
  const uintptr_t site = reinterpret_cast<uintptr_t>(code);
  for (; n > kWidest; n -= kWidest, p += kWidest) count_one(site, p, kWidest, store, shared);
  if (n) count_one(site, p, static_cast<uint32_t>(n), store, shared);
}

void count_rows(const void* code, const void* const* rows) {
  Site* s = site_of(reinterpret_cast<uintptr_t>(code), true, false, 16);
  if (!s) return void(left_out++);
  const uint32_t took = wavefronts(reinterpret_cast<const uintptr_t*>(rows), 8, 16);
  add(*s, took, 1, took);
}

void end_accesses() {
  for (size_t i = 0; i < touched_count; i++) {
    Site& s = sites[touched[i]];
    for (uint32_t g = s.first; g != kNone; g = groups[g].next) {
      if (s.shared) count_shared(s, groups[g]);
      else count_global(s, groups[g]);
    }
    s.first = kNone, s.listed = false;
    for (uint32_t& last : s.last) last = kNone;
  }
  counted += group_count;
  group_count = touched_count = 0;
  if (counted > kMostCounted) counting = wanted = false, left_out++;
}

void counted_words(char* text, size_t room) {
  uint64_t times[2] = {}, taken[2] = {}, needed[2] = {};
  Site* most[2][kShown] = {};
  for (Site& s : sites) {
    if (!s.times) continue;
    times[s.shared] += s.times, taken[s.shared] += s.taken, needed[s.shared] += s.needed;
    Site* one = &s;
    for (Site*& place : most[s.shared])
      if (!place || excess(*one) > excess(*place)) {
        Site* other = place;
        place = one, one = other;
        if (!one) break;
      }
  }
  size_t at = 0;
  auto put = [&](const char* format, auto... values) {
    if (at < room) at += static_cast<size_t>(snprintf(text + at, room - at, format, values...));
  };
  const char* names[] = {"global", "shared"};
  put("{\"lanes\": %d, \"sector\": %zu, \"left_out\": %llu", kWave, size_t(kSector), static_cast<unsigned long long>(left_out));
  for (int shared = 0; shared < 2; shared++) {
    auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
    put(", \"%s\": {\"times\": %llu, \"taken\": %llu, \"needed\": %llu, \"sites\": {", names[shared], number(times[shared]),
        number(taken[shared]), number(needed[shared]));
    for (size_t i = 0; i < kShown && most[shared][i]; i++) {
      const Site& s = *most[shared][i];
      put("%s\"%zx %s\": {\"bytes\": %u, \"times\": %llu, \"taken\": %llu, \"needed\": %llu, \"worst\": %u}", i ? ", " : "", s.code,
          s.store ? "store" : "load", s.bytes, number(s.times), number(s.taken), number(s.needed), s.worst);
    }
    put("}}");
  }
  put("}");
}

}  // namespace cuemu
#endif
