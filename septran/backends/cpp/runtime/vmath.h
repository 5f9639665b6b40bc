// Elementwise functions on vectors. Float versions are polynomials fitted for this file (errors of a
// few units in the last place, subnormals, infinities and NaN as libm gives them); doubles use libm.

namespace st {

template <class V> ST_INLINE V vabs(V x) {
    using M = mask<V>;
    return (V)((M)x & splat<M>(std::numeric_limits<typename lane_of<V>::integer>::max()));
}
template <class V> ST_INLINE V copysign(V x, V sign) {
    using M = mask<V>;
    return (V)((M)x | ((M)sign & splat<M>(std::numeric_limits<typename lane_of<V>::integer>::min())));
}

// A power of two that keeps 1 / (x * even(x)) a normal number: 1 for any |x| from 2^-100 to 2^100.
ST_INLINE f32v even(f32v x) {
    const f32v a = vabs(x), one = splat<f32v>(1.0f);
    return a > 0x1p100f ? splat<f32v>(0x1p-64f) : (a < 0x1p-100f ? splat<f32v>(0x1p64f) : one);
}

// Maximum and minimum as the instructions have them: b when the operands do not compare.
template <class V> ST_INLINE V above(V a, V b) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<V, f32v>) return __builtin_ia32_maxps512_mask(a, b, a, (unsigned short)-1, 4);
#elif defined(__AVX2__)
    if constexpr (std::is_same_v<V, f32v>) return __builtin_ia32_maxps256(a, b);
#endif
    return a > b ? a : b;
}
template <class V> ST_INLINE V below(V a, V b) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<V, f32v>) return __builtin_ia32_minps512_mask(a, b, a, (unsigned short)-1, 4);
#elif defined(__AVX2__)
    if constexpr (std::is_same_v<V, f32v>) return __builtin_ia32_minps256(a, b);
#endif
    return a < b ? a : b;
}
// NaN in either operand wins, as in torch.maximum.
template <class V> ST_INLINE V vmax(V a, V b) {
    if constexpr (std::is_integral_v<lane<V>>) return a > b ? a : b;
    else return (a != a) ? a : above(a, b);
}
template <class V> ST_INLINE V vmin(V a, V b) {
    if constexpr (std::is_integral_v<lane<V>>) return a < b ? a : b;
    else return (a != a) ? a : below(a, b);
}

// libm, lane by lane
template <class V, class F> ST_INLINE V each(V x, F f) {
    V y;
    for (int i = 0; i < lanes<V>; ++i) y[i] = f(x[i]);
    return y;
}

ST_INLINE f32v vsqrt(f32v x) {
#if defined(__AVX512F__)
    return (f32v)__builtin_ia32_sqrtps512_mask(x, x, (unsigned short)-1, 4);
#elif defined(__AVX2__)
    return (f32v)__builtin_ia32_sqrtps256(x);
#else
    return each(x, [](float a) { return __builtin_sqrtf(a); });
#endif
}
ST_INLINE f64v vsqrt(f64v x) { return each(x, [](double a) { return __builtin_sqrt(a); }); }
template <class V> ST_INLINE V vrsqrt(V x) { return splat<V>(1) / vsqrt(x); }

// p * 2^n for whole n in [-300, 300]; the result may be subnormal or infinite.
ST_INLINE f32v scale(f32v p, f32v n) {
#if defined(__AVX512F__)
    return (f32v)__builtin_ia32_scalefps512_mask(p, n, p, (unsigned short)-1, 4);
#else
    const i32v k = __builtin_convertvector(n, i32v), half = k >> 1;
    return p * (f32v)((half + 127) << 23) * (f32v)((k - half + 127) << 23);
#endif
}
// Nearest whole number for |x| < 2^22.
ST_INLINE f32v nearest(f32v x) {
    const f32v magic = splat<f32v>(12582912.0f);
    return (x + magic) - magic;
}

// What an instruction finds at the place `at`, counted modulo 32, of a table in two registers.
#if defined(__AVX512F__) && !defined(__clang__)
#define ST_TABLES
ST_INLINE f32v looked_up(const float* table, i32v at) {
    return __builtin_ia32_vpermt2varps512_mask(at, load<f32v>(table), load<f32v>(table + 16), (unsigned short)-1);
}
#endif

