// HIP's words for the emulation's runtime; the machine is built with wavefronts of 64.
#pragma once
#include "../cuda_runtime.h"
typedef cudaError_t hipError_t;
typedef cudaStream_t hipStream_t;
#define hipSuccess cudaSuccess
#define hipFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize
#define hipMallocAsync cudaMallocAsync
#define hipFreeAsync cudaFreeAsync
#define hipFuncSetAttribute cudaFuncSetAttribute
#define hipGetLastError cudaGetLastError
#define hipGetErrorString cudaGetErrorString
