/* What a kernel may set for all OpenMP code of its process, torch's included, and leaves as it found it. Part of host.c. */

struct settings {
  int threads, dynamic, levels, chunk;
  omp_sched_t kind;
};
static struct settings openmp_settings(void) {
  struct settings now = {omp_get_max_threads(), omp_get_dynamic(), omp_get_max_active_levels(), 0, 0};
  omp_get_schedule(&now.kind, &now.chunk);
  return now;
}
/* Set them back; return the word for control[ENVIRONMENT] where they were others. */
static uint64_t settle_openmp(struct settings before) {
  const struct settings now = openmp_settings();
  omp_set_num_threads(before.threads);
  omp_set_dynamic(before.dynamic);
  omp_set_max_active_levels(before.levels);
  omp_set_schedule(before.kind, before.chunk);
  const int same = now.threads == before.threads && now.dynamic == before.dynamic && now.levels == before.levels;
  return same && now.kind == before.kind && now.chunk == before.chunk ? 0 : SETTINGS_LEFT;
}
