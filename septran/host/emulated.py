"""A static host for another processor: its program runs in a confined CPU emulator.

The program cannot confine itself there (QEMU's user mode has no system call filter for its guests), so the emulator
is confined from outside, as a Python child is. From outside it looks like `subprocess.Popen`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from septran.sandbox import MIB, Confined, Limits

_LIMITS = Limits(
    timeout_s=1800.0, cpu_s=3600, memory_bytes=4096 * MIB, forks=False, address_space=False
)
# the emulator's own, which is there before the program begins
_OWN_THREADS = 1


class Emulated:
    """A running emulator with what `HostProcess` asks of a process."""

    def __init__(
        self,
        emulator: Sequence[str],
        program: Path,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
    ) -> None:
        """Start `emulator program arguments`. Raises OSError: it cannot be started."""
        self._folder = tempfile.TemporaryDirectory(prefix="septran-host-")
        self._child = Confined(
            [*emulator, program, *arguments],
            rw_dir=Path(self._folder.name),
            ro_paths=(program.parent,),
            limits=_LIMITS,
            env=env,
            pass_fds=pass_fds,
        )
        self.enforced: tuple[str, ...] = ()
        self.not_enforced: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        """The emulator's own number: the last of the line that the launcher began."""
        found = self._child.pid
        while True:
            try:
                text = Path(f"/proc/{found}/task/{found}/children").read_text(encoding="ascii")
            except OSError:
                return found
            if not text.split():
                return found
            found = int(text.split()[0])

    def poll(self) -> int | None:
        """Return the exit status (minus a signal's number), or None while it runs."""
        return self._child.poll()

    def kill(self) -> None:
        """End it."""
        self._child.kill("")

    def wait(self) -> int:
        """Return the exit status once it has ended."""
        result = self._child.wait()
        self.enforced, self.not_enforced = result.enforced, result.not_enforced
        self._folder.cleanup()
        return result.rc

    def cpu_seconds(self) -> float:
        """Return the processor seconds of the emulator so far, in steps of the system's tick."""
        return self._child.cpu_seconds()

    @property
    def own_threads(self) -> int:
        """How many of its threads are the emulator's."""
        return _OWN_THREADS
