// wgmma (sm_90a) as the PTX ISA words it: operands named by descriptors, asynchronous until waited for. Operands are
// read when the instruction is issued and again when it is waited for; a difference is a race. Accumulators in flight are NaN.
#pragma once
#include "bulk_copy.h"
#include "cuda_fp16.h"

namespace cuemu {

/// The accumulators of one warp (16 rows) while instructions on them are in flight.
struct Accumulators {
  float* lanes[32];
  int columns;
  int open = 0;  // instructions in flight
  std::vector<float> sum;
};

struct Product {
  uint64_t a, b;
  int columns;
  bool mn_a, mn_b;
  float (*decode)(uint16_t);
  size_t target;
  std::vector<uint16_t> read;  // operands as they were at issue: a[16][16], then b[16][columns]
};

struct WarpProducts {
  unsigned serial = 0;
  bool fenced = false;
  size_t issued = 0, committed = 0;
  std::vector<Accumulators> targets;
  std::vector<Product> products;    // in order; the first `committed` belong to `groups`
  std::vector<size_t> groups;       // products per group, oldest first
};

inline std::vector<WarpProducts>* all_products = nullptr;
inline std::vector<std::vector<std::pair<uint64_t, uint64_t>>>* issued_by_group = nullptr;

/// The block ends with nothing in flight, and the four warps of a warpgroup have issued the same.
inline void products_done() {
  for (size_t w = 0; w < all_products->size(); w++) {
    const auto& p = (*all_products)[w];
    if (p.serial != block_serial) continue;
    if (!p.products.empty()) fail("async", "the block ends before wgmma has been waited for");
    if (p.issued != (*issued_by_group)[w / 4].size()) fail("divergence", "wgmma is not issued by all warps of a warpgroup");
  }
}

inline WarpProducts& warp_products() {
  if (!all_products) {
    all_products = new std::vector<WarpProducts>;
    issued_by_group = new std::vector<std::vector<std::pair<uint64_t, uint64_t>>>;
    group_block_end = products_done;
  }
  if (all_products->size() < all_warps->size()) all_products->resize(all_warps->size()), issued_by_group->resize(all_warps->size());
  const size_t w = static_cast<size_t>(current->linear) / 32;
  auto& own = (*all_products)[w];
  if (own.serial != block_serial) {
    bool first = true;
    for (size_t i = w / 4 * 4; i < w / 4 * 4 + 4 && i < all_products->size(); i++) first = first && (*all_products)[i].serial != block_serial;
    if (first) (*issued_by_group)[w / 4].clear();
    own = WarpProducts{};
    own.serial = block_serial;
  }
  return own;
}

/// 8 elements of an operand that lie together: at (row .., k) when rows run along K, else at (row, k ..).
inline const char* operand_unit(uint64_t desc, int row, int k, bool mn) {
  const uint64_t start = (desc & 0x3FFF) << 4, lead = (desc >> 16 & 0x3FFF) << 4, stride = (desc >> 32 & 0x3FFF) << 4;
  if (desc >> 62 != 1) fail("wgmma", "only the 128-byte swizzle is emulated");
  if (desc >> 49 & 7) fail("wgmma", "only base offset 0 is emulated");
  const uint64_t at = mn ? row / 64 * lead + k / 8 * stride + k % 8 * 128 + row % 64 * 2
                         : row / 8 * stride + row % 8 * 128 + static_cast<uint64_t>(k) * 2;
  const uint64_t address = swizzled(start + at);
  if (address + 16 > dynamic_shared_size) fail("shared memory", "wgmma reads past the end of the block's dynamic shared memory");
  if (!seen_by_wgmma(address)) fail("async", "wgmma reads shared memory that was written without fence.proxy.async");
  return dynamic_shared + address;
}

/// out[k][row - first] of an operand, 16 k by `rows` rows.
inline void read_operand(uint16_t* out, uint64_t desc, int first, int rows, bool mn) {
  uint16_t unit[8];
  for (int row = 0; row < rows; row += mn ? 8 : 1)
    for (int k = 0; k < 16; k += mn ? 1 : 8) {
      memcpy(unit, operand_unit(desc, first + row, k, mn), 16);
      for (int i = 0; i < 8; i++) out[(k + (mn ? 0 : i)) * rows + row + (mn ? i : 0)] = unit[i];
    }
}
inline void read_operands(std::vector<uint16_t>& out, const Product& p) {
  out.resize(static_cast<size_t>(256 + 16 * p.columns));
  read_operand(out.data(), p.a, current->linear / 32 % 4 * 16, 16, p.mn_a);
  read_operand(out.data() + 256, p.b, 0, p.columns, p.mn_b);
}

inline float* accumulator(const Accumulators& t, int row, int col) {
  // Lane row % 8 * 4 + col % 8 / 2 holds two rows of columns / 4 elements.
  return t.lanes[row % 8 * 4 + col % 8 / 2] + row / 8 * (t.columns / 4) + col / 8 * 2 + col % 2;
}

inline void multiply(const Product& p, Accumulators& t) {
  static float b[16][256];
  for (int k = 0; k < 16; k++)
    for (int n = 0; n < p.columns; n++) b[k][n] = p.decode(p.read[static_cast<size_t>(256 + k * p.columns + n)]);
  for (int m = 0; m < 16; m++) {
    float* sum = t.sum.data() + m * p.columns;
    for (int k = 0; k < 16; k++) {
      const float a = p.decode(p.read[static_cast<size_t>(k * 16 + m)]);
      for (int n = 0; n < p.columns; n++) sum[n] += a * b[k][n];
    }
  }
}

inline void wgmma_fence() {
  Nothing n;
  warp_collective(~0u, "wgmma.fence", n, [](Nothing**) { warp_products().fenced = true; });
}

struct Issue { float* v; uint64_t a, b; };

inline void issue(Issue** all, int columns, bool mn_a, bool mn_b, float (*decode)(uint16_t)) {
  auto& own = warp_products();
  const size_t n = all_threads->size();
  if (n % 128) fail("wgmma", "the block is not a whole number of warpgroups");
  if (!own.fenced) fail("async", "wgmma without wgmma.fence since its accumulators were last touched");
  for (int i = 1; i < 32; i++)
    if (all[i]->a != all[0]->a || all[i]->b != all[0]->b) fail("divergence", "lanes give wgmma different descriptors");
  auto& group = (*issued_by_group)[static_cast<size_t>(current->linear) / 128];
  const std::pair<uint64_t, uint64_t> what{all[0]->a, all[0]->b};
  if (own.issued == group.size()) group.push_back(what);
  else if (own.issued > group.size() || group[own.issued] != what) fail("divergence", "warps of a warpgroup give wgmma different descriptors");
  own.issued++;
  size_t target = 0;
  while (target < own.targets.size() && own.targets[target].lanes[0] != all[0]->v) target++;
  if (target == own.targets.size()) own.targets.emplace_back();
  auto& t = own.targets[target];
  if (t.open == 0) {
    t.columns = columns;
    for (int i = 0; i < 32; i++) t.lanes[i] = all[i]->v;
    t.sum.resize(static_cast<size_t>(16 * columns));
    for (int r = 0; r < 16; r++)
      for (int c = 0; c < columns; c++) t.sum[static_cast<size_t>(r * columns + c)] = *accumulator(t, r, c);
  }
  t.open++;
  for (int i = 0; i < 32; i++) memset(static_cast<void*>(t.lanes[i]), 0xFF, static_cast<size_t>(columns) * 2);
  Product p{all[0]->a, all[0]->b, columns, mn_a, mn_b, decode, target, {}};
  read_operands(p.read, p);
  own.products.push_back(std::move(p));
}

/// d[64, N] += a[64, 16] b[16, N] for the calling warp's 16 rows; v: this lane's accumulators, first row then second.
template <class T, int N> void wgmma(float* v, uint64_t a, uint64_t b, bool mn_a, bool mn_b) {
  Issue mine{v, a, b};
  warp_collective(~0u, "wgmma.mma_async", mine, [&](Issue** all) { issue(all, N, mn_a, mn_b, T::decode); });
}

inline void wgmma_commit() {
  Nothing n;
  warp_collective(~0u, "wgmma.commit_group", n, [](Nothing**) {
    auto& own = warp_products();
    own.groups.push_back(own.products.size() - own.committed);
    own.committed = own.products.size();
  });
}

inline void finish(WarpProducts& own, size_t open) {
  std::vector<uint16_t> now;
  while (own.groups.size() > open) {
    for (size_t i = 0; i < own.groups[0]; i++) {
      auto& p = own.products[i];
      read_operands(now, p);
      if (now != p.read) fail("race", "shared memory that wgmma reads changed before it was waited for");
      auto& t = own.targets[p.target];
      multiply(p, t);
      if (--t.open == 0)
        for (int r = 0; r < 16; r++)
          for (int c = 0; c < t.columns; c++) *accumulator(t, r, c) = t.sum[static_cast<size_t>(r * t.columns + c)];
    }
    own.products.erase(own.products.begin(), own.products.begin() + static_cast<long>(own.groups[0]));
    own.committed -= own.groups[0];
    own.groups.erase(own.groups.begin());
  }
  own.fenced = false;
}
inline void wgmma_wait(int open) {
  Nothing n;
  warp_collective(~0u, "wgmma.wait_group", n, [&](Nothing**) { finish(warp_products(), static_cast<size_t>(open)); });
}

}  // namespace cuemu
