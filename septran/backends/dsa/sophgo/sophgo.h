/* bm1684x.h - tiles of rows on lanes, over the calls of Sophgo's tpu_kernel.h for the BM1684X.
 *
 * A lane has its own LANE bytes of local memory; an address is lane * LANE + offset. A buffer of rows and columns lies with row q
 * on lane q % 64, in line q / 64 of `pitch` elements there. A kernel's own buffers are below SCRATCH; above it these
 * functions work on blocks of at most LANES rows x BLOCK columns (64 x 512 on the BM1684X). Outside a window (tpu_parallel_start to tpu_parallel_end) every command waits for
 * the one before; inside, the DMA's commands and the computing engine's run beside each other. See "windows" below.
 */
#ifndef SOPHGO_H
#define SOPHGO_H
#include <tpu_kernel.h>
#include "chip.h"

enum { SG_LANES = SG_CHIP_LANES, SG_LANE = SG_CHIP_LANE, SG_ACC = SG_LANE / 2, SG_SCRATCH = SG_LANE / 4 * 3, SG_BLOCK = SG_LANES * 8 };
/* scratch of one lane: blocks of LANES x BLOCK float32, blocks of 16 columns of products, then the exponential's tables */
enum { SG_SLOT = SG_BLOCK * 4, SG_OUT = SG_SCRATCH, SG_A = SG_OUT + SG_SLOT, SG_B = SG_A + SG_SLOT, SG_C = SG_B + SG_SLOT,
       SG_W0 = SG_C + SG_SLOT, SG_W1 = SG_W0 + SG_SLOT, SG_W2 = SG_W1 + SG_SLOT, SG_HALF = SG_W2 + SG_SLOT,
       SG_A2 = SG_HALF + SG_SLOT, SG_B2 = SG_A2 + SG_SLOT, SG_MAT = SG_LANES * 64, SG_MAT_A = SG_B2 + SG_SLOT,
       SG_MAT_B = SG_MAT_A + 2 * SG_MAT, SG_MAT_C = SG_MAT_B + 2 * SG_MAT, SG_COEFF = SG_MAT_C + SG_MAT, SG_TABLE = SG_COEFF + 2048, SG_MORE = SG_TABLE + 4096 };

/* rows x cols; row r starts `ld` elements after row r - 1. Local: element `at` of the buffer at `base`, whose rows are `pitch` long. */
typedef struct {
  int global;
  global_addr_t far;
  int base, at, pitch, rows, cols, ld;
  data_type_t dtype;
} sg_tile;
/* part of a tile in local memory, at most LANES rows from lane 0 on: strides between lines and columns, in elements */
typedef struct { local_addr_t at; dim4 stride; } sg_block;

#define SG_G(pointer) 1, (global_addr_t)(uintptr_t)(pointer), 0, 0
#define SG_L(base, at) 0, 0, (base), (at)
#define SG_R(base, at) 0, 0, SG_ACC + (base), (at)
#define SG_TILE(address, pitch, rows, cols, ld, dtype) ((sg_tile){address, pitch, rows, cols, ld, dtype})

#define sg_set(source, target, event) sg_post(SG_QUEUE_##source, event)
#define sg_wait(source, target, event) sg_await(SG_QUEUE_##source, SG_QUEUE_##target, event)
#define sg_sync() sg_drain(sg_given)
#define sg_barrier() sg_drain(sg_given)

#define SG_FN static inline __attribute__((unused))

SG_FN int sg_core(void) { return 0; }
SG_FN int sg_cores(void) { return 1; }
SG_FN int sg_min(int a, int b) { return a < b ? a : b; }
SG_FN int sg_bytes(data_type_t t) { return t == DT_FP32 || t == DT_INT32 ? 4 : t == DT_UINT8 ? 1 : 2; }
SG_FN dim4 sg_shape(int rows, int cols) { return (dim4){1, rows, 1, cols}; }
SG_FN scalar_t sg_number(double v) { return (scalar_t){.f32 = (float)v}; }
SG_FN sg_block sg_slot(int at) { return (sg_block){(local_addr_t)at, {SG_BLOCK, SG_BLOCK, SG_BLOCK, 1}}; }
SG_FN int sg_row(const sg_tile *t, int r) { return (t->at + r * t->ld) / t->pitch; }
/* address of an element of a local tile */
SG_FN local_addr_t sg_at(const sg_tile *t, int r, int c) {
  const int e = t->at + r * t->ld + c, q = e / t->pitch;
  return (local_addr_t)(q % SG_LANES * SG_LANE + t->base + (q / SG_LANES * t->pitch + e % t->pitch) * sg_bytes(t->dtype));
}
/* how many of the next `want` rows lie on one lane after the other, in one line */
SG_FN int sg_consecutive(const sg_tile *t, int r, int want) {
  if (t->ld != t->pitch) return 1;
  return sg_min(want, SG_LANES - sg_row(t, r) % SG_LANES);
}
SG_FN int sg_straight(const sg_tile *t, int r, int rows) {
  return sg_row(t, r) % SG_LANES == 0 && (rows == 1 || t->ld == t->pitch);
}
SG_FN dim4 sg_lines(const sg_tile *t) { return (dim4){t->pitch, t->pitch, t->pitch, 1}; }

/* -- movement: a block of a tile to scratch and back, in the tile's own type --------------------------------------- */

