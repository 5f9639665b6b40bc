"""The gate in front of every documentation's block: what a model is shown passes it, as a model's reply has to.

What a runner compiles or runs is the text that the gate prints. An `error` block may be refused here: then its message is the gate's,
which is what a model is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from septran.kernel import Leaf, LeafParam, LeafSpec
from septran.leafgate import printed

READ = ("X", "A", "B", "b")
"""Operands that the documentation's leaves in Python only read, by their names."""


def admitted(source: str, signature: str, subset: str, params: Iterable[tuple[str, bool]]) -> str:
    """Return a leaf as it may be compiled or lowered. params: name and whether it is written.

    Raises:
        Refusal: what is not part of the subset, or writes an operand that is only read.
    """
    spec = LeafSpec(
        task="block",
        backend="",
        arch="",
        proc="CORE",
        params=tuple(
            LeafParam(
                name=name,
                shape=(1, 1),
                dtype="float32",
                mem="SHARED",
                layout="row",
                privilege="rw" if written else "r",
                ragged=(False, False),
                step=(1, 1),
            )
            for name, written in params
        ),
        scalars=(),
        prims=(),
    )
    leaf = Leaf(spec=spec, writer="file", name="doc", source=source)
    return printed(leaf, signature=signature, subset=subset).source


def admitted_module(code: str, subset: str) -> str:
    """Return a module with each of its leaves as the gate prints it. Raises Refusal, SyntaxError."""
    lines = code.splitlines()
    for leaf in reversed(leaves(code)):
        first = min([leaf.lineno, *(d.lineno for d in leaf.decorator_list)]) - 1
        source = "\n".join(lines[first : leaf.end_lineno]) + "\n"
        signature = "\n".join(lines[first : leaf.body[0].lineno - 1])
        params = [(a.arg, a.arg not in READ) for a in leaf.args.args]
        lines[first : leaf.end_lineno] = admitted(source, signature, subset, params).splitlines()
    return "\n".join(lines) + "\n"


def leaves(code: str) -> list[ast.FunctionDef]:
    """Return the functions of a module that are leaves: macros, and what is called so."""
    return [
        node
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef)
        and (
            node.name.startswith("leaf_")
            or any(ast.unparse(d) == "T.macro" for d in node.decorator_list)
        )
    ]
