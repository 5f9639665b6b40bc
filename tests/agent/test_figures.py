"""Figures without a clock: what they prefer, what a model is told, and that a leaf accepted by them is marked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from septran.agent.evolve import Archive, Node, ranked
from septran.agent.figures import cycle_figures, preferred, told_figures, with_resident
from septran.agent.llm import llm_writer, outcome_json
from septran.agent.session import quality
from septran.agent.writer import Budget, LeafVerdict
from septran.backends.base import Built
from septran.cli.card import rows
from septran.machine import load_machine
from septran.outcome import Level
from septran.trial.static_figures import static_figures, summary
from tests.agent.leaves import BACKEND, RELU, RIGHT, FakeJudge, fenced, marked
from tests.agent.test_scenarios import config
from tests.support.openai_double import Answer, ChatDouble


def moved(sectors: float, wavefronts: float, **more: float) -> dict[str, float]:
    return {"global_sectors": sectors, "shared_wavefronts": wavefronts, **more}


HOPPER = load_machine("triton_cuda.sm_90").limits


@pytest.mark.parametrize(
    ("mine", "library", "wanted"),
    [
        ({"registers": 96, "spill_bytes": 0}, {"registers": 96, "spill_bytes": 40}, 1),
        ({"registers": 96, "spill_bytes": 8}, {"registers": 255, "spill_bytes": 0}, -1),
        ({"registers": 64}, {"registers": 128}, 1),
        ({"registers": 128}, {"registers": 64}, -1),
        ({"registers": 121}, {"registers": 128}, 0),
        ({"instructions": 10.0}, {"instructions": 20.0}, None),
        ({"registers": 64}, {}, None),
        ({"bundles": 80, "spill_bundles": 0}, {"bundles": 100, "spill_bundles": 0}, 1),
        ({"bundles": 95, "spill_bundles": 0}, {"bundles": 100, "spill_bundles": 0}, 0),
        ({"bundles": 80, "spill_bundles": 4}, {"bundles": 100, "spill_bundles": 0}, -1),
        ({"bundles": 80}, {}, None),
        (moved(100, 50), moved(200, 50), 1),
        (moved(100, 50), moved(100, 500), 1),
        (moved(100, 500), moved(100, 50), -1),
        (moved(100, 50), moved(104, 50), 0),
        (moved(100, 500), moved(200, 50), 0),
        (moved(100, 0), moved(100, 50), 1),
        (moved(100, 50, registers=128), moved(200, 50, registers=64), 1),
        (moved(100, 50, registers=64), moved(104, 50, registers=128), 1),
        (moved(100, 500, registers=64), moved(200, 50, registers=128), 0),
        (moved(100, 50, registers=64, spill_bytes=8), moved(200, 50, registers=64), -1),
        (moved(100, 50), {"registers": 64}, None),
    ],
)
def test_what_is_preferred(
    mine: dict[str, float], library: dict[str, float], wanted: int | None
) -> None:
    assert preferred(with_resident(mine, HOPPER), with_resident(library, HOPPER)) == wanted


@pytest.mark.parametrize(
    ("machine", "registers", "warps"),
    [
        ("cuda_c.sm_90a", 32, 64),
        ("cuda_c.sm_90a", 121, 16),
        ("cuda_c.sm_120a", 32, 48),  # its processors hold fewer threads
        ("hip_c.gfx942", 128, 16),  # four SIMDs of 512 registers a lane
        ("hip_c.gfx942", 512, 4),
    ],
)
def test_warps_are_those_of_the_machine(machine: str, registers: float, warps: int) -> None:
    found = with_resident({"registers": registers}, load_machine(machine).limits)
    assert found["resident_warps"] == warps


def test_a_machine_whose_file_does_not_say_it_prefers_no_register_count() -> None:
    limits = load_machine("cpp.x86_64").limits
    few, many = ({"registers": n} for n in (32.0, 255.0))
    assert with_resident(few, limits) == few
    assert preferred(few, many) == 0


def unmeasured(registers: float) -> LeafVerdict:
    return LeafVerdict(
        level=Level.ACCURATE,
        status="ok",
        figures=with_resident({"registers": registers}, HOPPER),
        baseline_figures=with_resident({"registers": 128.0}, HOPPER),
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("accept", "registers", "writer"),
    [
        ("predicted", 64.0, "llm"),
        ("predicted", 128.0, "library"),
        ("predicted", 255.0, "library"),
        ("faster", 64.0, "library"),
    ],
)
def test_a_prediction_replaces_the_library_only_where_it_may(
    tmp_path: Path, accept: str, registers: float, writer: str
) -> None:
    with ChatDouble([Answer(fenced(RIGHT))]) as double:
        asked = llm_writer(BACKEND, config(double, accept=accept), tmp_path)
        judge = FakeJudge(lambda source: unmeasured(registers))
        written = asked.write(RELU, judge, Budget(attempts=1))
    assert written.leaf.writer == writer
    assert written.predicted == (writer == "llm")
    assert ("static figures" in written.reason) == (accept == "predicted")
    assert outcome_json(written)["accepted"] == ("predicted" if writer == "llm" else "")
    assert ("not measured faster" in written.reason) == (accept != "predicted")
    assert ("right but not better by static figures" in written.reason) == (
        writer == "library" and accept == "predicted"
    )


def test_a_leaf_that_nothing_compares_is_said_to_be_so(tmp_path: Path) -> None:
    bare = LeafVerdict(level=Level.ACCURATE, status="ok")
    with ChatDouble([Answer(fenced(RIGHT))]) as double:
        asked = llm_writer(BACKEND, config(double, accept="predicted"), tmp_path)
        written = asked.write(RELU, FakeJudge(lambda source: bare), Budget(attempts=1))
    assert "it was not timed and no static figures compare it" in written.reason


def test_evolution_ranks_leaves_without_a_time_by_figures(tmp_path: Path) -> None:
    """The second child takes fewest registers; the first and the third as many as the library's leaf."""
    registers = {"n1": 128.0, "n2": 64.0, "n3": 128.0}
    count = [0]

    def choose(body: object) -> Answer:
        count[0] += 1
        return Answer(fenced(marked(f"n{count[0]}")))

    def rule(source: str) -> LeafVerdict:
        return unmeasured(next((r for n, r in registers.items() if n in source), 128.0))

    search = {"kind": "evolve", "islands": 1, "generations": 2, "population": 3}
    with ChatDouble(choose) as double:
        asked = llm_writer(BACKEND, config(double, accept="faster", search=search), tmp_path)
        asked.write(RELU, FakeJudge(rule), Budget(attempts=9))
    archive = Archive.from_json(
        json.loads((tmp_path / "archives" / f"{RELU.key}.json").read_text())
    )
    assert [n.fitness for n in archive.nodes] == [None] * len(archive.nodes)
    assert [n.id for n in archive.survivors(0, 3)] == [2, 1, 3]


