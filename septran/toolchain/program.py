"""Programs of ours that call a kernel many times: its text and a runner from septran/host/, compiled together and confined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from septran import host
from septran.host.link import NAME
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.confined import plain, run_confined

OWN_MAIN = "-Dmain=septran_main_of_the_file"
"""What a kernel's file is compiled with: the runner's `main` is the program's."""


def put_beside(kernel: Kernel, runner: str, folder: Path) -> Built | None:
    """Write `kernel` and the runner septran/host/`runner` to `folder`; return why not, or None."""
    if not NAME.fullmatch(kernel.entry):
        return Built(ok=False, artifact=None, log=f"{kernel.entry!r} is no name of C")
    kernel.write(folder)
    text = (Path(host.__file__).resolve().parent / runner).read_text(encoding="utf-8")
    (folder / runner).write_text(text, encoding="utf-8")
    return None


def compiled(
    steps: Sequence[str], folder: Path, program: str, timeout_s: float, reads: Sequence[Path]
) -> Built:
    """Run the commands `steps` in `folder`, confined to it and `reads`, for up to `timeout_s` seconds; `program` is what they make."""
    done = run_confined(["/bin/sh", "-c", " && ".join(steps)], folder, timeout_s, reads=reads)
    made = folder / program
    ok = done.code == 0 and plain(made)
    return Built(
        ok=ok, artifact=made if ok else None, log=done.output, seconds=done.seconds,
        not_checked=done.not_enforced,
    )  # fmt: skip
