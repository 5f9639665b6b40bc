"""The rule `order` on the Programs that are printed: no Sync, Post or Await is missing, and none is idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from septran import backends
from septran.errors import SeptranError
from septran.ir import nodes as ir
from septran.ir.text import parse_program
from septran.passes.interpret import check_order
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.prove.ordering import ordering
from septran.prove.sets import Dim, model
from septran.run.prove import decide_again, finish, prove_request
from tests.backends.operators import all_operators
from tests.prove.mutants import mutants, unordered

ORDERED = [
    (name, arch)
    for name in dict(backends.BUILTIN)
    if not backends.get(name).copies_ordered_by
    for arch in backends.get(name).arches or (None,)
]
"""Targets whose Programs order copies themselves."""
BESIDE = (("dsa_c", "bm1684x2"), ("dsa_c", "bm1688"))
"""of these: differ from bm1684x in figures only"""


def request_of(op: str, target: str, arch: str | None, **dims: int) -> Plan:
    return resolve(GenRequest(op=op, backend=target, arch=arch, dims=dims))


def told(program: ir.Program, dims: tuple[Dim, ...] = ()) -> list[str]:
    return [str(f) for f in ordering(model(program, dims))]


def survivors(plan: Plan) -> Iterator[str]:
    """Yield synchronisation that can be dropped without a finding although it runs at these sizes."""
    core = finish(plan, lower_plan(plan))
    assert told(core.program, core.dims) == []
    m = model(core.program, core.dims)
    asked = [s for s in m.statements if s.kind in ("sync", "post", "await")]
    planted = mutants(core.program, (unordered,))
    for statement, (name, mutant) in zip(asked, planted, strict=True):
        runs = not m.instances(statement).is_empty()
        if runs and not told(mutant, core.dims):
            yield name


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("target", "arch"),
    [pytest.param(*t, marks=pytest.mark.wider) if t in BESIDE else t for t in ORDERED],
)
@pytest.mark.parametrize("op", ["gemm", "softmax"])
def test_each_sync_post_and_await_is_needed(op: str, target: str, arch: str | None):
    assert list(survivors(request_of(op, target, arch))) == []


@pytest.mark.slow
@pytest.mark.parametrize(("target", "arch"), ORDERED)
@pytest.mark.parametrize("op", sorted(all_operators()))
def test_each_one_of_every_operator_is_needed(op: str, target: str, arch: str | None):
    operator = all_operators()[op][0]
    for dims in ({}, *operator.odd_dims):
        try:
            plan = request_of(op, target, arch, **dims)
            lower_plan(plan)
        except SeptranError as e:
            assert e.exit_code == 2, e
            continue
        assert list(survivors(plan)) == []


def test_a_kernel_may_not_end_before_its_results_have_landed():
    plan = request_of("add", "dsa_c", None)
    core = finish(plan, lower_plan(plan))
    body = tuple(s for s in core.program.body if not isinstance(s, ir.Sync))
    (text, *_) = told(replace(core.program, body=body), core.dims)
    assert "P040" in text and "may not be over when the kernel ends" in text


HOSTED = """program p target=cpp arch=x86_64_v3 machine=cpp.x86_64_v3
options {}
param rw C: GLOBAL float32[12]
param r A: GLOBAL float32[12]
  for t in 3
    alloc H: SHARED float32[12] @0
    copy H[0:+12] <- A[0:+12]
    for i in 3 on CORE parallel
      alloc T: SHARED float32[4] @0
      copy T[0:+4] <- H[(i * 4):+4] on THREADS
      sync CORE of -
      copy C[(i * 4):+4] <- T[0:+4] on THREADS
      sync CORE of -
    copy H[0:+12] <- C[0:+12]
"""


def test_blocks_of_the_host_and_of_its_launches_may_have_the_same_offsets():
    hosted = parse_program(HOSTED)
    check_order(hosted)
    assert told(hosted) == []
    early = HOSTED.replace("      sync CORE of -\n      copy C", "      copy C")
    assert "P040" in told(parse_program(early))[0]
    queued = HOSTED.replace("copy H[0:+12] <- A[0:+12]", "copy H[0:+12] <- A[0:+12] on LOAD")
    assert "P040" in told(parse_program(queued))[0]


RING = """program p target=dsa_c arch=generic machine=dsa_c
options {}
param w C: GLOBAL float32[4, 8]
param r A: GLOBAL float32[4, 8]
  alloc T: SHARED float32[4, 8] @0
  alloc U: SHARED float32[4, 8] @%d
  copy T[0:+4, 0:+8] <- A[0:+4, 0:+8] on LOAD
  post full [0] LOAD
  await full [0] STORE
  copy C[0:+4, 0:+8] <- T[0:+4, 0:+8] on STORE
  copy U[0:+4, 0:+8] <- A[0:+4, 0:+8] on LOAD
  sync GRID
"""


@pytest.mark.parametrize(("offset", "hazard"), [(128, False), (64, True)])
def test_buffers_in_the_same_bytes_are_one(offset: int, hazard: bool):
    found = told(parse_program(RING % offset))
    assert bool(found) == hazard
    assert not hazard or "in the same bytes" in found[0]


@pytest.mark.parametrize(("op", "target"), [("gemm", "cuda_c"), ("softmax", "dsa_c")])
def test_order_is_proven_for_every_number_of_rows(op: str, target: str):
    certificate = prove_request(GenRequest(op=op, backend=target), ("M",)).certificate
    assert "order" in certificate.proved and certificate.domain["M"][1] > 1 << 20
    stored = certificate.to_json()
    assert "order" in decide_again(stored).proved
    lines = str(stored["finished"]).splitlines()
    first = next(n for n, x in enumerate(lines) if x.strip().startswith(("sync", "await")))
    del lines[first]
    found = decide_again({**stored, "finished": "\n".join(lines) + "\n"})
    assert {f.code for r in found.rules if r.rule == "order" for f in r.findings} <= {
        "P040",
        "P041",
    }
    assert "order" not in found.proved


def test_events_that_are_left_out_at_some_sizes_stay_where_sizes_are_open():
    certificate = prove_request(GenRequest(op="gemm", backend="dsa_c"), ("M",)).certificate
    assert "order" in certificate.proved


LAUNCHES = """program launches target=cuda_c arch=sm_90a machine=cuda_c.sm_90a
options {}
param w out: GLOBAL float32[4, 8]
param r x: GLOBAL float32[4, 8]
  alloc held: GLOBAL float32[4, 8]
  for t in 2
    for i0 in 4 on BLOCK parallel
      copy held[i0:+1, 0:+8] <- x[i0:+1, 0:+8] on THREADS
    for i1 in 4 on BLOCK parallel
      copy out[i1:+1, 0:+8] <- held[i1:+1, 0:+8] on THREADS
"""


def test_a_launch_is_over_before_the_next_begins():
    assert told(parse_program(LAUNCHES)) == []


def test_two_copies_of_one_launch_are_not_ordered_by_it():
    second = "    for i1 in 4 on BLOCK parallel\n"
    assert LAUNCHES.count(second) == 1
    one = LAUNCHES.replace(second, "").replace("i1", "i0")
    (found,) = told(parse_program(one))
    assert "P040" in found and "writes held" in found


def test_what_a_later_launch_reads_has_landed_at_the_end_of_its_own():
    late = LAUNCHES.replace("<- x[i0:+1, 0:+8] on THREADS", "<- x[i0:+1, 0:+8] on BULK")
    (found,) = told(parse_program(late))
    assert "copy held <- x[t, i0] may not be over when the kernel ends" in found
