// ldmatrix and mma.sync with the register layouts of the PTX ISA (sections "ldmatrix" and "mma").
#pragma once
#include "cuda_fp16.h"

namespace cuemu {

struct LoadMatrix {
  const void* row;
  uint32_t* out;
};

/// 1, 2 or 4 matrices of 8 x 8 16-bit elements; lane 8 * q + r names row r of matrix q.
inline void load_matrix(uint32_t* out, const void* row, int count, bool transposed, const char* where) {
  LoadMatrix mine{row, out};
  warp_collective(~0u, where, mine, [&](LoadMatrix** all) {
    for (int q = 0; q < count; q++) {
      uint16_t m[8][8];
      for (int r = 0; r < 8; r++) {
        const void* p = all[8 * q + r]->row;
        if (reinterpret_cast<uintptr_t>(p) % 16) fail("alignment", "ldmatrix row address is not 16-byte aligned");
        memcpy(m[r], p, 16);
      }
      for (int l = 0; l < 32; l++) {
        int a = l / 4, b = l % 4 * 2;
        uint16_t lo = transposed ? m[b][a] : m[a][b], hi = transposed ? m[b + 1][a] : m[a][b + 1];
        all[l]->out[q] = lo | uint32_t(hi) << 16;
      }
    }
  });
}

struct Mma {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};

/// D[16,8] += A[16,16] B[16,8]; T decodes the two 16-bit halves of a register.
template <class T> inline void mma_16816(float* d, const uint32_t* a, const uint32_t* b, const char* where) {
  Mma mine{d, a, b};
  warp_collective(~0u, where, mine, [](Mma** all) {
    float A[16][16], B[16][8], D[16][8];
    for (int l = 0; l < 32; l++) {
      int g = l / 4, t = l % 4 * 2;
      for (int r = 0; r < 4; r++)
        for (int h = 0; h < 2; h++)
          A[g + (r & 1) * 8][t + h + (r >> 1) * 8] = T::decode(uint16_t(all[l]->a[r] >> 16 * h));
      for (int r = 0; r < 2; r++)
        for (int h = 0; h < 2; h++) B[t + h + r * 8][g] = T::decode(uint16_t(all[l]->b[r] >> 16 * h));
      for (int r = 0; r < 4; r++) D[g + (r >> 1) * 8][t + (r & 1)] = all[l]->d[r];
    }
    for (int i = 0; i < 16; i++)
      for (int k = 0; k < 16; k++)
        for (int j = 0; j < 8; j++) D[i][j] += A[i][k] * B[k][j];
    for (int l = 0; l < 32; l++)
      for (int r = 0; r < 4; r++) all[l]->d[r] = D[l / 4 + (r >> 1) * 8][l % 4 * 2 + (r & 1)];
  });
}

/// float32 with the 13 low mantissa bits dropped, as the tensor core reads it.
inline float tf32(uint32_t u) { return bits<float>(u & 0xFFFFE000u); }

/// D[16,8] += A[16,8] B[8,8] in tf32.
inline void mma_1688_tf32(float* d, const uint32_t* a, const uint32_t* b, const char* where) {
  Mma mine{d, a, b};
  warp_collective(~0u, where, mine, [](Mma** all) {
    float A[16][8], B[8][8], D[16][8];
    for (int l = 0; l < 32; l++) {
      int g = l / 4, t = l % 4;
      for (int r = 0; r < 4; r++) A[g + (r & 1) * 8][t + (r >> 1) * 4] = tf32(all[l]->a[r]);
      for (int r = 0; r < 2; r++) B[t + r * 4][g] = tf32(all[l]->b[r]);
      for (int r = 0; r < 4; r++) D[g + (r >> 1) * 8][t * 2 + (r & 1)] = all[l]->d[r];
    }
    for (int i = 0; i < 16; i++)
      for (int k = 0; k < 8; k++)
        for (int j = 0; j < 8; j++) D[i][j] += A[i][k] * B[k][j];
    for (int l = 0; l < 32; l++)
      for (int r = 0; r < 4; r++) all[l]->d[r] = D[l / 4 + (r >> 1) * 8][l % 4 * 2 + (r & 1)];
  });
}

}  // namespace cuemu
