// The static host's side (septran/host/host.h); absent where the machine is part of a library.
#pragma once
#include <cstdint>
extern "C" {
void st_say(const char* words) __attribute__((weak));
uint64_t st_variant() __attribute__((weak));
}
