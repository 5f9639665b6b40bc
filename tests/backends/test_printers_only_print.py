"""Where memory lies, which parts are loaded and which helpers come along is in the Program that is printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from septran import backends
from septran.ir.access import map_bodies, regions, substituted
from septran.ir.expr import Const
from septran.ir.nodes import Alloc, Copy, Inside, Program, walk
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


def test_pallas_prints_the_blocks_that_the_program_has():
    program, leaves = finished("gemm", "pallas_tpu")
    (said,) = program.option("blocks")
    block = said["operands"]["A"]["block"]
    for held in (block, [8, 128]):
        said["operands"]["A"]["block"] = held
        kernel = backends.get("pallas_tpu").print_kernel(
            program.with_options({"blocks": [said]}), leaves
        )
        assert f"pl.BlockSpec(({held[0]}, {held[1]}), lambda" in dict(kernel.files)[kernel.main]


def test_windows_of_an_npu_are_loaded_as_the_program_says():
    program, leaves = finished("conv2d", "tilelang_npuir")
    kernel = backends.get("tilelang_npuir").print_kernel(program, leaves)
    assert "T.serial(T.max(0, 0 - (i1 - 1 + k0))" in dict(kernel.files)[kernel.main]
    body = tuple(substituted(s, {}) for s in program.body)
    assert body == program.body
    whole = map_bodies(
        program.body,
        lambda b: tuple(
            replace(s, inside=tuple(Inside(Const(0), Const(n)) for n in s.src.tile))
            if isinstance(s, Copy) and s.inside
            else s
            for s in b
        ),
    )
    kernel = backends.get("tilelang_npuir").print_kernel(replace(program, body=whole), leaves)
    assert "T.max" not in dict(kernel.files)[kernel.main]
