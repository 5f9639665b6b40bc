// What a file asks about the card it runs on. It is judged with the answers of several (CUEMU_CARD: the value of __CUDA_ARCH__ of the
// card that answers): CUDA C++ programming guide, technical specifications per compute capability; the vendor's data sheets.
#pragma once
#include <initializer_list>
#include "runtime.h"

#ifndef CUEMU_CARD
#define CUEMU_CARD 900
#endif

namespace cuemu {
struct Card {
  int arch;
  const char* name;
  int processors, threads, blocks;  // threads and blocks of a multiprocessor
  size_t shared_optin, shared, memory, l2;
  int clock_khz, memory_khz, bus_bits;
};
constexpr Card kCards[] = {
    {750, "Tesla T4", 40, 1024, 16, 65536, 65536, 16ull << 30, 4u << 20, 1590000, 5001000, 256},
    {800, "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 14, 2048, 32, 166912, 167936, 10ull << 30, 5u << 20, 1410000, 1593000, 640},
    {860, "NVIDIA GeForce RTX 3090", 82, 1536, 16, 101376, 102400, 24ull << 30, 6u << 20, 1695000, 9751000, 384},
    {890, "NVIDIA GeForce RTX 4090", 128, 1536, 24, 101376, 102400, 24ull << 30, 72u << 20, 2520000, 10501000, 384},
    {900, "NVIDIA H100 80GB HBM3", 132, 2048, 32, 232448, 233472, 80ull << 30, 50u << 20, 1980000, 2619000, 5120},
    {1000, "NVIDIA B200", 148, 2048, 32, 232448, 233472, 180ull << 30, 126u << 20, 1965000, 3996000, 8192},
    {1200, "NVIDIA GeForce RTX 5090", 170, 1536, 24, 101376, 102400, 32ull << 30, 96u << 20, 2407000, 14001000, 512},
};
constexpr Card card_of(int arch) {
  for (const Card& card : kCards)
    if (card.arch == arch) return card;
  return kCards[4];
}
constexpr Card kCard = card_of(CUEMU_CARD);
}  // namespace cuemu

struct cudaDeviceProp {
  char name[256] = {};
  size_t totalGlobalMem = cuemu::kCard.memory, sharedMemPerBlock = 49152, totalConstMem = 65536;
  size_t sharedMemPerMultiprocessor = cuemu::kCard.shared, sharedMemPerBlockOptin = cuemu::kCard.shared_optin, reservedSharedMemPerBlock = 1024;
  size_t memPitch = 2147483647, textureAlignment = 512;
  int regsPerBlock = 65536, regsPerMultiprocessor = 65536, warpSize = 32;
  int maxThreadsPerBlock = 1024, maxThreadsDim[3] = {1024, 1024, 64}, maxGridSize[3] = {2147483647, 65535, 65535};
  int major = cuemu::kCard.arch / 100, minor = cuemu::kCard.arch / 10 % 10;
  int multiProcessorCount = cuemu::kCard.processors, maxThreadsPerMultiProcessor = cuemu::kCard.threads;
  int maxBlocksPerMultiProcessor = cuemu::kCard.blocks, l2CacheSize = static_cast<int>(cuemu::kCard.l2);
  int clockRate = cuemu::kCard.clock_khz, memoryClockRate = cuemu::kCard.memory_khz, memoryBusWidth = cuemu::kCard.bus_bits;
  int concurrentKernels = 1, asyncEngineCount = 3, unifiedAddressing = 1, managedMemory = 1, cooperativeLaunch = 1;
  int canMapHostMemory = 1, integrated = 0, ECCEnabled = 1, computeMode = 0, kernelExecTimeoutEnabled = 0;
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxBlockDimX = 2, cudaDevAttrMaxBlockDimY = 3, cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimX = 5, cudaDevAttrMaxGridDimY = 6, cudaDevAttrMaxGridDimZ = 7, cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10, cudaDevAttrMaxRegistersPerBlock = 12, cudaDevAttrClockRate = 13, cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMemoryClockRate = 36, cudaDevAttrGlobalMemoryBusWidth = 37, cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39, cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81, cudaDevAttrMaxRegistersPerMultiprocessor = 82, cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97, cudaDevAttrMaxBlocksPerMultiprocessor = 106,
};
static inline cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
static inline cudaError_t cudaSetDevice(int device) { return device ? cudaErrorInvalidValue : cudaSuccess; }
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device) return cudaErrorInvalidValue;
  *p = {};
  snprintf(p->name, sizeof p->name, "%s", cuemu::kCard.name);
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (device) return cudaErrorInvalidValue;
  const cudaDeviceProp p;
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
    case cudaDevAttrClockRate: *value = p.clockRate; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMemoryClockRate: *value = p.memoryClockRate; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(p.sharedMemPerMultiprocessor); break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
    case cudaDevAttrCooperativeLaunch: *value = p.cooperativeLaunch; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}
/// As far as threads, blocks and shared memory decide it; how many registers a kernel takes only the vendor's compiler knows.
template <class F> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int threads, size_t shared) {
  if (threads < 1 || threads > 1024) return cudaErrorInvalidValue;
  const int warps = (threads + 31) / 32;
  int most = cuemu::kCard.threads / (32 * warps);
  if (most > cuemu::kCard.blocks) most = cuemu::kCard.blocks;
  const size_t by_shared = cuemu::kCard.shared / (shared + 1024);
  if (static_cast<size_t>(most) > by_shared) most = static_cast<int>(by_shared);
  *blocks = most;
  return cudaSuccess;
}
template <class F> cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, F f, size_t shared = 0, int limit = 0) {
  *block = limit > 0 && limit < 1024 ? limit : 1024;
  int each = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, f, *block, shared);
  *grid = each * cuemu::kCard.processors;
  return cudaSuccess;
}