SG_FN void sg_collect(local_addr_t to, const sg_tile *t, int r0, int rows, int c0, int cols) {
  const dim4 lines = {SG_BLOCK, SG_BLOCK, SG_BLOCK, 1}, own = sg_lines(t);
  for (int r = 0, n; r < rows; r += n) {
    n = sg_consecutive(t, r0 + r, rows - r);
    const dim4 shape = sg_shape(n, cols);
    tpu_gdma_cpy_L2L(to + (local_addr_t)(r * SG_LANE), sg_at(t, r0 + r, c0), &shape, &lines, &own, t->dtype);
  }
}
SG_FN void sg_spread(const sg_tile *t, int r0, int rows, int c0, int cols, local_addr_t from) {
  const dim4 lines = {SG_BLOCK, SG_BLOCK, SG_BLOCK, 1}, own = sg_lines(t);
  for (int r = 0, n; r < rows; r += n) {
    n = sg_consecutive(t, r0 + r, rows - r);
    const dim4 shape = sg_shape(n, cols);
    tpu_gdma_cpy_L2L(sg_at(t, r0 + r, c0), from + (local_addr_t)(r * SG_LANE), &shape, &own, &lines, t->dtype);
  }
}
/* rows x cols of an operand from (r0, c0) on, as float32: in place, or in scratch at `to`; one row or column repeats */
SG_FN sg_block sg_get(const sg_tile *t, int r0, int rows, int c0, int cols, int to) {
  const int once = t->rows == 1 && rows >= 1, narrow = t->cols == 1;
  const int r = once ? 0 : r0, n = once ? 1 : rows, c = narrow ? 0 : c0, m = narrow ? 1 : cols;
  sg_block b = sg_slot(to);
  if (t->dtype == DT_FP32 && sg_straight(t, r, n) && (n == rows)) {
    b = (sg_block){sg_at(t, r, c), sg_lines(t)};
  } else {
    const dim4 shape = sg_shape(n, m), all = sg_shape(rows, m);
    if (t->dtype == DT_FP32) {
      sg_collect((local_addr_t)to, t, r, n, c, m);
    } else {
      sg_collect(SG_HALF, t, r, n, c, m);
      tpu_bdc_cast((local_addr_t)to, SG_HALF, &shape, &b.stride, &b.stride, DT_FP32, t->dtype, RM_HALF_TO_EVEN);
    }
    if (n < rows) {
      tpu_bdc_npu_bcast(SG_HALF, (local_addr_t)to, &all, DT_FP32);
      b.at = SG_HALF;
      /* the slot of halves is free again only after the operation; a second such operand needs its own */
      tpu_bdc_cpy((local_addr_t)to, SG_HALF, &all, &b.stride, NULL, DT_FP32);
      b.at = (local_addr_t)to;
    }
  }
  if (narrow) b.stride.w = 0;
  return b;
}
/* where a block of the result is made */
SG_FN sg_block sg_made(const sg_tile *d, int r0, int rows, int c0) {
  if (d->dtype == DT_FP32 && sg_straight(d, r0, rows)) return (sg_block){sg_at(d, r0, c0), sg_lines(d)};
  return sg_slot(SG_OUT);
}
SG_FN void sg_put(const sg_tile *d, int r0, int rows, int c0, int cols, sg_block made) {
  const dim4 shape = sg_shape(rows, cols);
  if (made.at != SG_OUT) return;
  if (d->dtype == DT_FP32) {
    sg_spread(d, r0, rows, c0, cols, SG_OUT);
    return;
  }
  tpu_bdc_cast(SG_HALF, SG_OUT, &shape, &made.stride, &made.stride, d->dtype, DT_FP32, RM_HALF_TO_EVEN);
  sg_spread(d, r0, rows, c0, cols, SG_HALF);
}

#define SG_BLOCKS(d) \
  for (int r0 = 0, rows; rows = sg_min(SG_LANES, (d).rows - r0), r0 < (d).rows; r0 += SG_LANES) \
    for (int c0 = 0, cols; cols = sg_min(SG_BLOCK, (d).cols - c0), c0 < (d).cols; c0 += SG_BLOCK)

/* -- DMA: a run of rows is one command ------------------------------------------------------------------------------ */

SG_FN void sg_load_as_is(const sg_tile *d, const sg_tile *a) {
  const dim4 own = sg_lines(d), far = {a->ld, a->ld, a->ld, 1};
  for (int r = 0, n; r < d->rows; r += n) {
    n = d->ld == d->pitch ? d->rows : 1;
    const dim4 shape = sg_shape(n, d->cols);
    tpu_gdma_cpy_S2L(sg_at(d, r, 0), a->far + (global_addr_t)sg_bytes(a->dtype) * (global_addr_t)((int64_t)r * a->ld), &shape, &own,
                     &far, d->dtype);
  }
}
SG_FN void sg_store_as_is(const sg_tile *d, const sg_tile *a) {
  const dim4 own = sg_lines(a), far = {d->ld, d->ld, d->ld, 1};
  for (int r = 0, n; r < a->rows; r += n) {
    n = a->ld == a->pitch ? a->rows : 1;
    const dim4 shape = sg_shape(n, a->cols);
    tpu_gdma_cpy_L2S(d->far + (global_addr_t)sg_bytes(d->dtype) * (global_addr_t)((int64_t)r * d->ld), sg_at(a, r, 0), &shape, &far,
                     &own, d->dtype);
  }
}
/* a block of a tile in global memory, from its row r0 and column c0 on */
SG_FN sg_tile sg_part(sg_tile t, int r0, int rows, int c0, int cols) {
  if (t.global) t.far += (global_addr_t)((int64_t)r0 * t.ld + c0) * (global_addr_t)sg_bytes(t.dtype);
  else t.at += r0 * t.ld + c0;
  t.rows = rows, t.cols = cols;
  return t;
}
SG_FN sg_tile sg_half(int rows, int cols, data_type_t dtype) {
  return SG_TILE(SG_L(SG_HALF, 0), SG_BLOCK, rows, cols, SG_BLOCK, dtype);
}

/* -- windows --------------------------------------------------------------------------------------------------------
 *
 * A copy between memories is not made where it stands: it waits in a list, first in first out, until a product takes it into
 * its window or somebody waits for it. An event of a DMA's queue is the number of copies given before it. So a copy is beside
 * computing where no event keeps the two apart, and nowhere else.
 */

enum { SG_QUEUE_LOAD, SG_QUEUE_STORE, SG_QUEUE_MMA, SG_QUEUE_VEC, SG_DUE = 32, SG_EVENTS = 64, SG_QUEUES = 4 };
typedef struct { sg_tile d, a; int row; } sg_move; /* rows before `row` are on their way */
static sg_move sg_list[SG_DUE];
static int64_t sg_given, sg_done, sg_posted[SG_QUEUES][SG_EVENTS];

