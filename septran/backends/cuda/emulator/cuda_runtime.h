#pragma once
#include "runtime.h"
#include "devices.h"
