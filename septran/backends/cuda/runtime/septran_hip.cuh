// Everything a generated HIP kernel and its leaves use; see the st_*.cuh files for the parts.
#pragma once
#include "st_reduce.cuh"
#include "st_mfma.cuh"
