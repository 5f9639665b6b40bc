/* Runs one kernel that nobody trusts: a static program without a loader, files, a clock, or system calls beyond
 * waiting. Usage: host CONTROL INPUTS OUTPUTS (descriptors). docs/verification.md, "The static host", says why.
 *
 * Nothing of the kernel runs before `confine`: its object holds one global name and no section that a start-up
 * routine reads (septran/host/object_gate.py). */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <omp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void st_entry(void *const *args); /* the kernel's; the linker knows it by another name */

enum { PAGE = 4096, MAX_THREADS = 1024, USES = 4, LINE = 64, GRAIN = 16, POISON = 0xFF, NUMBER = 0x4B, LITTLE = 0x02, LARGE = 0x7E, SHALLOW = 65536 };
static const size_t SCRATCH = ROOM_BYTES;
static const size_t HEAP = ROOM_BYTES;

static volatile uint64_t *control;
static uint64_t plan[CONTROL_BYTES / 8]; /* read once */
static char *text;
static char *place[MAX_PLACEMENTS][MAX_PARAMS];
static const char *source[MAX_PARAMS]; /* for the first placement */

struct block {
  char *base;
  size_t used, peak, last; /* last: the topmost block of a heap */
  uint64_t crooked;        /* of a heap: not 0 where blocks lie as crooked as C allows */
};
static struct block scratch[MAX_THREADS][USES];
static struct block heap[MAX_THREADS];
static int in_slot;
static uint64_t calls; /* judged ones */
static int tiles;
int st_tiles(void) { return tiles; } /* whether a kernel may use matrix tiles, asked for before the filter */

static const uint64_t *row(uint64_t placement, uint64_t param) {
  return plan + TABLE + (placement * MAX_PARAMS + param) * ROW;
}
/* Where a tensor lies in a call. What is read and written is filled first, unless there is no such window: then it keeps what it holds. */
static char *placed(uint64_t which, uint64_t i, uint64_t window) {
  const uint64_t *r = row(which, i);
  const int here = window < r[WINDOWS];
  if (which || !source[i]) return place[which][i] + (here ? window : 0) * STEP;
  if (here) memcpy(place[0][i], source[i] + window * STEP, r[BYTES]);
  return place[0][i];
}
static size_t up(size_t bytes, size_t unit) { return (bytes + unit - 1) & ~(unit - 1); }
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ x >> 27) * 0x94D049BB133111EBull;
  return x ^ x >> 31;
}

/* ---- memory, each block between pages that nobody may touch */

static char *guarded(size_t bytes, int rights, int flags, int fd, uint64_t at) {
  char *base = mmap(0, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) _exit(11);
  char *p = mmap(base + PAGE, bytes, rights, flags | MAP_FIXED, fd, (off_t)at);
  if (p == MAP_FAILED) _exit(12);
  return p;
}

/* The runtime's scratch call. `use` separates blocks. In judged calls a block ends where its pages end, so that an
 * overrun faults; in slots it begins at a page, as in a user's process. */
void *st_scratch(int use, size_t bytes) {
  struct block *b = &scratch[omp_get_thread_num()][use];
  if (use >= USES || bytes > SCRATCH) __builtin_trap();
  if (bytes > b->peak) b->peak = bytes;
  return in_slot ? b->base : b->base + SCRATCH - up(bytes, LINE);
}

/* Where a workspace begins: in judged calls it holds NaN, or in every second one ordinary numbers, so that reading what a
 * kernel before has left there shows. */
void st_fresh(void *p, size_t bytes) {
  if (!in_slot) memset(p, calls & 1 ? POISON : NUMBER, bytes);
}

/* What the next call finds where nobody wrote: NaN, ordinary numbers, next to nothing or very much with even bytes, so that a test on
 * it comes out one way in one call and the other way in another. */
static int unset(void) {
  static const unsigned char bytes[] = {POISON, NUMBER, LITTLE, LARGE};
  return in_slot ? POISON : bytes[calls % 4];
}

/* The kernel's own allocations: a stack of blocks per thread, taken back and overwritten after the call. Before each block stand
 * its size, what was used before it, the block below it, whether it was given back, and how it was taken. */
