/* The simulator: cores, queues, events, time, and the report.
 *
 * In a static host (septran/host) the host says for each call in which order commands take effect and takes the
 * report; elsewhere VL_ORDER chooses when commands take effect: "program" (at the call), "dma" or "compute" (only at the
 * next sync, that engine as early as its events allow and the other as late as possible). A kernel
 * that is right must give the same bytes in all three; hazards are reported in all three. */
#include "sim.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

core *vl_me;
const char *const vl_queue_name[VL_QUEUES] = {"LOAD", "STORE", "MMA", "VEC"};
const char *const vl_space_name[3] = {"GLOBAL", "SPAD", "ACC"};

enum { STACK = 1 << 20, HOST_CYCLES = 2 };
enum order { PROGRAM, DMA_FIRST, COMPUTE_FIRST };

static core *cores[VL_CORES];
static ucontext_t contexts[VL_CORES], scheduler;
static void (*entry)(void *);
static void *argument;
static enum order order;
static int first_code, error_count;
static char errors[MAX_ERRORS][400];
static char report[16384];
static uint64_t elapsed;

/* the host's, where there is one */
extern uint64_t st_variant(void) __attribute__((weak));
extern void st_say(const char *words) __attribute__((weak));

static const vl_caps caps = {VL_CORES, VL_SPAD_BYTES, VL_SPAD_BANKS, VL_ACC_BYTES, VL_ALIGN_BYTES, VL_MMA_ROWS,
                             VL_MMA_COLS, VL_MMA_DEPTH, VL_MMA_PITCH, VL_VEC_BYTES, VL_EVENTS,
                             VL_DMA_BYTES_PER_CYCLE, VL_DMA_LATENCY, VL_MMA_LATENCY, VL_VEC_LATENCY,
                             VL_CLEAR_BYTES_PER_CYCLE};

const vl_caps *vendor_lib_caps(void) { return &caps; }
int vendor_lib_core_id(void) { return vl_me->id; }
int vendor_lib_core_num(void) { return VL_CORES; }
const char *vendor_lib_last_error(void) { return error_count ? errors[0] : ""; }

uint8_t *vl_at(const vl_tile *t) {
  if (t->space == VL_GLOBAL) return (uint8_t *)(uintptr_t)t->addr;
  return (t->space == VL_SPAD ? vl_me->spad : vl_me->acc) + t->addr;
}

void vl_fail(int code, const command *c, const char *format, ...) {
  if (!first_code) first_code = code;
  if (error_count >= MAX_ERRORS) return;
  char *text = errors[error_count++];
  int used = snprintf(text, sizeof errors[0], "line %d: %s: ", c->line, c->name);
  va_list more;
  va_start(more, format);
  vsnprintf(text + used, sizeof errors[0] - (size_t)used, format, more);
  va_end(more);
}

/* -- deferred execution ------------------------------------------------------------------------- */

static void run_pending(void);

static void defer(const command *c) {
  fifo *f = &vl_me->pending[c->what == K_SET ? c->from : c->what == K_WAIT ? c->to : c->queue];
  if (f->count >= MOST_PENDING) { /* memory is bounded, so not all commands of a long kernel can wait for its end */
    run_pending();
    for (int q = 0; q < VL_QUEUES; q++) {
      fifo *p = &vl_me->pending[q];
      if (p->head) memmove(p->list, p->list + p->head, (p->count - p->head) * sizeof *p->list);
      p->count -= p->head;
      p->head = 0;
    }
  }
  if (f->count == f->room) {
    f->room = f->room ? 2 * f->room : 64;
    f->list = realloc(f->list, f->room * sizeof *f->list);
    if (!f->list) abort();
  }
  f->list[f->count++] = *c;
}

static int step(vl_queue q) {
  fifo *f = &vl_me->pending[q];
  if (f->head == f->count) return 0;
  const command *c = &f->list[f->head];
  if (c->what == K_WAIT) {
    uint8_t *posted = &vl_me->ran_posted[c->from][c->to][c->event];
    if (!*posted) return 0;
    (*posted)--;
  } else if (c->what == K_SET) {
    vl_me->ran_posted[c->from][c->to][c->event]++;
  } else {
    vl_run(c);
  }
  f->head++;
  return 1;
}

