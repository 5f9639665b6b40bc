// A GPU driver's face without a GPU: the calls of libcuda.so.1 that SepTran makes, on host memory.
// cuCtxSynchronize waits for work that fake_begin announced, as a device's streams are waited for.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default")))
typedef unsigned long long ptr;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static int pending = 0;

API int cuInit(unsigned flags) { return 0; }
API int cuDriverGetVersion(int* v) { *v = 13000; return 0; }
API int cuDeviceGetCount(int* n) { *n = 1; return 0; }
API int cuDeviceGet(int* d, int i) { *d = i; return 0; }
API int cuDeviceGetName(char* text, int n, int d) { strncpy(text, "Fake GPU", n); return 0; }
API int cuDeviceTotalMem_v2(size_t* n, int d) { *n = 1ull << 34; return 0; }
API int cuDeviceGetAttribute(int* v, int which, int d) {
  *v = which == 75 ? 9 : which == 76 ? 0 : which == 38 ? 1 << 20 : which == 16 ? 132 : 0;
  return 0;
}
API int cuDevicePrimaryCtxRetain(void** c, int d) { *c = &pending; return 0; }
API int cuCtxSetCurrent(void* c) { return 0; }
API int cuMemAlloc_v2(ptr* p, size_t n) { *p = (ptr)malloc(n); memset((void*)*p, 0xA5, n); return *p ? 0 : 2; }
API int cuMemFree_v2(ptr p) { free((void*)p); return 0; }
API int cuMemcpyHtoD_v2(ptr d, const void* h, size_t n) { memcpy((void*)d, h, n); return 0; }
API int cuMemcpyDtoH_v2(void* h, ptr d, size_t n) { memcpy(h, (const void*)d, n); return 0; }
API int cuMemcpyDtoD_v2(ptr d, ptr s, size_t n) { memcpy((void*)d, (const void*)s, n); return 0; }
API int cuMemsetD8_v2(ptr d, unsigned char v, size_t n) { memset((void*)d, v, n < 4096 ? n : 4096); return 0; }

API void fake_begin(void) { pthread_mutex_lock(&lock); pending++; pthread_mutex_unlock(&lock); }
API void fake_end(void) {
  pthread_mutex_lock(&lock);
  if (--pending == 0) pthread_cond_broadcast(&idle);
  pthread_mutex_unlock(&lock);
}
API int cuCtxSynchronize(void) {
  pthread_mutex_lock(&lock);
  while (pending) pthread_cond_wait(&idle, &lock);
  pthread_mutex_unlock(&lock);
  return 0;
}

API int cuEventCreate(void** e, unsigned flags) { *e = malloc(sizeof(struct timespec)); return 0; }
API int cuEventRecord(void* e, void* stream) { clock_gettime(CLOCK_MONOTONIC, e); return 0; }
API int cuEventElapsedTime(float* ms, void* a, void* b) {
  const struct timespec *x = a, *y = b;
  *ms = (y->tv_sec - x->tv_sec) * 1e3f + (y->tv_nsec - x->tv_nsec) * 1e-6f;
  return 0;
}
