"""Run a command that nobody trusts: no network, writes in one folder, reads in a few, hard limits.

    result = run([gxx, "-shared", ...], rw_dir=work, ro_paths=(headers,), timeout_s=60)

Every step that the machine refuses (an old kernel, a container that forbids namespaces) is listed in
`SandboxResult.not_enforced`; nothing is dropped silently. See docs/verification.md for the threat list.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran import preloaded
from septran.preloaded import Forked, Preload
from septran.unserved import Unserved

MIB = 1 << 20
_POLL_S = 0.02
_LOOK_EVERY = 10
"""polls from one look at whether the machine serves the command to the next"""
STARVED, _MOST = "starved", 10
"""what ends a command that the machine does not run, and after how many times its time"""
_FLOOD_BYTES = 64 * MIB
_LAUNCHER = Path(__file__).with_name("sandbox_launcher.py")

# What compilers, the dynamic loader and Python need; nothing below a home folder or /etc as a whole.
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/opt",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/dev/urandom",
    "/dev/random",
)
_WRITABLE = ("/dev/null", "/dev/zero", "/dev/full")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """How a command ended.

    rc: exit status, minus the signal number when a signal ended it (subprocess' convention).
    why: "" for an end of its own, else what ended it: timeout, cpu, memory, output, processes;
        machine memory: the system ran out and chose this one, which was far below its own limit, or what it was forked from; or
        starved: the machine did not run it for most of ten times its time.
    enforced, not_enforced: the sandbox's parts; the latter with the reason.
    broken: why the command never started, "" when it did; nothing the command does can set it.
    """

    rc: int
    why: str
    seconds: float
    stdout_tail: str
    enforced: tuple[str, ...]
    not_enforced: tuple[str, ...]
    broken: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ended on its own with status 0."""
        return self.rc == 0 and not self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a command may use.

    timeout_s: wall seconds, of which those in which the machine did not serve it are not counted. cpu_s: processor seconds over all threads of one process. memory_bytes: address
    space of one process (off with `address_space=False`, which address sanitizers and CUDA need) and
    resident set of all of them. output_cap: bytes of stdout and stderr kept (the last ones).
    file_bytes: size of one written file. forks: may start processes (compilers do; kernels do not).
    calls: system calls that it has although others' children do not (`septran.sandbox_launcher`).
    processes: at a time, seen by the watchdog every 20 ms; 0 = no limit.
    """

    timeout_s: float = 60.0
    cpu_s: int = 120
    memory_bytes: int = 4096 * MIB
    output_cap: int = 64 * 1024
    file_bytes: int = 1024 * MIB
    forks: bool = True
    address_space: bool = True
    processes: int = 0
    calls: tuple[str, ...] = ()


def run(
    command: Sequence[str | Path],
    *,
    rw_dir: Path,
    ro_paths: Sequence[Path] = (),
    rw_paths: Sequence[Path] = (),
    timeout_s: float = 60.0,
    cpu_s: int = 120,
    memory_bytes: int = 4096 * MIB,
    output_cap: int = 64 * 1024,
    env: Mapping[str, str] | None = None,
    forks: bool = True,
    address_space: bool = True,
    preload: Preload | None = None,
) -> SandboxResult:
    """Return how `command` ended; it may write only below `rw_dir`, its working directory and TMPDIR.

    ro_paths: readable besides the system's and Python's own folders. rw_paths: further writable paths
    (device nodes). env: added to a clean environment; a key of the caller's is never inherited.
    preload: what a command that is this Python imports, so that it may start as a fork (`septran.preloaded`).
    """
    limits = Limits(
        timeout_s=timeout_s,
        cpu_s=cpu_s,
        memory_bytes=memory_bytes,
        output_cap=output_cap,
        forks=forks,
        address_space=address_space,
    )
    child = Confined(
        command,
        rw_dir=rw_dir,
        ro_paths=ro_paths,
        rw_paths=rw_paths,
        limits=limits,
        env=env,
        preload=preload,
    )
    return child.wait()


@dataclass(slots=True)
class _Watch:
    why: str = ""
    tail: bytearray = field(default_factory=bytearray)
    report: bytes = b""
    peak: int = 0


def patience() -> float:
    """Return how many times its quiet wall time a step may take here: the load per core, 1 to 3.

    A busy machine is no reason to check fewer inputs or to refuse a kernel, and a child's own limit leaves room for 4.
    """
    return min(3.0, max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))))


class Confined:
    """A confined command that is running; `wait` returns its SandboxResult, `kill` ends it early."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        rw_dir: Path,
        limits: Limits,
        ro_paths: Sequence[Path] = (),
        rw_paths: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        preload: Preload | None = None,
    ) -> None:
        rw_dir = rw_dir.resolve()
        self._limits = limits
        self._watch = _Watch()
        self._start = time.monotonic()
        self._oom_kills = oom_kills()
        report_read, report_write = os.pipe()
        config = {
            "command": [_absolute(str(command[0])), *map(str, command[1:])],
            "env": _environment(rw_dir, env or {}),
            "read": [*_SYSTEM, *_python_paths(), *(str(p.resolve()) for p in ro_paths)],
            # Python finds a package by listing its parent, which may be a checkout
            "list": [str(Path(__file__).resolve().parents[1])],
            "write": [*_WRITABLE, str(rw_dir), *map(str, rw_paths)],
            "rlimits": _rlimits(limits),
            "forks": limits.forks,
            "calls": limits.calls,
            "report_fd": report_write,
        }
        try:
            self._process = _start(config, rw_dir, preload, report_write, pass_fds)
        except OSError:
            os.close(report_read)
            raise
        finally:
            os.close(report_write)
        self._shared = 2 * getattr(self._process, "shared_pages", 0)
        self._threads = (
            threading.Thread(target=self._read_report, args=(report_read,), daemon=True),
            threading.Thread(target=self._read_output, daemon=True),
            threading.Thread(target=self._supervise, daemon=True),
        )
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The number of the process that confines and then becomes the command, or its first ancestor."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.poll()

    def cpu_seconds(self) -> float:
        """Return the processor seconds of all its processes that are alive."""
        return _cpu_seconds(self._process.pid)

    def kill(self, why: str) -> None:
        """End it and all it started; `why` is what the result will say, unless it already ended."""
        if not self._watch.why and self._process.poll() is None:
            self._watch.why = why
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()

    def wait(self) -> SandboxResult:
        """Return the result once it has ended and its output is read."""
        try:
            rc = self._process.wait()
        except BaseException:
            self.kill("interrupted")
            raise
        if rc == -signal.SIGXCPU and not self._watch.why:
            self._watch.why = "cpu"
        if getattr(self._process, "lost", False) and not self._watch.why:
            self._watch.why = "machine memory"  # nobody else ends what forked it
        small = self._watch.peak < self._limits.memory_bytes // 2
        if rc == -signal.SIGKILL and not self._watch.why and small:
            self._watch.why = "machine memory" if oom_kills() > self._oom_kills else ""
        self.kill("")  # stragglers of a machine without PID namespaces
        for thread in self._threads:
            thread.join(timeout=2)
        seconds = time.monotonic() - self._start
        enforced, refused, broken = self._parts()
        text = self._watch.tail.decode("utf-8", errors="replace")
        return SandboxResult(
            rc=rc,
            why=self._watch.why,
            seconds=seconds,
            stdout_tail=text,
            enforced=enforced,
            not_enforced=refused,
            broken="" if self._watch.why else broken,
        )

    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...], str]:
        """What the launcher, which trusts nobody either, said: enforced, refused, why it did not start."""
        always = ("clean environment", "wall time", "output cap", "process group kill")
        first, _, second = self._watch.report.partition(b"\n")
        try:
            report = json.loads(first)
            broken = str(json.loads(second)) if second else ""
        except (ValueError, RecursionError):
            last = bytes(self._watch.tail[-300:]).decode("utf-8", errors="replace").strip()
            why = "the launcher did not report"
            return (), (f"sandbox: {why}",), f"{why}: {last}" if last else why
        return (*report["enforced"], *always), tuple(report["refused"]), broken

    def _read_report(self, fd: int) -> None:
        with os.fdopen(fd, "rb") as stream:
            self._watch.report = stream.read(16384)

    def _read_output(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        total = 0
        with stream:
            while chunk := os.read(stream.fileno(), 65536):
                total += len(chunk)
                self._watch.tail += chunk
                if len(self._watch.tail) > self._limits.output_cap:
                    del self._watch.tail[: -self._limits.output_cap]
                if total > _FLOOD_BYTES:
                    self.kill("output")

    def _supervise(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        unserved = Unserved(self._process.pid)
        polls = 0
        while self._process.poll() is None:
            polls += 1
            if polls % _LOOK_EVERY == 0:
                unserved.look(_LOOK_EVERY * _POLL_S)
            spent = time.monotonic() - self._start
            if spent > self._limits.timeout_s:
                if spent - unserved.seconds() > self._limits.timeout_s:
                    self.kill("timeout")
                    return
                if spent > _MOST * self._limits.timeout_s:
                    self.kill(STARVED)
                    return
            pages, count = _usage(self._process.pid)
            pages = max(0, pages - self._shared)
            self._watch.peak = max(self._watch.peak, pages * page)
            if pages * page > self._limits.memory_bytes:
                self.kill("memory")
                return
            # RLIMIT_NPROC would not do: it exempts root and counts all of a user's processes
            if 0 < self._limits.processes < count:
                self.kill("processes")
                return
            time.sleep(_POLL_S)


def _start(
    config: dict[str, Any],
    rw_dir: Path,
    preload: Preload | None,
    report: int,
    pass_fds: Sequence[int],
) -> subprocess.Popen[bytes] | Forked:
    """Start the launcher with `config`, or fork it from a Python that has imported what the command needs."""
    if preload is not None:
        forked = preloaded.start(
            preload, {**config, "cwd": str(rw_dir)}, report=report, pass_fds=pass_fds
        )
        if forked is not None:
            return forked
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(config)],
        cwd=rw_dir,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(report, *pass_fds),
        start_new_session=True,
    )


