// ldmatrix and mma.sync with the register layouts of the PTX ISA (sections "ldmatrix" and "mma").
#include "machine.h"

namespace cuemu {

namespace {
struct LoadMatrix {
  const void* row;
  uint32_t* out;
  int count;
  bool transposed;
  const void* code;
};

void load_all(void** all, void*) {
  const int count = static_cast<LoadMatrix*>(all[0])->count;
  const bool transposed = static_cast<LoadMatrix*>(all[0])->transposed;
  for (int q = 0; q < count; q++) {
    uint16_t m[8][8];
    const void* rows[8];
    for (int r = 0; r < 8; r++) {
      const void* p = rows[r] = static_cast<LoadMatrix*>(all[8 * q + r])->row;
      if (reinterpret_cast<uintptr_t>(p) % 16) fail("alignment", "ldmatrix row address is not 16-byte aligned");
      note_load(p, 16, thread_linear / kWave * kWave + 8 * q + r);
      memcpy(m[r], p, 16);
    }
    if (counting) count_rows(static_cast<LoadMatrix*>(all[0])->code, rows);
    for (int l = 0; l < 32; l++) {
      const int a = l / 4, b = l % 4 * 2;
      const uint16_t lo = transposed ? m[b][a] : m[a][b], hi = transposed ? m[b + 1][a] : m[a][b + 1];
      static_cast<LoadMatrix*>(all[l])->out[q] = lo | uint32_t(hi) << 16;
    }
  }
}

struct Mma {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};

/// What the accumulators of 32 lanes hold: D[16,8].
void gather(void** all, float (&D)[16][8]) {
  for (int l = 0; l < 32; l++)
    for (int r = 0; r < 4; r++) D[l / 4 + (r >> 1) * 8][l % 4 * 2 + (r & 1)] = static_cast<Mma*>(all[l])->d[r];
}
void scatter(void** all, const float (&D)[16][8]) {
  for (int l = 0; l < 32; l++)
    for (int r = 0; r < 4; r++) static_cast<Mma*>(all[l])->d[r] = D[l / 4 + (r >> 1) * 8][l % 4 * 2 + (r & 1)];
}

template <class T> void multiply_16816(void** all, void*) {
  float A[16][16], B[16][8], D[16][8];
  for (int l = 0; l < 32; l++) {
    const Mma& m = *static_cast<Mma*>(all[l]);
    const int g = l / 4, t = l % 4 * 2;
    for (int r = 0; r < 4; r++)
      for (int h = 0; h < 2; h++) A[g + (r & 1) * 8][t + h + (r >> 1) * 8] = T::decode(uint16_t(m.a[r] >> 16 * h));
    for (int r = 0; r < 2; r++)
      for (int h = 0; h < 2; h++) B[t + h + r * 8][g] = T::decode(uint16_t(m.b[r] >> 16 * h));
  }
  gather(all, D);
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k++)
      for (int j = 0; j < 8; j++) D[i][j] += A[i][k] * B[k][j];
  scatter(all, D);
}

/// float32 with the 13 low mantissa bits dropped, as the tensor core reads it.
float tf32(uint32_t u) { return bits<float>(u & 0xFFFFE000u); }

void multiply_1688(void** all, void*) {
  float A[16][8], B[8][8], D[16][8];
  for (int l = 0; l < 32; l++) {
    const Mma& m = *static_cast<Mma*>(all[l]);
    const int g = l / 4, t = l % 4;
    for (int r = 0; r < 4; r++) A[g + (r & 1) * 8][t + (r >> 1) * 4] = tf32(m.a[r]);
    for (int r = 0; r < 2; r++) B[t + r * 4][g] = tf32(m.b[r]);
  }
  gather(all, D);
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 8; k++)
      for (int j = 0; j < 8; j++) D[i][j] += A[i][k] * B[k][j];
  scatter(all, D);
}

/// Lane layout of v_mfma_f32_16x16x16 (AMD CDNA3 ISA, "Matrix arithmetic instructions").
struct Mfma {
  float* d;
  const float *a, *b;
};

void multiply_wave(void** all, void*) {
  float A[16][16], B[16][16];
  for (int l = 0; l < 64; l++)
    for (int q = 0; q < 4; q++) {
      A[l % 16][l / 16 * 4 + q] = static_cast<Mfma*>(all[l])->a[q];
      B[l / 16 * 4 + q][l % 16] = static_cast<Mfma*>(all[l])->b[q];
    }
  for (int l = 0; l < 64; l++)
    for (int r = 0; r < 4; r++) {
      float& d = static_cast<Mfma*>(all[l])->d[r];
      for (int k = 0; k < 16; k++) d += A[l / 16 * 4 + r][k] * B[k][l % 16];
    }
}
}  // namespace

void load_matrix(uint32_t* out, const void* row, int count, bool transposed, const char* where) {
  LoadMatrix mine{row, out, count, transposed, __builtin_return_address(0)};
  warp_meeting(~0u, where, &mine, load_all, nullptr);
}

void mma_16816(float* d, const uint32_t* a, const uint32_t* b, Product16 kind, const char* where) {
  Mma mine{d, a, b};
  warp_meeting(~0u, where, &mine, kind == product_half ? multiply_16816<Half> : multiply_16816<Bfloat>, nullptr);
}

void mma_1688_tf32(float* d, const uint32_t* a, const uint32_t* b, const char* where) {
  Mma mine{d, a, b};
  warp_meeting(~0u, where, &mine, multiply_1688, nullptr);
}

void mfma_16x16x16(float* d, const float* a, const float* b, const char* where) {
  Mfma mine{d, a, b};
  warp_meeting(~Mask(0), where, &mine, multiply_wave, nullptr);
}

}  // namespace cuemu