SG_FN int64_t sg_size(const sg_move *m) { return (int64_t)(m->d.rows - m->row) * m->d.cols * sg_bytes(m->d.dtype); }
/* bytes that wait */
SG_FN int64_t sg_waiting(void) {
  int64_t bytes = 0;
  for (int64_t i = sg_done; i < sg_given; i++) bytes += sg_size(&sg_list[i % SG_DUE]);
  return bytes;
}
/* begin the copy's next rows: at least `bytes` of them in whole lines of lanes, or all that are left */
SG_FN int64_t sg_begin(sg_move *m, int64_t bytes) {
  const int64_t row = (int64_t)m->d.cols * sg_bytes(m->d.dtype), lines = (bytes + row * SG_LANES - 1) / (row * SG_LANES);
  const int left = m->d.rows - m->row, n = lines * SG_LANES < left ? (int)lines * SG_LANES : left;
  const sg_tile d = sg_part(m->d, m->row, n, 0, m->d.cols), a = sg_part(m->a, m->row, n, 0, m->d.cols);
  if (a.global) sg_load_as_is(&d, &a);
  else sg_store_as_is(&d, &a);
  m->row += n;
  if (m->row == m->d.rows) sg_done++;
  return n * row;
}
/* begin waiting copies until about `bytes` are on their way */
SG_FN void sg_issue(int64_t bytes) {
  while (bytes > 0 && sg_done < sg_given) bytes -= sg_begin(&sg_list[sg_done % SG_DUE], bytes);
}
/* outside a window: the copies before `until` */
SG_FN void sg_drain(int64_t until) {
  while (sg_done < until && sg_done < sg_given) sg_begin(&sg_list[sg_done % SG_DUE], sg_size(&sg_list[sg_done % SG_DUE]));
}
SG_FN void sg_give(sg_tile d, sg_tile a) {
  if (sg_given - sg_done == SG_DUE) sg_drain(sg_done + 1);
  sg_list[sg_given++ % SG_DUE] = (sg_move){d, a, 0};
}
SG_FN void sg_post(int source, int event) {
  if (source == SG_QUEUE_LOAD || source == SG_QUEUE_STORE) sg_posted[source][event] = sg_given;
}
/* copies stay in their order among themselves, and computing is never put off */
SG_FN void sg_await(int source, int target, int event) {
  const int far = source == SG_QUEUE_LOAD || source == SG_QUEUE_STORE;
  if (far && target != SG_QUEUE_LOAD && target != SG_QUEUE_STORE) sg_drain(sg_posted[source][event]);
}

/* exactly one of the two is in global memory; a change of type goes through scratch, at once */
SG_FN void sg_dma(sg_tile d, sg_tile a) {
  if (d.rows < 1 || d.cols < 1) return;
  if (d.dtype == a.dtype) {
    sg_give(d, a);
    return;
  }
  sg_drain(sg_given);
  SG_BLOCKS(d) {
    const dim4 shape = sg_shape(rows, cols);
    const sg_block slot = sg_slot(SG_OUT);
    if (a.global) {
      sg_tile in = sg_half(rows, cols, a.dtype), from = sg_part(a, r0, rows, c0, cols);
      in.base = SG_W0;
      sg_load_as_is(&in, &from);
      tpu_bdc_cast(SG_OUT, SG_W0, &shape, &slot.stride, &slot.stride, d.dtype, a.dtype, RM_HALF_TO_EVEN);
      sg_spread(&d, r0, rows, c0, cols, SG_OUT);
    } else {
      sg_tile out = sg_half(rows, cols, d.dtype), to = sg_part(d, r0, rows, c0, cols);
      sg_collect(SG_W0, &a, r0, rows, c0, cols);
      tpu_bdc_cast(SG_HALF, SG_W0, &shape, &slot.stride, &slot.stride, d.dtype, a.dtype, RM_HALF_TO_EVEN);
      sg_store_as_is(&to, &out);
    }
  }
}

/* -- the vector engine ---------------------------------------------------------------------------------------------- */

SG_FN void sg_fill(sg_tile d, double value) {
  SG_BLOCKS(d) {
    const dim4 shape = sg_shape(rows, cols);
    const sg_block o = sg_made(&d, r0, rows, c0);
    tpu_bdc_set_C(o.at, sg_number(value), &shape, &o.stride, DT_FP32);
    sg_put(&d, r0, rows, c0, cols, o);
  }
}

/* a DMA's fill: in the order of its copies */
SG_FN void sg_dma_fill(sg_tile d, double value) {
  sg_drain(sg_given);
  sg_fill(d, value);
}

typedef enum { SG_ADD, SG_SUB, SG_MUL, SG_DIV, SG_MAX, SG_MIN, SG_LT, SG_LE, SG_GT, SG_GE, SG_EQ, SG_NE } sg_binary_op;

/* at `to`, `value` where a block holds NaN and 0 elsewhere: the engine compares the bits of numbers, so NaN is no exception to it */
SG_FN sg_block sg_nan(int to, sg_block a, double value, const dim4 *s) {
  const sg_block o = sg_slot(to);
  const scalar_t bits = {.u32 = 0x7fffffff}, infinite = {.u32 = 0x7f800000};
  tpu_bdc_and_C(o.at, a.at, bits, s, &o.stride, &a.stride, DT_INT32);
  tpu_bdc_greater_C(o.at, o.at, infinite, sg_number(value), s, &o.stride, &o.stride, DT_FP32, DT_INT32);
  return o;
}
/* at `to`, 0 - a: the engine tells the two zeros apart, and of this both are the same */
SG_FN sg_block sg_turned(int to, sg_block a, const dim4 *s) {
  const sg_block o = sg_slot(to);
  tpu_bdc_fp_C_sub(o.at, a.at, sg_number(0.0), s, &o.stride, &a.stride, DT_FP32);
  return o;
}
/* o = a / b. The vendor's division leaves a dividend as it is where the divisor is infinite: there it is 0 a / the largest number. */
SG_FN void sg_divide(sg_block o, sg_block a, sg_block b, const dim4 *s) {
  const sg_block n = sg_nan(SG_C, b, __builtin_nan(""), s), k = sg_slot(SG_W0), x = sg_slot(SG_W1), y = sg_slot(SG_W2);
  const scalar_t bits = {.u32 = 0x7fffffff}, largest = {.u32 = 0x7f7fffff};
  const dim4 *by = &k.stride;
  tpu_bdc_and_C(k.at, b.at, bits, s, by, &b.stride, DT_INT32);
  tpu_bdc_greater_C(k.at, k.at, largest, sg_number(1.0), s, by, by, DT_FP32, DT_INT32);
  tpu_bdc_fp_C_sub(k.at, k.at, sg_number(1.0), s, by, by, DT_FP32);
  tpu_bdc_fp_mul(x.at, a.at, k.at, s, by, &a.stride, by, DT_FP32);
  tpu_bdc_set_C(k.at, largest, s, by, DT_FP32);
  tpu_bdc_min(y.at, b.at, k.at, s, by, &b.stride, by, DT_FP32);
  tpu_bdc_neg(k.at, k.at, s, by, by, DT_FP32);
  tpu_bdc_max(y.at, y.at, k.at, s, by, by, by, DT_FP32);
  tpu_bdc_fp32_div(o.at, x.at, y.at, s, &o.stride, by, by);
  tpu_bdc_fp_add(o.at, o.at, n.at, s, &o.stride, &o.stride, by, DT_FP32);
}
/* o = a op b. The vendor's maximum and minimum lose a NaN of either operand, and no comparison but != holds for NaN.
 * Compared are 0 - b and 0 - a, in that order. */
