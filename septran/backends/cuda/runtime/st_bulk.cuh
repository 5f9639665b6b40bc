// Tiles that wgmma reads, and what fills them: the tensor memory accelerator (sm_90) with mbarriers, or
// cp.async. Only in kernels with `math: wgmma`. Sources: PTX ISA, "Asynchronous warpgroup level matrix
// shared memory layout", "Tensor copies", "mbarrier"; CUDA driver API, cuTensorMapEncodeTiled.
#pragma once
#include "st_copy.cuh"
#include <cuda.h>

namespace st {

/// A tile of 16-bit elements in shared memory, in panels of 64 columns. A panel is ROWS x 128 bytes; the 16-byte unit u
/// of row r lies at unit u ^ (r % 8) ("128-byte swizzle"). The tile starts at a multiple of 1024 bytes.
template <class T, int ROWS, int COLS> struct Panels {
  static_assert(sizeof(T) == 2 && COLS % 64 == 0 && ROWS % 8 == 0, "panels are 8n rows of 64 columns of 16 bits");
  static constexpr int rows = ROWS, cols = COLS, panel = ROWS * 64;
  T* p;
  static ST_DEVICE int offset(int row, int col) {
    return col / 64 * panel + row * 64 + ((col % 64 / 8) ^ (row & 7)) * 8 + col % 8;
  }
  ST_DEVICE T& operator()(int row, int col) const { return p[offset(row, col)]; }
  ST_DEVICE operator Panels<const T, ROWS, COLS>() const { return Panels<const T, ROWS, COLS>{p}; }
};

/// This thread's plain and cp.async writes to shared memory come before what wgmma reads after the next barrier.
ST_DEVICE void fence_for_wgmma() {
#ifdef SEPTRAN_EMULATE
  cuemu::proxy_fence();
#else
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

/// global -> panels by all threads, as copy_async into a view. Needs cp_wait, fence_for_wgmma and a barrier.
template <class TILE, class T, int ROWS, int COLS, class S>
ST_DEVICE void copy_async(const Panels<T, ROWS, COLS>& y, const View<S, TILE::rank>& x) {
  constexpr int R = TILE::rank, TOTAL = ROWS * COLS / 8;
  static_assert(TILE::lead() == ROWS && TILE::last() == COLS, "a copy fills the whole tile");
  /// Where the e-th 8 elements begin; returns how many of them exist.
  const auto locate = [&](int e, idx(&i)[R]) {
    i[R - 1] = e % (COLS / 8) * 8;
    int rest = e / (COLS / 8);
    bool in = true;
#pragma unroll
    for (int d = R - 2; d >= 0; d--) {
      i[d] = d ? rest % TILE::size(d) : rest;
      rest = d ? rest / TILE::size(d) : 0;
      in = in && i[d] < x.n[d];
    }
    const int left = in ? static_cast<int>(x.n[R - 1] - i[R - 1]) : 0;
    return left < 0 ? 0 : left > 8 ? 8 : left;
  };
  const auto place = [&](int e) {
    T* const dst = &y(e / (COLS / 8), e % (COLS / 8) * 8);
#ifdef SEPTRAN_EMULATE
    cuemu::proxy_write(dst);
#endif
    return dst;
  };
  if constexpr (Same<T, plain<S>>::value) {
    if (x.aligned(16)) {
      shares<TOTAL>([&](int e) {
        idx i[R];
        const int count = locate(e, i);
        cp_async<16>(place(e), count ? static_cast<const void*>(&x.at(i)) : static_cast<const void*>(x.p), count * 2);
      });
      return;
    }
  }
#pragma unroll 1
  for (int e = threadIdx.x; e < TOTAL; e += threads) {
    idx i[R];
    const int count = locate(e, i), first = static_cast<int>(i[R - 1]);
    T* const dst = place(e);
#pragma unroll
    for (int k = 0; k < 8; k++) {
      i[R - 1] = first + k;
      dst[k] = k < count ? convert<T>(x.at(i)) : from<T>(0.f);
    }
  }
}

// ---- mbarriers ----
struct Barrier { unsigned long long state; };

#ifdef SEPTRAN_EMULATE
ST_DEVICE void barrier_init(Barrier* b, int arrivals) { cuemu::mbarrier_init(&b->state, arrivals); }
ST_DEVICE void barrier_fence_init() { cuemu::mbarrier_fence_init(); }
ST_DEVICE void barrier_arrive(Barrier* b) { cuemu::mbarrier_arrive(&b->state, 0); }
ST_DEVICE void barrier_expect(Barrier* b, int bytes) { cuemu::mbarrier_arrive(&b->state, bytes); }
ST_DEVICE void barrier_wait(Barrier* b, uint parity) { cuemu::mbarrier_wait(&b->state, parity); }
#else
ST_DEVICE uint shared_address(const void* p) { return static_cast<uint>(__cvta_generic_to_shared(p)); }
ST_DEVICE void barrier_init(Barrier* b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
/// What barrier_init wrote is seen by the copy engine.
ST_DEVICE void barrier_fence_init() { asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }
ST_DEVICE void barrier_arrive(Barrier* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(b)) : "memory");
}
/// Arrive, and let the phase also wait for `bytes` of copies.
ST_DEVICE void barrier_expect(Barrier* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
/// Wait until the phase of this parity has completed; a new barrier counts as having completed parity 1.
ST_DEVICE void barrier_wait(Barrier* b, uint parity) {
  uint done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(done) : "r"(shared_address(b)), "r"(parity) : "memory");
}
#endif

/// The slots of a ring that one thread fills by tensor copies: `full` completes when a slot's bytes have landed,
/// `empty` when every warp has released it. Phases are counted per slot, so a ring may run many times.
template <int DEPTH> struct Slots {
  static_assert(DEPTH <= 32, "one bit per slot");
  static constexpr int bytes = 2 * DEPTH * sizeof(Barrier);
  Barrier *full, *empty;
  uint landed = 0, released = 0;
  /// All threads of the block; ends with a barrier.
  ST_DEVICE explicit Slots(void* shared) : full(static_cast<Barrier*>(shared)), empty(full + DEPTH) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < DEPTH; i++) barrier_init(full + i, 1), barrier_init(empty + i, threads / 32);
      barrier_fence_init();
    }
    __syncthreads();
  }
  /// Thread 0: wait until nobody reads the slot any more.
  ST_DEVICE void reuse(int slot) {
    barrier_wait(empty + slot, released >> slot & 1);
    released ^= 1u << slot;
  }
  /// Thread 0: the barrier to copy `bytes` into the slot under.
  ST_DEVICE Barrier* expect(int slot, int bytes) {
    barrier_expect(full + slot, bytes);
    return full + slot;
  }
  /// All threads: the slot has landed.
  ST_DEVICE void wait(int slot) {
    barrier_wait(full + slot, landed >> slot & 1);
    landed ^= 1u << slot;
  }
  /// All threads: this warp reads the slot no more.
  ST_DEVICE void release(int slot) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty + slot);
  }
};

