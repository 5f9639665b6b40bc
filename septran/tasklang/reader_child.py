"""The other side of `septran.tasklang.reader`: runs a user's file in a confined process and answers questions.

    python -I -m septran.tasklang.reader_child GO DONE LAST

GO, DONE: pipes for questions and answers. LAST: a pipe for Python's last words, when it crashes or computes
past its limit. Whatever the file prints goes to this process' stdout, which is nobody's.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import io
import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from septran.errors import Diagnostic, SeptranError, Span, TaskLangError
from septran.reference import Reference
from septran.tasklang.execute import OutOfTime, describe, execute, raised_at, time_limit
from septran.tasklang.tree import Task
from septran.tasklang.wire import Unreadable, pack

HEAD = struct.Struct("<QQ")
_WAITING = 6
_ON_TORCH = ("run", "call", "hold", "hold_in_place", "time")
_FORBIDDEN = ("os.kill", "os.killpg", "os.exec", "signal.pthread_kill")


class Session:
    """One file's objects, by the numbers that the parent knows them by."""

    def __init__(self) -> None:
        self.file = ""
        self.tasks: list[Task] = []
        self.functions: list[Any] = []
        self.told = (0, 0)
        self.slots: list[Callable[[int], float]] = []

    def number(self, value: Any) -> int:
        """Return the number of a task or a function."""
        known: list[Any] = self.tasks if isinstance(value, Task) else self.functions
        for i, each in enumerate(known):
            if each is value:
                return i
        known.append(value)
        return len(known) - 1

    def answer(self, root: Any) -> dict[str, Any]:
        """Return `root` as rows, with the tasks and functions that were not told before."""
        rows = pack(root, number=self.number)
        first, second = self.told
        tasks = []
        while first < len(self.tasks):
            task = self.tasks[first]
            body = {
                name: getattr(task, name)
                for name in ("name", "leaf", "params", "ranks", "variant_of", "reads", "writes")
            }
            body |= {"scalars": sorted(task.scalars), "reduces": task.reduces, "span": task.span}
            tasks.append(pack(body, number=self.number))
            first += 1
        functions = [self._place(fn) for fn in self.functions[second:]]
        self.told = (first, len(self.functions))
        return {"rows": rows, "tasks": tasks, "functions": functions}

    def _place(self, fn: Any) -> list[Any]:
        code = getattr(fn, "__code__", None)
        line = code.co_firstlineno if code is not None and code.co_filename == self.file else 1
        return [str(getattr(fn, "__name__", "function")), line]

    def load(self, asked: Mapping[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        """Run the file; answer its tasks and operators."""
        self.file = asked["shown"]
        found = execute(
            Path(asked["path"]), asked["text"], shown=self.file, limit_s=asked["limit_s"]
        )
        return self.answer({"tasks": found.tasks, "operators": found.operators}), b""

    def trace(self, asked: Mapping[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        """Trace one task."""
        from septran.tasklang.trace import trace

        task = self.tasks[asked["task"]]
        with time_limit(asked["limit_s"], waiting=_WAITING):
            return self.answer(trace(task, asked["ranks"])), b""

    def run(self, asked: Mapping[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """Run one task on tensors; answer all tensors, written or not."""
        from septran.tasklang.oracle import run_oracle
        from septran.tasklang.tensors import described, rebuilt

        held = rebuilt(asked["tensors"], payload)
        args = tuple(held[n] if n in held else asked["numbers"][n] for n in asked["order"])
        with time_limit(asked["limit_s"], waiting=_WAITING):
            run_oracle(self.tasks[asked["task"]], args, asked["tunables"])
        rows, raw = described(held)
        return {"tensors": rows}, raw

    def count(self, asked: Mapping[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        """Call a function of dims that gives a number."""
        with time_limit(asked["limit_s"], waiting=_WAITING):
            found = self.functions[asked["function"]](asked["dims"])
        if isinstance(found, bool) or not isinstance(found, int) or not 0 < found < 1 << 62:
            raise Wrong(f"gives {describe_value(found)}, not a number of terms")
        return {"value": found}, b""

    def call(self, asked: Mapping[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """Call a function on tensors and numbers; answer its tensors."""
        import torch

        from septran.tasklang.tensors import DTYPES, described

        given = self._given(asked, payload)
        torch.set_num_threads(asked["threads"])
        with torch.no_grad(), time_limit(asked["limit_s"], waiting=_WAITING):
            with torch.device(asked["device"]):
                found = self.functions[asked["function"]](**given)
            results = tuple(found) if isinstance(found, tuple | list) else (found,)
            for one in results:
                if not isinstance(one, torch.Tensor) or one.layout != torch.strided:
                    raise Wrong(f"gives {describe_value(one)}, not a tensor")
                if str(one.dtype).removeprefix("torch.") not in DTYPES:
                    raise Wrong(f"gives a tensor of {one.dtype}")
            rows, raw = described({str(i): one for i, one in enumerate(results)})
        return {"tensors": rows}, raw

    def hold(self, asked: Mapping[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """Make a stopwatch of a function on these tensors."""
        from septran.stopwatch import gpu_slot, rotating_slot

        fn, given = self.functions[asked["function"]], self._given(asked, payload)
        fn = Reference(fn=fn).settled().fn
        l2 = asked["gpu_l2"]
        if l2 is None:
            called, clock = [functools.partial(fn, **given)], asked["processor_time"]
            self.slots.append(rotating_slot(called, processor_time=clock))
        else:
            self.slots.append(gpu_slot(fn, given, l2))
        return {"slot": len(self.slots) - 1}, b""

    def hold_in_place(
        self, asked: Mapping[str, Any], payload: bytes
    ) -> tuple[dict[str, Any], bytes]:
        """Make a stopwatch of a function whose results replace arguments; slot None: torch cannot be seen doing it."""
        from septran.in_place import in_place, refills
        from septran.stopwatch import rotating_slot

        fn, given = self.functions[asked["function"]], self._given(asked, payload)
        replaced = {int(number): str(name) for number, name in asked["replaced"]}
        with time_limit(asked["limit_s"], waiting=_WAITING):
            call = in_place(Reference(fn=fn).settled().fn, given, replaced)
        if call is None:
            return {"slot": None}, b""
        refill, clock = refills([given], list(replaced.values())), asked["processor_time"]
        self.slots.append(rotating_slot([call], processor_time=clock, refill=refill))
        return {"slot": len(self.slots) - 1}, b""

    def time(self, asked: Mapping[str, Any], _: bytes) -> tuple[dict[str, Any], bytes]:
        """Use a stopwatch."""
        import torch

        torch.set_num_threads(asked["threads"])
        # thousands of calls that each print a line are no flood
        with contextlib.redirect_stdout(_Nowhere()), time_limit(asked["limit_s"], waiting=_WAITING):
            return {"seconds": self.slots[asked["slot"]](asked["count"])}, b""

    def _given(self, asked: Mapping[str, Any], payload: bytes) -> dict[str, Any]:
        from septran.tasklang.tensors import rebuilt

        device = asked.get("device", "cpu")
        held = rebuilt(asked["tensors"], payload)
        return {**{n: t.to(device) for n, t in held.items()}, **asked["numbers"]}


class _Nowhere(io.TextIOBase):
    """Takes text and drops it."""

    def write(self, text: str) -> int:
        return len(text)


class Wrong(Exception):
    """What a function of the file gave is not what it should give."""


def describe_value(value: Any) -> str:
    """Return "None" or "a list"."""
    return "None" if value is None else f"a {type(value).__name__}"


def failed(asked: Mapping[str, Any], session: Session, e: BaseException) -> list[dict[str, Any]]:
    """Return the diagnostics of an exception that a question of the parent met."""
    file = session.file or str(asked.get("shown", ""))
    what, line = asked["what"], asked["line"]
    inside = raised_at(e, file)
    place = inside if inside.line > 1 or not line else Span(file, line)
    if isinstance(e, SeptranError):
        found = e.diagnostics
    elif isinstance(e, OutOfTime):
        text = f"{what} did not finish within {asked['limit_s']:g} s"
        found = (Diagnostic(code="E150", message=text, span=place),)
    elif isinstance(e, Unreadable):
        found = (Diagnostic(code="E155", message=f"{what}: {e}", span=place),)
    elif isinstance(e, Wrong):
        found = (Diagnostic(code="E153", message=f"{what} {e}", span=Span(file, line or 1)),)
    else:
        code = "E153" if asked["do"] in ("call", "count", *_ON_TORCH[2:]) else "E151"
        found = (Diagnostic(code=code, message=f"{what} raised {describe(e)}", span=place),)
    return [{**d.to_json(), "width": d.span.width if d.span else 1} for d in found]


def read_exactly(fd: int, count: int) -> bytes:
    """Return `count` bytes; ends this process when the parent is gone."""
    found = bytearray()
    while len(found) < count:
        chunk = os.read(fd, min(count - len(found), 1 << 20))
        if not chunk:
            os.abort() if found else sys.exit(0)
        found += chunk
    return bytes(found)


def _refuse(event: str, _: Any) -> None:
    if event in _FORBIDDEN:
        raise PermissionError(f"{event} is not for logic files")


def _ended(status: int = 0) -> None:
    raise SystemExit(f"os._exit({status})")


def main(go: int, done: int, last: int) -> None:
    """Answer questions until the parent is gone."""
    faulthandler.enable(file=last)
    # told by the kernel and written without the interpreter's help, so that one endless call of C shows, too
    faulthandler.register(signal.SIGPROF, file=last, all_threads=True)
    sys.addaudithook(_refuse)
    os._exit = _ended  # type: ignore[assignment]  # an exception has a line
    session = Session()
    while True:
        size, extra = HEAD.unpack(read_exactly(go, HEAD.size))
        asked = json.loads(read_exactly(go, size))
        payload = read_exactly(go, extra)
        if asked["do"] in _ON_TORCH:
            import torch  # noqa: F401  # takes seconds that are not the file's
        faulthandler.dump_traceback_later(_WAITING * asked["limit_s"], file=last)
        signal.setitimer(signal.ITIMER_PROF, asked["hard_s"])
        try:
            answer, raw = getattr(session, asked["do"])(asked, payload)
        except BaseException as e:
            answer, raw = {"error": failed(asked, session, e)}, b""
        try:
            text = json.dumps(answer).encode()
        except (ValueError, RecursionError) as e:
            problem = TaskLangError.of("E155", f"{asked['what']}: {e}", Span(session.file, 1))
            text, raw = json.dumps({"error": failed(asked, session, problem)}).encode(), b""
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        for part in (HEAD.pack(len(text), len(raw)), text, raw):
            view = memoryview(part)
            while view:
                view = view[os.write(done, view) :]


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(*map(int, sys.argv[1:4]))
