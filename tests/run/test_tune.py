"""`septran tune`: a search that ends, resumes, keeps the default unless something is better, and whose result gen takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from septran import spanyaml
from septran.agent.proposals import read as read_proposals
from septran.mapping.space import policy_choices, values_of, with_values
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.plan.tuned import read
from septran.run import tune as tuner
from septran.run.trials import Trial, Trials, ordered, rank_correlation
from tests.cli.conftest import septran as septran
from tests.support.openai_double import Answer, ChatDouble

pytestmark = pytest.mark.usefixtures("fresh_home")  # results must not reach other tests
CHOICES = {"host.a": (1, 2, 3, 4), "host.b": (10, 20, 30)}
SMALL = ("--op", "add", "--backend", "dsa_c", "--dim", "N=20000")


def trials(path: Path, seed: int = 7) -> Trials:
    return Trials.kept(path, CHOICES, seed)


def cost(values: dict[str, int]) -> float:
    return 100.0 + 10 * (values["host.a"] - 3) ** 2 + values["host.b"]


def searched(path: Path, count: int, seed: int = 7) -> list[Trial]:
    """Search until there are `count` trials; what is on the disk is gone on with."""
    found = trials(path, seed)
    while len(found.done) < count:
        values = found.propose() if found.done else {"host.a": 1, "host.b": 30}
        if values is None:
            break
        number = len(found.done)
        found.add(Trial(number=number, values=values, state="measured", found=cost(values)))
    return found.done


def test_a_resumed_search_proposes_what_the_whole_one_would_have(tmp_path):
    whole = searched(tmp_path / "whole.jsonl", 11)
    part = tmp_path / "part.jsonl"
    searched(part, 3)
    searched(part, 8)
    with part.open("a") as file:
        file.write('{"number": 8, "val')  # killed while it wrote
    assert searched(part, 11) == whole
    assert searched(tmp_path / "other.jsonl", 11, seed=8) != whole


def test_every_choice_is_proposed_once_and_then_the_search_ends(tmp_path):
    done = searched(tmp_path / "t.jsonl", 100)
    assert len(done) == 12
    assert len({json.dumps(t.values, sort_keys=True) for t in done}) == 12
    best = trials(tmp_path / "t.jsonl").best()
    assert best.values == {"host.a": 3, "host.b": 10}


def test_what_is_expected_follows_from_what_others_took(tmp_path):
    found = trials(tmp_path / "t.jsonl")
    assert found.calibrated(50.0) == 50.0
    for number, figure in enumerate((20.0, 30.0, 300.0)):
        values = {"host.a": number + 1, "host.b": 10}
        found.add(
            Trial(number=number, values=values, state="measured", predicted=10.0, found=figure)
        )
    assert found.calibrated(50.0) == 150.0


def test_a_good_find_that_the_model_did_not_see_prunes_nothing_like_it(tmp_path):
    found = trials(tmp_path / "t.jsonl")
    for number, (predicted, figure) in enumerate(((10.0, 100.0), (10.0, 101.0), (9.9, 60.0))):
        values = {"host.a": number + 1, "host.b": 10}
        found.add(
            Trial(number=number, values=values, state="measured", predicted=predicted, found=figure)
        )
    assert found.calibrated(10.0) > 1.3 * 60 > found.expected(10.0)
    assert found.expected(19.8) == 120.0


def test_rank_correlation():
    assert rank_correlation([(1, 10), (2, 20), (3, 30)]) == pytest.approx(1)
    assert rank_correlation([(1, 30), (2, 20), (3, 10)]) == pytest.approx(-1)
    assert rank_correlation([(1, 30), (2, 20)]) is None
    assert rank_correlation([(1, 3), (1, 2), (1, 1)]) is None


def test_a_policy_says_what_may_be_tried():
    lowered = lower_plan(resolve(GenRequest(op="gemm", backend="dsa_c", dims={"M": 40})))
    choices = tuner.choices_of(lowered.bound.mapping)
    assert choices["gemm_tile.pipeline"] == (1, 2, 3, 4)
    # sizes that cut nothing off are one: the least that holds all 40 rows
    assert choices["host.block_size_M"] == (16, 32, 48)


def test_tune_finds_what_gen_then_takes(septran):
    found = septran("tune", *SMALL, "--trials", "1", "--json").json
    assert found["schema"] == "septran.tune/1" and found["better"] is True
    assert found["best"]["found"] < found["default"]["found"]
    assert found["speedup"]["low"] > 1 and found["unit"] == "cycles"
    assert found["measured"] == 2
    (entry,) = read(Path(found["file"]))
    assert dict(entry.values) == found["best"]["values"] and entry.found == found["best"]["found"]
    # gen takes the result by itself, says so, and leaves it out when it is told to
    made = septran("gen", *SMALL, "--json").json
    assert made["cycles"]["total"] == entry.found
    assert made["tuned"]["values"] == dict(entry.values) and made["tuned"]["file"] == found["file"]
    plain = septran("predict", *SMALL, "--no-tuned", "--json").json
    assert plain["ticks"] == found["default"]["found"]
    # elsewhere in the class of sizes it is taken where the model agrees, in another class never
    near = septran("predict", *SMALL[:4], "--dim", "N=18000", "--json").json["ticks"]
    plainly = ("predict", *SMALL[:4], "--dim", "N=18000", "--no-tuned", "--json")
    assert near < septran(*plainly).json["ticks"]
    far = ("predict", *SMALL[:4], "--dim", "N=300000", "--json")
    assert septran(*far).json["ticks"] == septran(*far, "--no-tuned").json["ticks"]


REPLY = """I would hide the copies.
```json
[{"host.block_size": 4096}, {"host.block_size": 3}, {"host.nothing": 1}, [], {"host.block_size": 4096}]
```"""


def test_a_model_may_only_say_what_is_open():
    choices = {"host.block_size": (1024, 4096), "host.deep": (True, False)}
    default = {"host.block_size": 1024, "host.deep": True}
    found, dropped = read_proposals(REPLY, choices, default, most=8)
    assert found == ({"host.block_size": 4096, "host.deep": True},)
    assert dropped == (
        "host.block_size cannot be 3",
        "there is no choice 'host.nothing'",
        "[] is no object",
    )
    for reply in ("", "none", "[1, 2", '[{"host.deep": 1}]', json.dumps([default]), "[" * 99999):
        assert read_proposals(reply, choices, default, most=8)[0] == ()


def test_who_searches_is_a_known_name(septran):
    done = septran("tune", *SMALL, "--proposer", "gpt")
    assert done.code == 2 and "C144" in done.err


@pytest.mark.slow
def test_what_a_model_proposes_is_tried_first_and_asked_for_once(septran, tmp_path):
    program = tmp_path / "model.py"
    program.write_text(
        "import json, pathlib, re, sys\n"
        "prompt = sys.stdin.read()\n"
        f"log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        "log.write_text(log.read_text() + 'x' if log.exists() else 'x')\n"
        "name, values = re.search(r'- (host.block_size\\S*): \\d+; (.*)', prompt).groups()\n"
        "print(json.dumps([{name: v} for v in json.loads(values)[-2:]]))\n"
    )
    asked = (*SMALL, "--trials", "3", "--proposer", f"command:{sys.executable} {program}", "--json")
    found = septran("tune", *asked).json
    by = [t["by"] for t in found["trials"]]
    assert by[0] == "" and by[1] == "model" and by.index("sampler") == 1 + by.count("model")
    assert found["asked"]["calls"] == len((tmp_path / "log").read_text()) == 2
    tried = [t for t in found["trials"] if t["by"] == "model"]
    assert all(t["state"] in ("measured", "pruned", "refused") for t in tried)
    # the same judge, the same rule: nothing replaces the default unless it is better
    assert found["best"]["found"] <= found["default"]["found"]


@pytest.mark.slow
def test_a_page_draws_the_search(tmp_path):
    from septran.report.tune import page

    trial = {"predicted": 9.0, "why": "", "seconds": 0.0, "low": None, "high": None}
    both = [
        {**trial, "number": n, "values": {"host.a<b": n}, "state": "measured", "found": 10.0 - n}
        for n in (0, 1)
    ]
    refused = {**trial, "number": 2, "values": {"host.a<b": 2}, "state": "refused", "found": None}
    text = page(
        {
            "op": "add", "backend": "dsa_c", "arch": "", "dims": {"N": 3}, "dtype": "float32",
            "unit": "cycles", "choices": {"host.a<b": [0, 1, 2]}, "proposed": 2, "measured": 2,
            "pruned": 0, "refused": 1, "wrong": 0, "predicted": 0, "how": "counted", "facts_of": None, "default": both[0], "best": both[1],
            "speedup": {"middle": 10 / 9, "low": 10 / 9, "high": 10 / 9}, "better": True,
            "rank_correlation": None, "trials": [*both, {**refused, "why": "no room"}],
        }
    )  # fmt: skip
    assert text.count("<svg") == 2 and text.count("<tr>") == 4
    assert "1.111 times the default" in text and "no room" in text and "host.a&lt;b" in text


@pytest.mark.slow
def test_the_values_of_an_explicit_mapping_are_searched(septran, tmp_path):
    text = septran("map", *SMALL).out
    assert "block_size: 1024" in text
    path, out = tmp_path / "add.mapping.yaml", tmp_path / "best.mapping.yaml"
    path.write_text(
        text.replace("block_size: 1024", "block_size: !tune {type: choice, values: [512, 4096]}")
    )
    asked = ("--mapping", str(path), "--trials", "2", "-o", str(out), "--json")
    found = septran("tune", *SMALL, *asked).json
    assert found["default"]["values"] == {"host.block_size": 512} and found["better"]
    assert "block_size: 4096" in out.read_text() and "!tune" not in out.read_text()
    refused = septran("gen", *SMALL, "--mapping", str(path), "--json")
    assert refused.json["errors"][0]["code"] == "M090"


@pytest.mark.wider
def test_another_policy_or_machine_makes_a_result_void(septran, in_tmp):
    assert septran("init", ".").code == 0
    found = septran("tune", *SMALL, "--trials", "1", "--json").json
    assert found["better"] and found["file"] == str(Path("configs/tuned/dsa_c.yaml").resolve())
    tuned = septran("predict", *SMALL, "--json").json["ticks"]
    assert tuned == found["best"]["found"] < found["default"]["found"]
    assert septran("assets", "eject", "mappings/dsa_c.mapping.yaml").code == 0
    policy = Path("mappings/dsa_c.mapping.yaml")
    policy.write_text(policy.read_text() + "# changed\n")
    assert septran("predict", *SMALL, "--json").json["ticks"] == found["default"]["found"]


@pytest.mark.wider
def test_an_interrupted_search_goes_on(septran, monkeypatch):
    real = tuner._Search.tried
    calls = []

    def stopped(self, values):
        calls.append(values)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, values)

    monkeypatch.setattr(tuner._Search, "tried", stopped)
    first = septran("tune", *SMALL, "--trials", "3", "--seed", "5", "--json")
    assert first.code == 130 and "septran tune --resume " in first.err
    run = first.err.split("septran tune --resume ")[1].split()[0]
    monkeypatch.setattr(tuner._Search, "tried", real)
    found = septran("tune", "--resume", run, "--json").json
    assert found["trials"][1]["values"] == calls[0]
    assert found["trials"][2]["values"] == calls[1]
    wrong = septran("gen", "--resume", run, "--json")
    assert wrong.code == 2 and wrong.json["errors"][0]["code"] == "C139"


@pytest.mark.wider
def test_the_default_stays_where_nothing_is_better(septran, monkeypatch):
    monkeypatch.setattr(tuner._Search, "figure", lambda self, judged: 7.0 + len(self.trials.done))
    found = septran("tune", *SMALL, "--trials", "1", "--json").json
    assert found["better"] is False
    (entry,) = read(Path(found["file"]))
    assert dict(entry.values) == {}
    page = Path(septran("report", "latest").out.strip())
    assert "Nothing better than the default was found" in page.read_text()
    assert (
        septran("predict", *SMALL, "--json").json["ticks"]
        == septran("predict", *SMALL, "--no-tuned", "--json").json["ticks"]
    )


@pytest.mark.slow
def test_what_is_wrong_is_never_the_best(septran, monkeypatch):
    from septran.run.tune import _Search

    real = _Search.judged

    def judged(self, lowered, name):
        found = real(self, lowered, name)
        if name == "default":
            return found
        from dataclasses import replace

        from septran.outcome import Status

        return replace(found, verdict=replace(found.verdict, status=Status.INCORRECT_NUMERICAL))

    monkeypatch.setattr(_Search, "judged", judged)
    found = septran("tune", *SMALL, "--trials", "1", "--json").json
    assert found["wrong"] == 1 and found["better"] is False


def test_a_mapping_that_leaves_nothing_open_is_told(septran, tmp_path):
    text = septran("map", "--op", "relu", "--backend", "cpp").out
    path = tmp_path / "relu.mapping.yaml"
    path.write_text(text)
    found = septran("tune", "--op", "relu", "--mapping", str(path), "--json")
    assert found.code == 2 and found.json["errors"][0]["code"] == "M093"


GPU = ("--backend", "triton_cuda", "--where", "emulated")
PRODUCT = ("--op", "gemm", *GPU, *(f"--dim={name}=128" for name in "MNK"))


@pytest.fixture
def compiled(monkeypatch):
    """What the device's compiler says of each kernel in turn; none is built or run."""
    from dataclasses import replace

    from septran.backends.base import Built
    from septran.outcome import Level, Status
    from septran.trial.judge import Judged
    from septran.verify.verdict import Verdict

    said: list[dict[str, int]] = []

    def judged(self, lowered, name):
        kernel = self.emitted(lowered)
        verdict = Verdict.of(kernel, where="emulated", dims=self.plan.dims, seed=None)
        verdict = replace(verdict, status=Status.PASSED, level=Level.ACCURATE)
        facts = tuple((said.pop(0) if said else {}).items())
        return Judged(
            kernel=kernel, built=Built(ok=True, artifact=None, log="", facts=facts), verdict=verdict
        )

    monkeypatch.setattr(tuner._Search, "judged", judged)
    return said


