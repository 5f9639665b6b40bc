/* vendor_lib.h - a generic scratchpad machine: DMA engines, a matrix engine, a vector engine.
 *
 * C11. Each core has a scratchpad (SPAD), an accumulator (ACC) and four in-order queues. A call puts one
 * command into a queue and returns; queues run concurrently and are ordered only by events
 * (vendor_lib_set / vendor_lib_wait), vendor_lib_sync and vendor_lib_barrier.
 *
 *   LOAD   GLOBAL -> local          STORE  local -> GLOBAL
 *   MMA    matrix engine            VEC    vector engine (SPAD and ACC)
 */
#ifndef VENDOR_LIB_H
#define VENDOR_LIB_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { VL_F32, VL_F16, VL_BF16, VL_F64, VL_I8, VL_U8, VL_BOOL, VL_I32, VL_I64 } vl_dtype;
typedef enum { VL_GLOBAL, VL_SPAD, VL_ACC } vl_space;
typedef enum { VL_Q_LOAD, VL_Q_STORE, VL_Q_MMA, VL_Q_VEC, VL_QUEUES } vl_queue;

/* A 2-D tile. addr: a pointer for GLOBAL, a byte offset for SPAD and ACC. ld: elements between rows.
 * As an operand of a vector call rows == 1 or cols == 1 repeats over the result. */
typedef struct {
  vl_space space;
  uint64_t addr;
  int32_t rows, cols;
  int64_t ld;
  vl_dtype dtype;
} vl_tile;

/* A leaf's tensor: n[d] run-time extents, s[d] strides in elements, dimension 0 outermost. */
typedef struct {
  vl_space space;
  uint64_t addr;
  vl_dtype dtype;
  int32_t rank;
  int32_t n[6];
  int64_t s[6];
} vl_view;

#define VL_G(pointer) VL_GLOBAL, (uint64_t)(uintptr_t)(pointer)
#define VL_S(offset) VL_SPAD, (uint64_t)(offset)
#define VL_A(offset) VL_ACC, (uint64_t)(offset)
#define VL_TILE(...) ((vl_tile){__VA_ARGS__})

typedef struct {
  uint32_t cores, spad_bytes, spad_banks, acc_bytes, align_bytes;
  uint32_t mma_rows, mma_cols, mma_depth, mma_pitch; /* granule; pitch in elements */
  uint32_t vec_bytes, events;
  uint32_t dma_bytes_per_cycle, dma_latency, mma_latency, vec_latency, clear_bytes_per_cycle;
} vl_caps;

const vl_caps *vendor_lib_caps(void);
int vendor_lib_core_id(void);
int vendor_lib_core_num(void);
/* Run kernel(arg) on every core; 0 or the code of the first error. */
int vendor_lib_launch(void (*kernel)(void *arg), void *arg);
const char *vendor_lib_last_error(void);
/* Tell the runtime about a tensor in GLOBAL: its size in bytes and whether it may be written. */
void vendor_lib_bind(const char *name, const void *at, size_t bytes, int writable);
/* Memory in GLOBAL for the next launch, with whose end it goes; contents undefined (the simulator: NaN). */
void *vendor_lib_workspace(const char *name, size_t bytes);

/* The implementation takes the call's line; user code uses the macros below. */
void vl_dma_copy(int line, vl_tile dst, vl_tile src);
void vl_dma_cast(int line, vl_tile dst, vl_tile src);
void vl_dma_fill(int line, vl_tile dst, double value);
void vl_mma(int line, vl_tile c, vl_tile a, vl_tile b, uint32_t flags);
#define VL_MMA_INIT 1u /* C = A B, else C += A B */
#define VL_MMA_TRANS_A 2u
#define VL_MMA_TRANS_B 4u

typedef enum {
  VL_ADD, VL_SUB, VL_MUL, VL_DIV, VL_POW, VL_MAX, VL_MIN,
  VL_LT, VL_LE, VL_GT, VL_GE, VL_EQ, VL_NE
} vl_binary;
typedef enum {
  VL_COPY, VL_NEG, VL_ABS, VL_EXP, VL_EXP2, VL_LOG, VL_SQRT, VL_RSQRT, VL_TANH, VL_SIGMOID, VL_ERF
} vl_unary;
typedef enum { VL_SUM, VL_PROD, VL_RMAX, VL_RMIN } vl_reduction;
void vl_fill(int line, vl_tile dst, double value);
void vl_vec_binary(int line, vl_binary op, vl_tile dst, vl_tile a, vl_tile b);
void vl_vec_scalar(int line, vl_binary op, vl_tile dst, vl_tile a, double s); /* a op s */
void vl_vec_scalar_r(int line, vl_binary op, vl_tile dst, double s, vl_tile a); /* s op a */
void vl_vec_unary(int line, vl_unary op, vl_tile dst, vl_tile a);
void vl_vec_select(int line, vl_tile dst, vl_tile cond, vl_tile a, vl_tile b);
void vl_vec_index(int line, vl_tile dst, int64_t base, int64_t by_row, int64_t by_col);
void vl_vec_reduce(int line, vl_reduction op, vl_tile dst, vl_tile a); /* over cols, or over rows */
void vl_vec_transpose(int line, vl_tile dst, vl_tile a);

