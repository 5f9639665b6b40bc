// mbarriers and tensor copies (sm_90), with the unkindest legal timing: the destination turns to NaN when the copy is
// issued, and the data lands only when every thread of the block waits for something.
#include "asynchronous.h"

namespace cuemu {

uint64_t shared_offset(const void* p) {
  const char* c = static_cast<const char*>(p);
  if (c < dynamic_shared || c >= dynamic_shared + dynamic_shared_size)
    fail("shared memory", "an asynchronous instruction names an address outside the block's dynamic shared memory");
  return static_cast<uint64_t>(c - dynamic_shared);
}

// ---- mbarriers
namespace {
struct Mbarrier {
  uint64_t magic : 8, phase : 1, expected : 12, pending : 12;
  int64_t bytes : 31;
};
static_assert(sizeof(Mbarrier) == 8);
constexpr unsigned kMagic = 0xB5;
bool init_unfenced = false;

Mbarrier read_barrier(const void* p) {
  Mbarrier b;
  memcpy(&b, p, sizeof b);
  if (b.magic != kMagic) fail("async", "an mbarrier is used that this thread does not see initialised");
  return b;
}
void write_barrier(void* p, Mbarrier b) {
  if (b.pending == 0 && b.bytes == 0) b.phase ^= 1, b.pending = b.expected;
  memcpy(p, &b, sizeof b);
}
}  // namespace

bool phase_done(const void* p, unsigned parity) { return read_barrier(p).phase != (parity & 1); }

void mbarrier_init(void* p, int arrivals) {
  if (!in_shared(reinterpret_cast<uintptr_t>(p))) fail("shared memory", "an mbarrier outside of the block's shared memory");
  if (reinterpret_cast<uintptr_t>(p) % 8) fail("alignment", "an mbarrier needs 8-byte alignment");
  if (arrivals < 1) fail("async", "an mbarrier with no arrivals");
  Mbarrier b{};
  b.magic = kMagic, b.expected = b.pending = static_cast<unsigned>(arrivals);
  memcpy(p, &b, sizeof b);
  init_unfenced = true;
  opaque_barrier(p);
}
uint64_t mbarrier_token(const void* p) {
  const Mbarrier b = read_barrier(p);
  return static_cast<uint64_t>(b.phase) << 63 | static_cast<uint64_t>(0xFFFFF - b.pending) << 43 | static_cast<uint64_t>(0xFFFFF - b.expected) << 1;
}
void mbarrier_fence_init() { init_unfenced = false; }
void mbarrier_expect(void* p, int bytes) {
  Mbarrier b = read_barrier(p);
  b.bytes += bytes;
  write_barrier(p, b);
}
void landed_bytes(void* p, int bytes) {
  Mbarrier b = read_barrier(p);
  b.bytes -= bytes;
  write_barrier(p, b);
}
void check_copies_begin(const void* p) {
  if (init_unfenced) fail("async", "a bulk copy before the fence that shows it the mbarriers");
  read_barrier(p);
}
void mbarrier_arrive(void* p, int bytes) {
  Mbarrier b = read_barrier(p);
  if (b.pending == 0) fail("async", "more arrivals at an mbarrier than it was initialised for");
  b.bytes += bytes;
  b.pending -= 1;
#if defined(__SANITIZE_THREAD__)
  __tsan_release(p);
#endif
  write_barrier(p, b);
  // Right after an arrival whoever waits for it may go first, or the arriving thread: both are tried.
  if (bytes || order == forward) return;
  current->polled = nullptr;
  yield(State::poll, "mbarrier arrival");
}
namespace {
void wait_at(void* p, unsigned parity, const char* where) {
  if (!phase_done(p, parity)) {
    current->polled = p;
    current->parity = parity;
    yield(State::poll, where);
  }
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(p);
#endif
  next_moment();
}
}  // namespace
void mbarrier_wait(void* p, unsigned parity) { wait_at(p, parity, "mbarrier"); }

bool mbarrier_try(void* p, unsigned parity) {
  if (order != reverse && !phase_done(p, parity) && !current->gave_up) return !(current->gave_up = true);
  current->gave_up = false;
  mbarrier_wait(p, parity);
  return true;
}

// ---- barriers of some of a block's threads, by number: what waits there waits as at an mbarrier of its own
namespace {
constexpr int kNamed = 16;
uint64_t named[kNamed];
unsigned named_serial = 0;
}  // namespace

void named_barrier(int id, int count, bool waits) {
  if (id < 0 || id >= kNamed) fail("launch", "barrier %d; a block has %d", id, kNamed);
  if (count < kWave || count % kWave || static_cast<size_t>(count) > (thread_count + kWave - 1) / kWave * kWave)
    fail("launch", "a barrier of %d threads in a block of %zu: it takes whole warps of the block", count, thread_count);
  if (named_serial != block_serial) memset(named, 0, sizeof named), named_serial = block_serial;
  Mbarrier b;
  memcpy(&b, &named[id], sizeof b);
  if (b.magic != kMagic || (b.pending == b.expected && static_cast<int>(b.expected) != count)) {
    const unsigned phase = b.magic == kMagic ? b.phase : 0;
    b = Mbarrier{};
    b.magic = kMagic, b.phase = phase & 1, b.expected = b.pending = static_cast<unsigned>(count) & 0xFFF;
    memcpy(&named[id], &b, sizeof b);
  }
  if (static_cast<int>(b.expected) != count)
    fail("divergence", "threads come to barrier %d for %d threads and for %d", id, static_cast<int>(b.expected), count);
  const unsigned parity = b.phase;
  mbarrier_arrive(&named[id], 0);
  if (waits) wait_at(&named[id], parity, "bar.sync");
}

// ---- plain and cp.async writes that wgmma will read
namespace {
List<uint8_t> unit_unfenced;  // one byte per 16 bytes of dynamic shared memory
unsigned unit_serial = 0;

void mark_unfenced(uint64_t offset, bool on) { unit_unfenced[offset / 16] = on; }
}  // namespace

void proxy_write(const void* p) {
  if (unit_serial != block_serial) {
    unit_unfenced.size(dynamic_shared_size / 16 + 1);
    memset(unit_unfenced.data, 0, unit_unfenced.count);
    unit_serial = block_serial;
  }
  const uint64_t offset = shared_offset(p);
  current->unfenced.push(static_cast<uint32_t>(offset));
  mark_unfenced(offset, true);
}
void proxy_fence() {
  init_unfenced = false;
  fence_stores();
  if (unit_serial != block_serial) return;
  for (uint32_t offset : current->unfenced) mark_unfenced(offset, false);
  current->unfenced.clear();
  for (auto& c : current->copies) proxy_write(c.dst);  // a copy that has not landed is not covered
}
bool seen_by_wgmma(uint64_t offset) {
  return unit_serial != block_serial || !unit_unfenced[offset / 16];
}

// ---- tensor copies
;

const char* encode_tiled(TensorMap& map, int rank, const void* data, const uint64_t* size, const uint64_t* stride,
                         const uint32_t* box) {
  map = TensorMap{};
  map.base = static_cast<const char*>(data);
  map.rank = rank;
  if (reinterpret_cast<uintptr_t>(data) % 16) return "a tensor is not 16-byte aligned";
  map.stride[0] = 2;
  for (int d = 0; d < rank; d++) {
    map.size[d] = size[d], map.box[d] = box[d];
    if (d) map.stride[d] = stride[d - 1];
    if (d && (map.stride[d] % 16 || map.stride[d] >= 1ull << 40)) return "a tensor's strides are not multiples of 16 bytes";
    if (box[d] < 1 || box[d] > 256 || size[d] < 1 || size[d] > 1ull << 32) return "a box or tensor is too large";
  }
  if (box[0] * 2 > 128 || box[0] * 2 % 16) return "the rows of a box are not 16..128 bytes";
  return nullptr;
}

namespace {
struct TensorCopy {
  char* panel;
  TensorMap map;
  void* barrier;
  long at[5];
  int bytes() const {
    int n = 2;
    for (int d = 0; d < map.rank; d++) n *= static_cast<int>(map.box[d]);
    return n;
  }
};
List<TensorCopy> in_flight;

CUEMU_NOTSAN void land(const TensorCopy& c) {
  const int rows = c.bytes() / 2 / static_cast<int>(c.map.box[0]);
  const uint64_t start = shared_offset(c.panel);
  for (int r = 0; r < rows; r++) {
    bool in = true;
    const char* from = c.map.base;
    for (int d = 1, rest = r; d < c.map.rank; d++) {
      const long i = c.at[d] + rest % static_cast<int>(c.map.box[d]);
      rest /= static_cast<int>(c.map.box[d]);
      in = in && i >= 0 && i < static_cast<long>(c.map.size[d]);
      from += i * static_cast<long>(c.map.stride[d]);
    }
    for (int e = 0; e < static_cast<int>(c.map.box[0]); e++) {
      const long i = c.at[0] + e;
      uint16_t value = 0;
      if (in && i >= 0 && i < static_cast<long>(c.map.size[0])) value = *reinterpret_cast<const volatile uint16_t*>(from + i * 2);
      const uint64_t to = swizzled(start + (static_cast<uint64_t>(r) * c.map.box[0] + e) * 2);
      *reinterpret_cast<volatile uint16_t*>(dynamic_shared + to) = value;
    }
  }
  landed_bytes(c.barrier, c.bytes());
}
}  // namespace

bool deliver_copy() {
  if (deliver_bulk()) return true;
  if (!in_flight.count) return false;
  // Copies land in no fixed order either.
  const size_t n = in_flight.count, i = order == forward ? 0 : order == reverse ? n - 1 : n / 2;
  const TensorCopy c = in_flight[i];
  in_flight.drop(i, 1);
  land(c);
  return true;
}
void end_copies() {
  end_bulk();
  if (in_flight.count) fail("async", "the block ends while a tensor copy is in flight");
}

void tensor_copy(void* panel, const TensorMap& map, void* barrier, const long* at, int rank) {
  if (init_unfenced) fail("async", "a tensor copy before the fence that shows it the mbarriers");
  if (rank != map.rank) fail("async", "a tensor copy with the wrong number of coordinates");
  if (shared_offset(panel) % 1024) fail("alignment", "a panel does not start at a multiple of 1024 bytes");
  read_barrier(barrier);
  TensorCopy c{static_cast<char*>(panel), map, barrier, {}};
  for (int d = 0; d < rank; d++) c.at[d] = at[d];
  if (shared_offset(panel) + static_cast<uint64_t>(c.bytes()) > dynamic_shared_size)
    fail("shared memory", "a tensor copy past the end of the block's dynamic shared memory");
  for (int i = 0; i < c.bytes(); i++) static_cast<volatile char*>(panel)[i] = static_cast<char>(0xFF);
  in_flight.push(c);
}

void forget_copies() {
  unit_unfenced.forget();
  in_flight.forget();
  forget_bulk();
  init_unfenced = false;
}

}  // namespace cuemu