def test_without_a_gpu_the_model_says_what_is_better_and_nobody_calls_it_measured(
    septran, compiled, tmp_path
):
    found = septran("tune", *PRODUCT, "--trials", "2", "--json").json
    assert found["how"] == "predicted" and found["measured"] == 0 and found["better"]
    assert found["rank_correlation"] is None and found["within"] is None
    assert {t["state"] for t in found["trials"]} <= {"predicted", "pruned", "refused"}
    (entry,) = read(Path(found["file"]))
    assert entry.how == "predicted" and "predicted, not measured" in entry.text()
    request = GenRequest(op="gemm", backend="triton_cuda", dims=dict.fromkeys("MNK", 128))
    assert "predicted, not measured" in lower_plan(resolve(request)).tuned.text()
    said = septran("tune", *PRODUCT, "--trials", "1", "--report", str(tmp_path / "t.html"))
    assert "by the model of H100 SXM, not measured" in said.out
    assert "nothing was measured" in (tmp_path / "t.html").read_text()


def test_a_choice_that_the_compiler_spills_is_not_better(septran, compiled):
    compiled += [{"registers": 40, "spill_bytes": 0}, {"registers": 255, "spill_bytes": 64}]
    found = septran("tune", *PRODUCT, "--trials", "1", "--json").json
    spilled = next(t for t in found["trials"] if t["compiled"] and t["number"])
    assert spilled["state"] == "refused" and "64 bytes spilled" in spilled["why"]
    assert found["better"] is False


