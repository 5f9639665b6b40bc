"""Products of integers in modules: compiled with sums of integers, judged by them, refused where a target has none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import septran
from septran.aten.evaluate import run_graph
from septran.errors import Unsupported
from septran.frontend.translate import translate
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.plan.torch_module import error_model
from septran.tasklang.oracle import apply_primitive
from tests.frontend.importing import graph_of

pytestmark = pytest.mark.filterwarnings("ignore")

LOGIC = """\
import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def product(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def whole(C, A, B):
    n = task.tunable("n", 64)
    Cp = task.partition(C, by="blocks", shape=(n, None))
    Ap = task.partition(A, by="blocks", shape=(n, None))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(product, Cp[i, 0], Ap[i, 0], B)


OPERATORS = (
    task.Operator(
        name="whole",
        about="C = A B of bytes",
        entry=whole,
        tensors={"C": "M N:i32", "A": "M K:i8", "B": "K N:i8"},
        outputs=("C",),
        dims={"M": 5, "N": 6, "K": 7},
        odd_dims=({"M": 3, "N": 2, "K": 1},),
        reference=Reference(fn=lambda A, B: (A.long() @ B.long()).int(), kind="exact"),
    ),
)
"""


def _bytes(*shape: int) -> torch.Tensor:
    found = torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(1))
    return found.to(torch.int8)


class Quantised(torch.nn.Module):
    """A linear layer of bytes, its result scaled: products and sums are exact, the scale rounds once."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", _bytes(1100, 33))
        self.register_buffer("scale", torch.rand(33, generator=torch.Generator().manual_seed(2)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sums = torch._int_mm(x, self.weight)
        return sums, sums.float() * self.scale


@pytest.mark.slow
def test_a_quantised_layer_has_torchs_bits() -> None:
    module, x = Quantised(), _bytes(20, 1100)
    compiled = septran.compile(module, (x,))
    for given in (x, torch.full_like(x, -128), torch.full_like(x, 127)):
        for ours, theirs in zip(compiled(given), module(given), strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)


MODULE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch._int_mm(a, b)


def get_inputs():
    return [torch.ones(17, 1 << 17, dtype=torch.int8), torch.ones(1 << 17, 8, dtype=torch.int8)]


def get_init_inputs():
    return []
"""


def test_the_judge_wants_every_bit_and_wraps_around(tmp_path: Path) -> None:
    file = tmp_path / "product.py"
    file.write_text(MODULE, encoding="utf-8")
    low = torch.full((17, 1 << 17), -128, dtype=torch.int8)
    graph = graph_of(file)
    assert error_model(translate(graph)) == ("exact", 1 << 17)
    first, second = (i.name for i in graph.inputs)
    (found,) = run_graph(graph, {first: low, second: low.T[:, :8]})
    assert found.dtype == torch.int32
    assert set(found.flatten().tolist()) == {-(2**31)}  # 2**31, which int32 has not


def test_the_oracle_adds_integers() -> None:
    a, b = (
        torch.full((2, 3000), 127, dtype=torch.int8),
        torch.full((3000, 2), 127, dtype=torch.int8),
    )
    a[0, 0] = 126
    c = torch.full((2, 2), 2**31 - 1, dtype=torch.int32)
    apply_primitive("gemm_acc", c, (a, b), {})
    whole = torch.tensor([3000 * 127**2 - 127, 3000 * 127**2])  # odd and above 2**24: no float32
    assert torch.equal(c[:, 0], (whole + 2**31 - 1 - 2**32).int())


@pytest.mark.parametrize("target", ["cuda_c", "triton_cuda", "tilelang_npuir"])
def test_a_target_that_adds_floats_refuses(tmp_path: Path, target: str) -> None:
    file = tmp_path / "whole.py"
    file.write_text(LOGIC, encoding="utf-8")
    lower_plan(resolve(GenRequest(op="whole", logic=file, backend="cpp")))
    with pytest.raises(Unsupported, match=r"M173.*int8 times int8 into int32.*not exact"):
        lower_plan(resolve(GenRequest(op="whole", logic=file, backend=target)))
