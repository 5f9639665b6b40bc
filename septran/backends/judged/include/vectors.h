// Between the judge, which has addresses, and a host function of std::vector and std::span; part of the judge's entry, behind a `fail` of its target.
#include <cstddef>
#include <cstring>
#include <vector>

namespace septran_vectors {

constexpr std::size_t kBehind = 64;  // elements behind a vector's own, NaN or large: what reads them shows

template <class T> struct Held {
  std::vector<T> own;
  const T* at;
  std::size_t elements;
  unsigned char mark;

  /// What lies at `data`. number: of the argument, so that what lies behind one is no copy of what lies behind another. empty: the file appends to it.
  Held(const void* data, std::size_t n, int number, bool empty = false) : elements(n), mark(static_cast<unsigned char>(0xfe - number)) {
    if (!empty) {
      own.reserve(n + kBehind);
      own.assign(static_cast<const T*>(data), static_cast<const T*>(data) + n);
      unsigned char* behind = reinterpret_cast<unsigned char*>(own.data() + n);
      for (std::size_t b = 0; b < kBehind * sizeof(T); b++) behind[b] = byte(b);
    }
    at = own.data();
  }
  unsigned char byte(std::size_t b) const { return b % sizeof(T) ? 0xff : mark; }
  /// Nothing behind its elements was written; of a vector that the file never makes longer.
  void intact(const char* name) const {
    if (own.data() != at || own.size() != elements) return;
    const unsigned char* behind = reinterpret_cast<const unsigned char*>(at + elements);
    for (std::size_t b = 0; b < kBehind * sizeof(T); b++)
      if (behind[b] != byte(b)) fail("bounds", "element %zu of %s with %zu elements is stored", elements + b / sizeof(T), name, elements);
  }
};

template <class T> void give(const std::vector<T>& result, void* to, std::size_t n, const char* name) {
  if (result.size() != n) fail("result", "%s has %zu elements, the reference has %zu", name, result.size(), n);
  std::memcpy(to, result.data(), n * sizeof(T));
}

}  // namespace septran_vectors
