// Launches and the few runtime calls a kernel file makes; limits are those of the real device.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include "intrinsics.h"

typedef int cudaError_t;
typedef int cudaError;
typedef void* cudaStream_t;
typedef void* cudaEvent_t;
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorInvalidConfiguration = 9, cudaErrorNotReady = 600 };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };

#ifndef SEPTRAN_SHARED_LIMIT
#define SEPTRAN_SHARED_LIMIT 232448  // sm_90: 227 KiB a block may opt in to
#endif

#ifdef CUEMU_STREAMS  // of a file that makes streams of its own
#include "streams.h"
#else
namespace cuemu {
template <class F> void on_stream(cudaStream_t, F work) { work(); }
inline void before_default() {}
inline void all_streams() {}
inline void end_streams() {}
}  // namespace cuemu
#endif

namespace cuemu {

struct Launch {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
  Launch(dim3 g, dim3 b, size_t s = 0, cudaStream_t at = nullptr) : grid(g), block(b), shared(s), stream(at) {}
  Launch bounded(size_t most) const {
    const size_t threads = size_t(block.x) * block.y * block.z;
    if (threads > most) fail("launch", "a block of %zu threads of a kernel whose __launch_bounds__ are %zu", threads, most);
    return *this;
  }
};

template <class A> void look_at_parameter(const A& a) {
  if constexpr (std::is_polymorphic_v<A>) fail("launch", "a parameter is an object with virtual functions, whose table is the host's");
#ifndef CUEMU_MANAGED  // variables that both sides reach
  if constexpr (std::is_pointer_v<A> && std::is_object_v<std::remove_pointer_t<A>>) pointer_parameter(const_cast<const void*>(static_cast<const volatile void*>(a)));
#endif
}

template <class F, class... A> void launch(const char* name, Launch c, F f, A... a) {
  (look_at_parameter(a), ...);
  on_stream(c.stream, [=] {
    auto call = [=] { f(a...); };
    using Call = decltype(call);
    parameters(&call, sizeof call);
    run_grid(name, c.grid, c.block, c.shared, [](void* p) { (*static_cast<Call*>(p))(); }, &call);
  });
}

/// Run `kernel` with threads forward, reverse and shuffled; outputs that differ are a race. Later calls
/// run one order each, in turn. Float atomics may round differently, so they get a tolerance of none
/// but the verifier's.
template <class F> void in_every_order(std::initializer_list<Output> outputs, F kernel) {
  run_orders(outputs.begin(), outputs.size(), false, [](void* p) { (*static_cast<F*>(p))(), end_streams(); }, &kernel);
}

/// As in_every_order; before the first call all launches are also run with blocks that do not see each other.
template <class F> void in_every_order_and_block(std::initializer_list<Output> outputs, F kernel) {
  run_orders(outputs.begin(), outputs.size(), true, [](void* p) { (*static_cast<F*>(p))(), end_streams(); }, &kernel);
}

}  // namespace cuemu

static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
static inline const char* cudaGetErrorString(cudaError_t e) { return e ? "invalid argument" : "no error"; }
static inline const char* cudaGetErrorName(cudaError_t e) { return e ? "cudaErrorInvalidValue" : "cudaSuccess"; }
#ifndef CUEMU_STREAMS
static inline cudaError_t cudaEventCreate(cudaEvent_t* e, unsigned = 0) { *e = nullptr; return cudaSuccess; }
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { *e = nullptr; return cudaSuccess; }
static inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) { return cudaSuccess; }
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = static_cast<float>(cuemu::clock_now());
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
#endif
template <class F> cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int v) {
  cuemu::allow_dynamic_shared(static_cast<size_t>(v), SEPTRAN_SHARED_LIMIT);
  return cudaSuccess;
}
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
template <class F> cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache) { return cudaSuccess; }
static inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
#include "memory.h"
