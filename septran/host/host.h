/* What the parent writes and the static host reads: one file of 64-bit words, then the host's text for the parent.
 * septran/host/control.py has the same layout; a test compares the two. */
#ifndef SEPTRAN_HOST_H
#define SEPTRAN_HOST_H
#include <stdint.h>

enum {
  /* words */
  GO = 0,           /* doorbells: the low half changes, then a futex wake */
  DONE = 1,
  ORDER = 2,        /* 1 one call, 2 a slot of chained calls, 3 calls in other surroundings (moved.h) */
  PLACEMENT = 3,    /* one call: which placement */
  COUNT = 4,        /* slot: calls; moved: the number behind the last one */
  SEED = 5,         /* slot: start of the chain, known to nobody before */
  RECEIPT = 6,      /* slot: end of the chain; moved: the call that it ended at; from the host */
  WITHOUT = 7,      /* slot: everything but the kernel itself; moved: what varies besides places */
  READY = 8,        /* from the host: 1 confined, 2 the filter was refused */
  ENVIRONMENT = 9,  /* from the host after one call: 1 rounding, 2 denormals, 4 traps, or SETTINGS_LEFT; moved: what was another, or changed */
  THREADS = 10,
  PARAMS = 11,
  PLACEMENTS = 12,
  DEPTH = 13,       /* one call: KiB of stack that are overwritten after it */
  VARIANT = 14,     /* one call: what a simulator may do in several ways, it does in this one; moved: the first */
  MOVES = 15,       /* whether there is room for calls in other surroundings */
  WINDOW = 16,      /* one call: window of each parameter */
  TABLE = 528,      /* placements x MAX_PARAMS rows of ROW words */
  /* of a row */
  OFFSET = 0,       /* of its pages in its file */
  PAGES = 1,        /* bytes, a multiple of the page */
  LEAD = 2,         /* bytes before the tensor in its first page */
  BYTES = 3,        /* of the tensor */
  WINDOWS = 4,      /* so many places STEP bytes apart where the tensor may lie; 1 = one */
  KIND = 5,         /* 0 input, 1 output, or both */
  UNIT = 6,         /* what its address is a multiple of, a power of two */
  SOURCE = 7,       /* of what is both: the offset in the inputs' file of what it is filled with before a call, from one of WINDOWS places there */
  SOURCE_PAGES = 8, /* bytes of it; 0 = it is never filled */
  EVERY = 9,        /* calls of a slot from one filling to the next; between them it keeps what it holds */
  ROW = 10,
  /* moved: what varies, and what was seen */
  VARY_UNIT = 1,    /* the rounding mode; seen: that, or flushed denormals */
  VARY_LEVEL = 2,   /* whether the call is made inside of a parallel region */
  INPUT_CHANGED = 4,
  SETTINGS_LEFT = 8, /* one call: OpenMP's settings are others */
  /* sizes */
  MAX_PARAMS = 512,
  MAX_PLACEMENTS = 3,
  STEP = 64,
  CONTROL_BYTES = 131072,
  ROOM_BYTES = 268435456, /* for scratch and for allocations, per thread and use; untouched pages cost nothing */
  TEXT_BYTES = 65536, /* what a simulator says, from CONTROL_BYTES on, ended by a zero */
};
#endif
