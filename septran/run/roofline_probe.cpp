// What this processor can do at most: fused multiply-adds from registers, and copies at several sizes.
// Prints one line per figure: "float32 GFLOP/s", "float64 GFLOP/s", those of "bfloat16" and "int8" where matrix tiles multiply
// them, "copy BYTES GB/s". argv[1]: threads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <omp.h>
#include <vector>

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Short attempts, many of them: on a busy machine a few run undisturbed. The clock runs from the first start to the
// last end over all threads.
template <class Prepare, class Work> static double shortest(int threads, double seconds, Prepare prepare, Work work) {
  double best = 1e9;
  std::vector<double> starts(threads), ends(threads);
  for (double until = now() + seconds; now() < until;) {
#pragma omp parallel num_threads(threads)
    {
      const int t = omp_get_thread_num();
      prepare(t);
#pragma omp barrier
      starts[t] = now();
      work(t);
      ends[t] = now();
    }
    best = std::min(best, *std::max_element(ends.begin(), ends.end()) - *std::min_element(starts.begin(), starts.end()));
  }
  return best;
}

template <class T> static double peak(int threads) {
  typedef T V __attribute__((vector_size(WIDTH)));
  constexpr int CHAINS = 10, ROUNDS = 50000, LANES = WIDTH / sizeof(T);
  std::vector<T> kept(threads * 64);
  const double seconds = shortest(threads, 0.4, [](int) {}, [&](int t) {
    V sums[CHAINS];
    for (int c = 0; c < CHAINS; c++) sums[c] = V{} + T(c);
    V a = V{} + T(0.999999), b = V{} + T(1e-7);
    asm volatile("" : "+m"(a), "+m"(b));
    for (int r = 0; r < ROUNDS; r++)
#pragma GCC unroll 10
      for (int c = 0; c < CHAINS; c++) sums[c] = sums[c] * a + b;
    V all = V{};
    for (int c = 0; c < CHAINS; c++) all += sums[c];
    kept[t * 64] = all[0];
  });
  volatile T sink = kept[0];
  (void)sink;
  return 2.0 * LANES * CHAINS * ROUNDS * threads / seconds / 1e9;
}

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && !defined(ST_WITHOUT_TILES)
// Four products of whole tiles, each of 16 x 16 sums of `deep` factors, over and over.
template <int deep> static double tiles(int threads) {
  constexpr int ROUNDS = 20000;
  const double seconds = shortest(
      threads, 0.4,
      [](int) {
        alignas(64) unsigned char shape[64] = {1};
        for (int i = 0; i < 8; i++) shape[16 + 2 * i] = 64, shape[48 + i] = 16;
        asm volatile("ldtilecfg\t%0" ::"m"(shape));
      },
      [](int) {
        for (int r = 0; r < ROUNDS; r++)
          if (deep == 32)
            asm volatile("tdpbf16ps\t%tmm6, %tmm4, %tmm0\n\ttdpbf16ps\t%tmm7, %tmm4, %tmm1\n\t"
                         "tdpbf16ps\t%tmm6, %tmm5, %tmm2\n\ttdpbf16ps\t%tmm7, %tmm5, %tmm3");
          else
            asm volatile("tdpbssd\t%tmm6, %tmm4, %tmm0\n\ttdpbssd\t%tmm7, %tmm4, %tmm1\n\t"
                         "tdpbssd\t%tmm6, %tmm5, %tmm2\n\ttdpbssd\t%tmm7, %tmm5, %tmm3");
      });
#pragma omp parallel num_threads(threads)
  asm volatile("tilerelease");
  return 2.0 * 16 * 16 * deep * 4 * ROUNDS * threads / seconds / 1e9;
}
static bool tiles_here() {
  long answer = 158;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
  asm volatile("syscall" : "+a"(answer) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
  return answer == 0;
}
#define TILES 1
#endif

// bytes: read and written together, by all threads
static double copies(size_t bytes, int threads) {
  const size_t each = std::max<size_t>(bytes / 2 / threads, 4096);
  const int rounds = int(std::max<size_t>(1, (size_t(1) << 22) / (2 * each)));
  std::vector<char*> from(threads), to(threads);
  for (int t = 0; t < threads; t++) {
    from[t] = static_cast<char*>(std::aligned_alloc(64, (each + 63) / 64 * 64));
    to[t] = static_cast<char*>(std::aligned_alloc(64, (each + 63) / 64 * 64));
    if (!from[t] || !to[t]) return 0;
    std::memset(from[t], 1, each);
    std::memset(to[t], 2, each);
  }
  auto work = [&](int t) {
    for (int r = 0; r < rounds; r++) {
      std::memcpy(to[t], from[t], each);
      asm volatile("" ::: "memory");
    }
  };
  const double seconds = shortest(threads, 0.12, [](int) {}, work);
  for (int t = 0; t < threads; t++) std::free(from[t]), std::free(to[t]);
  return 2.0 * each * threads * rounds / seconds / 1e9;
}

int main(int argc, char** argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  std::printf("float32 %.6g\n", peak<float>(threads));
  std::printf("float64 %.6g\n", peak<double>(threads));
#ifdef TILES
  if (tiles_here()) std::printf("bfloat16 %.6g\nint8 %.6g\n", tiles<32>(threads), tiles<64>(threads));
#endif
  for (int shift = 15; shift <= 28; shift++)
    std::printf("copy %zu %.6g\n", size_t(1) << shift, copies(size_t(1) << shift, threads));
}
