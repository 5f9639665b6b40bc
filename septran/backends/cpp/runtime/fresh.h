// A workspace begins, on bytes that another one may have had. Nothing may count on what they hold: in judged calls
// the static host overwrites them.

#ifdef SEPTRAN_HOSTED
extern "C" void st_fresh(void* p, size_t bytes);
#endif
namespace st {
static inline char* fresh(char* p, [[maybe_unused]] size_t bytes) {
#ifdef SEPTRAN_HOSTED
    st_fresh(p, bytes);
#endif
    return p;
}
}  // namespace st
