"""A scalar is a line of one element where an operator names a dim of it, as torch has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontend.importing import computes_the_module, imported

CALLS = {
    "softmax": "torch.softmax(x, 0)",
    "log_softmax": "torch.log_softmax(x, -1)",
    "argmax": "torch.argmax(x)",
    "max": "torch.max(x, 0)",
    "cummax": "torch.cummax(x, 0)",
    "topk": "torch.topk(x, 1)",
    "kthvalue": "torch.kthvalue(x, 1)",
    "index_select": "torch.index_select(x, 0, i)",
    "gather": "torch.gather(x, 0, i)",
    "scatter_add": "torch.scatter_add(x, 0, i[0], 2 * x)",
    "index_add": "torch.index_add(x, 0, i, 2 * x, alpha=-1)",
    "unfold": "x.unfold(0, 1, 1)",
}


@pytest.mark.few(6)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_scalar_is_a_line(call: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, i):\n        x, i = x.sum(), i.clone()\n"
        f"        return {call}\n\ndef get_inputs():\n    return [torch.rand(3), torch.zeros(1, dtype=torch.int64)]\n"
        "def get_init_inputs():\n    return []\n"
    )
    computes_the_module(imported(file), tmp_path)
