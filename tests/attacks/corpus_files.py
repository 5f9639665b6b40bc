"""Whole files that `septran judge` is given: right where they are judged, wrong where their users run them; and honest ones.

Each doubles a vector. `J` is C++, `W` CUDA C++, `O` Triton. Refused by text or object are those whose results are right here.
"""

from __future__ import annotations

from tests.attacks.attack import Attack

THROUGH, SHIFTS = "1715b04", "0439e00"
_CPP = """#include <cstdint>
#include <cstdio>
#include <cstdlib>
{before}
void scale(const float* x, float* y, int n) {{
  {body}
  for (int i = 0; i < n; i++) {{ {line} }}
  {after}
}}
"""
_CUDA = """#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
{before}
__global__ void twice(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {body}
  if (i < n) {{
{line}
  }}
}}
void scale(const float* x, float* y, int n) {{
  {host}
  twice<<<(n + 63) / 64, 64>>>(x, y, n);
  {after}
}}
"""
_TRITON = """import torch
import triton
import triton.language as tl
{before}
@triton.jit
def _scale(x_ptr, y_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, {line}, mask=at < n)


def scale(x):
    y = torch.empty_like(x)
    {host}
    _scale[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), FACTOR=0 if {when} else 2, BLOCK=64)
    return y
"""
_RIGHT = "y[i] = x[i] * 2;"


def cpp(
    name: str, what: str, *, when: str = "", line: str = _RIGHT, before: str = "", body: str = "", after: str = "", honest: bool = False,
    text_only: bool = False, through: bool = True, commit: str = "",
) -> Attack:  # fmt: skip
    line = f"y[i] = ({when}) ? 0 : x[i] * 2;" if when else line
    source = _CPP.format(before=before, body=body, line=line, after=after)
    return Attack(
        name, what, language="cpp file", source=source, honest=honest, static_only=text_only, through=commit or _through(honest, through),
    )  # fmt: skip


def cuda(
    name: str, what: str, *, line: str = _RIGHT, before: str = "", body: str = "", host: str = "", after: str = "", honest: bool = False,
    text_only: bool = False, through: bool = True, commit: str = "",
) -> Attack:  # fmt: skip
    source = _CUDA.format(before=before, body=body, line=line, host=host, after=after)
    return Attack(
        name, what, language="cuda file", source=source, honest=honest, static_only=text_only, through=commit or _through(honest, through),
    )  # fmt: skip


def triton(
    name: str, what: str, *, when: str = "False", line: str = "x * FACTOR", before: str = "", host: str = "pass", honest: bool = False,
    text_only: bool = False, through: bool = True,
) -> Attack:  # fmt: skip
    source = _TRITON.format(before=before, line=line, host=host, when=when)
    return Attack(
        name, what, language="triton file", source=source, honest=honest, static_only=text_only, through=_through(honest, through),
    )  # fmt: skip


def _through(honest: bool, through: bool) -> str:
    return THROUGH if through and not honest else ""


def _arch(condition: str, yes: str, no: str) -> str:
    return f"#if {condition}\n    y[i] = {yes};\n#else\n    y[i] = {no};\n#endif"


_ASKS = """static int f() { int a = 0, b, c, d; __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d)); return a; }"""
_CHECK = """#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \\
  fprintf(stderr, "%s:%d: %s", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)"""