enum { SIZE = -1, BEFORE = -2, BELOW = -3, FREED = -4, HOW = -5, EDGE = 16 };
enum { BY_MALLOC, BY_NEW, BY_NEW_ARRAY }; /* how a block was taken: it is given back alike */
extern char st_foreign[] __attribute__((weak)); /* linked with a file that SepTran did not write: what it holds it keeps */
/* Of such a file: bytes behind each block that nobody may change, a block that is given back twice, and what lies in one afterwards. */
static void stop_unless(const struct block *h, int right) {
  if (!right) *(volatile char *)(h->base + HEAP) = 0; /* where nobody may store: the process ends as if the file had */
}
static void look_at_edge(const struct block *h, const size_t *block) {
  const unsigned char *edge = (const unsigned char *)block + block[SIZE];
  int right = 1;
  for (int k = 0; k < EDGE; ++k) right &= edge[k] == POISON;
  stop_unless(h, right);
}
static void spoil(const struct block *h, size_t *block, size_t kind) {
  stop_unless(h, !block[FREED] && block[HOW] == kind);
  look_at_edge(h, block);
  memset(block, POISON, block[SIZE]);
}
static size_t gap(struct block *h) { /* mostly short, so that many blocks take no more room */
  if (!h->crooked) return 0;
  const uint64_t draw = h->crooked = mix(h->crooked) | 1;
  return draw >> 32 & 7 ? (draw >> 8) % 4 : (draw >> 8) % 64;
}
static void *take(size_t unit, size_t bytes, size_t kind) {
  struct block *h = &heap[omp_get_thread_num()];
  if (unit < LINE) unit = h->crooked && unit <= GRAIN ? GRAIN : h->crooked ? unit : LINE;
  const size_t at = up(h->used + LINE, unit) + gap(h) * unit;
  if (bytes > HEAP || at + bytes + EDGE > HEAP) return 0;
  size_t *block = (size_t *)(h->base + at);
  block[SIZE] = bytes, block[BEFORE] = h->used, block[BELOW] = h->last, block[FREED] = 0, block[HOW] = kind;
  h->last = at;
  h->used = at + bytes + EDGE;
  if (st_foreign) memset(h->base + at + bytes, POISON, EDGE);
  if (h->used > h->peak) h->peak = h->used;
  return h->base + at;
}
void *st_malloc(size_t bytes) { return take(GRAIN, bytes, BY_MALLOC); }
void *st_aligned_alloc(size_t unit, size_t bytes) { return take(unit, bytes, BY_MALLOC); }
void *st_calloc(size_t n, size_t bytes) {
  void *p = bytes && n > HEAP / bytes ? 0 : take(GRAIN, n * bytes, BY_MALLOC);
  return p ? memset(p, 0, n * bytes) : 0;
}
static void give_back(void *p, size_t kind) { /* it is once all above it are, or after the call */
  struct block *h = &heap[omp_get_thread_num()];
  if (!p) return;
  if (st_foreign && (char *)p >= h->base && (char *)p < h->base + HEAP) spoil(h, p, kind);
  ((size_t *)p)[FREED] = 1;
  for (size_t *top; h->last && (top = (size_t *)(h->base + h->last))[FREED]; h->last = top[BELOW]) h->used = top[BEFORE];
}
void st_free(void *p) { give_back(p, BY_MALLOC); }
void *st_realloc(void *old, size_t bytes) {
  void *p = take(GRAIN, bytes, BY_MALLOC);
  if (p && old) memcpy(p, old, ((size_t *)old)[SIZE] < bytes ? ((size_t *)old)[SIZE] : bytes);
  if (p) st_free(old);
  return p;
}
int st_posix_memalign(void **out, size_t unit, size_t bytes) { return (*out = take(unit, bytes, BY_MALLOC)) ? 0 : ENOMEM; }
static void *take_or_stop(size_t unit, size_t bytes, size_t kind) {
  void *p = take(unit, bytes, kind);
  if (!p) __builtin_trap();
  return p;
}
/* C++'s operators new and delete, with and without alignment, for one and for many */
void *st__Znwm(size_t bytes) { return take_or_stop(GRAIN, bytes, BY_NEW); }
void *st__Znam(size_t bytes) { return take_or_stop(GRAIN, bytes, BY_NEW_ARRAY); }
void *st__ZnwmSt11align_val_t(size_t bytes, size_t unit) { return take_or_stop(unit, bytes, BY_NEW); }
void *st__ZnamSt11align_val_t(size_t bytes, size_t unit) { return take_or_stop(unit, bytes, BY_NEW_ARRAY); }
void st__ZdlPv(void *p) { give_back(p, BY_NEW); }
void st__ZdaPv(void *p) { give_back(p, BY_NEW_ARRAY); }
#define DELETE(name, as) void name(void *) __attribute__((alias(as)))
DELETE(st__ZdlPvm, "st__ZdlPv");
DELETE(st__ZdlPvSt11align_val_t, "st__ZdlPv");
DELETE(st__ZdlPvmSt11align_val_t, "st__ZdlPv");
DELETE(st__ZdaPvm, "st__ZdaPv");
DELETE(st__ZdaPvSt11align_val_t, "st__ZdaPv");
DELETE(st__ZdaPvmSt11align_val_t, "st__ZdaPv");
/* The block in which an address lies, and its bytes; of 0 the address up to which the heap is used. */
void *st_block(const void *p, size_t *bytes) {
  const struct block *h = &heap[omp_get_thread_num()];
  if (!p) return h->base + h->used;
  if ((const char *)p < h->base || (const char *)p >= h->base + h->used) return 0;
  for (size_t at = h->last; at; at = ((size_t *)(h->base + at))[BELOW]) {
    size_t *block = (size_t *)(h->base + at);
    if ((const char *)p >= (char *)block && (const char *)p < (char *)block + block[SIZE]) return *bytes = block[SIZE], block;
  }
  return 0;
}

