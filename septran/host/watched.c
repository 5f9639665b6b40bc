/* Calls a kernel in bursts with teams of different sizes, for ThreadSanitizer: usage watched PLAN.
 *
 * The OpenMP entry points that a kernel may need stand here on plain threads, because ThreadSanitizer does not see what
 * libgomp orders by futexes. Iterations are dealt in turn and nothing but what OpenMP promises orders two threads, so a
 * race between two iterations is one between two threads, however short they are. What is missing here does not
 * link, and is then not checked. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };
typedef unsigned long long ull;

/* ---- a team */

struct team {
  void (*work)(void *);
  void *data;
  int size;
  pthread_barrier_t meeting;
};
static int team_size = 2;
static _Thread_local struct team *mine; /* null outside a parallel region */
static _Thread_local int me;
static _Thread_local unsigned long singles;
static _Thread_local struct {
  long at, end, step, chunk;
} loop; /* this thread's next chunk */
static _Thread_local unsigned section, sections;
static pthread_mutex_t critical = PTHREAD_MUTEX_INITIALIZER, atomic_ = PTHREAD_MUTEX_INITIALIZER;

struct member {
  struct team *team;
  int number;
};
static void *member(void *arg) {
  struct member *m = arg;
  mine = m->team, me = m->number, singles = 0;
  mine->work(mine->data);
  return 0;
}
int omp_get_thread_num(void) { return me; }
int omp_get_num_threads(void) { return mine ? mine->size : 1; }
int omp_get_max_threads(void) { return team_size; }
int omp_get_num_procs(void) { return team_size; }
int omp_in_parallel(void) { return mine && mine->size > 1; }
void omp_set_num_threads(int n) { (void)n; }

void GOMP_parallel(void (*work)(void *), void *data, unsigned wanted, unsigned flags) {
  (void)flags;
  struct team *outer = mine, team = {.work = work, .data = data, .size = team_size};
  const int number = me;
  if (outer || wanted == 1) team.size = 1; /* a region in a region has one thread */
  if (wanted && (int)wanted < team.size) team.size = (int)wanted;
  pthread_barrier_init(&team.meeting, 0, (unsigned)team.size);
  struct member members[MOST];
  pthread_t threads[MOST];
  for (int i = 1; i < team.size; ++i) {
    members[i] = (struct member){&team, i};
    if (pthread_create(&threads[i], 0, member, &members[i])) _Exit(3);
  }
  mine = &team, me = 0, singles = 0;
  work(data);
  for (int i = 1; i < team.size; ++i) pthread_join(threads[i], 0);
  pthread_barrier_destroy(&team.meeting);
  mine = outer, me = number;
}
void GOMP_barrier(void) {
  if (mine) pthread_barrier_wait(&mine->meeting);
}
void GOMP_critical_start(void) { pthread_mutex_lock(&critical); }
void GOMP_critical_end(void) { pthread_mutex_unlock(&critical); }
void GOMP_critical_name_start(void **name) { (void)name, pthread_mutex_lock(&critical); }
void GOMP_critical_name_end(void **name) { (void)name, pthread_mutex_unlock(&critical); }
void GOMP_atomic_start(void) { pthread_mutex_lock(&atomic_); }
void GOMP_atomic_end(void) { pthread_mutex_unlock(&atomic_); }
bool GOMP_single_start(void) { return (int)(singles++ % (unsigned long)omp_get_num_threads()) == me; }

/* ---- loops */

static bool next_chunk(long *a, long *b) {
  const bool up = loop.step > 0;
  if (up ? loop.at >= loop.end : loop.at <= loop.end) return false;
  const long last = loop.at + loop.chunk * loop.step;
  *a = loop.at;
  *b = (up ? last > loop.end : last < loop.end) ? loop.end : last;
  loop.at += loop.chunk * loop.step * omp_get_num_threads();
  return true;
}
static bool begin_loop(long from, long to, long step, long chunk, long *a, long *b) {
  if (chunk < 1) chunk = 1;
  loop.at = from + me * chunk * step, loop.end = to, loop.step = step, loop.chunk = chunk;
  return next_chunk(a, b);
}
struct looped {
  void (*work)(void *);
  void *data;
  long from, to, step, chunk;
};
static void run_looped(void *p) {
  const struct looped *l = p;
  const long chunk = l->chunk < 1 ? 1 : l->chunk;
  loop.at = l->from + me * chunk * l->step, loop.end = l->to, loop.step = l->step, loop.chunk = chunk;
  l->work(l->data);
}
#define LOOP(kind)                                                                                               \
  bool GOMP_loop_##kind##_start(long f, long t, long s, long c, long *a, long *b) {                              \
    return begin_loop(f, t, s, c, a, b);                                                                         \
  }                                                                                                              \
  bool GOMP_loop_##kind##_next(long *a, long *b) { return next_chunk(a, b); }                                    \
  bool GOMP_loop_ull_##kind##_start(bool up, ull f, ull t, ull s, ull c, ull *a, ull *b) {                       \
    (void)up;                                                                                                    \
    return begin_loop((long)f, (long)t, (long)s, (long)c, (long *)a, (long *)b);                                 \
  }                                                                                                              \
  bool GOMP_loop_ull_##kind##_next(ull *a, ull *b) { return next_chunk((long *)a, (long *)b); }                  \
  void GOMP_parallel_loop_##kind(void (*work)(void *), void *data, unsigned n, long f, long t, long s, long c,   \
                                 unsigned flags) {                                                               \
    struct looped l = {work, data, f, t, s, c};                                                                  \
    GOMP_parallel(run_looped, &l, n, flags);                                                                     \
  }
