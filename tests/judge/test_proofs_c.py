"""Races and bounds of C++ and CUDA files, from their text and the call that the judge makes."""

from __future__ import annotations

import pytest

from septran.backends.judged.c_launches import Given, launches
from septran.prove.foreign.decide import prove_launches
from septran.prove.foreign.launch import NotRead, Proof
from tests.judge.corpus import BUGS, HERE

N = 5000
ADD = (Given(name="x", elements=N, item=4), Given(name="y", elements=N, item=4))
MATMUL = (
    *(
        Given(name=n, elements=e, item=4)
        for n, e in (("a", 37 * 53), ("b", 53 * 29), ("c", 37 * 29))
    ),
    *(Given(number=n) for n in (37, 29, 53)),
)
SUM = (
    Given(name="x", elements=3001, item=4),
    Given(name="total", elements=1, item=4),
    Given(number=3001),
)
ROWS = (
    *(Given(name=n, elements=181 * 781, item=4) for n in "xo"),
    *(Given(number=n) for n in (181, 781)),
)
RELU = (*(Given(name=n, elements=1395, item=4) for n in "xo"), Given(number=1395))
TURN = (
    *(Given(name=n, elements=37 * 45, item=4) for n in "xo"),
    Given(number=37),
    Given(number=45),
)


def proof(text: str, entry: str, given: tuple[Given, ...]) -> Proof:
    return prove_launches(launches(text, "file", entry, given))


def kernel(body: str, config: str = "20, 256") -> Proof:
    """Of `body` in a kernel that gets x, y (5000 elements) and n."""
    text = f"__global__ void k(const float* x, float* y, int n) {{\n{body}\n}}\n"
    text += f"void f(const float* x, float* y, int n) {{ k<<<{config}>>>(x, y, n); }}\n"
    return proof(text, "f", (*ADD, Given(number=N)))


def loop(body: str, clauses: str = "") -> Proof:
    """Of `body` in a parallel loop of 5000 iterations over i."""
    text = "void f(const float* x, float* y, int n) {\nfloat sum = 0, t;\n"
    text += f"#pragma omp parallel for {clauses}\nfor (int i = 0; i < n; i++) {{\n{body}\n}}\n}}\n"
    return proof(text, "f", (*ADD, Given(number=N)))


@pytest.mark.parametrize(
    ("file", "entry", "given"),
    [
        ("gemm.cu", "matmul", MATMUL),
        ("rows.cu", "softmax", (*ROWS, Given(number=0))),
        ("rows.cu", "sum", SUM),
        ("tour.cu", "transpose", TURN),
        ("rows.cpp", "softmax", ROWS),
        ("rows.cpp", "matmul", MATMUL),
        ("tour.cpp", "transpose", TURN),
        ("tour.cpp", "total", SUM),
        ("groups.cu", "transpose", TURN),
        ("groups.cu", "sum", SUM),
        ("groups.cu", "sum_in_warps", SUM),
        ("groups.cu", "relu", RELU),
        ("groups.cu", "matmul", MATMUL),
        ("groups.cu", "softmax", ROWS),
        ("groups.cu", "relu_in_stages", RELU),
    ],
)
def test_honest_files_are_proven(file, entry, given):
    found = proof((HERE / file).read_text(encoding="utf-8"), entry, given)
    assert (found.findings, found.not_proven) == ((), {})
    assert found.proved == ("bounds", "races")


GROUPS = {"transpose": TURN, "sum": SUM, "sum_in_warps": SUM, "relu": RELU, "matmul": MATMUL, "softmax": ROWS, "relu_in_stages": RELU}  # fmt: skip


