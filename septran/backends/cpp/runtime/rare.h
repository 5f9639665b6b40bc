// Functions that few operators need: libm, lane by lane.

namespace st {

template <class V> ST_INLINE V vsin(V x) { return each(x, [](auto a) { return std::sin(a); }); }
template <class V> ST_INLINE V vcos(V x) { return each(x, [](auto a) { return std::cos(a); }); }
template <class V> ST_INLINE V vatan(V x) { return each(x, [](auto a) { return std::atan(a); }); }
template <class V> ST_INLINE V vlog1p(V x) { return each(x, [](auto a) { return std::log1p(a); }); }
template <class V> ST_INLINE V vexpm1(V x) { return each(x, [](auto a) { return std::expm1(a); }); }
template <class V> ST_INLINE V vfloor(V x) { return each(x, [](auto a) { return std::floor(a); }); }
template <class V> ST_INLINE V vceil(V x) { return each(x, [](auto a) { return std::ceil(a); }); }
template <class V> ST_INLINE V vround(V x) { return each(x, [](auto a) { return std::nearbyint(a); }); }
template <class V> ST_INLINE V vtrunc(V x) { return each(x, [](auto a) { return std::trunc(a); }); }
template <class V> ST_INLINE V vfmod(V x, V y) {
    V r;
    for (int i = 0; i < lanes<V>; ++i) r[i] = std::fmod(x[i], y[i]);
    return r;
}

}  // namespace st