static void run_pending(void) {
  static const vl_queue first[2][VL_QUEUES] = {{VL_Q_LOAD, VL_Q_STORE, VL_Q_VEC, VL_Q_MMA},
                                               {VL_Q_MMA, VL_Q_VEC, VL_Q_STORE, VL_Q_LOAD}};
  int moved = 1;
  while (moved) {
    moved = 0;
    for (int i = 0; i < VL_QUEUES && !moved; i++) moved = step(first[order == COMPUTE_FIRST][i]);
  }
}

static void drain(void) {
  if (order == PROGRAM) return;
  run_pending();
  for (int q = 0; q < VL_QUEUES; q++) vl_me->pending[q].head = vl_me->pending[q].count = 0;
}

/* -- commands and time -------------------------------------------------------------------------- */

static void issue(command c) {
  vl_me->host += HOST_CYCLES;
  vl_me->last_line[c.queue] = c.line;
  if (!vl_check(&c)) return;
  queue_stats *s = &vl_me->stats[c.queue];
  const uint64_t cost = vl_cost(&c);
  const uint64_t start = s->ready > vl_me->host ? s->ready : vl_me->host;
  s->ready = start + cost;
  if (s->done < s->ready + vl_latency(&c)) s->done = s->ready + vl_latency(&c);
  s->busy += cost;
  s->bytes += vl_bytes(&c);
  s->commands++;
  if (order == PROGRAM) vl_run(&c);
  else defer(&c);
}

#define COMMAND(k, text, q) (command){.what = (k), .name = (text), .line = line, .queue = (q)}

static vl_queue dma_queue(vl_tile d) { return d.space == VL_GLOBAL ? VL_Q_STORE : VL_Q_LOAD; }

static void dma(int line, const char *name, vl_tile d, vl_tile s, int cast) {
  command c = COMMAND(K_COPY, name, dma_queue(d));
  c.d = d;
  c.a = s;
  if ((d.space == VL_GLOBAL) == (s.space == VL_GLOBAL)) {
    vl_fail(E_ARGUMENT, &c, "moves data between GLOBAL and local memory, not %s to %s", vl_space_name[s.space],
            vl_space_name[d.space]);
    return;
  }
  if (!cast && d.dtype != s.dtype) {
    vl_fail(E_ARGUMENT, &c, "element types differ; use vendor_lib_dma_cast");
    return;
  }
  issue(c);
}

void vl_dma_copy(int line, vl_tile d, vl_tile s) { dma(line, "vendor_lib_dma_copy", d, s, 0); }
void vl_dma_cast(int line, vl_tile d, vl_tile s) { dma(line, "vendor_lib_dma_cast", d, s, 1); }

void vl_dma_fill(int line, vl_tile d, double value) {
  command c = COMMAND(K_FILL, "vendor_lib_dma_fill", dma_queue(d));
  c.d = d;
  c.scalar = value;
  issue(c);
}

void vl_fill(int line, vl_tile d, double value) {
  command c = COMMAND(K_FILL, "vendor_lib_fill", VL_Q_VEC);
  c.d = d;
  c.scalar = value;
  issue(c);
}

void vl_mma(int line, vl_tile d, vl_tile a, vl_tile b, uint32_t flags) {
  command c = COMMAND(K_MMA, "vendor_lib_mma", VL_Q_MMA);
  c.d = d;
  c.a = a;
  c.b = b;
  c.flags = flags;
  issue(c);
}

static void vec(int line, kind k, const char *name, int op, vl_tile d, const vl_tile *a, const vl_tile *b,
                const vl_tile *x, double s) {
  command c = COMMAND(k, name, VL_Q_VEC);
  c.op = op;
  c.d = d;
  c.scalar = s;
  if (a) c.a = *a;
  if (b) c.b = *b;
  if (x) c.c = *x;
  issue(c);
}

