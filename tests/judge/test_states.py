"""What of other than plain tensors a host function raised, and what it makes of addresses, is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from septran import settings
from septran.run.judge import judge
from septran.run.judge_states import with_states
from septran.run.judgement import JudgeRequest
from septran.verify.verdict import Verdict
from tests.attacks import families
from tests.attacks.corpus_states import ALL
from tests.verify import kernels

FILE = "def scale(x, y):\n    {line}\n    k[(1,)](x, y)\n"


def said(folder: Path, line: str = "pass") -> tuple[str, ...]:
    kernel = kernels.kernel_of(kernels.gemm(), "")
    verdict = Verdict.of(kernel, where="emulated", dims={}, seed=1)
    return with_states(verdict, folder, FILE.format(line=line)).not_checked


def test_what_it_raised_of_such_tensors_is_said(tmp_path: Path) -> None:
    assert said(tmp_path) == ()
    record = tmp_path / "child" / "states.json"
    record.parent.mkdir()
    record.write_text(json.dumps({"parameters that want gradients": "ValueError: no"}))
    assert said(tmp_path) == (
        "inputs that are parameters that want gradients: it raises ValueError: no",
    )


@pytest.mark.parametrize("text", ["[1]", "{", '"', "x" * (1 << 17), '{"a": 3}'])
def test_a_record_of_another_form_ends_nothing(tmp_path: Path, text: str) -> None:
    record = tmp_path / "child" / "states.json"
    record.parent.mkdir()
    record.write_text(text)
    assert len(said(tmp_path)) <= 1
    record.unlink()
    record.symlink_to("/dev/zero")
    assert said(tmp_path) == ()
    shutil.rmtree(record.parent)
    assert said(tmp_path) == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("wrong = x.data_ptr() % 4096 == 192", True),
        ("assert not x.data_ptr() & 15", True),
        ("at = x.data_ptr()", True),
        ("k.run(x.data_ptr(), y.data_ptr())", False),
        ("n = x.numel() % 4096", False),
    ],
)
def test_what_it_makes_of_addresses_is_said(tmp_path: Path, line: str, told: bool) -> None:
    what = ("what its host function makes of addresses (line 2)",)
    assert said(tmp_path, line) == (what if told else ())


@pytest.mark.slow
def test_a_file_that_takes_no_gradients_is_judged_without(tmp_path: Path) -> None:
    (attack,) = (a for a in ALL if a.name == "OS52")
    file, reference = tmp_path / "kernel.py", tmp_path / "wanted.py"
    file.write_text(attack.source)
    reference.write_text(families.DOUBLED)
    found = judge(
        JudgeRequest(file=file, reference=reference, entry="scale"), settings=settings.load()
    )
    assert found.code == 0
    assert any("AssertionError: no backward" in text for text in found.verdict.not_checked)
