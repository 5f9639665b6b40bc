"""Programs of ours that call a kernel many times: its text and a runner from septran/host/, compiled together and confined."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from septran import host
from septran.host.link import NAME, trusted_object
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.compilers import Compiler, cache_folder
from septran.toolchain.confined import plain, run_confined

OWN_MAIN = "-Dmain=septran_main_of_the_file"
"""What a kernel's file is compiled with: the runner's `main` is the program's."""
_CALLED = "septran_called_entry"


def put_beside(
    kernel: Kernel, runner: str, flags: Sequence[str], folder: Path, compiler: Compiler
) -> Built | None:
    """Write `kernel` to `folder`, and the runner septran/host/`runner` as runner.o, whose ENTRY is the kernel's; return why not, or None.

    flags: what the runner is compiled with, once per machine: it is the same for all kernels but for the name that it calls.
    """
    if not NAME.fullmatch(kernel.entry):
        return Built(ok=False, artifact=None, log=f"{kernel.entry!r} is no name of C")
    kernel.write(folder)
    source = Path(host.__file__).resolve().parent / runner
    made = trusted_object(
        compiler.path,
        source,
        ("-x", "c", "-std=gnu11", *flags, f"-DENTRY={_CALLED}"),
        cache_folder() / "host",
        extra=compiler.version,
    )
    if made.path is None:
        return Built(ok=False, artifact=None, log=f"{runner}: {made.missing}")
    shutil.copyfile(made.path, folder / "any_runner.o")
    return None


def named(kernel: Kernel) -> str:
    """Return the step that makes runner.o of what `put_beside` left."""
    return f"objcopy --redefine-sym {_CALLED}={kernel.entry} any_runner.o runner.o"


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