void vl_vec_binary(int line, vl_binary op, vl_tile d, vl_tile a, vl_tile b) {
  vec(line, K_BINARY, "vendor_lib_vec_binary", op, d, &a, &b, NULL, 0);
}
void vl_vec_scalar(int line, vl_binary op, vl_tile d, vl_tile a, double s) {
  vec(line, K_SCALAR, "vendor_lib_vec_scalar", op, d, &a, NULL, NULL, s);
}
void vl_vec_scalar_r(int line, vl_binary op, vl_tile d, double s, vl_tile a) {
  vec(line, K_SCALAR_R, "vendor_lib_vec_scalar_r", op, d, &a, NULL, NULL, s);
}
void vl_vec_unary(int line, vl_unary op, vl_tile d, vl_tile a) {
  vec(line, K_UNARY, "vendor_lib_vec_unary", op, d, &a, NULL, NULL, 0);
}
void vl_vec_select(int line, vl_tile d, vl_tile cond, vl_tile a, vl_tile b) {
  vec(line, K_SELECT, "vendor_lib_vec_select", 0, d, &cond, &a, &b, 0);
}
void vl_vec_reduce(int line, vl_reduction op, vl_tile d, vl_tile a) {
  vec(line, K_REDUCE, "vendor_lib_vec_reduce", op, d, &a, NULL, NULL, 0);
}
void vl_vec_transpose(int line, vl_tile d, vl_tile a) {
  vec(line, K_TRANSPOSE, "vendor_lib_vec_transpose", 0, d, &a, NULL, NULL, 0);
}
void vl_vec_index(int line, vl_tile d, int64_t base, int64_t by_row, int64_t by_col) {
  command c = COMMAND(K_INDEX, "vendor_lib_vec_index", VL_Q_VEC);
  c.d = d;
  c.base = base;
  c.by_row = by_row;
  c.by_col = by_col;
  issue(c);
}

/* -- events ------------------------------------------------------------------------------------- */

static int event_fits(const command *c) {
  if (c->event >= 0 && c->event < VL_EVENTS && c->from != c->to) return 1;
  vl_fail(E_EVENT, c, "event %d from %s to %s: numbers are 0..%d and the queues must differ", c->event,
          vl_queue_name[c->from], vl_queue_name[c->to], VL_EVENTS - 1);
  return 0;
}

void vl_set(int line, vl_queue from, vl_queue to, int number) {
  command c = COMMAND(K_SET, "vendor_lib_set", from);
  c.from = from;
  c.to = to;
  c.event = number;
  vl_me->host += HOST_CYCLES;
  if (!event_fits(&c)) return;
  event_state *e = &vl_me->events[from][to][number];
  if (e->posted)
    vl_fail(E_EVENT, &c, "event %d %s>%s posted twice without a wait in between (first at line %d)", number,
            vl_queue_name[from], vl_queue_name[to], e->line);
  else if (e->last_wait && vl_me->clock[from][to] < e->last_wait)
    vl_fail(E_EVENT, &c, "event %d %s>%s posted again before its last wait is known to be over", number,
            vl_queue_name[from], vl_queue_name[to]);
  e->posted = 1;
  e->line = line;
  e->time = vl_me->stats[from].done > vl_me->host ? vl_me->stats[from].done : vl_me->host;
  memcpy(e->clock, vl_me->clock[from], sizeof e->clock);
  if (order != PROGRAM) defer(&c);
}

void vl_wait(int line, vl_queue from, vl_queue to, int number) {
  command c = COMMAND(K_WAIT, "vendor_lib_wait", to);
  c.from = from;
  c.to = to;
  c.event = number;
  vl_me->host += HOST_CYCLES;
  if (!event_fits(&c)) return;
  event_state *e = &vl_me->events[from][to][number];
  if (!e->posted) {
    vl_fail(E_DEADLOCK, &c, "event %d %s>%s was never posted: %s would wait for ever", number, vl_queue_name[from],
            vl_queue_name[to], vl_queue_name[to]);
    return;
  }
  e->posted = 0;
  e->last_wait = ++vl_me->clock[to][to];
  for (int q = 0; q < VL_QUEUES; q++)
    if (e->clock[q] > vl_me->clock[to][q]) vl_me->clock[to][q] = e->clock[q];
  queue_stats *s = &vl_me->stats[to];
  if (e->time > s->ready) {
    const uint64_t since = s->ready > vl_me->host ? s->ready : vl_me->host;
    if (e->time > since) s->stalled += e->time - since;
    s->ready = e->time;
  }
  if (order != PROGRAM) defer(&c);
}

