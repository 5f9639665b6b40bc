"""Where a kernel is run: on a GPU of this machine that fits, on the machine itself, or emulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from septran import gpu
from septran.backends.base import Backend, Built
from septran.errors import EnvironmentProblem
from septran.kernel import Kernel
from septran.verify.sandbox import MIB
from septran.verify.session import Sessions
from septran.verify.verdict import Where

Wanted = Literal["auto", "device", "emulated"]
WANTED: tuple[Wanted, ...] = ("auto", "device", "emulated")
_GUARD = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How kernels are built and what their child needs. build: kernel + empty folder -> Built."""

    where: Where
    build: Callable[[Kernel, Path], Built]
    sessions: Sessions


def place_of(backend: Backend, arch: str, wanted: str, threads: int) -> Place:
    """Return where kernels of `backend` for `arch` run. wanted: auto takes a GPU when one fits.

    Raises:
        EnvironmentProblem: V113, `device` is wanted and there is none that fits.
    """
    found = device_for(backend, arch) if wanted != "emulated" else None
    if isinstance(found, gpu.Gpu) and backend.device is not None:
        return Place(
            where="device",
            build=backend.device.build,
            sessions=_device_sessions(backend, found, threads),
        )
    if wanted == "device" and backend.where != "native":
        assert isinstance(found, gpu.Missing)
        raise EnvironmentProblem.of(
            "V113",
            f"no device for {backend.name}{f' {arch}' if arch else ''} here: {found.detail}",
            help=found.install,
        )
    settings = dict(backend.session)
    sessions = Sessions(loader=backend.loader, threads=threads, **settings)  # type: ignore[arg-type]
    return Place(where=backend.where, build=backend.build, sessions=sessions)


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
        "ro_paths": gpu.reads(found),
        "env": (*backend.device.env(), *gpu.environment()),
        "gpu": found,
        "guard": _GUARD,
        **dict(backend.device.session),
    }
    return Sessions(loader=backend.device.loader, threads=threads, **settings)  # type: ignore[arg-type]
