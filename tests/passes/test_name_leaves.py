"""Each call names its leaf, so that a pass may rebuild calls and nobody has to ask which leaf was chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from septran import backends
from septran.errors import InternalError
from septran.ir.nodes import ALL, INLINE, leaf_calls
from septran.ir.text import parse_program, print_program
from septran.kernel import Leaf, leaf_specs
from septran.passes.name_leaves import name_leaves
from tests.backends.operators import all_operators, program_of

OPERATORS = all_operators()


def softmax(target: str):
    backend = backends.get(target)
    op, path = OPERATORS["softmax"]
    arch = (backend.arches or ("",))[0]
    return backend, program_of(op, path, backend, arch, "float32", op.odd_dims[0])


def own(spec):
    return Leaf(spec=spec, writer="file", name="own", source="")


@pytest.mark.parametrize("target", ["cpp", "dsa_c"])
def test_every_call_gets_the_symbol_of_its_leaf(target):
    _, program = softmax(target)
    specs = leaf_specs(program)
    named = name_leaves(program, {spec.key: own(spec) for _, spec in specs})
    assert [c.symbol for c in leaf_calls(named)] == [spec.symbol for _, spec in specs]
    assert [c.impl for c in leaf_calls(named)] == [c.impl for c in leaf_calls(program)]
    assert leaf_specs(named)[0][1] == specs[0][1]  # a name is no part of what a leaf is asked for
    assert parse_program(print_program(named)) == named


def test_a_leaf_that_is_no_function_is_put_in_place():
    backend, program = softmax("dsa_c")
    chosen = backend.complete(program, {})
    assert all(leaf.inline for leaf in chosen.values())
    assert {c.impl for c in leaf_calls(name_leaves(program, chosen))} == {INLINE}
    assert {c.symbol for c in leaf_calls(backend.finished(program, {}))} == {""}


def test_a_function_of_the_user_stays_a_call_beside_operations():
    backend, program = softmax("dsa_c")
    (_, first), *_ = leaf_specs(program)
    finished = backend.finished(program, {first.key: own(first)})
    called = [c for c in leaf_calls(finished) if c.symbol]
    assert called and {c.symbol for c in called} == {first.symbol}
    assert {c.args[-1].param for c in called} == {"scratch"}
    assert {c.engine for c in called} == {ALL}


def test_a_leaf_that_nobody_has_is_told():
    backend, program = softmax("cpp")
    nothing = replace(backend, library=lambda spec: None)
    with pytest.raises(InternalError, match="cpp: no leaf for task"):
        nothing.emit(program, {})