/* What a file that SepTran did not write prints goes nowhere: there is no file to print to. */
int st_printf(const char *f, ...) { return (void)f, 0; }
int st___printf_chk(int n, const char *f, ...) { return (void)n, (void)f, 0; }
int st_fprintf(void *to, const char *f, ...) { return (void)to, (void)f, 0; }
int st___fprintf_chk(void *to, int n, const char *f, ...) { return (void)to, (void)n, (void)f, 0; }
int st_puts(const char *s) { return (void)s, 0; }
int st_putchar(int c) { return c; }
int st_fputs(const char *s, void *to) { return (void)s, (void)to, 0; }
int st_fputc(int c, void *to) { return (void)to, c; }
size_t st_fwrite(const void *p, size_t bytes, size_t n, void *to) { return (void)p, (void)bytes, (void)to, n; }
int st_fflush(void *to) { return (void)to, 0; }

/* What such a file runs when it is loaded (global objects) runs here, once the process is confined; the linker names both ends. */
typedef void initializer(int, char **, char **);
extern initializer *__start_st_init[] __attribute__((weak)), *__stop_st_init[] __attribute__((weak));
static void initialize(void) {
  char *nothing[] = {0};
  for (initializer **each = __start_st_init; each != __stop_st_init; ++each) (*each)(0, nothing, nothing);
}

/* What a simulator that is linked with the kernel has to say; claims, as from any child. */
void st_say(const char *words) {
  const size_t bytes = strnlen(words, TEXT_BYTES - 1);
  memcpy(text, words, bytes);
  text[bytes] = 0;
}

uint64_t st_variant(void) { return in_slot ? 0 : control[VARIANT]; }

/* A simulator's own clean-up after a judged call; its memory has been taken back. */
extern void st_after_call(void) __attribute__((weak));
extern void st_at_trap(int) __attribute__((weak)); /* a simulator's word for an instruction that there is not */

/* ---- the chain: a receipt that only the outputs of every call give */

enum { LANES = 64 };
typedef uint32_t word __attribute__((may_alias));

static uint64_t digest(const char *p, size_t bytes, uint64_t h) {
  uint32_t acc[LANES];
  for (int j = 0; j < LANES; ++j) acc[j] = (uint32_t)(h >> (j & 31)) ^ (uint32_t)j * 0x9E3779B1u;
  const word *w = (const word *)p;
  const size_t n = bytes / 4, odd = bytes % 4;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; ++j) acc[j] = acc[j] * 0x01000193u + (w[i + j] ^ w[i + j] >> 15);
  for (size_t j = 0; i + j < n; ++j) acc[j] = acc[j] * 0x01000193u + (w[i + j] ^ w[i + j] >> 15);
  if (odd) {
    uint32_t last = 0;
    memcpy(&last, p + 4 * n, odd);
    acc[LANES - 1] = acc[LANES - 1] * 0x01000193u + (last ^ last >> 15);
  }
  for (int j = 0; j < LANES; ++j) h = (h ^ acc[j]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
  return h;
}

