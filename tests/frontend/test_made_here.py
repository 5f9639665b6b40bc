"""What is computed where it is read: places of gathers, rows of extremes, padding; and resampling between neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.module_targets import outcome
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module

PLANE = "torch.randn(2, 3, 4, 6)"
ROWS = "torch.randn(3, 11, 4)"
PLACES = "torch.tensor([[0, -1, 4], [-5, 3, 2]])"


def _one(name: str, body: str, inputs: str = PLANE, kernels: int = 1, init: str = "pass") -> Module:
    args = "x, y" if "y" in body else "x"
    return Module(
        name=name, init=init, args=args, body=f"return {body}", inputs=inputs, kernels=kernels
    )


CASES = (
    _one("turned", "x.flip(1)", ROWS),
    _one("two_indices", "x[y, y + 1]", f"torch.randn(7, 8, 3), {PLACES}"),
    _one("taken_around", "torch.take_along_dim(x, y, 1)", f"torch.randn(2, 5), {PLACES}"),
    _one("masked_total", "torch.cumsum(x * y, 1)", f"{ROWS}, (torch.rand(3, 11, 4) > 0.5).float()"),
    _one("reversed_total", "torch.cumsum(x * 2, 1)", ROWS),
    _one("furthest", "torch.argmax((x - y).abs(), 1)", f"{ROWS}, torch.randn(3, 1, 4)"),
    _one("added_at", "x.index_add(0, y % 3, x[:2])", "torch.randn(3, 4), torch.tensor([5, 1])"),
    _one("largest", "torch.topk(x, 3, 1)", ROWS, 3),
    _one("smallest_ten", "torch.topk(x, 10, 1, largest=False).values", ROWS, 3),
    _one("largest_places", "torch.topk(x, 2, 1).indices", ROWS, 2),
    _one("largest_of_many", "torch.topk(x, 3, 1)", "torch.randn(2, 300)", 5),
    _one("many_largest", "torch.topk(x, 70, 1).values", "torch.randn(2, 300)", 3),
    _one("in_order", "torch.sort(x, 1, descending=True)", ROWS, 3),
    _one("padded", "F.pad(x, (1, 2, 0, 3), value=0.5)"),
    _one("padded_lowest", "F.pad(x, (0, 2, 2, 1), value=float('-inf'))"),
    _one("padded_and_cut", "F.pad(x, (1, -2, 0, 3))"),
    _one("padded_channels", "F.pad(x, (0, 0, 0, 0, 1, 2))"),
    _one("reflected", "F.pad(x, (2, 1, 3, 2), mode='reflect')", kernels=2),
    _one("replicated", "F.pad(x, (2, 0, 1, 1, 3, 2), mode='replicate')", "torch.randn(2, 3, 4, 5, 3)", 2),
    _one("circular", "F.pad(x, (2, 6, 4, 1), mode='circular')", kernels=2),
    _one("circular_line", "F.pad(x, (3, 2), mode='circular')", ROWS),
    _one("patches", "F.unfold(x, (3, 2), padding=1, dilation=(1, 2), stride=(2, 1))", kernels=2),
    _one(
        "padded_convolution",
        "self.c(F.pad(x, (0, 1, 2, 0)))",
        init="self.c = nn.Conv2d(3, 4, 3, stride=2, padding=(0, 1))",
    ),
    _one(
        "padded_dilated",
        "self.c(F.pad(x, (2, 2, 1, 1)))",
        init="self.c = nn.Conv2d(3, 4, 3, dilation=(1, 2))",
    ),
    _one("even_same", "self.c(x)", init="self.c = nn.Conv2d(3, 4, (4, 2), padding='same')"),
    _one("padded_average", "F.avg_pool2d(F.pad(x, (1, 1, 1, 0)), 3, 2)"),
    _one("last_windows", "F.max_pool2d(x, 2, 2, ceil_mode=True)"),
    _one("last_windows_padded", "F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)"),
    _one("between", "F.interpolate(x, scale_factor=2, mode='bilinear')", kernels=4),
    _one("between_corners", "F.interpolate(x, (5, 9), mode='bilinear', align_corners=True)", kernels=4),
    _one("between_by", "F.interpolate(x, scale_factor=1.7, mode='linear')", ROWS, 2),
    _one("between_by_any", "F.interpolate(x, scale_factor=2.3456789, mode='linear')", ROWS, 3),
    _one("between_as_many", "F.interpolate(x, scale_factor=(1.2, 1.5), mode='bilinear')", kernels=2),
    _one("one_corner", "F.interpolate(x, (1, 1), mode='bilinear', align_corners=True)", kernels=4),
)  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("module", [pytest.param(m, id=m.name) for m in CASES])
def test_it_takes_so_many_kernels_and_is_the_module(tmp_path: Path, module: Module) -> None:
    found = imported(module.write(tmp_path))
    computes_the_module(found, tmp_path)
    assert found.written.kernels == module.kernels, found.text


@pytest.mark.wider
@pytest.mark.parametrize("target", ["cuda_c", "triton_cuda", "tilelang_cuda", "tilelang_npuir"])
@pytest.mark.parametrize("name", ["masked_total", "between", "padded_convolution"])
def test_targets_compute_it_there_too(tmp_path: Path, name: str, target: str) -> None:
    module = next(m for m in CASES if m.name == name)
    assert outcome(imported(module.write(tmp_path)), target, tmp_path) == ("accurate", "")
