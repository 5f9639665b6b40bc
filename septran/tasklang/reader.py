"""A user's file in a confined child: what it defines comes back as data, what it does stays there.

    found = Reader(path).load(text)        # tasks and operators, whose bodies and references are stand-ins

The child has no network, sees the file's folder and Python, writes nowhere of interest, and has limits on time,
memory and output. A child that dies or is late is the file's mistake: TaskLangError with the line.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import struct
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran import gpu
from septran.errors import Diagnostic, Span, TaskLangError
from septran.sandbox import MIB, Confined, Limits
from septran.tasklang.execute import Found
from septran.tasklang.operator import Operator
from septran.tasklang.remote import LOAD_LIMIT_S, Body, Function, limit
from septran.tasklang.tree import Task
from septran.tasklang.wire import Unreadable, fits, unpack

# the child watches itself and knows the line; only one that cannot speak any more is given up here
_WALL, _START_S = 8, 60.0
_HEAD = struct.Struct("<QQ")
_MAX_TEXT = 64 * MIB
# other names of the language, beside the package in a checkout
_SPELLINGS = tuple(
    Path(__file__).resolve().parents[2] / name for name in ("task_lang.py", "tasklang.py")
)


class Reader:
    """The child of one file. Its stand-ins keep it alive; it ends with the last of them."""

    def __init__(self, path: Path, *, limit_s: float | None = None) -> None:
        self._path = path.resolve()
        self._file = str(path)
        self._limit_s = limit(LOAD_LIMIT_S) if limit_s is None else limit_s
        self._tasks: list[Task] = []
        self._functions: list[Function] = []
        self._lock = threading.RLock()
        folder = Path(tempfile.mkdtemp(prefix="septran-reader-"))
        go_read, self._go = os.pipe()
        self._done, done_write = os.pipe()
        self._last, last_write = os.pipe()
        theirs = (go_read, done_write, last_write)
        nodes = gpu.nodes("nvidia")
        try:
            self._child = Confined(
                [sys.executable, "-I", "-m", "septran.tasklang.reader_child", *map(str, theirs)],
                rw_dir=folder,
                ro_paths=(self._path.parent, *_SPELLINGS, *((Path("/sys"),) if nodes else ())),
                rw_paths=nodes,
                limits=Limits(
                    timeout_s=float("inf"),
                    cpu_s=30 * 86400,
                    memory_bytes=_memory(),
                    output_cap=4096,
                    file_bytes=64 * MIB,
                    forks=False,
                    address_space=not nodes,
                ),
                env={"OMP_WAIT_POLICY": "passive", **dict(gpu.environment())},
                pass_fds=theirs,
            )
        finally:
            for fd in theirs:
                os.close(fd)
        os.set_blocking(self._go, False)
        ours = (self._go, self._done, self._last)
        self.close = weakref.finalize(self, _end, self._child, ours, folder)

    def load(self, text: str) -> Found:
        """Return the tasks and operators of the file's `text`.

        Raises:
            TaskLangError: as `septran.tasklang.load.load_logic`.
        """
        answer, _ = self.ask(
            "load",
            "the logic file",
            1,
            limit_s=self._limit_s,
            path=str(self._path),
            shown=self._file,
            text=text,
        )
        found = self.understood(answer)
        match found:
            case {"tasks": dict(tasks), "operators": dict(operators)} if fits(
                tasks, Mapping[str, Task]
            ) and fits(operators, Mapping[str, Operator]):
                return Found(tasks=tasks, operators={n: _named(o) for n, o in operators.items()})
        raise self.garbled("what it defines")

    def ask(
        self,
        do: str,
        what: str,
        line: int,
        *,
        limit_s: float,
        payload: bytes = b"",
        threads: int = 1,
        **asked: Any,
    ) -> tuple[dict[str, Any], bytes]:
        """Return the child's answer and its bytes.

        what, line: what is blamed, and where, when no line of the file can be named.

        Raises:
            TaskLangError: E150 late, E154 the child died; else what the child says.
        """
        body = {"do": do, "what": what, "line": line, "limit_s": limit_s, "threads": threads}
        # the soft limit is one thread's; it gets a second to speak before the hard one, which is everybody's
        body |= {"hard_s": (limit_s + 1) * threads, **asked}
        text = json.dumps(body).encode()
        with self._lock:
            try:
                deadline = time.monotonic() + _WALL * limit_s + _START_S
                self._send(_HEAD.pack(len(text), len(payload)) + text, deadline)
                self._send(payload, deadline)
                head = self._receive(_HEAD.size, deadline)
                size, extra = _HEAD.unpack(head)
                if size > _MAX_TEXT:
                    raise _Gone("")
                answer = json.loads(self._receive(size, deadline))
                raw = self._receive(extra, deadline)
            except _Gone as gone:
                raise self._died(gone, what, line, limit_s) from None
            except (ValueError, RecursionError):
                raise self.garbled(what) from None
            except KeyboardInterrupt:
                self._child.kill("interrupted")
                raise
        if not isinstance(answer, dict):
            raise self.garbled(what)
        if "error" in answer:
            raise TaskLangError(self._diagnostics(answer["error"], what))
        return answer, raw

    def understood(self, answer: Mapping[str, Any]) -> Any:
        """Return the value of an answer's rows; new tasks and functions become stand-ins."""
        try:
            for place in answer["functions"]:
                match place:
                    case [str(name), int(line)]:
                        number = len(self._functions)
                        self._functions.append(Function(self, number, name, Span(self._file, line)))
                    case _:
                        raise Unreadable("a function")
            for rows in answer["tasks"]:
                self._tasks.append(self._task(rows))
            return self._value(answer["rows"])
        except Unreadable as e:
            raise self.garbled(str(e)) from None
        except (KeyError, IndexError, TypeError):
            raise self.garbled("its form") from None

    def _value(self, rows: Any) -> Any:
        return unpack(rows, task=self._tasks.__getitem__, function=self._functions.__getitem__)

    def _task(self, rows: Any) -> Task:
        found = self._value(rows)
        words = tuple[str, ...]
        wanted = {
            "name": str,
            "leaf": bool,
            "scalars": words,
            "params": words,
            "ranks": Mapping[str, int],
            "variant_of": str | None,
            "reads": words | None,
            "writes": words | None,
            "reduces": words,
            "span": Span | None,
        }
        if not isinstance(found, dict) or found.keys() != wanted.keys():
            raise Unreadable("a task")
        wrong = [name for name, hint in wanted.items() if not fits(found[name], hint)]
        if wrong:
            raise Unreadable(f"a task's {', '.join(wrong)}")
        body = Body(self, len(self._tasks), found["name"])
        body.task = Task(**{**found, "fn": body, "scalars": frozenset(found["scalars"])})
        return body.task

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            _, ready, _ = select.select([], [self._go], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise _Gone("late")
            try:
                view = view[os.write(self._go, view) :]
            except OSError:
                raise _Gone("") from None

    def _receive(self, count: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < count:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._done, self._last], [], [], left)
            if self._last in ready and (words := os.read(self._last, 65536)):
                time.sleep(0.05)  # the rest of the traceback
                with contextlib.suppress(BlockingIOError):
                    os.set_blocking(self._last, False)
                    words += os.read(self._last, 65536)
                raise _Gone(words.decode("utf-8", "replace"))
            if not ready:
                raise _Gone("late")
            if self._done in ready or self._last in ready:
                chunk = os.read(self._done, min(count - len(found), MIB))
                if not chunk:
                    raise _Gone("")
                found += chunk
        return bytes(found)

    def _died(self, gone: _Gone, what: str, line: int, limit_s: float) -> TaskLangError:
        words = str(gone)
        fatal = re.search(r"Fatal Python error: (.*)", words)
        late = words and not fatal
        self._child.kill("late" if late else "gone")
        result = self._child.wait()
        lines = re.findall(rf'File "{re.escape(self._file)}", line (\d+)', words)
        span = Span(self._file, int(lines[0]) if lines else line)
        printed = result.stdout_tail.strip()[-300:]
        notes = (f"the last it printed: {printed}",) if printed else ()
        if late:
            return TaskLangError.of(
                "E150", f"{what} did not finish within {limit_s:g} s", span, notes=notes
            )
        how = {
            "memory": "it took more memory than it may",
            "output": "it printed without end",
        }.get(result.why)
        if how is None and fatal:
            how = fatal[1].lower()
        if how is None and result.broken:
            how = f"the child did not start: {result.broken}"
        how = how or f"its process ended (status {result.rc})"
        return TaskLangError.of("E154", f"{what} ended early: {how}", span, notes=notes)

    def garbled(self, what: str) -> TaskLangError:
        """Return the error E155."""
        return TaskLangError.of(
            "E155",
            f"{what} cannot be read as the data of a logic",
            Span(self._file, 1),
            help="keep to what docs/tasklang.md describes",
        )

    def _diagnostics(self, found: Any, what: str) -> list[Diagnostic]:
        made = []
        for each in found if isinstance(found, list) else ():
            match each:
                case {"code": str(code), "message": str(message), "help": str(help)} if (
                    re.fullmatch("[A-Z][0-9]{3}", code)
                ):
                    place = (each.get("file"), each.get("line"), each.get("col"), each.get("width"))
                    match place:
                        case str(file), int(line), int(col), int(width):
                            span: Span | None = Span(file, line, col, min(width, 200))
                        case _:
                            span = None
                    notes = tuple(str(n) for n in each.get("notes") or ())
                    made.append(
                        Diagnostic(code=code, message=message, span=span, notes=notes, help=help)
                    )
        return made or list(self.garbled(what).diagnostics)


class _Gone(Exception):
    """The child's last words; "late" when it is silent, "" when it ended without a word."""


def _named(operator: Operator) -> Operator:
    """Return `operator` with functions that errors can name."""

    def named(fn: Any, role: str) -> Any:
        about = f"the {role} of operator {operator.name!r}"
        return replace(fn, about=about) if isinstance(fn, Function) else fn

    r = operator.reference
    fn, magnitude = named(r.fn, "reference"), named(r.magnitude, "magnitude")
    judged = replace(r, fn=fn, magnitude=magnitude, reduction=named(r.reduction, "reduction"))
    return replace(operator, reference=judged)


def _memory() -> int:
    """Half of the machine's memory, and at least 4 GiB: references in float64 are large."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(4096 * MIB, total // 2)


def _end(child: Confined, fds: tuple[int, ...], folder: Path) -> None:
    child.kill("")
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
    with contextlib.suppress(RuntimeError):  # collected in one of the child's own threads
        child.wait()
    shutil.rmtree(folder, ignore_errors=True)
