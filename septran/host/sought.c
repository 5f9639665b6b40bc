/* Seeks inputs on which a kernel's comparisons come out otherwise than on those it is judged on: usage sought PLAN FOUND.
 *
 * The kernel is compiled so that each comparison of its text says its two sides (-fsanitize-coverage=trace-cmp). A comparison
 * that came out one way only is a goal; from the inputs that came closest, others are made: an element that is one side of it
 * becomes the other side, or goes where a straight line through two calls says (as Chen and Chen, "Angora", 2018, descend), elements
 * take numbers that comparisons hold, and lines of elements become alike, sorted or of one sign. A comparison that is made many times
 * has to come out the same way in all of them, too. It is also asked what the file keeps from call to call. What is found is judged by the parent; nothing that is said here is believed.
 *
 * With CALLS_BACK it is a library for a process that interprets the kernel: st_seek(PLAN, FOUND, CALL), and CALL says by st_compared
 * what is compared, for all lanes of a tile at once. */
#include <float.h>
#include <malloc.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef CALLS_BACK
#define ENTRY st_entry
#define SEEK st_seek(const char *asked, const char *brought, void (*call_back)(void *const *))
static void (*st_entry)(void *const *args);
static const int in_process = 1;
static void (*const st_after_call)(void) = 0;
#else
#define SEEK main(int argc, char **argv)
void ENTRY(void *const *args);
char st_foreign[1]; /* a simulator keeps its room from call to call */
extern void st_after_call(void) __attribute__((weak));
static const int in_process = 0;
#endif

enum { FIXED, F32, F64, F16, BF16, I8, U8, I32, I64, BOOL };
enum { PARAMS, CASES, MILLISECONDS, MOST, HEAD };
enum { LESS, SAME, MORE, WAYS, GOALS = 2 * WAYS }; /* once, and in all executions */
enum { REAL, WHOLE, JOINT }; /* numbers; whole numbers; how far several comparisons are from holding together, where no side is equal */
/* An interpreted kernel may take twice the time for that many calls, and four times while comparisons that hold together are open. */
enum { FEW = 150, LONGER = 2, LONGEST = 4 };
#define JUMPS_PART 0.4 /* of that time for results that jump */
#define STEEP 1e5 /* what is as far from holding was multiplied */
enum { PARTS = 6 }; /* comparisons that hold together */
enum { SITES = 2048, POOL = 512, KEPT = 64 };

struct param {
  uint64_t bytes, read, kind;
  double low, high;
  size_t first, count; /* elements, among all that may change */
  size_t at;           /* bytes, in a set of inputs */
};
static struct param *params;
static uint64_t n_params;
static size_t set_bytes, elements, unit_of[BOOL + 1] = {1, 4, 8, 2, 2, 1, 1, 4, 8, 1};
static void **args;

/* ---- what comparisons say */

struct goal {
  double away, side; /* of the closest call: its distance; a - b there */
  double a, b;
  uint64_t nth; /* which execution in that call it was */
  double parts[PARTS];
  char *set;    /* the inputs of that call */
  int met;
};
struct site {
  uintptr_t pc;
  uint64_t sign, first_sign, executed, most;
  uint64_t count[WAYS], nth[WAYS], asked;
  double away[WAYS], side[WAYS], a[WAYS], b[WAYS], there; /* there: a - b in the execution that is asked for */
  double parts[PARTS], parts_there[PARTS]; /* JOINT: how far each is from holding, in the closest execution and in the one that is asked for */
  struct goal goal[GOALS];
  int known, moves, kind, n_parts;
};
static struct site sites[SITES];
static struct site *used[SITES];
static size_t n_used;
static double pool[POOL];
static size_t n_pool;
static int watching;

