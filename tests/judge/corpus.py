"""Kernels as other people write them, honest and with the mistakes that people report.

A mistake is an honest file with one passage replaced; `finding` is the class that the judge has to name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent / "kernels"
REFERENCES = HERE / "references"


@dataclass(frozen=True, kw_only=True)
class Honest:
    """A file that is right. entry: "" for the only host function. numbers: `--number`."""

    file: str
    reference: str
    entry: str = ""
    numbers: dict[str, float | int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.file}:{self.entry}" if self.entry else self.file

    def text(self) -> str:
        return (HERE / self.file).read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Bug:
    """`honest` with `old` replaced by `new`. findings: any of these classes is right."""

    name: str
    honest: Honest
    old: str
    new: str
    findings: tuple[str, ...]

    def text(self) -> str:
        text = self.honest.text()
        assert text.count(self.old) == 1, f"{self.name}: {text.count(self.old)} places"
        return text.replace(self.old, self.new)


ADD = Honest(file="tutorial_add.py", reference="vector_add.py")
SOFTMAX = Honest(file="tutorial_softmax.py", reference="softmax.py")
MATMUL = Honest(file="tutorial_matmul.py", reference="matmul_half.py")

CPP_SOFTMAX = Honest(
    file="rows.cpp", reference="softmax.py", entry="softmax", numbers={"rows": 181, "cols": 781}
)
CPP_MATMUL = Honest(
    file="rows.cpp", reference="matmul.py", entry="matmul", numbers={"m": 37, "n": 29, "k": 53}
)
CPP_ADD = Honest(file="rows.cpp", reference="vector_add.py", entry="add")
CUDA_MATMUL = Honest(file="gemm.cu", reference="matmul.py", numbers={"m": 37, "n": 29, "k": 53})
CUDA_SOFTMAX = Honest(
    file="rows.cu", reference="softmax.py", entry="softmax", numbers={"rows": 181, "cols": 781}
)
CUDA_ADD = Honest(file="rows.cu", reference="vector_add.py", entry="add")
CUDA_SUM = Honest(file="rows.cu", reference="total.py", entry="sum", numbers={"n": 3001})

_NUMBERS: dict[str, dict[str, float | int]] = {
    "total": {"n": 3001},
    "transpose": {"m": 37, "n": 45},
    "rms_norm": {"rows": 19, "cols": 90, "eps": 1e-5},
    "layer_norm": {"rows": 19, "cols": 90, "eps": 1e-5},
    "matmul": {"m": 37, "n": 29, "k": 53},
}
_REFERENCES = {"total_in_two_steps": "total", "relu_into": "relu"}
_TOUR = {
    "tour.py": "relu rms_norm layer_norm transpose total total_in_two_steps gelu relu_into",
    "tour.cpp": "relu gelu transpose rms_norm layer_norm total matmul",
    "tour.cu": "relu gelu transpose rms_norm matmul",
}
TOUR = [
    Honest(
        file=file,
        reference=f"{_REFERENCES.get(entry, entry)}.py",
        entry=entry,
        numbers={} if file.endswith(".py") else _NUMBERS.get(entry, {}),
    )
    for file, entries in _TOUR.items()
    for entry in entries.split()
]

HONEST = [
    *TOUR,
    ADD,
    SOFTMAX,
    MATMUL,
    CPP_SOFTMAX,
    CPP_MATMUL,
    CPP_ADD,
    CUDA_MATMUL,
    CUDA_SOFTMAX,
    CUDA_ADD,
    CUDA_SUM,
]

BUGS = [
    Bug(
        name="add: a load without its mask",
        honest=ADD,
        old="y = tl.load(y_ptr + offsets, mask=mask)",
        new="y = tl.load(y_ptr + offsets)",
        findings=("bounds",),
    ),
    Bug(
        name="add: a store without its mask",
        honest=ADD,
        old="output, mask=mask)",
        new="output)",
        findings=("bounds",),
    ),
    Bug(
        name="add: blocks overlap",
        honest=ADD,
        old="block_start = pid * BLOCK_SIZE",
        new="block_start = pid * (BLOCK_SIZE - 8)",
        findings=("race",),
    ),
    Bug(
        name="add: the last block is never launched",
        honest=ADD,
        old='triton.cdiv(n_elements, meta["BLOCK_SIZE"])',
        new='n_elements // meta["BLOCK_SIZE"]',
        findings=("uninitialised",),
    ),
    Bug(
        name="add: the host adds",
        honest=ADD,
        old="    return output\n",
        new="    return x + y\n",
        findings=("cheat",),
    ),
    Bug(
        name="add: the host returns an input",
        honest=ADD,
        old="    return output\n",
        new="    return x\n",
        findings=("cheat",),
    ),
    Bug(
        name="add: device code calls torch",
        honest=ADD,
        old="    output = x + y\n",
        new="    output = torch.add(x, y)\n",
        findings=("cheat",),
    ),
    Bug(
        name="add: a file is opened",
        honest=ADD,
        old="    n_elements = output.numel()\n",
        new="    n_elements = output.numel() + 0 * len(open('/etc/hostname').read())\n",
        findings=("refused",),
    ),
    Bug(
        name="softmax: padding is 0, not -inf",
        honest=SOFTMAX,
        old='other=-float("inf"))',
        new="other=0.0)",
        findings=("wrong",),
    ),
    Bug(
        name="softmax: no maximum is subtracted",
        honest=SOFTMAX,
        old="row_minus_max = row - tl.max(row, axis=0)",
        new="row_minus_max = row",
        findings=("wrong",),
    ),
    Bug(
        name="softmax: the other tensor's stride",
        honest=SOFTMAX,
        old="row_idx * output_row_stride",
        new="row_idx * (output_row_stride - 1)",
        findings=("race", "wrong"),
    ),
    Bug(
        name="softmax: every row is taken by all programs",
        honest=SOFTMAX,
        old="tl.range(row_start, n_rows, row_step, num_stages=num_stages)",
        new="tl.range(0, n_rows, 1, num_stages=num_stages)",
        findings=("race",),
    ),
    Bug(
        name="matmul: sums in half precision",
        honest=MATMUL,
        old="accumulator = tl.dot(a, b, accumulator)",
        new="accumulator = (accumulator + tl.dot(a, b)).to(tl.float16).to(tl.float32)",
        findings=("precision",),
    ),
    Bug(
        name="matmul: the end of K is not masked",
        honest=MATMUL,
        old="a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)",
        new="a = tl.load(a_ptrs)",
        findings=("bounds", "wrong"),
    ),
    Bug(
        name="matmul: rows and columns of B are exchanged",
        honest=MATMUL,
        old="a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1)",
        new="a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(1), b.stride(0)",
        findings=("wrong", "bounds"),
    ),
    Bug(
        name="matmul: K is rounded down",
        honest=MATMUL,
        old="tl.cdiv(K, BLOCK_SIZE_K)",
        new="(K // 64)",
        findings=("wrong",),
    ),
    Bug(
        name="C++ softmax: a sum that starts anywhere",
        honest=CPP_SOFTMAX,
        old="float best = row_max(row, cols), total = 0.0f;",
        new="float best = row_max(row, cols), total;",
        findings=("wrong", "uninitialised"),
    ),
    Bug(
        name="C++ softmax: the rows' buffer is too short",
        honest=CPP_SOFTMAX,
        old="std::vector<float> numerators(cols);",
        new="std::vector<float> numerators(cols - 1);",
        findings=("bounds", "crash"),
    ),
    Bug(
        name="C++ softmax: reads one column too many",
        honest=CPP_SOFTMAX,
        old="for (int j = 1; j < cols; j++) best",
        new="for (int j = 1; j <= cols; j++) best",
        findings=("bounds", "wrong"),
    ),
    Bug(
        name="C++ matmul: uninitialised accumulators",
        honest=CPP_MATMUL,
        old="sums[i][j] = 0.0f;",
        new=";",
        findings=("wrong", "uninitialised"),
    ),
    Bug(
        name="C++ matmul: an index beyond the tile",
        honest=CPP_MATMUL,
        old="for (int j = 0; j < tile; j++) sums",
        new="for (int j = 0; j <= tile; j++) sums",
        findings=("bounds",),
    ),
    Bug(
        name="C++ matmul: tails are not cut",
        honest=CPP_MATMUL,
        old="const int rows = std::min(tile, m - i0), cols = std::min(tile, n - j0);",
        new="const int rows = tile, cols = tile;",
        findings=("bounds",),
    ),
    Bug(
        name="C++ matmul: sums in half precision",
        honest=CPP_MATMUL,
        old="float sums[tile][tile];",
        new="_Float16 sums[tile][tile];",
        findings=("precision",),
    ),
    Bug(
        name="C++ add: the wrong stride",
        honest=CPP_ADD,
        old="out[i] = x[i] + y[i];",
        new="out[i] = x[i] + y[i / 2];",
        findings=("wrong",),
    ),
    Bug(
        name="C++ add: an input is written",
        honest=CPP_ADD,
        old="out[i] = x[i] + y[i];",
        new="((float*)x)[i] += y[i], out[i] = x[i];",
        findings=("bounds",),
    ),
    Bug(
        name="CUDA matmul: no barrier after the loads",
        honest=CUDA_MATMUL,
        old="        __syncthreads();\n        for (int i = 0",
        new="        for (int i = 0",
        findings=("race", "wrong", "uninitialised"),
    ),
    Bug(
        name="CUDA matmul: no barrier before the tiles are overwritten",
        honest=CUDA_MATMUL,
        old="        __syncthreads();  // before the tiles are overwritten\n",
        new="",
        findings=("race", "wrong"),
    ),
    Bug(
        name="CUDA matmul: the last tile of K is not masked",
        honest=CUDA_MATMUL,
        old="row < m && ac < k ? a[row * k + ac] : 0.0f",
        new="row < m ? a[row * k + ac] : 0.0f",
        findings=("bounds", "wrong"),
    ),
    Bug(
        name="CUDA matmul: a store without its mask",
        honest=CUDA_MATMUL,
        old="if (row < m && col < n) c",
        new="c",
        findings=("bounds", "race", "wrong"),
    ),
    Bug(
        name="CUDA matmul: a barrier in divergent code",
        honest=CUDA_MATMUL,
        old="        __syncthreads();\n        for (int i = 0",
        new="        if (row < m) __syncthreads();\n        for (int i = 0",
        findings=("race", "wrong", "hang"),
    ),
    Bug(
        name="CUDA matmul: tiles share memory",
        honest=CUDA_MATMUL,
        old="    __shared__ float bs[TILE][TILE];\n",
        new="    float (*bs)[TILE] = as + TILE / 2;\n",
        findings=("race", "wrong", "bounds"),
    ),
    Bug(
        name="CUDA matmul: an accumulator nobody sets",
        honest=CUDA_MATMUL,
        old="float sum = 0.0f;",
        new="float sum;",
        findings=("wrong", "uninitialised"),
    ),
    Bug(
        name="CUDA softmax: no barrier before the maxima are read",
        honest=CUDA_SOFTMAX,
        old="    if (lane == 0) maxima[warp] = best;\n    __syncthreads();\n",
        new="    if (lane == 0) maxima[warp] = best;\n",
        findings=("race", "wrong", "uninitialised"),
    ),
    Bug(
        name="CUDA softmax: a shuffle of half a warp",
        honest=CUDA_SOFTMAX,
        old="for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);",
        new="for (int d = 8; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);",
        findings=("wrong",),
    ),
    Bug(
        name="CUDA softmax: shared array too small for the warps",
        honest=CUDA_SOFTMAX,
        old="__shared__ float sums[8];",
        new="__shared__ float sums[4];",
        findings=("bounds", "race", "wrong"),
    ),
    Bug(
        name="CUDA add: blocks overlap",
        honest=CUDA_ADD,
        old="const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) out[i] = x[i] + y[i];",
        new="const int i = blockIdx.x * (blockDim.x - 1) + threadIdx.x;\n    if (i < n) out[i] = x[i] + y[i];",
        findings=("race", "wrong", "uninitialised"),
    ),
    Bug(
        name="CUDA add: the check is off by one",
        honest=CUDA_ADD,
        old="if (i < n) out[i]",
        new="if (i <= n) out[i]",
        findings=("bounds",),
    ),
    Bug(
        name="CUDA sum: a plain addition instead of the atomic one",
        honest=CUDA_SUM,
        old="atomicAdd(total, part[0]);",
        new="*total += part[0];",
        findings=("race",),
    ),
    Bug(
        name="CUDA sum: the result is not cleared",
        honest=CUDA_SUM,
        old="    cudaMemset(total, 0, sizeof(float));\n",
        new="",
        findings=("uninitialised", "wrong"),
    ),
    Bug(
        name="CUDA sum: too little dynamic shared memory",
        honest=CUDA_SUM,
        old="128 * sizeof(float)>>>",
        new="64 * sizeof(float)>>>",
        findings=("bounds",),
    ),
    Bug(
        name="CUDA sum: no barrier in the tree",
        honest=CUDA_SUM,
        old="        __syncthreads();\n    }",
        new="    }",
        findings=("race", "wrong"),
    ),
]
