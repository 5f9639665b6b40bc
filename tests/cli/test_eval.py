"""`septran eval` against a scripted model behind a real HTTP server; resumed, priced and counted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from septran.agent.writer import LeafVerdict
from septran.kernel import Leaf, LeafSpec
from septran.outcome import Level
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.inspect import leaf_body
from septran.trial.judge import distinct_specs
from tests.support.openai_double import Answer, ChatDouble, Status, Step

LISTED = "version: 7\nleaves:\n  - {op: relu, leaf: relu_leaf}\n  - {op: mul, leaf: mul_leaf}\n"


def library_bodies(*ops: str) -> dict[str, str]:
    """Return symbol -> the library's body: what the scripted model knows."""
    found = {}
    for op in ops:
        plan = resolve(GenRequest(op=op, backend="cpp"))
        for spec in distinct_specs(lower_plan(plan).program):
            leaf = plan.backend.library(spec)
            assert leaf is not None
            found[spec.symbol] = leaf_body(leaf, plan.backend.signature(spec))
    return found


class Strong:
    """Replays the library's leaves; for the tasks in `stumbles` the first reply of a leaf names what is not there."""

    def __init__(self, bodies: dict[str, str], stumbles: tuple[str, ...] = ()) -> None:
        self.bodies, self.stumbles = bodies, stumbles
        """a stumble is avoided by who is told of it"""

    def __call__(self, body: dict[str, object]) -> Step:
        text = str(body["messages"][1]["content"])  # type: ignore[index]
        match = re.search(r"Leaf `(\w+)` \(task (\w+)", text)
        assert match is not None
        if match[2] in self.stumbles and "not_there" not in text:
            return Answer("```cpp\nnot_there(Y);\n```")
        return Answer(f"```cpp\n{self.bodies[match[1]]}```")


class QuickJudge:
    """Takes every leaf for right and measures it as equal: the default suite tests the counting, not the judge."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def library(self, spec: LeafSpec) -> str:
        return ""

    def check(self, leaf: Leaf) -> LeafVerdict:
        return LeafVerdict(level=Level.ACCURATE, status="ok", seconds=1e-6, baseline_seconds=1e-6)


def test_a_leaf_that_cannot_be_judged_is_no_failure_of_the_model(
    septran, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when one of its replies was refused before anybody saw that no kernel can be built here."""

    class Nowhere(QuickJudge):
        def check(self, leaf: Leaf) -> LeafVerdict:
            return LeafVerdict(level=Level.UNAVAILABLE, status="unavailable", message="V110")

    monkeypatch.setattr("septran.run.evaluate.LeafJudge", Nowhere)
    listed = tmp_path / "list.yaml"
    listed.write_text(LISTED)
    replies = iter(["I do not know this leaf.", *["```cpp\nlong i = 0;\n```"] * 9])
    with ChatDouble(lambda _: Answer(next(replies))) as double:
        done = septran(
            "eval", "--backend", "cpp", "--list", str(listed), "--base-url", double.base_url,
"-o", str(tmp_path / "out"), "--json",
        )  # fmt: skip
    (row,) = done.json["rows"]
    assert (row["cells"], row["unavailable"]) == (0, 2)


