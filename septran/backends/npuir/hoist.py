"""Scratch buffers of leaves move to the top of the kernel: NPUIR allocates nowhere else.

@T.macro                               @T.macro
def leaf(Y, X):                        def leaf(Y, X, t1):
    t1 = T.alloc_ub([4, 8], "f32")  ->     T.vexp(X, t1)
    T.vexp(X, t1)
"""

from __future__ import annotations

import ast

from septran.ir.nodes import Buffer
from septran.kernel import Leaf

ALLOCATORS = ("alloc_ub", "alloc_shared", "alloc_fragment")


def scratch(leaf: Leaf) -> tuple[Buffer, ...]:
    """Return the buffers that a leaf allocates, named as in it; layout: the call that does."""
    return hoist(leaf.source, leaf.spec.symbol)[1]


def hoist(source: str, symbol: str) -> tuple[str, tuple[Buffer, ...]]:
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
        scratches.append(_buffer(stmt.targets[0].id, stmt.value))
        drop |= set(range(stmt.lineno - 1, stmt.end_lineno or stmt.lineno))
    head = fn.lineno - 1
    names = ", ".join(b.name for b in scratches)
    bracket = lines[head].rindex(")")
    comma = "" if lines[head][:bracket].rstrip().endswith("(") else ", "
    lines[head] = f"{lines[head][:bracket]}{comma}{names}{lines[head][bracket:]}"
    kept = [line for i, line in enumerate(lines) if i not in drop]
    return "\n".join(kept) + "\n", tuple(scratches)


def _buffer(name: str, call: ast.expr) -> Buffer:
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    shape, dtype = (ast.literal_eval(word) for word in call.args)
    return Buffer(name=name, shape=tuple(shape), dtype=dtype, mem="UB", layout=call.func.attr)


def _allocation(stmt: ast.stmt) -> bool:
    match stmt:
        case ast.Assign(
            targets=[ast.Name()],
            value=ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr=attr)),
        ):
            return attr in ALLOCATORS
    return False
