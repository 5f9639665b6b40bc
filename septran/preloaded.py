"""Children that start from a Python which has imported what they need: a fork instead of one to two seconds of imports.

    process = start(Preload(("torch",)), config, report=4, pass_fds=(5, 6))      # None: start it afresh

One such Python for each `Preload` runs `septran/sandbox_warm.py`; it is started with the first child that asks for it, holds no data of
any child, and ends after a minute without a child or with this process. A child confines itself after the
fork by the launcher's own steps. Where anything of this does not work, children are started afresh, as they are elsewhere.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WARM = Path(__file__).with_name("sandbox_warm.py")
_START_S, _ANSWER_S = 60.0, 60.0
_MOST_BYTES, _MOST_FDS = 1 << 16, 32
_MOST = 3
"""Pythons kept at a time, of 0.2 to 0.4 GB each; the one that was longest without a request goes first"""
_ROOM_BYTES = 2 << 30
"""of memory that is free before one more is started: a batch has some for each of its workers"""


@dataclass(frozen=True, slots=True)
class Preload:
    """What is imported before the fork: names of modules, and the environment that they read while they are imported.

    `module:function`: called, too, when there is such a function; one that remembers what it computed. That is before the second child:
    many a command has only one, and many of these fail before they need it.
    """

    modules: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()


_ENDED = re.compile(r"(\d+) (-?\d+) (\d+\.\d+)\n")


class Forked:
    """A child of a preloaded Python, with what `subprocess.Popen` offers and a sandbox needs.

    lost: its server ended before it said how the child did, which is no fault of the child's.
    """

    def __init__(self, pid: int, server: _Server, output: int) -> None:
        self.pid = pid
        self.stdout = os.fdopen(output, "rb")
        self.shared_pages = server.pages
        self._server = server
        self.status: int | None = None
        self.lost = False

    def poll(self) -> int | None:
        """Return its exit status as `Popen.poll` does, None while it runs."""
        return self._server.status(self, wait=False)

    def wait(self) -> int:
        """Return its exit status, once it has one."""
        status = self._server.status(self, wait=True)
        assert status is not None
        return status

    def kill(self) -> None:
        """End it."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class _Server:
    """One preloaded Python and the ends of its children."""

    def __init__(self, preload: Preload) -> None:
        self._lock = threading.Lock()
        self._change = threading.Condition()
        self._running: set[int] = set()
        self._ended: dict[int, int] = {}
        self._gone = False
        self.usable = False
        self.pages = 0
        self._home = tempfile.mkdtemp(prefix="septran-preloaded-")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ends, ends_write = os.pipe()
        words = (str(theirs.fileno()), str(ends_write), json.dumps(preload.modules))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_WARM), *words],
                cwd=self._home,
                env=_environment(self._home, preload),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), ends_write),
                start_new_session=True,
            )
        except OSError:
            self._control.close()
            os.close(ends)
            shutil.rmtree(self._home, ignore_errors=True)
            raise
        finally:
            theirs.close()
            os.close(ends_write)
        threading.Thread(target=self._listen, args=(ends,), daemon=True).start()
        self.awaited = False

    def await_ready(self) -> None:
        """Wait until it has imported all, or failed."""
        with self._lock:
            if self.awaited or self._gone:
                self.awaited = True
                return
            self.awaited = True
            self.usable = self._heard(_START_S) == b"ready"
            if not self.usable:
                self.close()

    def start(self, config: Mapping[str, Any], fds: Sequence[int]) -> int | None:
        """Return the number of a new child, None when there is none."""
        data = json.dumps(config).encode()
        if len(data) > _MOST_BYTES or len(fds) > _MOST_FDS:
            return None
        with self._lock:
            if not self.usable or self._gone:
                return None
            try:
                socket.send_fds(self._control, [data], list(fds))
                answer = self._heard(_ANSWER_S)
            except OSError:
                answer = b""
            if not answer.isdigit():
                self.close()  # or a child that comes late would run beside the one that is started in its place
                return None
            with self._change:
                if int(answer) not in self._ended:
                    self._running.add(int(answer))
            self.pages = _anonymous_pages(self._process.pid)
            return int(answer)

    def status(self, child: Forked, *, wait: bool) -> int | None:
        """Return how a child ended; -9 when the server is gone, because its children end with it."""
        with self._change:
            while True:
                if child.status is None:
                    # taken out: the number may be another child's one day
                    child.status = self._ended.pop(child.pid, None)
                if child.status is None and self._gone:
                    child.status, child.lost = -signal.SIGKILL, True
                if child.status is not None or not wait:
                    return child.status
                self._change.wait()

    @property
    def gone(self) -> bool:
        """Whether no child can be had of it any more."""
        return self._gone or not self.usable

    def retire(self) -> None:
        """Take no more requests; it ends with its last child."""
        with self._lock:
            self.usable = False
            if not self._running:
                self.close()

    def close(self) -> None:
        """End it, and with it the children that still run."""
        self.usable = False
        self._control.close()
        self._process.kill()

    def _heard(self, seconds: float) -> bytes:
        if not select.select([self._control], [], [], seconds)[0]:
            return b""
        return self._control.recv(64)

    def _listen(self, ends: int) -> None:
        with os.fdopen(ends, "r", encoding="ascii") as lines:
            for line in lines:
                said = _ENDED.fullmatch(line)
                if said is None:  # not a word of ours: nothing that it says counts any more
                    self._process.kill()
                    break
                with _COUNTED:
                    _SECONDS[0] += float(said[3])
                with self._change:
                    self._ended[int(said[1])] = int(said[2])
                    self._running.discard(int(said[1]))
                    self._change.notify_all()
                    if not self.usable and not self._running:
                        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)
        with self._change:
            self._gone = True
            self._change.notify_all()
        with self._lock:  # not under a request that waits: that one has heard the end by now
            self._control.close()


