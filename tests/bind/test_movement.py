"""What scan, argreduce, gather and scatter_acc take, and targets that have no code for them."""

from __future__ import annotations

import pytest

from septran import backends
from septran.bind import check_primitives
from septran.bind.shapes import _problem
from septran.errors import MappingError
from septran.ir.expr import Const
from septran.ir.nodes import Buffer, LeafArg, LeafCall, Prim, Program, Region


def _prim(name: str, *ins: str, **attrs: object) -> Prim:
    return Prim(name=name, out="Y", ins=ins, attrs=tuple(sorted(attrs.items())))


WRONG = {
    "several axes": (
        _prim("reduce", "X", op="sum", axis=(1, 2)),
        {"Y": (3, 4, 1), "X": (3, 4, 5)},
        "keeps the reduced axes as 1: Y = Y has shape (3, 4, 1), but X = X gives (3, 1, 1)",
    ),
    "an operation that scan does not have": (
        _prim("scan", "X", op="mean", axis=1),
        {"Y": (3, 4), "X": (3, 4)},
        "needs op= one of sum, max, min, prod, got 'mean'",
    ),
    "an axis that is not there": (
        _prim("scan", "X", op="sum", axis=2),
        {"Y": (3, 4), "X": (3, 4)},
        "needs axis= in -2..1, got 2",
    ),
    "a scan keeps its shape": (
        _prim("scan", "X", op="sum", axis=1),
        {"Y": (3, 1), "X": (3, 4)},
        "has shape (3, 1)",
    ),
    "a position keeps the axis as 1": (
        _prim("argreduce", "X", op="max", axis=1),
        {"Y": (3, 4), "X": (3, 4)},
        "keeps the reduced axis as 1",
    ),
    "a gather of one rank": (
        _prim("gather", "X", "I", axis=0),
        {"Y": (3, 4), "X": (9, 4), "I": (3,)},
        "needs tensors of one rank",
    ),
    "a gather's other dims agree": (
        _prim("gather", "X", "I", axis=0),
        {"Y": (3, 4), "X": (9, 5), "I": (3, 1)},
        "dim 1 does not fit",
    ),
    "a scatter's other dims agree": (
        _prim("scatter_acc", "X", "I", op="sum", axis=0),
        {"Y": (9, 4), "X": (3, 1), "I": (3, 1)},
        "dim 1 does not fit",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_shapes_that_do_not_fit_are_told(name: str) -> None:
    prim, tiles, told = WRONG[name]
    problem = _problem(prim, tiles, {n: n for n in tiles})
    assert problem is not None and told in problem


def test_a_target_without_code_for_it_says_so() -> None:
    buffer = Buffer(name="x", shape=(8,), dtype="float32", mem="GLOBAL")
    region = Region.whole(buffer, (Const(8),))
    call = LeafCall(
        task="running",
        impl="auto",
        args=(LeafArg(param="Y", region=region, privilege="w"),),
        prims=(_prim("scan", "X", op="sum", axis=0),),
    )
    program = Program(name="p", target="t", arch="", machine="m", params=(), body=(call,))
    check_primitives(program, "t", movement=("scan",), opaque=False, functions=(), whole=False)
    with pytest.raises(MappingError, match=r"M173.*t has no leaf for the primitive scan"):
        check_primitives(
            program, "t", movement=("gather",), opaque=False, functions=(), whole=False
        )
    assert "gather" in backends.get("cpp").movement
    assert not backends.get("pallas_tpu").movement
