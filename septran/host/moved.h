/* Calls in other surroundings: the same inputs, with tensors, stack and allocations elsewhere, so that what a kernel makes of an
 * address shows. Part of host.c, whose memory and registers it uses; docs/verification.md, "Other surroundings". */

enum { POOLS = 3, SHIFTS = 16, SEEN = 48, DEEP = 262144 };
static char *pool[POOLS];
static uint64_t seen[SEEN];
static int seen_count;

/* Room for all tensors at three distant places: where a loader maps libraries, where a program's heap lies, and below 2^32. */
static void make_pools(void) {
  static const uint64_t at[POOLS] = {0, 0x555560000000, 0x10000000};
  size_t bytes = 0;
  for (uint64_t i = 0; i < plan[PARAMS]; ++i) bytes += up(row(0, i)[BYTES], PAGE) + (SHIFTS + 2) * PAGE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  for (int k = 0; k < POOLS; ++k) {
    /* where something lies there already, the system takes another place */
    pool[k] = mmap((void *)at[k], bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (pool[k] == MAP_FAILED) _exit(15);
  }
}

/* A place in the page: as the round goes up each one comes up once before any comes up twice. */
static size_t lead(uint64_t round, uint64_t odd, size_t unit) {
  const uint64_t places = PAGE / unit;
  return places ? round * (odd | 1) % places * unit : 0;
}

/* Where the tensors lie in this call: one after another without a gap or nearly so, far apart, all at one place in their pages, or as
 * allocators place them; in the order of the parameters or the other way round. */
static void lay_out(uint64_t number, uint64_t seed, void **args) {
  const uint64_t kind = number % 4, round = number / 4, draw = mix(seed + number), count = plan[PARAMS];
  const int backwards = (number ^ round ^ seed) & 1; /* of two calls that follow each other one: few calls see both orders */
  const uint64_t home = draw % POOLS;
  size_t begin = 0;
  char *next = pool[home] + (draw >> 16) % SHIFTS * PAGE;
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t i = backwards ? count - 1 - k : k, own = mix(draw + i), fixed = mix(seed ^ i);
    const size_t bytes = row(0, i)[BYTES], unit = row(0, i)[UNIT];
    if (kind == 0) {
      if (!k) next += lead(round, fixed, unit);
      char *p = (char *)up((size_t)next, unit);
      args[i] = p;
      next = p + bytes + (own & 1 ? 0 : (own >> 1) % 8 * unit);
      continue;
    }
    char *base = pool[kind == 1 ? (home + k) % POOLS : home] + begin + (own >> 16) % SHIFTS * PAGE;
    size_t first = lead(round, kind == 1 ? fixed : seed, unit);
    if (kind == 3) first = up((own >> 24) % (PAGE / LINE) * LINE, unit);
    args[i] = base + first;
    begin += up(bytes, PAGE) + (SHIFTS + 2) * PAGE;
  }
}

/* What the floating-point unit is found in: flags of earlier arithmetic, flushed denormals, and another rounding mode where asked for. */
static uint64_t enter_unit(uint64_t number, uint64_t draw, uint64_t how) {
  uint64_t changed = 0;
#ifdef __x86_64__
  unsigned word = 0x1f80 | (draw & 1 ? draw >> 1 & 0x3f : 0);
  unsigned short x87 = 0x037f;
  if (how & VARY_UNIT && number % 4 == 1) {
    const unsigned mode = 1 + number / 4 % 3;
    word |= mode << 13, x87 |= mode << 10, changed = VARY_UNIT;
  }
  if (number % 8 == 3) word |= 0x8040, changed = VARY_UNIT;
  __asm__ volatile("fldcw %0" : : "m"(x87));
  _mm_setcsr(word);
#else
  (void)number, (void)draw, (void)how;
#endif
  return changed;
}

static __attribute__((noinline)) void enter_deeper(void *const *args, size_t bytes) {
  char *below = __builtin_alloca(bytes + 1);
  __asm__ volatile("" : : "r"(below) : "memory");
  st_entry(args);
  __asm__ volatile("" : : "r"(below) : "memory"); /* not a last call, which would take the stack back */
}

static void moved_call(uint64_t number, uint64_t seed, uint64_t how, void *const *args) {
  const uint64_t draw = mix(seed - number);
  for (uint64_t t = 0; t < plan[THREADS]; ++t) heap[t].crooked = draw | 1;
  const size_t deeper = number / 4 % (PAGE / GRAIN) * GRAIN + (number % 8 == 5 ? DEEP : 0);
  ++calls;
  overwrite_stack(SHALLOW);
  control[ENVIRONMENT] = enter_unit(number, draw, how);
  if (how & VARY_LEVEL && number % 2) {
    /* in a region of all threads: those that a smaller one leaves out would end, and new ones cannot begin here */
#pragma omp parallel num_threads(plan[THREADS])
#pragma omp master
    enter_deeper(args, deeper);
  } else
    enter_deeper(args, deeper);
  reset_registers();
  for (uint64_t t = 0; t < plan[THREADS]; ++t) {
    heap[t].crooked = 0;
    if (!st_foreign) heap[t].used = heap[t].last = 0;
  }
}

/* Calls from VARIANT to COUNT, up to the first whose outputs are others than those that lie at the first placement and than those
 * that were told before: its number goes to RECEIPT, its outputs to the second placement. */
static void moved(void) {
  void *args[MAX_PARAMS];
  const uint64_t count = control[COUNT], how = control[WITHOUT], seed = control[SEED];
  uint64_t number = control[VARIANT];
  if (!number) seen_count = 0;
  in_slot = 0;
  for (; number < count; ++number) {
    lay_out(number, seed, args);
    for (uint64_t i = 0; i < plan[PARAMS]; ++i)
      if (source[i]) memcpy(args[i], source[i], row(0, i)[BYTES]); /* read and written */
      else if (row(0, i)[KIND]) memset(args[i], POISON, row(0, i)[BYTES]);
      else memcpy(args[i], place[0][i], row(0, i)[BYTES]);
    moved_call(number, seed, how, args);
    uint64_t h = 0;
    int other = 0;
    for (uint64_t i = 0; i < plan[PARAMS]; ++i) {
      const size_t bytes = row(0, i)[BYTES];
      const int differs = memcmp(args[i], place[0][i], bytes) != 0;
      other |= differs;
      if (differs) h = digest(args[i], bytes, h + i);
      if (differs && !row(0, i)[KIND]) control[ENVIRONMENT] |= INPUT_CHANGED;
    }
    for (int k = 0; other && k < seen_count; ++k) other = seen[k] != h;
    if (!other || seen_count == SEEN) continue;
    seen[seen_count++] = h;
    for (uint64_t i = 0; i < plan[PARAMS]; ++i)
      if (row(0, i)[KIND]) memcpy(place[1][i], args[i], row(0, i)[BYTES]);
    break;
  }
  control[RECEIPT] = number;
}
