"""drop_copies: a leaf's last copy into a buffer of the same form goes, and readers read the source; any other copy stays."""

from __future__ import annotations

import pytest
import torch

from septran.ir.nodes import Alloc, LeafCall, Program, walk
from septran.ir.text import parse_program
from septran.passes.drop_copies import drop_copies
from septran.passes.interpret import interpret
from septran.plan.resolve import GenRequest
from septran.plan.unmapped import KEPT
from septran.run.prove import prove_request

TEXT = """program p target=t arch=- machine=m
options {}
param w Y: GLOBAL float32[4, 6]
param r X: GLOBAL float32[4, 6]
  for k0 in 1
    alloc S: REGISTER float32[4, 6]
    alloc P: REGISTER float32[4, 6]
    leaf load <auto>
    | w S = S[0:+4, 0:+6]
    | r X = X[0:+4, 0:+6]
    | prim {"name": "copy", "out": "S", "ins": ["X"], "named": {}, "attrs": {}}
    leaf twice <auto>
    | rw S = S[0:+4, 0:+6]
    | w P = P[0:+4, 0:+6]
    | prim {"name": "map", "out": "S", "ins": [], "named": {"s": "S"}, "attrs": {"expr": "s * 2"}}
    | prim {"name": "copy", "out": "P", "ins": ["S"], "named": {}, "attrs": {}}
    leaf store <auto>
    | w Y = Y[0:+4, 0:+6]
    | r P = P[0:+4, 0:+6]
    | prim {"name": "copy", "out": "Y", "ins": ["P"], "named": {}, "attrs": {}}
"""


def program(*changes: tuple[str, str]) -> Program:
    text = TEXT
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return parse_program(text)


def result(made: Program) -> torch.Tensor:
    torch.manual_seed(0)
    tensors = {"Y": torch.zeros(4, 6), "X": torch.randn(4, 6)}
    interpret(made, tensors)
    return tensors["Y"]


def test_one_buffer_is_both():
    after = drop_copies(program())
    assert [s.buffer.name for s in walk(after.body) if isinstance(s, Alloc)] == ["S"]
    calls = [s for s in walk(after.body) if isinstance(s, LeafCall)]
    assert [[a.region.buffer.name for a in call.args] for call in calls] == [
        ["S", "X"], ["S"], ["Y", "S"],
    ]  # fmt: skip
    assert [p.name for p in calls[1].prims] == ["map"]
    assert torch.equal(result(after), result(program()))
    assert bool(result(after).any())


@pytest.mark.parametrize(
    "change",
    [
        (("| r P = P[0:+4", "| r P = S[0:+4"),),  # the source is read behind it
        (("| r X = X[0:+4, 0:+6]\n", "| r X = X[0:+4, 0:+6]\n    | w P = P[0:+4, 0:+6]\n"),),
        (("alloc P: REGISTER float32", "alloc P: REGISTER bfloat16"),),  # it rounds
        (("alloc P: REGISTER float32[4, 6]", "alloc P: REGISTER float32[4, 8]"),),
        (("| w P = P[0:+4, 0:+6]", "| w P = P[0:+2, 0:+6]"),),  # a part
        (("| w P = P", "| rw P = P"),),  # what it held counts
        (("leaf twice <auto>", "leaf twice <mine>"),),  # somebody's own leaf has its signature
        (('"expr": "s * 2"}}\n', '"expr": "s * 2"}}\n    | prim {"name": "fill", "out": "P", "ins": [], "named": {}, "attrs": {"value": 1.0}}\n'),),
    ],
)  # fmt: skip
def test_what_means_more_stays(change):
    assert drop_copies(program(*change)) == program(*change)


def test_a_source_that_changes_behind_its_copy_stays():
    first, second = (line for line in TEXT.splitlines(keepends=True) if '"s * 2"' in line or '"out": "P"' in line)  # fmt: skip
    turned = parse_program(TEXT.replace(first + second, second + first))
    assert drop_copies(turned) == turned


@pytest.mark.parametrize("op", ["attention", "attention_causal"])
def test_the_logic_without_the_copy_is_what_is_proven(op: str) -> None:
    certificate = prove_request(GenRequest(op=op, backend="cpp")).certificate
    assert certificate.holds
    assert KEPT in certificate.assumptions
