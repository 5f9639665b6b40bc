// Views: how a leaf sees a tensor. p: first element; n[d]: run-time extent; s[d]: stride in elements.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#define ST_INLINE static inline __attribute__((always_inline))

namespace st {

// bfloat16 storage: the upper half of a float; arithmetic happens in float.
struct bf16 {
    uint16_t bits;
    bf16() = default;
    explicit bf16(float x) {
        uint32_t u;
        std::memcpy(&u, &x, 4);
        bits = (x != x) ? uint16_t((u >> 16) | 0x40) : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
    }
    operator float() const {
        uint32_t u = uint32_t(bits) << 16;
        float x;
        std::memcpy(&x, &u, 4);
        return x;
    }
};
#if defined(__aarch64__) || defined(__wasm__)
using f16 = __fp16;  // g++ 12 has no _Float16 there, clang none for WebAssembly
#else
using f16 = _Float16;
#endif

template <class T> inline constexpr bool is_float =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// One element from storage type S to storage type D, as torch casts it.
template <class D, class S> ST_INLINE D cast(S x) {
    if constexpr (std::is_same_v<D, S>) return x;
    else if constexpr (std::is_same_v<D, bool>) return (std::is_same_v<S, bf16> || std::is_same_v<S, f16>) ? float(x) != 0 : x != S(0);
    else if constexpr (std::is_same_v<D, bf16> || std::is_same_v<D, f16>) return D(float(x));
    else if constexpr (std::is_same_v<S, bf16> || std::is_same_v<S, f16>) return D(float(x));
    else if constexpr (is_float<S> && std::is_integral_v<D> && sizeof(D) < 8) return D(int64_t(x));
    else return D(x);
}

template <class T, int R> struct View {
    T* p;
    long n[R];
    long s[R];
    template <class... I> T& operator()(I... i) const {
        static_assert(sizeof...(I) == R, "one index per dimension");
        const long at[] = {long(i)...};
        T* q = p;
        for (int d = 0; d < R; ++d) q += at[d] * s[d];
        return *q;
    }
};

// Division and remainder that round towards minus infinity (b > 0).
ST_INLINE long floor_div(long a, long b) { return a / b - (a % b < 0); }
ST_INLINE long floor_mod(long a, long b) { return a % b + (a % b < 0 ? b : 0); }
ST_INLINE long least(long a, long b) { return a < b ? a : b; }
ST_INLINE long most(long a, long b) { return a > b ? a : b; }

}  // namespace st