static void remember(double x) {
  if (!isfinite(x)) return;
  for (size_t i = 0; i < n_pool && i < POOL; ++i)
    if (pool[i] == x) return;
  if (n_pool < POOL) pool[n_pool++] = x;
}
static struct site *site_at(uintptr_t pc) {
  for (size_t i = (pc * 0x9E3779B97F4A7C15ull) >> 53, tried = 0; tried < SITES; ++tried, i = (i + 1) % SITES) {
    if (sites[i].pc == pc) return &sites[i];
    if (sites[i].pc) continue;
    if (n_used > SITES / 2) return 0;
    sites[i].pc = pc;
    for (int w = 0; w < WAYS; ++w) sites[i].away[w] = INFINITY;
    return used[n_used++] = &sites[i];
  }
  return 0;
}
static void compared(uintptr_t pc, double a, double b, int kind) {
  if (!watching) return;
  struct site *s = site_at(pc);
  if (!s) return;
  uint64_t bits[2];
  memcpy(bits, &a, 8), memcpy(bits + 1, &b, 8);
  s->sign = (s->sign ^ bits[0]) * 0x9E3779B97F4A7C15ull ^ (bits[1] * 0xBF58476D1CE4E5B9ull >> 7);
  s->kind = kind;
  ++s->executed;
  if (a != a || b != b) return;
  const double d = a == b ? 0 : a - b, size = fabs(d); /* equal infinities have no difference */
  if (s->executed == s->asked) s->there = d;
  ++s->count[d < 0 ? LESS : d > 0 ? MORE : SAME];
  const double away[WAYS] = {d < 0 ? 0 : size + DBL_MIN, size, d > 0 ? 0 : size + DBL_MIN};
  for (int w = 0; w < WAYS; ++w)
    if (away[w] < s->away[w]) s->away[w] = away[w], s->side[w] = d, s->a[w] = a, s->b[w] = b, s->nth[w] = s->executed;
}
/* place: of the comparison in the text, and one more. kind: REAL and so on. */
void st_compared(uint64_t place, uint64_t lanes, const double *a, const double *b, int kind) {
  for (uint64_t i = 0; i < lanes; ++i) compared(place, a[i], b[i], kind);
}
/* Comparisons that hold together where each of their n distances is more than 0. parts: one row of all lanes for each. */
void st_joint(uint64_t place, uint64_t lanes, const double *parts, int n) {
  struct site *s = watching && n <= PARTS ? site_at(place) : 0;
  if (!s) return;
  s->n_parts = n;
  for (uint64_t i = 0; i < lanes; ++i) {
    double least = INFINITY;
    for (int k = 0; k < n; ++k)
      if (parts[k * lanes + i] < least) least = parts[k * lanes + i];
    const double before = s->away[MORE];
    compared(place, least, 0, JOINT);
    for (int k = 0; k < n && s->away[MORE] < before; ++k) s->parts[k] = parts[k * lanes + i];
    for (int k = 0; k < n && s->executed == s->asked; ++k) s->parts_there[k] = parts[k * lanes + i];
  }
}
#ifndef CALLS_BACK
#define HERE ((uintptr_t)__builtin_return_address(0))
void __sanitizer_cov_trace_cmp1(int8_t a, int8_t b) { compared(HERE, a, b, 1); }
void __sanitizer_cov_trace_cmp2(int16_t a, int16_t b) { compared(HERE, a, b, 1); }
void __sanitizer_cov_trace_cmp4(int32_t a, int32_t b) { compared(HERE, a, b, 1); }
void __sanitizer_cov_trace_cmp8(int64_t a, int64_t b) { compared(HERE, (double)a, (double)b, 1); }
void __sanitizer_cov_trace_const_cmp1(int8_t a, int8_t b) { compared(HERE, b, a, 1); }
void __sanitizer_cov_trace_const_cmp2(int16_t a, int16_t b) { compared(HERE, b, a, 1); }
void __sanitizer_cov_trace_const_cmp4(int32_t a, int32_t b) { compared(HERE, b, a, 1); }
void __sanitizer_cov_trace_const_cmp8(int64_t a, int64_t b) { compared(HERE, (double)b, (double)a, 1); }
void __sanitizer_cov_trace_cmpf(float a, float b) { compared(HERE, a, b, 0); }
void __sanitizer_cov_trace_cmpd(double a, double b) { compared(HERE, a, b, 0); }
void __sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases) {
  for (uint64_t i = 0; i < cases[0] && i < 32; ++i) compared(HERE + (i << 48), (double)(int64_t)value, (double)(int64_t)cases[2 + i], 1);
}
void __sanitizer_cov_trace_pc(void) {}
/* A choice that is no comparison of the text; the kernel is compiled without optimisation, so that it calls these. All calls of one are
 * a place, too: where each of them comes out the same way, what they clamp holds together. */
#define CHOICE(type, name, op) \
  type name(type a, type b) { return compared(HERE, a, b, REAL), compared((uintptr_t)name, a, b, REAL), a op b || b != b ? a : b; }
CHOICE(float, fminf, <)
CHOICE(float, fmaxf, >)
CHOICE(double, fmin, <)
CHOICE(double, fmax, >)
#endif

/* ---- elements of inputs */

