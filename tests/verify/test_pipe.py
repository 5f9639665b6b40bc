"""The talk with a confined child: one that speaks without end of a line is late like one that is silent."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from septran.verify.pipe import Pipe

DRIPS = "import os, time\nwhile True:\n    os.write(1, b'x')\n    time.sleep(0.01)\n"
SILENT = "import time\ntime.sleep(600)\n"


class Child:
    """A process as `Pipe` asks for it; it uses no processor that counts."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def cpu_seconds(self) -> float:
        return 0.0


@pytest.mark.parametrize("text", [DRIPS, SILENT])
def test_a_child_without_a_message_is_late(text: str) -> None:
    read, write = os.pipe()
    child = subprocess.Popen([sys.executable, "-c", text], stdout=write)
    os.close(write)
    try:
        begun = time.monotonic()
        said = Pipe(-1, read, Child(child.pid)).receive(0.3)  # type: ignore[arg-type]
        assert said == "timeout"
        assert time.monotonic() - begun < 60
    finally:
        child.kill()
        child.wait()
        os.close(read)
