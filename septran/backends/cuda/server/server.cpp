// Calls a judged extension's functions for the process that runs its Python. In this process there is nothing but them: no
// Python, no torch, no file, and no system call but those of memory and of the two pipes. What it answers are bytes that the
// judge compares, and whether launches stored them.
#include <cstdio>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

extern "C" {
void septran_judged_entry(const char* request, size_t bytes);
void st_after_call();
void st_at_trap(int);
[[noreturn]] void cuemu_fail(const char* kind, const char* format, ...);
void __real_cuemu_run_grid(const char*, const void*, const void*, size_t, void (*)(void*), void*);
void* __real_cuemu_device_memory(size_t);
void __real_cuemu_free_device_memory(void*);
extern void (*__start_st_init[])(int, char**, char**) __attribute__((weak));
extern void (*__stop_st_init[])(int, char**, char**) __attribute__((weak));

// what the extension prints goes nowhere
int st_printf(const char*, ...) { return 0; }
int st___printf_chk(int, const char*, ...) { return 0; }
int st_fprintf(void*, const char*, ...) { return 0; }
int st___fprintf_chk(void*, int, const char*, ...) { return 0; }
int st_puts(const char*) { return 0; }
int st_putchar(int c) { return c; }
int st_fputs(const char*, void*) { return 0; }
int st_fputc(int c, void*) { return c; }
size_t st_fwrite(const void*, size_t, size_t n, void*) { return n; }
int st_fflush(void*) { return 0; }
}

