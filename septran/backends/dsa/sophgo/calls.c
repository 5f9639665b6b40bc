/* Every call of the vendor's that a kernel here may say, on its way to the vendor's library: the clock of windows is told what it
 * reads and writes. The linker sends a kernel's calls here (--wrap); a call that is not here is refused by the gate, whose list is
 * of the same names.
 */
#include <tpu_kernel.h>
#include "chip.h"
#include "clock.h"

enum { LANES = SG_CHIP_LANES, LANE = SG_CHIP_LANE, COEFFICIENTS = 2048, TABLE = 4096 };
enum { READ, WRITE };

static int size_of(data_type_t t) { return t == DT_FP32 || t == DT_INT32 || t == DT_UINT32 ? 4 : t == DT_INT8 || t == DT_UINT8 ? 1 : 2; }

/* strides of a tensor that says none: rows dense, each line of lanes from a multiple of the units' bytes on */
static dim4 aligned(const dim4 *s, int size, int first) {
  const int step = SG_CHIP_UNITS / size, line = (s->h * s->w + step - 1) / step * step;
  return (dim4){(first + s->c + LANES - 1) / LANES * line, line, s->w, 1};
}
static void tensor(int write, int64_t at, const dim4 *shape, const dim4 *stride, int size) {
  const dim4 own = stride ? *stride : aligned(shape, size, (int)(at / LANE));
  clock_tensor(write, at, LANE, (const int[4]){shape->n, shape->c, shape->h, shape->w}, (const int[4]){own.n, own.c, own.h, own.w}, size);
}
static void every_lane(int write, int64_t at, int bytes) { clock_touch(write, 0, LANES, at % LANE, at % LANE + bytes); }
static void maybe(const variable_t *v, const dim4 *shape, int size) {
  if (v->type == TENSOR) tensor(READ, v->context.addr, shape, NULL, size);
  if (v->type == VECTOR) every_lane(READ, v->context.addr, shape->c * size);
}

/* a call: its parameters, the engine, what it touches, and the arguments that go on */
#define CALL(name, engine, parameters, touched, arguments) \
  void __real_##name parameters; \
  void __wrap_##name parameters; \
  void __wrap_##name parameters { \
    clock_command(engine, #name); \
    touched \
    __real_##name arguments; \
  }
#define COMPUTE(name, parameters, touched, arguments) CALL(name, CLOCK_COMPUTE, parameters, touched, arguments)
#define DMA(name, parameters, touched, arguments) CALL(name, CLOCK_DMA, parameters, touched, arguments)
#define AT local_addr_t
#define D4 const dim4 *

#define UNARY(name) \
  COMPUTE(name, (AT d, AT a, D4 s, D4 ds, D4 as, data_type_t t), tensor(READ, a, s, as, size_of(t)); tensor(WRITE, d, s, ds, size_of(t));, \
          (d, a, s, ds, as, t))
#define WITH_NUMBER(name) \
  COMPUTE(name, (AT d, AT a, scalar_t c, D4 s, D4 ds, D4 as, data_type_t t), tensor(READ, a, s, as, size_of(t)); \
          tensor(WRITE, d, s, ds, size_of(t));, (d, a, c, s, ds, as, t))
#define BINARY(name) \
  COMPUTE(name, (AT d, AT a, AT b, D4 s, D4 ds, D4 as, D4 bs, data_type_t t), tensor(READ, a, s, as, size_of(t)); \
          tensor(READ, b, s, bs, size_of(t)); tensor(WRITE, d, s, ds, size_of(t));, (d, a, b, s, ds, as, bs, t))
#define COMPARE(name) \
  COMPUTE(name, (AT d, AT a, AT b, scalar_t v, D4 s, D4 ds, D4 as, D4 bs, data_type_t dt, data_type_t t), \
          tensor(READ, a, s, as, size_of(t)); tensor(READ, b, s, bs, size_of(t)); tensor(WRITE, d, s, ds, size_of(dt));, \
          (d, a, b, v, s, ds, as, bs, dt, t))
#define SELECT(name) \
  COMPUTE(name, (AT d, const variable_t *a, const variable_t *b, const variable_t *x, const variable_t *y, D4 s, data_type_t t, data_type_t dt), \
          maybe(a, s, size_of(t)); maybe(b, s, size_of(t)); maybe(x, s, size_of(dt)); maybe(y, s, size_of(dt)); \
          tensor(WRITE, d, s, NULL, size_of(dt));, (d, a, b, x, y, s, t, dt))
