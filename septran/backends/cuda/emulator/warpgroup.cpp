// wgmma (sm_90a) as the PTX ISA words it: operands named by descriptors, asynchronous until waited for. Operands are
// read when the instruction is issued and again when it is waited for; a difference is a race. Accumulators in flight are NaN.
#include "asynchronous.h"

namespace cuemu {

namespace {
using Decode = float (*)(uint16_t);

/// The accumulators of one warp (16 rows) while instructions on them are in flight.
struct Accumulators {
  float* lanes[32];  // of each its first; the others follow, or where `places` says
  size_t places;     // where the pointers of all begin in WarpProducts::places, 0: there are none
  int columns;
  int open;     // instructions in flight
  size_t sums;  // where their 16 x columns values begin in WarpProducts::sums
};

struct Product {
  uint64_t a, b;
  int columns;
  bool mn_a, mn_b;
  Decode decode;
  bool held;  // a lies in registers: read when issued, and no memory that could change
  size_t target;
  bool said;   // its descriptors hold shared addresses
  bool fresh;  // the sums begin at 0
  float sign;
  size_t read;  // where its operands as they were at issue begin in WarpProducts::read: a[16][16], then b[16][columns]
  size_t operands() const { return 256 + 16 * static_cast<size_t>(columns); }
};

struct WarpProducts {
  unsigned serial;
  bool fenced;
  size_t issued, committed;
  List<Accumulators> targets;
  List<float> sums;
  List<Product> products;  // in order; the first `committed` belong to `groups`
  List<uint16_t> read;
  List<float*> places;     // from 1 on: of each lane columns / 2 pointers
  List<size_t> groups;     // products per group, oldest first

