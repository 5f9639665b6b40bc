"""Run a kernel's Program over a prime field: a test of its products and sums at one size, exact in any order.

Inputs are random numbers below a prime p, small enough that float32 holds every sum exactly; results count modulo p.
Leaves run by their meaning. Two Programs whose outputs are different polynomials of degree d agree in an element
with probability d / p at most (Schwartz 1980, Zippel 1979), so a wrong term shows after a few elements. It sees no
order and no races, and only operators that are polynomials.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septran.ir.nodes import Program, leaf_calls
from septran.passes.interpret import interpret
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve

EXACT = 1 << 24
"""float32 holds every integer up to here"""
LEAST = 11
"""the smallest prime that says anything: a wrong element of degree 2 agrees by chance in 2 of 11 cases"""
_PRIMES = (127, 61, 31, 17, LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRun:
    """What came out. prime: 0 when not asked. wrong: output and index of the first element that differs, "" = none. why: not asked."""

    prime: int = 0
    wrong: str = ""
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return f"not asked: {self.why}"
        if self.wrong:
            return f"differs from torch in {self.wrong}, modulo {self.prime}"
        return f"agrees with torch modulo {self.prime} (tested at its sizes, not proven)"

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"prime": self.prime, "wrong": self.wrong, "why": self.why}


def field_of(request: GenRequest) -> FieldRun:
    """Return `check_field` of a request's kernel; raises its user's mistakes as `resolve` and `lower_plan`."""
    plan = resolve(request)
    return check_field(plan, lower_plan(plan).program)


def check_field(plan: Plan, program: Program, seed: int = 0) -> FieldRun:
    """Return whether `program` and the operator's reference are the same polynomial, as far as one run shows."""
    import torch

    why = not_polynomial(program)
    if why:
        return FieldRun(why=why)
    reference = plan.operator.reference.fn
    scalars = plan.operator.scalar_values(plan.dims)
    outputs = [p.buffer.name for p in program.params if p.privilege != "r"]

    def exact(given: Mapping[str, Any]) -> dict[str, Any]:
        found = reference(**{n: x.double() for n, x in given.items()}, **scalars)
        return dict(zip(outputs, found if isinstance(found, tuple) else (found,), strict=True))

    for prime in _PRIMES:
        given = _draw(program, prime, seed)
        largest = exact({n: torch.full_like(x, prime - 1) for n, x in given.items()})
        if max(float(x.abs().max()) for x in largest.values()) < EXACT:
            found = field_run(program, given, prime)
            return FieldRun(prime=prime, wrong=_wrong(found, exact(given), prime))
    return FieldRun(why=f"its sums are too long for float32 to hold them modulo {LEAST}")


def _wrong(found: Mapping[str, Any], meant: Mapping[str, Any], prime: int) -> str:
    for name, x in found.items():
        bad = (x.double() != meant[name].reshape(x.shape) % prime).nonzero()
        if len(bad):
            return f"{name}{bad[0].tolist()}"
    return ""


def _draw(program: Program, prime: int, seed: int) -> dict[str, Any]:
    import torch

    draw = torch.Generator().manual_seed(seed)
    return {
        p.buffer.name: torch.randint(0, prime, p.buffer.shape, generator=draw).float()
        for p in program.params
        if p.privilege == "r"
    }


def field_run(program: Program, given: Mapping[str, Any], prime: int) -> dict[str, Any]:
    """Return output -> its elements modulo `prime`, float32; what is never written is NaN.

    given: input -> float32 integers below the prime.
    """
    import torch

    held = {n: x.clone() for n, x in given.items()}
    for p in program.params:
        if p.buffer.name not in held:
            held[p.buffer.name] = torch.full(p.buffer.shape, float("nan"))
    interpret(program, held, fresh=True)
    return {n: x % prime for n, x in held.items() if n not in given}


_MOVES = ("fill", "copy", "transpose", "gemm", "gemm_acc")
_SUMS = ("reduce", "reduce_acc")


def not_polynomial(program: Program) -> str:
    """Return what of a Program is no polynomial with whole coefficients, "" when all is one."""
    for p in program.params:
        if p.privilege == "rw" or p.buffer.dtype != "float32":
            return (
                f"{p.buffer.name} is {p.buffer.dtype}{', read and written' * (p.privilege == 'rw')}"
            )
    for call in leaf_calls(program):
        for prim in call.prims:
            text = str(prim.attr("expr") or "")
            if prim.name in _MOVES and float(str(prim.attr("value") or 0)).is_integer():
                continue
            if prim.name in _SUMS and prim.attr("op") == "sum":
                continue
            if prim.name == "map" and text and _whole(ast.parse(text, mode="eval").body):
                continue
            return f"{prim.name} {text or prim.attr('op') or ''}".strip() + " is no polynomial"
    return ""


def _whole(e: ast.expr) -> bool:
    match e:
        case ast.Name():
            return True
        case ast.Constant(value=int() | float() as value):
            return float(value).is_integer()
        case ast.BinOp(left=a, op=ast.Add() | ast.Sub() | ast.Mult(), right=b):
            return _whole(a) and _whole(b)
    return False
