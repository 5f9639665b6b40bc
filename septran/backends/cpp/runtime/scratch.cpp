// The scratch memory of a kernel's object in a user's process; the static host has its own.
#include <cstddef>
#include <cstdlib>
#include "arena.h"
#include "permit.h"

extern "C" __attribute__((visibility("hidden"))) void* st_scratch(int which, size_t bytes) {
    switch (which) {
        case 0: return st::scratch<0>(bytes);
        case 1: return st::scratch<1>(bytes);
        default: return st::scratch<2>(bytes);
    }
}

extern "C" __attribute__((visibility("hidden"))) void st_fresh(void*, size_t) {}

// The one system call of a kernel's library (configs/gate.yaml), made once.
extern "C" __attribute__((visibility("hidden"))) int st_tiles() {
    static int here = -1;
    int known = __atomic_load_n(&here, __ATOMIC_RELAXED);
    if (known < 0) __atomic_store_n(&here, known = st_ask_for_tiles(), __ATOMIC_RELAXED);
    return known;
}
