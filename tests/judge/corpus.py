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

HONEST = [ADD, SOFTMAX, MATMUL]

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
]
