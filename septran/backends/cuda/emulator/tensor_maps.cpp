// Tensor maps and bulk copies (sm_90) as files that SepTran did not write use them, with the unkindest legal timing: what a copy
// into shared memory fills is NaN until every thread of the block waits, and a copy out of it reads when its thread waits for it;
// what changed in between is a race. Source: PTX ISA, "Data Movement and Conversion"; CUDA driver API, cuTensorMapEncodeTiled.
#include "asynchronous.h"

namespace cuemu {

char* shared_bytes(uint64_t address, size_t n, const char* who) {
  char* p = static_cast<char*>(shared_pointer(static_cast<uint32_t>(address)));
  // both ends lie in one array of the block: nothing lies between its dynamic memory and its arrays
  if (n && static_cast<char*>(shared_pointer(static_cast<uint32_t>(address + n - 1))) != p + n - 1)
    fail("shared memory", "%s past the end of the block's shared memory", who);
  return p;
}

// ---- what a tensor map holds
namespace {
constexpr uint32_t kMap = 0x7E50A1E5;
struct Map {
  uint32_t magic;
  uint8_t rank, item, swizzle, nan_outside;
  const char* base;
  uint64_t stride[5];  // bytes
  uint32_t last[5];    // of each dim
  uint16_t box[5];
};
static_assert(sizeof(Map) <= 128);

Map map_at(const void* p) {
  Map m;
  if (reinterpret_cast<uintptr_t>(p) % 64) fail("alignment", "a tensor map that is not aligned to 64 bytes");
  memcpy(&m, p, sizeof m);
  if (m.magic != kMap) fail("async", "a tensor map that cuTensorMapEncodeTiled did not make");
  return m;
}
}  // namespace

int encode_map(void* map, int item, int rank, const void* base, const uint64_t* size, const uint64_t* stride, const uint32_t* box,
               const uint32_t* step, int interleave, int swizzle, bool nan_outside) {
  memset(map, 0, 128);
  if (rank < 1 || rank > 5 || item < 1 || interleave) return 1;
  if (reinterpret_cast<uintptr_t>(map) % 64 || reinterpret_cast<uintptr_t>(base) % 16) return 1;
  Map m{kMap, static_cast<uint8_t>(rank), static_cast<uint8_t>(item), static_cast<uint8_t>(swizzle), nan_outside,
        static_cast<const char*>(base), {}, {}, {}};
  m.stride[0] = static_cast<uint64_t>(item);
  for (int d = 0; d < rank; d++) {
    if (size[d] < 1 || size[d] > 1ull << 32 || box[d] < 1 || box[d] > 256 || step[d] != 1) return 1;
    m.last[d] = static_cast<uint32_t>(size[d] - 1), m.box[d] = static_cast<uint16_t>(box[d]);
    if (d) m.stride[d] = stride[d - 1];
    if (d && (m.stride[d] % 16 || m.stride[d] >= 1ull << 40)) return 1;
  }
  const uint32_t row = box[0] * static_cast<uint32_t>(item);
  if (row % 16 || (swizzle && row > 16u << swizzle)) return 1;
  memcpy(map, &m, sizeof m);
  return 0;
}

// ---- copies
namespace {
struct Copy {
  Map map;             // of a tensor copy; its rank is 0 in others
  int at[5];
  char* shared;
  char* global;
  uint32_t bytes;
  void* barrier;       // of one into shared memory
  int thread, group;   // of one out of it: whose, and of which of its groups, from 1 on; 0: it is not committed
  uint64_t held;       // a digest of what it read when it began
};
List<Copy> loads, stores;
bool any_unshown;  // a thread's store that no fence has shown to the engines
int committed[kMostThreads];

uint32_t bytes_of(const Map& m) {
  uint32_t n = m.item;
  for (int d = 0; d < m.rank; d++) n *= m.box[d];
  return n;
}

/// Call `each(shared byte, global byte or nullptr, bytes)` for the elements of a copy, 16 bytes of shared memory at most.
template <class F> CUEMU_NOTSAN void over(const Copy& c, F each) {
  const Map& m = c.map;
  if (!m.rank) {
    for (uint32_t i = 0; i < c.bytes; i += 16) each(c.shared + i, c.global + i, 16u);
    return;
  }
  const uint32_t row = m.box[0] * static_cast<uint32_t>(m.item), rows = c.bytes / row;
  const uint64_t start = shared_address(c.shared);
  for (uint32_t r = 0; r < rows; r++) {
    bool in = true;
    const char* line = m.base;
    for (uint32_t d = 1, rest = r; d < m.rank; d++) {
      const long i = c.at[d] + static_cast<long>(rest % m.box[d]);
      rest /= m.box[d];
      in = in && i >= 0 && i <= static_cast<long>(m.last[d]);
      line += i * static_cast<long>(m.stride[d]);
    }
    for (uint32_t e = 0; e < m.box[0]; e++) {
      const long i = c.at[0] + static_cast<long>(e);
      const bool here = in && i >= 0 && i <= static_cast<long>(m.last[0]);
      const uint64_t to = swizzled(start + r * row + e * m.item, m.swizzle);
      each(c.shared + (to - start), here ? const_cast<char*>(line) + i * m.item : nullptr, static_cast<uint32_t>(m.item));
    }
  }
}

CUEMU_NOTSAN void put(char* to, const char* from, uint32_t n, int byte) {
  for (uint32_t i = 0; i < n; i++)
    static_cast<volatile char*>(to)[i] = from ? static_cast<const volatile char*>(from)[i] : static_cast<char>(byte);
}

CUEMU_NOTSAN uint64_t digest(const Copy& c) {
  uint64_t h = 14695981039346656037ull;
  for (uint32_t i = 0; i < c.bytes; i++) h = (h ^ static_cast<uint8_t>(static_cast<const volatile char*>(c.shared)[i])) * 1099511628211ull;
  return h;
}

void begin_load(Copy c, void* barrier) {
  check_copies_begin(barrier);
  c.barrier = barrier;
  put(c.shared, nullptr, c.bytes, 0xFF);
  proxy_landed(c.shared, c.bytes);
  loads.push(c);
}
void begin_store(Copy c) {
  check_proxy(c.shared, c.bytes, "a bulk copy");
  c.thread = thread_linear, c.group = 0, c.held = digest(c);
  stores.push(c);
}
void aligned(const void* p, size_t n, const char* what) {
  if (reinterpret_cast<uintptr_t>(p) % n) fail("alignment", "%s of a bulk copy is not aligned to %zu bytes", what, n);
}
Copy of_map(const void* shared, const void* map, const int* at, int rank, const char* who) {
  Copy c{};
  c.map = map_at(map);
  if (rank != c.map.rank) fail("async", "a tensor copy of %d dims with a map of %d", rank, static_cast<int>(c.map.rank));
  aligned(shared, 128, "the shared memory");
  c.bytes = bytes_of(c.map);
  c.shared = shared_bytes(shared_address(shared), c.bytes, who);
  for (int d = 0; d < rank; d++) c.at[d] = at[d];
  return c;
}
Copy plain(const void* shared, const void* global, uint32_t bytes, const char* who) {
  if (bytes % 16) fail("async", "a bulk copy of %u bytes; it copies multiples of 16", bytes);
  aligned(shared, 16, "the shared memory");
  aligned(global, 16, "the global memory");
  Copy c{};
  c.bytes = bytes;
  c.shared = shared_bytes(shared_address(shared), bytes, who);
  c.global = static_cast<char*>(const_cast<void*>(global));
  // out of bounds faults where it was asked for
  const volatile char* probe = c.global;
  if (bytes) (void)probe[0], (void)probe[bytes - 1];
  return c;
}
}  // namespace

void bulk_load_tensor(void* to, const void* map, const int* at, int rank, void* barrier) {
  begin_load(of_map(to, map, at, rank, "a tensor copy writes"), barrier);
}
void bulk_load(void* to, const void* from, uint32_t bytes, void* barrier) {
  begin_load(plain(to, from, bytes, "a bulk copy writes"), barrier);
}
void bulk_store_tensor(const void* map, const int* at, int rank, const void* from) {
  begin_store(of_map(from, map, at, rank, "a tensor copy reads"));
}
void bulk_store(void* to, const void* from, uint32_t bytes) { begin_store(plain(from, to, bytes, "a bulk copy reads")); }

void bulk_commit() {
  const int group = ++committed[thread_linear];
  for (auto& c : stores)
    if (c.thread == thread_linear && !c.group) c.group = group;
}
void bulk_wait(int open) {
  const int last = committed[thread_linear] - open;
  for (size_t i = 0; i < stores.count;) {
    const Copy c = stores[i];
    if (c.thread != thread_linear || !c.group || c.group > last) {
      i++;
      continue;
    }
    stores.drop(i, 1);
    if (digest(c) != c.held) fail("race", "shared memory that a bulk copy reads changed before the copy was waited for");
    over(c, [](char* shared, char* global, uint32_t n) {
      if (global) memcpy(global, shared, n);
    });
  }
}

bool deliver_bulk() {
  if (!loads.count) return false;
  // copies land in no fixed order either
  const size_t n = loads.count, i = order == forward ? 0 : order == reverse ? n - 1 : n / 2;
  const Copy c = loads[i];
  loads.drop(i, 1);
  const int outside = c.map.nan_outside ? 0xFF : 0;
  over(c, [outside](char* shared, const char* global, uint32_t k) { put(shared, global, k, outside); });
  landed_bytes(c.barrier, static_cast<int>(c.bytes));
  return true;
}
void end_bulk() {
  if (loads.count) fail("async", "the block ends while a bulk copy into its shared memory is in flight");
  if (stores.count)
    fail("async", "the block ends before thread %d has waited for its bulk copy out of shared memory%s", stores[0].thread,
         stores[0].group ? "" : ", which it has not committed");
  for (size_t i = 0; i < thread_count; i++) committed[i] = 0;
}
void forget_bulk() {
  loads.forget(), stores.forget();
  memset(committed, 0, sizeof committed);
  any_unshown = false;
}

// ---- stores of threads that the asynchronous engines do not see without a fence
namespace {
constexpr size_t kUnits = (kMostShared + kStaticShared) / 16 + 2;
struct {
  uint32_t block, moment;
  uint16_t thread;
} unshown[kUnits];
uint32_t shown_block = 1;
unsigned shown_serial;

size_t unit_of(const char* p) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p), dynamic = at - reinterpret_cast<uintptr_t>(shared_room);
  return dynamic < kMostShared ? dynamic / 16 : kMostShared / 16 + (at - reinterpret_cast<uintptr_t>(static_room)) / 16;
}
void this_block() {
  if (shown_serial != block_serial) shown_serial = block_serial, shown_block++;
}
}  // namespace

void proxy_stored(const char* p, size_t n) {
  this_block();
  for (size_t u = unit_of(p), end = unit_of(p + n - 1); u <= end; u++) unshown[u] = {shown_block, this_moment(), static_cast<uint16_t>(thread_linear)};
  any_unshown = true;
}
void proxy_landed(const char* p, size_t n) {
  if (!any_unshown) return;
  for (size_t u = unit_of(p), end = unit_of(p + n - 1); u <= end; u++) unshown[u].block = 0;
}
/// Of this thread's own stores, and of those that a barrier has shown it: a fence stands between these and what it asks for next.
void fence_stores() {
  if (!any_unshown) return;
  this_block();
  for (auto& u : unshown)
    if (u.block == shown_block && (u.thread == thread_linear || u.moment != this_moment())) u.block = 0;
}
void check_proxy(const char* p, size_t n, const char* who) {
  if (!any_unshown) return;
  this_block();
  for (size_t u = unit_of(p), end = unit_of(p + n - 1); u <= end; u++)
    if (unshown[u].block == shown_block)
      fail("fence", "%s reads shared memory that thread %d stored to, and no fence.proxy.async has shown it that", who,
           static_cast<int>(unshown[u].thread));
}

}  // namespace cuemu