SG_FN void sg_apply(sg_binary_op op, sg_block o, sg_block a, sg_block b, const dim4 *s) {
  const scalar_t one = sg_number(1.0);
  sg_block x = o, y = o;
  switch (op) {
    case SG_ADD: tpu_bdc_fp_add(o.at, a.at, b.at, s, &o.stride, &a.stride, &b.stride, DT_FP32); return;
    case SG_SUB: tpu_bdc_fp_sub(o.at, a.at, b.at, s, &o.stride, &a.stride, &b.stride, DT_FP32); return;
    case SG_MUL: tpu_bdc_fp_mul(o.at, a.at, b.at, s, &o.stride, &a.stride, &b.stride, DT_FP32); return;
    case SG_DIV: sg_divide(o, a, b, s); return;
    default: break;
  }
  const int keeps = op == SG_MAX || op == SG_MIN;
  x = sg_nan(SG_W0, a, keeps ? __builtin_nan("") : 1.0, s);
  y = sg_nan(SG_W1, b, keeps ? __builtin_nan("") : 1.0, s);
  if (!keeps) {
    const sg_block turned = sg_turned(SG_W2, a, s);
    a = sg_turned(SG_C, b, s);
    b = turned;
  }
  switch (op) {
    case SG_MAX: tpu_bdc_max(o.at, a.at, b.at, s, &o.stride, &a.stride, &b.stride, DT_FP32); break;
    case SG_MIN: tpu_bdc_min(o.at, a.at, b.at, s, &o.stride, &a.stride, &b.stride, DT_FP32); break;
    case SG_LT: tpu_bdc_less(o.at, a.at, b.at, one, s, &o.stride, &a.stride, &b.stride, DT_FP32, DT_FP32); break;
    case SG_GT: tpu_bdc_greater(o.at, a.at, b.at, one, s, &o.stride, &a.stride, &b.stride, DT_FP32, DT_FP32); break;
    case SG_LE: tpu_bdc_less_equal(o.at, a.at, b.at, one, s, &o.stride, &a.stride, &b.stride, DT_FP32, DT_FP32); break;
    case SG_GE: tpu_bdc_greater_equal(o.at, a.at, b.at, one, s, &o.stride, &a.stride, &b.stride, DT_FP32, DT_FP32); break;
    case SG_EQ: tpu_bdc_equal(o.at, a.at, b.at, one, s, &o.stride, &a.stride, &b.stride, DT_FP32, DT_FP32); break;
    default: tpu_bdc_not_equal(o.at, a.at, b.at, one, s, &o.stride, &a.stride, &b.stride, DT_FP32, DT_FP32); break;
  }
  if (keeps) {
    tpu_bdc_fp_add(o.at, o.at, x.at, s, &o.stride, &o.stride, &x.stride, DT_FP32);
    tpu_bdc_fp_add(o.at, o.at, y.at, s, &o.stride, &o.stride, &y.stride, DT_FP32);
    return;
  }
  tpu_bdc_max(x.at, x.at, y.at, s, &x.stride, &x.stride, &y.stride, DT_FP32);
  if (op == SG_NE) {
    tpu_bdc_max(o.at, o.at, x.at, s, &o.stride, &o.stride, &x.stride, DT_FP32);
    return;
  }
  tpu_bdc_fp_C_sub(x.at, x.at, one, s, &x.stride, &x.stride, DT_FP32);
  tpu_bdc_fp_mul(o.at, o.at, x.at, s, &o.stride, &o.stride, &x.stride, DT_FP32);
}
SG_FN void sg_binary(sg_binary_op op, sg_tile d, sg_tile a, sg_tile b) {
  SG_BLOCKS(d) {
    const dim4 shape = sg_shape(rows, cols);
    const sg_block x = sg_get(&a, r0, rows, c0, cols, SG_A), y = sg_get(&b, r0, rows, c0, cols, SG_B);
    const sg_block o = sg_made(&d, r0, rows, c0);
    sg_apply(op, o, x, y, &shape);
    sg_put(&d, r0, rows, c0, cols, o);
  }
}
/* a op s, or s op a where `turned`: the number becomes a column of one lane each */
SG_FN void sg_with(sg_binary_op op, sg_tile d, sg_tile a, double s, int turned) {
  SG_BLOCKS(d) {
    const dim4 shape = sg_shape(rows, cols), column = sg_shape(rows, 1);
    const sg_block x = sg_get(&a, r0, rows, c0, cols, SG_A), o = sg_made(&d, r0, rows, c0);
    sg_block y = sg_slot(SG_B);
    tpu_bdc_set_C(y.at, sg_number(s), &column, &y.stride, DT_FP32);
    y.stride.w = 0;
    sg_apply(op, o, turned ? y : x, turned ? x : y, &shape);
    sg_put(&d, r0, rows, c0, cols, o);
  }
}
SG_FN void sg_scalar(sg_binary_op op, sg_tile d, sg_tile a, double s) { sg_with(op, d, a, s, 0); }
SG_FN void sg_scalar_r(sg_binary_op op, sg_tile d, double s, sg_tile a) { sg_with(op, d, a, s, 1); }

