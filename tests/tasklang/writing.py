"""Logic files written for a test, and where their marked lines are."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from septran.errors import TaskLangError
from septran.tasklang.check import check_logic
from septran.tasklang.load import Logic, execute_logic

HEAD = """\
import septran.tasklang as task

@task.define(leaf=True)
def zero(C):
    task.call_primitive("fill", C, value=0.0)

@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm_acc", C, A, B)

@task.define(leaf=True)
def copy(Y, X):
    task.call_primitive("copy", Y, X)

@task.define(leaf=True)
def double(Y, X):
    task.call_primitive("map", Y, expr="x + x", x=X)
"""


def write(folder: Path, body: str, *, head: str = HEAD) -> Path:
    """Write a logic file: the usual leaves, then `body` (dedented)."""
    path = folder / "logic.py"
    path.write_text(head + "\n" + textwrap.dedent(body), encoding="utf-8")
    return path


def check(path: Path, **ranks: int) -> Logic:
    """Load the file and check task `entry` for tensor parameters of these ranks."""
    logic = execute_logic(path)
    if ranks:
        check_logic(logic.tasks["entry"], ranks)
    return logic


def marks(path: Path) -> list[tuple[str, int]]:
    """Return (code, line) of every `# error: CODE` in the file, in order."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found += [(code, number) for code in re.findall(r"# error: (\w+)", line)]
    return found


def places(error: TaskLangError, path: Path) -> list[tuple[str, int]]:
    """Return (code, line) of every diagnostic; each must be in `path`, at a column of the line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for d in error.diagnostics:
        assert d.span is not None, d
        assert Path(d.span.file) == path, d.span
        line = lines[d.span.line - 1]
        assert 1 <= d.span.col <= max(1, len(line)), (d.span, line)
        found.append((d.code, d.span.line))
    return found