def test_registers_of_the_compiler_decide_how_many_blocks_there_is_room_for(septran, compiled):
    compiled += [{"registers": 255, "spill_bytes": 0}]
    found = septran("tune", *PRODUCT, "--trials", "1", "--json").json
    assert "holds 1 such blocks, limited by registers" in found["trials"][0]["why"]
    assert found["trials"][0]["found"] >= found["trials"][0]["predicted"]


@pytest.mark.wider
def test_a_gpu_kernel_is_verified_before_it_is_said_to_be_better(septran):
    found = septran("tune", *PRODUCT, "--trials", "1", "--json").json
    assert found["predicted"] == 2 and found["better"] and found["best"]["values"]
    made = septran("gen", *PRODUCT, "--json").json
    assert made["tuned"]["how"] == "predicted" and "predicted" in made["tuned"]["text"]


def test_what_was_measured_counts_before_what_is_predicted(tmp_path):
    from dataclasses import replace

    from septran.plan.tuned import Tuned, added

    timed = Tuned(
        op="add", logic="1", arch="", dtype="float32", dims={"N": 100}, machine="m", mapping="p",
        values={"host.a": 1}, unit="seconds", default=2.0, found=1.0, low=2.0, high=2.0, trials=3, how="timed",
    )  # fmt: skip
    guessed = replace(timed, values={"host.a": 2}, unit="cycles", how="predicted")
    path = tmp_path / "t.yaml"
    for entry in (guessed, timed):
        path.write_text(added(path, entry))
    assert [e.how for e in read(path)] == ["timed"]
    path.write_text(added(path, guessed))
    assert sorted(e.how for e in read(path)) == ["predicted", "timed"]