LOOP(static)
LOOP(dynamic)
LOOP(guided)
LOOP(nonmonotonic_dynamic)
LOOP(nonmonotonic_guided)
#define RUNTIME(kind)                                                                                            \
  bool GOMP_loop_##kind##_start(long f, long t, long s, long *a, long *b) {                                      \
    return begin_loop(f, t, s, 1, a, b);                                                                         \
  }                                                                                                              \
  bool GOMP_loop_##kind##_next(long *a, long *b) { return next_chunk(a, b); }                                    \
  void GOMP_parallel_loop_##kind(void (*work)(void *), void *data, unsigned n, long f, long t, long s,           \
                                 unsigned flags) {                                                               \
    struct looped l = {work, data, f, t, s, 1};                                                                  \
    GOMP_parallel(run_looped, &l, n, flags);                                                                     \
  }
RUNTIME(runtime)
RUNTIME(maybe_nonmonotonic_runtime)
RUNTIME(nonmonotonic_runtime)
void GOMP_loop_end(void) { GOMP_barrier(); }
void GOMP_loop_end_nowait(void) {}

/* ---- sections */

unsigned GOMP_sections_next(void) {
  const unsigned found = section;
  section += (unsigned)omp_get_num_threads();
  return found <= sections ? found : 0;
}
unsigned GOMP_sections_start(unsigned count) {
  section = (unsigned)me + 1, sections = count;
  return GOMP_sections_next();
}
void GOMP_sections_end(void) { GOMP_barrier(); }
void GOMP_sections_end_nowait(void) {}
struct sectioned {
  void (*work)(void *);
  void *data;
  unsigned count;
};
static void run_sectioned(void *p) {
  const struct sectioned *s = p;
  section = (unsigned)me + 1, sections = s->count;
  s->work(s->data);
}
void GOMP_parallel_sections(void (*work)(void *), void *data, unsigned n, unsigned count, unsigned flags) {
  struct sectioned s = {work, data, count};
  GOMP_parallel(run_sectioned, &s, n, flags);
}

/* ---- the bursts; septran/verify/races.py writes the plan */

void ENTRY(void *const *args);
enum { PARAMS, CASES, BURSTS, CALLS, MILLISECONDS, THREADS, HEAD };

static double worked(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
static void take(FILE *file, void *to, size_t bytes) {
  if (fread(to, 1, bytes, file) != bytes) _Exit(4);
}
int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : 0;
  uint64_t head[HEAD];
  if (!file) _Exit(4);
  take(file, head, sizeof head);
  const uint64_t n = head[PARAMS];
  uint64_t(*row)[2] = malloc(n * sizeof *row); /* bytes, whether it is read */
  void **args = malloc(n * sizeof *args);
  char **held = malloc(n * head[CASES] * sizeof *held);
  take(file, row, n * sizeof *row);
  for (uint64_t i = 0; i < n; ++i) args[i] = aligned_alloc(4096, (row[i][0] + 4095) / 4096 * 4096 + 4096);
  for (uint64_t c = 0; c < head[CASES]; ++c)
    for (uint64_t i = 0; i < n; ++i) {
      held[c * n + i] = row[i][1] ? malloc(row[i][0] + 1) : 0;
      if (row[i][1]) take(file, held[c * n + i], row[i][0]);
    }
  fclose(file);
  long calls = 0;
  for (uint64_t b = 0; b < head[BURSTS]; ++b) {
    const uint64_t most = head[THREADS] < MOST ? head[THREADS] : MOST;
    team_size = 2 + (int)(b % (most - 1));
    const double start = worked();
    for (uint64_t k = 0; k < head[CALLS]; ++k, ++calls) {
      if (k && worked() - start > (double)head[MILLISECONDS] / (double)head[BURSTS]) break;
      for (uint64_t i = 0; i < n; ++i)
        if (row[i][1]) memcpy(args[i], held[(b + k) % head[CASES] * n + i], row[i][0]);
      ENTRY(args);
    }
  }
  printf("\nwatched %ld calls\n", calls);
  return 0;
}