@pytest.mark.parametrize(
    "bug", [b for b in BUGS if b.honest.file == "groups.cu"], ids=lambda b: b.name
)
def test_mistakes_with_groups_and_copies_have_a_witness(bug):
    (found,) = proof(bug.text(), bug.honest.entry, GROUPS[bug.honest.entry]).findings
    assert found.code == ("P110" if "too long" in bug.name else "P130")
    assert found.at and found.places


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("__pipeline_memcpy_async(&s[t], &x[t], 4);\n__pipeline_commit();\n__pipeline_wait_prior(0);\ny[t] = s[t];", ""),
        ("__pipeline_memcpy_async(&s[t], &x[t], 4);\n__pipeline_commit();\ny[t] = s[t];", "the copy has not been waited for"),
        ("__pipeline_memcpy_async(&s[t], &x[t], 4);\ny[t] = s[63 - t];", "begins to copy to element"),
        ("__pipeline_memcpy_async(&s[t], &x[t], 4);\n__pipeline_memcpy_async(&s[t], &x[t + 64], 4);", "begins to copy to element"),
        ("y[t] = s[63 - t];\n__pipeline_memcpy_async(&s[t], &x[t], 4);", "a barrier and a wait do not both"),
        ("for (int k = 0; k < 9; k++) {\n if (k < 8) __pipeline_memcpy_async(&s[t + 64 * (k % 2)], &x[t], 4);\n"
         " __pipeline_commit();\n __pipeline_wait_prior(1);\n if (k > 0) y[t] = s[t + 64 * ((k + 1) % 2)];\n}", ""),
        ("for (int k = 0; k < 9; k++) {\n if (k < 8) __pipeline_memcpy_async(&s[t + 64 * (k % 2)], &x[t], 4);\n"
         " __pipeline_commit();\n __pipeline_wait_prior(1);\n y[t] = s[t + 64 * (k % 2)];\n}", "has not been waited for"),
    ],
)  # fmt: skip
def test_a_thread_waits_for_its_own_copies(body, says):
    body = f"__shared__ float s[128];\nconst int t = threadIdx.x;\n{body}"
    found = kernel(body, "1, 64")
    assert [says in f.text for f in found.findings] == ([True] if says else []), found
    assert says or found.proved == ("bounds", "races")


I = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"  # noqa: E741


@pytest.mark.parametrize(
    "body",
    [
        I + "if (i < n) y[i] = x[i];",
        I + "if (i >= n) return;\ny[i] = x[i];",
        "for (int j = " + I[8:-2] + "; j < n; j += gridDim.x * blockDim.x) y[j] = 2.0f * x[j];",
        I + "const float4* v = reinterpret_cast<const float4*>(x);\nif (i < n / 4) ((float4*)y)[i] = v[i];",
        I + "__shared__ float s[256];\ns[threadIdx.x] = i < n ? x[i] : 0.0f;\n__syncthreads();\n"
        "if (i < n) y[i] = s[255 - threadIdx.x];",
        I + "atomicAdd(&y[i % 7], i < n ? x[i] : 0.0f);",
        I + "if (i < n) y[n - 1 - i] = __ldg(x + i);",
        "__shared__ float s[2][256];\nfor (int t = 0; t < 8; t++) {\n s[t % 2][threadIdx.x] = x[t];\n __syncthreads();\n"
        " if (blockIdx.x == 0) atomicAdd(y, s[t % 2][threadIdx.x ^ 1]);\n}",
    ],
)  # fmt: skip
def test_an_honest_cuda_kernel_is_not_accused(body):
    assert kernel(body).findings == ()


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (I + "y[i] = i < n ? x[i] : 0.0f;", "P110", "thread 136 of block 19 stores element 5000 of y"),
        (I + "if (i < n) y[i] = x[i + (i == n - 1)];", "P110", "element 5000 of x"),
        (I + "if (i < n) y[i] = x[i > 4990 ? i + 20 : i];", "P110", "element 5011 of x"),
        ("if (blockIdx.x == 0 && threadIdx.x == 0) y[0] = 0.0f;\natomicAdd(y, 1.0f);", "P130", "nothing orders blocks"),
        (I + "if (i < n) y[i / 2] = x[i];", "P130", "stores"),
        ("__shared__ float s[256];\ns[threadIdx.x] = 1.0f * threadIdx.x;\nif (blockIdx.x == 0) y[threadIdx.x] = s[255 - threadIdx.x];",
         "P130", "no barrier is between"),
        ("__shared__ float s[256];\nfor (int t = 0; t < 8; t++) {\n s[threadIdx.x] = x[t];\n __syncthreads();\n"
         " if (blockIdx.x == 0) atomicAdd(y, s[threadIdx.x ^ 1]);\n}", "", ""),
        ("__shared__ float s[256];\nfor (int t = 0; t < 8; t++) {\n s[threadIdx.x] = x[t];\n __syncthreads();\n"
         " if (blockIdx.x == 0) atomicAdd(y, s[255 - threadIdx.x]);\n}", "P130", "loads"),
        (I + "const float4* v = reinterpret_cast<const float4*>(x);\nif (i <= n / 4) ((float4*)y)[i] = v[i];", "P110", "5000"),
    ],
)  # fmt: skip
def test_a_mistake_of_a_cuda_kernel_is_refused(body, code, says):
    found = kernel(body)
    assert [f.code for f in found.findings][:1] == ([code] if code else []), found
    assert not code or says in found.findings[0].text


