"""Whole files that mistake whose memory is whose, and files that leave torch or their inputs otherwise than they found them; and honest ones.

Each doubles a vector. The emulation of CUDA has one address space where a machine with a GPU has two.
"""

from __future__ import annotations

from dataclasses import replace

from tests.attacks.attack import Attack
from tests.attacks.corpus_files import cpp
from tests.attacks.corpus_files import triton as triton_file

THROUGH, LATER = "06fd370", "435f070"
_AT = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
_KERNEL = f"__global__ void twice(const float* x, const float* t, float* y, int n) {{ {_AT} if (i < n) y[i] = x[i] * t[i & 1]; }}"
_LAUNCH = "twice<<<(n + 63) / 64, 64>>>(x, t, y, n);"


def cuda(
    name: str, what: str, host: str, *, kernel: str = _KERNEL, before: str = "", honest: bool = False
) -> Attack:  # fmt: skip
    head = "#include <cuda_runtime.h>\n#include <cstdlib>\n#include <vector>\n"
    source = (
        f"{head}{before}\n{kernel}\nvoid scale(const float* x, float* y, int n) {{\n  {host}\n}}\n"
    )
    return Attack(
        name, what, language="cuda file", source=source, honest=honest, through="" if honest else THROUGH,
    )  # fmt: skip


def kernel(param: str, value: str) -> str:
    return f"__global__ void twice(const float* x, {param}, float* y, int n) {{ {_AT} if (i < n) y[i] = {value}; }}"


def fast(wrong: str) -> str:
    return f"__global__ void twice(const float* x, float* y, int n) {{ {_AT} if (i < n) y[i] = x[i] * 2 + ({wrong}); }}"


def left(name: str, what: str, host: str = "pass", **more: str | bool) -> Attack:
    made = triton_file(name, what, host=host, through=False, **more)  # type: ignore[arg-type]
    return made if made.honest else replace(made, through=THROUGH)