def test_a_leaf_without_a_time_is_before_wrong_ones_and_behind_timed_ones() -> None:
    def node(number: int, right: bool, speedup: float | None, fitness: float | None) -> Node:
        return Node(
            id=number, island=0, generation=0, parents=(), sha=str(number), level="", status="",
            speedup=speedup, fitness=fitness, right=right,
        )  # fmt: skip

    nodes = [node(1, False, None, 0.08), node(2, True, None, None), node(3, True, 0.4, 0.4)]
    nodes += [node(4, True, 1.2, 1.2), node(5, True, None, None)]
    assert [n.id for n in ranked(nodes)] == [4, 3, 2, 5, 1]


@pytest.mark.parametrize(
    ("accept", "calls", "accepted"),
    [("predicted", 3, "first"), ("predicted", 2, "none"), ("faster", 1, "none")],
)
def test_a_search_by_figures_goes_on_until_one_is_better(
    tmp_path: Path, accept: str, calls: int, accepted: str
) -> None:
    """The first right leaf is as good as the library's, the second better: coder, optimizer, coder."""
    registers = {"none": 128.0, "first": 64.0}
    said = [Answer(fenced(marked("none"))), Answer("Use less."), Answer(fenced(marked("first")))]
    with ChatDouble(said) as double:
        asked = llm_writer(BACKEND, config(double, accept=accept), tmp_path)
        judge = FakeJudge(
            lambda source: unmeasured(registers["first" if "first" in source else "none"])
        )
        written = asked.write(RELU, judge, Budget(attempts=calls))
        assert len(double.requests) == calls
    assert written.predicted == (accepted == "first")
    assert ("first" in written.leaf.source) == (accepted == "first")
    if calls == 3:
        assert "Use less." in str(double.requests[2].body["messages"])


