"""Masks and tables of positions are one expression, whatever wrote them; also inside of the kernel that reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module

_PARTS = "(slice(0, -4), slice(-4, -2), slice(-2, None))"
WINDOWS = f"""m, count = torch.zeros(8, 8), 0
for a in {_PARTS}:
    for b in {_PARTS}:
        m[a, b] = count
        count += 1
w = m.view(2, 4, 2, 4).permute(0, 2, 1, 3).reshape(4, 16)
d = w.unsqueeze(1) - w.unsqueeze(2)
return x + d.masked_fill(d != 0, -100.0)"""
TURNED = """angles = torch.outer(torch.arange(6).float(), torch.arange(4).float() * 0.25)
return x * torch.cat([angles.cos(), angles.sin() + at], -1)""".replace("at]", "1]")
STEPPED = """p = torch.zeros(6, 8)
p[:, 0::2] = torch.arange(6)[:, None] * 0.5
p[:, 1::2] = 7 - torch.arange(4)
return x + p.t().flip(0).reshape(6, 8).roll(1, 1)"""
PICKED = """table = torch.arange(12).reshape(3, 4) * 3
i = torch.arange(6) % 3
return x * table[i][:, None].expand(6, 2, 4).reshape(6, 8) + torch.arange(48).reshape(8, 6).t()"""
SET = "y = x.clone()\ny[:, 6] = torch.tensor(-0.5)\nreturn y * torch.tensor(2)"
MASKS = """i = torch.arange(8)
seen = torch.cat([i[None] < 3, (i[:, None] - i[None]).abs() <= 1])[1:7]
return torch.where(seen.flip(0), x, torch.tensor(float("-inf"))).softmax(-1)"""

CASES = {
    "windows": (WINDOWS, "torch.randn(4, 16, 16)", 2),
    "turned": (TURNED, "torch.randn(2, 6, 8)", 1),
    "stepped": (STEPPED, "torch.randn(6, 8)", 4),
    "picked": (PICKED, "torch.randn(6, 8)", 2),
    "set": (SET, "torch.randn(6, 8)", 1),
    "masks": (MASKS, "torch.randn(6, 8)", 1),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CASES)
def test_what_is_made_of_positions_is_one_expression(name: str, tmp_path: Path) -> None:
    body, inputs, kernels = CASES[name]
    found = imported(Module(name=name, body=body, inputs=inputs).write(tmp_path))
    assert not [i.name for i in found.graph.inputs if i.kind != "user_input"]
    assert len(found.written.grouping.groups) == kernels
    computes_the_module(found, tmp_path)


def test_another_number_in_the_text_is_wrong(tmp_path: Path) -> None:
    found = imported(Module(name="set", body=SET, inputs="torch.randn(6, 8)").write(tmp_path))
    text = found.written.text
    assert "(-0.5)" in text
    other = replace(found, written=replace(found.written, text=text.replace("-0.5", "-0.25")))
    with pytest.raises(AssertionError, match="not close"):
        computes_the_module(other, tmp_path)


def test_a_table_of_sines_that_many_elements_read_is_stored(tmp_path: Path) -> None:
    """Of 64 numbers, 16 times as many elements read it: each number would be 16 sines."""
    body = "x * (torch.arange(64) * 0.1).sin()"
    for rows, kernels in ((15, 1), (16, 2)):
        module = Module(name="sines", body=body, inputs=f"torch.randn({rows}, 64)")
        found = imported(module.write(tmp_path))
        assert len(found.written.grouping.groups) == kernels
    computes_the_module(found, tmp_path)