def test_an_emulation_without_figures_of_its_machine_is_told(septran, in_tmp):
    assert septran("init", ".").code == 0
    assert septran("assets", "eject", "configs/machines/triton_cuda.sm_90.yaml").code == 0
    file = Path("configs/machines/triton_cuda.sm_90.yaml")
    file.write_text(file.read_text().partition("\nspeed:")[0] + "\n")
    found = septran("tune", *PRODUCT, "--json")
    assert found.code == 3 and found.json["errors"][0]["code"] == "V117"
    assert "has no `speed:`" in found.json["errors"][0]["message"]


def test_an_entry_that_nobody_wrote_is_told_with_its_line(septran, in_tmp):
    assert septran("init", ".").code == 0
    Path("configs/tuned").mkdir(parents=True)
    Path("configs/tuned/dsa_c.yaml").write_text("# mine\n- {op: add}\n")
    found = septran("predict", *SMALL, "--json")
    assert found.code == 2
    (error,) = found.json["errors"]
    assert error["code"] == "C123" and error["line"] == 2
    assert septran("predict", *SMALL, "--no-tuned").code == 0


def test_a_result_of_the_same_kind_is_replaced(tmp_path):
    from dataclasses import replace

    from septran.plan.tuned import Tuned, added

    one = Tuned(
        op="add", logic="1", arch="", dtype="float32", dims={"N": 100}, machine="m", mapping="p",
        values={"host.a": 1}, unit="cycles", default=10.0, found=9.0, low=1.1, high=1.1, trials=3,
    )  # fmt: skip
    path = tmp_path / "t.yaml"
    for entry in (one, replace(one, dims={"N": 200}), replace(one, dims={"N": 101}, found=8.0)):
        path.write_text(added(path, entry))
    assert [e.found for e in read(path)] == [9.0, 8.0]
    assert spanyaml.loads(path.read_text()).value[0]["dims"] == {"N": 200}


