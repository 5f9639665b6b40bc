"""Cycles of a full tile from a compiler's listing: how it is read, what a core makes of it, and that leaves are accepted by it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from septran.agent.figures import preferred
from septran.backends.cpp.priced import core_of, with_extents
from septran.errors import ConfigError
from septran.machine import load_machine
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.toolchain.instructions import instruction
from septran.toolchain.listing import functions
from septran.toolchain.nominal_core import cycles
from septran.trial.judge import distinct_specs
from tests.support.openai_double import Answer, ChatDouble

ROOT = Path(__file__).resolve().parents[2]
CORE = core_of(load_machine("cpp.x86_64"))
LISTING = """
sum:
.LFB0:
# BLOCK 2, count:1000 (estimated locally) seq:0
# PRED: ENTRY [always]  count:1000 (estimated locally) (FALLTHRU)
\txorl\t%eax, %eax
# BLOCK 3, count:128000 (estimated locally) seq:1
# PRED: 3 [WAY]  count:127000 (estimated locally) (DFS_BACK,CAN_FALLTHRU) 2 [always]  count:1000 (estimated locally) (FALLTHRU)
.L3:
BODY
\taddq\t$32, %rax
\tcmpq\t%rsi, %rax
\tjne\t.L3
# BLOCK 4, count:1000 (estimated locally) seq:2
# PRED: 3 [0.8% (adjusted)]  count:1000 (estimated locally) (FALLTHRU,CAN_FALLTHRU,LOOP_EXIT)
\tret
"""
CHAIN = "\tvaddps\t(%rdi,%rax), %ymm0, %ymm0"
APART = "\tvaddps\t(%rdi,%rax), %ymm0, %ymm0\n\tvaddps\t32(%rdi,%rax), %ymm1, %ymm1"
STACK = "\tvmovss\t12(%rsp), %xmm0\n\tvaddss\t(%rdi,%rax), %xmm0, %xmm0\n\tvmovss\t%xmm0, 12(%rsp)"


def counted(body: str, way: str = "99.2% (adjusted)") -> float | None:
    assert CORE is not None
    text = LISTING.replace("BODY", body).replace("WAY", way)
    return cycles("sum", functions(text), CORE, "x86_64")


def test_a_loop_costs_its_chain_and_how_often_it_runs() -> None:
    chain, apart, stack = counted(CHAIN), counted(APART), counted(STACK)
    assert chain is not None
    assert chain == pytest.approx(128 * 3, rel=0.05)  # an addition waits for the one before
    assert apart == pytest.approx(chain, rel=0.05)  # the second chain is for nothing
    assert stack is not None
    assert stack > 2 * chain  # through the stack, it waits for store and load, too


def test_a_loop_whose_rounds_are_guessed_has_no_figure() -> None:
    assert counted(CHAIN, "89.0% (guessed)") is None
    assert CORE is not None
    assert cycles("other", functions(LISTING), CORE, "x86_64") is None


@pytest.mark.parametrize(
    ("line", "machine", "kind", "reads", "writes"),
    [
        ("vfmadd231ps\t(%rdi), %ymm1, %ymm0", "x86_64", "fma", {"di", "v1", "v0"}, {"v0"}),
        ("vmulps\t%zmm3, %zmm2, %zmm1", "x86_64", "multiply", {"v2", "v3"}, {"v1"}),
        ("vmovups\t%ymm0, 8(%rax,%rbx)", "x86_64", "", {"a", "b", "v0"}, set()),
        ("addq\t$32, %rax", "x86_64", "integer", {"a"}, {"a"}),
        ("fmla\tv0.4s, v1.4s, v2.4s", "aarch64", "fma", {"v0", "v1", "v2"}, {"v0"}),
        ("fadd\tv0.4s, v1.4s, v2.4s", "aarch64", "add", {"v1", "v2"}, {"v0"}),
        ("ldr\tq3, [x0, x1]", "aarch64", "", {"x0", "x1"}, {"v3"}),
    ],
)
def test_what_an_instruction_reads_and_writes(
    line: str, machine: str, kind: str, reads: set[str], writes: set[str]
) -> None:
    found = instruction(line, machine)
    assert (found.kind, set(found.reads), set(found.writes)) == (kind, reads, writes)


def test_extents_of_a_full_tile_are_written_into_the_leaf() -> None:
    source = (
        "static void leaf_a(st::View<float, 2> Y, st::View<const float, 1> X) {\n    Y(0, 0) = X(0);\n}\n"
        "void entry() {\n    leaf_a({y, {least(4, n - i), 8}, {16, 1}}, {x + i, {8}, {step}});\n}\n"
    )
    text = with_extents(source, "leaf_a", {"Y": (4, 8), "X": (8,)})
    assert text is not None
    assert "__attribute__((noinline, used)) static void leaf_a(" in text
    assert "{ Y.n[0] = 4; Y.n[1] = 8; Y.s[0] = 16; Y.s[1] = 1; X.n[0] = 8;\n" in text
    assert with_extents(source, "leaf_b", {}) is None


def test_a_core_that_lacks_a_part_is_told() -> None:
    machine = load_machine("cpp.x86_64")
    limits = {**machine.limits, "core": {"issue": 4}}
    with pytest.raises(ConfigError) as told:
        core_of(replace(machine, limits=limits))
    assert told.value.codes == ("C120",)
    assert core_of(load_machine("dsa_c")) is None


@pytest.mark.parametrize(
    ("mine", "library", "wanted"),
    [(89.0, 100.0, 1), (95.0, 100.0, 0), (100.0, 89.0, -1), (None, 100.0, None)],
)
def test_only_a_clear_difference_counts(
    mine: float | None, library: float, wanted: int | None
) -> None:
    assert (
        preferred({} if mine is None else {"tile_cycles": mine}, {"tile_cycles": library}) == wanted
    )


@pytest.mark.slow
def test_cycles_order_leaves_as_the_clock_does(tmp_path: Path) -> None:
    """Differences of a factor: the benchmark of docs/agents.md on one operator."""
    kept = tmp_path / "figures.json"
    command = [sys.executable, "benchmarks/leaf_order.py", "--op", "row_sum", "--json", str(kept)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = (one for one in done.stdout.splitlines() if " pairs that both" in one)
    right, _, all_of_them = line.partition(" of ")
    assert int(right) >= 4, done.stdout
    assert int(all_of_them.split()[0]) - int(right) <= 1, done.stdout
    assert len(json.loads(kept.read_text())) == 4


SLOW = """
for (long i = 0; i < X.n[0]; ++i) {
    float sum = 0.0f;
    for (long j = 0; j < X.n[1]; ++j) sum += X.p[i * X.s[0] + j];
    acc.p[i * acc.s[0]] += sum;
}
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="g++ makes the listing")
def test_a_chain_of_additions_is_priced_above_the_librarys_four_sums(tmp_path: Path) -> None:
    """The planted slow leaf: whoever prices instructions alone finds both the same."""
    from septran.agent.frame import make_frame

    plan = resolve(GenRequest(op="row_sum", backend="cpp"))
    lowered = lower_plan(plan)
    backend = plan.backend
    assert backend.tile_cost is not None
    spec = next(s for s in distinct_specs(lowered.program) if s.task == "row_sum_step")
    leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
    slow = make_frame(spec, backend, "body").leaf(SLOW, writer="llm", name="slow")
    found = []
    for leaf in (leaves[spec.key], slow):
        kernel = backend.emit(lowered.program, {**leaves, spec.key: leaf})
        folder = tmp_path / leaf.sha
        folder.mkdir()
        inside = next(one for one in kernel.leaves if one.spec.key == spec.key)
        found.append(backend.tile_cost(kernel, inside, folder).cycles)
    library, chained = found
    assert library is not None
    assert chained is not None
    assert chained > 5 * library


