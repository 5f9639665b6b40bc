"""Index expressions against brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.ir.expr import (
    Bin,
    Const,
    Var,
    bounds,
    cdiv,
    evaluate,
    free,
    make,
    maximum,
    minimum,
    substitute,
    to_text,
)
from septran.ir.text import parse_expr

NAMES = ("i", "j", "k0")
LIMIT = settings(max_examples=150, deadline=None, derandomize=True)


def python_value(e, env):
    """The value by Python's own operators, written independently of `evaluate`."""
    match e:
        case Const(value):
            return value
        case Var(name):
            return env[name]
        case Bin("min" | "max", a, b):
            return (min if e.op == "min" else max)(python_value(a, env), python_value(b, env))
        case Bin(op, a, b):
            left, right = python_value(a, env), python_value(b, env)
            return eval(f"left {op} right", {"left": left, "right": right})
    raise AssertionError(e)


def raw(divisors=True):
    """Unfolded trees; divisors are positive constants, as the language says."""
    leaves = st.one_of(st.integers(-9, 9).map(Const), st.sampled_from(NAMES).map(Var))

    def extend(inner):
        pairs = st.builds(Bin, st.sampled_from(["+", "-", "*", "min", "max"]), inner, inner)
        if not divisors:
            return pairs
        by = st.integers(1, 7).map(Const)
        return st.one_of(pairs, st.builds(Bin, st.sampled_from(["//", "%"]), inner, by))

    return st.recursive(leaves, extend, max_leaves=8)


def folded(e):
    match e:
        case Bin(op, a, b):
            return make(op, folded(a), folded(b))
    return e


environments = st.fixed_dictionaries({n: st.integers(-6, 12) for n in NAMES})
ranges = st.fixed_dictionaries(
    {
        n: st.tuples(st.integers(-3, 3), st.integers(0, 3)).map(lambda p: (p[0], p[0] + p[1]))
        for n in NAMES
    }
)


@LIMIT
@given(raw(), environments)
def test_evaluate_is_python(e, env):
    assert evaluate(e, env) == python_value(e, env)


@LIMIT
@given(raw(), environments)
def test_folding_keeps_the_value(e, env):
    assert evaluate(folded(e), env) == evaluate(e, env)


@LIMIT
@given(raw(), environments)
def test_folding_twice_is_folding_once(e, env):
    once = folded(e)
    assert evaluate(folded(once), env) == evaluate(once, env)
    assert free(once) <= free(e)


@LIMIT
@given(raw(), ranges)
def test_bounds_hold_everywhere(e, box):
    low, high = bounds(e, box)
    for values in itertools.product(*(range(a, b + 1) for a, b in box.values())):
        assert low <= evaluate(e, dict(zip(box, values, strict=True))) <= high


@LIMIT
@given(st.sampled_from(["+", "-", "*", "//", "%", "min", "max"]), ranges, st.integers(1, 5))
def test_bounds_of_one_operation_are_tight(op, box, by):
    e = Bin(op, Var("i"), Const(by) if op in ("//", "%") else Var("j"))
    seen = [
        evaluate(e, {"i": i, "j": j})
        for i in range(box["i"][0], box["i"][1] + 1)
        for j in range(box["j"][0], box["j"][1] + 1)
    ]
    low, high = bounds(e, box)
    if op == "%":
        assert low <= min(seen) and max(seen) <= high
    else:
        assert (low, high) == (min(seen), max(seen))


@LIMIT
@given(raw(), raw(), environments)
def test_substituting_is_evaluating_first(e, inner, env):
    replaced = substitute(e, {"i": inner})
    assert evaluate(replaced, env) == evaluate(e, {**env, "i": evaluate(inner, env)})


@LIMIT
@given(raw())
def test_text_parses_back_to_the_same_tree(e):
    assert parse_expr(to_text(e)) == e


@given(st.integers(-50, 50), st.integers(1, 9))
def test_cdiv(a, b):
    assert cdiv(a, b) == Const(-(-a // b))


@pytest.mark.parametrize(
    ("built", "wanted"),
    [
        (Var("i") + 0, Var("i")),
        (0 + Var("i"), Var("i")),
        (Var("i") * 1, Var("i")),
        (Var("i") * 0, Const(0)),
        (Var("i") // 1, Var("i")),
        (Var("i") % 1, Const(0)),
        (Var("i") - Var("i"), Const(0)),
        (Var("i") + 3 - 5, Var("i") - 2),
        (Var("i") + 3 - 3, Var("i")),
        (minimum(Var("i"), Var("i")), Var("i")),
        (maximum(4, 7), Const(7)),
        (minimum(4, 7), Const(4)),
        (3 - Const(5), Const(-2)),
        (2 * Const(5), Const(10)),
    ],
)
def test_what_folds(built, wanted):
    assert built == wanted


def test_missing_variable_is_a_key_error():
    with pytest.raises(KeyError):
        evaluate(Var("i") + 1, {"j": 1})


@pytest.mark.parametrize("text", ["f(i)", "i / 2", "i.x", "'a'", "i < 2", "min(i)"])
def test_not_an_expression(text):
    with pytest.raises((ValueError, KeyError)):
        parse_expr(text)
