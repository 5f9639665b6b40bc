// The scratch memory of a kernel's object in a user's process; the static host has its own.
#include <cstddef>
#include <cstdlib>
#include "arena.h"

extern "C" __attribute__((visibility("hidden"))) void* st_scratch(int which, size_t bytes) {
    switch (which) {
        case 0: return st::scratch<0>(bytes);
        case 1: return st::scratch<1>(bytes);
        default: return st::scratch<2>(bytes);
    }
}

extern "C" __attribute__((visibility("hidden"))) void st_fresh(void*, size_t) {}
