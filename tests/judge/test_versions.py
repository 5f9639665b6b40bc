"""A Python file that asks which version of a package there is is judged with each answer that its text can tell apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.cuda.served import RULES as SERVED
from septran.backends.judged import python_versions
from septran.backends.judged.python_file import refusals
from septran.backends.judged.python_versions import other_versions, packages_asked
from septran.backends.text.python_rules import objections
from septran.backends.tilelang import foreign as tilelang
from septran.backends.triton import foreign
from tests.judge.test_devices_asked import judged, text

BY_NAME = """import importlib
def newer(package, than):
    try:
        pkg = importlib.import_module(package)
    except ImportError:
        return False
    return pkg.__version__ >= than
"""
PARSED = "from packaging.version import Version\n"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed: triton 3.6.0, torch 2.11.0."""
    versions = {"triton": (3, 6, 0), "torch": (2, 11, 0), "tilelang": (0, 1, 15)}
    monkeypatch.setattr(python_versions, "_installed", versions.__getitem__)


@pytest.mark.parametrize(
    ("before", "asked", "versions"),
    [
        ("", "triton.__version__ >= '3.0.0'", ["triton 2.9.9", "triton 3.0.0"]),
        ("", "torch.__version__ >= (2, 4)", ["torch 2.3.9", "torch 2.4.0"]),
        ("", "triton.__version__ == '3.6.0'", ["triton 3.5.9", "triton 3.6.1"]),
        ("", "'3.1' < triton.__version__ < '3.3'", ["triton 3.0.9", "triton 3.1.0", "triton 3.2.9", "triton 3.3.0"]),
        (PARSED, "Version(triton.__version__) > Version('3.7.1')", ["triton 3.7.1", "triton 3.7.2"]),
        (PARSED, "Version(torch.__version__.split('+')[0]) < Version('2.8.0')", ["torch 2.7.9", "torch 2.8.0"]),
        (BY_NAME, "newer('triton', '3.0.0')", ["triton 2.9.9", "triton 3.0.0"]),
        ("from importlib.metadata import version", "version('torch') > '2.4'", ["torch 2.3.9", "torch 2.4.0"]),
        ("from triton import __version__ as V", "V > '3.2.0'", ["triton 3.1.9", "triton 3.2.0"]),
        ("T = torch", "T.__version__ > '2.4'", ["torch 2.3.9", "torch 2.4.0", "triton 2.3.9", "triton 2.4.0"]),
        ("", "int(triton.__version__[0]) > 2", ["triton 2.3.1", "triton 3.0.0", "triton 3.3.1", "triton 3.5.1", "triton 4.0.0"]),
        ("V = '3.0.0'", "V", []),
        ("", "x.numel()", []),
    ],
)  # fmt: skip
def test_each_answer_that_a_comparison_tells_apart_is_given(
    before: str, asked: str, versions: list[str]
) -> None:
    found = other_versions(text(before, asked))
    assert sorted(f"{name} {version}" for r in found for name, version in r.versions) == versions
    assert refusals(text(before, asked), "scale", rules=foreign._RULES) == ()


def test_what_is_installed_comes_first_and_says_so() -> None:
    found = foreign.FOREIGN.readings(text("", "triton.__version__ >= '3.0.0'"))
    assert [r.devices for r in found] == [
        "packages are as installed", "triton is 2.9.9", "triton is 3.0.0",
    ]  # fmt: skip
    assert len(foreign.FOREIGN.readings(text("", "x.numel()"))) == 1
    both = foreign.FOREIGN.readings(text("", "triton.__version__ >= torch.cuda.get_device_name()"))
    assert [r.devices for r in both[:3]] == [
        "the device is an H100", "the device is a slice of an A100", "the device is an RTX 5090",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ("import importlib", "importlib.import_module"),
        ("import importlib", "list(map(importlib.import_module, ['os']))"),
        ("import importlib\nI = importlib", "I.import_module('os')"),
        ("import importlib", "importlib.util.find_spec('os')"),
        ("import importlib", "importlib.reload(torch)"),
        ("import importlib.metadata as m", "m.distribution('torch')"),
        ("from importlib import util", "util"),
        ("from importlib.metadata import files", "files('torch')"),
        ("from importlib import import_module", "[f('os') for f in (import_module,)]"),
        ("from packaging.version import re", "re"),
        ("import packaging.requirements", "packaging"),
        ("import packaging", "packaging.version.itertools"),
        ("from importlib.metadata import version", "sorted(['os'], key=version)"),
    ],
)
def test_more_than_versions_may_not_be_asked_so(before: str, asked: str) -> None:
    assert refusals(text(before, asked), "scale", rules=foreign._RULES)
    assert refusals(text(before, asked), "scale", rules=tilelang._RULES)


@pytest.mark.parametrize("asked", ["triton.__version__ > '3'", "torch.__version__ > '2'"])
def test_where_versions_are_not_judged_they_are_refused(asked: str) -> None:
    assert objections(f"import torch, triton\nX = {asked}\n", SERVED)


def test_packages_are_found_by_what_is_asked() -> None:
    assert packages_asked("import torch\nX = torch.__version__") == ("torch",)
    assert packages_asked("import torch\nX = 3") == ()
    assert packages_asked(BY_NAME + "newer('tilelang', '0.1')") == ("tilelang",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "asked", "where"),
    [
        ("", "triton.__version__ != '3.1.1'", "triton is 3.1.1"),
        (BY_NAME, "newer('triton', '3.0.0')", "triton is 2.9.9"),
        ("from importlib.metadata import version", "version('torch') >= '2'", "torch is 1.9.9"),
    ],
)
def test_a_branch_for_another_version_is_judged(
    before: str, asked: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judged(text(before, asked), tmp_path)
    assert (found.code, found.finding) == (1, "cheat"), found.verdict.message
    assert found.verdict.message.startswith(f"where {where}: "), found.verdict.message


@pytest.mark.slow
def test_an_honest_choice_by_version_is_accurate_and_what_raises_accuses_nobody(
    tmp_path: Path,
) -> None:
    before = (
        f"{BY_NAME}if newer('triton', '3.0.0'):\n    from triton.language.extra.libdevice import rsqrt\n"
        "else:\n    from triton.language.math import no_such_name as rsqrt\n"
        "def of_other_packages():\n    return newer('os', '0') or rsqrt is None\n"
    )
    found = judged(text(before, "not of_other_packages()"), tmp_path)
    assert found.code == 0, found.verdict.message
    line = next(n for n in found.verdict.not_checked if n.startswith("other versions"))
    assert "as installed, where triton is 3.0.0" in line and "2.9.9" not in line
