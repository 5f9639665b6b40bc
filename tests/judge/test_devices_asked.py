"""A Python file that asks which device it is on is judged on several; what an interpreter answers otherwise is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.backends.judged.python_file import between_calls, refusals
from septran.backends.triton import foreign
from septran.run.judge import judge, points
from septran.run.judgement import Judgement, JudgeRequest
from tests.judge.test_conditions import TRITON


def text(before: str = "", asked: str = "x.numel()") -> str:
    return TRITON.format(before=before, asked=asked)


def judged(source: str, folder: Path) -> Judgement:
    (folder / "scale.py").write_text(source)
    (folder / "wanted.py").write_text(
        "import torch\ndef reference(x): return x * 2\ndef get_inputs(): return [torch.randn(300)]\n"
    )
    request = JudgeRequest(file=folder / "scale.py", reference=folder / "wanted.py")
    return judge(request, settings=settings.load())


TOLD_APART = {
    "an older one": (
        "NEW = torch.cuda.get_device_capability()[0] >= 9",
        "NEW",
        "a slice of an A100",
    ),
    "a smaller one": (
        "",
        "triton.runtime.driver.active.utils.get_device_properties(0)['max_shared_mem'] > 150000",
        "an RTX 5090",
    ),
    "by its name": ("", "'A100' not in torch.cuda.get_device_name()", "a slice of an A100"),
    "the judge's own": ("", "'H100' not in torch.cuda.get_device_name(0)", "an H100"),
    "by its target": (
        "",
        "triton.runtime.driver.active.get_current_target().arch < 120",
        "an RTX 5090",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOLD_APART)
def test_a_branch_for_another_device_is_judged(name: str, tmp_path: Path) -> None:
    before, asked, device = TOLD_APART[name]
    found = judged(text(before, asked), tmp_path)
    assert found.code == 1
    assert found.verdict.message.startswith(f"where the device is {device}: "), (
        found.verdict.message
    )


@pytest.mark.slow
def test_an_honest_choice_by_device_is_judged_on_each(tmp_path: Path) -> None:
    before = (
        "def is_cuda():\n    return triton.runtime.driver.active.get_current_target().backend == 'cuda'\n"
        "PROCESSORS = torch.cuda.get_device_properties('cuda').multi_processor_count\n"
    )
    found = judged(text(before, "is_cuda() and PROCESSORS > 1"), tmp_path)
    assert found.code == 0, found.verdict.message
    line = next(n for n in found.verdict.not_checked if n.startswith("other devices"))
    assert "an H100, where the device is a slice of an A100" in line


def test_a_file_that_asks_for_its_vendor_alone_is_judged_once() -> None:
    before = "OK = triton.runtime.driver.active.get_current_target().backend == 'cuda'"
    assert len(foreign.FOREIGN.readings(text(before, "OK"))) == 1
    assert len(foreign.FOREIGN.readings(text("", "torch.cuda.get_device_name()"))) == 3


@pytest.mark.parametrize(
    "asked",
    [
        *("torch.version.cuda > '12'", "torch.version.git_version[0] == '1'"),
        *("torch.cuda.device_count() == 1", "torch.cuda.mem_get_info()[1] > 0", "torch.get_num_threads() < 8"),
        *("torch.backends.cudnn.is_available()", "torch.initial_seed() != 3", "x.is_pinned()"),
        *("id(x) % 64", "hash('a') % 2", "__debug__", "__file__[0] == '/'", "__name__ == 'scale'"),
        *("scale.__code__.co_filename", "scale.__module__", "type(_twice).__name__ == 'JITFunction'"),
        *("hasattr(_twice, 'cache')", "dir(_twice)"),
    ],
)  # fmt: skip
def test_what_depends_on_where_it_runs_is_refused(asked: str) -> None:
    assert refusals(text("", asked), "scale", rules=foreign._RULES)


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ("HAS = hasattr(torch, 'float8_e5m2') and hasattr(tl, 'dot')", "HAS"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "x.numel()"),
        ("import logging\nlog = logging.getLogger('a')", "x.is_cuda and x.stride(0) == 1"),
    ],
)
def test_what_honest_files_say_is_not(before: str, asked: str) -> None:
    assert refusals(text(before, asked), "scale", rules=foreign._RULES) == ()


@pytest.mark.parametrize(
    ("before", "asked", "kept"),
    [
        ("CALLS = []", "CALLS.append(1) or len(CALLS) < 60", ("CALLS",)),
        ("import itertools\nCOUNT = itertools.count()", "next(COUNT) < 60", ("COUNT",)),
        ("CALLS = []\ndef counted():\n    CALLS.append(1)\n    return len(CALLS) < 60", "counted()", ("CALLS",)),
        ("N = 0\ndef counted():\n    global N\n    N += 1\n    return N < 60", "counted()", ("N",)),
        ("MEMO = {}\ndef kept(k):\n    MEMO[k] = k\n    return k", "kept(3)", ("MEMO",)),
        ("def counted(x, kept={}):\n    kept[0] = kept.get(0, 0) + 1\n    return kept[0] < 60", "counted(x)", ("kept",)),
        ("def made():\n    n = 0\n    def f():\n        nonlocal n\n        n += 1\n        return n < 60\n    return f\nF = made()", "F()", ("n",)),
        ("import functools\n@functools.lru_cache(maxsize=None)\ndef seen(p):\n    return 0", "seen(x.data_ptr()) or seen.cache_info().currsize < 60", ("seen",)),
        ("def plain(x, n=3, *, by=None):\n    return n < 60", "plain(x)", ()),
        ("TABLE = [1, 2]", "TABLE[0]", ()),
    ],
)  # fmt: skip
def test_names_that_live_from_call_to_call_are_said(
    before: str, asked: str, kept: tuple[str, ...]
) -> None:
    assert between_calls(text(before, asked), "scale") == kept


SINGLE_1E30 = 1.0000000150474662e30
"""What `0x12 + 1e30` is in single precision; in double precision it is 1e30."""


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("if (x > 100 && x < 1.5e2f) y[12u] = .5;", (100.0, 150.0, 12.0, 0.5)),
        ("a3 = x1 + 0x12 + 1e30", (1e30, 18.0, SINGLE_1E30)),
        ("tl.where(x > 7.25, 0, -3.)", (7.25, 0.0, 3.0)),
    ],
)
def test_numbers_of_a_text_are_read(text: str, numbers: tuple[float, ...]) -> None:
    assert points(text)[: len(numbers)] == numbers