// e^x without a table.
ST_INLINE f32v exp_by_terms(f32v x) {
    x = below(splat<f32v>(89.0f), above(splat<f32v>(-104.0f), x));  // NaN stays
    const f32v n = nearest(x * 1.44269504f);
    f32v r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    f32v q = r * 0x1.6dbc5ap-10f + 0x1.12414ap-7f;
    q = q * r + 0x1.555454p-5f;
    q = q * r + 0x1.555486p-3f;
    q = q * r + 0.5f;
    return scale((q * (r * r) + r) + 1.0f, n);
}
#if defined(ST_TABLES)
// 2^(i / 32). e^x is one of them times e^r of an r near 0, for which three terms do, times a power of two.
alignas(64) static const float exp2_factors[32] = {
    0x1p+0f, 0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f, 0x1.2387a6p+0f, 0x1.29e9ep+0f,
    0x1.306fep+0f, 0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f, 0x1.4bfdaep+0f, 0x1.5342b6p+0f, 0x1.5ab07ep+0f, 0x1.6247ecp+0f,
    0x1.6a09e6p+0f, 0x1.71f75ep+0f, 0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f, 0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f,
    0x1.ae89fap+0f, 0x1.b7f77p+0f, 0x1.c199bep+0f, 0x1.cb720ep+0f, 0x1.d5818ep+0f, 0x1.dfc974p+0f, 0x1.ea4afap+0f, 0x1.f50766p+0f};
