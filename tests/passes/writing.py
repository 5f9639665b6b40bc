"""Programs written as text for pass tests, run on torch."""

from __future__ import annotations

import textwrap

import torch

from septran.ir.nodes import Program
from septran.ir.spec import check_program
from septran.ir.text import parse_program, print_program
from septran.passes.interpret import interpret

COPY = '| prim {"name": "copy", "out": "Y", "ins": ["X"], "named": {}, "attrs": {}}'
ADD = '| prim {"name": "map", "out": "Y", "ins": [], "named": {"x": "X", "y": "Y"}, "attrs": {"expr": "x + y"}}'
ONE = '| prim {"name": "fill", "out": "Y", "ins": [], "named": {}, "attrs": {"value": 1.0}}'
TWICE = (
    '| prim {"name": "map", "out": "Y", "ins": [], "named": {"x": "X"}, "attrs": {"expr": "x + x"}}'
)
MEANING = {"copy": COPY, "add": ADD, "one": ONE, "twice": TWICE}
SIZE = 12


def program(body: str) -> Program:
    """Parse a body over parameters C (rw), A (r), B (r), all float32[12]; `| means NAME` is a primitive."""
    lines = [
        "program p target=t arch=- machine=m",
        "options {}",
        f"param rw C: GLOBAL float32[{SIZE}]",
        f"param r A: GLOBAL float32[{SIZE}]",
        f"param r B: GLOBAL float32[{SIZE}]",
    ]
    for line in textwrap.dedent(body).strip().splitlines():
        head, _, name = line.partition("| means ")
        lines.append("  " + (head + MEANING[name] if name else line))
    return parse_program("\n".join(lines))


def body_text(p: Program) -> str:
    """Return the printed body, primitives left out."""
    kept = [
        line[2:]
        for line in print_program(p).splitlines()
        if line.startswith("  ") and "| prim" not in line
    ]
    return "\n".join(kept) + "\n"


def text(expected: str) -> str:
    return textwrap.dedent(expected).lstrip("\n")


def run(p: Program) -> torch.Tensor:
    """Return C after running on A = 1..12, B = 10, 20, .. and C = 100, 200, .."""
    check_program(p)
    at = torch.arange(1, SIZE + 1, dtype=torch.float32)
    tensors = {"C": at * 100, "A": at.clone(), "B": at * 10}
    interpret(p, tensors)
    return tensors["C"]


def same(one: torch.Tensor, two: torch.Tensor) -> bool:
    return bool(torch.equal(one, two))