/* as sg_get, for calls without strides: the rows lie dense from a multiple of 64 bytes on */
SG_FN sg_block sg_dense(const sg_tile *t, int r0, int rows, int c0, int cols, int to) {
  const sg_block b = sg_get(t, r0, rows, c0, cols, to), o = sg_slot(to);
  const dim4 shape = sg_shape(rows, cols);
  if (b.at % 64 == 0 && b.stride.w) return b;
  if (b.at == o.at) { /* one column that repeats, in the slot itself */
    tpu_bdc_cpy(SG_HALF, b.at, &shape, &o.stride, &b.stride, DT_FP32);
    tpu_bdc_cpy(o.at, SG_HALF, &shape, &o.stride, &o.stride, DT_FP32);
  } else {
    tpu_bdc_cpy(o.at, b.at, &shape, &o.stride, &b.stride, DT_FP32);
  }
  return o;
}
SG_FN variable_t sg_tensor(local_addr_t at) { return (variable_t){.type = TENSOR, .context = {.addr = at}}; }
SG_FN variable_t sg_const(double v) { return (variable_t){.type = SCALAR, .context = {.scalar = sg_number(v)}}; }

SG_FN void sg_select(sg_tile d, sg_tile cond, sg_tile a, sg_tile b) {
  SG_BLOCKS(d) {
    const dim4 shape = sg_shape(rows, cols);
    const sg_block when = sg_turned(SG_W0, sg_dense(&cond, r0, rows, c0, cols, SG_A), &shape);
    const variable_t c = sg_tensor(when.at), zero = sg_const(0.0);
    const variable_t x = sg_tensor(sg_dense(&a, r0, rows, c0, cols, SG_B).at);
    const variable_t y = sg_tensor(sg_dense(&b, r0, rows, c0, cols, SG_C).at);
    tpu_bdc_equal_select(SG_OUT, &c, &zero, &y, &x, &shape, DT_FP32, DT_FP32);
    sg_put(&d, r0, rows, c0, cols, sg_slot(SG_OUT));
  }
}

typedef enum { SG_COPY, SG_NEG, SG_ABS, SG_EXP, SG_LOG, SG_SQRT, SG_RSQRT, SG_SIGMOID, SG_TANH, SG_ERF } sg_unary_op;

/* in SG_OUT, `value` where a block compares with `limit` (1 greater, 0 equal, -1 less) */
SG_FN void sg_where(local_addr_t a, int how, double limit, double value, const dim4 *s) {
  const variable_t x = sg_tensor(a), y = sg_const(limit), v = sg_const(value), old = sg_tensor(SG_OUT);
  if (how > 0) tpu_bdc_greater_select(SG_OUT, &x, &y, &v, &old, s, DT_FP32, DT_FP32);
  else if (how < 0) tpu_bdc_less_select(SG_OUT, &x, &y, &v, &old, s, DT_FP32, DT_FP32);
  else tpu_bdc_equal_select(SG_OUT, &x, &y, &v, &old, s, DT_FP32, DT_FP32);
}
/* SG_OUT = a (q[5] - z (q[4] - z (q[3] - ...))), z = a * a, where |a|, which SG_W2 has, is less than 1/2 */
SG_FN void sg_small(local_addr_t a, const double *q, const dim4 *s) {
  const sg_block z = sg_slot(SG_B), p = sg_slot(SG_C);
  const dim4 *by = &z.stride;
  tpu_bdc_fp_mul(z.at, a, a, s, by, by, by, DT_FP32);
  tpu_bdc_set_C(p.at, sg_number(q[0]), s, by, DT_FP32);
  for (int i = 1; i < 6; ++i) { /* the terms' signs alternate: p = q - z p */
    tpu_bdc_fp_mul(p.at, p.at, z.at, s, by, by, by, DT_FP32);
    tpu_bdc_fp_C_sub(p.at, p.at, sg_number(q[i]), s, by, by, DT_FP32);
  }
  tpu_bdc_fp_mul(p.at, p.at, a, s, by, by, by, DT_FP32);
  const variable_t half = sg_const(0.5), far = sg_tensor(SG_W2), other = sg_tensor(p.at), old = sg_tensor(SG_OUT);
  tpu_bdc_less_select(SG_OUT, &far, &half, &other, &old, s, DT_FP32, DT_FP32);
}
/* SG_OUT = tanh(a); the vendor's own function is NaN for large and 1e-5 off for small arguments.
 * From 1/2 on: 1 - 2 sigmoid(-2 |a|) with a's sign. Below: a (1 - z q(z)), z = a * a, q fitted at Chebyshev's points (9e-8 of the value). */
