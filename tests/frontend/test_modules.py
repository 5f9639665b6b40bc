"""Our own module files: imported whole, and their logic computes what the exported graph computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from septran.plan.torch_module import operator_of
from septran.tasklang.load import execute_logic
from septran.tasklang.oracle import run_oracle
from tests.frontend.importing import imported
from tests.frontend.modules import MODULES, Module

TUNABLES = {
    "rows": 3,
    "cols": 5,
    "block_size_M": 4,
    "block_size_N": 4,
    "block_size_K": 8,
    "tile_H": 3,
    "tile_W": 4,
}
"""Small tiles that divide nothing, so that every edge is met."""


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.name)
def test_the_written_logic_is_the_module(tmp_path: Path, module: Module) -> None:
    found = imported(module.write(tmp_path))
    assert found.written.kernels <= module.kernels
    path = tmp_path / "logic.py"
    path.write_text(found.text)
    logic = execute_logic(path)
    operator = operator_of(found, logic)
    values = _values(found.written, operator)
    wanted = operator.reference.fn(**values)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    results = {
        name: torch.full(shape, float("nan"), dtype=torch.float64)
        for name, shape, _ in found.written.params
        if name in found.written.outputs
    }
    args = tuple(results.get(n, values.get(n)) for n, _, _ in found.written.params)
    run_oracle(logic.task(found.written.entry), args, TUNABLES)
    for name, right in zip(found.written.outputs, wanted, strict=True):
        # workspaces are float32
        torch.testing.assert_close(results[name], right.double(), rtol=2e-5, atol=2e-5)


def _values(written, operator) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    found = {}
    for name, shape, dtype in written.params:
        if name in written.outputs:
            continue
        if not dtype.startswith("float"):
            raw = np.frombuffer(operator.samples[name], dtype=dtype).reshape(shape)
            found[name] = torch.from_numpy(raw.copy())
            continue
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        positive = operator.domains[name].kind == "positive"
        found[name] = values.abs() + 0.05 if positive else values
    return found
