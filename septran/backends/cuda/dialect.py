"""CUDA C++ and HIP C++: one emitter, and all in which the two spellings and machines differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from septran.backends.cuda.spelling import CUDA_TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a target of this family is written.

    api: what names of the host's calls begin with. suffix: of the file. wave: threads that run in step. types: dtype -> word.
    headers: of every kernel, the first is the one it includes; a header in runtime/<api>/ stands for the one beside it.
    by_address: a kernel's attributes are set through the address of its host function.
    """

    api: str
    suffix: str
    wave: int
    types: Mapping[str, str]
    headers: tuple[str, ...]
    by_address: bool = False


_SHARED = ("st_device.cuh", "st_view.cuh", "st_copy.cuh", "st_gemm.cuh", "st_reduce.cuh")
CUDA = Dialect(
    api="cuda",
    suffix=".cu",
    wave=32,
    types=CUDA_TYPES,
    headers=("septran_cuda.cuh", *_SHARED, "st_mma.cuh"),
)
HIP = Dialect(
    api="hip",
    suffix=".hip",
    wave=64,
    types={**CUDA_TYPES, "float16": "_Float16", "bfloat16": "hip_bfloat16"},
    headers=("septran_hip.cuh", *_SHARED, "st_mfma.cuh"),
    by_address=True,
)


def dialect(backend: str) -> Dialect:
    """Return how kernels of `backend` (a Program's target, a LeafSpec's backend) are written."""
    return HIP if backend == "hip_c" else CUDA
