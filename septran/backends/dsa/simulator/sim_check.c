/* What the machine refuses: wrong places and shapes, misalignment, overflow, reads of nothing,
 * what a leaf was not given, and accesses that no event orders (happens-before by vector clocks, Lamport 1978; Mattern 1989). */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *name;
  uint64_t low, high;
  int writable;
} tensor;

static tensor tensors[MAX_TENSORS];
static int tensor_count;
/* kernels run where no memory can be asked for; pages that nobody touches cost nothing */
enum { ARENA = 1 << 28, CELL = 64 };
static _Alignas(64) unsigned char arena[ARENA];
static size_t arena_used;

/* GLOBAL is shared: cells of 2 bytes in pages found by hashing. */
typedef struct {
  uint32_t written, read;
  uint16_t write_epoch, read_epoch, write_line, read_line;
  uint8_t writer, reader; /* core + 1; 255 = several readers */
} global_cell;
enum { PAGE = 4096, PAGE_CELLS = PAGE / 2, TABLE = 1 << 16 };
typedef struct page {
  uint64_t key;
  struct page *next;
  global_cell cells[PAGE_CELLS];
} page;
static page *table[TABLE];
static uint16_t epoch = 1;

void vl_next_epoch(void) { epoch++; }

void vl_reset_global(void) {
  for (int i = 0; i < TABLE; i++) {
    while (table[i]) {
      page *next = table[i]->next;
      free(table[i]);
      table[i] = next;
    }
  }
  epoch = 1;
  tensor_count = 0;
  arena_used = 0;
}

void vendor_lib_bind(const char *name, const void *at, size_t bytes, int writable) {
  if (tensor_count < MAX_TENSORS) {
    const uint64_t low = (uint64_t)(uintptr_t)at;
    tensors[tensor_count++] = (tensor){name, low, low + bytes, writable};
  }
}

void *vendor_lib_workspace(const char *name, size_t bytes) {
  void *at = arena + arena_used;
  if (bytes > ARENA - arena_used) abort();
  arena_used += (bytes + CELL - 1) / CELL * CELL;
  memset(at, 0xff, bytes);
  vendor_lib_bind(name, at, bytes, 1);
  return at;
}

static page *page_of(uint64_t addr) {
  const uint64_t key = addr / PAGE;
  page **slot = &table[(key * 0x9E3779B97F4A7C15u) >> 48];
  for (page *p = *slot; p; p = p->next)
    if (p->key == key) return p;
  page *p = calloc(1, sizeof *p);
  if (!p) abort();
  p->key = key;
  p->next = *slot;
  *slot = p;
  return p;
}

int vl_operands(const command *c, const vl_tile **tiles, int *writes, const char **names) {
  int n = 0;
#define ADD(tile, write, label) (tiles[n] = &(tile), writes[n] = (write), names[n] = (label), n++)
  switch (c->what) {
    case K_SET:
    case K_WAIT: return 0;
    case K_MMA:
      ADD(c->a, 0, "A");
      ADD(c->b, 0, "B");
      if (!(c->flags & VL_MMA_INIT)) ADD(c->d, 0, "C");
      ADD(c->d, 1, "C");
      return n;
    case K_SELECT: ADD(c->a, 0, "cond"); ADD(c->b, 0, "a"); ADD(c->c, 0, "b"); break;
    case K_BINARY: ADD(c->a, 0, "a"); ADD(c->b, 0, "b"); break;
    case K_COPY:
    case K_SCALAR:
    case K_SCALAR_R:
    case K_UNARY:
    case K_REDUCE:
    case K_TRANSPOSE: ADD(c->a, 0, "src"); break;
    default: break;
  }
  ADD(c->d, 1, "dst");
#undef ADD
  return n;
}

static int inside(const command *c, const vl_tile *t, int write, const char *name) {
  const uint64_t size = vl_size(t->dtype);
  if (t->rows <= 0 || t->cols <= 0 || (t->rows > 1 && t->ld < t->cols)) {
    vl_fail(E_ARGUMENT, c, "%s: bad tile %d x %d with row pitch %lld", name, t->rows, t->cols, (long long)t->ld);
    return 0;
  }
  const uint64_t end = t->addr + ((uint64_t)(t->rows - 1) * (uint64_t)t->ld + (uint64_t)t->cols) * size;
  if (t->space == VL_GLOBAL) {
    for (int i = 0; i < tensor_count; i++)
      if (t->addr >= tensors[i].low && t->addr < tensors[i].high) {
        if (end > tensors[i].high) {
          vl_fail(E_BOUNDS, c, "%s: goes %llu bytes past the end of tensor %s", name,
                  (unsigned long long)(end - tensors[i].high), tensors[i].name);
          return 0;
        }
        if (write && !tensors[i].writable) {
          vl_fail(E_BOUNDS, c, "%s: writes to input tensor %s", name, tensors[i].name);
          return 0;
        }
        return 1;
      }
    if (tensor_count) {
      vl_fail(E_BOUNDS, c, "%s: address outside every tensor of the kernel", name);
      return 0;
    }
    return 1;
  }
  const uint64_t capacity = t->space == VL_SPAD ? VL_SPAD_BYTES : VL_ACC_BYTES;
  const char *space = vl_space_name[t->space];
  if (end > capacity) {
    vl_fail(E_OVERFLOW, c, "%s: %s overflow: needs %llu bytes, capacity is %llu", name, space,
            (unsigned long long)end, (unsigned long long)capacity);
    return 0;
  }
  return 1;
}