/* ---- what a call may leave behind */

static __attribute__((noinline)) void overwrite_stack(size_t bytes) {
  char *below = __builtin_alloca(bytes);
  memset(below, unset(), bytes);
  __asm__ volatile("" : : "r"(below) : "memory");
}
#if defined(__x86_64__)
static inline void reset_registers(void) {
  _mm_setcsr(0x1f80);
  __asm__ volatile("fninit");
  if (tiles) __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0"); /* tilerelease: no kernel finds what another one left there */
#ifdef __AVX512F__
#define CLEAR(n) "vpxord %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"
  __asm__ volatile(CLEAR(16) CLEAR(17) CLEAR(18) CLEAR(19) CLEAR(20) CLEAR(21) CLEAR(22) CLEAR(23)
                   CLEAR(24) CLEAR(25) CLEAR(26) CLEAR(27) CLEAR(28) CLEAR(29) CLEAR(30) CLEAR(31)
                   "kxorw %%k0, %%k0, %%k0\n\tkxorw %%k1, %%k1, %%k1\n\tkxorw %%k2, %%k2, %%k2\n\t"
                   "kxorw %%k3, %%k3, %%k3\n\tkxorw %%k4, %%k4, %%k4\n\tkxorw %%k5, %%k5, %%k5\n\t"
                   "kxorw %%k6, %%k6, %%k6\n\tkxorw %%k7, %%k7, %%k7" ::
                       : "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",
                         "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7");
#endif
#ifdef __AVX__
  __asm__ volatile("vzeroall" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}
static uint64_t changed_environment(void) {
  const unsigned now = _mm_getcsr();
  unsigned short x87;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  const int traps = (now & 0x1f80) != 0x1f80 || (x87 & 0x3f) != 0x3f || (x87 & 0x0300) != 0x0300;
  return ((now & 0x6000) || (x87 & 0x0C00) ? 1 : 0) | (now & 0x8040 ? 2 : 0) | (traps ? 4 : 0);
}
#elif defined(__aarch64__)
#define CLEAR(n) "movi v" #n ".2d, #0\n\t"
static inline void reset_registers(void) {
  __asm__ volatile("msr fpcr, xzr\n\tmsr fpsr, xzr\n\t" CLEAR(0) CLEAR(1) CLEAR(2) CLEAR(3) CLEAR(4) CLEAR(5) CLEAR(6)
                   CLEAR(7) CLEAR(16) CLEAR(17) CLEAR(18) CLEAR(19) CLEAR(20) CLEAR(21) CLEAR(22) CLEAR(23) CLEAR(24)
                   CLEAR(25) CLEAR(26) CLEAR(27) CLEAR(28) CLEAR(29) CLEAR(30) CLEAR(31)::
                       : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22",
                         "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
static uint64_t changed_environment(void) {
  uint64_t now;
  __asm__ volatile("mrs %0, fpcr" : "=r"(now));
  return (now >> 22 & 3 ? 1 : 0) | (now >> 24 & 1 ? 2 : 0) | (now & 0x9f00 ? 4 : 0);
}
#elif defined(__riscv)
static inline void reset_registers(void) { __asm__ volatile("fscsr zero"); }
static uint64_t changed_environment(void) { /* denormals are never flushed there */
  uint64_t now;
  __asm__ volatile("frrm %0" : "=r"(now));
  return now ? 1 : 0;
}
#endif
/* All threads' blocks are overwritten as far as any thread's was used, so that resident memory does not depend on which
 * thread happened to work. */
static void take_back_heaps(void) {
  size_t peak = 0;
  for (uint64_t t = 0; t < plan[THREADS]; ++t) peak = heap[t].peak > peak ? heap[t].peak : peak;
  for (uint64_t t = 0; t < plan[THREADS]; ++t) {
    struct block *h = &heap[t];
    if (!st_foreign) h->used = h->last = 0;
    for (size_t at = h->last; at; at = ((size_t *)(h->base + at))[BELOW]) look_at_edge(h, (size_t *)(h->base + at));
    if (peak > h->used) memset(h->base + h->used, unset(), peak - h->used);
    h->peak = h->used;
  }
}
static void take_back_scratch(void) {
  for (int use = 0; use < USES; ++use) {
    size_t peak = 0;
    for (uint64_t t = 0; t < plan[THREADS]; ++t) peak = scratch[t][use].peak > peak ? scratch[t][use].peak : peak;
    peak = up(peak, LINE);
    for (uint64_t t = 0; t < plan[THREADS]; ++t) {
      struct block *b = &scratch[t][use];
      if (peak) memset(in_slot ? b->base : b->base + SCRATCH - peak, unset(), peak);
      b->peak = 0;
    }
  }
}
static void after_call(void) {
  uint64_t changed = 0;
#pragma omp parallel reduction(| : changed)
  {
    changed |= changed_environment();
    reset_registers();
    overwrite_stack(plan[DEPTH] << 10);
  }
  control[ENVIRONMENT] |= changed;
  take_back_scratch();
  take_back_heaps();
  if (st_after_call) st_after_call();
}

/* ---- the filter */

#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE(nr, error) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error)
#define OF_OTHERS(nr) (st_foreign ? nr : ~0u)

#ifdef ST_EMULATED /* the emulator, which knows no filters, is confined from outside */
static int confine(void) { return 0; }
static void drop_clock_pages(void) {}
#else
static int confine(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(__NR_rt_sigprocmask), /* a simulator's cores are contexts, whose switch sets the signals again */
      ALLOW(__NR_sched_yield), ALLOW(__NR_exit_group), ALLOW(__NR_exit), ALLOW(__NR_restart_syscall),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, st_after_call ? __NR_madvise : ~0u, 0, 4), /* a simulator gives stacks back */
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      /* an allocator that finds no more room is not an attack; brk says so by what it returns, an old end */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_brk, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
      REFUSE(__NR_mmap, ENOMEM),
      /* nor is a file of others that prints: there is no open file, and a stream that cannot write stays silent */
      REFUSE(OF_OTHERS(__NR_write), EBADF), REFUSE(OF_OTHERS(__NR_writev), EBADF), REFUSE(OF_OTHERS(__NR_lseek), EBADF),
      REFUSE(OF_OTHERS(__NR_newfstatat), EBADF), REFUSE(OF_OTHERS(__NR_fstat), EBADF),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_futex, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])), /* WAIT and WAKE only */
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~(unsigned)FUTEX_PRIVATE_FLAG),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, FUTEX_WAKE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* The kernel's pages of the system's own clock: read without a system call, so they are taken away. */
static void drop_clock_pages(void) {
  static char maps[65536];
  const int fd = open("/proc/self/maps", O_RDONLY);
  if (fd < 0) return;
  size_t have = 0;
  for (ssize_t n; have + 1 < sizeof maps && (n = read(fd, maps + have, sizeof maps - 1 - have)) > 0;) have += (size_t)n;
  close(fd);
  maps[have] = 0;
  for (char *line = strtok(maps, "\n"); line; line = strtok(0, "\n"))
    if (strstr(line, "[vvar") || strstr(line, "[vdso]")) {
      char *rest;
      const unsigned long from = strtoul(line, &rest, 16), to = strtoul(rest + 1, 0, 16);
      munmap((void *)from, to - from);
    }
}
#endif

