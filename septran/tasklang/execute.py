"""Run a logic file in this process, under a time limit, and collect its tasks and operators.

Only for files that are trusted (the operators that ship with SepTran) and for the confined child that
reads everybody else's (`septran.tasklang.reader_child`).
"""

from __future__ import annotations

import ast
import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from septran.errors import SeptranError, Span, TaskLangError
from septran.tasklang.api import registry
from septran.tasklang.operator import Operator, operator_problem, unknown_word
from septran.tasklang.tree import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a file defines, by name."""

    tasks: dict[str, Task]
    operators: dict[str, Operator]


class OutOfTime(BaseException):
    """Not an Exception: a body that swallows exceptions ends all the same."""


@contextmanager
def time_limit(seconds: float, *, waiting: float = 10) -> Iterator[None]:
    """Raise `OutOfTime` in this thread when the body computes for longer than `seconds`.

    The thread's own processor time counts, because a file that imports torch waits for its turn on a
    busy machine; a body that only waits is ended after `waiting` times as long.
    """
    thread = threading.get_ident()
    clock = time.pthread_getcpuclockid(thread)
    computed, latest = time.clock_gettime(clock) + seconds, time.monotonic() + waiting * seconds
    done = threading.Event()

    def watch() -> None:
        while not done.wait(min(0.1, seconds / 4)):
            if time.clock_gettime(clock) > computed or time.monotonic() > latest:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(OutOfTime)
                )
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def execute(path: Path, text: str, *, shown: str = "", limit_s: float) -> Found:
    """Run the logic file `path`, whose content is `text`, and return what it defines.

    shown: the path as the user wrote it, which errors name.

    Raises:
        TaskLangError: E129 syntax error, E150 more than `limit_s` seconds of computing, E151 the file
            raised, E109 two tasks or operators with one name, E152 an operator's data, E1xx of decorators.
    """
    defined: list[Task] = []
    token = registry.set(defined)
    try:
        module = run_file(path, text, shown=shown, limit_s=limit_s)
    finally:
        registry.reset(token)
    return Found(
        tasks=_by_name(defined, module), operators=_operators(module, shown or str(path), text)
    )


def run_file(path: Path, text: str, *, shown: str = "", limit_s: float) -> ModuleType:
    """Execute `text` as a module whose folder is importable; raises TaskLangError E129, E150, E151."""
    file = shown or str(path)
    try:
        code = compile(text, file, "exec", dont_inherit=True)
    except SyntaxError as e:
        raise TaskLangError.of(
            "E129", f"{e.msg}", Span(file, e.lineno or 1, e.offset or 1)
        ) from None
    except (ValueError, RecursionError, MemoryError) as e:  # a NUL byte, a bomb of parentheses
        why = str(e) or type(e).__name__
        raise TaskLangError.of("E129", f"Python cannot read it: {why}", Span(file, 1)) from None
    module = ModuleType("septran_logic")
    module.__file__ = str(path)
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        with time_limit(limit_s):
            exec(code, module.__dict__)
    except OutOfTime as e:
        raise TaskLangError.of(
            "E150",
            f"the logic file did not finish within {limit_s:g} s",
            raised_at(e, file),
            help="a logic file only defines tasks; move work out of it",
        ) from None
    except SeptranError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        raise TaskLangError.of(
            "E151",
            f"the logic file raised {describe(e)}",
            raised_at(e, file),
        ) from e
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return module


def describe(e: BaseException) -> str:
    """Return "Type: message" of an exception, whatever its `__str__` does; long ones are cut."""
    try:
        text = str(e)
    except BaseException:
        text = "(its message cannot be shown)"
    return f"{type(e).__name__}: {text[:2000]}"


def raised_at(e: BaseException, file: str) -> Span:
    """Return the last line of `file` that `e` passed through, line 1 when there is none."""
    lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == file]
    return Span(file, (lines[-1] if lines else 1) or 1)


def _operators(module: ModuleType, file: str, text: str) -> dict[str, Operator]:
    found: dict[str, Operator] = {}
    for value in _values(module):
        if not isinstance(value, Operator):
            continue
        keywords: tuple[str, ...] | None = None
        try:
            problem = operator_problem(value)
            if not problem:
                problem, keywords = unknown_word(value)
        except Exception as e:
            problem = describe(e)
        if not problem and found.get(value.name, value) is not value:
            problem = "another operator of this file has the same name"
        if problem:
            place = value.entry.span if isinstance(value.entry, Task) else None
            if keywords is not None:
                place = _written(text, file, value.name, keywords) or place
            name = str(value.name)[:80]
            raise TaskLangError.of("E152", f"operator {name!r}: {problem}", place or Span(file, 1))
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
