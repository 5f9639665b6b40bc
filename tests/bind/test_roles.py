"""What the dims of a product's operands mean."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from septran.bind.roles import dim_roles
from tests.backends.cpp.programs import prim


def roles(tiles, **attrs):
    """Return operand -> roles of its dims. tiles: operand -> extents of its tile."""
    args = {
        name: SimpleNamespace(region=SimpleNamespace(rank=len(t), tile=t))
        for name, t in tiles.items()
    }
    found = {name: [""] * len(t) for name, t in tiles.items()}
    site = SimpleNamespace(args=args)
    for name, axis, role in dim_roles(prim("gemm_acc", "C", "A", "B", **attrs), site):
        found[name][axis] = role
    return found


@pytest.mark.parametrize(
    ("tile", "out"),
    [
        ((16, 16), ["m", "n"]),
        ((1, 16, 16, 16), ["lead", "lead", "m", "n"]),
        # groups, and places between two inputs, lie between the width and the channels
        ((1, 16, 16, 1, 16), ["lead", "lead", "line", "m", "n"]),
        ((1, 16, 16, 1, 1, 1, 16), ["lead", "lead", "line", "lead", "lead", "m", "n"]),
        ((1, 1, 16), ["lead", "m", "n"]),
    ],
)
def test_a_line_in_front_of_dims_of_one_position_has_a_role_of_its_own(tile, out):
    found = roles({"C": tile, "A": tile, "B": (16, 16)})
    assert found["C"] == out
    assert found["A"] == [*out[:-1], "k"]
    assert found["B"] == ["k", "n"]


def test_operands_that_are_turned_have_rows_where_they_stand():
    found = roles({"C": (1, 16), "A": (16, 1), "B": (16, 16)}, trans_a=True, trans_b=True)
    assert found == {"C": ["m", "n"], "A": ["k", "m"], "B": ["n", "k"]}
