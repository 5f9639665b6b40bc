"""Helper functions that a Python dialect's kernels may call; a file carries only those that its leaves use."""

from __future__ import annotations

from collections.abc import Iterable

from septran.ir.nodes import Program
from septran.kernel import Leaf
from septran.passes.name_leaves import RUNTIME, Runtime

Prelude = tuple[tuple[str, str], ...]
"""Name and source of each helper, in the order in which they are printed."""


def calls_of(prelude: Prelude) -> Runtime:
    """Return what a manifest's `runtime` is: the helpers whose names stand in some leaf."""

    def runtime(program: Program, leaves: Iterable[Leaf]) -> tuple[str, ...]:
        sources = [leaf.source for leaf in leaves]
        return tuple(name for name, _ in prelude if any(name in s for s in sources))

    return runtime


def helpers(prelude: Prelude, program: Program, code: str = "") -> str:
    """Return the source of the helpers that a Program with named leaves brings; code: what else may call some."""
    wanted = program.option(RUNTIME)
    assert isinstance(wanted, list)
    return "\n\n".join(s for name, s in prelude if name in wanted or f"{name}(" in code)
