"""The cpp backend: one C++20 file per kernel, built with g++, run on the CPU itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from septran.backends.base import Availability, Backend, Built, Capability
from septran.backends.cpp.emit import emit, runtime_folder
from septran.backends.cpp.foreign import FOREIGN
from septran.backends.cpp.leaves import layouts, library_leaf, signature
from septran.backends.cpp.passes import settle_schedules
from septran.backends.cpp.reading import read
from septran.errors import EnvironmentProblem
from septran.ir.scalar import RARE
from septran.kernel import Kernel
from septran.passes.mark_unread import mark_unread
from septran.passes.staging import staging_passes
from septran.toolchain.compilers import cpp_compiler, flags_for, is_cross
from septran.toolchain.hosted import compile_hosted
from septran.toolchain.launcher import launchable

ARCHES = ("native", "x86_64_v4", "x86_64_v3", "generic", "aarch64")
_INSTALL = "apt-get install g++ (aarch64: g++-aarch64-linux-gnu)"


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile the kernel into `folder`: kernel.o, kernel.so and, where it can be, the static host kernel.host."""
    arch = kernel.arch or ARCHES[0]
    compiler = cpp_compiler(arch)
    if compiler is None:
        return Built(ok=False, artifact=None, log=f"no C++ compiler for {arch}; {_INSTALL}")
    return compile_hosted(
        kernel,
        folder,
        compiler=compiler,
        flags=flags_for(arch),
        support=runtime_folder() / "scratch.cpp",
        cross=is_cross(arch),
    )


def load(kernel: Kernel, folder: Path) -> Callable[..., None]:
    """Build the kernel's library, the one that was judged, and return it as a callable on torch CPU tensors.

    This puts generated machine code into the process, so load only what has been verified.

    Raises:
        EnvironmentProblem: V112, the compiler refused or is missing.
    """
    built = build(kernel, folder)
    if not built.ok or built.artifact is None:
        raise EnvironmentProblem.of("V112", f"{kernel.name} could not be built: {built.log[-500:]}")
    return launchable(kernel, built.artifact)


def available() -> Mapping[Capability, Availability]:
    """Return what works here: the CPU is the device, so a compiler is all it takes."""
    compiler = cpp_compiler("native")
    if compiler is None:
        missing = Availability(ok=False, detail="no g++ on PATH", install="apt-get install g++")
    else:
        missing = Availability(ok=True, detail=f"{Path(compiler.path).name} {compiler.version}")
    return {
        "emit": Availability(ok=True, detail="built in"),
        "compile": missing,
        "emulate": missing,
        "device": missing,
    }


CPP = Backend(
    name="cpp",
    title="C++20 with OpenMP on the CPU",
    language="cpp",
    subset="cpp",
    suffix=".cpp",
    arches=ARCHES,
    machine=lambda arch: "cpp.aarch64" if arch == "aarch64" else "cpp.x86_64",
    passes=(*staging_passes(layouts), ("mark_unread", mark_unread)),
    finish=(("settle_schedules", settle_schedules),),
    library=library_leaf,
    signature=signature,
    print_kernel=emit,
    read_back=read,
    build=build,
    loader="c_abi.py.j2",
    where="native",
    available=available,
    docs="cpp",
    dtypes=("float32", "float64", "float16", "bfloat16"),
    views=True,
    fills=True,
    movement=True,
    functions=RARE,
    layouts=layouts,
    load=load,
    foreign=FOREIGN,
)