_SERVERS: dict[Preload, _Server] = {}
_GUARD = threading.Lock()
_SECONDS, _COUNTED = [0.0], threading.Lock()
_PREPARED: list[bool] = []
_HOPELESS: set[Preload] = set()
"""that could not be imported: children say why, and nobody tries again"""


def start(
    preload: Preload, config: Mapping[str, Any], *, report: int, pass_fds: Sequence[int]
) -> Forked | None:
    """Return a child that confines itself as `config` says and runs its command, None when it must be started afresh.

    config: what the launcher reads, whose command is this Python, flags, a script and arguments; and `cwd`. report, pass_fds: descriptors
    that it is to have under the same numbers.
    """
    server = _server(preload)
    if server is None:
        return None
    read, written = os.pipe()
    try:
        asked = {**config, "pass_fds": list(pass_fds)}
        pid = server.start(asked, (report, written, *pass_fds))
    finally:
        os.close(written)
    if pid is None:
        os.close(read)
        return None
    return Forked(pid, server, read)


def begin(preload: Preload) -> None:
    """Start the Python that children will be forked from soon, and go on: it imports beside this process."""
    _server(preload, wait=False)


def _server(preload: Preload, *, wait: bool = True) -> _Server | None:
    if not hasattr(os, "pidfd_open") or not hasattr(socket, "send_fds") or preload in _HOPELESS:
        return None
    with _GUARD:
        if not _PREPARED:
            _PREPARED.append(True)
            atexit.register(close)
            os.register_at_fork(after_in_child=_forget)
        found = _SERVERS.pop(preload, None)
        if found is not None and found.gone and found.awaited:
            found.close()
            found = None
        if found is None and _free_bytes() < _ROOM_BYTES:
            return None
        try:
            found = found or _Server(preload)
        except OSError:
            return None
        if wait:
            found.await_ready()
        if wait and found.gone:
            _HOPELESS.add(preload)
            return None
        _SERVERS[preload] = found  # the last of the row is the one asked last
        while len(_SERVERS) > _MOST:
            _SERVERS.pop(next(iter(_SERVERS))).retire()
        return found


def seconds() -> float:
    """Return the processor seconds of the forked children that ended, which are no children of this process (`os.times`)."""
    with _COUNTED:
        return _SECONDS[0]


def close() -> None:
    """End all preloaded Pythons and their children."""
    with _GUARD:
        for server in _SERVERS.values():
            server.close()
        _SERVERS.clear()


def _forget() -> None:
    """In a fork of this process: what it has of the servers is its parent's."""
    global _GUARD
    _GUARD = threading.Lock()
    _SERVERS.clear()


def _environment(home: str, preload: Preload) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict(preload.env),
    }


def _free_bytes() -> int:
    """Return the memory that is free or can be had; all there is where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return sys.maxsize
    found = [int(line.split()[1]) for line in text.splitlines() if line.startswith("MemAvailable:")]
    return found[0] * 1024 if found else sys.maxsize


def _anonymous_pages(pid: int) -> int:
    """Return the pages of its own memory, which each fork of it is said to have, though they are there once."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    kib = [int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:")]
    return kib[0] * 1024 // os.sysconf("SC_PAGE_SIZE") if kib else 0