namespace {
constexpr int kIn = 3, kOut = 4;  // the pipes, where the Python process put them
constexpr size_t kPage = 4096, kUnit = 16;
enum Status : unsigned char { done, found, thrown };

#if defined(__x86_64__)
constexpr unsigned kArch = AUDIT_ARCH_X86_64;
#else
constexpr unsigned kArch = AUDIT_ARCH_AARCH64;
#endif

/// First of all code in the process, before any of the extension's: only what memory and pipes need.
void confine(int, char**, char**) {
  static const int allowed[] = {SYS_read, SYS_write, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_futex,
                                SYS_rt_sigreturn, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_sigaltstack, SYS_exit, SYS_exit_group,
#if defined(SYS_arch_prctl)
                                SYS_arch_prctl,
#endif
                                SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_readlinkat, SYS_getrandom};
  constexpr unsigned count = sizeof allowed / sizeof *allowed;
  sock_filter code[count + 6];
  unsigned n = 0;
  code[n++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  code[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArch, 1, 0);
  code[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[n++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (unsigned i = 0; i < count; i++)
    code[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(allowed[i]), static_cast<unsigned char>(count - i), 0);
  code[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1);
  code[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_fprog program = {static_cast<unsigned short>(n), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(85);
}
__attribute__((section(".preinit_array"), used)) void (*const first)(int, char**, char**) = confine;

/// Memory that device code may reach: what the host function allocates, and what it was given.
struct Region {
  char* data;
  size_t bytes;
  bool writable, touched;
};
std::vector<Region> regions;
struct Mapped {
  char* base;
  size_t pages;
};
std::vector<Mapped> mapped;
uint64_t variant;
unsigned launches;

bool all(int fd, char* data, size_t bytes, bool in) {
  while (bytes) {
    const ssize_t n = in ? read(fd, data, bytes) : write(fd, data, bytes);
    if (n <= 0) return false;
    data += n, bytes -= n;
  }
  return true;
}

void reply(Status status, const char* data, size_t bytes) {
  char head[9] = {static_cast<char>(status)};
  const uint64_t length = bytes;
  memcpy(head + 1, &length, 8);
  if (!all(kOut, head, sizeof head, false) || !all(kOut, const_cast<char*>(data), bytes, false)) _exit(85);
}

void forget() {
  for (const Mapped& m : mapped) munmap(m.base, (m.pages + 2) * kPage);
  mapped.clear();
  regions.clear();
  launches = 0;
}

void stopped(int number) {
  if (number == SIGILL || number == SIGTRAP) st_at_trap(number);
  if (number == SIGFPE) cuemu_fail("arithmetic", "an integer division by zero, or one that overflows");
  cuemu_fail("bounds", "an access outside of all tensors, or a store to an input");
}
}  // namespace

extern "C" {
uint64_t st_variant() { return variant; }
void st_say(const char* words) {
  if (strcmp(words, "{\"errors\": []}") != 0) reply(found, words, strlen(words));
}

/// Memory of a tensor that the function is given, between pages that nobody may touch.
char* septran_served_memory(size_t bytes) {
  const size_t room = (bytes + kUnit - 1) / kUnit * kUnit, pages = (room + kPage - 1) / kPage;
  char* base = static_cast<char*>(mmap(nullptr, (pages + 2) * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED || mprotect(base + kPage, pages * kPage, PROT_READ | PROT_WRITE)) cuemu_fail("memory", "a tensor of %zu bytes", bytes);
  mapped.push_back({base, pages});
  char* data = base + (pages + 1) * kPage - room;
  memset(base + kPage, 0xFF, pages * kPage);
  regions.push_back({data, bytes, true, false});
  return data;
}
/// From now on the memory made last is read only.
void septran_served_given() {
  const Mapped& m = mapped.back();
  if (mprotect(m.base + kPage, m.pages * kPage, PROT_READ)) _exit(85);
  regions.back().writable = false;
}
/// 2: a launch stored to the memory at `p`; 1: there were launches; 0: there were none.
int septran_served_launched(const void* p) {
  for (const Region& r : regions)
    if (r.touched && r.data <= p && p < r.data + r.bytes) return 2;
  return launches ? 1 : 0;
}
void septran_served_reply(int status, const char* data, size_t bytes) { reply(static_cast<Status>(status), data, bytes); }

void* __wrap_cuemu_device_memory(size_t bytes) {
  void* p = __real_cuemu_device_memory(bytes);
  if (p) regions.push_back({static_cast<char*>(p), bytes, true, false});
  return p;
}
void __wrap_cuemu_free_device_memory(void* p) {
  for (size_t i = regions.size(); p && i-- > 0;)
    if (regions[i].data == p) regions.erase(regions.begin() + i);
  __real_cuemu_free_device_memory(p);
}
void __wrap_cuemu_run_grid(const char* name, const void* grid, const void* block, size_t shared, void (*body)(void*), void* argument) {
  std::vector<char*> before(regions.size(), nullptr);
  for (size_t i = 0; i < regions.size(); i++) {
    const Region& r = regions[i];
    if (r.touched || !r.writable || !r.bytes) continue;
    before[i] = static_cast<char*>(malloc(r.bytes));
    memcpy(before[i], r.data, r.bytes);
  }
  __real_cuemu_run_grid(name, grid, block, shared, body, argument);
  launches++;
  for (size_t i = 0; i < before.size(); i++) {
    if (!before[i]) continue;
    regions[i].touched = memcmp(before[i], regions[i].data, regions[i].bytes) != 0;
    free(before[i]);
  }
}
}

int main() {
  static char stack[1 << 16];
  const stack_t own = {stack, 0, sizeof stack};
  sigaltstack(&own, nullptr);
  struct sigaction act = {};
  act.sa_handler = stopped;
  act.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE}) sigaction(number, &act, nullptr);
  for (auto f = __start_st_init; f && f != __stop_st_init; f++) (*f)(0, nullptr, nullptr);  // global objects of the extension
  std::vector<char> request;
  while (true) {
    uint64_t head[2];  // bytes of the request, and the number of the call it belongs to
    if (!all(kIn, reinterpret_cast<char*>(head), sizeof head, true)) _exit(0);
    request.resize(head[0]);
    if (!all(kIn, request.data(), request.size(), true)) _exit(0);
    variant = head[1];
    septran_judged_entry(request.data(), request.size());
    forget();
    st_after_call();
  }
}