static int aligned(const command *c, const vl_tile *t, const char *name) {
  if (t->space == VL_GLOBAL) return 1;
  const uint64_t pitch = (uint64_t)t->ld * vl_size(t->dtype);
  if (c->what == K_MMA && t->addr % VL_ALIGN_BYTES) {
    vl_fail(E_ALIGN, c, "%s: %s address %llu is not a multiple of %d bytes", name, vl_space_name[t->space],
            (unsigned long long)t->addr, VL_ALIGN_BYTES);
    return 0;
  }
  if (t->addr % vl_size(t->dtype)) {
    vl_fail(E_ALIGN, c, "%s: %s address %llu is not a multiple of its element size", name,
            vl_space_name[t->space], (unsigned long long)t->addr);
    return 0;
  }
  if (t->rows > 1 && t->cols > 1 && pitch % VL_ALIGN_BYTES) {
    vl_fail(E_ALIGN, c, "%s: %s row pitch of %llu bytes is not a multiple of %d", name,
            vl_space_name[t->space], (unsigned long long)pitch, VL_ALIGN_BYTES);
    return 0;
  }
  if (c->what == K_MMA && t->rows > 1 && t->ld % VL_MMA_PITCH) {
    vl_fail(E_ALIGN, c, "%s: row pitch of %lld elements is not a multiple of the granule %d; pad the tile", name,
            (long long)t->ld, VL_MMA_PITCH);
    return 0;
  }
  return 1;
}

static int shapes(const command *c) {
  const vl_tile *d = &c->d, *a = &c->a, *b = &c->b;
  if (c->what == K_MMA) {
    const int ta = (c->flags & VL_MMA_TRANS_A) != 0, tb = (c->flags & VL_MMA_TRANS_B) != 0;
    const int m = ta ? a->cols : a->rows, k = ta ? a->rows : a->cols;
    const int kb = tb ? b->cols : b->rows, n = tb ? b->rows : b->cols;
    if (d->space != VL_ACC || a->space != VL_SPAD || b->space != VL_SPAD) {
      vl_fail(E_ARGUMENT, c, "C must be in ACC (is in %s), A and B in SPAD (are in %s and %s)",
              vl_space_name[d->space], vl_space_name[a->space], vl_space_name[b->space]);
      return 0;
    }
    if (d->dtype != VL_F32 || a->dtype != b->dtype ||
        (a->dtype != VL_F32 && a->dtype != VL_F16 && a->dtype != VL_BF16)) {
      vl_fail(E_ARGUMENT, c, "no such combination of element types");
      return 0;
    }
    if (m != d->rows || n != d->cols || k != kb) {
      vl_fail(E_ARGUMENT, c, "C is %d x %d but A gives %d x %d and B gives %d x %d", d->rows, d->cols, m, k, kb, n);
      return 0;
    }
    return 1;
  }
  if (c->what == K_REDUCE) {
    const int by_row = d->cols == 1 && d->rows == a->rows, by_col = d->rows == 1 && d->cols == a->cols;
    if (!by_row && !by_col) {
      vl_fail(E_ARGUMENT, c, "cannot reduce %d x %d to %d x %d", a->rows, a->cols, d->rows, d->cols);
      return 0;
    }
    return 1;
  }
  if (c->what == K_TRANSPOSE) {
    if (d->rows != a->cols || d->cols != a->rows) {
      vl_fail(E_ARGUMENT, c, "dst is %d x %d but src is %d x %d", d->rows, d->cols, a->rows, a->cols);
      return 0;
    }
    return 1;
  }
  const vl_tile *tiles[5];
  int writes[5];
  const char *names[5];
  const int n = vl_operands(c, tiles, writes, names);
  for (int i = 0; i < n; i++) {
    const int exact = c->what == K_COPY && c->queue != VL_Q_VEC;
    const int rows_fit = tiles[i]->rows == d->rows || (!exact && tiles[i]->rows == 1);
    const int cols_fit = tiles[i]->cols == d->cols || (!exact && tiles[i]->cols == 1);
    if (!rows_fit || !cols_fit) {
      vl_fail(E_ARGUMENT, c, "%s is %d x %d but dst is %d x %d", names[i], tiles[i]->rows, tiles[i]->cols, d->rows,
              d->cols);
      return 0;
    }
  }
  if (c->queue == VL_Q_VEC)
    for (int i = 0; i < n; i++)
      if (tiles[i]->space == VL_GLOBAL) {
        vl_fail(E_ARGUMENT, c, "%s is in GLOBAL; the vector engine reaches SPAD and ACC only", names[i]);
        return 0;
      }
  return 1;
}

