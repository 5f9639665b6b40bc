#pragma once
#include "../cuda_fp16.h"
using hip_bfloat16 = __nv_bfloat16;
