// Vectors of the widest native width: float lanes f32v / int lanes i32v, double lanes f64v / i64v.
#if defined(__AVX512F__)
#define ST_VB 64
#elif defined(__AVX2__) || (defined(__riscv_v_min_vlen) && __riscv_v_min_vlen >= 256)
#define ST_VB 32
#else
#define ST_VB 16
#endif

namespace st {

typedef float f32v __attribute__((vector_size(ST_VB)));
typedef int32_t i32v __attribute__((vector_size(ST_VB)));
typedef uint32_t u32v __attribute__((vector_size(ST_VB)));
typedef double f64v __attribute__((vector_size(ST_VB)));
typedef int64_t i64v __attribute__((vector_size(ST_VB)));
#if defined(__AVX512F__)
typedef short wide_half __attribute__((vector_size(32)));
typedef short wide_word __attribute__((vector_size(64)));
#endif

template <class V> struct lane_of;
template <> struct lane_of<f32v> { using type = float; using mask = i32v; using integer = int32_t; };
template <> struct lane_of<i32v> { using type = int32_t; using mask = i32v; using integer = int32_t; };
template <> struct lane_of<f64v> { using type = double; using mask = i64v; using integer = int64_t; };
template <> struct lane_of<i64v> { using type = int64_t; using mask = i64v; using integer = int64_t; };
template <class V> using lane = typename lane_of<V>::type;
template <class V> using mask = typename lane_of<V>::mask;
template <class V> inline constexpr int lanes = ST_VB / int(sizeof(lane<V>));
template <class T> struct vec_of;
template <> struct vec_of<float> { using type = f32v; };
template <> struct vec_of<double> { using type = f64v; };
template <class T> using vec = typename vec_of<T>::type;

template <class V> ST_INLINE V splat(lane<V> x) { return V{} + x; }
template <> inline __attribute__((always_inline)) f32v splat<f32v>(float x) { return x - f32v{}; }
template <> inline __attribute__((always_inline)) f64v splat<f64v>(double x) { return x - f64v{}; }

// 0, 1, 2, ... per lane
template <class V> ST_INLINE V iota() {
    V v;
    for (int i = 0; i < lanes<V>; ++i) v[i] = lane<V>(i);
    return v;
}

// Lane by lane to vector V with as many lanes.
template <class V, class W> ST_INLINE V convert(W x) { return __builtin_convertvector(x, V); }

// Asks for the cache line of an address soon to be read; never faults.
ST_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }

// The same for the row after this one: hardware stops at the end of a page, which is the end of many a row. On Zen 4 it costs 6 to
// 50 %, on Zen 5 it gains as much. To g++ 12 both are znver3; the later one has AVX-VNNI.
ST_INLINE void next_row(const void* p) {
#if !defined(__AVX512F__) || !(defined(__znver3__) || defined(__znver4__)) || defined(__AVXVNNI__)
    __builtin_prefetch(p);
#endif
}

// The same for the row that the next walk over this one writes: on Zen 4 a store that misses waits for its line, and asking for it
// while a walk computes gains 5 to 20 %.
ST_INLINE void own_output(const void* p) {
#if defined(__AVX512F__) && (defined(__znver3__) || defined(__znver4__)) && !defined(__AVXVNNI__)
    __builtin_prefetch(p, 1);
#endif
}

// The same for a row that will be written. On Zen it costs 5 to 10 %: stores find their lines by themselves.
ST_INLINE void next_output(const void* p) {
#if !defined(__znver2__) && !defined(__znver3__) && !defined(__znver4__) && !defined(__znver5__)
    __builtin_prefetch(p);
#endif
}

// Integers wider than a lane saturate: comparing with a position inside a tile stays exact.
template <class L, class T> ST_INLINE L to_lane(T x) {
    if constexpr (std::is_same_v<L, int32_t> && std::is_same_v<T, int64_t>)
        return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : int32_t(x);
    else return cast<L>(x);
}

