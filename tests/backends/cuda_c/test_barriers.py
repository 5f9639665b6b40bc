"""Rings and barriers in the Program: what the passes write, that it is enough, and that none is too many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from septran.backends.cuda.backend import ARCHES, CUDA_C
from septran.backends.cuda.passes.plan_rings import is_async, plan_rings
from septran.ir.nodes import Await, Post, Program, Sync, walk
from septran.ir.text import parse_program, print_program
from septran.passes.interpret import check_order
from septran.passes.place_barriers import place_barriers
from tests.backends.cuda_c import cases
from tests.backends.operators import program_of
from tests.passes.mutants import unseen, without_one

HEAD = """\
program p target=cuda_c arch=sm_80 machine=cuda_c.sm_80
options {}
param r A: GLOBAL float32[64, 64]
param w C: GLOBAL float32[64, 64]
"""
PRIM = '| prim {"name": "copy", "out": "Y", "ins": ["X"], "named": {}, "attrs": {}}'


def finished(body: str) -> list[str]:
    """Return the body after both passes, one statement a line without leading space."""
    program = place_barriers(plan_rings(parse_program(HEAD + body)), is_async)
    check_order(program)
    assert unseen(without_one(program)) == []
    lines = print_program(program).splitlines()[4:]
    return [line.strip() for line in lines if not line.strip().startswith("|")]


def leaf(out: str, inside: str) -> str:
    return f"leaf f <auto>\n    | w Y = {out}\n    | r X = {inside}\n    {PRIM}"


TILE = "[0:+32, 0:+32]"


def test_a_copy_in_flight_is_committed_waited_for_and_shown_to_all_threads() -> None:
    assert finished(f"""\
  for i in 2 on BLOCK parallel
    alloc S: SHARED float32[32, 32]
    alloc R: REGISTER float32[32, 32]
    copy S{TILE} <- A[(i * 32):+32, 0:+32]
    {leaf(f"R{TILE}", f"S{TILE}")}
    copy C[(i * 32):+32, 0:+32] <- R{TILE}
""")[3:] == [
        f"copy S{TILE} <- A[(i * 32):+32, 0:+32] on ASYNC",
        "post copied [0] ASYNC",
        "await copied [0] THREAD",
        "sync BLOCK of -",
        "leaf f <auto> on THREADS",
        f"copy C[(i * 32):+32, 0:+32] <- R{TILE} on THREADS",
    ]  # fmt: skip


def test_registers_need_nothing() -> None:
    lines = finished(f"""\
  for i in 2 on BLOCK parallel
    alloc R: REGISTER float32[32, 32]
    alloc Q: REGISTER float32[32, 32]
    copy R{TILE} <- A[(i * 32):+32, 0:+32]
    {leaf(f"Q{TILE}", f"R{TILE}")}
    copy C[(i * 32):+32, 0:+32] <- Q{TILE}
""")
    assert not any(line.startswith(("sync", "post", "await")) for line in lines)


def test_a_barrier_between_a_statement_and_a_loop_stays_outside_of_the_loop() -> None:
    lines = finished(f"""\
  for i in 2 on BLOCK parallel
    alloc S: SHARED float32[32, 32]
    alloc R: REGISTER float32[32, 32]
    alloc Q: REGISTER float32[32, 32]
    copy R{TILE} <- A[(i * 32):+32, 0:+32]
    {leaf(f"S{TILE}", f"R{TILE}")}
    for k in 4
      {leaf(f"Q{TILE}", f"S{TILE}").replace("    |", "      |")}
    copy C[(i * 32):+32, 0:+32] <- Q{TILE}
""")
    assert lines.count("sync BLOCK of -") == 1
    assert lines.index("sync BLOCK of -") == lines.index("for k in 4") - 1


def test_a_tile_reused_in_every_turn_needs_a_barrier_on_both_sides() -> None:
    lines = finished(f"""\
  for i in 2 on BLOCK parallel
    alloc S: SHARED float32[32, 32]
    alloc R: REGISTER float32[32, 32]
    for k in 4
      {leaf(f"S{TILE}", f"R{TILE}").replace("    |", "      |")}
      {leaf(f"R{TILE}", f"S{TILE}").replace("    |", "      |")}
    copy C[(i * 32):+32, 0:+32] <- R{TILE}
""")
    inside = lines[lines.index("for k in 4") + 1 : -1]
    assert inside.count("sync BLOCK of -") == 2 and inside[0] == "sync BLOCK of -"


def test_a_single_turn_has_no_way_back_and_no_ring() -> None:
    lines = finished(f"""\
  for i in 2 on BLOCK parallel
    alloc R: REGISTER float32[32, 32]
    for k in 1 pipeline=3
      alloc S: SHARED float32[32, 32]
      copy S{TILE} <- A[(i * 32):+32, (k * 32):+32]
      {leaf(f"R{TILE}", f"S{TILE}").replace("    |", "      |")}
    copy C[(i * 32):+32, 0:+32] <- R{TILE}
""")
    assert lines.count("sync BLOCK of -") == 1 and not any(" x3" in line for line in lines)


def test_a_ring_is_no_deeper_than_its_loop_is_long() -> None:
    text = "\n".join(finished(f"""\
  for i in 2 on BLOCK parallel
    alloc R: REGISTER float32[32, 32]
    for k in 2 pipeline=5
      alloc S: SHARED float32[32, 32]
      copy S{TILE} <- A[(i * 32):+32, (k * 32):+32]
      {leaf(f"R{TILE}", f"S{TILE}").replace("    |", "      |")}
    copy C[(i * 32):+32, 0:+32] <- R{TILE}
"""))  # fmt: skip
    assert "alloc S: SHARED float32[32, 32] x2" in text and "for k_first in 1" in text


def every() -> Iterator[object]:
    for name in cases.operators():
        for arch in ARCHES:
            quick = name in ("gemm", "attention_causal", "conv2d", "softmax")
            yield pytest.param(name, arch, marks=() if quick else pytest.mark.slow)


def programs(name: str, arch: str) -> Iterator[Program]:
    op, path = cases.operators()[name]
    for dtype in sorted({*op.dtypes} & {"float16", "float32"}):
        for dims in (op.dims, *op.odd_dims):
            yield CUDA_C.finished(program_of(op, path, CUDA_C, arch, dtype, dims), {})  # type: ignore[arg-type]


@pytest.mark.few(5)
@pytest.mark.parametrize(("name", "arch"), list(every()))
def test_order_is_complete_and_nothing_can_be_dropped(name: str, arch: str) -> None:
    for program in programs(name, arch):
        check_order(program)
        assert unseen(without_one(program)) == []


def test_the_order_of_a_product_is_in_its_program() -> None:
    kinds = {
        arch: {type(s) for p in programs("gemm", arch) for s in walk(p.body)} for arch in ARCHES
    }
    assert all({Sync, Post, Await} <= found for found in kinds.values())
