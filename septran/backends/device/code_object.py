"""HIP source to an AMD code object, without ROCm and without a GPU: clang with Debian's device libraries."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from septran.toolchain.confined import Finished, plain, run_confined

INSTALL = "apt-get install clang-19 lld-19 llvm-19 rocm-device-libs libamdhip64-dev"
SECONDS = 240.0
_BITCODE = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
_HEADER = Path("/usr/include/hip/hip_runtime.h")
NEWEST = 22
"""The newest clang that was tried."""
_FIRST = {"gfx950": 20}
"""The first clang that knows a chip; 19 for the others."""
HEADERS_UP_TO = 19
"""The last clang whose own headers go with those of Debian's HIP where a source includes them."""
# name: what the notes say, and how much one of it is
_FIGURES = {
    "registers": (r"\.vgpr_count:\s+(\d+)", 1),
    "accumulation_registers": (r"\.agpr_count:\s+(\d+)", 1),
    "spill_bytes": (r"\.vgpr_spill_count:\s+(\d+)", 4),
    "static_shared_bytes": (r"\.group_segment_fixed_size:\s+(\d+)", 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What compiles for an AMD GPU here: paths of clang and llvm-readelf. name: of the compiler, for facts."""

    clang: str
    readelf: str
    name: str = "clang"


def install(arch: str, *, last: int = NEWEST) -> str:
    """Return what a user types to get the tools that know `arch`, "" where none will do. last: as in `tools`.

    gfx950's clang comes from Debian's security archive.
    """
    if _FIRST.get(arch, 0) > last:
        return ""
    return INSTALL.replace("-19", f"-{NEWEST}") if arch in _FIRST else INSTALL


def tools(arch: str = "", *, last: int = NEWEST) -> Tools | str:
    """Return the tools that know `arch`, or in words what is missing. last: the newest clang that will do."""
    first = _FIRST.get(arch, 19)
    if first > last:
        return f"clang knows {arch} from {first} on and goes with HIP's headers up to {last}"
    for version in range(last, first - 1, -1):
        clang, readelf = (shutil.which(f"{n}-{version}") for n in ("clang", "llvm-readelf"))
        if clang and readelf and shutil.which(f"ld.lld-{version}"):
            break
    else:
        which = f"from {first} on" if last == NEWEST else f"from {first} to {last}"
        return f"no clang, lld and llvm-readelf of one version {which}"
    if not _BITCODE.is_dir():
        return "no AMD device libraries"
    if not _HEADER.is_file():
        return "no HIP headers"
    return Tools(clang=clang, readelf=readelf, name=f"clang {version}")


def assemble(
    found: Tools, arch: str, source: Path, *, includes: Sequence[Path] = (), without: str = ""
) -> Finished:
    """Compile `source` for `arch` (gfx942) to kernel.co beside it; the output ends with the object's notes.

    includes: folders of headers, before the system's. without: lines that hold this are left out.
    """
    return run_confined(
        ["/bin/sh", "-c", "\n".join(_script(found, arch, source.name, includes, without))],
        source.parent,
        SECONDS,
    )


def _script(
    found: Tools, arch: str, source: str, includes: Sequence[Path], without: str
) -> list[str]:
    """The device libraries of an older HIP lack the chip's version number, which is one constant."""
    clang, number = shlex.quote(found.clang), arch.removeprefix("gfx")
    isa = f"lib/oclc_isa_version_{number}.bc"
    value = int(number[:-2]) * 1000 + int(number[-2], 16) * 100 + int(number[-1], 16)
    constant = (
        'extern __attribute__((visibility("protected"))) const __constant int __oclc_ISA_version; '
        f"const __constant int __oclc_ISA_version = {value};"
    )
    folders = " ".join(f"-I{shlex.quote(str(folder))}" for folder in includes)
    taken = f"grep -v {shlex.quote(without)}" if without else "cat"
    return [
        "set -e",
        f"mkdir -p lib && ln -sf {_BITCODE}/*.bc lib/",
        f"if ! [ -e {isa} ]; then echo {shlex.quote(constant)} > isa.cl",
        f"{clang} -x cl -cl-std=CL2.0 --target=amdgcn-amd-amdhsa -mcode-object-version=5 -nogpulib -emit-llvm -c -o {isa} isa.cl; fi",
        f"{taken} {shlex.quote(source)} > object.hip",
        f"{clang} -x hip --cuda-device-only --offload-arch={arch} -O3 -mcode-object-version=5 --no-gpu-bundle-output -std=c++17 -nogpuinc "
        # HIP's older headers ask for what newer clangs do not say; the chips here have wavefronts of 64
        "-Wno-builtin-macro-redefined -D__AMDGCN_WAVEFRONT_SIZE=64 "
        f"-D__HIP_PLATFORM_AMD__ {folders} -I. -I/usr/include --rocm-path=/usr "
        "-include __clang_hip_runtime_wrapper.h --rocm-device-lib-path=lib -o kernel.co object.hip",
        f"{shlex.quote(found.readelf)} --notes kernel.co",
    ]


def figures(notes: str) -> tuple[tuple[str, int], ...]:
    """Return the worst over all kernels of the notes.

    registers (per lane, accumulation_registers among them), spill_bytes (per lane), static_shared_bytes.
    """
    found = {
        name: [unit * int(text) for text in re.findall(pattern, notes)]
        for name, (pattern, unit) in _FIGURES.items()
    }
    return tuple((name, max(values)) for name, values in found.items() if values)


def made(source: Path) -> bool:
    """Return whether the code object is there."""
    return plain(source.with_name("kernel.co"))