SG_FN void sg_tanh(local_addr_t a, const dim4 *s) {
  static const double q[] = {0.006947, 0.02147272, 0.05393379, 0.13333227, 0.33333333, 1.0};
  const sg_block o = sg_slot(SG_OUT), z = sg_slot(SG_B), p = sg_slot(SG_C), size = sg_slot(SG_W2);
  const dim4 *by = &o.stride;
  tpu_bdc_abs(size.at, a, s, by, by, DT_FP32);
  tpu_bdc_fp_add(z.at, size.at, size.at, s, by, by, by, DT_FP32);
  tpu_bdc_neg(z.at, z.at, s, by, by, DT_FP32);
  tpu_bdc_fp32_sigmoid(SG_OUT, z.at, SG_W0, SG_W1, SG_COEFF, SG_TABLE, s);
  tpu_bdc_fp_add(o.at, o.at, o.at, s, by, by, by, DT_FP32);
  tpu_bdc_fp_C_sub(o.at, o.at, sg_number(1.0), s, by, by, DT_FP32);
  sg_where(size.at, 1, 9.1, 1.0, s);
  tpu_bdc_neg(p.at, o.at, s, by, by, DT_FP32);
  const variable_t x = sg_tensor(a), zero = sg_const(0.0);
  const variable_t other = sg_tensor(p.at), old = sg_tensor(SG_OUT);
  tpu_bdc_less_select(SG_OUT, &x, &zero, &other, &old, s, DT_FP32, DT_FP32);
  sg_small(a, q, s);
}
/* SG_OUT = erf(a); the vendor's own is right to 2e-7, which small values are not much more than: there Maclaurin's series */
SG_FN void sg_erf(local_addr_t a, const dim4 *s) {
  static const double q[] = {8.5483270e-4, 5.2239776e-3, 2.6866171e-2, 0.11283792, 0.37612639, 1.1283791671};
  const sg_block size = sg_slot(SG_W2);
  tpu_bdc_load_fp32_erf_coeff(SG_MORE);
  tpu_bdc_fp32_erf(SG_OUT, a, SG_W0, SG_W1, SG_W2, SG_COEFF, SG_MORE, SG_TABLE, s);
  sg_where(a, 1, 4.0, 1.0, s);
  sg_where(a, -1, -4.0, -1.0, s);
  tpu_bdc_abs(size.at, a, s, &size.stride, &size.stride, DT_FP32);
  sg_small(a, q, s);
}
/* SG_OUT = op(a), with what the vendor's functions leave out at infinities and zeros */
SG_FN void sg_function(sg_unary_op op, local_addr_t a, const dim4 *s) {
  const double inf = __builtin_inf();
  const sg_block o = sg_slot(SG_OUT);
  if (op == SG_EXP || op == SG_SIGMOID || op == SG_TANH || op == SG_ERF) {
    tpu_bdc_load_fp32_exp_coeff(SG_COEFF);
    tpu_bdc_load_fp32_exp_table(SG_TABLE);
  }
  switch (op) {
    case SG_EXP:
      tpu_bdc_fp32_exp(SG_OUT, a, SG_W0, SG_W1, SG_COEFF, SG_TABLE, s);
      sg_where(a, 1, 88.72283935546875, inf, s);
      sg_where(a, -1, -87.33654475, 0.0, s);
      break;
    case SG_LOG:
      tpu_bdc_load_fp32_log_coeff(SG_COEFF);
      tpu_bdc_fp32_log(SG_OUT, a, SG_W0, SG_COEFF, s);
      sg_where(a, 0, inf, inf, s);
      sg_where(a, 0, 0.0, -inf, s);
      sg_where(a, 0, -0.0, -inf, s); /* another zero to the engine */
      sg_where(a, -1, 0.0, __builtin_nan(""), s);
      break;
    case SG_SQRT:
      tpu_bdc_fp32_sqrt(SG_OUT, a, s);
      sg_where(a, 0, inf, inf, s);
      sg_where(a, -1, 0.0, __builtin_nan(""), s);
      break;
    case SG_RSQRT:
      tpu_bdc_fp32_tunable_rsqrt(SG_OUT, a, s, 4);
      sg_where(a, 0, inf, 0.0, s);
      sg_where(a, 0, 0.0, inf, s);
      sg_where(a, 0, -0.0, -inf, s);
      sg_where(a, -1, 0.0, __builtin_nan(""), s);
      break;
    case SG_SIGMOID: /* the table's exponential leaves its range beyond these */
      tpu_bdc_fp32_sigmoid(SG_OUT, a, SG_W0, SG_W1, SG_COEFF, SG_TABLE, s);
      sg_where(a, 1, 40.0, 1.0, s);
      sg_where(a, -1, -87.0, 0.0, s);
      break;
    case SG_TANH:
      sg_tanh(a, s);
      break;
    default: sg_erf(a, s);
  }
  const sg_block x = sg_nan(SG_W0, (sg_block){a, o.stride}, __builtin_nan(""), s);
  tpu_bdc_fp_add(SG_OUT, SG_OUT, x.at, s, &o.stride, &o.stride, &x.stride, DT_FP32);
}
SG_FN void sg_unary(sg_unary_op op, sg_tile d, sg_tile a) {
  SG_BLOCKS(d) {
    const dim4 shape = sg_shape(rows, cols);
    if (op > SG_ABS) {
      sg_function(op, sg_dense(&a, r0, rows, c0, cols, SG_A).at, &shape);
      sg_put(&d, r0, rows, c0, cols, sg_slot(SG_OUT));
      continue;
    }
    const sg_block x = sg_get(&a, r0, rows, c0, cols, SG_A), o = sg_made(&d, r0, rows, c0);
    if (op == SG_COPY) tpu_bdc_cpy(o.at, x.at, &shape, &o.stride, &x.stride, DT_FP32);
    else if (op == SG_NEG) tpu_bdc_neg(o.at, x.at, &shape, &o.stride, &x.stride, DT_FP32);
    else tpu_bdc_abs(o.at, x.at, &shape, &o.stride, &x.stride, DT_FP32);
    sg_put(&d, r0, rows, c0, cols, o);
  }
}

/* d[r, c] = base + r * by_row + c * by_col, where one of the two steps is 0 */
SG_FN void sg_index(sg_tile d, int base, int by_row, int by_col) {
  SG_BLOCKS(d) {
    const dim4 shape = sg_shape(rows, cols), one = sg_shape(rows, 1);
    sg_block x = sg_slot(SG_A);
    const sg_block o = sg_slot(SG_OUT);
    if (by_row) {
      tpu_bdc_arithmetic_sequence_distribute(SG_A, base + r0 * by_row, by_row, rows);
      x.stride.w = 0;
    } else {
      tpu_bdc_arithmetic_sequence_bcast(SG_A, SG_LANES, base + c0 * by_col, by_col, cols);
    }
    (void)one;
    tpu_bdc_cast(SG_OUT, SG_A, &shape, &o.stride, &x.stride, DT_FP32, DT_INT32, RM_HALF_TO_EVEN);
    sg_put(&d, r0, rows, c0, cols, o);
  }
}

/* -- transposition, by DMA between lanes ---------------------------------------------------------------------------- */

SG_FN void sg_turn(local_addr_t to, local_addr_t from, int rows, int cols, data_type_t dtype) {
#ifdef SG_CHIP_TURNS_IMAGES /* its DMA turns no columns; columns are images here, one element apart */
  const dim4 shape = {cols, rows, 1, 1}, images = {1, SG_BLOCK, SG_BLOCK, 1};
  tpu_gdma_cpy_nc_trans_L2L(to, from, &shape, &images, &images, dtype);
#else
  const dim4 shape = sg_shape(rows, cols), lines = {SG_BLOCK, SG_BLOCK, SG_BLOCK, 1};
  tpu_gdma_cpy_cw_trans_L2L(to, from, &shape, &lines, &lines, dtype);
#endif
}
SG_FN void sg_transpose(sg_tile d, sg_tile a) {
  for (int r0 = 0; r0 < d.rows; r0 += SG_LANES)
    for (int c0 = 0; c0 < d.cols; c0 += SG_LANES) {
      const int rows = sg_min(SG_LANES, d.rows - r0), cols = sg_min(SG_LANES, d.cols - c0);
      sg_collect(SG_A, &a, c0, cols, r0, rows);
      sg_turn(SG_HALF, SG_A, rows, cols, a.dtype);
      if (a.dtype == d.dtype) {
        sg_spread(&d, r0, rows, c0, cols, SG_HALF);
        continue;
      }
      const dim4 shape = sg_shape(rows, cols);
      const sg_block o = sg_slot(SG_OUT);
      tpu_bdc_cast(SG_OUT, SG_HALF, &shape, &o.stride, &o.stride, d.dtype, a.dtype, RM_HALF_TO_EVEN);
      sg_spread(&d, r0, rows, c0, cols, SG_OUT);
    }
}