UNROLLED = """
using namespace st;
using F = f32v;
constexpr long L = lanes<F>;
const long n = Y.n[0];
long j = 0;
#pragma GCC unroll 4
for (; j + L <= n; j += L) store(Y.p + j, vmax(load<F>(X.p + j), splat<F>(0.0f)));
for (; j < n; j += L) store_n(Y.p + j, vmax(load_n<F>(X.p + j, n - j), splat<F>(0.0f)), n - j);
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64")),
    reason="kernels for aarch64 need its g++ and qemu",
)
@pytest.mark.parametrize(("accept", "writer"), [("predicted", "llm"), ("faster", "library")])
def test_where_no_clock_is_a_leaf_is_accepted_by_its_cycles_and_marked(
    septran_json, fresh_home: Path, tmp_path: Path, accept: str, writer: str
) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(f"accept: {accept}\n")
    with ChatDouble(lambda _: Answer(f"```cpp\n{UNROLLED}```")) as double:
        found, told = septran_json(
            "gen", "--op", "relu", "--backend", "cpp", "--arch", "aarch64", "--writer", "llm",
            "--base-url", double.base_url, "--config", str(config), "--attempts", "1",
        )  # fmt: skip
    (leaf,) = found["leaves"]
    assert leaf["writer"] == writer, told
    assert leaf.get("accepted", "") == ("predicted" if writer == "llm" else "")
    (kept,) = Path(found["run"]).glob("agent/leaves/*.json")
    (tried,) = json.loads(kept.read_text())["history"]
    figures = tried["verdict"]
    assert 0 < figures["figures"]["tile_cycles"] < 0.9 * figures["baseline_figures"]["tile_cycles"]


@pytest.fixture
def septran_json(capsys: pytest.CaptureFixture[str]):
    from septran.cli.main import main

    def call(*words: str) -> tuple[dict, str]:
        capsys.readouterr()
        main([*words, "--json"])
        out, err = capsys.readouterr()
        return json.loads(out.splitlines()[-1]), err

    return call