TIMED = ("--op", "row_sum", "--backend", "cpp", "--threads", "1")


@pytest.fixture
def timed(monkeypatch):
    """What timing says, one figure a race in times of the default, and the kernels that were verified in full."""
    from septran.trial import judge
    from septran.verify.pairs import Pairs

    real, verified, times = judge.verify, [], []

    def counted(kernel, built, problem, **given):
        verified.append(kernel.sha)
        return real(kernel, built, problem, **given)

    def race(*_, **__):
        return Pairs(first=(times.pop(0),) * 9, second=(1.0,) * 9)

    monkeypatch.setattr(judge, "verify", counted)
    monkeypatch.setattr(tuner, "race", race)
    return times, verified


@pytest.mark.wider
def test_where_kernels_are_timed_the_default_and_the_best_are_verified(septran, timed):
    times, verified = timed
    times += [1.0, 1.1, 0.8, 0.9, 0.8, 0.8]  # the default, three choices, the best again, twice
    found = septran("tune", *TIMED, "--trials", "3", "--json").json
    assert found["measured"] == 4 and len(set(verified)) == len(verified) == 2
    assert found["best"]["values"] == found["trials"][2]["values"] and found["better"]
    assert found["speedup"]["middle"] == 1 / 0.8 and found["within"] == 1.0
    # gen takes it by itself; a resumed search has the verdicts of both
    assert septran("gen", *TIMED, "--json").json["tuned"]["values"] == found["best"]["values"]
    verified.clear()
    times += [0.8, 0.8]
    again = septran("tune", "--resume", found["run"], "--json").json
    assert again["best"] == found["best"] and verified == []


