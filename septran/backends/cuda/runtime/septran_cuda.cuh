// Everything a generated kernel and its leaves use; see the other st_*.cuh files for the parts.
#pragma once
#include "st_reduce.cuh"
#include "st_mma.cuh"
