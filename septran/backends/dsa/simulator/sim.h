/* Internals of the simulator: commands, per-core state, happens-before cells. */
#ifndef VL_SIM_H
#define VL_SIM_H
#include "vendor_lib.h"
#include "vl_config.h"

enum { GRAIN = 4, MAX_ERRORS = 16, MAX_TENSORS = 1024, MOST_PENDING = 1 << 14, MOST_GIVEN = 32, RANK = 7 };

/* codes of vendor_lib_launch */
enum { E_ARGUMENT = 2, E_OVERFLOW = 3, E_ALIGN = 4, E_HAZARD = 5, E_UNINIT = 6, E_EVENT = 7,
       E_DEADLOCK = 8, E_RACE = 9, E_BOUNDS = 10, E_UNFINISHED = 11 };

typedef enum { K_COPY, K_FILL, K_MMA, K_BINARY, K_SCALAR, K_SCALAR_R, K_UNARY, K_SELECT, K_INDEX,
               K_REDUCE, K_TRANSPOSE, K_SET, K_WAIT } kind;

typedef struct {
  kind what;
  const char *name;
  int line, op, event;
  vl_queue queue, from, to;
  uint32_t flags;
  double scalar;
  int64_t base, by_row, by_col;
  vl_tile d, a, b, c;
} command;

/* Who touched GRAIN bytes of local memory last: sequence numbers on queues and source lines. */
typedef struct {
  uint32_t written, read[VL_QUEUES];
  uint16_t write_line, read_line[VL_QUEUES];
  uint8_t writer, set;
} cell;

typedef struct {
  uint8_t posted;
  uint32_t clock[VL_QUEUES];
  uint32_t last_wait; /* sequence number on the receiving queue */
  uint64_t time;
  int line;
} event_state;

typedef struct {
  command *list;
  size_t head, count, room;
} fifo;

/* What a leaf was given: places in bytes, outermost dimension first, the last one without gaps. */
typedef struct {
  vl_space space;
  uint64_t addr, n[RANK], step[RANK], reach[RANK]; /* reach: bytes from the first to behind the last of a dimension's element */
  int rank, writable;
} given_view;

typedef struct {
  uint64_t ready, done, busy, stalled, commands, bytes;
} queue_stats;

typedef struct {
  int id, finished, waiting, barrier_line;
  uint8_t *spad, *acc;
  cell *spad_cells, *acc_cells;
  uint32_t clock[VL_QUEUES][VL_QUEUES]; /* clock[q][p]: how much of p is known to be done before q */
  uint32_t drained[VL_QUEUES];
  int last_line[VL_QUEUES];
  event_state events[VL_QUEUES][VL_QUEUES][VL_EVENTS];
  uint8_t ran_posted[VL_QUEUES][VL_QUEUES][VL_EVENTS];
  fifo pending[VL_QUEUES];
  queue_stats stats[VL_QUEUES];
  uint64_t host, conflicts, macs, mma_ideal;
  given_view given[MOST_GIVEN];
  int given_count;
} core;

extern core *vl_me;
extern const char *const vl_queue_name[VL_QUEUES];
extern const char *const vl_space_name[3];

size_t vl_size(vl_dtype t);
uint8_t *vl_at(const vl_tile *t);
void vl_fail(int code, const command *c, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void vl_run(const command *c);        /* sim_run.c: the arithmetic */
double vl_get(const vl_tile *t, int64_t r, int64_t c);
void vl_told(const command *c);       /* sim_told.c, where inputs are sought: what it is about to compare */
#define VL_TOLD (1ull << 47)          /* a place that is a line of the kernel: line << 20 and which of its comparisons */
int vl_check(const command *c);       /* sim_check.c: shapes, places, hazards; 0 = do not run */
uint64_t vl_cost(const command *c);   /* sim_cost.c: cycles the queue is occupied */
uint64_t vl_latency(const command *c);
uint64_t vl_bytes(const command *c);
int vl_operands(const command *c, const vl_tile **tiles, int *writes, const char **names);
void vl_reset_cells(core *m);
void vl_reset_global(void);
void vl_next_epoch(void);
#endif
