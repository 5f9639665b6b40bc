"""What torch computes beside a judged file's kernels, where its user allows that: which operators, and of what.

Lies beside a judged kernel as septran_torch_mixed.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

MAY_COMPUTE: set[str] = set()
"""operators that the user lets torch compute; `all` are all"""
NEVER = ("_local_scalar_dense", "equal", "is_nonzero", "allclose", "record_stream")
"""what reads values, whatever torch may compute"""
_TURNED = {
    "truediv": "div",
    "pow": "pow",
    "matmul": "matmul",
    "add": "add",
    "sub": "sub",
    "mul": "mul",
}
_RECORD = Path("torch.json")


def let_compute(names: list[str]) -> None:
    """Allow torch these operators in all calls that follow."""
    MAY_COMPUTE.update(names)
    if names:
        torch.set_num_threads(1)


def word(func: Any) -> str:
    """Return what a file calls an operator: `matmul` for `@`, `mul` for `2 * x`."""
    name = str(getattr(func, "__name__", ""))
    if not name.startswith("__"):
        return name.rstrip("_")
    plain = name.strip("_")
    return _TURNED.get(plain, _TURNED.get(plain[1:], plain))


class Mixed:
    """What torch computes in one call.

    ops: (operator, line) in order; beyond: those that nobody allowed. made: what torch computed of no launch's result; derived:
    places of what it computed of one; solid: of one that is no copy. given: the call's own tensors.
    """

    def __init__(self) -> None:
        self.calls = self.copied = 0
        self.begin()

    def begin(self, given: tuple[Any, ...] = ()) -> None:
        """Forget the last call."""
        self.ops: list[tuple[str, int]] = []
        self.beyond: list[tuple[str, int]] = []
        self.made: list[Any] = []
        self.derived: set[int] = set()
        self.solid: set[int] = set()
        self.given = given

    def note(self, said: str, name: str, line: int) -> bool:
        """Note an operator as the file calls it, and as torch's dispatcher does; return whether torch may compute it."""
        self.ops.append((said, line))
        if {said, name, "all"} & MAY_COMPUTE:
            return True
        self.beyond.append((said, line))
        return False

    def told(self) -> tuple[str, str]:
        """Return what the host function does that nobody allowed, and what would allow it."""
        calls = [f"{name} in line {line}" for name, line in dict.fromkeys(self.beyond)]
        names = ",".join(dict.fromkeys([*sorted(MAY_COMPUTE), *(n for n, _ in self.beyond)]))
        return (
            f"calls torch's {', '.join(calls)}",
            f"the kernel has to compute, not its host function (--allow-torch {names}: what torch computes is then named, not judged as a kernel)",
        )

    def made_of(self, tensor: Any, place: int, *, of_launch: bool, solid: bool) -> None:
        """Note a tensor that torch computed. of_launch: of a launch's result; solid: of one that is more than a copy."""
        for known, holds in ((self.derived, of_launch), (self.solid, solid)):
            (known.add if holds else known.discard)(place)
        if not of_launch:
            self.made.append(tensor)

    def is_new(self, tensor: Any, inputs: list[Any]) -> bool:
        """Return whether a tensor that a launch stored holds more than one number, and others than inputs or what torch computed before."""
        if tensor.numel() > 1 and bool((tensor == tensor.reshape(-1)[0]).all()):
            return False
        return not any(same(tensor, t) for t in (*inputs, *self.made))

    def leave(self, solid: bool) -> None:
        """Write down what torch computed in this call, and in how many calls launches did no more than copy. solid: not in this one."""
        if self.ops:
            self.calls += 1
            self.copied += not solid
            found = {"ops": self.ops, "calls": self.calls, "copied": self.copied}
            _RECORD.write_text(json.dumps(found), encoding="utf-8")


def same(one: Any, other: Any) -> bool:
    """Return whether two tensors hold the same numbers, in whatever order and shape, but for rounding."""
    if one.numel() != other.numel() or one.is_complex() or other.is_complex():
        return False
    a, b = (t.detach().reshape(-1).double().sort().values for t in (one, other))
    return bool(torch.allclose(a, b, rtol=1e-3, atol=0.0, equal_nan=True))
