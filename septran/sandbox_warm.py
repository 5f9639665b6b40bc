"""A Python that has imported what children need, and becomes one of them each time it is asked. Run as a script only.

    python -I sandbox_warm.py FD ENDS '["torch", "package.module:function_that_remembers", ...]'

FD: a sequenced-packet socket. Each message on it is a request for a child: JSON, and the descriptors it is to have: of the
launcher's report, of its output, and the caller's own. ENDS: a pipe; a line
"pid status seconds" for each child that ended, the last of the processor.

Nothing that is asked for is read here: a fork reads it. So this process holds the modules and nothing of any kernel, one
child can find nothing of another, and what each may do is decided after the fork by the same steps as for a child that is
started afresh. It ends when the socket is closed, or when nobody asked for a while.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

IDLE_S = 60.0
_MOST_BYTES, _MOST_FDS = 1 << 17, 64
"""of a request; who asks stays below"""


def main() -> None:
    """Import, say so, and serve until nobody is left; in a child, run what was asked for."""
    asked, ends = int(sys.argv[1]), int(sys.argv[2])
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    later = []
    for name in json.loads(sys.argv[3]):
        module, _, function = name.partition(":")
        found = importlib.import_module(module)
        if function and hasattr(found, function):  # another version of the package may not have it
            later.append(getattr(found, function))
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=asked)
    if _shares_memory():
        return
    os.close(os.pidfd_open(os.getpid()))  # or it ends here, and children are started afresh
    control.send(b"ready")
    launcher = _launcher()
    got = _serve(control, ends, launcher, later)
    if got is not None:
        _become(launcher, *got)


def _shares_memory() -> bool:
    """Return whether a child could write what this process and the next child read."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    return any({"w", "s"} <= set(line.split()[1]) for line in lines)


def _serve(
    control: socket.socket, ends: int, launcher: Any, later: list[Callable[[], None]]
) -> tuple[dict[str, Any], list[int]] | None:
    """Fork a child for each request and report each end; returns in the children, and at the end of all.

    later: called before the second child.
    """
    children: dict[int, int] = {}
    forked = False
    with selectors.DefaultSelector() as waiting:
        waiting.register(control, selectors.EVENT_READ)
        while True:
            ready = waiting.select(None if children else IDLE_S)
            if not ready:
                return None
            for key, _ in ready:
                if key.fd in children:
                    waiting.unregister(key.fd)
                    _report(children.pop(key.fd), ends)
                    os.close(key.fd)
                    continue
                if forked and later and not _ready(later):
                    return None
                forked = True
                read, written = os.pipe()
                own = os.getpid()
                pid = os.fork()
                if not pid:
                    launcher.die_with_parent()
                    if os.getppid() != own:
                        os._exit(0)
                    os.close(read)
                    return _request(control, written)
                os.close(written)
                closed = os.read(read, 1) == b""  # the child has taken its request off the socket
                os.close(read)
                if closed:
                    os.waitpid(pid, 0)
                    return None
                there = os.pidfd_open(pid)
                children[there] = pid
                waiting.register(there, selectors.EVENT_READ)


def _ready(later: list[Callable[[], None]]) -> bool:
    """Call what remembers something for all children that come; return whether they still share nothing."""
    while later:
        later.pop()()
    gc.collect()
    gc.freeze()
    return not _shares_memory()


def _report(pid: int, ends: int) -> None:
    """End what the child left behind, before its number can be another's, and say how it ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    seconds = used.ru_utime + used.ru_stime
    os.write(ends, f"{pid} {os.waitstatus_to_exitcode(status)} {seconds:.6f}\n".encode())


def _request(control: socket.socket, taken: int) -> tuple[dict[str, Any], list[int]]:
    """In the child: take the request, answer with the own number, leave what is the server's."""
    os.setsid()
    data, fds, _, _ = socket.recv_fds(control, _MOST_BYTES, _MOST_FDS)
    if not data:
        os._exit(0)
    os.write(taken, b"y")
    control.send(str(os.getpid()).encode())
    control.detach()  # its number will be another's
    return json.loads(data), fds


def _become(launcher: Any, config: dict[str, Any], fds: list[int]) -> None:
    """Be the command of `config` as if it had been started: its descriptors, folder, environment, bounds and arguments."""
    _take(fds, (config["report_fd"], 1, *config["pass_fds"]))
    os.chdir(config["cwd"])
    status_fd = launcher.confine(config)
    for fd in (config["report_fd"], status_fd):
        if fd >= 0:
            os.close(fd)
    os.environ.clear()
    os.environ.update(config["env"])
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None  # type: ignore[attr-defined]
    # the command is: python [flags] script arguments...
    words = config["command"][1:]
    script = next(place for place, word in enumerate(words) if not word.startswith("-"))
    flags, words = words[:script], words[script:]
    sys.argv[:] = words
    if "-I" not in flags:
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
    _end(_run(words[0]))


def _run(script: str) -> int:
    """Run the script as `__main__`; return its exit status."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != script:
            trace = trace.tb_next  # a reader looks for the script's lines, not for these
        traceback.print_exception(type(error), error, trace)
        return 1
    return 0


def _end(status: int) -> None:
    """End as an interpreter does, but for taking all modules apart, which would copy their pages first (0.17 s)."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)


def _take(fds: list[int], wanted: tuple[int, ...]) -> None:
    """Have each of `fds` under its wanted number, output as 1 and 2, nothing as 0, and no other descriptor."""
    import fcntl

    above = max(*wanted, *fds, 2) + 1
    held = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in fds]
    os.closerange(0, above)
    os.open("/dev/null", os.O_RDONLY)  # the lowest free number: 0
    for fd, number in zip(held, wanted, strict=True):
        os.dup2(fd, number, inheritable=True)
    os.dup2(1, 2)
    kept = {0, 1, 2, *wanted}
    # all of them, wherever they lie: the server's own are numbered as in the process that started it
    for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if fd not in kept:
            with contextlib.suppress(OSError):
                os.close(fd)


def _launcher() -> Any:
    place = Path(__file__).with_name("sandbox_launcher.py")
    spec = importlib.util.spec_from_file_location("septran_sandbox_launcher", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
