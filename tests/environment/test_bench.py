"""The verb `bench`: paired time of a right submission, queued like any other and no part of its reward."""

from __future__ import annotations

import pytest

from septran import settings
from septran.environment.bench import measure
from septran.environment.request import read_submission, submission_of
from septran.environment.step import Submission
from septran.environment.tasks import Asked, leaf_tasks
from septran.environment.words import words
from septran.environment.worker import judged

ASKED = {"op": "transpose", "backend": "cpp", "dims": {"M": 33, "N": 18}}


def sent(reply: str = "", **more: object) -> dict[str, object]:
    (task,) = leaf_tasks(Asked(**ASKED))
    return {
        **ASKED,
        "leaf": task.spec.task,
        "reply": reply or f"```cpp\n{task.solution()}```\n",
        **more,
    }


@pytest.mark.wider
def test_a_right_leaf_is_timed_against_the_library_and_torch() -> None:
    found = judged(submission_of(sent(seed=3), bench=True).to_json())
    assert (found["schema"], found["rung"]) == ("septran.measured/1", "accurate")
    assert found["leaf_us"] > 0 and found["torch_us"] > 0 and found["reason"] == ""
    for ratio in (found["gain"], found["speedup"]):
        assert ratio["kind"] == "measured" and 0 < ratio["low"] <= ratio["value"] <= ratio["high"]
    assert "sha" not in found
    assert "measured here" in words(found)


@pytest.mark.parametrize(
    ("reply", "rung"),
    [("nothing", "rejected"), ("```cpp\nlong i = 0;\n```", "ran"), ("```cpp\n}\n```", "rejected")],
)
def test_a_leaf_that_is_not_right_has_no_time(reply: str, rung: str) -> None:
    found = judged(submission_of(sent(reply), bench=True).to_json())
    assert (found["rung"], found["gain"], found["leaf_us"]) == (rung, None, None)
    assert found["message"] and found["reason"].startswith("not timed")
    assert found["message"] in words(found)


@pytest.mark.wider
def test_the_time_of_an_emulation_is_not_told() -> None:
    asked = Asked(op="softmax", backend="triton_hip", dims={"M": 4, "N": 64})
    (task,) = leaf_tasks(asked)
    reply = f"```python\n{task.solution()}```\n"
    found = measure(
        Submission(asked=asked, leaf=task.spec.task, reply=reply, bench=True),
        settings=settings.load(),
    )
    if found.where != "emulated":
        pytest.skip(f"not emulated here: {found.where} {found.message}")
    assert (found.rung, found.leaf_us) == ("accurate", None)
    assert "emulat" in found.reason and (found.gain is None or found.gain["kind"] == "predicted")


def test_a_timing_is_no_other_submission_s_verdict() -> None:
    asked = submission_of(sent())
    timed = submission_of(sent(), bench=True)
    assert "bench" not in asked.to_json() and timed.to_json()["bench"] is True
    assert Submission.from_json(timed.to_json()) == timed
    with pytest.raises(Exception, match="C180"):
        read_submission(b'{"op": "a", "backend": "b", "leaf": "c", "reply": "", "bench": true}')
