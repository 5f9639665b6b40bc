"""A running static host: start it, ring its doorbell, and watch it from outside."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from septran.host import control as words
from septran.host.control import Row
from septran.host.emulated import Emulated
from septran.unserved import MOST, Unserved

_FUTEX, _WAIT, _WAKE = 202, 0, 1  # x86-64
_SLICE_S = 0.05
_START_S = 5.0
_PATIENCE = 6


class HostFailed(Exception):
    """The host did not answer. why: crash, timeout, or starved: the machine did not run it."""

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(detail or why)
        self.why = why


class _Time(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class HostProcess:
    """One host. It has ended its preparations and confined itself when the constructor returns.

    rows: per placement, one row per parameter. inputs, outputs: descriptors of the files that they lie in.
    """

    def __init__(
        self,
        program: Path,
        rows: Sequence[Sequence[Row]],
        *,
        inputs: int,
        outputs: int,
        threads: int,
        depth_kib: int = 1024,
        spin: int = 0,
        emulator: Sequence[str] = (),
        moves: bool = False,
    ) -> None:
        """`depth_kib`: stack that is overwritten after a judged call. spin: rounds a thread waits awake.

        moves: with room for `moved`.

        emulator: the command that runs programs of another processor; `program` is one.

        Raises:
            HostFailed: it did not come up; nothing of the kernel has run. OSError: it cannot be started.
        """
        self._fd = os.memfd_create("septran-control", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self._fd, words.CONTROL_BYTES + words.TEXT_BYTES)
        self._map = mmap.mmap(self._fd, words.CONTROL_BYTES + words.TEXT_BYTES)
        self._page = memoryview(self._map)[: words.CONTROL_BYTES].cast("Q")
        self._go = ctypes.c_uint32.from_buffer(self._map, 8 * words.GO)
        self._done = ctypes.c_uint32.from_buffer(self._map, 8 * words.DONE)
        self._seen = 0
        self._cpu_at_order = 0.0
        self._threads = threads
        self._page[words.THREADS] = threads
        self._page[words.PLACEMENTS] = len(rows)
        self._page[words.PARAMS] = len(rows[0])
        self._page[words.DEPTH] = depth_kib
        self._page[words.MOVES] = int(moves)
        for which, placement in enumerate(rows):
            for number, row in enumerate(placement):
                at = words.TABLE + (which * words.MAX_PARAMS + number) * words.ROW
                for offset, value in enumerate(row.words()):
                    self._page[at + offset] = value
        env = {
            "OMP_NUM_THREADS": str(threads),
            "OMP_DYNAMIC": "false",
            "OMP_WAIT_POLICY": "active" if spin else "passive",
            "GOMP_SPINCOUNT": str(spin),
        }
        if spin and threads <= len(os.sched_getaffinity(0)):
            # threads that wait awake on one processor would wait for each other's turn
            env |= {"OMP_PROC_BIND": "true", "OMP_PLACES": "threads"}
        fds = (self._fd, inputs, outputs)
        self._process: subprocess.Popen[bytes] | Emulated
        if emulator:
            arguments = list(map(str, fds))
            self._process = Emulated(emulator, program, arguments, env=env, pass_fds=fds)
        else:
            self._process = subprocess.Popen(
                [str(program), *map(str, fds)],
                env=env,
                cwd="/",
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            self.answered(_START_S)
            if self._page[words.READY] != words.CONFINED:
                raise HostFailed("crash", "the host did not confine itself")
        except HostFailed:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process' number."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status (minus a signal's number), or None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Return the exit status once it has ended."""
        return self._process.wait()

    def kill(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """End it and give the memory back."""
        self.kill()
        self._process.wait()
        if self._fd >= 0:
            del self._go, self._done
            self._page.release()
            with contextlib.suppress(BufferError):
                self._map.close()
            os.close(self._fd)
            self._fd = -1

    def call(self, placement: int, windows: Sequence[int] = (), *, variant: int = 0) -> None:
        """Order one call; `answered` says when it is over. variant: counts the ways of a simulator."""
        self._page[words.ORDER] = words.CALL
        self._page[words.PLACEMENT] = placement
        self._page[words.VARIANT] = variant
        for number in range(self._page[words.PARAMS]):
            self._page[words.WINDOW + number] = windows[number] if windows else 0
        self._ring()

    def slot(self, count: int, seed: int, timeout_s: float, *, without: bool = False) -> float:
        """Return the seconds of `count` chained calls, measured here; `receipt` is theirs.

        without: all but the kernel itself. The clock starts before anybody but the caller knows the seed.

        Raises:
            HostFailed: no answer.
        """
        begun = time.perf_counter()
        self._page[words.ORDER] = words.SLOT
        self._page[words.COUNT] = count
        self._page[words.SEED] = seed
        self._page[words.WITHOUT] = int(without)
        self._ring()
        self.answered(timeout_s)
        return time.perf_counter() - begun

    def moved(self, first: int, end: int, seed: int, timeout_s: float, *, vary: int = 0) -> int:
        """Make calls number `first` to `end` in other surroundings (moved.h); return which one it stopped at, `end` for none.

        What the first placement holds are the inputs, and the outputs that are no news; other outputs lie at the second one.
        vary: what varies besides places, VARY_UNIT and VARY_LEVEL.

        Raises:
            HostFailed: no answer.
        """
        self._page[words.ORDER] = words.MOVED
        self._page[words.VARIANT] = first
        self._page[words.COUNT] = end
        self._page[words.SEED] = seed
        self._page[words.WITHOUT] = vary
        self._ring()
        self.answered(timeout_s)
        return self._page[words.RECEIPT]

    @property
    def receipt(self) -> int:
        """The end of the last slot's chain."""
        return self._page[words.RECEIPT]

    @property
    def environment(self) -> int:
        """What the last call changed: 1 the rounding mode, 2 how denormals are treated, 4 traps, or the x87 unit's precision.

        After `moved`: VARY_UNIT where the floating-point unit was another, INPUT_CHANGED.
        """
        return self._page[words.ENVIRONMENT]

    @property
    def text(self) -> str:
        """What a simulator in the host said last."""
        start = words.CONTROL_BYTES
        raw = bytes(self._map[start : start + words.TEXT_BYTES]).partition(b"\0")[0]
        return raw.decode("utf-8", errors="replace")

    def clear_text(self) -> None:
        """Forget what was said."""
        self._map[words.CONTROL_BYTES] = 0

    @property
    def spoke_out_of_turn(self) -> bool:
        """Whether the done word changed without an order."""
        return self._done.value != self._seen

    def answered(self, timeout_s: float) -> None:
        """Return when the host has answered.

        timeout_s: processor seconds that each of its threads may use; a host that waits gets six times as much wall time,
        so that a busy machine is not taken for a slow kernel, and time in which the machine does not serve it is not counted.

        Raises:
            HostFailed: crash, timeout or starved.
        """
        begun = time.monotonic()
        unserved: Unserved | None = None
        slice_s = min(_SLICE_S, max(timeout_s, 1e-3))
        while self._done.value == self._seen:
            spent = time.monotonic() - begun
            if unserved is not None:
                unserved.look(slice_s)
            if spent > timeout_s:
                worked = self.cpu_seconds() - self._cpu_at_order
                if worked > timeout_s * self._threads:
                    raise HostFailed("timeout")
                most = _PATIENCE * timeout_s
                lost = unserved.seconds() if unserved is not None and spent > most else 0.0
                if spent - lost > most:
                    raise HostFailed("timeout")
                if spent > MOST * most:
                    raise HostFailed("starved")
            if unserved is None and spent > _SLICE_S:
                unserved = Unserved(self.pid)
            self._wait(slice_s)
            if self._done.value == self._seen and self._process.poll() is not None:
                raise HostFailed("crash")
        self._seen = self._done.value

    def cpu_seconds(self) -> float:
        """Return the processor seconds of all its threads so far, as the system counts them."""
        if isinstance(self._process, Emulated):
            return self._process.cpu_seconds()
        return time.clock_gettime(_clock_of(self._process.pid))

    def queued_seconds(self) -> float:
        """Return how long its first thread was ready to run and did not get a processor; 0 where nobody counts."""
        try:
            text = Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        return int(text.split()[1]) * 1e-9

    def threads(self) -> int:
        """Return how many threads it has."""
        own = self._process.own_threads if isinstance(self._process, Emulated) else 0
        return max(1, int(self._status("Threads") or 1) - own)

    @property
    def confinement(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """What its emulator's sandbox enforced and what not, once it has ended; None: it confined itself."""
        if isinstance(self._process, Emulated):
            return self._process.enforced, self._process.not_enforced
        return None

    def private_kib(self) -> int:
        """Return its private resident memory in KiB, counted exactly; 0 of an emulator, whose own would drown it."""
        if isinstance(self._process, Emulated):
            return 0
        return sum(self._resident())

    def kept_kib(self) -> int:
        """Return what `private_kib` counts outside the rooms for scratch, which the host overwrites after each order."""
        return self._resident()[0]

    def _resident(self) -> tuple[int, int]:
        """KiB of anonymous memory outside and inside the rooms for scratch and allocations."""
        found = [0, 0]
        room = 0
        try:
            text = Path(f"/proc/{self.pid}/smaps").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return int((self._status("RssAnon") or "0").split()[0]), 0
        for line in text.splitlines():
            if line.startswith("Size:"):
                room = int(line.split()[1]) == words.ROOM_BYTES >> 10
            elif line.startswith("Anonymous:"):
                found[room] += int(line.split()[1])
        return found[0], found[1]

    def _status(self, name: str) -> str:
        try:
            text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return ""
        found = [
            line.partition(":")[2] for line in text.splitlines() if line.startswith(f"{name}:")
        ]
        return found[0].strip() if found else ""

    def _ring(self) -> None:
        self._cpu_at_order = self.cpu_seconds()
        self._go.value += 1
        _libc().syscall(_FUTEX, ctypes.byref(self._go), _WAKE, 1, None, None, 0)

    def _wait(self, seconds: float) -> None:
        until = _Time(int(seconds), int(seconds % 1 * 1e9))
        _libc().syscall(
            _FUTEX, ctypes.byref(self._done), _WAIT, self._seen, ctypes.byref(until), None, 0
        )


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _clock_of(pid: int) -> int:
    found = ctypes.c_int()
    if _libc().clock_getcpuclockid(pid, ctypes.byref(found)):
        raise HostFailed("crash")
    return found.value