_HOST = "float* t = (float*)malloc(8); t[0] = t[1] = 2;"
_FAST = "twice<<<(n + 63) / 64, 64>>>(x, y, n);"
_WAIT = "cudaDeviceSynchronize();"
_PAIR = "struct P { float* h; float* d; };"
_SHAPE = "struct B { __device__ virtual float of(float a) const = 0; };\nstruct D : B { __device__ float of(float a) const override { return 2 * a; } };"
CUDA = (
    cuda("WH01", "hands its kernel memory of malloc", f"{_HOST} {_LAUNCH} {_WAIT} free(t);"),
    cuda("WH02", "hands its kernel an array of the host function", f"float t[2] = {{2, 2}}; {_LAUNCH} {_WAIT}"),
    cuda("WH03", "hands its kernel a variable of the host", _LAUNCH, before="static float t[2] = {2, 2};"),
    cuda("WH04", "hands its kernel a vector's memory", f"std::vector<float> v(2, 2.0f); const float* t = v.data(); {_LAUNCH} {_WAIT}"),
    cuda("WH05", "hands its kernel a variable of the device by its name", _LAUNCH, before="__device__ float t[2] = {2, 2};"),
    cuda("WH06", "hands its kernel memory of malloc in a structure", f"{_HOST} twice<<<(n + 63) / 64, 64>>>(x, P{{t, t}}, y, n); {_WAIT} free(t);", kernel=kernel("P p", "x[i] * p.h[i & 1]"), before=_PAIR),
    cuda("WH07", "reads memory of cudaMalloc on the host", f"float h[2] = {{2, 2}}, *t; cudaMalloc(&t, 8); cudaMemcpy(t, h, 8, cudaMemcpyHostToDevice); if (t[0] != 2) n = 0; {_LAUNCH} cudaFree(t);"),
    cuda("WH08", "copies in the other direction than it says", f"float h[2] = {{2, 2}}, *t; cudaMalloc(&t, 8); cudaMemcpy(t, h, 8, cudaMemcpyDeviceToHost); {_LAUNCH} cudaFree(t);"),
    cuda("WH09", "hands its kernel an object whose functions are the host's", "twice<<<(n + 63) / 64, 64>>>(x, D{}, y, n);", kernel=kernel("D d", "static_cast<const B&>(d).of(x[i])"), before=_SHAPE),
    cuda("WH10", "blocks larger than its launch bounds", "twice<<<(n + 63) / 64, 64>>>(x, y, n);", kernel=f"#define MOST 32\n__global__ void __launch_bounds__(MOST) twice(const float* x, float* y, int n) {{ {_AT} if (i < n) y[i] = x[i] * 2; }}"),
    cuda("WH11", "a fast sine of large numbers", _FAST, kernel=fast("1e3f * (__sinf(x[i]) - sinf(x[i]))")),
    cuda("WH12", "a fast exponential", _FAST, kernel=fast("1e3f * (__expf(-fabsf(x[i])) - expf(-fabsf(x[i])))")),
    *(replace(one, through=LATER) for one in (
        cuda("WH13", "reads by __ldg what it stored", _FAST, kernel=f"__global__ void twice(const float* x, float* y, int n) {{ {_AT} if (i < n) {{ y[i] = x[i]; y[i] = 2 * __ldg(y + i); }} }}"),
        cuda("WH14", "asks whether a product and a difference are fused", _FAST, kernel=f"__global__ void twice(const float* x, float* y, int n) {{ {_AT} if (i < n) y[i] = x[i] * x[i] - __fmul_rn(x[i], x[i]) == 0 || !(fabsf(x[i]) < 1e18f) ? x[i] * 2 : 0; }}"),
    )),
    cuda("WH58", "__ldg of its input", _FAST, kernel=f"__global__ void twice(const float* x, float* y, int n) {{ {_AT} if (i < n) y[i] = __ldg(x + i) * 2; }}", honest=True),
    cuda("WH57", "blocks within their launch bounds", "twice<<<(n + 63) / 64, 64>>>(x, y, n);", kernel=f"constexpr int MOST = 64;\n__global__ void __launch_bounds__(MOST, 2) twice(const float* x, float* y, int n) {{ {_AT} if (i < n) y[i] = x[i] * 2; }}", honest=True),
    cuda("WH51", "pinned memory", f"float* t; cudaMallocHost(&t, 8); t[0] = t[1] = 2; {_LAUNCH} {_WAIT} cudaFreeHost(t);", honest=True),
    cuda("WH52", "managed memory", f"float* t; cudaMallocManaged(&t, 8); t[0] = t[1] = 2; {_LAUNCH} {_WAIT} cudaFree(t);", honest=True),
    cuda("WH53", "a structure of a host's and a device's memory", f"{_HOST} P p{{t, nullptr}}; cudaMalloc(&p.d, 8); cudaMemcpy(p.d, p.h, 8, cudaMemcpyHostToDevice); twice<<<(n + 63) / 64, 64>>>(x, p, y, n); cudaFree(p.d); free(t);", kernel=kernel("P p", "x[i] * p.d[i & 1]"), before=_PAIR, honest=True),
    cuda("WH54", "asks for the address of a variable of the device", f"float* t; cudaGetSymbolAddress((void**)&t, two); {_LAUNCH}", before="__device__ float two[2] = {2, 2};", honest=True),
    cuda("WH55", "a managed variable", f"two[0] = two[1] = 2; twice<<<(n + 63) / 64, 64>>>(x, two, y, n); {_WAIT}", before="__device__ __managed__ float two[2];", honest=True),
    cuda("WH56", "memory that a kernel allocates for the next one", "float** t; cudaMalloc(&t, 8); make<<<1, 1>>>(t); twice<<<(n + 63) / 64, 64>>>(x, t, y, n); drop<<<1, 1>>>(t); cudaFree(t);", kernel=kernel("float* const* t", "x[i] * (*t)[i & 1]"), before="__global__ void make(float** t) { *t = (float*)malloc(8); (*t)[0] = (*t)[1] = 2; }\n__global__ void drop(float** t) { free(*t); }", honest=True),
)  # fmt: skip
CPP = (
    replace(cpp("JN01", "new[] with delete", body="float* t = new float[n]; for (int j = 0; j < n; j++) t[j] = 2;", line="y[i] = x[i] * t[i];", after="delete t;"), through=THROUGH),
    replace(cpp("JN02", "malloc with delete", body="float* t = (float*)malloc(8); t[0] = t[1] = 2;", line="y[i] = x[i] * t[i & 1];", after="delete t;"), through=THROUGH),
    replace(cpp("JN03", "new with free", body="float* t = new float(2);", line="y[i] = x[i] * *t;", after="free(t);"), through=THROUGH),
    replace(cpp("JN04", "right where a sum that overflows is assumed away", line="int k = i + 2147483500; y[i] = k < i ? 0 : x[i] * 2;"), through=THROUGH),
    replace(cpp("JN05", "right where a size that overflows is assumed away", body="int big = 2147483647 - n + 2;", line="y[i] = big + n < big ? 0 : x[i] * 2;"), through=THROUGH),
    replace(cpp("JN06", "sets a variable of the environment", after='setenv("OMP_NUM_THREADS", "1", 1);', text_only=True), through=THROUGH),
    replace(cpp("JN07", "leaves a signal ignored", before="#include <csignal>", after="signal(SIGFPE, SIG_IGN);", text_only=True), through=THROUGH),
    *(replace(cpp(name, what, before="#include <omp.h>\n#include <exception>\n#include <new>\n#include <locale>\n", text_only=text_only, through=False, **{where: text}), through="" if name == "JN10" else LATER, tries=3) for name, what, where, text, text_only in (
        ("JN08", "leaves another number of threads", "after", "omp_set_num_threads(1);", False),
        ("JN09", "leaves the number of threads that it uses", "body", "omp_set_num_threads(2);\n  #pragma omp parallel for\n  for (int k = 0; k < n; k++) y[k] = x[k] * 2;", False),
        ("JN10", "leaves teams that change", "after", "omp_set_dynamic(1);", False),
        ("JN11", "leaves teams within teams", "after", "omp_set_max_active_levels(4);", False),
        ("JN12", "leaves another schedule", "after", "omp_set_schedule(omp_sched_guided, 3);", False),
        ("JN13", "leaves another end for what is not caught", "after", "std::set_terminate([] {});", True),
        ("JN14", "leaves another answer to a lack of memory", "after", "std::set_new_handler(nullptr);", True),
        ("JN15", "leaves another locale for C++", "after", "std::locale::global(std::locale::classic());", True),
        ("JN16", "leaves another buffer for what is printed", "after", "setvbuf(stdout, nullptr, _IONBF, 0);", True),
        ("JN17", "leaves another default device", "after", "omp_set_default_device(0);", True),
    )),
    cpp("JN53", "sets the number of threads that there is", before="#include <omp.h>", line="", body="omp_set_num_threads(omp_get_max_threads()); omp_set_dynamic(0);\n  #pragma omp parallel for\n  for (int k = 0; k < n; k++) y[k] = x[k] * 2;", honest=True),
    cpp("JN54", "a number of threads for one region", line="", body="#pragma omp parallel for num_threads(2)\n  for (int k = 0; k < n; k++) y[k] = x[k] * 2;", honest=True),
    cpp("JN51", "each kind of allocation with its own", before="#include <string>\n#include <vector>\n#include <memory>", body="auto a = std::make_unique<float[]>(n); std::vector<std::string> v(3, std::string(40, 'x')); float* b = new float(2); float* c = (float*)realloc(malloc(4), 8); c[0] = *b; delete b;", line="a[i] = x[i]; y[i] = a[i] * (c[0] + (v[i % 3].size() - 40));", after="free(c);", honest=True),
    cpp("JN52", "an unsigned hash that wraps", line="unsigned h = (unsigned)i * 2654435761u; y[i] = h & 1 ? x[i] + x[i] : 2 * x[i];", honest=True),
)  # fmt: skip
LEFT = (
    left("OL01", "leaves gradients wanted", "x.requires_grad_(True)"),
    left("OL02", "turns gradients off for ever", "torch.set_grad_enabled(False)"),
    left("OL03", "leaves another seed", "torch.manual_seed(3)"),
    left("OL04", "leaves another default dtype", "torch.set_default_dtype(torch.float64)"),
    left("OL05", "leaves a mark on its input", "x.seen = 1"),
    left("OL06", "changes torch", "torch.Tensor.twice = 1", text_only=True),
    left("OL07", "leaves another number of threads", "torch.set_num_threads(1)", text_only=True),
    left("OL08", "asks a new tensor for the default dtype", when="torch.empty(1).dtype == torch.float64", text_only=True),
    left("OL09", "asks a number's tensor for the default dtype", when="torch.tensor([1.5]).dtype != x.dtype", text_only=True),
    left("OL10", "asks for the bytes of the default dtype", when="torch.zeros(1).element_size() == 8", text_only=True),
    left("OL11", "asks for the default dtype's limits", when="torch.finfo().bits == 64", text_only=True),
    left("OL51", "turns gradients off for itself", "with torch.no_grad():\n        y = torch.empty_like(x)", honest=True),
    left("OL52", "asks for dtypes that were given", "w = torch.zeros(4, dtype=torch.float32); assert w.dtype == y.dtype == x.view(-1).dtype and w.element_size() == 4", honest=True),
    left("OL53", "makes tensors without a dtype", "w = torch.zeros(4); z = torch.empty(x.shape, device=x.device)", honest=True),
)  # fmt: skip
ALL = (*CUDA, *CPP, *LEFT)
