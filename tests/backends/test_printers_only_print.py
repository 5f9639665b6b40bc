"""Where memory lies, which parts are loaded and which helpers come along is in the Program that is printed."""

from __future__ import annotations

import pytest

from septran import backends
from septran.ir.access import regions
from septran.ir.nodes import Alloc, Copy, Program, walk
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve


def finished(op: str, backend: str) -> tuple[Program, dict]:
    plan = resolve(GenRequest(op=op, backend=backend))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.finished(lowered.program, leaves), {
        leaf.spec.symbol: leaf for leaf in leaves.values()
    }


def test_cpp_prints_the_offsets_that_the_program_has():
    program, leaves = finished("gemm", "cpp")
    buffers = [s.buffer for s in walk(program.body) if isinstance(s, Alloc)]
    assert len({b.offset for b in buffers}) == len(buffers) and None not in {
        b.offset for b in buffers
    }
    kernel = backends.get("cpp").print_kernel(program, leaves)
    text = dict(kernel.files)[kernel.main]
    assert all(f"(core + {b.offset})" in text for b in buffers)
    peaks = program.option("scratch")
    assert isinstance(peaks, dict)
    assert all(f"st::scratch<1>({size})" in text for size in peaks.values())


@pytest.mark.parametrize(
    ("backend", "part", "mark"),
    [("cpp", "gemm", "runtime: gemm"), ("triton_cuda", "st_max", "def st_max")],
)
def test_helpers_are_those_that_the_program_names(backend, part, mark):
    program, leaves = finished("gemm" if backend == "cpp" else "softmax", backend)
    named = program.option("runtime")
    assert isinstance(named, list) and part in named
    for names, there in ((named, True), ([n for n in named if n != part], False)):
        kernel = backends.get(backend).print_kernel(
            program.with_options({"runtime": names}), leaves
        )
        assert (mark in dict(kernel.files)[kernel.main]) is there


def test_triton_loads_the_parts_of_a_tile_on_their_own():
    program, _ = finished("conv2d", "triton_cuda")
    tiles = [r for r, _ in regions(*program.body) if r.buffer.mem != "GLOBAL"]
    assert tiles and all(r.is_whole for r in tiles)
    assert any(isinstance(s, Copy) and s.src.guard for s in walk(program.body))


def test_pallas_reads_windows_where_they_are():
    program, _ = finished("conv2d", "pallas_tpu")
    assert not any(isinstance(s, Copy) for s in walk(program.body))
