"""Replies and files that nest without end are refused with words: their readers would end in a RecursionError."""

from __future__ import annotations

import pytest

from septran import settings
from septran.errors import ConfigError
from septran.run.judge import judge
from septran.run.judgement import JudgeRequest
from tests.judge.corpus import REFERENCES

TEXT = """import torch, triton
import triton.language as tl
@triton.jit
def k(x, y, n, B: tl.constexpr):
    tl.store(y, tl.load(x))
def relu(x):
    y = torch.empty_like(x)
    k[(1,)](x, y, DEEP, 64)
    return y
"""


@pytest.mark.parametrize(
    "deep", ["-" * 20_000 + "1", "(" * 90 + "-" * 400 + "1" + ")" * 90, "1" + "+1" * 5_000]
)
def test_a_file_that_nests_without_end_is_refused(deep, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(TEXT.replace("DEEP", deep))
    with pytest.raises(ConfigError, match="nests deeper than 200 levels") as error:
        judge(JudgeRequest(file=file, reference=REFERENCES / "relu.py"), settings=settings.load())
    assert error.value.codes == ("C170",)