static const char *missing = "nothing orders them (missing set/wait or sync)";

static int local(const command *c, const vl_tile *t, int write, const char *name, uint32_t now) {
  const vl_queue q = c->queue;
  cell *cells = t->space == VL_SPAD ? vl_me->spad_cells : vl_me->acc_cells;
  const char *space = vl_space_name[t->space];
  const uint64_t size = vl_size(t->dtype);
  for (int r = 0; r < t->rows; r++) {
    const uint64_t low = t->addr + (uint64_t)r * (uint64_t)t->ld * size, high = low + (uint64_t)t->cols * size;
    for (uint64_t g = low / GRAIN; g <= (high - 1) / GRAIN; g++) {
      cell *x = &cells[g];
      const unsigned long long byte = g * GRAIN;
      if (!write && !x->set) {
        vl_fail(E_UNINIT, c, "%s: reads %s byte %llu, which nothing has written", name, space, byte);
        return 0;
      }
      if (x->written && x->writer != q && vl_me->clock[q][x->writer] < x->written) {
        vl_fail(E_HAZARD, c, "%s: %s hazard at byte %llu: %s %s what %s writes at line %d, and %s", name, space, byte,
                vl_queue_name[q], write ? "overwrites" : "reads", vl_queue_name[x->writer], x->write_line, missing);
        return 0;
      }
      if (!write) {
        x->read[q] = now;
        x->read_line[q] = (uint16_t)c->line;
        continue;
      }
      for (int k = 0; k < VL_QUEUES; k++)
        if (k != (int)q && x->read[k] && vl_me->clock[q][k] < x->read[k]) {
          vl_fail(E_HAZARD, c, "%s: %s hazard at byte %llu: %s overwrites what %s still reads at line %d, and %s", name,
                  space, byte, vl_queue_name[q], vl_queue_name[k], x->read_line[k], missing);
          return 0;
        }
      memset(x->read, 0, sizeof x->read);
      x->written = now;
      x->writer = (uint8_t)q;
      x->write_line = (uint16_t)c->line;
      x->set = 1;
    }
  }
  return 1;
}

static int global(const command *c, const vl_tile *t, int write, const char *name, uint32_t now) {
  const uint8_t me = (uint8_t)(vl_me->id + 1);
  const uint64_t size = vl_size(t->dtype);
  for (int r = 0; r < t->rows; r++) {
    uint64_t low = t->addr + (uint64_t)r * (uint64_t)t->ld * size, high = low + (uint64_t)t->cols * size;
    if (size == 1) { /* a cell holds two such elements: leave shared cells at the ends alone */
      low += low & 1;
      high -= high & 1;
      if (low >= high) continue;
    }
    page *p = page_of(low);
    for (uint64_t at = low & ~1ull; at < high; at += 2) {
      if (at / PAGE != p->key) p = page_of(at);
      global_cell *x = &p->cells[(at % PAGE) / 2];
      const int other_write = x->writer && x->writer != me && x->write_epoch == epoch;
      const int other_read = x->reader && x->reader != me && x->read_epoch == epoch;
      if (other_write || (write && other_read)) {
        const int line = other_write ? x->write_line : x->read_line;
        if (!other_write && x->reader == 255)
          vl_fail(E_RACE, c, "%s: race on GLOBAL: core %d writes what other cores read at line %d, without a barrier",
                  name, me - 1, line);
        else
          vl_fail(E_RACE, c, "%s: race on GLOBAL: core %d %s what core %d %s at line %d, without a barrier", name,
                  me - 1, write ? "writes" : "reads", (other_write ? x->writer : x->reader) - 1,
                  other_write ? "writes" : "reads", line);
        return 0;
      }
      if (!write && x->writer == me && vl_me->clock[VL_Q_LOAD][VL_Q_STORE] < x->written) {
        vl_fail(E_HAZARD, c, "%s: GLOBAL hazard: LOAD reads what STORE writes at line %d, and %s", name, x->write_line,
                missing);
        return 0;
      }
      if (write && x->reader && x->reader == me && vl_me->clock[VL_Q_STORE][VL_Q_LOAD] < x->read) {
        vl_fail(E_HAZARD, c, "%s: GLOBAL hazard: STORE overwrites what LOAD still reads at line %d, and %s", name,
                x->read_line, missing);
        return 0;
      }
      if (write) {
        x->written = now;
        x->writer = me;
        x->write_epoch = epoch;
        x->write_line = (uint16_t)c->line;
        x->reader = 0;
      } else {
        x->reader = x->reader && x->reader != me && x->read_epoch == epoch ? 255 : me;
        x->read = now;
        x->read_epoch = epoch;
        x->read_line = (uint16_t)c->line;
      }
    }
  }
  return 1;
}

