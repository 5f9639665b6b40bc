"""The cpp backend: one C++20 file per kernel, built with g++, run on the CPU itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from septran.backends.base import Availability, Backend, Capability, Emulation, TileCost
from septran.backends.cpp import wasm
from septran.backends.cpp.emit import emit, first_includes, runtime_folder
from septran.backends.cpp.extension_file import FOREIGN as EXTENSION
from septran.backends.cpp.foreign import FOREIGN
from septran.backends.cpp.inline import FOREIGN as INLINE
from septran.backends.cpp.leaves import COLS, layouts, library_leaf, signature
from septran.backends.cpp.passes import place_scratch, place_workspaces, runtime, settle_schedules
from septran.backends.cpp.planes import lie_in_planes
from septran.backends.cpp.priced import priced
from septran.backends.cpp.reading import read
from septran.backends.cpp.shared import share_windows
from septran.backends.cpp.windows import share_panels, stage_windows
from septran.backends.cpp.winograd import WINOGRAD, declared
from septran.errors import EnvironmentProblem
from septran.ir.scalar import RARE
from septran.kernel import Kernel, Leaf
from septran.machine import load_machine
from septran.passes.drop_accumulators import drop_accumulators
from septran.passes.drop_copies import drop_copies
from septran.passes.mark_unread import mark_unread
from septran.passes.merge_taps import merge_taps
from septran.passes.staging import staging_passes
from septran.toolchain.built import Built
from septran.toolchain.compilers import Compiler, cpp_compiler, fills_locals, flags_for
from septran.toolchain.hosted import compile_hosted
from septran.toolchain.launcher import launchable
from septran.toolchain.processors import PROCESSORS, foreign
from septran.toolchain.sought import compile_sought
from septran.toolchain.watched import compile_watched

ARCHES = ("native", "x86_64_v4", "x86_64_v3", "generic", *PROCESSORS, wasm.ARCH)


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile the kernel into `folder`: kernel.o, kernel.so and, where it can be, the static host kernel.host."""
    arch = kernel.arch or ARCHES[0]
    if arch == wasm.ARCH:
        return wasm.build(kernel, folder)
    compiler = cpp_compiler(arch)
    if compiler is None:
        return Built(ok=False, artifact=None, log=f"no C++ compiler for {arch}; {_install(arch)}")
    return _compiled(kernel, folder, compiler, ())


def _compiled(kernel: Kernel, folder: Path, compiler: Compiler, more: tuple[str, ...]) -> Built:
    arch = kernel.arch or ARCHES[0]
    return compile_hosted(
        kernel,
        folder,
        compiler=compiler,
        flags=(*flags_for(arch), *more),
        support=runtime_folder() / "scratch.cpp",
        processor=foreign(arch),
        first=first_includes(),
    )


DEFINED = ("-fsanitize=bounds,shift-exponent", "-fsanitize-undefined-trap-on-error")
"""Of the build that is judged beside the one that users run: what C++ leaves open ends it."""


def filled(kernel: Kernel, folder: Path) -> Built:
    """Compile the kernel as `build` does, with a pattern in every local variable that nobody sets."""
    compiler = cpp_compiler(kernel.arch or ARCHES[0])
    more = () if compiler is None or kernel.arch == wasm.ARCH else fills_locals(compiler)
    if compiler is None or not more:
        return Built(ok=False, artifact=None, log="the compiler has no pattern for them")
    return _compiled(kernel, folder, compiler, (*more, *DEFINED))


def watched(kernel: Kernel, folder: Path) -> Built:
    """Compile the kernel into a program in which ThreadSanitizer sees its threads."""
    compiler = cpp_compiler("native")
    arch = kernel.arch or ARCHES[0]
    if compiler is None or foreign(arch) or arch == wasm.ARCH:
        return Built(ok=False, artifact=None, log=f"kernels for {arch} cannot be watched here")
    support = runtime_folder() / "scratch.cpp"
    return compile_watched(
        kernel, folder, compiler=compiler, flags=flags_for(arch), support=support
    )


def sought(kernel: Kernel, folder: Path) -> Built:
    """Compile the kernel into a program that seeks inputs on which its comparisons come out otherwise."""
    compiler = cpp_compiler("native")
    arch = kernel.arch or ARCHES[0]
    if compiler is None or foreign(arch) or arch == wasm.ARCH:
        return Built(ok=False, artifact=None, log=f"no inputs are sought for kernels for {arch}")
    support = (runtime_folder() / "scratch.cpp",)
    return compile_sought(kernel, folder, compiler=compiler, flags=flags_for(arch), support=support)


def _install(arch: str) -> str:
    processor = foreign(arch)
    return f"apt-get install {processor.packages if processor else 'g++'}"


def tile_cost(kernel: Kernel, leaf: Leaf, folder: Path) -> TileCost:
    """Return what a full tile of `leaf` costs by the listing of the compiler that builds the kernel."""
    compiler = cpp_compiler(kernel.arch or ARCHES[0]) if kernel.arch != wasm.ARCH else None
    if compiler is None:
        return TileCost()
    return priced(kernel, leaf, compiler, load_machine(CPP.machine(kernel.arch)), folder)


def emulator(arch: str) -> Emulation | Availability | None:
    """Return how programs for `arch` run here, None when the machine itself does, or what is missing."""
    if arch == wasm.ARCH:
        return wasm.emulator()
    processor = foreign(arch)
    if processor is None:
        return None
    missing = [] if cpp_compiler(arch) else [processor.compilers[0]]
    missing += [] if processor.emulator else [f"qemu-{processor.machine}"]
    if not missing:
        return Emulation(command=processor.emulator)
    detail = f"no {' and no '.join(missing)} on PATH"
    return Availability(ok=False, detail=detail, install=_install(arch))


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
    machine=lambda arch: f"cpp.{arch}" if arch in (*PROCESSORS, wasm.ARCH) else "cpp.x86_64",
    passes=(
        *staging_passes(layouts),
        ("stage_windows", stage_windows),
        ("share_panels", share_panels),
        ("share_windows", share_windows),
        ("merge_taps", merge_taps),
        ("drop_accumulators", drop_accumulators),
        ("drop_copies", drop_copies),
        ("lie_in_planes", lie_in_planes),
        ("mark_unread", mark_unread),
    ),
    finish=(
        ("settle_schedules", settle_schedules),
        ("place_workspaces", place_workspaces),
        ("place_scratch", place_scratch),
    ),
    runtime=runtime,
    library=library_leaf,
    signature=signature,
    print_kernel=emit,
    read_back=read,
    build=build,
    filled=filled,
    tile_cost=tile_cost,
    watched=watched,
    sought=sought,
    loader="c_abi.py.j2",
    where="native",
    emulator=emulator,
    available=available,
    docs="cpp",
    dtypes=("float32", "float64", "float16", "bfloat16"),
    maths=(WINOGRAD,),
    declared=declared,
    dynamic=True,
    views=True,
    fills=True,
    whole_sums=True,
    movement=("scan", "argreduce", "gather", "scatter_acc"),
    opaque=True,
    functions=RARE,
    layouts=layouts,
    columns=COLS,
    load=load,
    launch=launchable,
    foreigns=(EXTENSION, FOREIGN, INLINE),
)