  void forget() {
    serial = 0, fenced = false, issued = committed = 0;
    targets.forget(), sums.forget(), products.forget(), read.forget(), places.forget(), groups.forget();
  }
  void begin() {
    serial = block_serial;
    fenced = false;
    issued = committed = 0;
    targets.clear(), sums.clear(), products.clear(), read.clear(), places.clear(), groups.clear();
  }
};

struct Descriptors {
  uint64_t a, b;
};

constexpr size_t kMostWarps = kMostThreads / kWave;
constinit WarpProducts all_products[kMostWarps] = {};
List<Descriptors> issued_by_group[kMostWarps / 4];

WarpProducts& warp_products() {
  const size_t w = static_cast<size_t>(thread_linear) / 32;
  auto& own = all_products[w];
  if (own.serial != block_serial) {
    bool first = true;
    for (size_t i = w / 4 * 4; i < w / 4 * 4 + 4; i++) first = first && all_products[i].serial != block_serial;
    if (first) issued_by_group[w / 4].clear();
    own.begin();
  }
  return own;
}

/// 8 elements of an operand that lie together: at (row .., k) when rows run along K, else at (row, k ..). Canonical layouts: PTX ISA,
/// "Matrix Descriptor"; a pattern of 2^kind units of 16 bytes is repeated in each 8 rows.
const char* operand_unit(const Product& p, uint64_t desc, int row, int k, bool mn) {
  const uint64_t start = (desc & 0x3FFF) << 4, lead = (desc >> 16 & 0x3FFF) << 4, stride = (desc >> 32 & 0x3FFF) << 4;
  const int mode = static_cast<int>(desc >> 62), kind = mode ? 4 - mode : 0, width = 8 << kind;
  if (!p.said && mode != 1) fail("wgmma", "only the 128-byte swizzle is emulated");
  if (desc >> 49 & 7) fail("wgmma", "only base offset 0 is emulated");
  uint64_t at;
  if (mn) at = row / width * (kind ? lead : stride) + k / 8 * (kind ? stride : lead) + k % 8 * width * 2 + row % width * 2;
  else at = row / 8 * stride + row % 8 * width * 2 + (kind ? static_cast<uint64_t>(k) * 2 : k / 8 * lead + k % 8 * 2);
  const uint64_t address = swizzled(start + at, kind);
  if (p.said) {
    const char* unit = shared_bytes(address & 0x3FFFF, 16, "wgmma reads");
    check_proxy(unit, 16, "wgmma");
    return unit;
  }
  if (address + 16 > dynamic_shared_size) fail("shared memory", "wgmma reads past the end of the block's dynamic shared memory");
  if (!seen_by_wgmma(address)) fail("async", "wgmma reads shared memory that was written without fence.proxy.async");
  return dynamic_shared + address;
}

/// out[k][row - first] of an operand, 16 k by `rows` rows.
void read_operand(uint16_t* out, const Product& p, uint64_t desc, int first, int rows, bool mn) {
  uint16_t unit[8];
  for (int row = 0; row < rows; row += mn ? 8 : 1)
    for (int k = 0; k < 16; k += mn ? 1 : 8) {
      memcpy(unit, operand_unit(p, desc, first + row, k, mn), 16);
      for (int i = 0; i < 8; i++) out[(k + (mn ? 0 : i)) * rows + row + (mn ? i : 0)] = unit[i];
    }
}
void read_operands(uint16_t* out, const Product& p, const uint16_t* held) {
  if (p.held)
    memcpy(out, held, 256 * sizeof *out);
  else
    read_operand(out, p, p.a, thread_linear / 32 % 4 * 16, 16, p.mn_a);
  read_operand(out + 256, p, p.b, 0, p.columns, p.mn_b);
}

float* accumulator(const WarpProducts& own, const Accumulators& t, int row, int col) {
  // Lane row % 8 * 4 + col % 8 / 2 holds two rows of columns / 4 elements.
  const int lane = row % 8 * 4 + col % 8 / 2;
  if (t.places) return own.places[t.places - 1 + static_cast<size_t>(lane * t.columns / 2 + col / 8 * 4 + row / 8 * 2 + col % 2)];
  return t.lanes[lane] + row / 8 * (t.columns / 4) + col / 8 * 2 + col % 2;
}

void multiply(const Product& p, const uint16_t* read, float* sums) {
  static float b[16][256];
  if (p.fresh) memset(sums, 0, sizeof *sums * 16 * static_cast<size_t>(p.columns));
  for (int k = 0; k < 16; k++)
    for (int n = 0; n < p.columns; n++) b[k][n] = p.decode(read[256 + k * p.columns + n]);
  for (int m = 0; m < 16; m++) {
    float* sum = sums + m * p.columns;
    for (int k = 0; k < 16; k++) {
      const float a = p.sign * p.decode(read[k * 16 + m]);
      for (int n = 0; n < p.columns; n++) sum[n] += a * b[k][n];
    }
  }
}

struct Issue {
  float* v;
  uint64_t a, b;
  int columns;
  bool mn_a, mn_b;
  Decode decode;
  const unsigned* held;  // this thread's part of a, or nullptr
  float* const* d = nullptr;  // where its accumulators lie, where they do not lie together
  bool keeps = true;
  int sign = 1;
};

/// a[k][row] of what the lanes hold: pairs along k, each of rows lane / 4 and 8 further, at k and 8 further.
void read_held(uint16_t* out, void** all) {
  for (int lane = 0; lane < 32; lane++)
    for (int q = 0; q < 4; q++) {
      const unsigned pair = static_cast<Issue*>(all[lane])->held[q];
      const int row = lane / 4 + q % 2 * 8, k = lane % 4 * 2 + q / 2 * 8;
      out[k * 16 + row] = static_cast<uint16_t>(pair);
      out[(k + 1) * 16 + row] = static_cast<uint16_t>(pair >> 16);
    }
}

size_t target_of(WarpProducts& own, void** all) {
  const Issue& first = *static_cast<Issue*>(all[0]);
  size_t target = 0;
  while (target < own.targets.count && own.targets[target].lanes[0] != first.v) target++;
  if (target == own.targets.count) {
    own.targets.push(Accumulators{{}, 0, 0, 0, own.sums.count});
    own.sums.size(own.sums.count + 16 * 256);
  }
  auto& t = own.targets[target];
  if (t.open == 0) {
    t.columns = first.columns;
    for (int i = 0; i < 32; i++) t.lanes[i] = static_cast<Issue*>(all[i])->v;
    if (first.d) {
      const size_t each = static_cast<size_t>(t.columns) / 2;
      if (!t.places) t.places = own.places.count + 1, own.places.size(own.places.count + 32 * 128);
      for (size_t i = 0; i < 32; i++)
        for (size_t j = 0; j < each; j++) own.places[t.places - 1 + i * each + j] = static_cast<Issue*>(all[i])->d[j];
    }
    float* sums = own.sums.data + t.sums;
    for (int r = 0; r < 16; r++)
      for (int c = 0; c < t.columns; c++) sums[r * t.columns + c] = *accumulator(own, t, r, c);
  }
  t.open++;
  if (t.columns != first.columns) fail("wgmma", "instructions on the same accumulators in flight have other sizes");
  for (int r = 0; r < 16; r++)
    for (int c = 0; c < t.columns; c++) memset(static_cast<void*>(accumulator(own, t, r, c)), 0xFF, sizeof(float));
  return target;
}

void issue(void** all, void*) {
  auto& own = warp_products();
  const Issue& first = *static_cast<Issue*>(all[0]);
  if (static_cast<size_t>(thread_linear) / 128 * 128 + 128 > thread_count)
    fail("wgmma", "threads from %d on are no whole warpgroup of the block", thread_linear / 128 * 128);
  if (!own.fenced) fail("async", "wgmma without wgmma.fence since its accumulators were last touched");
  for (int i = 1; i < 32; i++) {
    const Issue& other = *static_cast<Issue*>(all[i]);
    if (other.a != first.a || other.b != first.b || other.keeps != first.keeps)
      fail("divergence", "lanes give wgmma different descriptors");
  }
  auto& group = issued_by_group[static_cast<size_t>(thread_linear) / 128];
  if (own.issued == group.count)
    group.push({first.a, first.b});
  else if (own.issued > group.count || group[own.issued].a != first.a || group[own.issued].b != first.b)
    fail("divergence", "warps of a warpgroup give wgmma different descriptors");
  own.issued++;
  const size_t target = target_of(own, all), read = own.read.count;
  const Product p{first.a, first.b, first.columns, first.mn_a, first.mn_b, first.decode, first.held != nullptr, target,
                  first.d != nullptr, !first.keeps, static_cast<float>(first.sign), read};
  own.read.size(read + p.operands());
  uint16_t held[256];
  if (first.held) read_held(held, all);
  read_operands(own.read.data + read, p, held);
  own.products.push(p);
}

void finish(WarpProducts& own, size_t open) {
  uint16_t now[256 + 16 * 256];
  while (own.groups.count > open) {
    const size_t n = own.groups[0];
    size_t operands = 0;
    for (size_t i = 0; i < n; i++) {
      const Product& p = own.products[i];
      operands += p.operands();
      read_operands(now, p, own.read.data + p.read);
      if (memcmp(now, own.read.data + p.read, p.operands() * sizeof *now))
        fail("race", "shared memory that wgmma reads changed before it was waited for");
      auto& t = own.targets[p.target];
      multiply(p, now, own.sums.data + t.sums);
      if (--t.open == 0)
        for (int r = 0; r < 16; r++)
          for (int c = 0; c < t.columns; c++) *accumulator(own, t, r, c) = own.sums[t.sums + static_cast<size_t>(r * t.columns + c)];
    }
    own.products.drop(0, n);
    own.read.drop(0, operands);
    for (auto& p : own.products) p.read -= operands;
    own.committed -= n;
    own.groups.drop(0, 1);
  }
  own.fenced = false;
}
}  // namespace

void wgmma_fence() {
  warp_meeting(~0u, "wgmma.fence", nullptr, [](void**, void*) { warp_products().fenced = true; }, nullptr);
}

void wgmma(float* v, uint64_t a, uint64_t b, int columns, bool mn_a, bool mn_b, Product16 kind) {
  Issue mine{v, a, b, columns, mn_a, mn_b, kind == product_half ? Half::decode : Bfloat::decode, nullptr};
  warp_meeting(~0u, "wgmma.mma_async", &mine, issue, nullptr);
}

void wgmma_held(float* v, const unsigned (&a)[4], uint64_t b, int columns, bool mn_b, Product16 kind) {
  Issue mine{v, 0, b, columns, false, mn_b, kind == product_half ? Half::decode : Bfloat::decode, a};
  warp_meeting(~0u, "wgmma.mma_async", &mine, issue, nullptr);
}

void wgmma_said(const Wgmma& said) {
  Issue mine{said.d[0], said.a, said.b, said.columns, said.mn_a, said.mn_b, said.kind == product_half ? Half::decode : Bfloat::decode,
             said.held, said.d, said.keeps, said.sign};
  warp_meeting(~0u, "wgmma.mma_async", &mine, issue, nullptr);
}

void wgmma_commit() {
  const auto act = [](void**, void*) {
    auto& own = warp_products();
    own.groups.push(own.products.count - own.committed);
    own.committed = own.products.count;
  };
  warp_meeting(~0u, "wgmma.commit_group", nullptr, act, nullptr);
}

void wgmma_wait(int open) {
  size_t left = static_cast<size_t>(open);
  const auto act = [](void**, void* wanted) { finish(warp_products(), *static_cast<size_t*>(wanted)); };
  warp_meeting(~0u, "wgmma.wait_group", nullptr, act, &left);
}

/// The block ends with nothing in flight, and the four warps of a warpgroup have issued the same.
void end_products() {
  for (size_t w = 0; w < (thread_count + kWave - 1) / kWave; w++) {
    const auto& p = all_products[w];
    bool begun = false;  // by a warp of its group
    for (size_t i = w / 4 * 4; i < w / 4 * 4 + 4; i++) begun = begun || all_products[i].serial == block_serial;
    if (!begun) continue;
    if (p.serial != block_serial) {
      if (issued_by_group[w / 4].count) fail("divergence", "wgmma is not issued by all warps of a warpgroup");
      continue;
    }
    if (p.products.count) fail("async", "the block ends before wgmma has been waited for");
    if (p.issued != issued_by_group[w / 4].count) fail("divergence", "wgmma is not issued by all warps of a warpgroup");
  }
}

void forget_products() {
  for (auto& p : all_products) p.forget();
  for (auto& g : issued_by_group) g.forget();
}

}  // namespace cuemu