static uint64_t state = 88172645463325252ull;
static uint64_t drawn(void) { return state ^= state << 13, state ^= state >> 7, state ^= state << 17; }
static size_t below(size_t n) { return n ? drawn() % n : 0; }
static double unit(void) { return (double)(drawn() >> 11) * 0x1p-53; }

static struct param *param_of(size_t e) {
  struct param *p = params;
  while (p->kind == FIXED || e >= p->first + p->count) ++p;
  return p;
}
static double get_as(const struct param *p, const char *from, size_t nth) {
  const char *at = from + nth * unit_of[p->kind];
  float f;
  uint32_t u;
  uint16_t h;
  int32_t i;
  int64_t l;
  double d;
  switch (p->kind) {
    case F32: return memcpy(&f, at, 4), f;
    case F64: return memcpy(&d, at, 8), d;
    case F16: { _Float16 x; return memcpy(&x, at, 2), (double)x; }
    case BF16: return memcpy(&h, at, 2), u = (uint32_t)h << 16, memcpy(&f, &u, 4), f;
    case I32: return memcpy(&i, at, 4), i;
    case I64: return memcpy(&l, at, 8), (double)l;
    case I8: return *(const int8_t *)at;
    default: return *(const uint8_t *)at;
  }
}
static double get(const char *set, size_t e) {
  const struct param *p = param_of(e);
  return get_as(p, set + p->at, e - p->first);
}
static void put(char *set, size_t e, double x) {
  const struct param *p = param_of(e);
  char *at = set + p->at + (e - p->first) * unit_of[p->kind];
  if (x != x) return;
  x = x < p->low ? p->low : x > p->high ? p->high : x;
  const float f = (float)x;
  uint32_t u;
  if (p->kind >= I8) x = nearbyint(x);
  const int32_t i = (int32_t)x;
  const int64_t l = (int64_t)x;
  switch (p->kind) {
    case F32: memcpy(at, &f, 4); break;
    case F64: memcpy(at, &x, 8); break;
    case F16: { const _Float16 y = (_Float16)f; memcpy(at, &y, 2); break; }
    case BF16: memcpy(&u, &f, 4), u += 0x7FFF + (u >> 16 & 1), at[0] = (char)(u >> 16), at[1] = (char)(u >> 24); break;
    case I32: memcpy(at, &i, 4); break;
    case I64: memcpy(at, &l, 8); break;
    default: *at = (char)i;
  }
}
static double step(double x) { return x == 0 ? 1e-3 : fabs(x); }
static double beside(double x) { /* the number, what lies next to it, or a little off */
  switch (below(6)) {
    case 0: return (double)nextafterf((float)x, INFINITY);
    case 1: return (double)nextafterf((float)x, -INFINITY);
    case 2: return x + step(x) * (unit() - 0.5) * 0.01;
    case 3: return x + (drawn() & 1 ? 1 : -1);
    default: return x;
  }
}

/* ---- calls */

static struct {
  char *set;
  uint64_t score;
  uint8_t came[SITES]; /* of each site met so far, which ways it came out */
} found[KEPT];
static size_t n_found;
static uint64_t made;
static char *now;

static uint8_t came_out(const struct site *s) { return (uint8_t)((s->count[LESS] > 0) | (s->count[SAME] > 0) << 1 | (s->count[MORE] > 0) << 2); }
enum { JUMPED = 1 << 20 };
static void keep(uint64_t score) {
  size_t i = n_found < KEPT ? n_found : below(KEPT); /* with more than there is room for, some of them */
  while (n_found == KEPT && found[i].score == JUMPED) i = below(KEPT);
  if (n_found < KEPT) found[n_found++].set = malloc(set_bytes);
  memcpy(found[i].set, now, set_bytes);
  found[i].score = score;
  for (size_t j = 0; j < n_used; ++j) found[i].came[j] = came_out(used[j]);
}
static double far(const struct site *s, int g) {
  if (s->kind == JOINT && (g == SAME || g >= WAYS)) return INFINITY;
  return g < WAYS ? s->away[g] : s->executed < 2 ? INFINITY : (double)(s->most - s->count[g - WAYS]);
}
/* Call the kernel on `now`; seeking: what comparisons come out newly is a find, else it is known. Of inputs of ordinary size others are
 * made before they are of others: in a sum of large numbers a wrong small one would not show. */
