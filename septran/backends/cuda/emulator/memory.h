// Allocations, copies, and variables of device memory that the host sets by their names.
#pragma once
#include "runtime.h"

template <class T> cudaError_t cudaMalloc(T** p, size_t n) {
  *p = static_cast<T*>(cuemu::device_memory(n));
  cuemu::not_reached_by_host(*p);
  return cudaSuccess;
}
namespace cuemu {
template <class T> cudaError_t memory_of_both(T** p, size_t n) {
  *p = static_cast<T*>(device_memory(n));
  return cudaSuccess;
}
}  // namespace cuemu
/// Waits for the whole device, as the driver does.
static inline cudaError_t cudaFree(void* p) {
  cuemu::all_streams();
  cuemu::free_device_memory(p);
  return cudaSuccess;
}
template <class T> cudaError_t cudaMallocAsync(T** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
static inline cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  cuemu::on_stream(s, [=] { cuemu::free_device_memory(p); });
  return cudaSuccess;
}
enum { cudaMemAttachGlobal = 1, cudaMemAttachHost = 2 };
enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4 };
template <class T> cudaError_t cudaMallocManaged(T** p, size_t n, unsigned = cudaMemAttachGlobal) { return cuemu::memory_of_both(p, n); }
template <class T> cudaError_t cudaMallocHost(T** p, size_t n, unsigned = 0) { return cuemu::memory_of_both(p, n); }
template <class T> cudaError_t cudaHostAlloc(T** p, size_t n, unsigned) { return cuemu::memory_of_both(p, n); }
static inline cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
/// Rows begin at multiples of 512 bytes.
template <class T> cudaError_t cudaMallocPitch(T** p, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(p, *pitch * height);
}

static inline cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind kind, cudaStream_t at = nullptr) {
  cuemu::check_copy(d, s, kind);
  cuemu::on_stream(at, [=] { cuemu::move_bytes(d, s, n); });
  return cudaSuccess;
}
static inline cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind kind) { return cudaMemcpyAsync(d, s, n, kind); }
static inline cudaError_t cudaMemsetAsync(void* d, int v, size_t n, cudaStream_t at = nullptr) {
  cuemu::on_stream(at, [=] { cuemu::fill_bytes(d, v, n); });
  return cudaSuccess;
}
static inline cudaError_t cudaMemset(void* d, int v, size_t n) { return cudaMemsetAsync(d, v, n); }
static inline cudaError_t cudaMemcpy2DAsync(void* d, size_t to, const void* s, size_t from, size_t width, size_t height, cudaMemcpyKind kind,
                                            cudaStream_t at = nullptr) {
  if (width > to || width > from) return cudaErrorInvalidValue;
  cuemu::check_copy(d, s, kind);
  cuemu::on_stream(at, [=] {
    for (size_t i = 0; i < height; i++) cuemu::move_bytes(static_cast<char*>(d) + i * to, static_cast<const char*>(s) + i * from, width);
  });
  return cudaSuccess;
}
static inline cudaError_t cudaMemcpy2D(void* d, size_t to, const void* s, size_t from, size_t width, size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2DAsync(d, to, s, from, width, height, kind);
}
static inline cudaError_t cudaMemset2D(void* d, size_t pitch, int v, size_t width, size_t height) {
  if (width > pitch) return cudaErrorInvalidValue;
  cuemu::before_default();
  for (size_t i = 0; i < height; i++) cuemu::fill_bytes(static_cast<char*>(d) + i * pitch, v, width);
  return cudaSuccess;
}

namespace cuemu {
template <class T> char* inside(const T& symbol, size_t n, size_t at) {
  if (n > sizeof symbol || at > sizeof symbol - n) fail("bounds", "%zu bytes from byte %zu on of a variable of %zu bytes", n, at, sizeof symbol);
  return reinterpret_cast<char*>(const_cast<std::remove_const_t<T>*>(&symbol)) + at;
}
}  // namespace cuemu
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* s, size_t n, size_t at, cudaMemcpyKind kind, cudaStream_t on = nullptr) {
  return cudaMemcpyAsync(cuemu::inside(symbol, n, at), s, n, kind, on);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* s, size_t n, size_t at = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return cudaMemcpyToSymbolAsync(symbol, s, n, at, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* d, const T& symbol, size_t n, size_t at = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return cudaMemcpyAsync(d, cuemu::inside(symbol, n, at), n, kind);
}
template <class P, class T> cudaError_t cudaGetSymbolAddress(P** p, const T& symbol) {
  *p = reinterpret_cast<P*>(cuemu::inside(symbol, 0, 0));
  cuemu::reached_by_device(*p, sizeof symbol);
  return cudaSuccess;
}
template <class T> cudaError_t cudaGetSymbolSize(size_t* n, const T& symbol) {
  *n = sizeof symbol;
  return cudaSuccess;
}
