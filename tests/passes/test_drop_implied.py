"""drop_implied: an event goes when a ring orders the same engines anyway, and only then."""

from __future__ import annotations

import pytest

from septran.ir.nodes import Program
from septran.passes import drop_implied as dropping
from septran.passes.drop_implied import drop_implied
from septran.passes.interpret import check_order
from tests.passes.writing import body_text, program

RING = """
alloc q: SHARED float32[12]
alloc s: SHARED float32[12] x2
copy q[0:+12] <- A[0:+12] on LOAD
post LOAD>VEC [2] LOAD
for k in 4
  when 2 <= k < 9999
    await VEC>LOAD [(k % 2)] LOAD
  copy s@(k % 2)[0:+12] <- B[0:+12] on LOAD
  post LOAD>VEC [(k % 2)] LOAD
  AWAIT
  await LOAD>VEC [(k % 2)] VEC
  leaf add <add> on VEC
  | rw Y = q[0:+12]
  | r X = s@(k % 2)[0:+12]
  | means add
  when 3 <= (4 - k) < 9999
    post VEC>LOAD [(k % 2)] VEC
sync CORE
"""
AWAIT = "when 0 <= k < 1\n    await LOAD>VEC [2] VEC"


def ring(await_: str = AWAIT, order: str = "") -> str:
    return RING.replace("AWAIT", await_) + order


def test_an_event_that_the_ring_implies_goes():
    before = program(ring())
    check_order(before)
    after = body_text(drop_implied(before))
    assert "LOAD>VEC [2]" not in after and "0 <= k" not in after
    assert "LOAD>VEC [(k % 2)]" in after and "VEC>LOAD" in after


def test_an_event_that_nothing_implies_stays():
    """The ring's copies run on a queue of their own, and say nothing about LOAD."""
    own = ring().replace(
        "copy s@(k % 2)[0:+12] <- B[0:+12] on LOAD", "copy s@(k % 2)[0:+12] <- B[0:+12] on DMA"
    )
    own = own.replace("LOAD>VEC [(k % 2)] LOAD", "DMA>VEC [(k % 2)] DMA").replace(
        "LOAD>VEC [(k", "DMA>VEC [(k"
    )
    own = own.replace("VEC>LOAD [(k % 2)] LOAD", "VEC>DMA [(k % 2)] DMA").replace(
        "VEC>LOAD [(k", "VEC>DMA [(k"
    )
    before = program(own)
    check_order(before)
    assert drop_implied(before) == before


def test_without_a_ring_nothing_is_tried():
    before = program("""
        alloc q: SHARED float32[12]
        copy q[0:+12] <- A[0:+12] on LOAD
        post LOAD>VEC [0] LOAD
        await LOAD>VEC [0] VEC
        leaf add <add> on VEC
        | rw Y = C[0:+12]
        | r X = q[0:+12]
        | means add
        sync CORE
    """)
    assert drop_implied(before) is before


def test_what_would_take_long_to_decide_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dropping, "_MOST", 10)
    before = program(ring())
    assert drop_implied(before) is before


@pytest.mark.parametrize("total", [1, 2, 7, 100])
def test_back_edges_of_every_round_are_kept(total):
    """A core's next round may not load over what this one still reads: with one block a core nothing says so."""
    share = f"((({total} - core_id) + (core_num - 1)) // core_num)"
    before = program(f"""
        for b in {share} on CORE parallel
          alloc q: SHARED float32[12]
          alloc s: SHARED float32[12] x2
          when 1 <= b < 9999
            await VEC>LOAD [2] LOAD
          copy q[0:+12] <- A[0:+12] on LOAD
          for k in 2
            copy s@(k % 2)[0:+12] <- B[0:+12] on LOAD
            post LOAD>VEC [(k % 2)] LOAD
            await LOAD>VEC [(k % 2)] VEC
            leaf add <add> on VEC
            | rw Y = q[0:+12]
            | r X = s@(k % 2)[0:+12]
            | means add
          when 2 <= ({share} - b) < 9999
            post VEC>LOAD [2] VEC
        sync CORE
    """)
    check_order(before, cores=1)
    assert ("VEC>LOAD [2]" in body_text(drop_implied(before))) == (total > 1)


SHARED_OUT = """for b in (((2 - core_id) + (core_num - 1)) // core_num) on CORE parallel
"""


def kernel(text: str) -> str:
    """Return the statements as a kernel that cores share."""
    return SHARED_OUT + "".join(f"  {line}\n" for line in text.strip().splitlines())


def test_each_kernel_of_a_program_is_asked_by_itself(monkeypatch: pytest.MonkeyPatch):
    """The whole Program was asked for each event: many kernels took the square of the time."""
    second = ring().replace("alloc q", "alloc q2").replace("q[", "q2[")
    second = second.replace("alloc s", "alloc s2").replace("s@", "s2@")
    before = program(f"{kernel(ring())}sync GRID\n{kernel(second)}")
    check_order(before)
    asked: list[int] = []

    def check(one: Program, **how: object) -> None:
        asked.append(len(one.body))
        check_order(one, **how)

    monkeypatch.setattr(dropping, "check_order", check)
    after = body_text(drop_implied(before))
    assert "[2]" not in after and "sync GRID" in after and after.count("[(k % 2)]") == 8
    assert asked and max(asked) < len(before.body)


def test_an_event_that_joins_kernels_stays():
    """The first kernel posts it, and the second waits for it."""
    first, last = ring(await_="").split("for k in 4", 1)
    joined = f"{kernel(first)}sync GRID\n{kernel('for k in 4' + last)}"
    assert "LOAD>VEC [2] LOAD" in body_text(drop_implied(program(joined)))
