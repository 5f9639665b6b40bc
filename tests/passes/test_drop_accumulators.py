"""drop_accumulators: one product, zeroed before and copied out behind, is written where it goes; any other stays."""

from __future__ import annotations

import pytest
import torch

from septran.ir.nodes import Alloc, LeafCall, Program, walk
from septran.ir.text import parse_program
from septran.passes.drop_accumulators import drop_accumulators
from septran.passes.interpret import interpret

HEAD = """program p target=t arch=- machine=m
options {}
param w C: GLOBAL bfloat16[4, 6]
param r A: GLOBAL bfloat16[4, 8]
param r B: GLOBAL bfloat16[8, 6]
  alloc acc: REGISTER float32[4, 6]
  leaf zero <auto>
  | w C = acc[0:+4, 0:+6]
  | prim {"name": "fill", "out": "C", "ins": [], "named": {}, "attrs": {"value": VALUE}}
  for k0 in COUNT
    leaf mma <auto>
    | rw C = acc[0:+4, 0:+6]
    | r A = A[0:+4, (k0 * DEPTH):+DEPTH]
    | r B = B[(k0 * DEPTH):+DEPTH, 0:+6]
    | prim {"name": "gemm_acc", "out": "C", "ins": ["A", "B"], "named": {}, "attrs": {}}
  leaf store <auto>
  | w Y = C[0:+4, 0:+6]
  | r C = acc[0:+4, 0:+6]
  | prim {"name": "PRIM", "out": "Y", "ins": [INS], "named": {NAMED}, "attrs": {ATTRS}}
"""


def tile(*, value: float = 0.0, count: int = 1, means: str = "copy") -> Program:
    words = {
        "copy": {"PRIM": "copy", "INS": '"C"', "NAMED": "", "ATTRS": ""},
        "relu": {
            "PRIM": "map", "INS": "", "NAMED": '"c": "C"', "ATTRS": '"expr": "max(c, 0)"',
        },
    }[means]  # fmt: skip
    text = HEAD.replace("VALUE", str(value)).replace("COUNT", str(count))
    text = text.replace("DEPTH", str(8 // count))
    for name, word in words.items():
        text = text.replace(name, word)
    return parse_program(text)


def result(program: Program) -> torch.Tensor:
    torch.manual_seed(0)
    tensors = {
        "C": torch.zeros(4, 6, dtype=torch.bfloat16),
        "A": torch.randn(4, 8).bfloat16(),
        "B": torch.randn(8, 6).bfloat16(),
    }
    interpret(program, tensors)
    return tensors["C"]


def test_a_product_of_one_call_is_written_where_it_goes():
    after = drop_accumulators(tile())
    (call,) = walk(after.body)
    assert isinstance(call, LeafCall)
    assert [p.name for p in call.prims] == ["gemm"]
    assert [(a.region.buffer.name, a.privilege) for a in call.args] == [
        ("C", "w"), ("A", "r"), ("B", "r"),
    ]  # fmt: skip
    assert torch.equal(result(after), result(tile()))


@pytest.mark.parametrize(
    "program",
    [tile(count=2), tile(value=1.0), tile(means="relu")],
    ids=["several rounds", "a start that is not zero", "an epilogue"],
)
def test_what_means_more_keeps_its_accumulator(program):
    assert drop_accumulators(program) == program


def test_panels_keep_their_accumulator():
    text = HEAD.replace("VALUE", "0.0").replace("COUNT", "1").replace("DEPTH", "8")
    for name, word in {"PRIM": "copy", "INS": '"C"', "NAMED": "", "ATTRS": ""}.items():
        text = text.replace(name, word)
    text = text.replace(
        "  for k0", "  alloc A_s: SHARED bfloat16[4, 8] layout=panel_m:12\n"
        "  copy A_s[0:+4, 0:+8] <- A[0:+4, 0:+8]\n  for k0"
    ).replace("r A = A[0:+4, (k0 * 8):+8]", "r A = A_s[0:+4, 0:+8]")  # fmt: skip
    packed = parse_program(text)
    assert any(isinstance(s, Alloc) and s.buffer.layout != "row" for s in walk(packed.body))
    assert drop_accumulators(packed) == packed
