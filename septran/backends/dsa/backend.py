"""The dsa_c backend: C over a vendor's scratchpad-machine calls, run in a simulator that checks hazards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from septran.assets import listing
from septran.backends.base import (
    Availability,
    Backend,
    Built,
    Capability,
    Emulation,
    InPlace,
)
from septran.backends.dsa import library as vendor_library
from septran.backends.dsa.cycles import possible
from septran.backends.dsa.emit import emit, held, library_leaf, runtime_folder, signature
from septran.backends.dsa.leaf_calls import place_leaves
from septran.backends.dsa.library import Library
from septran.backends.dsa.machine import machine_name, storage
from septran.backends.dsa.passes.distribute import distribute
from septran.backends.dsa.passes.expand_leaves import expand_leaves
from septran.backends.dsa.passes.order_engines import order_engines
from septran.backends.dsa.reading import read
from septran.backends.dsa.vendor import load_vendor
from septran.errors import ConfigError
from septran.host.link import Runtime
from septran.ir.nodes import Program
from septran.ir.written_out import WRITTEN_OUT
from septran.kernel import Kernel
from septran.passes.drop_implied import drop_implied
from septran.passes.drop_unreached import drop_unreached
from septran.passes.pipeline_loops import pipeline_loops
from septran.passes.place_buffers import place_buffers
from septran.passes.staging import staging_passes
from septran.toolchain.compilers import Compiler, cache_folder, fills_locals, find
from septran.toolchain.hosted import compile_hosted, support_object
from septran.toolchain.sought import compile_sought
from septran.toolchain.wheels import Wheel

FLAGS = (*vendor_library.FLAGS, "-shared")
_MACHINE_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-I.")
_HEADERS = ("sim.h", "vendor_lib.h")
_DECLARED = re.compile(r"^(?!static|#)[\w *]*?\b((?:vl|vendor_lib)_\w+)\([^;]*;", re.MULTILINE)
_INSTALL = "apt-get install gcc"
_TOLD, _TOLD_HOOKS = "sim_told.c", frozenset({"st_after_call"})


def compiler() -> Compiler | None:
    """Return the C compiler, or None."""
    return find("gcc")


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile the kernel, and link it with the simulator of its machine: the library and the static host.

    Of a vendor with a library of its own, which is a shared one, only the library is made: a Python child judges it.
    """
    gcc = compiler()
    if gcc is None:
        return Built(ok=False, artifact=None, log=f"no gcc on PATH; {_INSTALL}")
    vendor = load_vendor(storage(machine_name(kernel.arch)).vendor)
    if vendor.library is not None:
        there = Path(__file__).resolve().parent / vendor.runtime
        sources = tuple(there / name for name in vendor.sources)
        return vendor_library.build(kernel, folder, vendor.library, sources, gcc)
    # on the machine itself the vendor's compiler builds it: nobody pays for the pattern
    flags = (*FLAGS, *fills_locals(gcc))
    return compile_hosted(kernel, folder, compiler=gcc, flags=flags, support=_simulator(kernel))


def sought(kernel: Kernel, folder: Path) -> Built:
    """Compile the kernel into a program that seeks inputs on which what it compares comes out otherwise."""
    gcc = compiler()
    vendor = load_vendor(storage(machine_name(kernel.arch)).vendor)
    if gcc is None or vendor.library is not None:
        why = f"no gcc on PATH; {_INSTALL}" if gcc is None else "a vendor's own model tells nothing"
        return Built(ok=False, artifact=None, log=why)
    machine = support_object(
        gcc, _simulator(kernel, _TOLD, hooks=_TOLD_HOOKS), cache_folder() / "host"
    )
    if machine.path is None:
        return Built(ok=False, artifact=None, log=machine.missing)
    flags = (*FLAGS, *fills_locals(gcc))
    return compile_sought(kernel, folder, compiler=gcc, flags=flags, support=(machine.path,))