static void join_all(void) {
  uint32_t now[VL_QUEUES];
  uint64_t last = vl_me->host;
  for (int q = 0; q < VL_QUEUES; q++) {
    now[q] = vl_me->clock[q][q];
    if (vl_me->stats[q].done > last) last = vl_me->stats[q].done;
  }
  for (int q = 0; q < VL_QUEUES; q++) {
    memcpy(vl_me->clock[q], now, sizeof now);
    vl_me->stats[q].ready = vl_me->stats[q].done = last;
  }
  memcpy(vl_me->drained, now, sizeof now);
  vl_me->host = last;
}

void vl_sync(int line) {
  (void)line;
  vl_me->host += HOST_CYCLES;
  drain();
  join_all();
}

void vl_barrier(int line) {
  vl_sync(line);
  vl_me->waiting = 1;
  vl_me->barrier_line = line;
  swapcontext(&contexts[vl_me->id], &scheduler);
}

/* -- launch ------------------------------------------------------------------------------------- */

static void start_core(void) {
  entry(argument);
  drain();
  for (int q = 0; q < VL_QUEUES; q++)
    if (vl_me->clock[q][q] > vl_me->drained[q]) {
      const command c = {.name = "vendor_lib_sync", .line = vl_me->last_line[q]};
      vl_fail(E_UNFINISHED, &c, "missing at the end of the kernel: %s still has commands in flight", vl_queue_name[q]);
      break;
    }
  for (int i = 0; i < VL_QUEUES; i++)
    for (int j = 0; j < VL_QUEUES; j++)
      for (int e = 0; e < VL_EVENTS; e++)
        if (vl_me->events[i][j][e].posted) {
          const command c = {.name = "vendor_lib_set", .line = vl_me->events[i][j][e].line};
          vl_fail(E_EVENT, &c, "event %d %s>%s is left posted at the end of the kernel", e, vl_queue_name[i],
                  vl_queue_name[j]);
        }
  join_all();
  vl_me->finished = 1;
  swapcontext(&contexts[vl_me->id], &scheduler);
}

static core *make_core(int id) {
  core *m = calloc(1, sizeof *m);
  if (!m) abort();
  m->id = id;
  m->spad = malloc(VL_SPAD_BYTES);
  m->acc = malloc(VL_ACC_BYTES);
  m->spad_cells = calloc(VL_SPAD_BYTES / GRAIN, sizeof(cell));
  m->acc_cells = calloc(VL_ACC_BYTES / GRAIN, sizeof(cell));
  if (!m->spad || !m->acc || !m->spad_cells || !m->acc_cells) abort();
  memset(m->spad, 0xff, VL_SPAD_BYTES); /* NaN in every float type */
  memset(m->acc, 0xff, VL_ACC_BYTES);
  return m;
}

static void free_core(core *m) {
  for (int q = 0; q < VL_QUEUES; q++) free(m->pending[q].list);
  free(m->spad);
  free(m->acc);
  free(m->spad_cells);
  free(m->acc_cells);
  free(m);
}

static size_t append(size_t used, const char *format, ...) {
  if (used >= sizeof report) return used;
  va_list more;
  va_start(more, format);
  const int n = vsnprintf(report + used, sizeof report - used, format, more);
  va_end(more);
  return used + (size_t)(n > 0 ? n : 0);
}

