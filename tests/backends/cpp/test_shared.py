"""Padded windows that many tiles read are brought in once, before these tiles."""

from __future__ import annotations

import pytest
import torch

from septran.backends.cpp.shared import share_windows
from septran.ir.spec import check_program
from septran.ir.text import parse_program
from septran.passes.interpret import interpret
from tests.passes.writing import body_text

WINDOWS = """
program p target=t arch=- machine=m
options {}
param rw Y: GLOBAL float32[%(tiles)d,2,4]
param r W: GLOBAL float32[4,6]
  for i in %(tiles)d on CORE parallel
    for v in 2 on CORE parallel
      alloc W_s: SHARED float32[3,4]
      copy W_s[0:+3, 0:+4] <- W[(v - 1):+3, 1:+4]%(pad)s
      for r in 3
        leaf f <auto>
        | rw C = Y[i:+1, v:+1, 0:+4]
        | r B = W_s[r:+1, 0:+4]
        | prim {"name": "map", "out": "C", "ins": [], "named": {"c": "C", "b": "B"}, "attrs": {"expr": "c + b"}}
"""


def windows(tiles: int = 16, pad: str = " guard") -> str:
    return WINDOWS.strip() % {"tiles": tiles, "pad": pad}


def summed(source: str, *, shared: bool) -> torch.Tensor:
    before = parse_program(source)
    after = share_windows(before) if shared else before
    check_program(after)
    y, w = torch.zeros(16, 2, 4), torch.arange(1.0, 25.0).reshape(4, 6)
    interpret(after, {"Y": y, "W": w})
    return y


def test_windows_that_many_tiles_bring_in_are_brought_in_once():
    after = body_text(share_windows(parse_program(windows())))
    assert after.startswith("alloc W_s_all: SHARED float32[4, 4]\nfor window in 4 on CORE parallel")
    assert after.count("copy ") == 1 and after.index("copy ") < after.index("for i in 16")
    assert "| r B = W_s_all[(r + v):+1, 0:+4]" in after
    assert torch.equal(summed(windows(), shared=True), summed(windows(), shared=False))


@pytest.mark.parametrize("text", [windows(tiles=15), windows(pad="")])
def test_few_tiles_and_windows_without_padding_stay(text):
    before = parse_program(text)
    assert share_windows(before) == before
