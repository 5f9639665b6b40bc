"""A reply becomes a reward vector: the same bits for the same seed, and the mistake it made."""

from __future__ import annotations

import json

import pytest

from septran import settings
from septran.environment.export import rows
from septran.environment.gain import between
from septran.environment.step import Submission, step
from septran.environment.tasks import Asked, find, leaf_tasks
from septran.environment.words import words
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


@pytest.mark.wider
def test_the_library_leaf_is_accurate_and_the_same_bits_again():
    found, again = reward(library()), reward(library())
    assert (found["rung"], found["hack"], found["first_wrong"]) == ("accurate", "", None)
    assert found == again
    assert found["sha"] == content_hash({k: v for k, v in found.items() if k != "sha"})


@pytest.mark.parametrize("op", ["softmax", "gemm", "attention_causal", "conv2d"])
def test_leaves_that_are_operations_have_a_solution_too(op):
    tasks = leaf_tasks(Asked(op=op, backend="dsa_c"))
    assert tasks and all("vendor_lib_" in (task.solution() or "") for task in tasks)


def test_a_right_leaf_says_where_it_ran_and_that_nobody_measured_time():
    found = reward(library())
    assert found["where"] == "native"
    assert [text.partition(":")[0] for text in found["unchecked"]] == ["time"]


def test_a_wrong_leaf_shows_its_first_wrong_element_and_who_wrote_it():
    wrong = "Y.p[10 * Y.s[0] + 2] += 1e20f;\nY.p[3 * Y.s[0] + 5] += 1.0f;\n"
    body = f"if (Y.n[0] > 10 && Y.n[1] > 5) {{\n{wrong}}}\n"
    found = reward(library().replace("```\n", f"{body}```\n"))
    assert (found["rung"], found["status"]) == ("ran", "INCORRECT_NUMERICAL"), found
    first = found["first_wrong"]
    assert first["index"] == [3, 5] and found["worst"]["output"] == "Y"
    assert first["expected"] != first["got"] and first["case"] == "integers"
    assert first["by"]["leaf"] == "transpose_leaf" and first["by"]["tile"] == [3, 5]
    assert "written by leaf transpose_leaf at [3, 5]" in words(found)


@pytest.mark.wider
def test_a_figure_of_the_compiler_is_a_predicted_gain_with_an_interval():
    asked = Asked(op="add", backend="cpp", dims={"N": 1000})
    (task,) = leaf_tasks(asked)
    slow = "for (long i = 0; i < Y.n[0]; ++i) Y.p[i] = X.p[i] + Z.p[i];"
    sent = Submission(asked=asked, leaf=task.spec.task, reply=f"```cpp\n{slow}\n```", seed=1)
    one, two = (step(sent, settings=settings.load()).to_json() for _ in range(2))
    assert one["rung"] == "accurate", one
    gain = one["gain"]
    assert gain["kind"] == "predicted" and set(gain["figures"]) == {"tile_cycles"}
    assert gain["low"] <= gain["value"] <= gain["high"] and gain["low"] <= 1.0 <= gain["high"]
    assert one == two


@pytest.mark.parametrize(
    ("mine", "library", "wanted"),
    [
        ({"cycles": 50.0}, {"cycles": 100.0}, ("simulated", 2.0, 2.0, 2.0)),
        ({"tile_cycles": 100.0}, {"tile_cycles": 400.0}, ("predicted", 1.0, 2.0, 4.0)),
        ({"tile_cycles": 400.0}, {"tile_cycles": 100.0}, ("predicted", 0.25, 0.5, 1.0)),
        (
            {"global_sectors": 10.0, "shared_wavefronts": 8.0, "resident_warps": 32.0},
            {"global_sectors": 20.0, "shared_wavefronts": 4.0, "resident_warps": 32.0},
            ("predicted", 0.5, 1.0, 2.0),
        ),
        ({"instructions": 9.0}, {"instructions": 10.0}, None),
        ({"tile_cycles": 9.0}, {}, None),
    ],
)
def test_what_figures_say_of_a_gain(mine, library, wanted):
    found = between(mine, library)
    told = None if found is None else (found.kind, found.low, found.value, found.high)
    assert told == wanted


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


@pytest.mark.wider
def test_rows_have_the_sizes_and_dtypes_that_were_asked_for():
    left_out: list[str] = []
    found = rows(
        ["transpose", "add"],
        ["cpp"],
        settings=settings.load(),
        verify=False,
        dims={"M": 33},
        dtypes=["all", "float16", "int64"],
        skipped=left_out.append,
    )
    told = [(row["op"], row["dtype"], row["dims"]["M"]) for row in found]
    assert {"float32", "float16", "bfloat16"} <= {dtype for _, dtype, _ in told}
    assert {(op, size) for op, _, size in told} == {("transpose", 33)}
    assert len(told) == len(set(told))
    assert any("'M'" in text for text in left_out) and any("int64" in text for text in left_out)
