/* Machine facts of the default machine; a kernel's build puts its own copy, made from the
 * machine file, in front of this one. Bytes, elements and cycles. */
#ifndef VL_CONFIG_H
#define VL_CONFIG_H
#define VL_CORES 4
#define VL_SPAD_BYTES 524288
#define VL_SPAD_BANKS 16
#define VL_ACC_BYTES 131072
#define VL_ALIGN_BYTES 32
#define VL_MMA_ROWS 16
#define VL_MMA_COLS 16
#define VL_MMA_DEPTH 1
#define VL_MMA_PITCH 16
#define VL_VEC_BYTES 64
#define VL_EVENTS 64
#define VL_DMA_BYTES_PER_CYCLE 64
#define VL_DMA_LATENCY 200
#define VL_MMA_LATENCY 32
#define VL_VEC_LATENCY 8
#define VL_CLEAR_BYTES_PER_CYCLE 1024
#endif
