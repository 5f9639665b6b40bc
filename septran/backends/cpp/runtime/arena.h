// Scratch memory: one block per thread, kept between calls (a fresh page costs about 1 us to touch).
// No madvise: asking for huge pages gained 1 % and a kernel should need no system call of its own.

#ifdef SEPTRAN_HOSTED
// Whoever links the object gives the memory: scratch.cpp in a user's process, the static host when it is judged.
extern "C" void* st_scratch(int which, size_t bytes);
namespace st {
template <int Which> static inline char* scratch(size_t bytes) {
    return static_cast<char*>(st_scratch(Which, bytes));
}
}  // namespace st
#else
namespace st {

struct Arena {
    char* base = nullptr;
    size_t size = 0;
    ~Arena() { std::free(base); }
    char* get(size_t bytes) {
        if (bytes > size) {
            std::free(base);
            const size_t huge = size_t(2) << 20, unit = bytes >= huge ? huge : 4096;
            size = (bytes + unit - 1) / unit * unit;
            base = static_cast<char*>(std::aligned_alloc(unit, size));
            if (!base) std::abort();
        }
        return base;
    }
};

// Which: 0 = the calling thread's tensors, 1 = tensors of one CORE, 2 = packing space inside leaves.
template <int Which> static char* scratch(size_t bytes) {
    static thread_local Arena arena;
    return arena.get(bytes);
}

}  // namespace st
#endif