@pytest.mark.parametrize(
    ("body", "clauses", "code"),
    [
        ("sum += x[i];", "", "P130"),
        ("sum += x[i];", "reduction(+ : sum)", ""),
        ("#pragma omp atomic\nsum += x[i];", "", ""),
        ("#pragma omp critical\n{ sum += x[i]; }", "", ""),
        ("t = x[i];\ny[i] = t * t;", "", "P130"),
        ("t = x[i];\ny[i] = t * t;", "private(t)", ""),
        ("float u = x[i];\nu *= u;\ny[i] = u;", "schedule(static)", ""),
        ("y[i / 2] = x[i];", "", "P130"),
        ("y[i] = i ? y[i - 1] + x[i] : x[0];", "", "P130"),
        ("if (i % 2 == 0) { y[i] = x[i]; if (i + 1 < n) y[i + 1] = 0.0f; }", "", ""),
        ("y[i] = x[i + 1];", "", "P110"),
    ],
)
def test_parallel_loops_of_openmp(body, clauses, code):
    found = loop(body, clauses)
    assert [f.code for f in found.findings] == ([code] if code else []), found
    assert found.findings or found.proved == ("bounds", "races")


def region(body: str, clauses: str = "") -> Proof:
    """Of `body` in a region of OpenMP."""
    text = "void f(const float* x, float* y, int n) {\nfloat sum = 0, t = 0;\nfloat parts[8];\n"
    text += f"#pragma omp parallel {clauses}\n{{\n{body}\n}}\n}}\n"
    return proof(text, "f", (*ADD, Given(number=N)))


FOR = "#pragma omp for\nfor (int i = 0; i < n; i++) "
SHARE = (
    "int t0 = omp_get_thread_num(), nt = omp_get_num_threads(), per = (n + nt - 1) / nt;\n"
    "for (int i = t0 * per; i < std::min(n, (t0 + 1) * per); i++) y[i] = x[i];"
)


