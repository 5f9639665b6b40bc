#pragma once
#include "runtime.h"

using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;
