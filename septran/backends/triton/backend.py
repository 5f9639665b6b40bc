"""The triton_cuda, triton_hip and triton_npu backends: NVIDIA and AMD GPUs and Ascend NPUs through Triton."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from septran.backends.base import Backend, OnDevice
from septran.backends.text.prelude import calls_of
from septran.backends.triton import ascend
from septran.backends.triton.arches import arches_of
from septran.backends.triton.emit import emit
from septran.backends.triton.foreign import FOREIGN
from septran.backends.triton.leaves import library, signature
from septran.backends.triton.passes import FINISH
from septran.backends.triton.prelude import PRELUDE
from septran.backends.triton.reading import read
from septran.backends.triton.toolchain import DEVICE_SESSION, available, build, load, write_device
from septran.ir.written_out import WRITTEN_OUT
from septran.passes.name_scores import name_scores
from septran.passes.staging import staging_passes


def _manifest(name: str, vendor: Literal["nvidia", "amd"]) -> Backend:
    makers, runtime = {"nvidia": ("NVIDIA", "cuda"), "amd": ("AMD", "hip")}[vendor]
    return Backend(
        name=name,
        title=f"Triton for {makers} GPUs",
        language="python",
        subset="triton",
        suffix=".py",
        arches=arches_of(runtime),
        machine=lambda arch: f"{name}.{arch}",
        copies_ordered_by="Triton orders copies itself",
        passes=(
            *staging_passes(),
            ("name_scores", name_scores),
        ),
        finish=FINISH,
        library=library,
        signature=signature,
        print_kernel=emit,
        runtime=calls_of(PRELUDE),
        room=lambda kernel: (
            0
        ),  # of shared memory the compile gate knows; the interpreter has no limit
        read_back=read,
        build=build,
        loader="triton_interp.py.j2",
        where="emulated",
        available=partial(available, runtime),
        docs=name,
        dtypes=("float32", "float16", "bfloat16", "float64"),
        views=True,
        fills=True,
        functions=("sin", "cos", *WRITTEN_OUT),
        movement=("scan", "argreduce", "gather", "scatter_acc"),
        load=load,
        device=OnDevice(
            vendor=vendor,
            build=write_device,
            loader="triton_device.py.j2",
            session=DEVICE_SESSION,
        ),
        foreigns=(FOREIGN,) if runtime == "cuda" else (),
    )


TRITON_CUDA = _manifest("triton_cuda", "nvidia")
TRITON_HIP = _manifest("triton_hip", "amd")
TRITON_NPU = replace(
    TRITON_CUDA,
    name=ascend.NAME,
    title="Triton for Ascend NPUs",
    arches=arches_of("npu"),
    machine=lambda arch: f"{ascend.NAME}.{arch}",
    # BiShengIR 1.2 splits a kernel over its cube and vector cores and takes no branch in one that has both
    library=partial(library, branches=False),
    build=ascend.build,
    available=ascend.available_npu,
    docs=ascend.NAME,
    dtypes=("float32", "float16", "bfloat16"),
    lacks=(("float64", "an Ascend NPU's vector and cube cores do not compute in it"),),
    packages=ascend.PACKAGES,
    pythons=ascend.PYTHONS,
    load=None,
    device=None,
    foreigns=(),
)
