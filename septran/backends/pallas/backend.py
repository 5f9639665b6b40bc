"""The pallas_tpu backend: Google TPUs through JAX's Pallas."""

from __future__ import annotations

from septran.backends.base import Backend
from septran.backends.pallas.emit import emit
from septran.backends.pallas.leaves import library, signature
from septran.backends.pallas.passes.plan_blocks import plan_blocks
from septran.backends.pallas.passes.plan_rings import plan_rings
from septran.backends.pallas.passes.read_windows import read_windows
from septran.backends.pallas.prelude import PRELUDE
from septran.backends.pallas.reading import read
from septran.backends.pallas.shapes import LANGUAGE
from septran.backends.pallas.toolchain import ENV, LIBTPU, NAME, PACKAGES, available, build
from septran.backends.text.prelude import calls_of
from septran.passes.staging import staging_passes

PALLAS_TPU = Backend(
    name=NAME,
    title="Pallas for Google TPUs",
    language=LANGUAGE,
    subset=LANGUAGE,
    suffix=".py",
    arches=("v5e", "v4", "v5p", "v6e", "tpu7x"),
    machine=lambda arch: f"{NAME}.{arch}",
    copies_ordered_by="Pallas orders copies itself",
    passes=staging_passes(),
    finish=(
        ("plan_rings", plan_rings),
        ("read_windows", read_windows),
        ("plan_blocks", plan_blocks),
    ),
    library=library,
    signature=signature,
    print_kernel=emit,
    read_back=read,
    runtime=calls_of(PRELUDE),
    room=lambda kernel: 0,  # of vector memory libtpu knows; the simulation has no limit
    build=build,
    loader="pallas_sim.py.j2",
    where="emulated",
    available=available,
    docs=NAME,
    dtypes=("float32", "bfloat16"),
    lacks=tuple(
        (dtype, "Pallas for TPUs takes float32 and bfloat16, which a TPU's units compute in")
        for dtype in ("float16", "float64")
    ),
    packages=PACKAGES,
    extras=(LIBTPU,),
    flushes_denormals=lambda arch: True,
    session=(
        ("env", ENV),
        ("address_space", False),  # XLA reserves more than it uses
        ("memory_bytes", 8 * 1024 * 1024 * 1024),
        ("load_timeout_s", 240.0),
        ("call_timeout_s", 240.0),
        ("budget_s", 60.0),
    ),
)
