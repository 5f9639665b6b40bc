"""Scratch buffers of leaves move to the top of the kernel: NPUIR allocates nowhere else.

@T.macro                               @T.macro
def leaf(Y, X):                        def leaf(Y, X, t1):
    t1 = T.alloc_ub([4, 8], "f32")  ->     T.vexp(X, t1)
    T.vexp(X, t1)
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

ALLOCATORS = ("alloc_ub", "alloc_shared", "alloc_fragment")


@dataclass(frozen=True, slots=True)
class Scratch:
    """An allocation found in a leaf: its name there, the allocating call's text."""

    name: str
    call: str


def hoist(source: str, symbol: str) -> tuple[str, tuple[Scratch, ...]]:
    """Return the leaf with allocations turned into trailing parameters, and what they were."""
    tree = ast.parse(source)
    fn = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == symbol)
    found = [(i, s) for i, s in enumerate(fn.body) if _allocation(s)]
    if not found:
        return source, ()
    lines = source.splitlines()
    scratches = []
    drop: set[int] = set()
    for _, stmt in found:
        assert isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name)
        scratches.append(Scratch(stmt.targets[0].id, ast.unparse(stmt.value)))
        drop |= set(range(stmt.lineno - 1, stmt.end_lineno or stmt.lineno))
    head = fn.lineno - 1
    names = ", ".join(s.name for s in scratches)
    bracket = lines[head].rindex(")")
    comma = "" if lines[head][:bracket].rstrip().endswith("(") else ", "
    lines[head] = f"{lines[head][:bracket]}{comma}{names}{lines[head][bracket:]}"
    kept = [line for i, line in enumerate(lines) if i not in drop]
    return "\n".join(kept) + "\n", tuple(scratches)


def _allocation(stmt: ast.stmt) -> bool:
    match stmt:
        case ast.Assign(
            targets=[ast.Name()],
            value=ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr=attr)),
        ):
            return attr in ALLOCATORS
    return False
