// What a kernel may call of the emulation's machine, which is compiled once (the .cpp files here) and linked with each
// kernel. Every name that is offered has its symbol from CUEMU_CALL: septran/backends/cuda/toolchain.py reads them here.
#pragma once
#include "types.h"

#ifndef CUEMU_WAVE
#define CUEMU_WAVE 32  // threads that run in step: a warp, or with 64 a wavefront
#endif
#define CUEMU_CALL(name) __asm__("cuemu_" #name)
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define CUEMU_NOTSAN __attribute__((no_sanitize("thread")))
#else
#define CUEMU_NOTSAN
#endif

namespace cuemu {

constexpr int kWave = CUEMU_WAVE;
using Mask = uint64_t;  // a bit for each lane

// ---- the thread that runs now
extern uint3 thread_id CUEMU_CALL(thread_id);
extern uint3 block_id CUEMU_CALL(block_id);
extern dim3 block_dim CUEMU_CALL(block_dim);
extern dim3 grid_dim CUEMU_CALL(grid_dim);
extern int thread_linear CUEMU_CALL(thread_linear);
extern char* dynamic_shared CUEMU_CALL(dynamic_shared);
extern size_t dynamic_shared_size CUEMU_CALL(dynamic_shared_size);
extern unsigned default_nan CUEMU_CALL(default_nan);  // the bits of a NaN that an operation makes, in this call
extern bool float_atomics CUEMU_CALL(float_atomics);  // one whose result depends on the order

/// An atomic operation is made at `p`.
void note_atomic(const void* p) CUEMU_CALL(note_atomic);

/// Memory is read that nobody stores to while the kernel runs (__ldg).
void read_only(const void* p, size_t bytes) CUEMU_CALL(read_only);

/// Say what is wrong, in printf's words, and end the process.
/// A clock: it stands still, and a judged file whose host function comes to it is not run.
long long clock_now() CUEMU_CALL(clock_now);
[[noreturn]] void fail(const char* kind, const char* format, ...) CUEMU_CALL(fail) __attribute__((format(printf, 2, 3)));

// ---- barriers
void block_barrier(const char* where) CUEMU_CALL(block_barrier);
/// Of the block: 0 how many, 1 whether any, 2 whether all threads give p != 0.
int block_vote(int p, int which, const char* where) CUEMU_CALL(block_vote);
/// All lanes named in `mask` meet; the last to arrive runs `act(what each gave, its context)` for everybody.
void warp_meeting(Mask mask, const char* where, void* mine, void (*act)(void** all, void* context), void* context)
    CUEMU_CALL(warp_meeting);
/// The lanes that run this line together: those that come to it before all others of their warp wait for something.
Mask lanes_together(const char* file, int line) CUEMU_CALL(lanes_together);

/// Barrier `id` of `count` threads, whole warps (bar.sync, bar.arrive): arrive, and wait for the others or not.
void named_barrier(int id, int count, bool waits) CUEMU_CALL(named_barrier);

// ---- memory and launches
/// The block's memory of one `__shared__` declaration, told by the address of `site`: NaN in every block.
void* shared_array(const void* site, size_t bytes, size_t alignment) CUEMU_CALL(shared_array);
/// The 32-bit address of a byte of shared memory, and back.
uint32_t shared_address(const void* p) CUEMU_CALL(shared_address);
void* shared_pointer(uint32_t address) CUEMU_CALL(shared_pointer);
void* device_memory(size_t bytes) CUEMU_CALL(device_memory);
void free_device_memory(void* p) CUEMU_CALL(free_device_memory);
/// Memory of cudaMalloc: the host does not reach it.
void not_reached_by_host(const void* p) CUEMU_CALL(not_reached_by_host);
/// A variable of the device whose address the host asked for.
void reached_by_device(const void* p, size_t bytes) CUEMU_CALL(reached_by_device);
/// The next launch's parameters lie here; one of them is this pointer.
void parameters(const void* at, size_t bytes) CUEMU_CALL(parameters);
void pointer_parameter(const void* p) CUEMU_CALL(pointer_parameter);
/// Whether a copy goes from whose memory to whose it says; kind: a cudaMemcpyKind.
void check_copy(const void* to, const void* from, int kind) CUEMU_CALL(check_copy);
/// As memmove and memset: what the driver does is no access of the host function's.
void move_bytes(void* to, const void* from, size_t n) CUEMU_CALL(move_bytes);
void fill_bytes(void* at, int value, size_t n) CUEMU_CALL(fill_bytes);
void allow_dynamic_shared(size_t bytes, size_t limit) CUEMU_CALL(allow_dynamic_shared);
void run_grid(const char* name, const dim3& grid, const dim3& block, size_t shared, void (*body)(void*), void* argument)
    CUEMU_CALL(run_grid);

struct Output {
  void* data;
  size_t bytes;
};
/// Run `kernel` in the orders of this call; blocks_apart: before its first call also with blocks that see no other.
void run_orders(const Output* outputs, size_t count, bool blocks_apart, void (*kernel)(void*), void* argument)
    CUEMU_CALL(run_orders);
/// 0 forward, 1 reverse, 2 shuffled.
void choose_order(int order) CUEMU_CALL(choose_order);

// ---- cp.async
void async_copy(void* dst, const void* src, int bytes, int valid) CUEMU_CALL(async_copy);
void async_commit() CUEMU_CALL(async_commit);
void async_wait(int allowed) CUEMU_CALL(async_wait);
/// As a commit, of what this thread's arrival at `barrier` waits for; and that arrival: what was begun before it lands, too.
void async_bind(const void* barrier) CUEMU_CALL(async_bind);
void async_land(const void* barrier) CUEMU_CALL(async_land);

// ---- tensor cores
enum Product16 { product_half, product_bfloat };
/// 1, 2 or 4 matrices of 8 x 8 16-bit elements; lane 8 * q + r names row r of matrix q.
void load_matrix(uint32_t* out, const void* row, int count, bool transposed, const char* where) CUEMU_CALL(load_matrix);
/// D[16,8] += A[16,16] B[16,8] of 16-bit elements, two in a register.
void mma_16816(float* d, const uint32_t* a, const uint32_t* b, Product16 kind, const char* where) CUEMU_CALL(mma_16816);
/// D[16,8] += A[16,8] B[8,8] in tf32.
void mma_1688_tf32(float* d, const uint32_t* a, const uint32_t* b, const char* where) CUEMU_CALL(mma_1688_tf32);

// ---- matrix cores of wavefronts
/// D[16,16] += A[16,16] B[16,16]. Lane l gives columns 4 * (l / 16) .. + 3 of row l % 16 of A, as many rows of column l % 16
/// of B, and holds rows 4 * (l / 16) .. + 3 of column l % 16 of D.
void mfma_16x16x16(float* d, const float* a, const float* b, const char* where) CUEMU_CALL(mfma_16x16x16);

// ---- mbarriers and tensor copies (sm_90)
struct TensorMap {
  const char* base = nullptr;
  int rank = 0;
  uint64_t size[5] = {}, stride[5] = {};  // innermost first; bytes from one position to the next
  uint32_t box[5] = {};
};
/// Byte address of `p` as the device counts it: from the start of the block's shared memory.
uint64_t shared_offset(const void* p) CUEMU_CALL(shared_offset);
void mbarrier_init(void* p, int arrivals) CUEMU_CALL(mbarrier_init);
void mbarrier_fence_init() CUEMU_CALL(mbarrier_fence_init);
/// Arrive once; the phase also waits for `bytes` of copies.
void mbarrier_arrive(void* p, int bytes) CUEMU_CALL(mbarrier_arrive);
/// What arriving at `p` gives: bits without a meaning, but the first, the parity of the phase that is not complete.
uint64_t mbarrier_token(const void* p) CUEMU_CALL(mbarrier_token);
void mbarrier_wait(void* p, unsigned parity) CUEMU_CALL(mbarrier_wait);
/// The same, which may give up once and return false, as a wait with a limit of its own may.
bool mbarrier_try(void* p, unsigned parity) CUEMU_CALL(mbarrier_try);
/// The 16 bytes at `p` are (or will be) written by a store or cp.async of this thread.
void proxy_write(const void* p) CUEMU_CALL(proxy_write);
void proxy_fence() CUEMU_CALL(proxy_fence);
/// The checks of the driver's cuTensorMapEncodeTiled for 16-bit elements and the 128-byte swizzle.
const char* encode_tiled(TensorMap& map, int rank, const void* data, const uint64_t* size, const uint64_t* stride,
                         const uint32_t* box) CUEMU_CALL(encode_tiled);
void tensor_copy(void* panel, const TensorMap& map, void* barrier, const long* at, int rank) CUEMU_CALL(tensor_copy);

// ---- bulk copies as files of others have them: any shared memory, every swizzle; a CUtensorMap is 128 bytes
/// What the driver's cuTensorMapEncodeTiled does: 0, or 1 (CUDA_ERROR_INVALID_VALUE) where it refuses. item: bytes; swizzle: 0 none,
/// 1 32, 2 64, 3 128 bytes; floats: outside of the tensor are NaN, not 0.
int encode_map(void* map, int item, int rank, const void* base, const uint64_t* size, const uint64_t* stride, const uint32_t* box,
               const uint32_t* step, int interleave, int swizzle, bool nan_outside) CUEMU_CALL(encode_map);
void bulk_load_tensor(void* to, const void* map, const int* at, int rank, void* barrier) CUEMU_CALL(bulk_load_tensor);
void bulk_store_tensor(const void* map, const int* at, int rank, const void* from) CUEMU_CALL(bulk_store_tensor);
void bulk_load(void* to, const void* from, uint32_t bytes, void* barrier) CUEMU_CALL(bulk_load);
void bulk_store(void* to, const void* from, uint32_t bytes) CUEMU_CALL(bulk_store);
void bulk_commit() CUEMU_CALL(bulk_commit);
void bulk_wait(int open) CUEMU_CALL(bulk_wait);
/// The phase of `barrier` waits for more bytes of copies; nobody arrives.
void mbarrier_expect(void* barrier, int bytes) CUEMU_CALL(mbarrier_expect);

// ---- wgmma (sm_90a)
/// d[64, columns] += a[64, 16] b[16, columns] for the calling warp's 16 rows; v: this lane's accumulators, first row then
/// second.
void wgmma(float* v, uint64_t a, uint64_t b, int columns, bool mn_a, bool mn_b, Product16 kind) CUEMU_CALL(wgmma);
/// The same, a in registers: four pairs of elements a thread.
void wgmma_held(float* v, const unsigned (&a)[4], uint64_t b, int columns, bool mn_b, Product16 kind) CUEMU_CALL(wgmma_held);
/// The same as a file of others says it: descriptors with shared addresses, any swizzle, accumulators at `d` in PTX's order; keeps:
/// what they hold is added to; sign: of the product. held: a in registers, or nullptr.
struct Wgmma {
  float* const* d;
  int columns;
  uint64_t a, b;
  const uint32_t* held;
  bool keeps, mn_a, mn_b;
  int sign;
  Product16 kind;
};
void wgmma_said(const Wgmma& said) CUEMU_CALL(wgmma_said);
void wgmma_fence() CUEMU_CALL(wgmma_fence);
void wgmma_commit() CUEMU_CALL(wgmma_commit);
void wgmma_wait(int open) CUEMU_CALL(wgmma_wait);

}  // namespace cuemu
