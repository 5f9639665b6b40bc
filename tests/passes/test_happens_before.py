"""What the interpreter takes as ordered, rule by rule: each program is good, and bad with one line less."""

from __future__ import annotations

import pytest
import torch

from septran.ir.nodes import Sync, walk
from septran.passes.interpret import Hazard, check_order, interpret
from tests.passes.mutants import unseen, without_event, without_one
from tests.passes.writing import program, run

QUEUES = """
alloc t: SHARED float32[12]
for k in 3
  when 1 <= k < 9
    await VEC>LOAD [0] LOAD
  copy t[0:+12] <- A[0:+12] on LOAD
  post LOAD>VEC [0] LOAD
  await LOAD>VEC [0] VEC
  leaf f <auto> on VEC
  | rw Y = C[0:+12]
  | r X = t[0:+12]
  | means add
  when 2 <= (3 - k) < 9
    post VEC>LOAD [0] VEC
sync CORE
"""
BLOCK = """
for b in 1 on BLOCK parallel
  alloc t: SHARED float32[12]
  for k in 3
    sync BLOCK of -
    copy t[0:+12] <- A[0:+12] on ASYNC
    sync BLOCK of ASYNC
    leaf f <auto> on THREADS
    | rw Y = t[0:+12]
    | r X = t[0:+12]
    | means add
  sync BLOCK of -
  leaf g <auto> on THREADS
  | w Y = C[0:+12]
  | r X = t[0:+12]
  | means copy
"""
RING = """
for b in 1 on BLOCK parallel
  alloc t: SHARED float32[12] x2
  alloc r: REGISTER float32[12]
  leaf one <auto> on THREADS
  | w Y = r[0:+12]
  | means one
  copy t@0[0:+12] <- A[0:+12] on ASYNC
  post full [0] ASYNC
  for k in 4
    await full [(k % 2)] THREAD
    sync BLOCK of -
    when 2 <= (4 - k) < 9
      copy t@((k + 1) % 2)[0:+12] <- A[0:+12] on ASYNC
      post full [((k + 1) % 2)] ASYNC
    leaf f <auto> on THREADS
    | rw Y = r[0:+12]
    | r X = t@(k % 2)[0:+12]
    | means add
  leaf g <auto> on THREADS
  | w Y = C[0:+12]
  | r X = r[0:+12]
  | means copy
"""
BULK = """
for b in 1 on BLOCK parallel
  alloc t: SHARED float32[12] x2
  alloc r: REGISTER float32[12]
  leaf one <auto> on THREADS
  | w Y = r[0:+12]
  | means one
  copy t@0[0:+12] <- A[0:+12] on BULK
  post full [0] BULK
  for k in 4
    when 2 <= (4 - k) < 9
      when 1 <= k < 9
        await empty [((k + 1) % 2)] BULK
      copy t@((k + 1) % 2)[0:+12] <- A[0:+12] on BULK
      post full [((k + 1) % 2)] BULK
    await full [(k % 2)] THREADS
    leaf f <auto> on THREADS
    | rw Y = r[0:+12]
    | r X = t@(k % 2)[0:+12]
    | means add
    when 3 <= (4 - k) < 9
      post empty [(k % 2)] THREADS
  leaf g <auto> on THREADS
  | w Y = C[0:+12]
  | r X = r[0:+12]
  | means copy
"""
FUNCTION = """
alloc t: SHARED float32[12]
copy t[0:+12] <- A[0:+12] on LOAD
sync CORE
leaf f <auto> on ALL
| rw Y = t[0:+12]
| r X = t[0:+12]
| means add
sync CORE
copy C[0:+12] <- t[0:+12] on STORE
sync CORE
"""
CORES = """
for blk in (((2 - core_id) + (core_num - 1)) // core_num)
  leaf f <auto>
  | w Y = C[((core_id + (blk * core_num)) * 6):+6]
  | r X = A[((core_id + (blk * core_num)) * 6):+6]
  | means copy
sync GRID
when 0 <= core_id < 1
  leaf g <auto>
  | rw Y = C[0:+12]
  | r X = B[0:+12]
  | means add
"""
GOOD = {
    "queues": QUEUES,
    "block": BLOCK,
    "ring": RING,
    "bulk": BULK,
    "function": FUNCTION,
    "cores": CORES,
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_can_be_dropped(name):
    good = program(GOOD[name])
    check_order(good)
    assert unseen(without_one(good)) == []
    assert unseen(without_event(good)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queues", 103.0),
        ("block", 2.0),
        ("ring", 5.0),
        ("bulk", 5.0),
        ("function", 2.0),
        ("cores", 11.0),
    ],
)
def test_the_values_are_those_of_the_text(name, value):
    assert run(program(GOOD[name]))[0].item() == value


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_every_number_of_cores_gives_the_same(cores):
    p = program(CORES)
    at = torch.arange(1, 13, dtype=torch.float32)
    tensors = {"C": at.clone(), "A": at.clone(), "B": at * 10}
    interpret(p, tensors, cores=cores)
    assert torch.equal(tensors["C"], at * 11)