@pytest.mark.parametrize(
    ("body", "clauses", "code"),
    [
        (FOR + "y[i] = x[i];", "", ""),
        (FOR + "y[i / 2] = x[i];", "", "P130"),
        (FOR + "sum += x[i];", "", "P130"),
        (FOR.replace("for\n", "for reduction(+ : sum)\n", 1) + "sum += x[i];", "", ""),
        (FOR + "sum += x[i];", "reduction(+ : sum)", ""),
        (FOR + "{ t = x[i]; y[i] = t; }", "", "P130"),
        (FOR + "{ t = x[i]; y[i] = t; }", "private(t)", ""),
        (FOR + "y[i] = x[i];\n" + FOR + "y[n - 1 - i] = x[i];", "", ""),
        (FOR.replace("for\n", "for nowait\n", 1) + "y[i] = x[i];\n" + FOR + "y[n - 1 - i] = x[i];", "", "P130"),
        (FOR.replace("for\n", "for nowait\n", 1) + "y[i] = x[i];\n#pragma omp barrier\n" + FOR + "y[n - 1 - i] = x[i];", "", ""),
        (SHARE, "", ""),
        (SHARE.replace("(t0 + 1) * per", "(t0 + 1) * per + 1"), "", "P130"),
        (SHARE.replace("std::min(n, (t0 + 1) * per)", "(t0 + 1) * per"), "num_threads(3)", "P110"),
        ("parts[omp_get_thread_num()] = 1.0f;", "", ""),
        ("parts[omp_get_thread_num()] = 1.0f;", "num_threads(9)", "P110"),
        ("parts[omp_get_thread_num()] = x[0];\n#pragma omp barrier\ny[omp_get_thread_num()] = parts[0];", "", ""),
        ("parts[omp_get_thread_num()] = x[0];\ny[omp_get_thread_num()] = parts[0];", "", "P130"),
        ("#pragma omp single\ny[0] = x[0];\ny[1 + omp_get_thread_num()] = y[0];", "", ""),
        ("#pragma omp single nowait\ny[0] = x[0];\ny[1 + omp_get_thread_num()] = y[0];", "", "P130"),
        ("#pragma omp master\ny[0] = x[0];\ny[1 + omp_get_thread_num()] = y[0];", "", "P130"),
        ("#pragma omp master\ny[0] = x[0];\n#pragma omp barrier\ny[1 + omp_get_thread_num()] = y[0];", "", ""),
        ("#pragma omp critical\nsum += x[omp_get_thread_num()];", "", ""),
        ("y[0] = x[omp_get_thread_num()];", "", "P130"),
        ("for (int k = 0; k < 4; k++) {\n" + FOR + "y[i] = y[i] + x[i];\n}", "", ""),
        ("for (int k = 0; k < 4; k++) {\n" + FOR.replace("for\n", "for nowait\n", 1) + "y[i] = y[i] + x[i];\n}", "", "P130"),
    ],
)  # fmt: skip
def test_regions_of_openmp(body, clauses, code):
    found = region(body, clauses)
    assert [f.code for f in found.findings] == ([code] if code else []), found
    assert found.findings or found.proved == ("bounds", "races")


def test_lambdas_are_followed():
    text = """
template <class F> static void each(int n, F f) {
    #pragma omp parallel for
    for (int i = 0; i < n; i++) f(i);
}
void f(const float* x, float* y, int n) {
    int step = 1;
    auto half = [=](int i) { return i / 2; };
    each(n, [=](int i) { y[PLACE] = x[i]; });
}
"""
    given = (*ADD, Given(number=N))
    assert proof(text.replace("PLACE", "i * step"), "f", given).proved == ("bounds", "races")
    (found,) = proof(text.replace("PLACE", "half(i)"), "f", given).findings
    assert found.code == "P130"
    (found,) = proof(text.replace("PLACE", "i + step"), "f", given).findings
    assert found.code == "P110" and "element 5000 of y" in found.text


