"""What is printed is ordered, and nothing in it could be left out.

Every operator x target: `passes` and `finish` leave a Program without a Hazard, and dropping any Sync, Post or
Await from it, or both ends of an event, is one. Programs are bound for given sizes, so this is decided for
those; small sizes need fewer waits than larger ones, which is why the operators' sample sizes are taken.
"""

from __future__ import annotations

import functools

import pytest

from septran import backends
from septran.ir.access import is_distributed
from septran.ir.nodes import Await, Post, Program, Sync, walk
from septran.passes.interpret import check_order
from septran.passes.run import lower
from tests.bind.running import all_operators, bound
from tests.passes.mutants import unseen, without_event, without_one

OPERATORS = all_operators()
TARGETS = [(name, arch) for name in backends.names() for arch in backends.get(name).arches or ("",)]
ARCHES = dict(reversed(TARGETS))
CORES = 2
SIZES = {
    "gemm_seed": {"M": 640, "N": 640, "K": 640},  # its own take a minute
    # large enough that every loop comes round on one core
    "batched_gemm": {"S": 2, "M": 256, "N": 256, "K": 256},
    "conv2d_1x1": {"B": 1, "H": 14, "W": 14, "Ci": 128, "Co": 128},
    "gemv": {"M": 4096, "K": 256},
    **{f"row_{f}": {"M": 4096, "N": 256} for f in ("sum", "mean", "max")},
    **{f"col_{f}": {"M": 256, "N": 4096} for f in ("sum", "mean", "max")},
}
SMALLER = {
    ("conv2d_1x1", "tilelang_hip", "gfx942"): {"Ci": 64},
    ("conv2d_1x1", "cuda_c", "sm_120a"): {"Ci": 64},
}
SMALLER |= {(op, "hip_c", "gfx942"): {"Ci": 16} for op in ("conv2d_1x1", "conv2d_stride2")}
"""their operands' stages are more than these machines' shared memory"""
SMALLER |= {
    ("gemm_seed", target, arch): {"M": 96, "N": 96, "K": 96}
    for target, arch in TARGETS
    if target.startswith("triton")
}


@functools.cache
def finished(name: str, target: str, arch: str) -> Program:
    """The Program that is printed at the operator's sample sizes."""
    op, path = OPERATORS[name]
    backend = backends.get(target)
    dtype = next(d for d in op.dtypes if d in backend.dtypes)
    dims = {**op.dims, **SIZES.get(name, {}), **SMALLER.get((name, target, arch), {})}
    found = bound(op, path, backend, arch, dtype, dims)
    return backend.finished(lower(found.program, backend.passes), {})


REFUSED = {("cross_entropy", "pallas_tpu")}
"""its labels are int64, which the target does not have"""


def cases(quick):
    for target, arch in TARGETS:
        for name in OPERATORS:
            if (name, target) in REFUSED:
                continue
            first = arch == ARCHES[target]
            marks = () if first and quick(name, target) else pytest.mark.slow
            yield pytest.param(name, target, arch, id=f"{name}-{target}-{arch}", marks=marks)


def _quick(name: str, target: str) -> bool:
    if name == "gemm_seed":
        return False
    return target in ("cuda_c", "dsa_c") or name in ("gemm", "softmax", "conv2d", "attention")


@pytest.mark.few(8)
@pytest.mark.parametrize(("name", "target", "arch"), list(cases(_quick)))
def test_nothing_can_be_left_out(name, target, arch):
    program = finished(name, target, arch)
    for cores in (1, CORES) if is_distributed(program) else (1,):
        check_order(program, cores=cores)
    assert unseen(without_one(program)) == []
    assert unseen(without_event(program)) == []


def test_only_targets_that_order_their_engines_themselves_have_waits():
    """A core, a Triton program and a TileLang program run their statements in order: nothing can be forgotten."""
    waiting = set()
    for target in backends.names():
        body = finished("attention", target, ARCHES[target]).body
        if any(isinstance(s, Sync | Post | Await) for s in walk(body)):
            waiting.add(target)
    assert waiting == {"cuda_c", "hip_c", "dsa_c"}
