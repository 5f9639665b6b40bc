"""`septran judge` asks TileLang's own compiler, which no GPU needs, what it makes of a file that was right in the simulator."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from septran.backends.base import Compiled
from septran.backends.tilelang import foreign_lowered
from septran.backends.tilelang.foreign_lowered import lowered
from septran.cli.main import main
from septran.toolchain.confined import Finished
from tests.judge.corpus import HERE, HONEST, REFERENCES
from tests.judge.test_on_device import called_as

needs_tilelang = pytest.mark.skipif(
    importlib.util.find_spec("tilelang") is None, reason="needs tilelang"
)


def asked(name: str, folder: Path, old: str = "", new: str = "") -> Compiled:
    """What TileLang says of a file of the corpus."""
    honest = next(h for h in HONEST if h.name == name)
    text = honest.text()
    assert old in text
    _, kernel = called_as(honest, text.replace(old, new), "sm_90a")
    return lowered(kernel, folder)


# an H200 with TileLang 0.1.15 ran those of the first list and refused those of the second with the same words
@pytest.mark.few(1)
@needs_tilelang
@pytest.mark.parametrize(
    "name",
    [
        "tutorial_tilelang.py:matmul",
        "tutorial_tilelang.py:add",
        "tutorial_tilelang.py:relu",
        "eager_tilelang.py:matmul",
        "threads_tilelang.py:gemv",
        "threads_tilelang.py:row_sums",
        "tutorial_flash_tilelang.py:flash",
        "groups_tilelang.py:matmul",
        "linear_attention_tilelang.py:run",
    ],
)
def test_what_a_gpu_ran_is_lowered(name: str, tmp_path: Path) -> None:
    found = asked(name, tmp_path)
    assert not found.refused
    assert found.done.startswith("TileLang ") and "lowers 1 kernel of it for sm_90a" in found.done


@pytest.mark.few(1)
@needs_tilelang
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tutorial_tilelang.py:softmax", "no available layout found"),
        ("tutorial_tilelang.py:waited", "no available layout found"),
        ("eager_tilelang.py:softmax", "Semantic Check"),
        ("eager_tilelang.py:two_moments", "T.empty"),
        ("eager_tilelang.py:relu_of", "constexpr variable `N`"),
        ("threads_tilelang.py:positives", "Infinite while loop"),
        ("groups_tilelang.py:staged", "assert len(obj.indices)"),
        ("layouts_tilelang.py:matmul", "tilelang.intrinsics"),
    ],
)
def test_what_the_compiler_refused_for_a_gpu_is_refused_here(
    name: str, words: str, tmp_path: Path
) -> None:
    found = asked(name, tmp_path)
    assert not found.done
    assert "does not compile it for sm_90a at these sizes" in found.refused
    assert words in found.refused
    assert str(tmp_path) not in found.refused


@needs_tilelang
@pytest.mark.parametrize(
    "said",
    [
        "torch.cuda.get_device_properties(0).no_such_thing",
        "tilelang.profiler.do_bench(lambda: None)",
        "1 / 0",
        "x.numpy()",
    ],
)
def test_a_host_function_that_needs_a_device_is_not_refused(said: str, tmp_path: Path) -> None:
    found = asked("tutorial_tilelang.py:relu", tmp_path, "    y = torch.empty_like(x)\n", f"    y = torch.empty_like(x)\n    {said}\n")  # fmt: skip
    assert found == Compiled()


@needs_tilelang
def test_a_folder_of_an_earlier_run_is_used_again(tmp_path: Path) -> None:
    first = asked("threads_tilelang.py:gemv", tmp_path)
    assert first.done and asked("threads_tilelang.py:gemv", tmp_path) == first


def test_without_tilelang_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_lowered, "found", lambda: False)
    assert asked("tutorial_tilelang.py:relu", tmp_path) == Compiled()


@needs_tilelang
@pytest.mark.parametrize("said", ["", "[]", '{"facts": {"kernels": "many"}}', '{"log": ""}'])
def test_a_child_that_says_nothing_readable_is_not_believed(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def child(script: list[str], folder: Path, work: Path) -> Finished:
        Path(script[-1]).write_text(said)
        return Finished(code=0, output="", seconds=0)

    monkeypatch.setattr(foreign_lowered, "in_tilelang", child)
    assert asked("tutorial_tilelang.py:relu", tmp_path) == Compiled()


@needs_tilelang
def test_a_host_function_may_have_another_kernel_for_a_refusal(tmp_path: Path) -> None:
    old, new = (
        "    y = torch.empty_like(x)\n",
        (
            "    y = torch.empty_like(x)\n    assert x.is_cuda and y.device.type == 'cuda'\n"
            "    try:\n        softmax(64, 781)\n    except Exception:\n        pass\n"
        ),
    )
    found = asked("tutorial_tilelang.py:relu", tmp_path, old, new)
    assert "lowers 1 kernel" in found.done


@pytest.mark.few(1)
@needs_tilelang
@pytest.mark.parametrize(
    ("entry", "lines"),
    [
        ("softmax", ["not checked  compile for a GPU: TileLang", "no available layout found"]),
        ("add", ["  compiler ", "lowers 1 kernel of it for sm_90a"]),
    ],
)
def test_the_card_says_it(entry: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It accuses nobody: the author's TileLang need not be this one."""
    honest = next(h for h in HONEST if h.name == f"tutorial_tilelang.py:{entry}")
    word = ["judge", str(HERE / honest.file), "--reference", str(REFERENCES / honest.reference)]
    for name, value in honest.numbers.items():
        word += ["--number", f"{name}={value}"]
    assert main([*word, "--entry", entry, "--where", "emulated"]) == 0
    card = capsys.readouterr().out
    assert any(all(part in line for part in lines) for line in card.splitlines()), card
    assert "verdict      accurate" in card
