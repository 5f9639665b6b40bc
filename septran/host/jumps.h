/* Inputs at which a result jumps: what decides without a comparison (a table that a sum is looked up in, a sign bit that is shifted out, a
 * mask of vectors, an exponential of a square). Inputs go along a line in many small steps, sums of them with it; a step at which a result
 * leaves the straight line through its last two values is kept, with the step before. Honest results jump, too: it only brings inputs.
 * Part of sought.c; docs/verification.md, "Inputs that are sought". */

enum { WALKS = 6, PAIRS_OF_WALK = 2, PAIRS = 6, STEPS = 2048, FEWEST_STEPS = 24 };
enum { SHIFTED, SHIFTED_FAR, RAMP, SCALED, ONE_ELEMENT, SHIFTED_ONE };
struct walk {
  int kind;
  size_t first, count, element; /* which elements go */
  double spread, phase;         /* of what they are; where the first step lies within a step */
  const char *from;
  uint64_t steps;
};
struct jump {
  double size;
  struct walk walk;
  uint64_t step;
};
static struct jump jumps[PAIRS + 1];
static size_t n_jumps;
static char *result_of[3]; /* of the last three steps */
static size_t result_bytes;

static double result_at(const struct param *p, const char *at, size_t i) {
  const struct param alone = {.kind = p->kind, .count = p->bytes};
  return get_as(&alone, at, i);
}
static void take_results(char *to) {
  for (uint64_t i = 0; i < n_params; ++i)
    if (!params[i].read) memcpy(to, args[i], params[i].bytes), to += params[i].bytes;
}
/* How far a call's results lie from where the two before them point, of the largest of them; whether they are numbers at all counts most. */
static double left_the_line(const char *now_at, const char *last_at, const char *before_at) {
  double off = 0, large = DBL_MIN;
  for (uint64_t i = 0; i < n_params; ++i) {
    const struct param *p = &params[i];
    if (p->read || p->kind == FIXED) continue;
    for (size_t e = 0; e < p->bytes / unit_of[p->kind]; ++e) {
      const double x = result_at(p, now_at, e), y = result_at(p, last_at, e), z = result_at(p, before_at, e);
      if (!isfinite(x) || !isfinite(y) || !isfinite(z)) {
        if (isfinite(x) != isfinite(y)) off = DBL_MAX;
        continue;
      }
      const double d = fabs(x - 2 * y + z);
      if (d > off) off = d;
      if (fabs(y) > large) large = fabs(y);
    }
    now_at += p->bytes, last_at += p->bytes, before_at += p->bytes;
  }
  return off / large;
}
/* Put the inputs of a step of a walk into `now`. */
static void stand(const struct walk *w, uint64_t step) {
  const double u = ((double)step + w->phase) / (double)w->steps, t = 2 * u - 1; /* 0 to 1, and -1 to 1 */
  memcpy(now, w->from, set_bytes);
  const size_t end = w->kind == ONE_ELEMENT ? w->element + 1 : w->first + w->count;
  for (size_t e = w->kind == ONE_ELEMENT ? w->element : w->first; e < end; ++e) {
    const double x = get(now, e);
    double to = x;
    switch (w->kind) {
      case RAMP: { /* each element another number, up and down again */
        const double at = fmod(0.6180339887498949 * (double)(e - w->first) + u, 1);
        to = 16 * (at < 0.5 ? 2 * at : 2 - 2 * at) - 8;
        break;
      }
      case SCALED: to = x * exp2(6 * u - 3); break;
      case ONE_ELEMENT: to = 8 * t; break;
      default: to = x + t * w->spread; break;
    }
    put(now, e, to);
  }
}
static void keep_jump(const struct walk *w, uint64_t step, double size) {
  size_t mine = 0, least = n_jumps;
  for (size_t i = 0; i < n_jumps; ++i) {
    if (jumps[i].walk.kind != w->kind || jumps[i].walk.first != w->first) continue;
    if (jumps[i].walk.phase == w->phase && step - jumps[i].step <= 2) { /* the same one, or just behind it */
      if (size > jumps[i].size) jumps[i].size = size, jumps[i].step = step;
      return;
    }
    ++mine;
    if (least == n_jumps || jumps[i].size < jumps[least].size) least = i;
  }
  if (mine < PAIRS_OF_WALK) {
    if (n_jumps == PAIRS) {
      for (size_t i = least = 0; i < n_jumps; ++i)
        if (jumps[i].size < jumps[least].size) least = i;
    } else
      least = n_jumps++, jumps[least].size = -1;
  }
  if (size > jumps[least].size) jumps[least] = (struct jump){.size = size, .walk = *w, .step = step};
}
static void go(struct walk *w, double end) {
  for (uint64_t step = 0; step < w->steps && worked() < end; ++step) {
    stand(w, step);
    call(SEEKING);
    char *oldest = result_of[2];
    result_of[2] = result_of[1], result_of[1] = result_of[0], result_of[0] = oldest;
    take_results(oldest);
    if (step < 2) continue;
    const double size = left_the_line(result_of[0], result_of[1], result_of[2]);
    if (size > 1e-3) keep_jump(w, step, size);
  }
}
/* Walk until the time is over, and keep the inputs at both sides of the largest jumps. */
static void find_jumps(const char *from, double milliseconds) {
  result_bytes = 0, n_jumps = 0;
  for (uint64_t i = 0; i < n_params; ++i)
    if (!params[i].read) result_bytes += params[i].bytes;
  for (int k = 0; k < 3; ++k) result_of[k] = realloc(result_of[k], result_bytes + 1);
  memcpy(now, from, set_bytes);
  const double begun = worked(), end = begun + milliseconds;
  for (int k = 0; k < 4; ++k) call(KNOWN);
  const double once = (worked() - begun) / 4 + 1e-4;
  for (unsigned round = 0; worked() < end; ++round) {
    const unsigned kinds = in_process ? 3 : WALKS;
    struct walk w = {.kind = (int)(round % kinds), .count = elements, .element = below(elements), .phase = unit(), .from = from};
    if (in_process) w.kind = (int[]){RAMP, SHIFTED, SCALED}[w.kind];
    const struct param *p = param_of(w.element);
    if (w.kind == SHIFTED_ONE) w.first = p->first, w.count = p->count;
    w.spread = w.kind == SHIFTED_FAR ? 2 : 6 / sqrt((double)w.count);
    const double steps = milliseconds / once / kinds;
    w.steps = steps < FEWEST_STEPS ? FEWEST_STEPS : steps < STEPS ? (uint64_t)steps : STEPS;
    go(&w, end);
  }
  for (size_t i = 0; i < n_jumps; ++i)
    for (uint64_t back = 0; back < 2; ++back) {
      stand(&jumps[i].walk, jumps[i].step - back);
      call(KNOWN);
      keep(JUMPED);
    }
}
