"""Bitwise operators of two tensors of integers, exact to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.errors import ConfigError
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module

_ANY = "torch.randint({low}, {high}, (4, 9), dtype=torch.{dtype})"


def _two(dtype: str, low: int, high: int) -> str:
    return ", ".join([_ANY.format(dtype=dtype, low=low, high=high)] * 2)


WORDS = _two("int32", -(2**31), 2**31 - 1)
CASES = (
    Module(name="bits_words", args="x, y", body="return x & y, x | y, x ^ y", inputs=WORDS),
    Module(name="bits_bytes", args="x, y", body="return x & y, x | y, x ^ y", inputs=_two("uint8", 0, 256)),
    Module(name="bits_signed", args="x, y", body="return x & y, x | y, x ^ y", inputs=_two("int8", -128, 128)),
    Module(name="bits_packed", args="x, y", body="(x & 15) | ((y & 15) << 4)", inputs=_two("uint8", 0, 256)),
    Module(
        name="bits_unpacked",  # as weights of four bits lie in words
        args="q",
        body="((q[:, :, None] >> torch.arange(0, 32, 4, dtype=torch.int32)) & 15).reshape(4, -1)",
        inputs="torch.randint(-(2**31), 2**31 - 1, (4, 3), dtype=torch.int32)",
    ),
    Module(
        name="bits_shifted",
        args="q, s",
        body="return q << s, (q << 8) >> s",
        inputs="torch.randint(-128, 128, (4, 9), dtype=torch.int32), torch.randint(0, 23, (9,), dtype=torch.int32)",
    ),
)  # fmt: skip
LONG = Module(
    name="bits_shifted_long",
    args="q, s",
    body="return q >> s, q.int() >> s",
    inputs="torch.randint(-(2**31), 2**31 - 1, (4, 65)), torch.arange(65).clamp(max=63)",
)


@pytest.mark.wider
def test_words_of_64_bits_are_shifted_by_up_to_63_places(tmp_path: Path) -> None:
    computes_the_module(imported(LONG.write(tmp_path)), tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("module", CASES, ids=lambda m: m.name)
def test_two_tensors_are_combined_bit_by_bit(tmp_path: Path, module: Module) -> None:
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


def test_words_of_64_bits_are_refused_with_what_helps(tmp_path: Path) -> None:
    module = Module(name="bits_long", args="x, y", body="x | y", inputs=_two("int64", 0, 9))
    with pytest.raises(ConfigError, match=r"two tensors of int64 \(\.int\(\) in front of both\)"):
        imported(module.write(tmp_path))
