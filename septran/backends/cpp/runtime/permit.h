// Whether this process may use the processor's matrix tiles (Intel AMX). Linux keeps their state, 8 KB a thread, for a process that has
// asked, and says no where there are none. The static host asks for itself.
#if defined(__x86_64__) && defined(__linux__)
static inline int st_ask_for_tiles() {
    long answer = 158;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    asm volatile("syscall" : "+a"(answer) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
    return answer == 0;
}
#else
static inline int st_ask_for_tiles() { return 0; }
#endif
