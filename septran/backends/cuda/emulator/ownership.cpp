// Whose memory is whose. The emulation has one address space; on a GPU device code reaches memory of cudaMalloc, pinned and managed
// memory, and nothing of the host's; the host reaches nothing of cudaMalloc. Known are allocations of the device, blocks of the static
// host's heap, and the host function's stack. What single accesses reach, a noted build tells (accesses.cpp).
#include "machine.h"

// of the static host: the block of its heap that an address lies in, and its bytes; of 0 the address up to which the heap is used
extern "C" void* st_block(const void*, size_t*) __attribute__((weak, visibility("hidden")));

namespace cuemu {

namespace {
struct Memory {
  uintptr_t at;
  size_t bytes;
  bool host_too;
};
List<Memory> reached;  // by the device
uintptr_t stack_from, stack_to, parameters_from, parameters_to, heap_before, good_from, good_to;

const Memory* known(uintptr_t p) {
  for (const Memory& m : reached)
    if (p - m.at < m.bytes) return &m;
  return nullptr;
}
bool on_host_stack(uintptr_t p) { return p >= stack_from && p < stack_to && !(p >= parameters_from && p < parameters_to); }
bool in_host_heap(uintptr_t p) {
  size_t bytes;
  const uintptr_t block = reinterpret_cast<uintptr_t>(st_foreign && st_block ? st_block(reinterpret_cast<void*>(p), &bytes) : nullptr);
  return block && !known(p);
}
bool of_host(const void* p) { return on_host_stack(reinterpret_cast<uintptr_t>(p)) || in_host_heap(reinterpret_cast<uintptr_t>(p)); }
bool of_device_only(const void* p) {
  const Memory* m = known(reinterpret_cast<uintptr_t>(p));
  return m && !m->host_too;
}
}  // namespace

void reached_by_device(const void* p, size_t bytes) {
  given_back(p);  // a variable may be asked for in each call
  reached.push({reinterpret_cast<uintptr_t>(p), bytes, true});
}
void not_reached_by_host(const void* p) {
  for (Memory& m : reached)
    if (m.at == reinterpret_cast<uintptr_t>(p)) m.host_too = false;
}
void given_back(const void* p) {
  for (size_t i = 0; i < reached.count; i++)
    if (reached[i].at == reinterpret_cast<uintptr_t>(p)) reached.drop(i--, 1);
  good_from = good_to = 0;
}
void forget_owners() {
  if (!st_foreign) reached.forget();
  good_from = good_to = stack_from = stack_to = 0;
}
void host_begins(const void* frame) { stack_to = reinterpret_cast<uintptr_t>(frame); }
void device_begins(const void* frame) {
  stack_from = reinterpret_cast<uintptr_t>(frame);
  heap_before = st_foreign && st_block ? reinterpret_cast<uintptr_t>(st_block(nullptr, nullptr)) : 0;
}

void parameters(const void* at, size_t bytes) {
  parameters_from = reinterpret_cast<uintptr_t>(at);
  parameters_to = parameters_from + bytes;
}

void pointer_parameter(const void* pointer) {
  const uintptr_t p = reinterpret_cast<uintptr_t>(pointer), image = reinterpret_cast<uintptr_t>(__ehdr_start);
  if (st_foreign && p - image < reinterpret_cast<uintptr_t>(_end) - image && !known(p))
    fail("address",
         "a kernel is given the address of a variable of the host, or a variable of the device by its name: cudaGetSymbolAddress gives its address");
  if (in_host_heap(p)) fail("address", "a kernel is given memory of the host, which a device does not reach: a tensor on the CPU, malloc, a std::vector");
}

void check_copy(const void* to, const void* from, int kind) {
  static const char* const names[] = {"HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice"};
  if (kind < 0 || kind > 3 || !st_foreign) return;
  stack_from = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const bool to_device = kind & 1, from_device = kind & 2;
  const char* wrong = to_device && of_host(to) ? "to memory of the host" : !to_device && of_device_only(to) ? "to memory of cudaMalloc"
                      : from_device && of_host(from) ? "from memory of the host" : !from_device && of_device_only(from) ? "from memory of cudaMalloc" : nullptr;
  if (wrong) fail("address", "a copy that is said to be cudaMemcpy%s goes %s", names[kind], wrong);
}
void move_bytes(void* to, const void* from, size_t n) { memmove(to, from, n); }
void fill_bytes(void* at, int value, size_t n) { memset(at, value, n); }

#ifdef CUEMU_NOTES_ACCESSES
void check_owner(uintptr_t p, size_t n, bool store) {
  if (p - good_from < good_to - good_from || !st_foreign) return;
  const char* does = store ? "stores" : "loads";
  if (!dynamic_shared) {  // the host function runs
    if (of_device_only(reinterpret_cast<void*>(p)))
      fail("address", "the host function %s %zu bytes of memory of cudaMalloc, which the host does not reach: cudaMemcpy", does, n);
    return;
  }
  size_t bytes = 0;
  const uintptr_t block = reinterpret_cast<uintptr_t>(st_block ? st_block(reinterpret_cast<void*>(p), &bytes) : nullptr);
  if (block && block >= heap_before && !known(p)) reached_by_device(reinterpret_cast<void*>(block), bytes);  // the kernel's own malloc
  if (on_host_stack(p) || (block && !known(p)))
    fail("address", "thread %d %s %zu bytes of the host's %s, which a device does not reach", thread_linear, does, n,
         block ? "heap (malloc, new, a std::vector)" : "stack");
  if (block) good_from = block, good_to = block + bytes;
}
#endif

}  // namespace cuemu
