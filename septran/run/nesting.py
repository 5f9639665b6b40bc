"""Python files that nest so deep that reading them would be the end of what reads them."""

from __future__ import annotations

import ast
from pathlib import Path

from septran.errors import ConfigError, Span

DEEPEST = 200


def check_nesting(file: Path, text: str, code: str) -> None:
    """Raise ConfigError `code` where a Python text nests deeper than anybody writes. One that does not parse passes: its own error says more."""
    try:
        level: list[ast.AST] = [ast.parse(text)]
    except (RecursionError, MemoryError):
        raise _too_deep(file, 1, code) from None
    except (SyntaxError, ValueError):
        return
    for _ in range(DEEPEST):
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
    if level:
        line = min(getattr(node, "lineno", 1) for node in level)
        raise _too_deep(file, line, code)


def _too_deep(file: Path, line: int, code: str) -> ConfigError:
    return ConfigError.of(
        code,
        f"{file}: it nests deeper than {DEEPEST} levels",
        Span(str(file), line),
        help="give parts of the expression names",
    )