ST_INLINE f32v vexp(f32v x) {
    x = below(splat<f32v>(89.0f), above(splat<f32v>(-104.0f), x));  // NaN stays
    const f32v moved = x * 1.44269504f + 393216.0f;  // the nearest 32nd of a power, counted in the lowest bits
    const f32v n = moved - 393216.0f;
    f32v r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    const f32v p = (r * 0x1.555556p-3f + 0.5f) * (r * r) + r, factor = looked_up(exp2_factors, (i32v)moved);
    return scale(p * factor + factor, n);  // which takes the whole number below n
}
#else
ST_INLINE f32v vexp(f32v x) { return exp_by_terms(x); }
#endif
ST_INLINE f32v vexp2(f32v x) {
    x = below(splat<f32v>(129.0f), above(splat<f32v>(-150.5f), x));
    const f32v n = nearest(x), f = x - n;
    f32v q = f * 0x1.448dc0p-13f + 0x1.5f5126p-10f;
    q = q * f + 0x1.3b29aep-7f;
    q = q * f + 0x1.c6aebcp-5f;
    q = q * f + 0x1.ebfbe0p-3f;
    q = q * f + 0x1.62e430p-1f;
    return scale(q * f + 1.0f, n);
}
ST_INLINE f32v vlog(f32v x) {
    const i32v tiny = x < 0x1p-126f;
    const f32v y = tiny ? x * 0x1p23f : x;
    const i32v bits = (i32v)y - 0x3f3504f3;  // exponent counted from sqrt(1/2)
    const f32v e = __builtin_convertvector((bits >> 23) - (tiny & 23), f32v);
    const f32v f = (f32v)((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
    f32v p = f * 0x1.145614p-4f - 0x1.de3bb4p-4f;
    p = p * f + 0x1.e6f0f0p-4f;
    p = p * f - 0x1.fc2220p-4f;
    p = p * f + 0x1.233760p-3f;
    p = p * f - 0x1.555c4cp-3f;
    p = p * f + 0x1.99a4b6p-3f;
    p = p * f - 0x1.000006p-2f;
    p = p * f + 0x1.555548p-2f;
    const f32v ff = f * f;
    f32v r = p * ff * f + e * -2.12194440e-4f;
    r = r - ff * 0.5f;
    r = (r + f) + e * 0.693359375f;
    const float inf = std::numeric_limits<float>::infinity();
    r = x == inf ? x : r;
    r = x == 0.0f ? splat<f32v>(-inf) : r;
    return (x >= 0.0f) ? r : splat<f32v>(std::numeric_limits<float>::quiet_NaN());
}
ST_INLINE f32v vtanh(f32v x) {
    const f32v a = vabs(x), y = x * x;
    f32v p = y * 0x1.197b12p-9f - 0x1.0c2126p-7f;
    p = p * y + 0x1.6394d2p-6f;
    p = p * y - 0x1.b9ef7cp-5f;
    p = p * y + 0x1.11106cp-3f;
    p = p * y - 0x1.555554p-2f;
    const f32v near = p * (y * x) + x;
    const f32v far = 1.0f - 2.0f / (vexp(a + a) + 1.0f);
    return copysign((a < 0.625f) ? near : far, x);
}
ST_INLINE f32v vsigmoid(f32v x) {
    const f32v e = exp_by_terms(-vabs(x));  // the table's half unit more would count twice in e / (1 + e)
    return ((x < 0.0f) ? e : splat<f32v>(1.0f)) / (1.0f + e);
}
#if defined(ST_TABLES)
// erf(x) / x is a polynomial of the third degree on each eighth up to 3.92, fitted so that the result is within 4.5 units in the last
// place and never above 1; row d has the 32 factors of the d-th power.
alignas(64) static const float erf_factors[4][32] = {
    {0x1.20dd74p+0f, 0x1.1f5e16p+0f, 0x1.1af54cp+0f, 0x1.13e08ap+0f, 0x1.0a7ef4p+0f, 0x1.fe8f16p-1f, 0x1.e57b76p-1f, 0x1.cacbc4p-1f,
     0x1.af767ep-1f, 0x1.9450bep-1f, 0x1.7a051cp-1f, 0x1.61106ap-1f, 0x1.49c39p-1f, 0x1.3448fap-1f, 0x1.20ac06p-1f, 0x1.0ee122p-1f,
     0x1.fd9ae2p-2f, 0x1.e09a7ap-2f, 0x1.c67206p-2f, 0x1.aed2p-2f, 0x1.996eecp-2f, 0x1.8603dep-2f, 0x1.74538p-2f, 0x1.642828p-2f,
     0x1.555366p-2f, 0x1.47ad4p-2f, 0x1.3b1358p-2f, 0x1.2f6828p-2f, 0x1.24923ap-2f, 0x1.1a7b9p-2f, 0x1.11110ep-2f, 0x1.08421p-2f},
    {0x1.cce59ap-18f, -0x1.7d8ff2p-4f, -0x1.7306eap-3f, -0x1.09ac2ap-2f, -0x1.4c387p-2f, -0x1.7edee2p-2f, -0x1.a0cdc2p-2f,
     -0x1.b2930ep-2f, -0x1.b5daf2p-2f, -0x1.ad1528p-2f, -0x1.9b12d8p-2f, -0x1.82ad14p-2f, -0x1.667ed6p-2f, -0x1.48b7c6p-2f,
     -0x1.2b07aap-2f, -0x1.0e9e1cp-2f, -0x1.e8712ep-3f, -0x1.b87066p-3f, -0x1.8d735p-3f, -0x1.67575cp-3f, -0x1.45c322p-3f,
     -0x1.284244p-3f, -0x1.0e5898p-3f, -0x1.ef1bfp-4f, -0x1.c6e932p-4f, -0x1.a35764p-4f, -0x1.83bfap-4f, -0x1.6793ecp-4f,
     -0x1.4e5c5cp-4f, -0x1.37b3d8p-4f, -0x1.234526p-4f, -0x1.10c84ap-4f},
    {-0x1.81b75ep-2f, -0x1.75feb6p-2f, -0x1.570b34p-2f, -0x1.272b4p-2f, -0x1.d69ad6p-3f, -0x1.52725ep-3f, -0x1.9ae31cp-4f,
     -0x1.46e342p-5f, 0x1.91e316p-7f, 0x1.ba0416p-5f, 0x1.59b7e8p-4f, 0x1.aa4616p-4f, 0x1.d4337cp-4f, 0x1.df0faap-4f,
     0x1.d303fep-4f, 0x1.b7bc18p-4f, 0x1.93b738p-4f, 0x1.6bfb6cp-4f, 0x1.44146ap-4f, 0x1.1e4362p-4f, 0x1.f7894cp-5f, 0x1.ba334cp-5f,
     0x1.84942ep-5f, 0x1.562e58p-5f, 0x1.2e4018p-5f, 0x1.0bf2b6p-5f, 0x1.dceb94p-6f, 0x1.aa19acp-6f, 0x1.7e2896p-6f, 0x1.58034ep-6f,
     0x1.36c27ep-6f, 0x1.19a52ep-6f},
    {0x1.cd7358p-7f, 0x1.c4dca6p-5f, 0x1.ac320ap-4f, 0x1.245776p-3f, 0x1.554076p-3f, 0x1.669484p-3f, 0x1.5a50d2p-3f, 0x1.36170cp-3f,
     0x1.018b62p-3f, 0x1.89e2d8p-4f, 0x1.0f9ec2p-4f, 0x1.4001b8p-5f, 0x1.0a368ap-6f, -0x1.56692ep-10f, -0x1.bdfb0cp-7f,
     -0x1.5c3198p-6f, -0x1.9bc22cp-6f, -0x1.adec08p-6f, -0x1.a17eaep-6f, -0x1.8311e4p-6f, -0x1.5bdf0ep-6f, -0x1.323c9ap-6f,
     -0x1.0a0f8ap-6f, -0x1.cad698p-7f, -0x1.8a50fap-7f, -0x1.52be5ap-7f, -0x1.237f1ep-7f, -0x1.f730f8p-8f, -0x1.b3f39cp-8f,
     -0x1.7b4236p-8f, -0x1.4b55fcp-8f, -0x1.23dc3ep-8f},
};
ST_INLINE f32v verf(f32v x) {
    const f32v a = below(splat<f32v>(3.92f), vabs(x));  // NaN stays; from 3.92 on the result is 1
    const f32v moved = a + 1572864.0f;  // the nearest eighth, counted in the lowest bits
    const f32v t = a - (moved - 1572864.0f);
    const i32v piece = (i32v)moved;
    f32v q = looked_up(erf_factors[3], piece) * t + looked_up(erf_factors[2], piece);
    q = q * t + looked_up(erf_factors[1], piece);
    q = q * t + looked_up(erf_factors[0], piece);
    return copysign(a * q, x);
}
#else
// x N(x^2) / D(x^2), fitted for |x| < 3.93, where erf is 1 to within half a unit in the last place; within
// 3e-7 of the result. One division costs a third of what an exponential for the tail does.
ST_INLINE f32v verf(f32v x) {
    const f32v y = x * x, z = y * y;
    const f32v n0 = y * 0x1.86b60cp-3f + 0x1.20dd76p+0f, d0 = y * 0x1.013b26p-1f + 1.0f;
    const f32v n1 = y * 0x1.ef5b94p-9f + 0x1.b07314p-5f, d1 = y * 0x1.eb6a1cp-7f + 0x1.d3fc98p-4f;
    const f32v n2 = y * 0x1.1210eap-19f + 0x1.2aa13cp-12f, d2 = y * 0x1.3ecb42p-15f + 0x1.316e06p-10f;
    const f32v n = (n2 * z + n1) * z + n0, d = (d2 * z + d1) * z + d0;
    return (y >= 15.4f) ? copysign(splat<f32v>(1.0f), x) : x * n / d;
}
#endif
ST_INLINE f32v vpow(f32v x, f32v y) {
    f32v r;
    for (int i = 0; i < lanes<f32v>; ++i) r[i] = std::pow(x[i], y[i]);
    return r;
}

ST_INLINE f64v vexp(f64v x) { return each(x, [](double a) { return std::exp(a); }); }
ST_INLINE f64v vexp2(f64v x) { return each(x, [](double a) { return std::exp2(a); }); }
ST_INLINE f64v vlog(f64v x) { return each(x, [](double a) { return std::log(a); }); }
ST_INLINE f64v vtanh(f64v x) { return each(x, [](double a) { return std::tanh(a); }); }
ST_INLINE f64v verf(f64v x) { return each(x, [](double a) { return std::erf(a); }); }
ST_INLINE f64v vsigmoid(f64v x) {
    return each(x, [](double a) { return a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a)); });
}
ST_INLINE f64v vpow(f64v x, f64v y) {
    f64v r;
    for (int i = 0; i < lanes<f64v>; ++i) r[i] = std::pow(x[i], y[i]);
    return r;
}

