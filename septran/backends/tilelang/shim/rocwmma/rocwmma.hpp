// TileLang includes rocWMMA for the bfloat16 type alone.
#pragma once
#include <hip/hip_bfloat16.h>
