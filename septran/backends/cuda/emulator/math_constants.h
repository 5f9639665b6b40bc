// Its constants are in intrinsics.h.
#pragma once
#include "cuda_runtime.h"
