"""Values that are used several times in the next step of a chain are computed once: text grows by the step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module

SLOW = pytest.mark.slow
STEPS = {
    "prelu": "self.a[i](x)",
    "gated": "torch.sigmoid(x) * x + torch.tanh(x) * self.a[i](x)",
    "conditions": "torch.where((x > 0) ^ (self.a[i](x) < 1), x * 0.5, torch.where(x > 1, x, -x))",
}


def _chain(step: str, times: int) -> Module:
    init = f"self.a = nn.ModuleList([nn.PReLU() for _ in range({times})])"
    body = f"for i in range({times}):\n    x = {step}\nreturn x"
    return Module(name="model", init=init, body=body)


@pytest.mark.wider
@pytest.mark.parametrize(
    "name", ["prelu", *(pytest.param(n, marks=SLOW) for n in ("gated", "conditions"))]
)
def test_the_text_of_a_chain_grows_by_its_steps(tmp_path: Path, name: str) -> None:
    few, many = (len(imported(_chain(STEPS[name], n).write(tmp_path)).text) for n in (3, 12))
    assert many < 7 * few  # and the heads of further kernels


@pytest.mark.wider
def test_a_chain_of_conditions_in_conditions_is_written_and_right(tmp_path: Path) -> None:
    body = "m = x > 0\nfor i in range(4):\n    m = m ^ (m & (m | (x < i)))\nreturn m, torch.where(m, x, -x)"
    found = imported(Module(name="model", body=body).write(tmp_path))
    assert len(found.text) < 12000
    computes_the_module(found, tmp_path)


@pytest.mark.parametrize(
    "name", ["gated", *(pytest.param(n, marks=SLOW) for n in ("prelu", "conditions"))]
)
def test_a_chain_is_computed_as_its_module(tmp_path: Path, name: str) -> None:
    computes_the_module(imported(_chain(STEPS[name], 4).write(tmp_path)), tmp_path)
