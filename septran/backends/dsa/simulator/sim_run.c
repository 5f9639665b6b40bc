/* The arithmetic of each command. Vector engine: each operation is rounded to its result's type. */
#include "sim.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t vl_size(vl_dtype t) {
  static const uint8_t size[] = {4, 2, 2, 8, 1, 1, 1, 4, 8};
  return size[t];
}

static double load(const uint8_t *p, vl_dtype t) {
  switch (t) {
    case VL_F32: { float v; memcpy(&v, p, 4); return v; }
    case VL_F64: { double v; memcpy(&v, p, 8); return v; }
    case VL_F16: { _Float16 v; memcpy(&v, p, 2); return (double)(float)v; }
    case VL_BF16: {
      uint16_t h; memcpy(&h, p, 2);
      uint32_t u = (uint32_t)h << 16; float v; memcpy(&v, &u, 4); return v;
    }
    case VL_I32: { int32_t v; memcpy(&v, p, 4); return v; }
    case VL_I64: { int64_t v; memcpy(&v, p, 8); return (double)v; }
    case VL_I8: return (int8_t)*p;
    default: return *p;
  }
}

static double clamp(double v, double low, double high) { return v < low ? low : v > high ? high : v; }

static void store(uint8_t *p, vl_dtype t, double v) {
  switch (t) {
    case VL_F32: { float x = (float)v; memcpy(p, &x, 4); break; }
    case VL_F64: memcpy(p, &v, 8); break;
    case VL_F16: { _Float16 x = (_Float16)(float)v; memcpy(p, &x, 2); break; }
    case VL_BF16: {
      float x = (float)v; uint32_t u; memcpy(&u, &x, 4);
      uint16_t h;
      if ((u & 0x7fffffffu) > 0x7f800000u) h = (uint16_t)((u >> 16) | 0x40u);
      else h = (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
      memcpy(p, &h, 2); break;
    }
    case VL_I32: { int32_t x = (int32_t)clamp(trunc(v), -2147483648.0, 2147483647.0); memcpy(p, &x, 4); break; }
    case VL_I64: { int64_t x = (int64_t)v; memcpy(p, &x, 8); break; }
    case VL_I8: *p = (uint8_t)(int8_t)clamp(trunc(v), -128, 127); break;
    case VL_U8: *p = (uint8_t)clamp(trunc(v), 0, 255); break;
    default: *p = v != 0; break;
  }
}

static uint8_t *element(const vl_tile *t, int64_t r, int64_t c) {
  int64_t row = t->rows == 1 ? 0 : r, col = t->cols == 1 ? 0 : c;
  return vl_at(t) + ((size_t)(row * t->ld + col)) * vl_size(t->dtype);
}

static double get(const vl_tile *t, int64_t r, int64_t c) { return load(element(t, r, c), t->dtype); }
double vl_get(const vl_tile *t, int64_t r, int64_t c) { return get(t, r, c); }
static void put(const vl_tile *t, int64_t r, int64_t c, double v) { store(element(t, r, c), t->dtype, v); }

static double maximum(double a, double b) { return a != a || b != b ? NAN : a > b ? a : b; }
static double minimum(double a, double b) { return a != a || b != b ? NAN : a < b ? a : b; }

static double binary(int op, double a, double b) {
  switch (op) {
    case VL_ADD: return a + b;
    case VL_SUB: return a - b;
    case VL_MUL: return a * b;
    case VL_DIV: return a / b;
    case VL_POW: return pow(a, b);
    case VL_MAX: return maximum(a, b);
    case VL_MIN: return minimum(a, b);
    case VL_LT: return a < b;
    case VL_LE: return a <= b;
    case VL_GT: return a > b;
    case VL_GE: return a >= b;
    case VL_EQ: return a == b;
    default: return a != b;
  }
}

static int integer(vl_dtype t) { return t == VL_I64 || t == VL_I32 || t == VL_I8 || t == VL_U8 || t == VL_BOOL; }

/* A double holds every integer but those of 64 bits, so integers are compared with integers as such. */
static double compare(int op, const command *c, int64_t i, int64_t j) {
  const uint8_t *p = element(&c->a, i, j), *q = element(&c->b, i, j);
  int64_t a, b;
  if (c->a.dtype == VL_I64) memcpy(&a, p, 8); else a = (int64_t)load(p, c->a.dtype);
  if (c->b.dtype == VL_I64) memcpy(&b, q, 8); else b = (int64_t)load(q, c->b.dtype);
  switch (op) {
    case VL_LT: return a < b;
    case VL_LE: return a <= b;
    case VL_GT: return a > b;
    case VL_GE: return a >= b;
    case VL_EQ: return a == b;
    default: return a != b;
  }
}

static double unary(int op, double a) {
  switch (op) {
    case VL_COPY: return a;
    case VL_NEG: return -a;
    case VL_ABS: return fabs(a);
    case VL_EXP: return exp(a);
    case VL_EXP2: return exp2(a);
    case VL_LOG: return log(a);
    case VL_SQRT: return sqrt(a);
    case VL_RSQRT: return 1 / sqrt(a);
    case VL_TANH: return tanh(a);
    case VL_SIGMOID: return 1 / (1 + exp(-a));
    default: return erf(a);
  }
}

static void run_mma(const command *c) {
  const int ta = (c->flags & VL_MMA_TRANS_A) != 0, tb = (c->flags & VL_MMA_TRANS_B) != 0;
  const int64_t m = c->d.rows, n = c->d.cols, k = ta ? c->a.rows : c->a.cols;
  float *b = malloc((size_t)(k * n + n) * sizeof(float));
  if (!b) abort();
  float *row = b + k * n;
  for (int64_t x = 0; x < k; x++)
    for (int64_t j = 0; j < n; j++) b[x * n + j] = (float)(tb ? get(&c->b, j, x) : get(&c->b, x, j));
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) row[j] = 0.0f;
    for (int64_t x = 0; x < k; x++) {
      const float v = (float)(ta ? get(&c->a, x, i) : get(&c->a, i, x));
      const float *line = b + x * n;
      for (int64_t j = 0; j < n; j++) row[j] += v * line[j];
    }
    /* the array adds up a call's products apart: into C goes one number, so that a large C costs them no digits */
    for (int64_t j = 0; j < n; j++) put(&c->d, i, j, c->flags & VL_MMA_INIT ? row[j] : (float)get(&c->d, i, j) + row[j]);
  }
  free(b);
}