def test_the_fastest_that_is_wrong_gives_way_to_the_next(septran, timed, monkeypatch):
    from dataclasses import replace

    from septran.outcome import Status

    real, refused = tuner._Search.judged, []

    def judged(self, lowered, name):
        found = real(self, lowered, name)
        if name == "default" or refused:
            return found
        refused.append(name)
        return replace(found, verdict=replace(found.verdict, status=Status.INCORRECT_NUMERICAL))

    monkeypatch.setattr(tuner._Search, "judged", judged)
    timed[0].extend([1.0, 0.8, 0.9, 1.1, 0.98, 0.98])
    found = septran("tune", *TIMED, "--trials", "3", "--json").json
    assert found["trials"][1]["state"] == "wrong" and found["wrong"] == 1
    assert found["best"]["values"] == found["trials"][2]["values"] and found["better"]
    assert found["speedup"]["middle"] == pytest.approx(1 / 0.98)
    assert found["within"] == pytest.approx(1.0)


@pytest.mark.wider
def test_one_lucky_measurement_does_not_replace_the_default(septran, timed):
    timed[0].extend([1.0, 0.8, 1.1, 0.9, 0.9, 1.01])  # where pages fell, the second time
    found = septran("tune", *TIMED, "--trials", "3", "--json").json
    assert found["better"] is False
    assert found["speedup"]["low"] == pytest.approx(1 / 1.01)
    assert found["speedup"]["high"] == pytest.approx(1 / 0.9)
    assert found["within"] == pytest.approx(1 / 0.9)


@pytest.mark.wider
@pytest.mark.few(1)
def test_what_may_be_faster_than_the_best_is_measured_again(septran, timed, monkeypatch):
    from septran.verify.pairs import Ratio

    times, _ = timed
    times += [1.0, 0.8, 0.9, 1.1, 0.7, 0.7, 0.7, 0.7]
    real = tuner._Search.timed

    def wide(self, trial, gain):  # the second choice, 0.9, might be as fast as 0.5
        return real(self, trial, Ratio(middle=gain.middle, low=1.0, high=2.0) if trial.number == 2 and trial.found is None else gain)  # fmt: skip

    monkeypatch.setattr(tuner._Search, "timed", wide)
    found = septran("tune", *TIMED, "--trials", "3", "--json").json
    assert found["best"]["values"] == found["trials"][2]["values"] and found["better"]
    assert found["speedup"]["middle"] == pytest.approx(1 / 0.7) and times == []


def test_pairs_that_are_apart_are_in_the_models_order_or_not():
    def trial(number, predicted, low, high):
        return Trial(number=number, values={"a": number}, state="measured", predicted=predicted, found=1.0, low=low, high=high)  # fmt: skip

    slow, fast, noisy = trial(0, 9.0, 0.9, 1.0), trial(1, 5.0, 1.1, 1.2), trial(2, 7.0, 0.95, 1.15)
    assert ordered([slow, fast, noisy]) == (1, 0)
    assert ordered([slow, trial(1, 11.0, 1.1, 1.2), noisy]) == (0, 1)


POLICY = {"add.add_leaf.mems.Y": "SHARED", "add.add_leaf.mems.X": "SHARED"}


