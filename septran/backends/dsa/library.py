"""A vendor's own library with a model of its machine: where it comes from, what of it a build needs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran.backends.base import Availability, Built, Emulation
from septran.host.link import trusted_object
from septran.kernel import Kernel
from septran.toolchain import environment
from septran.toolchain.built import built_since
from septran.toolchain.compilers import Compiler, cache_folder
from septran.toolchain.confined import plain, run_confined
from septran.toolchain.wheels import Wheel

TARGET = "dsa_c"
LOADER = "dsa_model.py.j2"
FLAGS = (
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Werror",
    "-fPIC",
    "-I.",
)
_SECONDS = 120.0
_WRAPPED = re.compile(r"^(?:[A-Z_]+\(|void __wrap_)(tpu_\w+)", re.MULTILINE)
"""Calls that a source puts itself before: `FORM(tpu_name, ..` or a function of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """part: its name in `septran doctor --install dsa_c+PART`. link, headers: a file and a folder of the wheel."""

    part: str
    wheel: Wheel
    link: str
    headers: str
    defines: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Return where the files of the wheel lie, whether they are there or not."""
        return environment.folder(f"{TARGET}-{self.part}").resolve()

    @property
    def install(self) -> str:
        """Return what a user types to bring it."""
        return environment.command(TARGET, self.part)

    @property
    def flags(self) -> tuple[str, ...]:
        """Return what the compiler is told to find its headers."""
        return (*(f"-D{d}" for d in self.defines), "-isystem", str(self.folder / self.headers))

    def emulation(self, compiler: Compiler | None) -> Emulation | Availability:
        """Return how kernels run in the model, or what is missing."""
        if compiler is None:
            return Availability(ok=False, detail="no gcc on PATH", install="apt-get install gcc")
        if self.wheel.missing(self.folder):
            detail = (
                f"{self.part}: {Path(self.link).name} of {self.wheel.requirement} is not here "
                f"({self.wheel.megabytes} MB, {self.wheel.licence})"
            )
            return Availability(ok=False, detail=detail, install=self.install)
        # the model reserves its memory as one range of addresses, most of it never touched
        return Emulation(
            loader=LOADER,
            session=(
                ("address_space", False),
                ("ro_paths", (self.folder,)),
                ("call_timeout_s", 120.0),
                ("budget_s", 60.0),
            ),
        )


def library_of(data: Any, wrong: Callable[[str], Exception]) -> Library | None:
    """Return the library of a vendor table's `library:`, None where there is none; `wrong` makes the error."""
    if data is None:
        return None
    try:
        files = tuple(str(name) for name in data["files"])
        return Library(
            part=str(data["part"]),
            wheel=Wheel(
                requirement=str(data["wheel"]),
                python=str(data["python"]),
                sha256=str(data["sha256"]),
                megabytes=int(data["megabytes"]),
                licence=str(data["licence"]),
                files=files,
            ),
            link=str(data["link"]),
            headers=str(data["headers"]),
            defines=tuple(str(d) for d in data["defines"]),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise wrong(f"library: {problem} is missing or wrong") from None


def wrapped(sources: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the vendor's calls that `sources` take on their way to its library."""
    texts = (source.read_text(encoding="utf-8") for source in sources)
    return tuple(sorted({name for text in texts for name in _WRAPPED.findall(text)}))


def build(
    kernel: Kernel, folder: Path, library: Library, sources: tuple[Path, ...], gcc: Compiler
) -> Built:
    """Compile `kernel` and link it with the vendor's library and our `sources`, which call it: kernel.so.

    The kernel's calls of the vendor's go through `sources` where these wrap them.
    """
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    kernel.write(folder)
    if library.wheel.missing(library.folder):
        log = f"no {library.wheel.requirement} here; {library.install}"
        return built_since(None, {}, log, "", started, ())
    objects = []
    beside = sorted({h for s in sources for h in s.parent.glob("*.h")})
    extra = "\0".join([gcc.version, *(h.read_text(encoding="utf-8") for h in beside)])
    for source in sources:
        made = trusted_object(
            gcc.path, source, (*FLAGS, *library.flags), cache_folder() / "host", extra=extra
        )
        if made.path is None:
            return built_since(None, {}, f"the runtime: {made.missing}", "", started, ())
        objects.append(made.path)
    there = (library.folder / library.link).parent
    name = Path(library.link).name
    command = [
        gcc.path, *FLAGS, *library.flags, "-shared", kernel.main, *map(str, objects), "-o", "kernel.so",
        *(f"-Wl,--wrap={call}" for call in wrapped(sources)), f"-L{there}", f"-l:{name}", f"-Wl,-rpath,{there}", "-lm",
    ]  # fmt: skip
    reads = (library.folder, *(path.parent for path in objects))
    done = run_confined(command, folder, _SECONDS, reads=reads)
    artifact = folder / "kernel.so"
    ok = done.code == 0 and plain(artifact)
    shown = " ".join(["gcc", *FLAGS, kernel.main, "-shared", f"-l:{name}", "-o", "kernel.so"])
    log = done.output.replace(f"{folder}/", "")
    return built_since(artifact if ok else None, {}, log, shown, started, done.not_enforced)
