"""Why no function of a Python file may be the host function, though something in it launches: the place and the reason."""

from __future__ import annotations

import ast
from collections.abc import Callable
from textwrap import shorten

from septran.backends.text.python_host import is_plain, is_test
from septran.backends.text.python_module import is_script, placed, plain_decorators

Found = tuple[int, str, str]
"""line, what launches and why it is no host function, what to do"""
_WRITE = "write a function that takes the tensors, launches the kernel and returns the result"


def unlaunched(
    text: str, kernel: Callable[[ast.AST], bool], launches: Callable[[ast.AST], bool]
) -> Found | None:
    """Return why the likeliest of what launches is no host function, None when nothing launches.

    kernel, launches: as of `host_functions`.
    """
    tree = ast.parse(text)
    same = plain_decorators(tree)
    found: list[tuple[int, Found]] = []
    for node, inside in placed(tree.body):
        line = next((n.lineno for n in ast.walk(node) if launches(n)), 0)  # type: ignore[attr-defined]
        if not line or kernel(node):
            continue
        if isinstance(node, ast.FunctionDef):
            found.append(_function(node, line, same))
        elif isinstance(node, ast.AsyncFunctionDef):
            why = f"{node.name} launches in line {line}, but is async"
            found.append((2, (node.lineno, why, "write it as a plain function")))
        elif isinstance(node, ast.ClassDef):
            why = f"class {node.name} launches in line {line}, and whose objects they are the file does not say"
            found.append((1, (node.lineno, why, f"where it has a forward, --entry {node.name} judges it; or {_WRITE}")))  # fmt: skip
        else:
            script = any(map(is_script, (node, *inside)))
            where = 'under if __name__ == "__main__"' if script else "at module level"
            why = f"line {line} launches {where}, not in a function"
            found.append((4, (line, why, _WRITE)))
    return min(found, key=lambda one: one[0])[1] if found else None


def _function(node: ast.FunctionDef, line: int, same: set[int]) -> tuple[int, Found]:
    says = f"{node.name} launches in line {line}"
    if not is_plain(node, same) and not is_test(node.name):
        by = next(d for d in node.decorator_list if id(d) not in same)
        why = f"{says}, but is decorated with {shorten(ast.unparse(by), 80)} in line {by.lineno}, which may change what it computes"
        return 0, (node.lineno, why, f"--entry {node.name} judges it with its decorators")
    if not (node.args.args or node.args.posonlyargs or node.args.vararg):
        return 3, (node.lineno, f"{says}, but takes no tensors", _WRITE)
    if is_test(node.name):
        return 3, (node.lineno, f"{says}, but is named as a test", f"--entry {node.name} judges it")
    why = f"{says}, but is called by what it calls"
    return 3, (node.lineno, why, f"--entry {node.name} judges it")
