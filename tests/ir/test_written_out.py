"""Functions that a target lacks, said with others: what they give in float32 and float64."""

from __future__ import annotations

import numpy as np
import pytest

from septran.ir.scalar import Const, Name, Node, Op, walk
from septran.ir.written_out import WRITTEN_OUT, written_out

_DO = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "<": np.less, ">": np.greater,
    "==": np.equal, "select": np.where, "log": np.log, "exp": np.exp, "tanh": np.tanh, "abs": np.abs, "neg": np.negative,
}  # fmt: skip
_WANTED = {"log1p": np.log1p, "expm1": np.expm1, "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc}  # fmt: skip


def _value(node: Node, x: np.ndarray) -> np.ndarray:
    match node:
        case Const(value):
            return x.dtype.type(value)
        case Name():
            return x
    return _DO[node.op](*(_value(a, x) for a in node.args))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_it_gives_what_the_function_gives(name: str, dtype: str) -> None:
    generator = np.random.default_rng(1)
    ordinary = generator.normal(size=4000) * 10.0 ** generator.integers(-9, 2, 4000)
    halves = np.arange(-9, 9) + 0.5
    far = [2.0**23 - 0.5, 2.0**22 + 0.5, 2.0**25 + 2, 2.0**52 - 0.5, 1e20, np.inf, -np.inf, np.nan, 0.0, -1.0]  # fmt: skip
    x = np.concatenate([ordinary, halves, far, np.negative(far)]).astype(dtype)
    tree = written_out(Op(name, (Name("x", "float"),), "float"), (), dtype)
    assert not any(isinstance(n, Op) and n.op in WRITTEN_OUT for n in walk(tree))
    with np.errstate(all="ignore"):
        got, wanted = _value(tree, x), _WANTED[name](x.astype("float64")).astype(dtype)
    assert got.dtype == dtype
    if name in ("log1p", "expm1"):
        np.testing.assert_allclose(got, wanted, rtol=8 * np.finfo(dtype).eps)
    else:
        np.testing.assert_array_equal(got, wanted)


def test_what_a_target_has_stays() -> None:
    tree = Op("floor", (Op("log1p", (Name("x", "float"),), "float"),), "float")
    assert written_out(tree, ("floor", "log1p"), "float32") == tree
    assert written_out(tree, ("log1p",), "float32").op == "select"
