// Launches and the few runtime calls a kernel file makes; limits are those of the real device.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include "intrinsics.h"

typedef int cudaError_t;
typedef void* cudaStream_t;
typedef void* cudaEvent_t;
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };

#ifndef SEPTRAN_SHARED_LIMIT
#define SEPTRAN_SHARED_LIMIT 232448  // sm_90: 227 KiB a block may opt in to
#endif

namespace cuemu {

struct Launch {
  dim3 grid, block;
  size_t shared;
  Launch(dim3 g, dim3 b, size_t s = 0, cudaStream_t = nullptr) : grid(g), block(b), shared(s) {}
};

template <class F, class... A> void launch(const char* name, Launch c, F f, A... a) {
  auto call = [&] { f(a...); };
  using Call = decltype(call);
  run_grid(name, c.grid, c.block, c.shared, [](void* p) { (*static_cast<Call*>(p))(); }, &call);
}

/// Run `kernel` with threads forward, reverse and shuffled; outputs that differ are a race. Later calls
/// run one order each, in turn. Float atomics may round differently, so they get a tolerance of none
/// but the verifier's.
template <class F> void in_every_order(std::initializer_list<Output> outputs, F kernel) {
  run_orders(outputs.begin(), outputs.size(), false, [](void* p) { (*static_cast<F*>(p))(); }, &kernel);
}

/// As in_every_order; before the first call all launches are also run with blocks that do not see each other.
template <class F> void in_every_order_and_block(std::initializer_list<Output> outputs, F kernel) {
  run_orders(outputs.begin(), outputs.size(), true, [](void* p) { (*static_cast<F*>(p))(); }, &kernel);
}

}  // namespace cuemu

static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
static inline const char* cudaGetErrorString(cudaError_t e) { return e ? "invalid argument" : "no error"; }
static inline cudaError_t cudaEventCreate(cudaEvent_t* e) { *e = nullptr; return cudaSuccess; }
static inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) { return cudaSuccess; }
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = static_cast<float>(cuemu::clock_now());
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
template <class T> cudaError_t cudaMalloc(T** p, size_t n) {
  *p = static_cast<T*>(cuemu::device_memory(n));
  return cudaSuccess;
}
static inline cudaError_t cudaFree(void* p) { cuemu::free_device_memory(p); return cudaSuccess; }
template <class T> cudaError_t cudaMallocAsync(T** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
static inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
static inline cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind) { memcpy(d, s, n); return cudaSuccess; }
static inline cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind, cudaStream_t = nullptr) {
  memcpy(d, s, n);
  return cudaSuccess;
}
static inline cudaError_t cudaMemset(void* d, int v, size_t n) { memset(d, v, n); return cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void* d, int v, size_t n, cudaStream_t = nullptr) { memset(d, v, n); return cudaSuccess; }
template <class F> cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int v) {
  cuemu::allow_dynamic_shared(static_cast<size_t>(v), SEPTRAN_SHARED_LIMIT);
  return cudaSuccess;
}
