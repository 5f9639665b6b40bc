// Small C++ kernels with host functions, as people write them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

void relu(const float* x, float* out, int n) {
    #pragma omp parallel for
    for (int i = 0; i < n; i++) out[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

void gelu(const float* x, float* out, int n) {
    for (int i = 0; i < n; i++) out[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f));
}

void transpose(const float* x, float* out, int m, int n) {
    constexpr int tile = 8;
    for (int i = 0; i < m; i += tile)
        for (int j = 0; j < n; j += tile)
            for (int a = i; a < std::min(i + tile, m); a++)
                for (int b = j; b < std::min(j + tile, n); b++) out[b * m + a] = x[a * n + b];
}

void rms_norm(const float* x, const float* w, float* out, int rows, int cols, float eps) {
    for (int i = 0; i < rows; i++) {
        float sum = 0.0f;
        for (int j = 0; j < cols; j++) sum += x[i * cols + j] * x[i * cols + j];
        const float scale = 1.0f / std::sqrt(sum / cols + eps);
        for (int j = 0; j < cols; j++) out[i * cols + j] = x[i * cols + j] * scale * w[j];
    }
}

void layer_norm(const float* x, const float* w, const float* b, float* out, int rows, int cols, float eps) {
    for (int i = 0; i < rows; i++) {
        const float* row = x + static_cast<std::size_t>(i) * cols;
        double mean = 0.0, square = 0.0;
        for (int j = 0; j < cols; j++) mean += row[j];
        mean /= cols;
        for (int j = 0; j < cols; j++) square += (row[j] - mean) * (row[j] - mean);
        const double rstd = 1.0 / std::sqrt(square / cols + eps);
        for (int j = 0; j < cols; j++) out[i * cols + j] = static_cast<float>((row[j] - mean) * rstd * w[j] + b[j]);
    }
}

void total(const float* x, float* out, int n) {
    double sum = 0.0;
    #pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < n; i++) sum += x[i];
    out[0] = static_cast<float>(sum);
}

void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    std::fill(c, c + static_cast<std::size_t>(m) * n, 0.0f);
    for (int i = 0; i < m; i++)
        for (int p = 0; p < k; p++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
}