def _simulator(kernel: Kernel, *more: str, hooks: frozenset[str] = frozenset()) -> Runtime:
    """The simulator for the kernel's machine; the figures are the machine file's, whatever the kernel's files say.

    more: further sources. hooks: names of theirs that who calls the kernel calls.
    """
    rules = storage(machine_name(kernel.arch))
    sources = (*load_vendor(rules.vendor).sources, *more)
    root = runtime_folder()
    texts = {name: (root / name).read_text(encoding="utf-8") for name in (*sources, *_HEADERS)}
    texts["vl_config.h"] = rules.config()
    calls = _DECLARED.findall(texts["vendor_lib.h"])
    return Runtime(
        files=tuple(texts.items()),
        units=sources,
        calls=frozenset(calls),
        flags=_MACHINE_FLAGS,
        hooks=hooks,
    )


def available() -> Mapping[Capability, Availability]:
    """Return what works here: emission always, the simulator wherever there is a C compiler."""
    gcc = compiler()
    found = (
        Availability(ok=True, detail=f"gcc {gcc.version}, simulator built in")
        if gcc is not None
        else Availability(ok=False, detail="no gcc on PATH", install=_INSTALL)
    )
    return {
        "emit": Availability(ok=True, detail="TensorIR of the TVM inside tilelang"),
        "compile": found,
        "emulate": found,
        "device": Availability(
            ok=False, detail="vendor_lib is implemented by the simulator only", install=""
        ),
    }


def emulator(arch: str) -> Emulation | Availability | None:
    """Return how kernels for a vendor's own model run, or what is missing; None for the simulator's machines."""
    library = _library(arch)
    return None if library is None else library.emulation(compiler())


def flushes_denormals(arch: str) -> bool:
    """Return whether the arch's vendor says that its engine has no denormals."""
    return load_vendor(storage(machine_name(arch)).vendor).flushes_denormals


def parts() -> Mapping[str, Wheel]:
    """Return what `septran doctor --install dsa_c+NAME` brings: the models of vendors' machines."""
    found = (_library(arch) for arch in DSA_C.arches)
    return {library.part: library.wheel for library in found if library is not None}


def _library(arch: str) -> Library | None:
    try:
        return load_vendor(storage(machine_name(arch)).vendor).library
    except ConfigError:  # a project's own file, which is told when it is used
        return None


def expand(program: Program) -> Program:
    """Pass: `expand_leaves` with the integers that the Program's machine has."""
    vendor = load_vendor(storage(program.machine).vendor)
    return expand_leaves(program, integers="int32" in vendor.dtypes)


def place(program: Program) -> Program:
    """Pass: `place_buffers` in the memories of the Program's machine, rows padded as it stores them."""
    rules = storage(program.machine)
    return place_buffers(program, rules.banks(), rules.nbytes)


def order(program: Program) -> Program:
    """Pass: `order_engines` with the events that the Program's machine has."""
    rules = storage(program.machine)
    return order_engines(program, rules.nbytes, rules.limit("events"))


def _arches() -> tuple[str, ...]:
    """Return "generic" and every machine that a data file adds: configs/machines/dsa_c.<arch>.yaml."""
    stem = "configs/machines/dsa_c."
    files = (a.name for a in listing("configs/machines") if a.name.startswith(stem))
    names = {f.removeprefix(stem).removesuffix(".yaml") for f in files} - {"yaml"}
    return ("generic", *sorted(names))


DSA_C = Backend(
    name="dsa_c",
    title="C over a scratchpad machine's vendor library",
    language="c",
    subset="c",
    suffix=".c",
    arches=_arches(),
    machine=machine_name,
    passes=(
        *staging_passes(),
        ("pipeline_loops", pipeline_loops),
    ),
    finish=(
        ("expand_leaves", expand),
        ("place_buffers", place),
        ("distribute", distribute),
        ("order_engines", order),
        ("drop_unreached", drop_unreached),
        ("drop_implied", drop_implied),
    ),
    library=library_leaf,
    signature=signature,
    print_kernel=emit,
    read_back=read,
    build=build,
    loader="dsa_sim.py.j2",
    where="emulated",
    available=available,
    emulator=emulator,
    parts=parts,
    flushes_denormals=flushes_denormals,
    docs="dsa_c",
    dtypes=("float32", "float16", "bfloat16"),
    lacks=(("float64", "the matrix engines of these machines add in float32"),),
    views=True,
    fills=True,
    functions=WRITTEN_OUT,
    movement=("scan", "argreduce", "gather", "scatter_acc"),
    in_place=InPlace(place_leaves, held),
    figures=possible,
    sought=sought,
)
