"""What a judged Python file was not given: states of tensors that it refused, and addresses that it computes with."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from septran.document import plain_text
from septran.verify.verdict import Verdict

_MOST_BYTES = 1 << 16
_ADDRESS = "data_ptr"


def with_states(verdict: Verdict, run_dir: Path, text: str) -> Verdict:
    """Return the verdict, which says what of other than plain tensors the file raised, and what it makes of addresses.

    text: the file, as far as its host function needs it.
    """
    told = [f"inputs that are {words}: it raises {why}" for words, why in _refused(run_dir)]
    if lines := _addresses(text):
        told.append(f"what its host function makes of addresses (line {', '.join(lines[:6])})")
    return verdict.without(*told)


def _refused(run_dir: Path) -> list[tuple[str, str]]:
    path = run_dir / "child" / "states.json"
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            return []
        found = json.loads(plain_text(path))
        return [(str(words)[:80], str(why)[:200]) for words, why in found.items()][:8]
    except (FileNotFoundError, ValueError, AttributeError):
        return []


def _addresses(text: str) -> list[str]:
    """Return the lines of Python that compute with what `data_ptr()` returned; one that is handed on as it is does not count."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    return list(dict.fromkeys(str(line) for line in _computed(tree)))


def _computed(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            asks = isinstance(child, ast.Attribute) and child.attr == _ADDRESS
            asks |= isinstance(child, ast.Call) and _asks(child.func)
            handed = isinstance(node, ast.Call) and child is not node.func
            if asks and not handed and not isinstance(node, ast.Call):
                yield node.lineno if hasattr(node, "lineno") else 0


def _asks(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == _ADDRESS
