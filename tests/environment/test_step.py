"""A reply becomes a reward vector: the same bits for the same seed, and the mistake it made."""

from __future__ import annotations

import json

import pytest

from septran import settings
from septran.environment.export import rows
from septran.environment.step import Submission, step
from septran.environment.tasks import Asked, find, leaf_tasks
from septran.errors import ConfigError
from septran.kernel import content_hash

ASKED = Asked(op="transpose", backend="cpp", dims={"M": 33, "N": 18})


def reward(reply: str, seed: int = 7) -> dict:
    (task,) = leaf_tasks(ASKED)
    sent = Submission(asked=ASKED, leaf=task.spec.task, reply=reply, seed=seed)
    return step(sent, settings=settings.load()).to_json()


def library() -> str:
    (task,) = leaf_tasks(ASKED)
    return f"```cpp\n{task.solution()}```\n"


def test_the_library_leaf_is_accurate_and_the_same_bits_again():
    found, again = reward(library()), reward(library())
    assert (found["rung"], found["hack"], found["first_wrong"]) == ("accurate", "", None)
    assert found == again
    assert found["sha"] == content_hash({k: v for k, v in found.items() if k != "sha"})


def test_a_wrong_leaf_shows_its_first_wrong_element():
    found = reward("```cpp\nlong i = 0;\n```")
    assert (found["rung"], found["status"]) == ("ran", "INCORRECT_NUMERICAL")
    assert found["first_wrong"]["expected"] != found["first_wrong"]["got"]


@pytest.mark.parametrize("reply", ["", "I cannot do that.", '```cpp\nsystem("ls");\n```'])
def test_a_reply_without_a_leaf_is_the_lowest_rung(reply):
    found = reward(reply)
    assert (found["rank"], found["status"]) == (0, "unusable")
    assert found["message"]


def test_an_unknown_leaf_names_the_nearest():
    with pytest.raises(ConfigError) as error:
        find(ASKED, "transpos_leaf")
    assert error.value.codes == ("C137",)


def test_rows_hold_what_training_needs():
    found = list(
        rows(["transpose"], ["cpp"], settings=settings.load(), verify=False, skipped=pytest.fail)
    )
    (row,) = found
    assert row["license"] == "MIT"
    assert "contract" in row and row["messages"][0]["role"] == "system"
    assert row["reference"] and "entry" in row["logic"]
    assert row["row_sha"] == content_hash({k: v for k, v in row.items() if k != "row_sha"})
    assert json.loads(json.dumps(row)) == row