// ---- tensor copies ----
#ifdef SEPTRAN_EMULATE
using TensorMap = cuemu::TensorMap;
#else
using TensorMap = CUtensorMap;
#endif

template <class T> struct TensorType;
#ifdef SEPTRAN_EMULATE
template <class T> struct TensorType { static constexpr int value = 0; };
#else
template <> struct TensorType<__half> { static constexpr CUtensorMapDataType value = CU_TENSOR_MAP_DATA_TYPE_FLOAT16; };
template <> struct TensorType<__nv_bfloat16> { static constexpr CUtensorMapDataType value = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16; };
#endif

/// Host: describe the row-major tensor `data` of extents `dims`, copied in boxes of extents `box` (last one 64) into one
/// panel; positions outside read as 0. Returns an error text or nullptr.
template <class T, int R> const char* tensor_map(TensorMap& map, const T* data, const long long (&dims)[R], const int (&box)[R]) {
  static_assert(R >= 2 && R <= 5, "tensor copies have 2 to 5 dimensions");
  cuuint64_t size[R], stride[R];
  cuuint32_t tile[R], step[R];
  for (int d = 0; d < R; d++) size[d] = dims[R - 1 - d], tile[d] = box[R - 1 - d], step[d] = 1;
  cuuint64_t pitch = sizeof(T);
  for (int d = 0; d + 1 < R; d++) stride[d] = pitch *= size[d];
#ifdef SEPTRAN_EMULATE
  if (const char* error = cuemu::encode_tiled(map, R, data, size, stride, tile)) cuemu::fail("launch", error);
  return nullptr;
#else
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                              const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static void* const encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult how;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &how);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &how);
#endif
    return found;
  }();
  if (!encode) return "this driver has no tensor maps (CUDA 12 is needed)";
  const CUresult result = reinterpret_cast<Encode>(encode)(
      &map, TensorType<T>::value, R, const_cast<T*>(data), size, stride, tile, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? nullptr : "a tensor is not 16-byte aligned";
#endif
}

/// One box at (c.., col), innermost coordinate last, into one panel.
template <int R> ST_DEVICE void tensor_copy(void* panel, const TensorMap& map, Barrier* landed, const int (&c)[R], int col) {
#ifdef SEPTRAN_EMULATE
  long at[R + 1] = {col};
  for (int d = 0; d < R; d++) at[d + 1] = c[R - 1 - d];
  cuemu::tensor_copy(panel, map, &landed->state, at, R + 1);
#else
  const uint d = shared_address(panel), b = shared_address(landed);
  if constexpr (R == 1)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];\n"
                 ::"r"(d), "l"(&map), "r"(b), "r"(col), "r"(c[0]) : "memory");
  if constexpr (R == 2)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];\n"
                 ::"r"(d), "l"(&map), "r"(b), "r"(col), "r"(c[1]), "r"(c[0]) : "memory");
  if constexpr (R == 3)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];\n"
                 ::"r"(d), "l"(&map), "r"(b), "r"(col), "r"(c[2]), "r"(c[1]), "r"(c[0]) : "memory");
  if constexpr (R == 4)
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];\n"
                 ::"r"(d), "l"(&map), "r"(b), "r"(col), "r"(c[3]), "r"(c[2]), "r"(c[1]), "r"(c[0]) : "memory");
#endif
}

/// One thread: the tile at `offset` of the described tensor -> panels, landing under a barrier that expects its bytes.
template <class T, int ROWS, int COLS, int R>
ST_DEVICE void copy_bulk(const Panels<T, ROWS, COLS>& y, const TensorMap& map, Barrier* landed, const idx (&offset)[R]) {
  int c[R - 1];
#pragma unroll
  for (int d = 0; d < R - 1; d++) c[d] = static_cast<int>(offset[d]);
#pragma unroll
  for (int panel = 0; panel < COLS / 64; panel++)
    tensor_copy<R - 1>(y.p + panel * y.panel, map, landed, c, static_cast<int>(offset[R - 1]) + panel * 64);
}

}  // namespace st
