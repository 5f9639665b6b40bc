// C++ kernels that are right in less usual ways: OpenMP's clauses, templates, lambdas, tables.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <omp.h>
#include <vector>

void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    constexpr int tile = 8;
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int i0 = 0; i0 < m; i0 += tile)
        for (int j0 = 0; j0 < n; j0 += tile) {
            for (int i = i0; i < std::min(i0 + tile, m); i++)
                for (int j = j0; j < std::min(j0 + tile, n); j++) {
                    float sum = 0.0f;
                    for (int p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
                    c[i * n + j] = sum;
                }
        }
}

void total(const float* x, float* out, int n) {
    std::vector<double> parts(omp_get_max_threads(), 0.0);
    #pragma omp parallel
    {
        double mine = 0.0;
        #pragma omp for nowait
        for (int i = 0; i < n; i++) mine += x[i];
        parts[omp_get_thread_num()] = mine;
    }
    out[0] = static_cast<float>(std::accumulate(parts.begin(), parts.end(), 0.0));
}

void total_with_atomics(const float* x, float* out, int n) {
    double sum = 0.0;
    const int blocks = (n + 63) / 64;
    #pragma omp parallel for
    for (int block = 0; block < blocks; block++) {
        double mine = 0.0;
        for (int i = block * 64; i < std::min(block * 64 + 64, n); i++) mine += x[i];
        #pragma omp atomic
        sum += mine;
    }
    out[0] = static_cast<float>(sum);
}

template <class F>
static void each(const float* x, float* out, int n, F f) {
    for (int i = 0; i < n; i++) out[i] = f(x[i]);
}

void relu(const float* x, float* out, int n) {
    each(x, out, n, [](float v) { return v > 0.0f ? v : 0.0f; });
}

void softmax(const float* x, float* out, int rows, int cols) {
    float best, sum;
    #pragma omp parallel for private(best, sum)
    for (int i = 0; i < rows; i++) {
        const float* from = x + static_cast<std::size_t>(i) * cols;
        float* to = out + static_cast<std::size_t>(i) * cols;
        best = from[0];
        sum = 0.0f;
        for (int j = 1; j < cols; j++) best = std::fmax(best, from[j]);
        for (int j = 0; j < cols; j++) {
            to[j] = std::exp(from[j] - best);
            sum += to[j];
        }
        #pragma omp simd
        for (int j = 0; j < cols; j++) to[j] /= sum;
    }
}
