/* Which commands of a window may not run beside each other, told from the bytes that they read and write.
 *
 * Between tpu_parallel_start and tpu_parallel_end the chip's DMA and its computing engine run freely beside each other; each does
 * its own commands in order. The vendor's model runs the same window one command after the other, so a result says nothing
 * about it. Here every byte of local memory that a command of a window touches is held against what the other engine's commands
 * of the same window touch: where one of two writes, the window is refused. Lanes are exact, and so are rows, up to MOST in a window.
 */
#include <stdint.h>
#include <stdio.h>
#include "chip.h"
#include "clock.h"

enum { MOST = 16384, TOLD = 4, LANES = SG_CHIP_LANES };

typedef struct { int engine, command, write, lane, lanes; int64_t low, high; const char *name; } touch;

static touch touches[MOST];
static int count, open_, windows, command, engine, told;
static const char *name;

static void tell(const char *text) {
  if (told++ < TOLD) clock_say(text);
}

void clock_reset(void) { count = open_ = windows = command = told = 0; }

int clock_begin(void) {
  char text[160];
  if (open_) {
    snprintf(text, sizeof text, "window %d has no end: another begins in it", windows);
    tell(text);
    return 0;
  }
  open_ = 1, count = 0, command = 0, windows++;
  return 1;
}

int clock_end(void) {
  const int was = open_;
  if (!was) tell("the end of a window that has not begun");
  open_ = 0;
  return was;
}

int clock_finish(void) {
  char text[160];
  snprintf(text, sizeof text, "window %d has no end: the kernel ends in it", windows);
  if (open_) tell(text);
  return open_;
}

void clock_command(int of, const char *called) { engine = of, name = called, command++; }

static int lanes_meet(const touch *a, const touch *b) {
  return a->lane < b->lane + b->lanes && b->lane < a->lane + a->lanes;
}

void clock_touch(int write, int lane, int lanes, int64_t low, int64_t high) {
  char text[400];
  if (!open_) return;
  const touch now = {engine, command, write, lane, lanes, low, high, name};
  for (int i = 0; i < count; i++) {
    const touch *t = &touches[i];
    if (t->engine == engine || !(t->write || write) || t->high <= low || high <= t->low || !lanes_meet(t, &now)) continue;
    snprintf(text, sizeof text,
             "window %d: %s (command %d) %s bytes %lld to %lld of lanes %d to %d, which %s (command %d) %s, and nothing keeps the two apart",
             windows, name, command, write ? "writes" : "reads", (long long)low, (long long)high, lane, lane + lanes - 1, t->name,
             t->command, t->write ? "writes" : "reads");
    tell(text);
    break;
  }
  if (count == MOST) tell("a window has more commands than the clock holds");
  else touches[count++] = now;
}

/* what a tensor of rows on lanes takes up, from `address` on: shape and strides (in elements) of images, channels, rows and columns */
void clock_tensor(int write, int64_t address, int64_t lane_bytes, const int shape[4], const int stride[4], int size) {
  const int first = (int)(address / lane_bytes);
  const int64_t at = address % lane_bytes, wide = ((int64_t)(shape[3] - 1) * stride[3] + 1) * size;
  for (int line = 0; line * LANES < first + shape[1]; line++) {
    const int from = line ? 0 : first, to = first + shape[1] - line * LANES;
    const int lanes = (to < LANES ? to : LANES) - from;
    int64_t low = 0, high = -1;
    for (int n = 0; n < shape[0]; n++)
      for (int h = 0; h < shape[2]; h++) {
        const int64_t start = at + ((int64_t)n * stride[0] + (int64_t)line * stride[1] + (int64_t)h * stride[2]) * size;
        if (high < low) low = start, high = start + wide;
        else if (start >= low && start <= high) high = start + wide > high ? start + wide : high;
        else clock_touch(write, from, lanes, low, high), low = start, high = start + wide;
      }
    if (high > low && lanes > 0) clock_touch(write, from, lanes, low, high);
  }
}
