/* The cycle model: what a command costs its queue. All figures come from vl_config.h. */
#include "sim.h"

static uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

static uint64_t depth(const command *c) {
  return (uint64_t)(c->flags & VL_MMA_TRANS_A ? c->a.rows : c->a.cols);
}

/* A and B in one single-ported bank are fetched in turns. */
static int shares_bank(const vl_tile *a, const vl_tile *b) {
  const uint64_t bank = VL_SPAD_BYTES / VL_SPAD_BANKS;
  const uint64_t a_end = a->addr + ((uint64_t)(a->rows - 1) * a->ld + a->cols) * vl_size(a->dtype);
  const uint64_t b_end = b->addr + ((uint64_t)(b->rows - 1) * b->ld + b->cols) * vl_size(b->dtype);
  return a->addr / bank <= (b_end - 1) / bank && b->addr / bank <= (a_end - 1) / bank;
}

uint64_t vl_bytes(const command *c) {
  if (c->queue != VL_Q_LOAD && c->queue != VL_Q_STORE) return 0;
  if (c->what == K_FILL && c->d.space != VL_GLOBAL) return 0; /* nothing crosses to the core */
  const vl_tile *far = c->d.space == VL_GLOBAL ? &c->d : &c->a;
  return (uint64_t)far->rows * far->cols * vl_size(far->dtype);
}

uint64_t vl_latency(const command *c) {
  switch (c->queue) {
    case VL_Q_LOAD:
    case VL_Q_STORE: return VL_DMA_LATENCY;
    case VL_Q_MMA: return VL_MMA_LATENCY;
    default: return VL_VEC_LATENCY;
  }
}

uint64_t vl_cost(const command *c) {
  switch (c->what) {
    case K_SET:
    case K_WAIT: return 0;
    case K_MMA: {
      const uint64_t per_cycle = vl_size(c->a.dtype) == 2 ? 2 * VL_MMA_DEPTH : VL_MMA_DEPTH;
      const uint64_t steps = ceil_div((uint64_t)c->d.rows, VL_MMA_ROWS) *
                             ceil_div((uint64_t)c->d.cols, VL_MMA_COLS);
      const uint64_t cycles = steps * ceil_div(depth(c), per_cycle);
      vl_me->macs += (uint64_t)c->d.rows * c->d.cols * depth(c);
      vl_me->mma_ideal += ceil_div((uint64_t)c->d.rows * c->d.cols * depth(c),
                                   (uint64_t)VL_MMA_ROWS * VL_MMA_COLS * per_cycle);
      if (!shares_bank(&c->a, &c->b)) return cycles;
      vl_me->conflicts++;
      return cycles + cycles / 4;
    }
    case K_FILL:
      if (c->d.space == VL_GLOBAL) break;
      return ceil_div((uint64_t)c->d.rows * c->d.cols * vl_size(c->d.dtype), VL_CLEAR_BYTES_PER_CYCLE);
    default: break;
  }
  if (c->queue == VL_Q_LOAD || c->queue == VL_Q_STORE) {
    const vl_tile *far = c->d.space == VL_GLOBAL ? &c->d : &c->a;
    return (uint64_t)far->rows * ceil_div((uint64_t)far->cols * vl_size(far->dtype), VL_DMA_BYTES_PER_CYCLE);
  }
  const vl_tile *wide = c->what == K_REDUCE ? &c->a : &c->d;
  uint64_t cycles = (uint64_t)wide->rows * ceil_div((uint64_t)wide->cols * 4, VL_VEC_BYTES);
  if (c->what == K_UNARY && c->op >= VL_EXP) cycles *= 4;
  if ((c->what == K_BINARY || c->what == K_SCALAR || c->what == K_SCALAR_R) && c->op == VL_DIV) cycles *= 4;
  return cycles;
}
