"""Tensors that outlive a call are a file's own memory: buffers of a module, constants of a file, workspaces that are made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.cli.main import main

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    z = tl.load(z_ptr + at % m, mask=at < n)
    tl.store(out_ptr + at, x + y + z, mask=at < n)


def added(x, y, z, m, out=None):
    out = torch.empty_like(x) if out is None else out
    _add[(triton.cdiv(x.numel(), 256),)](x, y, z, out, x.numel(), m, BLOCK=256)
    return out
"""
REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.rand(700), torch.rand(700)]


def get_init_inputs():
    return []
"""
CONSTANT = """
ZERO = torch.zeros(8, device="cuda")


def entry(x, y):
    return added(x, y, ZERO, {m})
"""
VIEW = """
ZERO = torch.zeros(64, device="cuda")[8:16].view(2, 4)


def entry(x, y):
    return added(x, y, ZERO, 8)
"""
WORKSPACE = """
_made = {}


def entry(x, y):
    key = x.shape
    if key not in _made:
        _made[key] = torch.empty_like(x), torch.zeros(8, device=x.device)
    part, zero = _made[key]
    added(x, y, zero, 8, part)
    return added(part, zero.new_zeros(x.shape), zero, 8)
"""
FIRST = """
_first = []


def entry(x, y):
    if not _first:
        _first.append(x)
    zero = torch.zeros(8, device=x.device)
    added(_first[0], y, zero, 8)
    return added(x, y, zero, 8)
"""
STALE = """
_sums = []


def entry(x, y):
    zero = torch.zeros(x.shape, device=x.device)
    if not _sums:
        _sums.append(added(x, y, zero, 8))
    return added(_sums[0], zero, zero, 8)
"""
MODULE = """
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("zero", torch.zeros(8), persistent=False)

    def forward(self, x, y):
        return added(x, y, self.zero, 8)
"""


def judged(folder: Path, text: str, entry: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the card says of the file."""
    (folder / "kernel.py").write_text(KERNEL + text)
    (folder / "module.py").write_text(REFERENCE)
    word = ["judge", str(folder / "kernel.py"), "--reference", str(folder / "module.py"), "--entry"]
    main([*word, entry, "--where", "emulated", "--quiet"])
    return capsys.readouterr().out


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("text", "entry"),
    [
        pytest.param(CONSTANT.format(m=8), "entry", id="constant"),
        pytest.param(VIEW, "entry", id="view", marks=pytest.mark.wider),
        pytest.param(WORKSPACE, "entry", id="workspace", marks=pytest.mark.wider),
        pytest.param(MODULE, "ModelNew", id="buffer"),
    ],
)
def test_what_is_kept_may_be_used(
    text: str, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "verdict      accurate" in judged(tmp_path, text, entry, capsys)


def test_what_is_kept_has_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(tmp_path, CONSTANT.format(m=9), "entry", capsys)
    assert "[V209]" in found
    assert "element 8 of a tensor made in line" in found


@pytest.mark.wider
def test_an_input_of_an_earlier_call_is_none_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the message says so where that memory lies far from all of this call's
    assert "[V209]" in judged(tmp_path, FIRST, "entry", capsys)


@pytest.mark.wider
def test_results_of_an_earlier_call_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = judged(tmp_path, STALE, "entry", capsys)
    assert "verdict      accurate" not in found
    assert "[V203]" in found or "[V202]" in found or "wrong" in found