def test_what_a_policy_chose_is_a_choice_of_its_own():
    plan = resolve(GenRequest(op="layernorm", backend="dsa_c"))
    mapping = lower_plan(plan).bound.mapping
    choices = policy_choices(mapping, ("SHARED", "REGISTER"))
    assert choices["layernorm.mems.t"] == ("SHARED", "REGISTER")
    assert choices["layernorm.layernorm_leaf.mems.g"] == ("SHARED", "REGISTER", "none")
    assert values_of(mapping, choices) == {name: values[0] for name, values in choices.items()}
    moved = {"layernorm.mems.t": "REGISTER", "layernorm.layernorm_leaf.mems.g": "none"}
    other = with_values(mapping, moved)
    assert values_of(other, choices) == {**values_of(mapping, choices), **moved}
    assert "g" not in other.instances["layernorm"].leaf_task_bindings["layernorm_leaf"].mems
    for wrong in ("layernorm.mems.z", "layernorm.other.mems.g", "other.mems.t", "host.pipeline"):
        with pytest.raises(KeyError):
            with_values(mapping, {wrong: "SHARED"})


def test_the_sampler_leaves_the_policys_choices_alone(tmp_path):
    fixed = {"host.m": "SHARED"}
    found = Trials.kept(tmp_path / "t.jsonl", CHOICES, 7, fixed)
    for mem in ("REGISTER", "SHARED"):  # the model's, and the default
        values = {"host.a": 1, "host.b": 30, "host.m": mem}
        found.add(Trial(number=len(found.done), values=values, state="measured", found=9.0))
    while (values := found.propose()) is not None:
        assert values["host.m"] == "SHARED"
        found.add(Trial(number=len(found.done), values=values, state="measured", found=9.0))
    assert len(found.done) == 12 + 1 and found.whole


@pytest.mark.wider
def test_a_model_chooses_what_the_policy_chose(septran, in_tmp, monkeypatch):
    """Memories of operands: named in the prompt, checked before anything is built, kept where they are faster."""
    assert septran("init", ".").code == 0
    mine = {"host.block_size": 2048, "add.add_leaf.mems.Y": "REGISTER"}
    large = {f"add.add_leaf.mems.{name}": "REGISTER" for name in "XYZ"}
    said = [mine, {"add.add_leaf.mems.Y": "NOWHERE"}, {"host.block_size": 25024, **large}]
    with ChatDouble(lambda _: Answer(f"```json\n{json.dumps(said)}\n```")) as double:
        monkeypatch.setenv("SEPTRAN_BASE_URL", double.base_url)
        found = septran("tune", *SMALL, "--proposer", "llm", "--trials", "1", "--json").json
        first, *_ = (seen.body["messages"][1]["content"] for seen in double.requests)
    assert '- add.add_leaf.mems.Y: "SHARED"; ["SHARED", "REGISTER", "none"]' in first
    assert "Choices of the target's policy" in first
    assert 'add.add_leaf.mems.Y cannot be "NOWHERE"' in found["asked"]["dropped"]
    assert POLICY.items() <= found["default"]["values"].items()
    best, *_ = (t for t in found["trials"] if t["by"] == "model")
    assert (best["state"], mine.items() <= best["values"].items()) == ("measured", True)
    assert found["best"]["values"] == best["values"] and found["better"]
    # what it found is what is taken by itself, memories included
    told = septran("predict", *SMALL, "--json").json
    assert told["ticks"] == found["best"]["found"] < found["default"]["found"]
    assert "mems.Y=REGISTER" in septran("gen", *SMALL).err


def test_a_choice_of_the_policy_that_does_not_fit_is_built_by_nobody(septran, in_tmp, monkeypatch):
    large = {f"add.add_leaf.mems.{name}": "REGISTER" for name in "XYZ"}
    said = json.dumps([{"host.block_size": 25024, **large}])
    built = []
    real = tuner.judge_once
    monkeypatch.setattr(tuner, "judge_once", lambda *a, **k: built.append(a) or real(*a, **k))
    with ChatDouble(lambda _: Answer(said)) as double:
        monkeypatch.setenv("SEPTRAN_BASE_URL", double.base_url)
        found = septran("tune", *SMALL, "--proposer", "llm", "--trials", "1", "--json").json
    (tried,) = (t for t in found["trials"] if t["by"] == "model")
    assert (tried["state"], tried["seconds"]) == ("refused", 0.0)
    assert "REGISTER" in tried["why"]
    assert len(built) == 1 + found["measured"] - 1, "the default, and what the sampler proposed"