def test_a_collapsed_loop_and_helpers_are_followed():
    text = """
static inline float at(const float* row, int j) { return row[j]; }
void f(const float* x, float* y, int n) {
    #pragma omp parallel for collapse(2)
    for (int i = 0; i < 50; i++)
        for (int j = 0; j < 100; j++) y[i * STRIDE + j] = at(x + i * 100, j);
}
"""
    given = (*ADD, Given(number=N))
    assert proof(text.replace("STRIDE", "100"), "f", given).proved == ("bounds", "races")
    (found,) = proof(text.replace("STRIDE", "99"), "f", given).findings
    assert found.code == "P130" and "iteration (0, 99)" in found.text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (I + "int j = (int)x[i % n];\ny[j] = 1.0f;", "its address depends on data"),
        ("auto f = [&n](int j) { return j; };\ny[f(0)] = 1.0f;", "a lambda that captures some"),
        ("int k = 0;\nauto f = [&](int j) { k += j; };\nf(1);\ny[k] = 1.0f;", "a lambda that changes k"),
        (I + "if (i < n) helper(y + i);", "helper(...) of an address is not read"),
        ("__shared__ float s[32];\ns[threadIdx.x] = 1.0f * threadIdx.x;\n__syncwarp(0xffff);\n"
         "y[threadIdx.x] = s[31 - threadIdx.x];", "one warp"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_reason(body, why):
    found = kernel(body, "1, 32")
    assert found.findings == ()
    assert any(why in text for text in found.not_proven.values()), found


@pytest.mark.parametrize(
    ("declared", "body"),
    [
        ("__device__ float last;", "last = x[0];"),
        ("__device__ int count;", "atomicAdd(&count, 1);"),
        ("", "__shared__ float s;\ns = x[threadIdx.x];"),
        ("static int calls = 0;", "calls += 1;"),
        ("", "static int calls = 0;\ncalls += 1;"),
    ],
)
def test_a_variable_that_others_see_is_not_taken_for_a_local_one(declared, body):
    text = f"{declared}\n__global__ void k(const float* x, float* y, int n) {{\n{body}\n}}\n"
    text += "void f(const float* x, float* y, int n) { k<<<1, 64>>>(x, y, n); }\n"
    found = proof(text, "f", (*ADD, Given(number=N)))
    assert (found.proved, found.findings) == ((), ())


def test_a_host_function_that_is_not_read_says_so():
    text = (
        "void f(const float* x, float* y, int n) {\n    switch (n) { default: y[0] = x[0]; }\n}\n"
    )
    with pytest.raises(NotRead, match="line 2: a switch statement"):
        launches(text, "file", "f", (*ADD, Given(number=N)))


def test_a_host_function_that_does_the_kernels_work_is_refused():
    """An emulated host can reach tensors; a GPU's cannot."""
    text = "__global__ void k(const float* x, float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }\n"
    host = "void f(const float* x, float* y, int n) {\n    k<<<1, 64>>>(x, y, n);\nMORE}\n"
    given = (*ADD, Given(number=N))
    clear = host.replace("MORE", "    cudaMemset(y, 0, n * sizeof(float));\n")
    assert proof(text + clear, "f", given).proved == ("bounds", "races")
    works = host.replace("MORE", "    for (int i = 0; i < n; i++) y[i] = x[i];\n")
    (found,) = proof(text + works, "f", given).findings
    assert (found.code, found.places[0].line) == ("V216", 4)
    assert "the kernel has to compute" in found.text


SOFTMAX = """
void softmax(const float* __restrict x, float* __restrict y, int rows, int cols) {
#pragma omp parallel for schedule(static)
    for (int r = 0; r < rows; ++r) {
        const float* in = x + static_cast<std::size_t>(r) * cols;
        float* out = y + static_cast<std::size_t>(r) * cols;
        float m = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : m)
        for (int c = 0; c < cols; ++c) m = std::max(m, in[c]);
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int c = 0; c < cols; ++c) {
            out[c] = std::exp(in[c] - m);
            sum += out[c];
        }
        const float inv = 1.0f / sum;
#pragma omp simd
        for (int c = 0; c < cols; ++c) out[c] *= inv;
    }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("", "", ""),
        ("std::numeric_limits<float>::infinity", "numeric_limits<float>::max", ""),
        ("c < cols; ++c) m", "c <= cols; ++c) m", "P110"),
        ("y + static_cast<std::size_t>(r)", "y + static_cast<std::size_t>(r / 2)", "P130"),
    ],
)
def test_a_softmax_that_begins_with_a_limit_of_its_type(old, new, code):
    """A limit of a type is a number that decides no address."""
    given = (
        *(Given(name=n, elements=37 * 45, item=4) for n in "xy"),
        *(Given(number=n) for n in (37, 45)),
    )
    found = proof(SOFTMAX.replace(old, new), "softmax", given)
    assert [f.code for f in found.findings] == ([code] if code else []), found
    assert found.findings or found.proved == ("bounds", "races")


TURNED = """__device__ float first(float x) {
    __shared__ float s[64];
    s[threadIdx.x] = x;
    __syncthreads();
    return s[(threadIdx.x + 1) % 64];
}
__device__ float second(float x) {
    __shared__ float s[64];
    s[threadIdx.x] = x;
    __syncthreads();
    return s[(threadIdx.x + 2) % 64];
}
__global__ void __launch_bounds__((64 * 2) / (1 * 2), 1) k(const float* x, float* y) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    y[i] = CALLS;
}
void f(const float* x, float* y, int n) { if (n > 0 and n % 64 == 0) k<<<n / 64, 64>>>(x, y); }
"""


@pytest.mark.parametrize(
    ("calls", "code"),
    [
        ("second(first(x[i]))", ""),  # two arrays of one name
        ("first(first(x[i]))", "P130"),  # one array, no barrier between the calls
    ],
)
def test_arrays_of_one_name_are_one_where_they_are_declared_once(calls: str, code: str) -> None:
    given = (*(Given(name=n, elements=640, item=4) for n in "xy"), Given(number=640))
    found = proof(TURNED.replace("CALLS", calls), "f", given)
    assert [f.code for f in found.findings] == ([code] if code else [])
    assert code or found.proved == ("bounds", "races")


SCANNED = """__global__ void part(const float* in, float* out, float* sums, int n) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) out[i] = in[i];
    if (threadIdx.x == 0) sums[blockIdx.x] = 0;
}
void scan(const float* in, float* out, int n) {
    const int blocks = (n + 31) / 32;
    float *sums, *scanned;
    cudaMalloc(&sums, blocks * sizeof(float));
    part<<<blocks, 32>>>(in, out, sums, n);
    if (blocks > 1) {
        cudaMalloc(&scanned, SIZE * sizeof(float));
        scan(sums, scanned, blocks);
        cudaFree(scanned);
    }
    cudaFree(sums);
}
"""


@pytest.mark.parametrize(("size", "code"), [("blocks", ""), ("(blocks - 1)", "P110")])
def test_each_call_of_a_host_function_allocates_its_own(size: str, code: str) -> None:
    given = (*(Given(name=n, elements=300, item=4) for n in ("in", "out")), Given(number=300))
    found = proof(SCANNED.replace("SIZE", size), "scan", given)
    assert [f.code for f in found.findings] == ([code] if code else [])


EACH = "if (threadIdx.x == 0) y[blockIdx.x] = x[0];"


@pytest.mark.parametrize(
    ("before", "config", "blocks"),
    [
        ("", "ceil(n/256.0), 256", 20),
        ("", "ceil(n / 256.0f), 256", 20),
        ("", "std::ceil((float)n / 256), 256", 20),
        ("", "(int)ceil(n / (double)300), 300", 17),
        ("dim3 grid(ceil(1.0 * n / 250), 1, 1), block(250);", "grid, block", 20),
        ("const int grid = ceil(double(n) / 256);", "grid * 2 / 2, 256", 20),
        ("int grid = floorf(n / 256.f);", "grid + 1, 256", 20),
        ("", "(int)(n / 256.0) + 1, 256", 20),
    ],
)
def test_extents_that_a_quotient_is_rounded_to_are_read(before, config, blocks):
    """Each block stores one element: with one less there is one access too many."""
    text = f"__global__ void k(const float* x, float* y, int n) {{\n{EACH}\n}}\n"
    text += f"void f(const float* x, float* y, int n) {{ {before} k<<<{config}>>>(x, y, n); }}\n"
    for elements in (blocks, blocks - 1):
        given = (ADD[0], Given(name="y", elements=elements, item=4), Given(number=N))
        found = proof(text, "f", given)
        assert ("bounds" in found.proved) is (elements == blocks), found.not_proven


@pytest.mark.parametrize(
    "config", ["ceil(n / 256.5), 256", "ceil(0.1 * n), 256", "ceil(n / 256.0) / 2 * 2, 256"]
)
def test_other_floats_decide_no_extents(config):
    with pytest.raises(NotRead, match="a launch whose extents are not known"):
        kernel(EACH, config)