template <class V, class T> ST_INLINE V load(const T* p) {
    using L = lane<V>;
    if constexpr (std::is_same_v<T, L>) {
        V v;
        std::memcpy(&v, p, sizeof v);
        return v;
    } else if constexpr (std::is_same_v<T, bf16> && std::is_same_v<V, f32v>) {
        typedef uint16_t half __attribute__((vector_size(ST_VB / 2)));
        half h;
        std::memcpy(&h, p, sizeof h);
#if defined(__AVX512F__) && !defined(__clang__)
        // one instruction; g++ 12 makes four of the conversion
        return (f32v)((u32v)__builtin_ia32_pmovzxwd512_mask((wide_half)h, i32v{}, (unsigned short)-1) << 16);
#else
        return (f32v)(__builtin_convertvector(h, u32v) << 16);
#endif
#if defined(__AVX512F__)
    } else if constexpr (std::is_same_v<T, f16> && std::is_same_v<V, f32v>) {
        typedef short half __attribute__((vector_size(32)));
        half h;
        std::memcpy(&h, p, sizeof h);
        return (f32v)__builtin_ia32_vcvtph2ps512_mask(h, f32v{}, (unsigned short)-1, 4);
#elif defined(__F16C__) && defined(__AVX2__)
    } else if constexpr (std::is_same_v<T, f16> && std::is_same_v<V, f32v>) {
        typedef short half __attribute__((vector_size(16)));
        half h;
        std::memcpy(&h, p, sizeof h);
        return (f32v)__builtin_ia32_vcvtph2ps256(h);
#endif
    } else {
        V v;
        for (int i = 0; i < lanes<V>; ++i) v[i] = to_lane<L>(p[i]);
        return v;
    }
}

// Every second of twice as many elements: p[0], p[2], .. and p[1], p[3], ..
ST_INLINE f32v load_even(const bf16* p) {
    u32v words;
    std::memcpy(&words, p, sizeof words);
    return (f32v)(words << 16);
}
ST_INLINE f32v load_odd(const bf16* p) {
    u32v words;
    std::memcpy(&words, p, sizeof words);
    return (f32v)(words & 0xffff0000u);
}

#if defined(__AVX512BF16__)
// Rounded to nearest by the instruction, which takes subnormal numbers for zero.
ST_INLINE auto nearest_bf16(f32v v) {
#if defined(__clang__)
    return __builtin_ia32_cvtneps2bf16_512(v);
#else
    return __builtin_ia32_cvtneps2bf16_v16sf(v);
#endif
}
ST_INLINE bool any_subnormal(f32v v) { return __builtin_ia32_fpclassps512_mask(v, 0x20, (unsigned short)-1) != 0; }
// Whether an element is zero; true where nobody looked.
ST_INLINE bool any_zero(wide_word v) {
#if defined(__clang__)
    return true;
#else
    return __builtin_ia32_ptestnmw512(v, wide_word{} + (short)0x7fff, 0xffffffffu) != 0;
#endif
}
// The first half's elements each before one of the second half.
template <int... I> ST_INLINE wide_word in_turn(wide_word v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (I % 2 * 16 + I / 2)..., (I % 2 * 16 + I / 2 + 8)...);
}
// Two vectors rounded, `low` in front; one instruction for both.
ST_INLINE wide_word nearest_bf16(f32v low, f32v high) {
#if defined(__clang__)
    return (wide_word)__builtin_ia32_cvtne2ps2bf16_512(high, low);
#elif __GNUC__ >= 13
    return (wide_word)__builtin_ia32_cvtne2ps2bf16_v32bf(high, low);
#else
    return (wide_word)__builtin_ia32_cvtne2ps2bf16_v32hi(high, low);
#endif
}
#endif

// In the upper half of each word, the bfloat16 nearest to it; what is in the lower half says nothing.
ST_INLINE u32v near_bf16(f32v v) {
    const u32v u = (u32v)v;
    return (v == v) ? u + 0x7fff + ((u >> 16) & 1) : u | 0x400000;
}

