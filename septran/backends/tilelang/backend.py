"""The tilelang_cuda and tilelang_hip backends: NVIDIA and AMD GPUs through TileLang."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from septran.backends.base import Backend, OnDevice
from septran.backends.tilelang.emit import emit
from septran.backends.tilelang.foreign import FOREIGN
from septran.backends.tilelang.leaves import library, signature
from septran.backends.tilelang.passes.pipeline import FINISH, PASSES
from septran.backends.tilelang.reading import read
from septran.backends.tilelang.toolchain import (
    ARCHES,
    DEVICE_SESSION,
    available,
    build,
    load,
    write_device,
)
from septran.ir.written_out import WRITTEN_OUT
from septran.kernel import Kernel
from septran.toolchain.compilers import cuda_home


def _room(kernel: Kernel) -> int:
    from septran.backends.tilesim.gpu import SHARED_LIMIT

    return SHARED_LIMIT[kernel.arch]


def _manifest(
    name: str,
    vendor: Literal["nvidia", "amd"],
    *,
    env: Callable[[], tuple[tuple[str, str], ...]] = tuple,
) -> Backend:
    makers, runtime = {"nvidia": ("NVIDIA", "cuda"), "amd": ("AMD", "hip")}[vendor]
    return Backend(
        name=name,
        title=f"TileLang for {makers} GPUs",
        language="python",
        subset="tilelang",
        suffix=".py",
        arches=ARCHES[runtime],
        machine=lambda arch: f"{name}.{arch}",
        copies_ordered_by="TileLang orders copies itself",
        passes=PASSES,
        finish=FINISH,
        library=library,
        signature=signature,
        print_kernel=emit,
        read_back=read,
        room=_room,
        build=build,
        loader="tilesim.py.j2",
        where="emulated",
        available=partial(available, runtime),
        docs=name,
        dtypes=("float32", "float16", "bfloat16", "float64"),
        views=True,
        fills=True,
        functions=("sin", "cos", "atan", "fmod", *WRITTEN_OUT),
        movement=("scan", "argreduce", "gather", "scatter_acc"),
        load=load,
        foreigns=(FOREIGN,) if vendor == "nvidia" else (),
        device=OnDevice(
            vendor=vendor,
            build=write_device,
            loader="tilelang_device.py.j2",
            session=DEVICE_SESSION,
            env=env,
        ),
    )


TILELANG_CUDA = _manifest("tilelang_cuda", "nvidia", env=cuda_home)
TILELANG_HIP = _manifest("tilelang_hip", "amd")
