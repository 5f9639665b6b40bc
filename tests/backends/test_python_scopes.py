"""Names of a function's own in the text of somebody's Python file, and names that only look so."""

from __future__ import annotations

import ast

import pytest

from septran.backends.text.python_scopes import local_names

OWN = {
    "def f(input):\n    return input": 1,
    "def f(x):\n    input = x\n    return input": 2,
    "def f(x):\n    def g():\n        return input\n    input = x\n    return g": 2,
    "lambda input: input": 1,
    "def f(xs):\n    return [input for input in xs]": 2,
    "def f(xs):\n    for input in xs:\n        input += 1": 2,
    "def f():\n    try:\n        pass\n    except E as input:\n        raise input": 1,
    "def f():\n    import x as input\n    return input": 1,
    "def f(*input, **k):\n    return {a: input for a in k}": 1,
}
NOT = {
    "input('')": 0,
    "if x:\n    input = 1\ninput('')": 0,
    "def f():\n    global input\n    input = 1\n    return input": 0,
    "def f(x=input):\n    return x": 0,
    "def f(x: input):\n    return x": 0,
    "@input\ndef f(input):\n    pass": 0,
    "class C:\n    input = 1\n    def f(self):\n        return input": 0,
    "def f(xs):\n    [0 for input in xs]\n    return input('')": 1,
    "def f(xs):\n    return [0 for input in input(xs)]": 1,
    "def f():\n    def g():\n        input = 1\n    return input('')": 1,
    "def f(x):\n    return lambda: input(x)": 0,
}


@pytest.mark.parametrize("text", [*OWN, *NOT])
def test_which_names_are_a_functions_own(text: str) -> None:
    tree = ast.parse(text)
    own = local_names(tree)
    named = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "input"]
    assert sum(id(n) in own for n in named) == {**OWN, **NOT}[text]
    if text in OWN:
        assert all(id(n) in own for n in named)
