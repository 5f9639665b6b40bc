"""The closed subset of Python that printed kernels are read in."""

from __future__ import annotations

import ast

import pytest

from septran.backends.reading import python_syntax as py
from septran.ir.expr import Const, Expr, Var, make
from septran.prove import printed
from septran.prove.printed import Unreadable

ROW, COL = Var("i"), Var("j")
NAMES: dict[str, Expr] = {"i": ROW, "n": COL * 4}


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def test_indices_are_integer_expressions_of_known_names():
    needs: list[Expr] = []
    told = py.index(expression("min(8, (i * 32 + 63) // 32) - n % 7"), NAMES, needs)
    assert told == make("min", 8, (ROW * 32 + 63) // 32) - COL * 4 % 7
    assert needs == [ROW * 32 + 63, COL * 4], (
        "what is divided may not be negative where // truncates"
    )


@pytest.mark.parametrize(
    "text", ["k", "i / 2", "i // j", "i // 0", "i % n", "True", "i if i else 1", "f(i)", "i * 1.5"]
)
def test_what_is_no_index_is_refused(text: str):
    with pytest.raises(Unreadable, match="line 1"):
        py.index(expression(text), {**NAMES, "j": COL})


def test_conditions_are_conjunctions_of_comparisons():
    meant = (printed.Test(">=", ROW, Const(2)), printed.Test("<", COL * 4, Const(5)))
    assert py.tests(expression("(i >= 2) & (n < 5)"), NAMES) == meant
    assert py.tests(expression("i >= 2 and n < 5"), NAMES) == meant
    for other in ("(i >= 2) | (n < 5)", "not i < 2", "0 <= i < 2", "i != 2"):
        with pytest.raises(Unreadable):
            py.tests(expression(other), NAMES)


def test_calls_keep_their_keys_and_unpack_nothing():
    call = py.called(expression("tl.load(p, mask=m, other=0)"))
    assert call is not None and (call.name, list(call.named)) == ("tl.load", ["mask", "other"])
    assert py.called(expression("f[0](x)")) is None
    with pytest.raises(Unreadable):
        py.called(expression("f(*x)"))


def test_numbers():
    assert py.real(expression("-1e+30")) == -1e30 and py.real(expression("3")) is None
    assert str(py.real(expression('float("nan")'))) == "nan"
    assert py.shape(expression("(1, -2)")) == (1, -2)
    with pytest.raises(Unreadable):
        py.parse("for :")
