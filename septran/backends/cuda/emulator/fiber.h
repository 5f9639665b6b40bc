// Fibers: one stack per emulated CUDA thread, switched in user space.
// x86-64 uses a 14-instruction switch; other machines use ucontext (slower, same behaviour).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include "api.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__) || defined(CUEMU_UCONTEXT)
#define CUEMU_PORTABLE 1
#include <ucontext.h>
#endif

namespace cuemu {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStack = 512 * 1024;
#else
constexpr size_t kStack = 128 * 1024;
#endif

struct Fiber {
#ifdef CUEMU_PORTABLE
  ucontext_t context;
#else
  void* sp;
#endif
  char* stack;
  void* fake;  // AddressSanitizer's shadow of the stack
  void* tsan;
};

#ifndef CUEMU_PORTABLE
extern "C" void cuemu_swap(void** from_sp, void* to_sp);
asm(R"(.text
.type cuemu_swap,@function
cuemu_swap: pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
 movq %rsp,(%rdi); movq %rsi,%rsp
 popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret
)");
#endif

inline Fiber main_fiber{};
inline const void* main_stack = nullptr;
inline size_t main_stack_size = 0;

/// Prepare `f` so that the next switch to it starts `entry` (which never returns).
CUEMU_NOTSAN inline void prepare(Fiber& f, void (*entry)()) {
#ifdef CUEMU_PORTABLE
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = kStack;
  f.context.uc_link = nullptr;
  makecontext(&f.context, entry, 0);
#else
  // The stack must be 8 mod 16 when `entry` starts, as after a call.
  void** top = reinterpret_cast<void**>(f.stack + kStack - 72);
  top[0] = nullptr;
  top[-1] = reinterpret_cast<void*>(entry);
  f.sp = top - 7;
#endif
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(f.stack, kStack);
#endif
#if defined(__SANITIZE_THREAD__)
  if (f.tsan) __tsan_destroy_fiber(f.tsan);
  f.tsan = __tsan_create_fiber(0);
#endif
}

CUEMU_NOTSAN inline void raw_switch(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef CUEMU_PORTABLE
  swapcontext(&from.context, &to.context);
#else
  cuemu_swap(&from.sp, to.sp);
#endif
}

CUEMU_NOTSAN inline void switch_to(Fiber& f) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&main_fiber.fake, f.stack, kStack);
#endif
  raw_switch(main_fiber, f);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(main_fiber.fake, nullptr, nullptr);
#endif
}

CUEMU_NOTSAN inline void switch_to_main(Fiber& f, bool finished) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(finished ? nullptr : &f.fake, main_stack, main_stack_size);
#endif
  (void)finished;
  raw_switch(f, main_fiber);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(f.fake, &main_stack, &main_stack_size);
#endif
}

CUEMU_NOTSAN inline void entered() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &main_stack, &main_stack_size);
#endif
}

}  // namespace cuemu
