"""Where a reference's file says its inputs, its results and its module's weights."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Literal

from septran.errors import Span

Part = Literal["inputs", "results", "weights"]
_NAMES: dict[Part, tuple[str, ...]] = {
    "inputs": ("get_inputs",),
    "results": ("reference", "Model.forward"),
    "weights": ("Model.__init__", "Model"),
}


def span_of(path: Path, part: Part) -> Span:
    """Return the line of the function that decides a part of the reference; the first line where the file has none of its own."""
    lines: dict[str, int] = {}
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return Span(str(path), 1)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        lines[node.name] = node.lineno  # the last one counts, as in Python
        if isinstance(node, ast.ClassDef):
            inner = (n for n in node.body if isinstance(n, ast.FunctionDef))
            lines.update({f"{node.name}.{n.name}": n.lineno for n in inner})
    return Span(str(path), next((lines[n] for n in _NAMES[part] if n in lines), 1))