def test_a_folder_named_from_here_is_the_same_folder_for_a_compiler(
    septran, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that compiles has a working directory of its own: it found no kernel, and the model was blamed."""
    works: list[Path] = []

    class Watched(QuickJudge):
        def __init__(self, *_: object, work: Path, **__: object) -> None:
            works.append(work)

    monkeypatch.setattr("septran.run.evaluate.LeafJudge", Watched)
    monkeypatch.chdir(tmp_path)
    listed = tmp_path / "list.yaml"
    listed.write_text(LISTED)
    with ChatDouble(Strong(library_bodies("relu", "mul"))) as double:
        given = ("eval", "--backend", "cpp", "--list", "list.yaml", "-o", "out", "--json")
        assert septran(*given, "--base-url", double.base_url).json["rows"][0]["cells"] == 2
    assert [work.is_relative_to(tmp_path / "out") for work in works] == [True, True]


@pytest.mark.parametrize("judge", ["quick", pytest.param("real", marks=pytest.mark.slow)])
def test_a_strong_model_is_measured_and_not_paid_twice(
    septran, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    if judge == "quick":
        monkeypatch.setattr("septran.run.evaluate.LeafJudge", QuickJudge)
    listed = tmp_path / "list.yaml"
    listed.write_text(LISTED)
    config = tmp_path / "mine.yaml"
    config.write_text("prices: {prompt_per_million: 1.0, completion_per_million: 10.0}\n")
    model = Strong(library_bodies("relu", "mul"), stumbles=("mul_leaf",))
    given = (
        "eval",
        "--backend",
        "cpp",
        "--list",
        str(listed),
        "--config",
        str(config),
        "-o",
        str(tmp_path / "out"),
    )
    with ChatDouble(model) as double:
        endpoint = ("--base-url", double.base_url)
        first = septran(*given, *endpoint, "--json")
        assert first.code == 0, first.err
        asked = len(double.requests)
        again = septran(*given, *endpoint)
        assert len(double.requests) == asked == 3
    found = first.json
    assert (found["schema"], found["list"]) == ("septran.eval/1", 7)
    (row,) = found["rows"]
    assert row["passed"] == {"1": 0.5, "3": 1.0}
    assert (row["calls"], row["cells"], row["unavailable"]) == (3, 2, 0)
    assert row["cost"] > 0
    assert (row["measured"], row["faster"]) == (2, 0.0), "as fast as the library's is not faster"
    assert (row["leaves"], row["seeds"], row["to_verified"]) == (2, 1, 1.5)
    assert [cell["statuses"] for cell in found["cells"]] == [["ok"], ["unusable", "ok"]]
    assert json.loads((tmp_path / "out" / "eval.json").read_text()) == found
    assert "| fake-coder | cpp | 2 x 1 | 50 % | 100 % | 1.50 | 0 % | 3 |" in again.out


def test_memory_saves_calls(
    septran, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ablation: the same model, list and judge; with memory the second leaf is told of the first one's failure."""
    monkeypatch.setattr("septran.run.evaluate.LeafJudge", QuickJudge)
    listed = tmp_path / "list.yaml"
    listed.write_text(LISTED)
    model = Strong(library_bodies("relu", "mul"), stumbles=("relu_leaf", "mul_leaf"))
    lessons = tmp_path / "lessons"
    statuses = {}
    with ChatDouble(model) as double:
        given = (
            "eval",
            "--backend",
            "cpp",
            "--list",
            str(listed),
            "--base-url",
            double.base_url,
            "--json",
        )
        for name, flags in (
            ("without", ()),
            ("learns", ("--memory", str(lessons))),
            ("knows", ("--memory", str(lessons))),
        ):
            found = septran(*given, "-o", str(tmp_path / name), *flags).json
            statuses[name] = [len(cell["statuses"]) for cell in found["cells"]]
    assert statuses == {"without": [2, 2], "learns": [2, 1], "knows": [1, 1]}
    (prompt,) = [
        text
        for seen in double.requests[-1:]
        if "From earlier runs" in (text := str(seen.body["messages"][1]["content"]))
    ]
    assert "What failed there" in prompt


def test_memory_is_measured_in_calls_and_in_speed(
    septran, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that answers with the fastest body it was told of: the second seed is faster for the lesson of the first."""
    fast = "const long told_fast = 0;\n"

    class Clock(QuickJudge):
        def check(self, leaf: Leaf) -> LeafVerdict:
            own = 1e-6 if "told_fast" not in leaf.source else 5e-7
            return LeafVerdict(
                level=Level.ACCURATE, status="ok", seconds=own, baseline_seconds=1e-6
            )

    def choose(body: dict[str, object]) -> Step:
        text = str(body["messages"][1]["content"])  # type: ignore[index]
        first = "(task relu" in text
        quick = fast if first or "told_fast" in text else ""
        leaf = re.search(r"Leaf `(\w+)`", text)
        assert leaf is not None
        return Answer(f"```cpp\n{quick}{bodies[leaf[1]]}```")

    monkeypatch.setattr("septran.run.evaluate.LeafJudge", Clock)
    bodies = library_bodies("relu", "mul")
    listed = tmp_path / "list.yaml"
    listed.write_text(LISTED)
    rows = {}
    with ChatDouble(choose) as double:
        given = ("eval", "--backend", "cpp", "--list", str(listed), "--base-url", double.base_url)
        for name, flags in (("without", ()), ("with", ("--memory", str(tmp_path / "lessons")))):
            out = ("-o", str(tmp_path / name), "--json")
            (rows[name],) = septran(*given, *out, *flags).json["rows"]
    assert (rows["without"]["faster"], rows["with"]["faster"]) == (0.5, 1.0)
    assert rows["without"]["to_verified"] == rows["with"]["to_verified"] == 1.0


@pytest.mark.wider
def test_a_program_is_told_its_seed_and_may_have_a_name(
    septran, fresh_home: Path, tmp_path: Path
) -> None:
    program = tmp_path / "ask.sh"
    program.write_text('#!/bin/sh\ncat >/dev/null\necho "seed $SEPTRAN_SEED"\n')
    program.chmod(0o755)
    out = tmp_path / "out"
    given = ("eval", "--backend", "cpp", "--command", str(program), "--model", "mine", "--leaf")
    found = septran(*given, "relu", "--seeds", "2", "--attempts", "1", "-o", str(out), "--json")
    assert [cell["model"] for cell in found.json["cells"]] == ["mine", "mine"]
    told = "".join(p.read_text() for p in out.rglob("work/*/agent/**/*") if p.is_file())
    assert "seed 0" in told and "seed 1000" in told


@pytest.mark.wider
def test_an_evaluation_goes_on_where_the_server_died(
    septran, fresh_home: Path, tmp_path: Path
) -> None:
    """A server that is gone is no failure of the model: exit 3, and the paid cells stay."""
    listed = tmp_path / "list.yaml"
    listed.write_text(LISTED)
    answers: list[Step] = [Answer("I cannot."), Status(401)]
    given = (
        "eval",
        "--backend",
        "cpp",
        "--list",
        str(listed),
        "--attempts",
        "1",
        "-o",
        str(tmp_path / "out"),
    )
    with ChatDouble(lambda body: answers.pop(0) if answers else Answer("no")) as double:
        endpoint = ("--base-url", double.base_url, "--model", "fake-coder")
        died = septran(*given, *endpoint)
        assert died.code == 3, died.out
        done = septran(*given, *endpoint, "--json").json
        assert len(double.requests) == 3
    assert [cell["status"] for cell in done["cells"]] == ["failed", "failed"]
    assert done["rows"][0]["passed"] == {"1": 0.0}


@pytest.mark.wider
def test_a_program_is_evaluated_too(septran, fresh_home: Path, tmp_path: Path) -> None:
    program = tmp_path / "ask.sh"
    program.write_text("#!/bin/sh\ncat >/dev/null\necho 'no idea'\n")
    program.chmod(0o755)
    given = (
        "eval",
        "--backend",
        "cpp",
        "--command",
        str(program),
        "--leaf",
        "relu",
        "--attempts",
        "1",
    )
    (row,) = septran(*given, "-o", str(tmp_path / "out"), "--json").json["rows"]
    assert (row["cells"], row["calls"], row["passed"]) == (1, 1, {"1": 0.0})


@pytest.mark.wider
def test_a_program_that_does_not_start_is_named(septran, fresh_home: Path, tmp_path: Path) -> None:
    """Not the endpoint of the settings, which nobody asked."""
    given = ("eval", "--backend", "cpp", "--command", "/bin/nosuch", "--leaf", "relu")
    died = septran(*given, "-o", str(tmp_path / "out"))
    assert died.code == 3
    assert "the model behind --command /bin/nosuch cannot be used: cannot start" in died.err


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("leaves: []\n", ()),
        ("version: 1\nleaves: [{op: relu}]\n", ()),
        ("version: 1\nleaves: [{op: relu, leaf: none}]\n", ()),
        (LISTED, ("--leaf", "rellu")),
    ],
)
def test_a_list_that_cannot_be_used(
    septran, fresh_home: Path, tmp_path: Path, text: str, flags: tuple[str, ...]
) -> None:
    listed = tmp_path / "list.yaml"
    listed.write_text(text)
    found = septran(
        "eval", "--backend", "cpp", "--list", str(listed), "-o", str(tmp_path / "out"), *flags
    )
    assert found.code == 2
    assert "C143" in found.err


def test_the_list_has_thirty_leaves_of_every_target() -> None:
    from septran import backends, spanyaml
    from septran.assets import find

    value = spanyaml.load(find("configs/eval/leaves.yaml").path).value
    pairs = [(e["op"], e["leaf"]) for e in value["leaves"]]
    assert len(set(pairs)) == len(pairs) == 30
    for op in {op for op, _ in pairs}:
        plan = resolve(GenRequest(op=op, backend=backends.names()[0]))
        tasks = {s.task for s in distinct_specs(lower_plan(plan).program)}
        assert {leaf for o, leaf in pairs if o == op} <= tasks