/* ---- serving */

#include "settings.h"

static void wait_for_change(volatile uint32_t *word, uint32_t seen) {
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == seen) syscall(__NR_futex, word, FUTEX_WAIT, seen, 0, 0, 0);
}
static void ring(volatile uint32_t *word) {
  __atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
  syscall(__NR_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
}
static void one_call(void) {
  void *args[MAX_PARAMS];
  const uint64_t which = control[PLACEMENT] % MAX_PLACEMENTS;
  for (uint64_t i = 0; i < plan[PARAMS]; ++i) args[i] = placed(which, i, control[WINDOW + i]);
  in_slot = 0;
  ++calls;
  /* what the host's own calls have left right below here is a pattern, too, where variables nobody set would hold it */
  if (st_foreign) overwrite_stack(SHALLOW);
  const struct settings before = openmp_settings();
  st_entry(args);
  control[ENVIRONMENT] = settle_openmp(before); /* told first: with teams that shrank the host's own next one ends here */
  after_call();
}
static void slot(void) {
  void *args[MAX_PARAMS];
  uint64_t h = control[SEED];
  const uint64_t count = control[COUNT], without = control[WITHOUT];
  in_slot = 1;
  for (uint64_t n = 0; n < count; ++n) {
    for (uint64_t i = 0; i < plan[PARAMS]; ++i) {
      const uint64_t windows = row(0, i)[WINDOWS];
      const int keeps = source[i] && n % row(0, i)[EVERY];
      args[i] = placed(0, i, keeps ? ~0ull : windows > 1 ? (uint64_t)(((unsigned __int128)mix(h + i) * windows) >> 64) : 0);
    }
    if (!without) st_entry(args);
    reset_registers();
    for (uint64_t t = 0; t < plan[THREADS] && !st_foreign; ++t) heap[t].used = heap[t].last = 0;
    for (uint64_t i = 0; i < plan[PARAMS]; ++i)
      if (row(0, i)[KIND]) h = digest(place[0][i], row(0, i)[BYTES], h);
  }
  control[RECEIPT] = h;
  take_back_scratch();
  take_back_heaps();
}

#include "moved.h"

int main(int argc, char **argv) {
  if (argc != 4) _exit(10);
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#ifdef __x86_64__
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0); /* before the threads, which inherit it */
#endif
#if defined(__x86_64__) && !defined(ST_EMULATED)
  tiles = !syscall(__NR_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */);
#endif
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 4 << 20);
  free(malloc(1 << 20)); /* the C++ library's own (who unwinds the stack needs a little) comes from the same 4 MiB */
  control = (volatile uint64_t *)guarded(CONTROL_BYTES + TEXT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
  text = (char *)control + CONTROL_BYTES;
  memcpy(plan, (const void *)control, sizeof plan);
  if (plan[PARAMS] > MAX_PARAMS || plan[PLACEMENTS] > MAX_PLACEMENTS || plan[THREADS] > MAX_THREADS) _exit(13);
  for (uint64_t which = 0; which < plan[PLACEMENTS]; ++which)
    for (uint64_t i = 0; i < plan[PARAMS]; ++i) {
      const uint64_t *r = row(which, i);
      const int rights = r[KIND] ? PROT_READ | PROT_WRITE : PROT_READ;
      place[which][i] = guarded(r[PAGES], rights, MAP_SHARED, atoi(argv[r[KIND] ? 3 : 2]), r[OFFSET]) + r[LEAD];
      if (!which && r[SOURCE_PAGES]) source[i] = guarded(r[SOURCE_PAGES], PROT_READ, MAP_SHARED, atoi(argv[2]), r[SOURCE]);
    }
  const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  for (uint64_t t = 0; t < plan[THREADS]; ++t) {
    heap[t].base = guarded(HEAP, PROT_READ | PROT_WRITE, anonymous, -1, 0);
    for (int use = 0; use < USES; ++use) scratch[t][use].base = guarded(SCRATCH, PROT_READ | PROT_WRITE, anonymous, -1, 0);
  }
  if (plan[MOVES]) make_pools();
  omp_set_num_threads((int)plan[THREADS]);
#pragma omp parallel
  overwrite_stack(plan[DEPTH] << 10); /* the threads are there, and so are the pages that every call will touch */
  drop_clock_pages();
  syscall(__NR_close_range, 0, ~0u, 0);
  if (st_at_trap) signal(SIGILL, st_at_trap);
  control[READY] = confine() == 0 ? 1 : 2;
  if (control[READY] == 2) _exit(14);
  initialize();
  uint32_t seen = 0;
  volatile uint32_t *go = (volatile uint32_t *)(control + GO), *done = (volatile uint32_t *)(control + DONE);
  ring(done);
  for (;;) {
    wait_for_change(go, seen);
    seen = __atomic_load_n(go, __ATOMIC_ACQUIRE);
    if (control[ORDER] == 3)
      moved();
    else if (control[ORDER] == 2)
      slot();
    else
      one_call();
    ring(done);
  }
}
