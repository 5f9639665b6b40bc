"""Numbers that a module compares with are those of torch: rounded to the tensor's dtype, which decides at the number itself."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import septran
from septran.aten.evaluate import run_graph
from septran.ir.dtypes import as_stored
from tests.frontend.calls import Call
from tests.frontend.importing import imported
from tests.frontend.modules import Module

BODY = """kept = F.threshold(x, 0.1, 9.0), F.hardshrink(x, 0.7), x.masked_fill(x > 0.7, 0.1) == 0.1
return x > 0.1, x <= 0.7, x == 0.1, x.clamp(0.1, 0.7) == 0.7, *kept"""
FLOATS = ("float64", "float32", "float16", "bfloat16")


def _beside(dtype: str) -> torch.Tensor:
    """0.1 and 0.7 as `dtype` holds them, and their neighbours."""
    at = torch.tensor([0.1, 0.7, -0.7], dtype=getattr(torch, dtype))
    up = torch.nextafter(at, torch.full_like(at, 9))
    return torch.stack([at, up, torch.nextafter(at, torch.full_like(at, -9))])


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_are_rounded_as_torch_rounds_them(dtype: str) -> None:
    kind = getattr(torch, dtype)
    numbers = [0.1, -1 / 3, 1e-40, 3e-8, 65519.0, 65520.0, 3.4e38, -1e39, 2049.0, math.inf, 0.0]
    assert [as_stored(n, dtype) for n in numbers] == torch.tensor(numbers).double().to(
        kind
    ).tolist() or dtype == "float64"
    for n in numbers[:5]:
        low, high = (as_stored(n, dtype, way) for way in (math.floor, math.ceil))
        assert low <= n <= high and as_stored(n, dtype) in (low, high)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_reference_decides_at_a_number_as_torch_does(dtype: str, tmp_path: Path) -> None:
    inputs = f"torch.randn(3, 3, dtype=torch.{dtype})"
    found = imported(Module(name="border", body=BODY, inputs=inputs).write(tmp_path))
    x = _beside(dtype)
    scope: dict[str, object] = {}
    exec(Module(name="border", body=BODY).text(), scope)
    wanted = scope["Model"]()(x)  # type: ignore[operator]
    values = {found.graph.inputs[0].name: x.double()}
    for got, right in zip(run_graph(found.graph, values), wanted, strict=True):
        assert torch.equal(got.to(right.dtype), right)
    first = str(as_stored(0.1, dtype))
    assert f"> {first}" in found.text and f"== {first}" in found.text


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
def test_a_double_is_compared_by_the_neighbours_that_float32_has(sign: str, tmp_path: Path) -> None:
    """A kernel has it in float32, where 0.1 would be the number that is larger than 0.1."""
    text = imported(
        Module(name="m", body=f"x.double() {sign} 0.1", inputs="torch.randn(3, 3)").write(tmp_path)
    ).text
    expr = next(line for line in text.splitlines() if "call_primitive" in line).split('"')[3]
    x = _beside("float32")
    for value, right in zip(
        x.flatten().tolist(), eval(f"x.double() {sign} 0.1", {"x": x}).flatten(), strict=True
    ):
        named = expr.replace("(", " ( ").replace(")", " ) ").split()
        assert eval(" ".join(str(value) if w == "x" else w for w in named)) == bool(right)


@pytest.mark.wider
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_kernels_decide_at_a_number_as_torch_does(dtype: str) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = x.double()
        return x > 0.1, x == 0.7, (x.clamp(max=0.7) == 0.7).long() * 3, wide > 0.1, wide <= 0.7

    x = _beside(dtype)
    for got, right in zip(septran.compile(Call(fn), (x,))(x), fn(x), strict=True):
        assert torch.equal(got, right)
