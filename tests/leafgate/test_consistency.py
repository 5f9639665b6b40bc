"""A reply that is the library's own leaf is accepted: by the command writer in a kernel, and alone."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.agent.writer import LeafVerdict
from septran.kernel import Leaf, leaf_specs
from septran.passes.run import lower
from septran.plan import catalog
from septran.plan.resolve import GenRequest
from septran.run.gen import gen
from septran.run.inspect import leaf_body
from septran.settings import load
from septran.trial.leaf_case import as_in_the_kernel, leaf_cases
from tests.backends.pallas.installed import simulated, simulated_where_asked
from tests.leafgate import consistency

__all__ = ["simulated", "simulated_where_asked"]

# answers with the body of the leaf whose symbol stands in the prompt
ECHO = """import json, sys
prompt = sys.stdin.read()
for symbol, body in json.load(open(sys.argv[1])).items():
    if symbol in prompt:
        print("Here it is.\\n```\\n" + body + "\\n```")
"""


def bodies(found: tuple[Leaf, ...]) -> dict[str, str]:
    backend = backends.get(found[0].spec.backend)
    return {leaf.spec.symbol: leaf_body(leaf, backend.signature(leaf.spec)) for leaf in found}


@pytest.mark.wider
def test_the_command_writer_accepts_the_library(tmp_path: Path) -> None:
    found = consistency.leaves("cpp", "gelu", "float32")
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "bodies.json").write_text(json.dumps(bodies(found)))
    command = f"{sys.executable} {tmp_path / 'echo.py'} {tmp_path / 'bodies.json'}"
    request = GenRequest(
        op="gelu",
        backend="cpp",
        dims=consistency.OPERATORS["gelu"],
        writer=f"command:{command}",
        attempts=1,
    )
    told: list[str] = []
    result = gen(request, settings=load(), progress=told.append, into=tmp_path / "run", timed=False)
    assert result.exit_code == 0
    verdicts = [json.loads(p.read_text()) for p in (tmp_path / "run").rglob("verdicts/*.json")]
    assert [v["verdict"]["status"] for v in verdicts] == ["ok"] * len(found), told


# one operator of each kind of leaf: product, reduction by rows and by columns, whole row, one element, moved, streamed
KINDS = ("gemm", "row_sum", "col_max", "softmax", "layernorm", "gelu", "transpose", "attention")


def told(backend: str, op: str, dtype: str, folder: Path) -> list[str]:
    """Return what is said of the operator's leaves that are not accepted. Skips where the target's kernels cannot run here."""
    leaves = consistency.leaves(backend, op, dtype)
    trouble = consistency.judged_at(backend, leaves[0].spec.arch).trouble
    if trouble is not None:
        pytest.skip(str(trouble))
    found = [
        (leaf.spec.task, consistency.sent_back(leaf, op, dtype, folder / str(number)))
        for number, leaf in enumerate(leaves)
    ]
    return [f"{task}: {v.message}" for task, v in found if not v.verified]


@pytest.mark.parametrize(
    "backend", [pytest.param("cpp", marks=pytest.mark.wider), "tilelang_npuir"]
)
def test_a_library_leaf_sent_back_is_right(backend: str, tmp_path: Path) -> None:
    assert told(backend, "relu", "float32", tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("op", KINDS)
@pytest.mark.parametrize("backend", consistency.BACKENDS)
@pytest.mark.usefixtures("simulated_where_asked")
def test_one_leaf_of_each_kind_sent_back_is_right(backend: str, op: str, tmp_path: Path) -> None:
    assert told(backend, op, "float32", tmp_path) == []


# what CI has time for: two kinds of each target, so that each kind is there more than once
SPREAD = tuple(
    (backend, KINDS[(3 * at + more) % len(KINDS)])
    for at, backend in enumerate(consistency.BACKENDS)
    for more in (0, 4)
)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "op"), SPREAD)
@pytest.mark.usefixtures("simulated_where_asked")
def test_a_leaf_of_each_kind_and_one_of_each_target_sent_back_is_right(
    backend: str, op: str, tmp_path: Path
) -> None:
    assert told(backend, op, "float32", tmp_path) == []


def test_the_spread_has_every_kind_and_target() -> None:
    assert {op for _, op in SPREAD} == set(KINDS)
    assert {backend for backend, _ in SPREAD} == set(consistency.BACKENDS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", consistency.DTYPES)
@pytest.mark.parametrize("backend", consistency.BACKENDS)
@pytest.mark.usefixtures("simulated_where_asked")
def test_all_library_leaves_sent_back_are_right(backend: str, dtype: str) -> None:
    asked = consistency.Asked((f"{backend}/{dtype}",))
    assert [row for row in consistency.rows(asked) if row.told] == []


@pytest.mark.slow
@pytest.mark.parametrize("op", KINDS)
def test_a_leaf_is_as_fast_as_itself(op: str, tmp_path: Path) -> None:
    """The median of three comparisons, each in alternating slots and seen twice before it says that they differ."""
    for leaf in consistency.leaves("cpp", op, "float32"):
        scores = [
            consistency.sent_back(
                leaf, op, "float32", tmp_path / f"{leaf.spec.symbol}{run}"
            ).speedup
            for run in range(3)
        ]
        assert None not in scores
        assert consistency.WITHIN[0] <= statistics.median(scores) <= consistency.WITHIN[1], (
            leaf.spec.task,
            scores,
        )


def test_every_operator_of_the_library_is_sent_back() -> None:
    assert set(consistency.OPERATORS) == {entry["name"] for entry in catalog.ops()}


@pytest.mark.wider
@pytest.mark.parametrize("backend", consistency.BACKENDS)
def test_every_leaf_of_the_library_stands_on_the_page(backend: str) -> None:
    known = {(row.op, row.leaf) for row in consistency.told() if row.backend == backend}
    library = {(op, leaf.spec.task) for op, leaf in consistency.distinct(backend, "float32")}
    assert library - known == set()


def test_what_a_machine_could_not_judge_is_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says "refused" of leaves; that a machine was busy is asked again another time."""
    answers = {
        "relu_leaf": LeafVerdict(level="unavailable", status="unavailable", message="busy"),
        "gelu_leaf": LeafVerdict(level="ran", status="wrong", message="off by one"),
    }
    monkeypatch.setattr(consistency, "sent_back", lambda leaf, *_: answers[leaf.spec.task])
    asked = consistency.Asked(("cpp/float32/relu", "cpp/float32/gelu"))
    assert [(row.leaf, row.told) for row in consistency.rows(asked)] == [
        ("gelu_leaf", "off by one")
    ]


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ((1.01,), 1.01),
        ((0.8, 1.0, 1.02), 1.0),
        ((1.3, 0.7, 1.4), 1.3),
        ((None,), None),
    ],
)
def test_a_score_that_is_outside_is_the_median_of_three(
    scores: tuple[float | None, ...],
    wanted: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (leaf,) = consistency.leaves("cpp", "relu", "float32")
    left = list(scores)

    def sent_back(*_: object) -> LeafVerdict:
        score = left.pop(0)
        right = LeafVerdict(level="accurate", status="ok", message="")
        return right if score is None else replace(right, seconds=1.0, baseline_seconds=score)

    monkeypatch.setattr(consistency, "sent_back", sent_back)
    assert consistency.scored(leaf, "relu", "float32", tmp_path).speedup == wanted
    assert not left


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("no_chip", "'no_chip' is none of cpp "),
        ("cpp/float8", "'float8' is none of float32 "),
        ("cpp/float32/no_such", "'no_such' is none of "),
        ("cpp/float32/relu/relu_leaf", "a word is BACKEND"),
        ("--mising", "'--mising' is none of "),
    ],
)
def test_a_word_that_names_nothing_is_refused(
    word: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be dropped, and nothing tried looks as if all were accepted."""
    monkeypatch.setattr("sys.argv", ["consistency", "cpp", word])
    assert consistency.main() == 2
    assert f"{word}: " in (said := capsys.readouterr().err) and told in said


def test_the_page_names_every_backend() -> None:
    text = consistency.PAGE.read_text(encoding="utf-8")
    found = consistency.told_on(text)
    assert {row.backend for row in found} == set(consistency.BACKENDS)
    assert "refused" not in text
    assert all(row.score for row in found if row.backend == "cpp")


@pytest.mark.parametrize("op", ["attention", "conv2d", "gemm"])
@pytest.mark.parametrize("backend", ["cpp", "cuda_c", "dsa_c"])
def test_a_leaf_alone_has_the_operands_of_the_kernel(backend: str, op: str) -> None:
    """In half types a copy into panels widens, and rows that a kernel's leaf reads where they are were widened for the leaf alone, too."""
    for leaf in consistency.leaves(backend, op, "float16"):
        for case in leaf_cases(leaf.spec, machine=""):
            lowered = lower(case.program, backends.get(backend).passes)
            ((_, spec),) = leaf_specs(as_in_the_kernel(lowered, leaf.spec))
            alone = {p.name: (p.dtype, p.layout) for p in spec.params}
            assert alone == {p.name: (p.dtype, p.layout) for p in leaf.spec.params}
