/* The host's side of a kernel for a Sophgo chip here: Sophgo's functional model of the chip, its memory, and what the kernel leaves in it.
 *
 * The model is one per process. A call copies every tensor into its DDR between canaries, fills all local memory with NaN, runs the
 * kernel beside the clock of windows (clock.c), waits for both engines, looks at the canaries and at tensors that may not be written, and copies the results back.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tpu_kernel.h>
#include "chip.h"
#include "clock.h"

int cmodel_init(int node, unsigned long long bytes);
void set_cur_nodechip_idx(int node);
void *get_global_memaddr(int node);
void sg_start(void);
void load_lookup_tables(void);

enum { MOST = 512, GUARD = 4096, LANES = SG_CHIP_LANES, LANE = SG_CHIP_LANE, TEXT = 8192 };
static const unsigned long long DDR = 1ull << 30;

typedef struct { const char *name; char *host; size_t bytes, at; int written; } tensor;

static tensor tensors[MOST];
static int count;
static size_t used;
static char *memory;
static char report[TEXT];
static int errors;
static unsigned control; /* of the caller's arithmetic: the model flushes denormals and leaves the thread so */

static void say(const char *format, const char *name) {
  const size_t at = strlen(report);
  if (at + 500 < TEXT) {
    snprintf(report + at, TEXT - at, "%s\"", errors ? ", " : "");
    snprintf(report + strlen(report), TEXT - strlen(report), format, name);
    strcat(report, "\"");
  }
  errors++;
}

void clock_say(const char *text) { say("%s", text); }

/* The model has a thread per engine that asks for work without a pause, and so has whoever waits for them. One that has asked the same
 * mutex many times sleeps a little, or a few kernels on a few cores would take seconds for what takes milliseconds. */
static int release(pthread_mutex_t *m) {
  static __thread pthread_mutex_t *last;
  static __thread unsigned times;
  const int code = pthread_mutex_unlock(m);
  times = m == last ? times + 1 : 0;
  last = m;
  if (times > 64) nanosleep(&(struct timespec){0, 20000}, NULL);
  return code;
}

/* Some chips' models name their threads, which the child may not, and end where that fails. */
static int unnamed(pthread_t thread, const char *name) {
  (void)thread, (void)name;
  return 0;
}

/* puts `release` and `unnamed` where the model's library keeps the addresses of two functions of the C library */
static int quieten(struct dl_phdr_info *library, size_t size, void *unused) {
  (void)size, (void)unused;
  if (!strstr(library->dlpi_name, "libcmodel_")) return 0;
  const ElfW(Dyn) *d = NULL;
  for (int i = 0; i < library->dlpi_phnum; i++)
    if (library->dlpi_phdr[i].p_type == PT_DYNAMIC) d = (const void *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
  const ElfW(Rela) *jumps = NULL;
  const ElfW(Sym) *symbols = NULL;
  const char *names = NULL;
  size_t bytes = 0;
  for (; d && d->d_tag != DT_NULL; d++) {
    if (d->d_tag == DT_JMPREL) jumps = (const void *)d->d_un.d_ptr;
    if (d->d_tag == DT_PLTRELSZ) bytes = d->d_un.d_val;
    if (d->d_tag == DT_SYMTAB) symbols = (const void *)d->d_un.d_ptr;
    if (d->d_tag == DT_STRTAB) names = (const void *)d->d_un.d_ptr;
  }
  for (size_t i = 0; jumps && symbols && names && i < bytes / sizeof *jumps; i++) {
    const char *called = names + symbols[ELF64_R_SYM(jumps[i].r_info)].st_name;
    void **place = (void **)(library->dlpi_addr + jumps[i].r_offset);
    if (!strcmp(called, "pthread_mutex_unlock")) *place = (void *)release;
    if (!strcmp(called, "pthread_setname_np")) *place = (void *)unnamed;
  }
  return 1;
}

void sg_start(void) {
  if (memory) return;
  const unsigned caller = __builtin_ia32_stmxcsr();
  dl_iterate_phdr(quieten, NULL);
  if (cmodel_init(0, DDR)) abort();
  set_cur_nodechip_idx(0);
  memory = get_global_memaddr(0);
  used = GUARD;
  __builtin_ia32_ldmxcsr(caller);
}

/* a place in DDR with a canary around it; the kernel gets its address there */
static void *take(const char *name, char *host, size_t bytes, int written) {
  if (!count) report[0] = 0, errors = 0, control = __builtin_ia32_stmxcsr();
  sg_start();
  const size_t room = (bytes + GUARD - 1) / GUARD * GUARD;
  if (count == MOST || used + room + GUARD > DDR) {
    say("%s: more than the model's 1 GiB of DDR or 512 tensors", name);
    return (void *)(uintptr_t)tpu_global_mem_get_start_addr();
  }
  const size_t at = used;
  memset(memory + at - GUARD, 0xff, room + 2 * GUARD);
  if (host) memcpy(memory + at, host, bytes);
  tensors[count++] = (tensor){name, host, bytes, at, written};
  used += room + GUARD;
  return (void *)(uintptr_t)(tpu_global_mem_get_start_addr() + at);
}

void *sg_bind(const char *name, void *host, size_t bytes, int written) { return take(name, host, bytes, written); }
void *sg_workspace(const char *name, size_t bytes) { return take(name, NULL, bytes, 1); }

static int intact(size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if ((unsigned char)memory[i] != 0xff) return 0;
  return 1;
}

void sg_run(void (*kernel)(void *), void *args) {
  tpu_initialize();
  load_lookup_tables();
  /* NaN of every type, and no canary: what nothing wrote is told when it is stored outside a tensor, too */
  for (int lane = 0; lane < LANES; lane++) {
    uint32_t *word = tpu_local_mem_addr(lane, 0);
    for (int i = 0; i < LANE / 4; i++) word[i] = 0x7fc17fc1u;
  }
  clock_reset();
  kernel(args);
  if (clock_finish()) tpu_parallel_end();
  tpu_poll();
  __builtin_ia32_ldmxcsr(control);
  for (int i = 0; i < count; i++) {
    const tensor *t = &tensors[i];
    const size_t end = t->at + (t->bytes + GUARD - 1) / GUARD * GUARD + GUARD;
    if (!intact(t->at - GUARD, t->at) || !intact(t->at + t->bytes, end)) say("%s: written outside the tensor", t->name);
    if (t->host && !t->written && memcmp(memory + t->at, t->host, t->bytes)) say("%s: written, and only to be read", t->name);
    if (t->host && t->written) memcpy(t->host, memory + t->at, t->bytes);
  }
  count = 0, used = GUARD;
}

/* what the last call did that no kernel may do, as a JSON list */
const char *sg_report(void) {
  static char text[TEXT + 4];
  snprintf(text, sizeof text, "[%s]", report);
  return text;
}
