"""What bounds a leaf's hot loop: llvm-mca where it is there, one word where it is not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from septran.agent.session import quality
from septran.agent.writer import LeafVerdict
from septran.backends.base import TileCost
from septran.cli.main import main
from septran.outcome import Level
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.toolchain import port_bound
from tests.support.openai_double import Answer, ChatDouble

gxx = pytest.mark.skipif(not shutil.which("g++"), reason="g++ makes the listing")
here = pytest.mark.skipif(port_bound.tool() is None, reason="there is no llvm-mca")
CHAIN = ("vaddps (%rdi,%rax), %ymm0, %ymm0", "addq $32, %rax", "cmpq %rsi, %rax", "jne .L3")
SHUFFLES = tuple(f"vpermilps $27, %ymm{n}, %ymm{n + 8}" for n in range(6)) + CHAIN[1:]
DIVISIONS = tuple(f"vdivps %ymm{n}, %ymm8, %ymm{n + 9}" for n in range(4)) + CHAIN[1:]
RELU = """
using namespace st;
using F = f32v;
constexpr long L = lanes<F>;
const long n = Y.n[0];
for (long j = 0; j + L <= n; j += L) store(Y.p + j, vmax(load<F>(X.p + j), splat<F>(0.0f)));
for (long j = n - n % L; j < n; j += L) store_n(Y.p + j, vmax(load_n<F>(X.p + j, n - j), splat<F>(0.0f)), n - j);
"""


@here
@pytest.mark.parametrize(
    ("lines", "by", "cycles"),
    [(CHAIN, "dependences", 4.0), (SHUFFLES, "SKXPort5", 6.0), (DIVISIONS, "SKXFPDivider", 20.0)],
    ids=["chain", "shuffles", "divisions"],
)
def test_the_tool_names_what_bounds_a_loop(
    tmp_path: Path, lines: tuple[str, ...], by: str, cycles: float
) -> None:
    found = port_bound.port_bound(
        lines, processor="skylake-avx512", machine="x86_64", folder=tmp_path
    )
    assert found is not None
    assert (found.by, found.processor) == (by, "skylake-avx512")
    assert found.cycles == pytest.approx(cycles, rel=0.1)
    assert found.throughput <= found.cycles
    assert (found.throughput < 0.5 * found.cycles) == (by == "dependences")


@here
def test_what_the_tool_does_not_know_has_no_bound(tmp_path: Path) -> None:
    lines = ("bogus %ymm0",)
    assert (
        port_bound.port_bound(lines, processor="haswell", machine="x86_64", folder=tmp_path) is None
    )


@pytest.mark.parametrize("found", [{}, {"CodeRegions": []}, {"CodeRegions": [{}]}, []])
def test_json_of_another_kind_is_refused(found: object) -> None:
    with pytest.raises((KeyError, TypeError, IndexError, ValueError)):
        port_bound.read(found)


def test_the_newest_tool_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("llvm-mca", "llvm-mca-9", "llvm-mca-19", "llvm-mca-20.txt", "llvm-mca-x"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert port_bound.tool() == str(tmp_path / "llvm-mca-19")
    monkeypatch.setenv("PATH", "/nowhere")
    assert port_bound.tool() is None


def test_a_verdict_tells_the_bound() -> None:
    verdict = LeafVerdict(level=Level.ATTESTED, status="ok", bound="hot loop 2 cycles, bound by P5")
    assert "hot loop 2 cycles, bound by P5" in quality(verdict)


def cost_of_relu(folder: Path) -> TileCost:
    plan = resolve(GenRequest(op="relu", backend="cpp", arch="x86_64_v3"))
    lowered = lower_plan(plan)
    assert plan.backend.tile_cost is not None
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    return plan.backend.tile_cost(kernel, kernel.leaves[0], folder)


@gxx
@here
def test_a_leafs_loop_is_found_in_its_listing(tmp_path: Path) -> None:
    found = cost_of_relu(tmp_path)
    assert found.throughput is not None
    assert 0 < found.throughput < 64
    assert re.fullmatch(
        r"hot loop [\d.]+ cycles.*, bound by [\w ]+ \(llvm-mca, [\w-]+\)", found.bound
    )


@gxx
def test_without_the_tool_one_word_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_bound, "_NAME", re.compile("no-such-tool"))
    found = cost_of_relu(tmp_path)
    assert (found.throughput, found.bound) == (None, "llvm-mca: missing")
    assert found.cycles, "what needs no tool is still counted"


@pytest.mark.wider
@gxx
@here
def test_the_model_is_told_what_bounds_its_loop_and_the_librarys(
    fresh_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ChatDouble(lambda _: Answer(f"```cpp\n{RELU}```")) as double:
        main([
            "gen", "--op", "relu", "--backend", "cpp", "--arch", "x86_64_v3", "--writer", "llm",
            "--base-url", double.base_url, "--attempts", "1", "--leaf", "relu_leaf", "--json",
        ])  # fmt: skip
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    asked = "\n".join(m["content"] for m in double.requests[0].body["messages"])
    (kept,) = Path(found["run"]).glob("agent/leaves/*.json")
    verdict = json.loads(kept.read_text())["history"][0]["verdict"]
    assert "cycles, bound by " in verdict["bound"]
    assert "cycles, bound by " in asked, "the library's loop is told with the first prompt"
    assert verdict["figures"]["hot_loop_cycles"] > 0
