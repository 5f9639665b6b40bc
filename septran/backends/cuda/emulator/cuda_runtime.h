#pragma once
#include "runtime.h"
#include "devices.h"
#ifdef CUEMU_PTX  // of a file with inline PTX
#include "ptx.h"
#endif