def _absolute(program: str) -> str:
    import shutil

    return program if "/" in program else shutil.which(program) or program


def _python_paths() -> tuple[str, ...]:
    """The interpreter, its packages and SepTran itself."""
    own = Path(__file__).resolve().parent
    found = {sys.prefix, sys.base_prefix, str(own), sysconfig.get_path("purelib")}
    # an environment may see another one's packages
    found |= {p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")}
    return tuple(sorted(found))


def _environment(rw_dir: Path, extra: Mapping[str, str]) -> dict[str, str]:
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return {
        "PATH": path,
        # whoever asks for a user's name gets one, also where the child's number has none (a container's root runs it as nobody)
        "LOGNAME": "nobody",
        "HOME": str(rw_dir),
        "TMPDIR": str(rw_dir),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **extra,
    }


def _rlimits(limits: Limits) -> dict[str, int]:
    found = {"CPU": limits.cpu_s, "FSIZE": limits.file_bytes, "NOFILE": 512}
    if limits.address_space:
        found["AS"] = limits.memory_bytes
    return found


def oom_kills() -> int:
    """Return how many processes the system has ended because memory ran out; 0 when it does not say."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in text.splitlines() if line.startswith("oom_kill ")]
    return int(found[0]) if found else 0


def _cpu_seconds(pid: int) -> float:
    """Return the user and system seconds of `pid` and of all its living descendants."""
    total, waiting = 0.0, [pid]
    tick = os.sysconf("SC_CLK_TCK")
    while waiting:
        folder = Path("/proc") / str(waiting.pop())
        try:
            # the name in parentheses may hold spaces
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children = (folder / "task" / folder.name / "children").read_text()
        except (OSError, IndexError):
            continue
        total += (int(fields[11]) + int(fields[12])) / tick
        waiting.extend(map(int, children.split()))
    return total


def _usage(pid: int) -> tuple[int, int]:
    """Return the resident pages and the number of `pid` and all its descendants; 0 when it has ended."""
    total, count, waiting = 0, 0, [pid]
    while waiting:
        current = waiting.pop()
        folder = Path("/proc") / str(current)
        try:
            total += int((folder / "statm").read_text().split()[1])
            children = (folder / "task" / str(current) / "children").read_text()
        except (OSError, IndexError, ValueError):
            continue
        count += 1
        waiting.extend(map(int, children.split()))
    return total, count