/* What a leaf may reach: the views that it was given. A tile that it moved beyond them spoils what lies there, and no
 * result of the leaf alone shows it. */

/* Return the bytes from the first to behind the last element of dimensions d, d + 1 and so on. */
static uint64_t reach(const given_view *g, int d) {
  uint64_t bytes = g->n[g->rank - 1];
  for (int k = d; k < g->rank - 1; k++) bytes += (g->n[k] - 1) * g->step[k];
  return bytes;
}

static given_view view_of(const vl_view *v, int writable) {
  const uint64_t size = vl_size(v->dtype);
  given_view g = {.space = v->space, .addr = v->addr, .writable = writable};
  uint64_t run = size; /* of the innermost dimensions that have no gaps: one run of bytes */
  int d = v->rank - 1;
  for (; d >= 0 && ((uint64_t)v->s[d] * size == run || v->n[d] == 1); d--) run *= (uint64_t)v->n[d];
  for (int k = 0; k <= d; k++)
    if (v->n[k] != 1) {
      g.n[g.rank] = (uint64_t)v->n[k];
      g.step[g.rank++] = (uint64_t)v->s[k] * size;
    }
  g.n[g.rank] = run;
  g.step[g.rank++] = 1;
  for (int k = 0; k < g.rank; k++) g.reach[k] = reach(&g, k);
  for (int k = 0; k < v->rank; k++)
    if (v->n[k] <= 0) g.rank = 0;
  return g;
}

void vl_given(const vl_view *views, const char *may) {
  vl_me->given_count = 0;
  for (int i = 0; may[i] && i < MOST_GIVEN; i++) vl_me->given[vl_me->given_count++] = view_of(&views[i], may[i] == 'w');
}

/* Whether `bytes` bytes `off` behind an element of dimension d lie in one run of the view. Dimensions may overlap. */
static int has(const given_view *g, int d, uint64_t off, uint64_t bytes) {
  if (off + bytes > g->reach[d]) return 0;
  if (d == g->rank - 1) return 1;
  const uint64_t step = g->step[d];
  uint64_t i = step ? off / step : 0;
  if (i >= g->n[d]) i = g->n[d] - 1;
  for (;; i--) {
    const uint64_t rest = off - i * step;
    if (rest + bytes > g->reach[d + 1]) return 0;
    if (has(g, d + 1, rest, bytes)) return 1;
    if (!i) return 0;
  }
}

static int within_given(const vl_tile *t, int write) {
  if (!vl_me->given_count) return 1;
  const uint64_t size = vl_size(t->dtype);
  for (int r = 0; r < t->rows; r++) {
    const uint64_t at = t->addr + (uint64_t)r * (uint64_t)t->ld * size;
    int found = 0;
    for (int i = 0; i < vl_me->given_count && !found; i++) {
      const given_view *g = &vl_me->given[i];
      found = g->rank && g->space == t->space && (g->writable || !write) && at >= g->addr &&
              has(g, 0, at - g->addr, (uint64_t)t->cols * size);
    }
    if (!found) return 0;
  }
  return 1;
}

int vl_check(const command *c) {
  const vl_tile *tiles[5];
  int writes[5];
  const char *names[5];
  const int n = vl_operands(c, tiles, writes, names);
  for (int i = 0; i < n; i++) {
    if (!inside(c, tiles[i], writes[i], names[i])) return 0;
    if (!within_given(tiles[i], writes[i])) {
      vl_fail(E_BOUNDS, c, "%s: %s outside what the leaf was given to %s", names[i], vl_space_name[tiles[i]->space],
              writes[i] ? "write" : "read");
      return 0;
    }
  }
  if (n && !shapes(c)) return 0;
  for (int i = 0; i < n; i++)
    if (!aligned(c, tiles[i], names[i])) return 0;
  const uint32_t now = ++vl_me->clock[c->queue][c->queue];
  for (int i = 0; i < n; i++) {
    const int fine = tiles[i]->space == VL_GLOBAL ? global(c, tiles[i], writes[i], names[i], now)
                                                  : local(c, tiles[i], writes[i], names[i], now);
    if (!fine) break; /* the eager result is still computed */
  }
  return 1;
}

void vl_reset_cells(core *m) {
  memset(m->spad_cells, 0, VL_SPAD_BYTES / GRAIN * sizeof(cell));
  memset(m->acc_cells, 0, VL_ACC_BYTES / GRAIN * sizeof(cell));
}