enum how { KNOWN, KNOWN_LARGE, SEEKING };
static void call(enum how how) {
  for (size_t i = 0; i < n_used; ++i) {
    struct site *s = used[i];
    s->sign = s->executed = 0, s->there = NAN;
    for (int w = 0; w < WAYS; ++w) s->away[w] = INFINITY, s->count[w] = 0;
  }
  for (uint64_t i = 0; i < n_params; ++i)
    if (params[i].read) memcpy(args[i], now + params[i].at, params[i].bytes);
  const size_t before = n_used;
  watching = 1;
  ENTRY(args);
  watching = 0;
  if (st_after_call) st_after_call();
  ++made;
  uint64_t newly = 0;
  for (size_t i = 0; i < n_used; ++i) {
    struct site *s = used[i];
    if (!s->known) s->first_sign = s->sign, s->known = 1, s->moves = made > 1; /* not met in the first call: inputs decide that it is */
    else if (s->sign != s->first_sign) s->moves = 1;
    if (s->executed > s->most) s->most = s->executed;
    for (int g = 0; g < GOALS; ++g) {
      struct goal *o = &s->goal[g];
      const double d = far(s, g);
      if (o->met || !isfinite(d) || (o->set && (d >= o->away || (how == KNOWN_LARGE && d > 0)))) continue;
      if (!o->set) o->set = malloc(set_bytes);
      memcpy(o->set, now, set_bytes);
      o->away = d;
      if (g < WAYS) o->side = s->side[g], o->a = s->a[g], o->b = s->b[g], o->nth = s->nth[g];
      if (g == MORE) memcpy(o->parts, s->parts, sizeof o->parts);
      if (d == 0) {
        o->met = 1;
        if (s->moves || i >= before) newly += g < WAYS ? 16 : 1;
      }
    }
    if (s->executed)
      for (int w = 0; w < WAYS; ++w)
        if (isfinite(s->away[w]) && s->moves) remember(s->b[w]);
  }
  if (newly && how == SEEKING) keep(newly);
}