/* -- reductions ----------------------------------------------------------------------------------------------------- */

typedef enum { SG_SUM, SG_PROD, SG_MOST, SG_LEAST } sg_reduction;

SG_FN sg_binary_op sg_combine(sg_reduction op) {
  return op == SG_SUM ? SG_ADD : op == SG_PROD ? SG_MUL : op == SG_MOST ? SG_MAX : SG_MIN;
}
/* one column at `to` from the dense block at `a`, which it may change: the upper half onto the lower one until one column is left */
SG_FN void sg_halve(sg_reduction op, int to, local_addr_t a, int rows, int cols) {
  sg_block x = sg_slot((int)a), y = x;
  while (cols > 1) {
    const int half = (cols + 1) / 2;
    const dim4 part = sg_shape(rows, cols - half);
    y.at = x.at + (local_addr_t)half * 4;
    sg_apply(sg_combine(op), x, x, y, &part);
    cols = half;
  }
  const dim4 column = sg_shape(rows, 1);
  tpu_bdc_cpy((local_addr_t)to, x.at, &column, &x.stride, &x.stride, DT_FP32);
}
/* one column at `to` from the dense block at `a`: a window of a whole row for sums and maxima */
SG_FN void sg_pool(sg_reduction op, int to, local_addr_t a, int rows, int cols) {
  const dim4 shape = sg_shape(rows, cols), column = sg_shape(rows, 1);
  const dim2 window = {1, cols}, step = {1, 1};
  const padding_t none = {0, 0, 0, 0};
  const sg_block o = sg_slot(to), x = {a, sg_slot(0).stride};
  if (op == SG_SUM) {
    tpu_bdc_fp_avg_pool2d(o.at, a, &shape, &window, &none, &step, &step, DT_FP32, sg_number(1.0));
    return;
  }
  /* a maximum loses NaN: it is added afterwards */
  const sg_block nan = sg_nan(SG_W0, x, __builtin_nan(""), &shape);
  tpu_bdc_fp_avg_pool2d(SG_W1, nan.at, &shape, &window, &none, &step, &step, DT_FP32, sg_number(1.0));
  tpu_bdc_fp_max_pool2d(o.at, a, &shape, &window, &none, &step, &step, DT_FP32, sg_number(-__builtin_inf()));
  tpu_bdc_fp_add(o.at, o.at, SG_W1, &column, &o.stride, &o.stride, &o.stride, DT_FP32);
}
/* d has one column: over the columns of a */
SG_FN void sg_reduce_cols(sg_reduction op, const sg_tile *d, const sg_tile *a) {
  for (int r0 = 0; r0 < d->rows; r0 += SG_LANES) {
    const int rows = sg_min(SG_LANES, d->rows - r0);
    const dim4 column = sg_shape(rows, 1);
    const sg_block o = sg_slot(SG_OUT), next = sg_slot(SG_W2);
    for (int c0 = 0; c0 < a->cols; c0 += SG_BLOCK) {
      const int cols = sg_min(SG_BLOCK, a->cols - c0), to = c0 ? SG_W2 : SG_OUT;
      if (op == SG_SUM || op == SG_MOST) {
        sg_pool(op, to, sg_dense(a, r0, rows, c0, cols, SG_A).at, rows, cols);
      } else {
        const sg_block x = sg_get(a, r0, rows, c0, cols, SG_A), copy = sg_slot(SG_B);
        const dim4 shape = sg_shape(rows, cols);
        tpu_bdc_cpy(SG_B, x.at, &shape, &copy.stride, &x.stride, DT_FP32);
        sg_halve(op, to, SG_B, rows, cols);
      }
      if (c0) sg_apply(sg_combine(op), o, o, next, &column);
    }
    sg_put(d, r0, rows, 0, 1, o);
  }
}
/* d has one row: blocks of rows onto the first one, then the upper lanes onto the lower ones */
SG_FN void sg_reduce_rows(sg_reduction op, const sg_tile *d, const sg_tile *a) {
  for (int c0 = 0; c0 < d->cols; c0 += SG_BLOCK) {
    const int cols = sg_min(SG_BLOCK, d->cols - c0);
    const sg_block o = sg_slot(SG_OUT), upper = sg_slot(SG_A);
    int rows = sg_min(SG_LANES, a->rows);
    for (int r0 = 0; r0 < a->rows; r0 += SG_LANES) {
      const int n = sg_min(SG_LANES, a->rows - r0);
      const dim4 shape = sg_shape(n, cols);
      const sg_block x = sg_get(a, r0, n, c0, cols, SG_A);
      if (r0) sg_apply(sg_combine(op), o, o, x, &shape);
      else tpu_bdc_cpy(SG_OUT, x.at, &shape, &o.stride, &x.stride, DT_FP32);
    }
    for (; rows > 1; rows = (rows + 1) / 2) {
      const int half = (rows + 1) / 2;
      const dim4 shape = sg_shape(rows - half, cols);
      tpu_gdma_cpy_L2L(SG_A, SG_OUT + (local_addr_t)(half * SG_LANE), &shape, &upper.stride, &o.stride, DT_FP32);
      sg_apply(sg_combine(op), o, o, upper, &shape);
    }
    sg_put(d, 0, 1, c0, cols, o);
  }
}
SG_FN void sg_reduce(sg_reduction op, sg_tile d, sg_tile a, int across) {
  if (across) sg_reduce_cols(op, &d, &a);
  else sg_reduce_rows(op, &d, &a);
}