def test_a_measured_time_beats_a_prediction() -> None:
    slow = LeafVerdict(
        level=Level.ACCURATE,
        status="ok",
        seconds=2.0,
        baseline_seconds=1.0,
        figures={"registers": 32.0},
        baseline_figures={"registers": 255.0},
    )
    assert not slow.predicted_better


def test_the_model_and_the_card_are_told() -> None:
    assert (
        quality(unmeasured(64.0))
        == "right, registers 64 (the library's 128), resident warps 32 (the library's 16)"
    )
    counted = replace(unmeasured(128.0), accesses="shared memory: 8 wavefronts")
    assert quality(counted).endswith(", shared memory: 8 wavefronts")
    assert told_figures({"a_b": 1.0}, {"a_b": 1.0}) == "a b 1"
    leaf = {"task": "t", "name": "n", "writer": "llm", "accepted": "predicted"}
    text = dict(rows({"level": "accurate", "leaves": [leaf]}))["leaf"]
    assert "prediction" in text


def test_machine_code() -> None:
    listing = (
        "0000000000001000 <entry>:\n"
        "    1000:\tvmovups (%rdi),%zmm0\n"
        "    1006:\tvfmadd231ps %zmm1,%zmm2,%zmm0\n"
        "    100c:\tvmulps %zmm1,%zmm2,%zmm0\n"
        "    1010:\tvaddps %ymm1,%ymm2,%ymm0\n"
        "    1014:\tvaddss %xmm1,%xmm2,%xmm0\n"
        "    1018:\tvmovups %zmm3,0x40(%rsp)\n"
        "    1020:\tret\n"
    )
    assert summary(listing) == {"instructions": 7, "vector_bytes": 64, "stack_vectors": 1}
    assert summary("nothing") == {}


def test_an_emulators_machine_code_says_nothing_of_the_device(tmp_path: Path) -> None:
    built = Built(ok=True, artifact=tmp_path / "kernel.so")
    assert static_figures(built, "emulated") == {}
    compiled = Built(ok=True, artifact=None, facts=(("registers", 40), ("cached", True)))
    assert static_figures(compiled, "emulated") == {"registers": 40.0}
    scheduled = Built(ok=True, artifact=None, facts=(("bundles", 90), ("spill_bundles", 2)))
    assert static_figures(scheduled, "emulated") == {"bundles": 90.0, "spill_bundles": 2.0}


def test_a_leaf_that_takes_more_cycles_is_told_where_they_went() -> None:
    def account(total: int, vec: int, waiting: int) -> dict[str, object]:
        idle = {"busy": 0, "stalled": 0, "commands": 0}
        return {
            "total": total,
            "queues": {"VEC": {"busy": vec, "stalled": waiting, "commands": 9}, "MMA": idle},
        }

    mine, library = cycle_figures(account(200, 150, 40)), cycle_figures(account(130, 120, 40))
    assert told_figures(mine, library) == (
        "cycles 200 (the library's 130), VEC commands 9, VEC busy 150 (the library's 120), VEC waiting 40"
    )
    assert cycle_figures({}) == {}