#define COEFFICIENT(name, bytes) COMPUTE(name, (AT d), every_lane(WRITE, d, bytes);, (d))
#define DENSE(how, at) tensor(how, at, s, NULL, 4);
#define EXPONENTIAL(name) \
  COMPUTE(name, (AT d, AT a, AT w0, AT w1, AT c, AT t, D4 s), DENSE(READ, a) DENSE(WRITE, w0) DENSE(WRITE, w1) \
          every_lane(READ, c, COEFFICIENTS); every_lane(READ, t, TABLE); DENSE(WRITE, d), (d, a, w0, w1, c, t, s))
#define POOL(name) \
  COMPUTE(name, (AT d, AT a, D4 s, const dim2 *k, const padding_t *p, const dim2 *step, const dim2 *wide, data_type_t t, scalar_t v), \
          tensor(READ, a, s, NULL, size_of(t)); pooled(d, s, k, p, step, wide, size_of(t));, (d, a, s, k, p, step, wide, t, v))
#define LOCAL_MOVE(name, turned) \
  DMA(name, (AT d, AT a, D4 s, D4 ds, D4 as, data_type_t t), const dim4 from = turned; tensor(READ, a, &from, as, size_of(t)); \
      tensor(WRITE, d, s, ds, size_of(t));, (d, a, s, ds, as, t))

static void pooled(local_addr_t d, D4 s, const dim2 *k, const padding_t *p, const dim2 *step, const dim2 *wide, int size) {
  const int h = (s->h + p->top + p->bottom - wide->h * (k->h - 1) - 1) / step->h + 1;
  const int w = (s->w + p->left + p->right - wide->w * (k->w - 1) - 1) / step->w + 1;
  const dim4 out = {s->n, s->c, h, w};
  tensor(WRITE, d, &out, NULL, size);
}
static void matrix(int write, local_addr_t at, int n, int c, int w, int size) {
  const dim4 s = {n, c, 1, w};
  tensor(write, at, &s, NULL, size);
}

UNARY(tpu_bdc_abs)
UNARY(tpu_bdc_cpy)
UNARY(tpu_bdc_neg)
WITH_NUMBER(tpu_bdc_and_C)
WITH_NUMBER(tpu_bdc_fp_C_sub)
BINARY(tpu_bdc_fp_add)
BINARY(tpu_bdc_fp_sub)
BINARY(tpu_bdc_fp_mul)
BINARY(tpu_bdc_max)
BINARY(tpu_bdc_min)
COMPARE(tpu_bdc_equal)
COMPARE(tpu_bdc_not_equal)
COMPARE(tpu_bdc_less)
COMPARE(tpu_bdc_less_equal)
COMPARE(tpu_bdc_greater)
COMPARE(tpu_bdc_greater_equal)
SELECT(tpu_bdc_equal_select)
SELECT(tpu_bdc_less_select)
SELECT(tpu_bdc_greater_select)
COEFFICIENT(tpu_bdc_load_fp32_exp_coeff, COEFFICIENTS)
COEFFICIENT(tpu_bdc_load_fp32_log_coeff, COEFFICIENTS)
COEFFICIENT(tpu_bdc_load_fp32_erf_coeff, COEFFICIENTS)
COEFFICIENT(tpu_bdc_load_fp32_exp_table, TABLE)
EXPONENTIAL(tpu_bdc_fp32_exp)
EXPONENTIAL(tpu_bdc_fp32_sigmoid)
POOL(tpu_bdc_fp_avg_pool2d)
POOL(tpu_bdc_fp_max_pool2d)
LOCAL_MOVE(tpu_gdma_cpy_L2L, *s)
LOCAL_MOVE(tpu_gdma_cpy_cw_trans_L2L, ((dim4){s->n, s->w, s->h, s->c}))
LOCAL_MOVE(tpu_gdma_cpy_nc_trans_L2L, ((dim4){s->c, s->n, s->h, s->w}))
COMPUTE(tpu_bdc_fp32_div, (AT d, AT a, AT b, D4 s, D4 ds, D4 as, D4 bs), tensor(READ, a, s, as, 4); tensor(READ, b, s, bs, 4);
        tensor(WRITE, d, s, ds, 4);, (d, a, b, s, ds, as, bs))
COMPUTE(tpu_bdc_cast, (AT d, AT a, D4 s, D4 ds, D4 as, data_type_t dt, data_type_t t, rounding_mode_t mode),
        tensor(READ, a, s, as, size_of(t)); tensor(WRITE, d, s, ds, size_of(dt));, (d, a, s, ds, as, dt, t, mode))
