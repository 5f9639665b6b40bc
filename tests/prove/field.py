"""Run a Program over a prime field: a test instrument for sums of products.

Inputs are random numbers below a prime p, small enough that float32 holds every sum exactly; results count modulo p. Leaves run by
their meaning. Two Programs whose outputs are different polynomials of degree d agree in an element with probability d / p at
most (Schwartz 1980, Zippel 1979), so a difference shows after a few elements, whatever the order of the sums.
"""

from __future__ import annotations

from typing import Any

import torch

from septran.ir.nodes import Program
from septran.passes.interpret import interpret

P = 127
EXACT = 1 << 24
"""float32 holds every integer up to here"""


def field_run(program: Program, terms: int, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (inputs, outputs modulo P) of one run; `terms` products are added into an element.

    What is never written comes back as NaN.
    """
    assert terms * (P - 1) ** 2 < EXACT
    draw = torch.Generator().manual_seed(seed)
    held: dict[str, Any] = {}
    for p in program.params:
        if p.privilege == "r":
            held[p.buffer.name] = torch.randint(0, P, p.buffer.shape, generator=draw).float()
        else:
            held[p.buffer.name] = torch.full(p.buffer.shape, float("nan"))
    given = {
        p.buffer.name: held[p.buffer.name].clone() for p in program.params if p.privilege == "r"
    }
    interpret(program, held, fresh=True)
    return given, {n: x % P for n, x in held.items() if n not in given}