/* set: enqueue on `from`; posts the event when everything before it on `from` is done.
 * wait: enqueue on `to`; holds `to` back until the event is posted, and takes it. */
void vl_set(int line, vl_queue from, vl_queue to, int event);
void vl_wait(int line, vl_queue from, vl_queue to, int event);
void vl_sync(int line);    /* drain all queues of this core */
void vl_barrier(int line); /* all cores; drains too */

#define vendor_lib_dma_copy(...) vl_dma_copy(__LINE__, __VA_ARGS__)
#define vendor_lib_dma_cast(...) vl_dma_cast(__LINE__, __VA_ARGS__)
#define vendor_lib_dma_fill(...) vl_dma_fill(__LINE__, __VA_ARGS__)
#define vendor_lib_mma(...) vl_mma(__LINE__, __VA_ARGS__)
#define vendor_lib_fill(...) vl_fill(__LINE__, __VA_ARGS__)
#define vendor_lib_vec_binary(...) vl_vec_binary(__LINE__, __VA_ARGS__)
#define vendor_lib_vec_scalar(...) vl_vec_scalar(__LINE__, __VA_ARGS__)
#define vendor_lib_vec_scalar_r(...) vl_vec_scalar_r(__LINE__, __VA_ARGS__)
#define vendor_lib_vec_unary(...) vl_vec_unary(__LINE__, __VA_ARGS__)
#define vendor_lib_vec_select(...) vl_vec_select(__LINE__, __VA_ARGS__)
#define vendor_lib_vec_index(...) vl_vec_index(__LINE__, __VA_ARGS__)
#define vendor_lib_vec_reduce(...) vl_vec_reduce(__LINE__, __VA_ARGS__)
#define vendor_lib_vec_transpose(...) vl_vec_transpose(__LINE__, __VA_ARGS__)
#define vendor_lib_set(...) vl_set(__LINE__, __VA_ARGS__)
#define vendor_lib_wait(...) vl_wait(__LINE__, __VA_ARGS__)
#define vendor_lib_sync() vl_sync(__LINE__)
#define vendor_lib_barrier() vl_barrier(__LINE__)

#define VL_INF __builtin_inf()
#define VL_NAN __builtin_nan("")

/* Bytes of an element. */
static inline uint64_t vl_element(vl_dtype dtype) {
  static const uint8_t bytes[] = {4, 2, 2, 8, 1, 1, 1, 4, 8};
  return bytes[dtype];
}

/* The last two dimensions of a leaf's tensor as a tile; a vector is one row. */
static inline vl_tile vl_matrix(vl_view v) {
  const int r = v.rank;
  if (r < 2) return (vl_tile){v.space, v.addr, 1, v.n[0], v.n[0], v.dtype};
  return (vl_tile){v.space, v.addr, v.n[r - 2], v.n[r - 1], v.s[r - 2], v.dtype};
}

/* rows x cols of a tile, from (row, col) on; every call refuses the tile when that leaves the given one. */
static inline vl_tile vl_part(vl_tile t, int32_t row, int32_t col, int32_t rows, int32_t cols) {
  const int inside = row >= 0 && col >= 0 && rows >= 0 && cols >= 0 && rows <= t.rows - row && cols <= t.cols - col;
  t.addr += inside ? (uint64_t)(row * t.ld + col) * vl_element(t.dtype) : 0;
  t.rows = inside ? rows : 0;
  t.cols = cols;
  return t;
}

/* A view at position `at` of its first dimension; every call refuses its tiles when there is no such position. */
static inline vl_view vl_slice(vl_view v, int32_t at) {
  const int inside = v.rank > 0 && at >= 0 && at < v.n[0];
  vl_view part = {v.space, v.addr, v.dtype, v.rank > 0 ? v.rank - 1 : 0, {0}, {0}};
  for (int d = 0; d < part.rank; d++) part.n[d] = inside ? v.n[d + 1] : 0, part.s[d] = v.s[d + 1];
  part.addr += inside ? (uint64_t)(at * v.s[0]) * vl_element(v.dtype) : 0;
  return part;
}

/* A rows x cols float32 tile inside a leaf's scratch, `bytes` (a multiple of 64) from its start. */
static inline vl_tile vl_temp(vl_view scratch, uint64_t bytes, int32_t rows, int32_t cols) {
  return (vl_tile){scratch.space, scratch.addr + bytes, rows, cols, (cols + 15) / 16 * 16, VL_F32};
}

/* The same of another element type; its rows are 16 elements apart, or a multiple of that. */
static inline vl_tile vl_temp_of(vl_view scratch, uint64_t bytes, int32_t rows, int32_t cols, vl_dtype dtype) {
  vl_tile t = vl_temp(scratch, bytes, rows, cols);
  t.dtype = dtype;
  return t;
}

/* Simulator only: until the next call this core's commands reach these views and nothing else. may: for each of
 * them r, it is only read, or w; "" ends it. */
void vl_given(const vl_view *views, const char *may);
/* Simulator only: the report of the last launch as JSON (times in cycles), valid until the next. */
const char *vendor_lib_report(void);

#ifdef __cplusplus
}
#endif
#endif