COMPUTE(tpu_bdc_greater_C, (AT d, AT a, scalar_t c, scalar_t v, D4 s, D4 ds, D4 as, data_type_t dt, data_type_t t),
        tensor(READ, a, s, as, size_of(t)); tensor(WRITE, d, s, ds, size_of(dt));, (d, a, c, v, s, ds, as, dt, t))
COMPUTE(tpu_bdc_set_C, (AT d, scalar_t c, D4 s, D4 ds, data_type_t t), tensor(WRITE, d, s, ds, size_of(t));, (d, c, s, ds, t))
COMPUTE(tpu_bdc_npu_bcast, (AT d, AT a, D4 s, data_type_t t), const dim4 one = ((dim4){s->n, 1, s->h, s->w});
        tensor(READ, a, &one, NULL, size_of(t)); tensor(WRITE, d, s, NULL, size_of(t));, (d, a, s, t))
COMPUTE(tpu_bdc_arithmetic_sequence_bcast, (AT d, int lanes, int start, int step, int n), matrix(WRITE, d, 1, lanes, n, 4);,
        (d, lanes, start, step, n))
COMPUTE(tpu_bdc_arithmetic_sequence_distribute, (AT d, int start, int step, int n), matrix(WRITE, d, 1, n, 1, 4);, (d, start, step, n))
COMPUTE(tpu_bdc_fp32_log, (AT d, AT a, AT w, AT c, D4 s), DENSE(READ, a) DENSE(WRITE, w) every_lane(READ, c, COEFFICIENTS); DENSE(WRITE, d),
        (d, a, w, c, s))
COMPUTE(tpu_bdc_fp32_sqrt, (AT d, AT a, D4 s), DENSE(READ, a) DENSE(WRITE, d), (d, a, s))
COMPUTE(tpu_bdc_fp32_tunable_rsqrt, (AT d, AT a, D4 s, int n), DENSE(READ, a) DENSE(WRITE, d), (d, a, s, n))
COMPUTE(tpu_bdc_fp32_erf, (AT d, AT a, AT w0, AT w1, AT w2, AT c, AT e, AT t, D4 s), DENSE(READ, a) DENSE(WRITE, w0) DENSE(WRITE, w1)
        DENSE(WRITE, w2) every_lane(READ, c, COEFFICIENTS); every_lane(READ, e, COEFFICIENTS); every_lane(READ, t, TABLE); DENSE(WRITE, d),
        (d, a, w0, w1, w2, c, e, t, s))
/* rows of the operands and of the result lie on lanes */
COMPUTE(tpu_bdc_fp_mm, (AT d, AT a, AT b, int m, int k, int n, data_type_t dt, data_type_t t, bool add), matrix(READ, a, 1, m, k, size_of(t));
        matrix(READ, b, 1, k, n, size_of(t)); if (add) matrix(READ, d, 1, m, n, size_of(dt)); matrix(WRITE, d, 1, m, n, size_of(dt));,
        (d, a, b, m, k, n, dt, t, add))
/* rows are images, blocks of columns lie on lanes */
COMPUTE(tpu_bdc_fp32_mm, (AT d, AT a, AT b, AT bias, int m, int k, int n, int ka, int nb, bool has, bool add),
        matrix(READ, a, m, (k + ka - 1) / ka, ka, 4); matrix(READ, b, k, (n + nb - 1) / nb, nb, 4);
        if (has) matrix(READ, bias, 1, (n + nb - 1) / nb, nb, 4); if (add) matrix(READ, d, m, (n + nb - 1) / nb, nb, 4);
        matrix(WRITE, d, m, (n + nb - 1) / nb, nb, 4);, (d, a, b, bias, m, k, n, ka, nb, has, add))
/* what is not local memory is the DMA's alone, which keeps its order */
DMA(tpu_gdma_cpy_S2L, (AT d, system_addr_t a, D4 s, D4 ds, D4 as, data_type_t t), tensor(WRITE, d, s, ds, size_of(t));, (d, a, s, ds, as, t))
DMA(tpu_gdma_cpy_L2S, (system_addr_t d, AT a, D4 s, D4 ds, D4 as, data_type_t t), tensor(READ, a, s, as, size_of(t));, (d, a, s, ds, as, t))

void __real_tpu_parallel_start(void);
void __wrap_tpu_parallel_start(void);
void __wrap_tpu_parallel_start(void) {
  if (clock_begin()) __real_tpu_parallel_start();
}
void __real_tpu_parallel_end(void);
void __wrap_tpu_parallel_end(void);
void __wrap_tpu_parallel_end(void) {
  if (clock_end()) __real_tpu_parallel_end();
}
