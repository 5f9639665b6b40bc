"""Where a kernel is run: on a GPU of this machine that fits, on the machine itself, or emulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from septran import gpu
from septran.backends.base import Availability, Backend, Built, Capability, OnDevice
from septran.errors import EnvironmentProblem
from septran.kernel import Kernel
from septran.plan.cores import cores
from septran.sandbox_launcher import LOCAL_SOCKETS
from septran.settings import Settings
from septran.toolchain import environment
from septran.verify.sandbox import MIB
from septran.verify.session import Sessions
from septran.verify.verdict import Where

Wanted = Literal["auto", "device", "emulated"]
WANTED: tuple[Wanted, ...] = ("auto", "device", "emulated")
_GUARD = 256 * 1024
_CALLS: Mapping[gpu.Vendor, tuple[str, ...]] = {"nvidia": (LOCAL_SOCKETS,), "amd": ()}
"""what a driver needs when it starts, of the system calls that other children do not have"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the kernels of one target run: found once, handed down to all who build, run or time them.

    arch: of the target, "" when it has none. threads: of a kernel. where: native, emulated or device. build: kernel
    + empty folder -> Built. sessions: what the child needs. trouble: why nothing can be run here.
    """

    backend: Backend
    arch: str
    threads: int
    where: Where
    build: Callable[[Kernel, Path], Built]
    sessions: Sessions
    trouble: EnvironmentProblem | None = None

    def require(self) -> None:
        """Raise EnvironmentProblem V110 or V113 when kernels cannot be run here in the way that was asked for."""
        if self.trouble is not None:
            raise self.trouble


def place_in(settings: Settings, backend: Backend, arch: str, wanted: str = "auto") -> Place:
    """Return `place_of` with the settings' threads, time of a call and memory."""
    found = place_of(backend, arch, wanted, settings.threads or cores())
    sessions = found.sessions
    if settings.run_timeout_s is not None:
        sessions = replace(sessions, call_timeout_s=settings.run_timeout_s)
    if settings.memory_mib is not None:
        sessions = replace(sessions, memory_bytes=settings.memory_mib * MIB)
    return replace(found, sessions=sessions)


def place_of(backend: Backend, arch: str, wanted: str, threads: int) -> Place:
    """Return where kernels of `backend` for `arch` run. wanted: auto takes a GPU when one fits.

    Never raises: what is in the way is the place's `trouble`, told when a kernel is to be built.
    """
    found = device_for(backend, arch) if wanted != "emulated" else None
    if isinstance(found, gpu.Gpu) and backend.device is not None:
        return Place(
            backend=backend,
            arch=arch,
            threads=threads,
            where="device",
            build=backend.device.build,
            sessions=_device_sessions(backend, found, threads),
        )
    trouble = _not_runnable(backend)
    emulation = backend.emulator(arch)
    if isinstance(emulation, Availability):
        trouble = _problem("V110", _cannot_run(backend, emulation), emulation.install)
        emulation = None
    where: Where = "emulated" if emulation else backend.where
    if wanted == "device" and where != "native":
        assert isinstance(found, gpu.Missing)
        trouble = _problem(
            "V113",
            f"no device for {backend.name}{f' {arch}' if arch else ''} here: {found.detail}",
            found.install,
        )
    settings = dict(backend.session)
    loader = backend.loader
    if emulation:
        settings |= {"emulator": emulation.command, **dict(emulation.session)}
        loader = emulation.loader or loader
    if backend.packages:
        settings = environment.session(backend.name, settings)
    sessions = Sessions(loader=loader, threads=threads, **settings)  # type: ignore[arg-type]
    return Place(
        backend=backend,
        arch=arch,
        threads=threads,
        where=where,
        build=backend.build,
        sessions=sessions,
        trouble=trouble,
    )


def device_place(settings: Settings, backend: Backend, how: OnDevice, arch: str) -> Place:
    """Return where files that SepTran did not write run on a GPU of this machine; `trouble` where none fits.

    how: such files run there. arch: taken where the GPU runs it, else the first of the target's that it runs.
    """
    own = replace(backend, device=how)
    found = device_for(own, arch)
    for other in backend.arches if isinstance(found, gpu.Missing) else ():
        if isinstance(device_for(own, other), gpu.Gpu):
            arch = other
            break
    return place_in(settings, own, arch, "device")


def _not_runnable(backend: Backend) -> EnvironmentProblem | None:
    needed: Capability = "compile" if backend.where == "native" else "emulate"
    state = backend.available().get(needed)
    if state is None or state.ok:
        return None
    return _problem("V110", _cannot_run(backend, state), state.install)


def _cannot_run(backend: Backend, state: Availability) -> str:
    return f"kernels for {backend.name} cannot be run here: {state.detail}"


def _problem(code: str, message: str, install: str) -> EnvironmentProblem:
    return EnvironmentProblem.of(code, message, help=install)


def device_for(backend: Backend, arch: str) -> gpu.Gpu | gpu.Missing:
    """Return the GPU that kernels for `arch` run on here, or the missing piece and what brings it."""
    if backend.device is None:
        state = backend.available().get("device")
        return gpu.Missing(
            detail=state.detail if state else "this backend has no device runner",
            install=state.install if state else "",
        )
    found = gpu.find(backend.device.vendor)
    if isinstance(found, gpu.Missing):
        return found
    if not gpu.fits(arch, found):
        fitting = [name for name in backend.arches if gpu.fits(name, found)]
        return gpu.Missing(
            detail=f"the GPU here is {found}, which does not run {arch}",
            install=f"--arch {fitting[0]}" if fitting else "",
        )
    state = backend.available().get("device")
    if state is not None and not state.ok:
        return gpu.Missing(detail=state.detail, install=state.install)
    return found


def _device_sessions(backend: Backend, found: gpu.Gpu, threads: int) -> Sessions:
    assert backend.device is not None
    settings: dict[str, object] = {
        "memory_bytes": 64 * 1024 * MIB,
        "address_space": False,  # the driver reserves address space for all of the GPU's memory
        "load_timeout_s": 240.0,
        "call_timeout_s": 120.0,
        "budget_s": 60.0,
        "rw_paths": gpu.nodes(found.vendor),
        "calls": _CALLS[found.vendor],
        "ro_paths": gpu.reads(found),
        "env": (*backend.device.env(), *gpu.environment()),
        "gpu": found,
        "guard": _GUARD,
        **dict(backend.device.session),
    }
    return Sessions(loader=backend.device.loader, threads=threads, **settings)  # type: ignore[arg-type]
