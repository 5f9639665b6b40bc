"""Read a logic file: run it once, under a time limit, and collect its tasks and operators."""

from __future__ import annotations

import ast
import ctypes
import hashlib
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from septran.errors import SeptranError, Span, TaskLangError, closest
from septran.tasklang.api import registry
from septran.tasklang.operator import Operator, operator_problem, unknown_word
from septran.tasklang.tree import Task

LOAD_LIMIT_S = 10.0


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


class _OutOfTime(BaseException):
    pass


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `_OutOfTime` in this thread when the body computes for longer than `seconds`.

    The thread's own processor time counts, because a file that imports torch waits for its turn on a
    busy machine; a body that only waits is ended after ten times as long.
    """
    thread = threading.get_ident()
    clock = time.pthread_getcpuclockid(thread)
    computed, latest = time.clock_gettime(clock) + seconds, time.monotonic() + 10 * seconds
    done = threading.Event()

    def watch() -> None:
        while not done.wait(min(0.1, seconds / 4)):
            if time.clock_gettime(clock) > computed or time.monotonic() > latest:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(_OutOfTime)
                )
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def load_logic(path: Path, *, limit_s: float = LOAD_LIMIT_S) -> Logic:
    """Return the tasks of the logic file at `path`.

    Raises:
        TaskLangError: E128 file missing, E129 syntax error, E150 more than `limit_s` seconds of computing,
            E151 the file raised, E109 two tasks with one name, E152 an operator's data, and E1xx of decorators.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        siblings = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise TaskLangError.of(
            "E128", f"logic file {path} does not exist{closest(path.name, siblings)}"
        ) from None
    except (OSError, UnicodeDecodeError) as e:
        raise TaskLangError.of("E128", f"logic file {path} cannot be read: {e}") from None
    try:
        code = compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as e:
        raise TaskLangError.of(
            "E129", f"{e.msg}", Span(str(path), e.lineno or 1, e.offset or 1)
        ) from None
    found: list[Task] = []
    module = ModuleType(f"septran_logic_{hashlib.sha256(text.encode()).hexdigest()[:8]}")
    module.__file__ = str(path)
    token = registry.set(found)
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        with time_limit(limit_s):
            exec(code, module.__dict__)
    except _OutOfTime:
        raise TaskLangError.of(
            "E150",
            f"the logic file did not finish within {limit_s:g} s",
            Span(str(path), 1),
            help="a logic file only defines tasks; move work out of it",
        ) from None
    except SeptranError:
        raise
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == str(path)]
        raise TaskLangError.of(
            "E151",
            f"the logic file raised {type(e).__name__}: {e}",
            Span(str(path), (lines[-1] if lines else 1) or 1),
        ) from e
    finally:
        registry.reset(token)
        if folder in sys.path:
            sys.path.remove(folder)
    return Logic(
        path=str(path),
        sha=hashlib.sha256(text.encode()).hexdigest()[:16],
        tasks=_by_name(found, module),
        operators=_operators(module, str(path), text),
    )


def _operators(module: ModuleType, file: str, text: str) -> dict[str, Operator]:
    found = {}
    for value in _values(module):
        if not isinstance(value, Operator):
            continue
        problem = operator_problem(value)
        place = value.entry.span if isinstance(value.entry, Task) else None
        if not problem:
            problem, keywords = unknown_word(value)
            place = _written(text, file, value.name, keywords) or place
        if problem:
            raise TaskLangError.of(
                "E152", f"operator {value.name!r}: {problem}", place or Span(file, 1)
            )
        found[value.name] = value
    return found


def _written(text: str, file: str, operator: str, keywords: tuple[str, ...]) -> Span | None:
    """Return where `Operator(name=operator, keyword=Call(keyword=...))` says it, as deep as it can be followed."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and _is(_parts(node).get("name"), operator):
            found: ast.expr = node
            for word in keywords:
                found = _parts(found).get(word, found)
            return Span(file, found.lineno, found.col_offset + 1)
    return None


def _parts(node: ast.expr) -> dict[str, ast.expr]:
    if isinstance(node, ast.Call):
        return {k.arg: k.value for k in node.keywords if k.arg}
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(k.value): v for k, v in pairs if isinstance(k, ast.Constant)}
    return {}


def _is(node: ast.expr | None, value: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _values(module: ModuleType) -> Iterator[object]:
    for value in list(vars(module).values()):
        if isinstance(value, tuple | list):
            yield from value
        else:
            yield value


def _by_name(defined: list[Task], module: ModuleType) -> dict[str, Task]:
    tasks: dict[str, Task] = {}
    for task in [*defined, *(v for v in vars(module).values() if isinstance(v, Task))]:
        other = tasks.get(task.name)
        if other is not None and other is not task:
            raise TaskLangError.of(
                "E109",
                f"two tasks are named {task.name!r}",
                task.span,
                notes=(f"the other one is at {other.span}",),
                help="rename one; mappings refer to tasks by name",
            )
        tasks[task.name] = task
    return tasks


def loading() -> bool:
    """Return whether a logic file is being read right now."""
    return registry.get() is not None