/* -- the matrix engine ---------------------------------------------------------------------------------------------- */

/* rows x cols of an operand, or of its transpose, at `to` */
SG_FN void sg_operand(int to, const sg_tile *t, int turned, int r0, int rows, int c0, int cols) {
  if (!turned) {
    sg_collect((local_addr_t)to, t, r0, rows, c0, cols);
    return;
  }
  for (int c = 0; c < cols; c += SG_LANES) { /* what becomes columns are rows now, which have to fit on the lanes */
    const int some = sg_min(SG_LANES, cols - c);
    sg_collect(SG_HALF, t, c0 + c, some, r0, rows);
    sg_turn((local_addr_t)(to + c * sg_bytes(t->dtype)), SG_HALF, rows, some, t->dtype);
  }
}
/* float32 products want rows on the outermost dim and blocks of 16 columns on lanes: there, and back. Rows are `pitch` long. */
SG_FN void sg_outermost(int to, local_addr_t from, int rows, int cols, int pitch) {
  const dim4 shape = {rows, (cols + 15) / 16, 1, 16}, in = {16, pitch, 16, 1}, out = {16, 16, 16, 1};
  tpu_gdma_cpy_nc_trans_L2L((local_addr_t)to, from, &shape, &out, &in, DT_FP32);
}
SG_FN void sg_on_lanes(local_addr_t to, int from, int rows, int cols, int pitch) {
  const dim4 shape = {(cols + 15) / 16, rows, 1, 16}, in = {16, 16, 16, 1}, out = {16, pitch, 16, 1};
  tpu_gdma_cpy_nc_trans_L2L(to, (local_addr_t)from, &shape, &out, &in, DT_FP32);
}
/* a block of an operand where the engine reads it: in place where rows lie right, else brought to one of two places by DMA */
SG_FN local_addr_t sg_ready(const sg_tile *t, int turned, int r0, int rows, int c0, int cols, int slot, int matrix) {
  const int there = !turned && sg_straight(t, r0, rows);
  if (t->dtype != DT_FP32) {
    if (there && sg_at(t, r0, c0) % 64 == 0) return sg_at(t, r0, c0);
    sg_operand(slot, t, turned, r0, rows, c0, cols);
    return (local_addr_t)slot;
  }
  if (!there) sg_operand(slot, t, turned, r0, rows, c0, cols);
  sg_outermost(matrix, there ? sg_at(t, r0, c0) : (local_addr_t)slot, rows, cols, there ? t->pitch : SG_BLOCK);
  return (local_addr_t)matrix;
}
/* the product's parts: blocks of LANES rows x BLOCK columns of c, each over steps of LANES along k */
typedef struct { int r0, rows, c0, cols, k0, some; local_addr_t a, b; } sg_step;
SG_FN sg_step sg_nth(const sg_tile *c, int k, int i) {
  const int steps = (k + SG_LANES - 1) / SG_LANES, across = (c->cols + SG_BLOCK - 1) / SG_BLOCK;
  const int r0 = i / steps / across * SG_LANES, c0 = i / steps % across * SG_BLOCK, k0 = i % steps * SG_LANES;
  return (sg_step){r0, sg_min(SG_LANES, c->rows - r0), c0, sg_min(SG_BLOCK, c->cols - c0), k0, sg_min(SG_LANES, k - k0), 0, 0};
}
SG_FN sg_step sg_step_of(const sg_tile *c, const sg_tile *a, const sg_tile *b, int flags, int k, int i) {
  sg_step s = sg_nth(c, k, i);
  const int other = i % 2;
  s.a = sg_ready(a, flags & 2, s.r0, s.rows, s.k0, s.some, other ? SG_A2 : SG_A, SG_MAT_A + other * SG_MAT);
  s.b = sg_ready(b, flags & 4, s.k0, s.some, s.c0, s.cols, other ? SG_B2 : SG_B, SG_MAT_B + other * SG_MAT);
  return s;
}
/* c = a b, or c += a b: a is m x k, b is k x n; c is float32. flags: 1 a new c, 2 a turned, 4 b turned. Beside each step, its window
 * has the DMA make the next one's operands, and a share of the copies that wait. */
SG_FN void sg_mma(sg_tile c, sg_tile a, sg_tile b, int flags) {
  const int k = flags & 2 ? a.rows : a.cols, single = a.dtype == DT_FP32;
  const int steps = (k + SG_LANES - 1) / SG_LANES;
  const int count = (c.rows + SG_LANES - 1) / SG_LANES * ((c.cols + SG_BLOCK - 1) / SG_BLOCK) * steps;
  sg_step next = {0};
  if (count) next = sg_step_of(&c, &a, &b, flags, k, 0);
  for (int i = 0; i < count; i++) {
    const sg_step s = next;
    const int add = s.k0 > 0 || !(flags & 1), more = i + 1 < count;
    const int there = sg_straight(&c, s.r0, s.rows) && sg_at(&c, s.r0, s.c0) % 64 == 0 && (!single || s.cols % 16 == 0);
    const local_addr_t made = there ? sg_at(&c, s.r0, s.c0) : SG_OUT;
    const int pitch = there ? c.pitch : SG_BLOCK;
    if (s.k0 == 0 && !(flags & 1)) {
      if (!there) sg_collect(SG_OUT, &c, s.r0, s.rows, s.c0, s.cols);
      if (single) sg_outermost(SG_MAT_C, made, s.rows, s.cols, pitch);
    }
    const int64_t share = (sg_waiting() + count - i - 1) / (count - i);
    const int window = more || share;
    if (window) {
      tpu_parallel_start();
      sg_issue(share);
      if (more) next = sg_step_of(&c, &a, &b, flags, k, i + 1);
    }
    if (single) tpu_bdc_fp32_mm(SG_MAT_C, s.a, s.b, 0, s.rows, s.some, s.cols, 16, 16, false, add);
    else tpu_bdc_fp_mm(made, s.a, s.b, s.rows, s.some, s.cols, DT_FP32, a.dtype, add);
    if (window) tpu_parallel_end();
    if (s.k0 + SG_LANES < k) continue;
    if (single) sg_on_lanes(made, SG_MAT_C, s.rows, s.cols, pitch);
    if (!there) sg_spread(&c, s.r0, s.rows, s.c0, s.cols, SG_OUT);
  }
}
#endif