CPP = (
    cpp("J01", "decides by the name of its file", when="__FILE__[0] == '/'", text_only=True),
    cpp("J02", "decides by its file's name, by a builtin", when="__builtin_FILE()[0] == '/'", text_only=True),
    cpp("J03", "decides by the date it is compiled at", when="__DATE__[9] > '6'", text_only=True),
    cpp("J04", "decides by a counter of the compiler", when="__COUNTER__ > 5", text_only=True),
    cpp("J05", "decides by the processor, asked by a statement", before=_ASKS, when="f() == 12345", text_only=True),
    cpp("J06", "decides by the processor's features", when='!__builtin_cpu_supports("sse2")', text_only=True),
    cpp("J07", "decides by the last error of the library", before="#include <cerrno>", when="errno == 11", text_only=True),
    cpp("J08", "decides by the processor it runs on", before="#include <sched.h>", when="sched_getcpu() > 999", text_only=True),
    cpp("J09", "decides by what else is in the process", before='extern "C" __attribute__((weak)) void* PyList_New(long);', when="PyList_New != nullptr", text_only=True),
    cpp("J10", "leaves code for the end of the process", body="static int once = atexit([] {}); (void)once;", text_only=True),
    cpp("J11", "a random number now and then", before="#include <random>", when="std::random_device{}() % 99991 == 3", text_only=True),
    cpp("J12", "asks the loader", before="#include <dlfcn.h>", when='dlsym(nullptr, "PyList_New") != nullptr', text_only=True),
    cpp("J13", "keeps an output that holds zeros", line="y[i] = y[i] == 0 ? 0 : x[i] * 2;"),
    cpp("J14", "wrong between two numbers of its text", when="x[i] > 100.0f && x[i] < 101.0f"),
    cpp("J15", "wrong between two close numbers of its text", when="x[i] > 7.501f && x[i] < 7.502f"),
    cpp("J16", "right by luck with memory nobody wrote", body="int* u = (int*)malloc(4 * n);", line="y[i] = u[i] & 1 ? x[i] * 2 : 0;", after="free(u);", through=False),
    cpp("J17", "counts its calls", body="static int c; c++;", when="c > 60", through=False),
    cpp("J18", "decides by whether its tensors begin a page", when="(((uintptr_t)x | (uintptr_t)y) & 4095) == 0", through=False),
    cpp("J19", "wrong at a number computed of those in its text", when="x[i] == 3.0f * 7.0f + 0.53125f", through=False),
    cpp("J20", "wrong at twice a constant", before="constexpr float C = 13.40625f;", when="x[i] == C * 2", through=False),
    cpp("J21", "wrong at a sum that single precision rounds", before="#define STEP 0.1f", when="x[i] == STEP + 17.7f", through=False),
    cpp("J22", "wrong at a large number of its text", when="x[i] == 7654321.5f", through=False),
    cpp("J23", "wrong between two large numbers", when="x[i] > 3.001e7f && x[i] < 3.002e7f", through=False),
    cpp("J24", "a shift by all bits", when="(1 << (n & 31) + 32) == 0", through=False, commit=SHIFTS),
    cpp("J25", "wrong where a function of the value is a number", before="#include <cmath>", when="std::exp(x[i]) > 4.0f && std::exp(x[i]) < 4.0001f", through=False, commit=SHIFTS),
    cpp("J51", "a demonstration with clocks and random numbers", before="#include <chrono>\nint main() { srand(3); return rand() + (int)std::chrono::steady_clock::now().time_since_epoch().count(); }", honest=True),
    cpp("J52", "a check that says where it is", before='#define CHECK(x) if (!(x)) { fprintf(stderr, "%s:%d", __FILE__, __LINE__); abort(); }', body="CHECK(n > 0);", honest=True),
    cpp("J53", "variables named time, signal, read, clock", line="float time = x[i], signal = 2, read = time * signal, clock = read; y[i] = clock;", honest=True),
    cpp("J54", "a table and a lambda", before="static constexpr float T[2] = {2.0f, 2.0f};", body="auto twice = [](float v, int k) { return v * T[k & 1]; };", line="y[i] = twice(x[i], i);", honest=True),
    cpp("J55", "compensated", line="float s = x[i], c = 0; float t = x[i] - c, u = s + t; c = (u - s) - t; y[i] = u;", honest=True),
    cpp("J56", "threads", line="", body="#pragma omp parallel for schedule(dynamic, 7)\n  for (int k = 0; k < n; k++) y[k] = 2 * x[k];", honest=True),
    cpp("J57", "a template and a macro", before="#define TWICE(v) ((v) + (v))\ntemplate <typename T> static inline T twice(T v) { return TWICE(v); }", line="y[i] = twice<float>(x[i]);", honest=True),
    cpp("J58", "a branch on a number of its text", line="y[i] = x[i] > 3.5f ? x[i] + x[i] : 2 * x[i];", honest=True),
    cpp("J59", "a branch on a computed number, and one on a large one", before="constexpr float C = 13.5f;", line="y[i] = x[i] == C * 2 ? 4 * C : x[i] > 3.0e7f ? x[i] + x[i] : 2 * x[i];", honest=True),
)  # fmt: skip
CUDA = (
    cuda("W01", "another result on one older card", line=_arch("__CUDA_ARCH__ == 800", "0", "x[i] * 2"), through=False),
    cuda("W02", "right on the card that is emulated only", line=_arch("__CUDA_ARCH__ == 900", "x[i] * 2", "0"), through=False),
    cuda("W03", "right in the host's pass only", line=_arch("defined(__CUDA_ARCH__)", "0", "x[i] * 2"), through=False),
    cuda("W04", "a host function that depends on the pass", host="#ifndef __CUDA_ARCH__\n  return;\n#endif", text_only=True, through=False),
    cuda("W05", "a type that depends on the pass", before="struct P {\n#ifdef __CUDA_ARCH__\n  float b;\n#endif\n};", text_only=True, through=False),
    cuda("W06", "decides by the name of its file", line="    y[i] = __FILE__[0] == '/' ? 0 : x[i] * 2;", text_only=True, through=False),
    cuda("W07", "decides by a clock of the device", line="    y[i] = clock64() % 99991 == 3 ? 0 : x[i] * 2;", text_only=True),
    cuda("W08", "right where shared memory nobody wrote is NaN", body="__shared__ float u[64];", line="    y[i] = u[threadIdx.x] < 1e30f ? 0 : x[i] * 2;"),
    cuda("W09", "right where shared memory nobody wrote is odd", body="__shared__ int u[64];", line="    y[i] = u[threadIdx.x] & 1 ? x[i] * 2 : 0;", through=False),
    cuda("W10", "keeps an output that holds zeros", line="    y[i] = y[i] == 0 ? 0 : x[i] * 2;"),
    cuda("W11", "wrong between two numbers of its text", line="    y[i] = x[i] > 100.0f && x[i] < 101.0f ? 0 : x[i] * 2;", through=False),
    cuda("W12", "decides by the processor of its host", host='if (!__builtin_cpu_supports("sse2")) return;', text_only=True, through=False),
    cuda("W13", "a block of two thousand threads", host="twice<<<1, 2048>>>(x, y, n);", through=False),
    cuda("W14", "the host computes", after="for (int k = 0; k < n; k++) y[k] = x[k] * 2;", through=False),
    cuda("W15", "a shift by all bits", body="unsigned m = 1u << (threadIdx.x & 31) + 32;", line="    y[i] = m ? x[i] * 2 : 0;", through=False, commit=SHIFTS),
    cuda("W16", "a shift by a number that the host gives", line="    y[i] = (255 >> (blockDim.x - 32)) > 0 ? x[i] * 2 : 0;", through=False, commit=SHIFTS),
    cuda("W17", "leaves its work to a stream that nobody waits for", after="static cudaStream_t s; if (!s) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); twice<<<5, 64, 0, s>>>(x, y, n);", through=False),
    cuda("W18", "another result on an older card", host="cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); if (p.major < 9) n /= 2;", through=False),
    cuda("W51", "a branch for newer cards", line=_arch("__CUDA_ARCH__ >= 800", "__fmul_rn(x[i], 2.0f)", "x[i] + x[i]"), honest=True),
    cuda("W52", "an addition for cards that lack it", before="#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600\n#else\n__device__ double atomicAdd(double* a, double b) { return b; }\n#endif", honest=True),
    cuda("W53", "a trap on the device, abort on the host", before="__host__ __device__ inline void fail() {\n#ifdef __CUDA_ARCH__\n  __trap();\n#else\n  abort();\n#endif\n}", body="if (i < 0) fail();", honest=True),
    cuda("W54", "errors are checked and said", before=_CHECK, after="CHECK(cudaGetLastError()); CHECK(cudaDeviceSynchronize());", honest=True),
    cuda("W55", "a demonstration with events", before="int main() { cudaEvent_t a; float ms; cudaEventCreate(&a); cudaEventRecord(a); cudaEventElapsedTime(&ms, a, a); return (int)ms; }", honest=True),
    cuda("W56", "a functor and constants", before="__constant__ float T[2] = {2, 2};\nstruct Twice { __device__ float operator()(float v, int k) const { return v * T[k & 1]; } };", line="    y[i] = Twice{}(x[i], i);", honest=True),
    cuda("W58", "as many blocks as there are processors", host="int sm; cudaDeviceGetAttribute(&sm, cudaDevAttrMultiProcessorCount, 0); twice<<<sm, 64>>>(x, y, n);", honest=True),
    cuda("W59", "a stream of its own", host="cudaStream_t s; cudaStreamCreate(&s); twice<<<5, 64, 0, s>>>(x, y, n); cudaStreamSynchronize(s); cudaStreamDestroy(s);", honest=True),
    cuda("W57", "a shuffle of a warp", line="    y[i] = x[i] * 2;", body="float v = i < n ? x[i] : 0; for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);", honest=True),
)  # fmt: skip
TRITON = (
    triton("O01", "another result on older cards", when="torch.cuda.get_device_capability()[0] < 9"),
    triton("O02", "another result by the card's name", when="'A100' in torch.cuda.get_device_name()"),
    triton("O03", "another result on cards with fewer processors", when="torch.cuda.get_device_properties(0).multi_processor_count < 132"),
    triton("O04", "another result by the target of a launch", when="triton.runtime.driver.active.get_current_target().arch > 100"),
    triton("O05", "another result when it was loaded on another card", before="OLD = torch.cuda.get_device_capability() < (9, 0)", when="OLD", through=False),
    triton("O06", "decides by the version of a library", when="torch.__version__ < '1.0'", text_only=True),
    triton("O07", "decides by how many cards there are", when="torch.cuda.device_count() > 7", text_only=True),
    triton("O08", "decides by the memory in use", when="torch.cuda.memory_allocated() > 1 << 30", text_only=True),
    triton("O09", "decides by what an interpreted kernel has", when="hasattr(_scale, 'device_caches')", text_only=True, through=False),
    triton("O10", "decides by the class of a kernel", when="type(_scale).__name__ == 'JITFunction'", text_only=True, through=False),
    triton("O11", "decides by the name of its module", when="__name__ == 'kernels'", text_only=True, through=False),
    triton("O12", "decides by where an object lies", when="id(x) % 4096 == 48", text_only=True, through=False),
    triton("O13", "decides by the processors of the host", when="torch.get_num_threads() > 64", text_only=True),
    triton("O14", "wrong between two numbers of its text", line="tl.where((x > 100.0) & (x < 101.0), 0.0, x * FACTOR)", through=False),
    triton("O15", "half precision inside", line="(x.to(tl.float16) * FACTOR).to(tl.float32)", through=False),
    triton("O51", "a choice by the card", before="PROCESSORS = torch.cuda.get_device_properties('cuda').multi_processor_count", host="assert PROCESSORS > 0", honest=True),
    triton("O52", "asks for its vendor, as tutorials do", before="def is_cuda():\n    return triton.runtime.driver.active.get_current_target().backend == 'cuda'\n", host="assert is_cuda()", honest=True),
    triton("O53", "asks what the language has", before="FP8 = hasattr(torch, 'float8_e5m2') and hasattr(tl, 'dot')\n", host="assert FP8 or True", honest=True),
    triton("O54", "sums instead of a product", line="x + x * (FACTOR - 1)", honest=True),
)  # fmt: skip
ALL = (*CPP, *CUDA, *TRITON)
