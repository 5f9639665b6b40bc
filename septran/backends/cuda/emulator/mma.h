// nvcuda::wmma: fragments hold consecutive elements per lane (their layout is unspecified in CUDA).
#pragma once
#include "cuda_fp16.h"
namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32 {}; }
template <class U> struct storage { using type = U; };
template <> struct storage<precision::tf32> { using type = float; };
template <class Use, int M, int N, int K, class T, class L = void> struct fragment {
  using element_type = typename storage<T>::type;
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M, cols = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int num_elements = rows * cols / 32;
  element_type x[num_elements];
};
template <class F, class V> void fill_fragment(F& f, V v) { for (auto& e : f.x) e = v; }
template <class U, int M, int N, int K, class T, class L, class P>
void load_matrix_sync(fragment<U, M, N, K, T, L>& f, const P* p, unsigned ld) {
  using F = fragment<U, M, N, K, T, L>;
  for (int e = 0; e < F::num_elements; e++) {
    int i = cuemu::lane() * F::num_elements + e, r = i / F::cols, c = i % F::cols;
    f.x[e] = std::is_same_v<L, col_major> ? p[c * ld + r] : p[r * ld + c];
  }
  cuemu::warp_barrier("load_matrix_sync");
}
template <int M, int N, int K, class T, class P>
void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const P* p, unsigned ld, layout_t l) {
  using F = fragment<accumulator, M, N, K, T>;
  for (int e = 0; e < F::num_elements; e++) {
    int i = cuemu::lane() * F::num_elements + e, r = i / N, c = i % N;
    f.x[e] = l == mem_col_major ? p[c * ld + r] : p[r * ld + c];
  }
  cuemu::warp_barrier("load_matrix_sync");
}
template <int M, int N, int K, class T, class P>
void store_matrix_sync(P* p, const fragment<accumulator, M, N, K, T>& f, unsigned ld, layout_t l) {
  using F = fragment<accumulator, M, N, K, T>;
  for (int e = 0; e < F::num_elements; e++) {
    int i = cuemu::lane() * F::num_elements + e, r = i / N, c = i % N;
    p[l == mem_col_major ? c * ld + r : r * ld + c] = f.x[e];
  }
  cuemu::warp_barrier("store_matrix_sync");
}
template <class D, class A, class B, class C> struct Operands { D* d; const A* a; const B* b; const C* c; };
template <int M, int N, int K, class TD, class TA, class LA, class TB, class LB, class TC>
void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
              const fragment<matrix_b, M, N, K, TB, LB>& b, const fragment<accumulator, M, N, K, TC>& c) {
  using FD = fragment<accumulator, M, N, K, TD>;
  using FA = fragment<matrix_a, M, N, K, TA, LA>;
  using FB = fragment<matrix_b, M, N, K, TB, LB>;
  using P = Operands<FD, FA, FB, fragment<accumulator, M, N, K, TC>>;
  P mine{&d, &a, &b, &c};
  cuemu::warp_collective(~0u, "mma_sync", mine, [](P** all) {
    float sum[M][N];
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        int e = i * N + j;
        float s = (float)all[e / FD::num_elements]->c->x[e % FD::num_elements];
        for (int k = 0; k < K; k++) {
          int ia = i * K + k, ib = k * N + j;
          s += (float)all[ia / FA::num_elements]->a->x[ia % FA::num_elements] *
               (float)all[ib / FB::num_elements]->b->x[ib % FB::num_elements];
        }
        sum[i][j] = s;
      }
    for (int e = 0; e < M * N; e++) all[e / FD::num_elements]->d->x[e % FD::num_elements] = (TD)sum[e / N][e % N];
  });
}
}  // namespace wmma
}  // namespace nvcuda
