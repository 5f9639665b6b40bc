/* Says what a kernel compares to the search for inputs that turn it (septran/host/sought.c): each comparison, minimum and maximum of
 * the vector engine for all of its elements, and which may hold together: masks that are multiplied, added or turned, and each two
 * of one size, in whatever way the kernel brings them together. Linked into that search alone. */
#include "sim.h"
#include <math.h>
#include <string.h>

void st_compared(uint64_t place, uint64_t lanes, const double *a, const double *b, int kind);
void st_joint(uint64_t place, uint64_t lanes, const double *parts, int n);
void st_after_call(void);

enum { LANES = 4096, PARTS = 6, MASKS = 24, LINES = 1 << 14, TIMES = 16, REAL = 0 };
/* How far the comparisons that make a mask are from holding, each for all elements; what holds is above 0. */
typedef struct {
  const uint8_t *at; /* where the mask lies; 0: it was overwritten */
  uint64_t lanes, place;
  int n;
  double part[PARTS * LANES];
} mask;
static mask masks[MASKS];
static int next;
static double left[LANES], right[LANES], two[2 * LANES];
static uint8_t times[LINES];             /* comparisons of each line in this call */
static uint64_t first[LINES][TIMES];     /* what each compared in the first call */
static uint8_t moving[LINES][TIMES], met[LINES][TIMES];

void st_after_call(void) {
  memset(times, 0, sizeof times);
  for (int i = 0; i < MASKS; i++) masks[i].at = 0, masks[i].n = 0;
}

static mask *of(const vl_tile *t) {
  for (int i = 0; i < MASKS; i++)
    if (masks[i].at == vl_at(t)) return &masks[i];
  return 0;
}

static mask *keep(const command *c, uint64_t lanes, uint64_t place) {
  mask *m = &masks[next++ % MASKS];
  m->lanes = lanes, m->place = place, m->n = 0, m->at = vl_at(&c->d);
  return m;
}

static double least(const mask *m, uint64_t lane) {
  double found = INFINITY;
  for (int k = 0; k < m->n; k++) found = fmin(found, m->part[k * m->lanes + lane]);
  return found;
}

static double margin(int op, double a, double b) {
  const double away = a == b ? 0 : a - b, held = 1e-300;
  switch (op) {
    case VL_LT: return away < 0 ? -away : fmin(-away, -held);
    case VL_LE: return away <= 0 ? fmax(-away, held) : -away;
    case VL_GT: return away > 0 ? away : fmin(away, -held);
    case VL_GE: return away >= 0 ? fmax(away, held) : away;
    case VL_EQ: return away == 0 ? held : -fabs(away);
    default: return away != 0 ? fabs(away) : -held;
  }
}

/* Each two of like tiles, both ways of each. */
static void pair(const mask *one, const mask *other) {
  const uint64_t lanes = one->lanes, low = one->place < other->place ? one->place : other->place;
  const uint64_t both = low * 0x9E3779B97F4A7C15ull ^ (one->place + other->place);
  for (int signs = 0; signs < 4; signs++) {
    for (uint64_t i = 0; i < lanes; i++) {
      two[i] = signs & 1 ? -one->part[i] : one->part[i];
      two[lanes + i] = signs & 2 ? -other->part[i] : other->part[i];
    }
    st_joint(1ull << 63 | both << 2 | (uint64_t)signs, lanes, two, 2);
  }
}

static void told_compared(const command *c, uint64_t lanes) {
  const int turned = c->what == K_SCALAR_R;
  uint64_t bits, sign = 0, at = 0;
  for (int64_t i = 0; i < c->d.rows; i++)
    for (int64_t j = 0; j < c->d.cols; j++, at++) {
      const double a = vl_get(&c->a, i, j), b = c->what == K_BINARY ? vl_get(&c->b, i, j) : c->scalar;
      left[at] = turned ? b : a;
      right[at] = turned ? a : b;
      memcpy(&bits, &a, 8), sign = (sign ^ bits) * 0x9E3779B97F4A7C15ull;
      memcpy(&bits, &b, 8), sign = (sign ^ bits) * 0x9E3779B97F4A7C15ull;
    }
  const unsigned line = (unsigned)c->line % LINES;
  const unsigned nth = times[line] < TIMES - 1 ? times[line]++ : TIMES - 1;
  const uint64_t place = VL_TOLD | (uint64_t)line << 20 | nth;
  st_compared(place, lanes, left, right, REAL);
  if (!met[line][nth]) met[line][nth] = 1, first[line][nth] = sign;
  moving[line][nth] |= first[line][nth] != sign;
  if (c->op < VL_LT || !moving[line][nth]) return;
  mask *m = keep(c, lanes, place);
  m->n = 1;
  for (uint64_t i = 0; i < lanes; i++) m->part[i] = margin(c->op, left[i], right[i]);
  for (int i = 0; i < MASKS; i++)
    if (&masks[i] != m && masks[i].n == 1 && masks[i].place && masks[i].lanes == lanes) pair(m, &masks[i]);
}

/* Masks that one operation makes one of: all hold, one of two does, or (less than 1) the other way round. */
static void told_joined(const command *c, uint64_t lanes) {
  const mask *a = of(&c->a), *b = c->what == K_BINARY ? of(&c->b) : 0;
  const int all = c->op == VL_MUL || c->op == VL_MIN, one = c->op == VL_ADD || c->op == VL_MAX;
  static mask made;
  made.n = 0;
  if (c->what == K_SCALAR_R && c->op == VL_SUB && c->scalar == 1 && a && a->lanes == lanes) {
    made.n = 1;
    for (uint64_t i = 0; i < lanes; i++) made.part[i] = -least(a, i);
  } else if (a && b && a->lanes == lanes && b->lanes == lanes && (all || one)) {
    made.n = one;
    for (int k = 0; all && k < a->n + b->n && made.n < PARTS; k++, made.n++)
      memcpy(made.part + made.n * lanes, k < a->n ? a->part + k * lanes : b->part + (k - a->n) * lanes, lanes * sizeof(double));
    for (uint64_t i = 0; one && i < lanes; i++) made.part[i] = fmax(least(a, i), least(b, i));
    st_joint(1ull << 62 | (uint64_t)c->line, lanes, made.part, made.n);
  }
  for (int i = 0; i < MASKS; i++)
    if (masks[i].at == vl_at(&c->d)) masks[i].at = 0;
  if (!made.n) return;
  mask *kept = keep(c, lanes, 0);
  kept->n = made.n;
  memcpy(kept->part, made.part, (size_t)made.n * lanes * sizeof(double));
}

void vl_told(const command *c) {
  const uint64_t lanes = (uint64_t)(c->d.rows * c->d.cols);
  if (c->what == K_SET || c->what == K_WAIT || lanes > LANES || !lanes) return;
  const int two_sided = c->what == K_BINARY || c->what == K_SCALAR || c->what == K_SCALAR_R;
  told_joined(c, lanes);
  if (two_sided && (c->op >= VL_LT || c->op == VL_MAX || c->op == VL_MIN)) told_compared(c, lanes);
}