// x to a small whole power; the exponent is a constant of the leaf
template <int N, class V> ST_INLINE V power(V x) {
    if constexpr (N == 0) return splat<V>(1);
    else if constexpr (N < 0) return splat<V>(1) / power<-N>(x);
    else if constexpr (N == 1) return x;
    else if constexpr (N % 2 == 0) return power<N / 2>(x * x);
    else return x * power<N - 1>(x);
}

struct Sum { template <class V> ST_INLINE V of(V a, V b) { return a + b; } static constexpr double unit = 0; };
struct Prod { template <class V> ST_INLINE V of(V a, V b) { return a * b; } static constexpr double unit = 1; };
// vmax looks at its first operand for NaN: the new value, so that the result so far waits for one instruction.
struct Max { template <class V> ST_INLINE V of(V a, V b) { return vmax(b, a); }
             static constexpr double unit = -std::numeric_limits<double>::infinity(); };
struct Min { template <class V> ST_INLINE V of(V a, V b) { return vmin(b, a); }
             static constexpr double unit = std::numeric_limits<double>::infinity(); };
template <class Op, class V> ST_INLINE V unit() { return splat<V>(lane<V>(Op::unit)); }
template <class Op, class V> ST_INLINE void clear(V (&acc)[4]) {
    acc[0] = acc[1] = acc[2] = acc[3] = unit<Op, V>();
}
// v with lane i + W in lane i
template <int W, class V, int... I> ST_INLINE V moved_down(V v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (I + W) % lanes<V>...);
}
// All lanes combined, pairwise: lane i with lane i + W.
template <class Op, int W, class V> ST_INLINE V folded(V v) {
    if constexpr (W == 0) return v;
    else return folded<Op, W / 2>(Op::of(moved_down<W>(v, std::make_integer_sequence<int, lanes<V>>()), v));
}
template <class Op, class V> ST_INLINE lane<V> fold(V v) { return folded<Op, lanes<V> / 2>(v)[0]; }

// Four partial results as one, in every lane.
template <class Op, class V> ST_INLINE V total(const V (&acc)[4]) {
    return splat<V>(fold<Op>(Op::of(Op::of(acc[0], acc[1]), Op::of(acc[2], acc[3]))));
}

}  // namespace st