static void write_report(void) {
  uint64_t macs = 0, ideal = 0, conflicts = 0, all = 0;
  size_t n = append(0, "{\"cycles\": %llu, \"cores\": %d, \"queues\": {", (unsigned long long)elapsed, VL_CORES);
  for (int q = 0; q < VL_QUEUES; q++) {
    queue_stats s = {0};
    for (int i = 0; i < VL_CORES; i++) {
      const queue_stats *x = &cores[i]->stats[q];
      s.busy += x->busy;
      s.stalled += x->stalled;
      s.commands += x->commands;
      s.bytes += x->bytes;
    }
    all += s.busy;
    n = append(n, "%s\"%s\": {\"busy\": %llu, \"stalled\": %llu, \"commands\": %llu, \"bytes\": %llu, "
               "\"utilisation\": %.4f}", q ? ", " : "", vl_queue_name[q], (unsigned long long)s.busy,
               (unsigned long long)s.stalled, (unsigned long long)s.commands, (unsigned long long)s.bytes,
               elapsed ? (double)s.busy / ((double)elapsed * VL_CORES) : 0.0);
  }
  for (int i = 0; i < VL_CORES; i++) {
    macs += cores[i]->macs;
    ideal += cores[i]->mma_ideal;
    conflicts += cores[i]->conflicts;
  }
  n = append(n, "}, \"overlap\": %.4f, \"macs\": %llu, \"mma_ideal\": %llu, \"mma_bound_share\": %.4f, \"bank_conflicts\": %llu, "
             "\"code\": %d, \"errors\": [",
             elapsed ? (double)all / ((double)elapsed * VL_CORES) : 0.0, (unsigned long long)macs,
             (unsigned long long)ideal, elapsed ? (double)ideal / VL_CORES / (double)elapsed : 0.0, (unsigned long long)conflicts, first_code);
  for (int i = 0; i < error_count; i++) n = append(n, "%s\"%s\"", i ? ", " : "", errors[i]);
  append(n, "]}");
}

const char *vendor_lib_report(void) { return report; }

int vendor_lib_launch(void (*kernel)(void *), void *arg) {
  const char *wanted = st_variant ? 0 : getenv("VL_ORDER");
  order = !wanted ? PROGRAM : wanted[0] == 'd' ? DMA_FIRST : wanted[0] == 'c' ? COMPUTE_FIRST : PROGRAM;
  if (st_variant) order = (enum order)(st_variant() % 3);
  entry = kernel;
  argument = arg;
  first_code = error_count = 0;
  elapsed = 0;
  char *stacks = malloc((size_t)VL_CORES * STACK);
  if (!stacks) abort();
  for (int i = 0; i < VL_CORES; i++) {
    cores[i] = make_core(i);
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = stacks + (size_t)i * STACK;
    contexts[i].uc_stack.ss_size = STACK;
    contexts[i].uc_link = &scheduler;
    makecontext(&contexts[i], start_core, 0);
  }
  for (;;) {
    int running = 0, waiting = 0;
    for (int i = 0; i < VL_CORES; i++) {
      vl_me = cores[i];
      if (!vl_me->finished) swapcontext(&scheduler, &contexts[i]);
      running += !cores[i]->finished;
      waiting += cores[i]->waiting;
    }
    if (!running) break;
    uint64_t last = 0;
    for (int i = 0; i < VL_CORES; i++) {
      if (cores[i]->finished) {
        for (int j = 0; j < VL_CORES; j++)
          if (cores[j]->waiting) {
            const command c = {.name = "vendor_lib_barrier", .line = cores[j]->barrier_line};
            vl_fail(E_DEADLOCK, &c, "core %d waits for core %d, which has ended", j, i);
            cores[j]->finished = 1;
          }
      }
      if (cores[i]->host > last) last = cores[i]->host;
    }
    for (int i = 0; i < VL_CORES; i++) {
      cores[i]->waiting = 0;
      cores[i]->host = last;
    }
    vl_next_epoch();
  }
  for (int i = 0; i < VL_CORES; i++)
    if (cores[i]->host > elapsed) elapsed = cores[i]->host;
  write_report();
  for (int i = 0; i < VL_CORES; i++) free_core(cores[i]);
  free(stacks);
  vl_reset_global();
  if (st_say) st_say(report);
  return first_code;
}
