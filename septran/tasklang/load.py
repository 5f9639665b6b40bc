"""Read a logic file: its tasks and operators, however they are defined there.

What ships with SepTran runs here; every other file runs in a confined child (`septran.tasklang.reader`),
and only data come back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from septran.errors import TaskLangError, closest
from septran.tasklang.execute import execute, loading
from septran.tasklang.operator import Operator
from septran.tasklang.reader import Reader
from septran.tasklang.remote import LOAD_LIMIT_S
from septran.tasklang.tree import Task

__all__ = ["Logic", "load_logic", "loading", "read_text"]

SHIPPED = Path(__file__).resolve().parent.parent / "ops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic:
    """The tasks of one file. sha: content hash of the text."""

    path: str
    sha: str
    tasks: dict[str, Task]
    operators: dict[str, Operator]

    def task(self, name: str) -> Task:
        """Return task `name`; raises TaskLangError E127 with the nearest name."""
        if name in self.tasks:
            return self.tasks[name]
        raise TaskLangError.of(
            "E127",
            f"{self.path} defines no task {name!r}; known: {sorted(self.tasks)}"
            f"{closest(name, self.tasks)}",
        )


def load_logic(path: Path, *, limit_s: float | None = None) -> Logic:
    """Return the tasks of the logic file at `path`; their bodies and references stay in a child.

    limit_s: processor seconds the file may take; default LOAD_LIMIT_S.

    Raises:
        TaskLangError: E128 file missing, E129 syntax error, E150 more than `limit_s` seconds of computing,
            E151 the file raised, E154 it ended its process, E109 two tasks with one name, E152 an
            operator's data, and E1xx of decorators.
    """
    text = read_text(path)
    if path.resolve().parent == SHIPPED:
        return execute_logic(path, limit_s=limit_s)
    found = Reader(path, limit_s=limit_s).load(text)
    return _logic(path, text, found.tasks, found.operators)


def execute_logic(path: Path, *, limit_s: float | None = None) -> Logic:
    """Do as `load_logic`, with the file run in this process: only for files that are trusted."""
    text = read_text(path)
    found = execute(path, text, limit_s=LOAD_LIMIT_S if limit_s is None else limit_s)
    return _logic(path, text, found.tasks, found.operators)


def _logic(path: Path, text: str, tasks: dict[str, Task], operators: dict[str, Operator]) -> Logic:
    sha = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Logic(path=str(path), sha=sha, tasks=tasks, operators=operators)


def read_text(path: Path) -> str:
    """Return the text of a user's Python file; raises TaskLangError E128."""
    try:
        if path.exists() and not path.is_file():
            raise TaskLangError.of("E128", f"logic file {path} cannot be read: it is no file")
        return path.read_text(
            encoding="utf-8-sig"
        )  # some editors begin with a mark of the encoding
    except FileNotFoundError:
        siblings = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise TaskLangError.of(
            "E128", f"logic file {path} does not exist{closest(path.name, siblings)}"
        ) from None
    except (OSError, ValueError) as e:
        raise TaskLangError.of("E128", f"logic file {path} cannot be read: {e}") from None
