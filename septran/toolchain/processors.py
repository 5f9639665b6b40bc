"""Processors other than this machine's: what compiles for them and what runs their code here."""

from __future__ import annotations

import functools
import platform
import re
import shutil
from dataclasses import dataclass

from septran.toolchain.confined import probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """A processor that C++ is compiled for.

    machine: as `platform.machine` names it. prefix: of its binutils. compilers: names to look for, the first that is
    there. flags: of kernels. host_compiler: of the static host, when it is not the kernels'. cpu: what the emulator
    is asked for, "" for its default; old_cpu: the same for a QEMU before 8. packages: that bring all of it.
    openmp: whether the kernels' compiler has OpenMP's runtime for it.
    """

    machine: str
    prefix: str
    compilers: tuple[str, ...]
    flags: tuple[str, ...]
    packages: str
    cpu: str = ""
    old_cpu: str = ""
    host_compiler: str = ""
    openmp: bool = True

    @property
    def is_here(self) -> bool:
        """Whether this machine runs its code itself."""
        return platform.machine() == self.machine

    @property
    def emulator(self) -> tuple[str, ...]:
        """The command that runs its static programs here; () when it is not installed."""
        name = f"qemu-{self.machine}"
        path = shutil.which(name) or shutil.which(f"{name}-static")
        if path is None:
            return ()
        cpu = self.old_cpu if _major(path) < 8 else self.cpu
        return (path, "-cpu", cpu) if cpu else (path,)

    def tool(self, name: str) -> str:
        """Return a tool of its binutils: `objdump`; this machine's own where it runs the code itself."""
        return name if self.is_here else f"{self.prefix}{name}"


PROCESSORS = {
    "aarch64": Processor(
        machine="aarch64",
        prefix="aarch64-linux-gnu-",
        compilers=("aarch64-linux-gnu-g++",),
        flags=("-march=armv8.2-a+fp16",),
        packages="g++-aarch64-linux-gnu qemu-user",
    ),
    # g++ 12 knows neither the vector intrinsics' types nor _Float16 there; clang does both but has no OpenMP runtime
    "riscv64": Processor(
        machine="riscv64",
        prefix="riscv64-linux-gnu-",
        # the documented one first; kernels of clang 22 (softmax of 5 x 37) fault under QEMU 7.2
        compilers=tuple(f"clang++-{version}" for version in (19, 20, 21, 18, 17)),
        flags=(
            "--target=riscv64-linux-gnu",
            "-march=rv64gcv_zfh_zvl256b",
            "-mrvv-vector-bits=zvl",
        ),
        packages="clang-19 g++-riscv64-linux-gnu qemu-user",
        cpu="rv64,v=true,vlen=256,vext_spec=v1.0,zfh=true",
        old_cpu="rv64,v=true,vlen=256,vext_spec=v1.0,Zfh=true",
        host_compiler="riscv64-linux-gnu-g++",
        openmp=False,
    ),
}
"""By arch, those that are not this machine's kind."""


@functools.cache
def _major(path: str) -> int:
    found = re.search(r"version (\d+)", probe([path, "--version"]).output)
    return int(found.group(1)) if found else 8


def foreign(arch: str) -> Processor | None:
    """Return the processor of `arch` when its code does not run on this machine itself, else None."""
    found = PROCESSORS.get(arch)
    return None if found is None or found.is_here else found