def test_a_wait_for_one_engine_is_no_wait_for_another():
    bad = program(FUNCTION.replace("sync CORE\nleaf", "sync CORE of VEC\nleaf"))
    with pytest.raises(Hazard, match=r"leaf f on ALL reads t while copy t <- A on LOAD writes t"):
        check_order(bad)


def test_threads_share_a_statement_in_an_unknown_way():
    """A barrier is needed between two statements on shared memory, none on private memory."""
    body = """
    for b in 1 on BLOCK parallel
      alloc t: MEM float32[12]
      leaf f <auto> on THREADS
      | w Y = t[0:+12]
      | means one
      leaf g <auto> on THREADS
      | w Y = C[0:+12]
      | r X = t[0:+12]
      | means copy
    """
    check_order(program(body.replace("MEM", "REGISTER")))
    with pytest.raises(Hazard, match="leaf g on THREADS reads t while leaf f on THREADS writes t"):
        check_order(program(body.replace("MEM", "SHARED")))


def test_each_thread_waits_for_its_own_copies_only():
    with pytest.raises(Hazard, match="leaf f on THREADS reads t while copy t <- A on ASYNC"):
        check_order(program(RING.replace("    sync BLOCK of -\n", "", 1)))


def test_a_barrier_object_counts_the_copies_since_its_last_post():
    """The post of slot 1 says nothing of a copy that slot 0's post counted."""
    bad = BULK.replace(
        "    await full [(k % 2)] THREADS\n", "    await full [((k + 1) % 2)] THREADS\n"
    )
    with pytest.raises(Hazard):
        check_order(program(bad))


def test_an_event_is_not_posted_again_before_its_wait_is_over():
    bad = QUEUES.replace("VEC>LOAD [0]", "VEC>LOAD [k]").replace(
        "await VEC>LOAD [k]", "await VEC>LOAD [(k - 1)]"
    )
    check_order(program(bad))
    free = """
    for k in 2
      copy C[(k * 6):+6] <- A[(k * 6):+6] on LOAD
      post LOAD>VEC [0] LOAD
      await LOAD>VEC [0] VEC
    sync CORE
    """
    with pytest.raises(Hazard, match="posted again before its last await is known to be over"):
        check_order(program(free))


def test_iterations_on_processors_do_not_know_of_each_other():
    body = """
    for i in 2 on CORE parallel
      leaf f <auto>
      | w Y = C[(i * STEP):+6]
      | means one
    """
    check_order(program(body.replace("STEP", "6")))
    with pytest.raises(Hazard, match="leaf f writes C while leaf f writes C"):
        check_order(program(body.replace("STEP", "5")))


def test_an_alloc_met_again_is_the_same_memory():
    body = """
    for k in 2
      alloc t: SHARED float32[12]
      copy t[0:+12] <- A[0:+12] on LOAD
      post go [k] LOAD
      await go [k] VEC
      leaf f <auto> on VEC
      | rw Y = C[0:+12]
      | r X = t[0:+12]
      | means add
    sync CORE
    """
    check_order(program(body), fresh=True)
    with pytest.raises(Hazard, match="copy t <- A on LOAD writes t while leaf f on VEC reads t"):
        check_order(program(body))


PLACED = """
alloc t: SHARED float32[12] @0+64
alloc u: SHARED float32[12] @AT+64
copy t[0:+12] <- A[0:+12]
copy u[0:+12] <- B[0:+12] on LOAD
leaf f <auto>
| rw Y = C[0:+12]
| r X = t[0:+12]
| means add
sync CORE
"""


def test_bytes_that_two_buffers_share_are_ordered_and_overwritten():
    assert run(program(PLACED.replace("AT", "64")))[0].item() == 101.0
    with pytest.raises(Hazard, match="leaf f reads t while copy u <- B on LOAD writes u"):
        check_order(program(PLACED.replace("AT", "32")))
    waited = PLACED.replace("leaf f", "sync CORE\nleaf f").replace("AT", "32")
    check_order(program(waited))
    assert run(program(waited))[0].isnan()


def test_what_is_under_way_at_the_end_is_told():
    with pytest.raises(Hazard, match="nobody waits for what STORE does last"):
        check_order(program("copy C[0:+12] <- A[0:+12] on STORE"))
    with pytest.raises(Hazard, match=r"events left posted at the end: e\[0\]"):
        check_order(program("post e [0] VEC"))
    with pytest.raises(Hazard, match=r"await e\[1\] without a post"):
        check_order(program("await e [1] VEC"))
    with pytest.raises(Hazard, match=r"e\[0\] is posted twice"):
        check_order(program("post e [0] VEC\npost e [0] VEC"))


def test_all_cores_have_to_arrive():
    body = CORES.replace(
        "sync GRID\nwhen 0 <= core_id < 1\n", "when 0 <= core_id < 1\n  sync GRID\n"
    )
    assert sum(isinstance(s, Sync) for s in walk(program(body).body)) == 1
    with pytest.raises(Hazard, match="a core ends while another waits"):
        check_order(program(body))
    with pytest.raises(Hazard, match="not distributed"):
        check_order(program("sync GRID"))
