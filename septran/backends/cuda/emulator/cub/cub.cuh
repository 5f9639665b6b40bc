// Collectives of CUB (CCCL), told by its documentation: what a block's or a warp's threads do together. Those of a whole device
// (cub::DeviceReduce and the like) are kernels of a library and not here.
#pragma once
#include "block/block_exchange.cuh"
#include "block/block_load.cuh"
#include "block/block_radix_sort.cuh"
#include "block/block_reduce.cuh"
#include "block/block_scan.cuh"
#include "block/block_store.cuh"
#include "thread/thread_operators.cuh"
#include "util_type.cuh"
#include "warp/warp_reduce.cuh"
#include "warp/warp_scan.cuh"
