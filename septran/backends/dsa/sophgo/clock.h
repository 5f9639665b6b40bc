/* The clock of windows (clock.c): told every command (calls.c), it tells what is wrong by clock_say. */
#ifndef SG_CLOCK_H
#define SG_CLOCK_H
#include <stdint.h>
enum { CLOCK_DMA, CLOCK_COMPUTE };
void clock_say(const char *text);
void clock_reset(void);
int clock_begin(void);   /* 0: a window is open already */
int clock_end(void);     /* 0: none is open */
int clock_finish(void);  /* the kernel has ended; 1: in a window */
void clock_command(int engine, const char *name); /* what is touched next is by this command */
void clock_touch(int write, int lane, int lanes, int64_t low, int64_t high);
void clock_tensor(int write, int64_t address, int64_t lane_bytes, const int shape[4], const int stride[4], int size);
#endif
