// What the `speed:` section of a cpp machine needs: one line per figure, in cycles of `argv[1]` GHz.
// Appended to the runtime of a kernel by benchmarks/cpp_speed.py. Shortest of many short attempts: the machine may be busy.
#include <chrono>
#include <cstdio>
#include <vector>

namespace {
double ghz = 1;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Work> double cycles(double seconds, Work work) {
    double best = 1e9;
    for (double until = now() + seconds; now() < until;) {
        const double start = now();
        work();
        const double used = now() - start;
        if (used < best) best = used;
    }
    return best * ghz * 1e9;
}

using V = st::f32v;
constexpr long LANES = st::lanes<V>;

// Cycles of one vector of an element-wise operation on tensors in L1, loads and store included.
template <class F> void each(const char* name, F f) {
    constexpr long n = 2048;
    alignas(64) static float x[n], y[n];
    for (long i = 0; i < n; ++i) x[i] = 0.25f + float(i % 97) / 97;
    const double used = cycles(0.2, [&] {
        for (int r = 0; r < 100; ++r) {
            for (long j = 0; j < n; j += LANES) st::store(y + j, f(st::load<V>(x + j)));
            asm volatile("" ::: "memory");
        }
    });
    std::printf("operation %s %.3g\n", name, used / 100 / (n / LANES));
}

// Cycles of one vector of a reduction in four accumulators, as leaves write it.
template <class F> void folded(const char* name, F f) {
    constexpr long n = 2048;
    alignas(64) static float x[n];
    for (long i = 0; i < n; ++i) x[i] = float(i % 97);
    const double used = cycles(0.2, [&] {
        for (int r = 0; r < 100; ++r) {
            V acc[4] = {};
            for (long j = 0; j < n; j += 4 * LANES)
                for (int u = 0; u < 4; ++u) acc[u] = f(acc[u], st::load<V>(x + j + u * LANES));
            asm volatile("" : : "m"(acc) : "memory");
        }
    });
    std::printf("operation %s %.3g\n", name, used / 100 / (n / LANES));
}

// Cycles that the end of a row adds to a reduction of 16 vectors: four results become one, and one number is stored.
template <class Op> void ended(const char* name) {
    constexpr long n = 16 * LANES, rows = 64;
    alignas(64) static float x[n * rows], y[rows];
    for (long i = 0; i < n * rows; ++i) x[i] = float(i % 97);
    const auto walk = [](bool ends) {
        return cycles(0.2, [&] {
            V kept[4] = {};
            for (long r = 0; r < rows; ++r) {
                V acc[4];
                for (int u = 0; u < 4; ++u) acc[u] = ends ? st::unit<Op, V>() : kept[u];
                for (long j = 0; j < n; j += 4 * LANES)
                    for (int u = 0; u < 4; ++u) acc[u] = Op::of(acc[u], st::load<V>(x + r * n + j + u * LANES));
                if (ends) y[r] = st::total<Op>(acc)[0];
                else for (int u = 0; u < 4; ++u) kept[u] = acc[u];
            }
            asm volatile("" : : "m"(kept), "m"(y) : "memory");
        });
    };
    std::printf("operation %s %.3g\n", name, (walk(true) - walk(false)) / rows);
}

// Cycles of one vector of a transposed tile of 64 x 64 that lies in L1.
void transposed() {
    alignas(64) static float x[64 * 80], y[64 * 80];
    const double used = cycles(0.2, [&] {
        for (int r = 0; r < 20; ++r) {
            st::transpose(st::View<float, 2>{y, {64, 64}, {80, 1}}, st::View<const float, 2>{x, {64, 64}, {1, 80}});
            asm volatile("" ::: "memory");
        }
    });
    std::printf("operation transpose %.3g\n", used / 20 / (64 * 64 / LANES));
}

// Cycles of one element of what goes along rows one element after another, in L1.
void along() {
    constexpr long rows = 8, n = 256, all = rows * n;
    alignas(64) static float x[all], y[all];
    static int64_t where[all], found[rows];
    for (long i = 0; i < all; ++i) x[i] = float(i * 7919 % 1009) / 1009, where[i] = i * 37 % n;
    const st::View<float, 2> out{y, {rows, n}, {n, 1}};
    const st::View<const float, 2> in{x, {rows, n}, {n, 1}};
    const st::View<const int64_t, 2> at{where, {rows, n}, {n, 1}};
    const auto told = [](const char* name, auto work) {
        const double used = cycles(0.2, [&] {
            for (int r = 0; r < 20; ++r) {
                work();
                asm volatile("" ::: "memory");
            }
        });
        std::printf("element %s %.3g\n", name, used / 20 / all);
    };
    told("scan", [&] { st::scan<st::On::sum, 1, false>(out, in); });
    told("scan_max", [&] { st::scan<st::On::max, 1, false>(out, in); });
    told("argreduce", [&] { st::argreduce<st::On::max, 1>(st::View<int64_t, 2>{found, {rows, 1}, {1, 1}}, in); });
    told("gather", [&] { st::gather<1>(out, in, at); });
    told("scatter_acc", [&] { st::scatter_acc<st::On::sum, 1>(out, in, at); });
}

void levels(long bytes) {
    const long n = bytes / 4;
    std::vector<float> memory(n + 16, 1.0f);
    float* const p = memory.data();
    const int rounds = int(std::max<long>(1, (4L << 20) / bytes));
    const double read = cycles(0.3, [&] {
        for (int r = 0; r < rounds; ++r) {
            V a{}, b{}, c{}, d{};
            for (long j = 0; j + 4 * LANES <= n; j += 4 * LANES) {
                a += st::load<V>(p + j), b += st::load<V>(p + j + LANES);
                c += st::load<V>(p + j + 2 * LANES), d += st::load<V>(p + j + 3 * LANES);
            }
            V sum = a + b + c + d;
            asm volatile("" : : "m"(sum) : "memory");
        }
    });
    const double write = cycles(0.3, [&] {
        for (int r = 0; r < rounds; ++r) {
            for (long j = 0; j + LANES <= n; j += LANES) st::store(p + j, V{} + 2.0f);
            asm volatile("" ::: "memory");
        }
    });
    std::printf("level %ld read %.3g write %.3g\n", bytes, double(bytes) * rounds / read, double(bytes) * rounds / write);
}
// Cycles that each piece of 256 bytes out of rows of 4 KB costs besides its bytes, where pieces below each other are read.
void pieces(long bytes) {
    std::vector<float> memory(bytes / 4, 1.0f);
    const long rows = bytes / 4096;
    const auto read = [&](long width) {
        return cycles(0.3, [&] {
            V a{}, b{}, c{}, d{};
            for (long left = 0; left < 1024; left += width)
                for (long r = 0; r < rows; ++r)
                    for (long j = left; j < left + width; j += 4 * LANES) {
                        const float* const p = memory.data() + r * 1024 + j;
                        a += st::load<V>(p), b += st::load<V>(p + LANES);
                        c += st::load<V>(p + 2 * LANES), d += st::load<V>(p + 3 * LANES);
                    }
            V sum = a + b + c + d;
            asm volatile("" : : "m"(sum) : "memory");
        });
    };
    std::printf("level %ld run %.3g\n", bytes, (read(64) - read(1024)) / (15.0 * rows));
}
// Cycles until a row of 4 KB comes that is read twice, where the row before did not ask for it.
void first_lines(long bytes) {
    const long n = 1024, rows = bytes / 4096;
    std::vector<float> memory(rows * n + n, 1.0f);
    const auto walk = [&](bool asks) {
        return cycles(0.3, [&] {
            V total{};
            for (long r = 0; r < rows; ++r) {
                const float* const row = memory.data() + r * n;
                V acc[4] = {};
                for (long j = 0; j < n; j += 4 * LANES)
                    for (int u = 0; u < 4; ++u) acc[u] += st::load<V>(row + j + u * LANES);
                const V mean = V{} + st::total<st::Sum>(acc)[0] * (1.0f / n);
                for (long j = 0; j < n; j += LANES) {
                    if (asks) __builtin_prefetch(row + n + j);
                    const V x = st::load<V>(row + j) - mean;
                    total += x * x;
                }
            }
            asm volatile("" : : "m"(total) : "memory");
        });
    };
    std::printf("level %ld first %.3g\n", bytes, (walk(false) - walk(true)) / rows);
}
}  // namespace

int main(int, char** argv) {
    ghz = std::atof(argv[1]);
    each("copy", [](V x) { return x; });
    each("other", [](V x) { return ((x * 1.5f + 0.25f) * x + 0.5f) * x + x; });
    each("/", [](V x) { return 1.0f / x; });
    each("sqrt", [](V x) { return st::vsqrt(x); });
    each("rsqrt", [](V x) { return st::vrsqrt(x); });
    each("exp", [](V x) { return st::vexp(x); });
    each("log", [](V x) { return st::vlog(x); });
    each("tanh", [](V x) { return st::vtanh(x); });
    each("sigmoid", [](V x) { return st::vsigmoid(x); });
    each("erf", [](V x) { return st::verf(x); });
    folded("reduce_sum", [](V a, V x) { return a + x; });
    folded("reduce_max", [](V a, V x) { return st::vmax(a, x); });
    ended<st::Sum>("row_sum");
    ended<st::Max>("row_max");
    transposed();
    along();
    for (long kib : {16, 32, 256, 512, 768, 2048, 4096, 8192, 16384, 24576, 65536, 262144}) levels(kib << 10);
    for (long kib : {768, 8192, 262144}) pieces(kib << 10), first_lines(kib << 10);
}
