"""One row per dtype, and byte counts nowhere else."""

from __future__ import annotations

import re

import pytest
import torch

from septran.ir.dtypes import DTYPES, FLOATS, IDENTITY, identity
from tests.packaging.sources import files, relative

CHILDREN = ("backends/tilesim/", "/interpreter/", "/child/", "/emulator/", "/simulator/")
"""Programs that run without SepTran know dtypes themselves."""


@pytest.mark.parametrize("name", DTYPES)
def test_rows_are_torch_s(name: str) -> None:
    row, dtype = DTYPES[name], getattr(torch, name)
    assert row.nbytes == dtype.itemsize
    if row.kind == "float":
        assert 2.0 ** (1 - row.digits) == torch.finfo(dtype).eps
        assert row.largest == torch.finfo(dtype).max
    elif row.kind == "int":
        assert (row.low, row.high) == (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


@pytest.mark.parametrize("op", IDENTITY)
@pytest.mark.parametrize("name", DTYPES)
def test_identities_change_nothing(op: str, name: str) -> None:
    row, nothing = DTYPES[name], identity(op, name)
    join = {"sum": sum, "max": max, "min": min, "prod": lambda v: v[0] * v[1]}[op]
    for value in (row.low, row.high, 1):
        assert join((value, nothing)) == value  # type: ignore[operator]


def test_which_are_floats_is_asked_of_the_table() -> None:
    asked = re.compile(r'(in|==) [({]"b?float16", "b?float16"|startswith\(\("b?float')
    found = [
        f"{relative(p)}: {asked.search(line).group()}"  # type: ignore[union-attr]
        for p in files()
        if not any(child in p.as_posix() for child in CHILDREN)
        for line in p.read_text(encoding="utf-8").splitlines()
        if asked.search(line)
    ]
    assert found == []


def test_byte_counts_stand_in_one_place() -> None:
    table = re.compile(r'"(?:bfloat16|float(?:16|32|64)|u?int(?:8|16|32|64))"\s*:\s*[1248]\s*[,}]')
    found = [
        relative(p)
        for p in files()
        if table.search(p.read_text(encoding="utf-8")) and not any(c in str(p) for c in CHILDREN)
    ]
    assert found == []


@pytest.mark.parametrize("name", FLOATS)
def test_a_float_ends_where_torch_s_does(name: str) -> None:
    row, dtype = DTYPES[name], getattr(torch, name)
    assert torch.finfo(dtype).smallest_normal == 2.0**row.least
    if name == "float64":
        assert row.overflow == float("inf")
        return
    most = torch.finfo(dtype).max
    below, edge = (
        torch.tensor(x, dtype=torch.float64) for x in ((most + row.overflow) / 2, row.overflow)
    )
    assert edge.to(dtype).isinf() and below.to(dtype).item() == most