// What load_even and load_odd take apart, put together again.
ST_INLINE void store_pairs(bf16* p, f32v even, f32v odd) {
#if defined(__AVX512BF16__)
    const wide_word halves = nearest_bf16(even, odd);
    // a subnormal number became zero there: only where something is zero has to be looked
    if (__builtin_expect(!any_zero(halves) || !(any_subnormal(even) || any_subnormal(odd)), 1)) {
        const wide_word mixed = in_turn(halves, std::make_integer_sequence<int, 16>());
        std::memcpy(p, &mixed, sizeof mixed);
        return;
    }
#endif
    const u32v words = (near_bf16(even) >> 16) | (near_bf16(odd) & 0xffff0000u);
    std::memcpy(p, &words, sizeof words);
}

template <class V, class T> ST_INLINE void store(T* p, V v) {
    using L = lane<V>;
    if constexpr (std::is_same_v<T, L>) {
        std::memcpy(p, &v, sizeof v);
    } else if constexpr (std::is_same_v<T, bf16> && std::is_same_v<V, f32v>) {
        typedef uint16_t half __attribute__((vector_size(ST_VB / 2)));
#if defined(__AVX512BF16__)
        if (__builtin_expect(!any_subnormal(v), 1)) {
            const auto rounded = nearest_bf16(v);
            std::memcpy(p, &rounded, sizeof rounded);
            return;
        }
#endif
        const half h = __builtin_convertvector(near_bf16(v) >> 16, half);
        std::memcpy(p, &h, sizeof h);
#if defined(__AVX512F__)
    } else if constexpr (std::is_same_v<T, f16> && std::is_same_v<V, f32v>) {
        typedef short half __attribute__((vector_size(32)));
        const half h = (half)__builtin_ia32_vcvtps2ph512_mask(v, 0, half{}, (unsigned short)-1);
        std::memcpy(p, &h, sizeof h);
#elif defined(__F16C__) && defined(__AVX2__)
    } else if constexpr (std::is_same_v<T, f16> && std::is_same_v<V, f32v>) {
        typedef short half __attribute__((vector_size(16)));
        const half h = (half)__builtin_ia32_vcvtps2ph256(v, 0);
        std::memcpy(p, &h, sizeof h);
#endif
    } else {
        for (int i = 0; i < lanes<V>; ++i) p[i] = cast<T>(lane<V>(v[i]));
    }
}

// The first k lanes; the rest are 0. Never reads past p + k.
template <class V, class T> ST_INLINE V load_n(const T* p, long k) {
    if (k >= lanes<V>) return load<V>(p);
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<V, f32v> && std::is_same_v<T, float>) {
        unsigned short lanes_read = (unsigned short)((1u << k) - 1);
        asm("" : "+r"(lanes_read));  // g++ makes a whole load of it when it knows which lanes are used
        return (f32v)__builtin_ia32_loadups512_mask(p, f32v{}, lanes_read);
    }
#endif
    T part[lanes<V>] = {};
    for (long i = 0; i < k; ++i) part[i] = p[i];
    return load<V>(part);
}

template <class V, class T> ST_INLINE void store_n(T* p, V v, long k) {
    if (k >= lanes<V>) return store(p, v);
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<V, f32v> && std::is_same_v<T, float>) {
        __builtin_ia32_storeups512_mask(p, v, (unsigned short)((1u << k) - 1));
        return;
    }
#endif
    T part[lanes<V>];
    store(part, v);
    for (long i = 0; i < k; ++i) p[i] = part[i];
}

// k lanes, `stride` elements apart
template <class V, class T> ST_INLINE V gather(const T* p, long stride, long k) {
    V v = {};
    for (int i = 0; i < lanes<V>; ++i)
        if (i < k) v[i] = to_lane<lane<V>>(p[i * stride]);
    return v;
}

template <class V, class T> ST_INLINE void scatter(T* p, long stride, V v, long k) {
    for (int i = 0; i < lanes<V>; ++i)
        if (i < k) p[i * stride] = cast<T>(lane<V>(v[i]));
}

// v in the first k lanes, `other` in the rest
template <class V> ST_INLINE V keep(V v, long k, V other) {
    using M = mask<V>;
    return (iota<M>() < splat<M>(typename lane_of<V>::integer(k))) ? v : other;
}

}  // namespace st