static int is_large(void) {
  for (size_t e = 0; e < elements; ++e)
    if (fabs(get(now, e)) > 1e3) return 1;
  return 0;
}
static int compare_up(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
/* Make a line of elements of `now` alike, sorted, or of one sign. */
static void pattern(size_t from, size_t n, unsigned which) {
  double *line = calloc(n, sizeof *line);
  for (size_t i = 0; i < n; ++i) line[i] = get(now, from + i);
  const double one = ldexp(1 + 0.5 * (double)below(2), (int)below(4) - 1) * (drawn() & 1 ? 1 : -1); /* of two bits: sums of it are exact */
  const size_t part = below(n), other = below(n);
  if (which < 2) qsort(line, n, sizeof *line, compare_up);
  for (size_t i = 0; i < n; ++i) {
    double x = line[i];
    switch (which) {
      case 1: x = line[n - 1 - i]; break;
      case 2: x = -fabs(x) - 1e-3; break;
      case 3: x = fabs(x) + 1e-3; break;
      case 4: x = 0; break;
      case 5: x = i == part ? 1 : 0; break;
      case 6: x = i >= part ? 0 : x; break;
      case 7: x = one; break;
      case 8: x = i & 1 ? -fabs(x) : fabs(x); break;
      case 9: x = nearbyint(x * 100); break;
      case 10: x = line[other]; break;
      case 11: x = (double)i; break;
      default: break;
    }
    put(now, from + i, x);
  }
  free(line);
}
enum { PATTERNS = 12 };

static void change_line(void) {
  const struct param *p = param_of(below(elements));
  size_t n = p->count, from = p->first;
  if (drawn() & 1 && n > 4) from += below(n / 2), n = 1 + below(p->first + n - from);
  pattern(from, n, (unsigned)below(PATTERNS));
}
static void change_some(void) {
  for (size_t k = 1 + below(4); k; --k) {
    const size_t e = below(elements < 64 || drawn() & 1 ? elements : 16);
    switch (below(4)) {
      case 0: put(now, e, get(now, below(elements))); break;
      case 1: put(now, e, -get(now, e)); break;
      default: put(now, e, (drawn() & 3 ? 1 : -1) * (n_pool ? beside(pool[below(n_pool)]) : unit()));
    }
  }
}
/* An element that is one side of the comparison becomes the other. */
static int change_side(const struct goal *o, int way) {
  const size_t from = below(elements);
  const double to = way == LESS ? o->b - step(o->b) * 1e-3 : way == MORE ? o->b + step(o->b) * 1e-3 : o->b;
  for (size_t k = 0; k < elements && k < 4096; ++k) {
    const size_t e = (from + k) % elements;
    const double x = get(now, e);
    if (x == o->a) return put(now, e, drawn() & 1 ? to : beside(o->b)), 1;
    if (x == o->b) return put(now, e, beside(o->a)), 1;
  }
  return 0;
}
static double *step_of; /* of each element, in a move of many */
static char *start;
/* Many elements move together, then all of them as far as a straight line through the two calls says: so do sums of them. */
static void move_many(struct site *s, struct goal *o, int way) {
  const struct param *p = param_of(below(elements));
  const int all = below(2), alike = below(2);
  const double size = ldexp(1, (int)below(6) - 6), was = o->side;
  for (size_t e = 0; e < elements; ++e) {
    const int in = all || (e >= p->first && e < p->first + p->count);
    const double h = param_of(e)->kind >= I8 ? 1 : size * (0.25 + unit());
    step_of[e] = in ? (alike || drawn() & 1 ? h : -h) : 0;
    if (in) put(now, e, get(now, e) + step_of[e]);
  }
  memcpy(start, o->set, set_bytes);
  const double aim = (way == LESS ? -step(o->b) : way == MORE ? step(o->b) : 0) * (s->kind == WHOLE ? 1 : ldexp(1, -(int)below(12)));
  s->asked = o->nth;
  call(SEEKING);
  s->asked = 0;
  const double far_off = (aim - was) / (s->there - was);
  if (o->met || !isfinite(far_off) || fabs(far_off) > 1e6) return;
  memcpy(now, start, set_bytes);
  for (size_t e = 0; e < elements; ++e)
    if (step_of[e] != 0) put(now, e, get(now, e) + far_off * step_of[e]);
  call(SEEKING);
}
static double *moves_of; /* PARTS + 1 directions, of each element */
/* Solve A x = b of n equations by elimination; return 0 where there is no one solution. */
static int solved(int n, double a[PARTS][PARTS], double *b, double *x) {
  for (int c = 0; c < n; ++c) {
    int best = c;
    for (int r = c; r < n; ++r)
      if (fabs(a[r][c]) > fabs(a[best][c])) best = r;
    if (!(fabs(a[best][c]) > 1e-30)) return 0;
    for (int k = 0; k < n; ++k) { const double t = a[c][k]; a[c][k] = a[best][k], a[best][k] = t; }
    const double t = b[c];
    b[c] = b[best], b[best] = t;
    for (int r = c + 1; r < n; ++r) {
      const double f = a[r][c] / a[c][c];
      for (int k = c; k < n; ++k) a[r][k] -= f * a[c][k];
      b[r] -= f * b[c];
    }
  }
  for (int r = n - 1; r >= 0; --r) {
    x[r] = b[r];
    for (int k = r + 1; k < n; ++k) x[r] -= a[r][k] * x[k];
    x[r] /= a[r][r];
  }
  return 1;
}
/* Comparisons come to hold together: by how much each changes along some directions is measured, and of their combinations the least is
 * taken that brings those above 0 that are not and leaves the others there (Gauss and Newton's step, on the constraints that are active). */
static void hold_together(struct site *s, struct goal *o) {
  const int n = s->n_parts, ways = n + 1;
  double base[PARTS], by[PARTS][PARTS + 1], c[PARTS + 1] = {0};
  double margin[PARTS];
  int active[PARTS];
  memcpy(base, o->parts, sizeof base);
  memcpy(start, o->set, set_bytes);
  const uint64_t nth = o->nth;
  const double size = ldexp(1, (int)below(12) - 10), usual = ldexp(1e-2, -(int)below(10)), part = ldexp(1, -(int)below(14));
  for (int w = 0; w < ways; ++w) {
    const struct param *p = param_of(below(elements));
    const int all = below(3) > 0;
    const unsigned kind = w < 3 ? (unsigned)w : (unsigned)below(4); /* up, together, larger, or each its own way */
    double *d = moves_of + (size_t)w * elements, mean = 0;
    memcpy(now, start, set_bytes);
    for (size_t e = p->first; e < p->first + p->count; ++e) mean += get(now, e) / (double)p->count;
    for (size_t e = 0; e < elements; ++e) {
      const int in = all || (e >= p->first && e < p->first + p->count);
      const double x = get(now, e), r = 0.5 + unit(), to = kind == 1 ? mean - x : kind == 2 ? x : kind == 0 || drawn() & 1 ? 1 : -1;
      if (in) put(now, e, x + (param_of(e)->kind >= I8 ? (to < 0 ? -1 : 1) : size * r * to));
      d[e] = in ? get(now, e) - x : 0;
    }
    s->asked = nth;
    for (int i = 0; i < n; ++i) s->parts_there[i] = NAN;
    call(SEEKING);
    s->asked = 0;
    if (o->met) return;
    for (int i = 0; i < n; ++i) by[i][w] = isfinite(base[i]) ? s->parts_there[i] - base[i] : 0;
  }
  for (int i = 0; i < n; ++i) {
    active[i] = isfinite(base[i]) && base[i] <= 0;
    margin[i] = isfinite(base[i]) && fabs(base[i]) > STEEP ? part * fabs(base[i]) : usual; /* `usual` would be rounded away */
  }
  for (int round = 0; round < n; ++round) {
    int which[PARTS], m = 0, more = 0;
    double a[PARTS][PARTS], b[PARTS], y[PARTS];
    for (int i = 0; i < n; ++i)
      if (active[i]) which[m++] = i;
    for (int i = 0; i < m; ++i) {
      b[i] = margin[which[i]] - base[which[i]];
      for (int j = 0; j < m; ++j) {
        a[i][j] = 0;
        for (int w = 0; w < ways; ++w) a[i][j] += by[which[i]][w] * by[which[j]][w];
        if (i == j) a[i][j] *= 1 + 1e-9;
      }
    }
    if (!m || !solved(m, a, b, y)) return;
    for (int w = 0; w < ways; ++w) {
      c[w] = 0;
      for (int i = 0; i < m; ++i) c[w] += by[which[i]][w] * y[i];
      if (!(fabs(c[w]) < 1e6)) return;
    }
    for (int i = 0; i < n; ++i) {
      double then = base[i];
      for (int w = 0; w < ways; ++w) then += by[i][w] * c[w];
      if (!active[i] && then < (fabs(base[i]) > STEEP ? 0 : usual / 2)) active[i] = more = 1;
    }
    if (!more) break;
  }
  memcpy(now, start, set_bytes);
  for (size_t e = 0; e < elements; ++e) {
    double x = get(now, e);
    for (int w = 0; w < ways; ++w) x += c[w] * moves_of[(size_t)w * elements + e];
    put(now, e, x);
  }
  call(SEEKING);
}
/* Some elements become what they are in inputs on which something else came out otherwise. */
static int take_over(void) {
  if (!n_found) return 0;
  const char *other = found[below(n_found)].set;
  const struct param *p = param_of(below(elements));
  const int which = below(3);
  const size_t from = which == 1 ? p->first + below(p->count) : p->first, n = which == 1 ? 1 + below(p->first + p->count - from) : p->count;
  for (size_t e = from; e < from + n; ++e)
    if (which != 2 || drawn() & 1) put(now, e, get(other, e));
  return 1;
}
static void seek(struct site *s, int g) {
  struct goal *o = &s->goal[g];
  const int way = g % WAYS;
  memcpy(now, o->set, set_bytes);
  if (s->n_parts > 1 && g == MORE && below(4)) return hold_together(s, o);
  if (below(in_process ? 4 : 12) == 0 && take_over()) return call(SEEKING);
  if (g < WAYS && (in_process ? below(4) > 0 : below(8) == 0)) return move_many(s, o, way);
  if (g < WAYS && below(3) == 0 && change_side(o, way)) return call(SEEKING);
  if (g < WAYS && below(2)) { /* where a straight line through two calls says */
    const size_t e = below(elements);
    const double x = get(now, e), h = step(x) * (unit() < 0.5 ? 0.25 : 1e-3) + (param_of(e)->kind >= I8), was = o->side;
    put(now, e, x + h);
    const double moved = get(now, e) - x;
    if (moved == 0) return;
    call(SEEKING);
    const double is = s->executed && isfinite(s->away[way]) ? s->side[way] : was;
    if (o->met || is == was) return;
    const double aim = way == LESS ? -step(o->b) * 1e-4 : way == MORE ? step(o->b) * 1e-4 : 0;
    memcpy(now, o->set, set_bytes);
    put(now, e, get(now, e) + (aim - o->side) * moved / (is - was));
    return call(SEEKING);
  }
  if (below(4) == 0) change_line();
  else change_some();
  call(SEEKING);
}

static int comes_out_as(size_t k) {
  call(KNOWN);
  for (size_t j = 0; j < n_used; ++j)
    if (found[k].came[j] & ~came_out(used[j])) return 0;
  return 1;
}
/* Large elements that a find does not need become ordinary ones, so that a wrong small result shows beside them. */
static void make_small(size_t k) {
  memcpy(now, found[k].set, set_bytes);
  if (!is_large()) return;
  for (size_t e = 0; e < elements; ++e)
    if (fabs(get(now, e)) > 1e3) put(now, e, unit() - 0.5);
  if (comes_out_as(k)) return (void)memcpy(found[k].set, now, set_bytes);
  for (size_t e = 0; e < elements && e < 512; ++e) {
    const double x = get(found[k].set, e), smaller[] = {unit() - 0.5, copysign(4 + 8 * unit(), x), copysign(100, x), x * 0x1p-20};
    for (int tried = 0; tried < 4 && fabs(x) > 1e3; ++tried) {
      memcpy(now, found[k].set, set_bytes);
      put(now, e, smaller[tried]);
      if (!comes_out_as(k)) continue;
      memcpy(found[k].set, now, set_bytes);
      break;
    }
  }
}

static double worked(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
#include "jumps.h"
#ifndef CALLS_BACK
/* ---- what a file keeps from call to call */

/* Whether no thread was started: OpenMP's own count in the heap how often their team came together. */
static int alone(void) {
  struct stat tasks;
  return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink <= 3; /* a link for each, and two of the folder's own */
}
extern char st_data_begin[], st_data_end[], st_bss_begin[], st_bss_end[]; /* its variables lie between them */
static uint64_t held(uint64_t h, const char *from, const char *to) {
  for (; from + 8 <= to; from += 8) {
    uint64_t w;
    memcpy(&w, from, 8);
    h = (h ^ w) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
  }
  return h;
}
/* Whether its variables, and what it allocated, are never again as after an earlier call on the same inputs: it counts its calls. */
enum { WARM = 16, TRIED = 48 };
static int counts(const char *set, double end) {
  uint64_t after[WARM + TRIED];
  memcpy(now, set, set_bytes);
  for (int k = 0; k < WARM + TRIED; ++k) {
    if (worked() > end) return 0;
    for (uint64_t i = 0; i < n_params; ++i)
      if (params[i].read) memcpy(args[i], now + params[i].at, params[i].bytes);
      else memset(args[i], 0, params[i].bytes);
    ENTRY(args);
    if (st_after_call) st_after_call();
    after[k] = held(held(1, st_data_begin, st_data_end), st_bss_begin, st_bss_end);
    if (alone()) after[k] = held(after[k], (char *)sbrk(0) - mallinfo2().arena, sbrk(0));
    for (int j = WARM; j < k && k > WARM; ++j)
      if (after[j] == after[k]) return 0;
  }
  return 1;
}
#endif

static void take(FILE *file, void *to, size_t bytes) {
  if (fread(to, 1, bytes, file) != bytes) _Exit(4);
}
static void leave(const char *path, uint64_t most) {
  FILE *file = fopen(path, "wb");
  if (!file) _Exit(5);
  uint64_t n = n_found < most ? n_found : most;
  for (uint64_t k = 0; k < n; ++k) { /* those that show most come first; the later of two shows what was harder to find */
    size_t best = 0;
    for (size_t i = 1; i < n_found; ++i)
      if (found[i].score >= found[best].score && found[i].score) best = i;
    found[best].score = 0;
    fwrite(found[best].set, 1, set_bytes, file);
  }
  fclose(file);
}

#ifndef CALLS_BACK
/* What the outputs are after the first calls: this build is not optimised. */
enum { PLAIN = 4 };
static char *plain[PLAIN];
static size_t plain_bytes;
static void hold_outputs(uint64_t c) {
  if (c >= PLAIN) return;
  for (uint64_t i = plain_bytes = 0; i < n_params; ++i)
    if (!params[i].read) plain_bytes += params[i].bytes;
  char *p = plain[c] = malloc(plain_bytes + 1);
  for (uint64_t i = 0; i < n_params; ++i)
    if (!params[i].read) memcpy(p, args[i], params[i].bytes), p += params[i].bytes;
}
static void leave_outputs(const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) _Exit(5);
  for (int c = 0; c < PLAIN && plain[c]; ++c) fwrite(plain[c], 1, plain_bytes, file);
  fclose(file);
}
#endif

int SEEK {
#ifdef CALLS_BACK
  st_entry = call_back;
  set_bytes = elements = n_used = n_pool = n_found = made = 0;
  memset(sites, 0, sizeof sites), memset(found, 0, sizeof found);
#else
  const char *asked = argc == 4 ? argv[1] : "", *brought = argc == 4 ? argv[2] : "";
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  setvbuf(stdout, 0, _IONBF, 0);
  FILE *file = fopen(asked, "rb");
  uint64_t head[HEAD];
  if (!file) _Exit(4);
  take(file, head, sizeof head);
  n_params = head[PARAMS];
  params = calloc(n_params + 1, sizeof *params);
  args = calloc(n_params, sizeof *args);
  for (uint64_t i = 0; i < n_params; ++i) {
    struct param *p = &params[i];
    take(file, p, 5 * 8);
    args[i] = aligned_alloc(4096, (p->bytes + 4095) / 4096 * 4096 + 4096);
    memset(args[i], 0, p->bytes);
    if (!p->read) continue;
    p->at = set_bytes, set_bytes += p->bytes;
    if (p->kind != FIXED) p->first = elements, p->count = p->bytes / unit_of[p->kind], elements += p->count;
  }
  char **seeds = malloc(head[CASES] * sizeof *seeds);
  for (uint64_t c = 0; c < head[CASES]; ++c) take(file, seeds[c] = malloc(set_bytes + 1), set_bytes);
  fclose(file);
  if (!head[CASES]) return 0;
  now = malloc(set_bytes), start = malloc(set_bytes), step_of = malloc((elements + 1) * sizeof *step_of);
  moves_of = malloc((PARTS + 1) * (elements + 1) * sizeof *moves_of);
#ifndef CALLS_BACK
  for (uint64_t c = 0; c < head[CASES] && c < 2; ++c)
    if (counts(seeds[c], worked() + (double)head[MILLISECONDS])) {
      printf("\ncounts its calls\n");
      break;
    }
#endif
  for (int large = 0; large < 2; ++large)
    for (uint64_t c = 0; c < head[CASES]; ++c) {
      memcpy(now, seeds[c], set_bytes);
      if (is_large() != large) continue;
      call(large ? KNOWN_LARGE : KNOWN);
#ifndef CALLS_BACK
      hold_outputs(c);
#endif
    }
#ifndef CALLS_BACK
  leave_outputs(argv[3]);
#endif
  const double begun = worked();
  double end = begun + (double)head[MILLISECONDS];
  for (unsigned which = 0; which < PATTERNS && worked() < begun + (end - begun) / 3; ++which)
    for (uint64_t i = 0; i < n_params; ++i) {
      if (!params[i].read || params[i].kind == FIXED) continue;
      memcpy(now, seeds[head[CASES] > 1 ? 1 : 0], set_bytes);
      pattern(params[i].first, params[i].count, which);
      call(SEEKING);
    }
  size_t still_open = 0;
  while (elements) {
    struct {
      struct site *s;
      int g;
    } open[256];
    size_t n = 0;
    int joint = 0; /* a mask of several comparisons never held */
    for (size_t i = 0; i < n_used && n < 256; ++i)
      for (int g = 0; g < GOALS && n < 256; ++g)
        if (used[i]->moves && used[i]->goal[g].set && !used[i]->goal[g].met) {
          joint |= g == MORE && used[i]->n_parts > 1 && used[i]->pc >> 48 == 0;
          open[n].s = used[i], open[n++].g = g;
        }
    still_open = n;
    if (!n) break;
    const int times = !in_process ? 1 : joint ? LONGEST : made < FEW ? LONGER : 1;
    end = begun + times * (double)head[MILLISECONDS];
    if (worked() >= end) break;
    for (size_t k = 0; k < 2 * n && worked() < end; ++k) {
      size_t i = below(n);
      for (int tried = 0; in_process && tried < 2 && (open[i].s->n_parts < 2 || open[i].s->pc >> 48); ++tried) i = below(n); /* masks above all */
      if (!open[i].s->goal[open[i].g].met) seek(open[i].s, open[i].g);
    }
  }
  for (size_t k = 0; k < n_found && worked() < end + (double)head[MILLISECONDS]; ++k) make_small(k);
  if (elements) find_jumps(seeds[head[CASES] > 1 ? 1 : 0], JUMPS_PART * (double)head[MILLISECONDS]);
  for (size_t i = 0; i < n_used; ++i) { /* never the one way or the other */
    const struct goal *g = used[i]->goal;
    if (used[i]->moves && used[i]->pc >> 48 == 0 && ((!g[SAME].met && used[i]->kind != JOINT) || !g[LESS].met || !g[MORE].met))
      printf("\nopen %lx %d%d%d %d\n", (unsigned long)used[i]->pc - 1, g[LESS].met, g[SAME].met, g[MORE].met, used[i]->kind == WHOLE);
  }
  leave(brought, head[MOST]);
  printf("\nsought %lu calls, %zu found, %zu open\n", (unsigned long)made, n_found, still_open);
  return 0;
}
