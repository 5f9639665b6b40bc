"""Where a float's rounding decides which element is read, the place and the weight follow one and the same decision."""

from __future__ import annotations

from pathlib import Path

from tests.frontend.importing import imported
from tests.frontend.modules import Module

BETWEEN = """t = (torch.arange(18) + 0.5) * (1 / 3) - 0.5
f = torch.floor(t)
i, w = f.long(), t - f
return x[i.clamp(0, 5)] * (1 - w) + x[(i + 1).clamp(0, 5)] * w"""


def test_a_floor_that_gives_place_and_weight_is_made_once(tmp_path: Path) -> None:
    """Cloned into both, one compiled with a fused multiply-add and one without, 0.9999999 and 1 were mixed."""
    module = Module(name="between", body=BETWEEN, inputs="torch.randn(6)")
    text = imported(module.write(tmp_path)).text
    assert sum(line.count("floor(") for line in text.splitlines() if "call_primitive" in line) == 1