static void run_reduce(const command *c) {
  const int rows = c->d.cols == 1 && c->d.rows == c->a.rows; /* one result per row */
  const int64_t outer = rows ? c->a.rows : c->a.cols, inner = rows ? c->a.cols : c->a.rows;
  for (int64_t i = 0; i < outer; i++) {
    double s = c->op == VL_SUM ? 0 : c->op == VL_PROD ? 1 : c->op == VL_RMAX ? -INFINITY : INFINITY;
    for (int64_t j = 0; j < inner; j++) {
      const double v = rows ? get(&c->a, i, j) : get(&c->a, j, i);
      s = c->op == VL_SUM ? s + v : c->op == VL_PROD ? s * v : c->op == VL_RMAX ? maximum(s, v) : minimum(s, v);
    }
    if (rows) put(&c->d, i, 0, s);
    else put(&c->d, 0, i, s);
  }
}

static void run_copy(const command *c) {
  if (c->d.dtype == c->a.dtype && c->d.rows == c->a.rows && c->d.cols == c->a.cols) {
    for (int64_t i = 0; i < c->d.rows; i++)
      memmove(element(&c->d, i, 0), element(&c->a, i, 0), (size_t)c->d.cols * vl_size(c->d.dtype));
    return;
  }
  for (int64_t i = 0; i < c->d.rows; i++)
    for (int64_t j = 0; j < c->d.cols; j++) put(&c->d, i, j, get(&c->a, i, j));
}

__attribute__((weak)) void vl_told(const command *c) { (void)c; }

void vl_run(const command *c) {
  if (c->what == K_SET || c->what == K_WAIT) return;
  vl_told(c);
  if (c->what == K_COPY) { run_copy(c); return; }
  if (c->what == K_MMA) { run_mma(c); return; }
  if (c->what == K_REDUCE) { run_reduce(c); return; }
  for (int64_t i = 0; i < c->d.rows; i++)
    for (int64_t j = 0; j < c->d.cols; j++) {
      double v = 0;
      switch (c->what) {
        case K_FILL: v = c->scalar; break;
        case K_BINARY:
          if (c->op >= VL_LT && integer(c->a.dtype) && integer(c->b.dtype)) v = compare(c->op, c, i, j);
          else v = binary(c->op, get(&c->a, i, j), get(&c->b, i, j));
          break;
        case K_SCALAR: v = binary(c->op, get(&c->a, i, j), c->scalar); break;
        case K_SCALAR_R: v = binary(c->op, c->scalar, get(&c->a, i, j)); break;
        case K_UNARY: v = unary(c->op, get(&c->a, i, j)); break;
        case K_SELECT: v = get(&c->a, i, j) != 0 ? get(&c->b, i, j) : get(&c->c, i, j); break;
        case K_INDEX: v = (double)(c->base + i * c->by_row + j * c->by_col); break;
        case K_TRANSPOSE: v = get(&c->a, j, i); break;
        default: break;
      }
      put(&c->d, i, j, v);
    }
}
