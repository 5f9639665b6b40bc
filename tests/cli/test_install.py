"""`septran doctor --install TARGET`: an environment of its own, filled by pip, used by children only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from septran import backends
from septran.toolchain import environment


def test_it_calls_pip_once_and_then_looks(septran, fresh_home, monkeypatch):
    called: list[list[str]] = []

    def pip(words: list[str], **_: object) -> SimpleNamespace:
        called.append(words)
        (environment.folder("pallas_tpu") / "jax-0.10.2.dist-info").mkdir(parents=True)
        return SimpleNamespace(returncode=0, stdout="")

    before = septran("doctor", "pallas_tpu")
    assert before.code == 3
    assert "septran doctor --install pallas_tpu" in before.out
    monkeypatch.setattr(
        environment, "subprocess", SimpleNamespace(**{**vars(subprocess), "run": pip})
    )
    found = septran("doctor", "--install", "pallas_tpu")
    assert found.code == 0
    (words,) = called
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert words[words.index("--target") + 1] == str(fresh_home / "environments" / "pallas_tpu")
    assert set(backends.get("pallas_tpu").packages) <= set(words)


def test_what_is_here_is_not_fetched_again(septran, fresh_home, monkeypatch):
    """Of a target with an optional part, what is lacking is; another version is lacking."""
    called: list[list[str]] = []

    def pip(words: list[str], **_: object) -> SimpleNamespace:
        called.append(words)
        return SimpleNamespace(returncode=0, stdout="")

    monkeypatch.setattr(
        environment, "subprocess", SimpleNamespace(**{**vars(subprocess), "run": pip})
    )
    for name in ("jax-0.10.2", "jaxlib-0.10.2", "libtpu-0.0.1"):
        (environment.folder("pallas_tpu") / f"{name}.dist-info").mkdir(parents=True)
    found = septran("doctor", "--install", "pallas_tpu")
    assert found.code == 0 and not called and "here already" in found.err
    septran("doctor", "--install", "pallas_tpu+libtpu")
    (words,) = called
    assert "libtpu==0.0.42.1" in words and "jax==0.10.2" not in words


def test_another_python_is_told_in_words(septran, fresh_home, monkeypatch):
    """pip says of a package without a wheel for this Python that there is no matching distribution."""
    newer = SimpleNamespace(**{**vars(sys), "version_info": SimpleNamespace(major=3, minor=12)})
    monkeypatch.setattr(environment, "sys", newer)
    found = septran("doctor", "--install", "triton_npu")
    assert found.code == 3 and "V112" in found.err
    assert "needs Python 3.10 or 3.11, this is 3.12" in found.err


def test_what_pip_says_is_told(septran, fresh_home, monkeypatch):
    failed = SimpleNamespace(returncode=1, stdout="ERROR: No matching distribution\n")
    fake = SimpleNamespace(**{**vars(subprocess), "run": lambda *_, **__: failed})
    monkeypatch.setattr(environment, "subprocess", fake)
    found = septran("doctor", "--install", "pallas_tpu")
    assert found.code == 3
    assert "V112" in found.err and "No matching distribution" in found.err


def test_an_optional_part_is_brought_only_when_asked_for(septran, fresh_home, monkeypatch):
    called: list[list[str]] = []

    def pip(words: list[str], **_: object) -> SimpleNamespace:
        called.append(words)
        for name in ("jax-0.10.2", "libtpu-0.0.42.1"):
            (environment.folder("pallas_tpu") / f"{name}.dist-info").mkdir(parents=True)
        return SimpleNamespace(returncode=0, stdout="")

    monkeypatch.setattr(
        environment, "subprocess", SimpleNamespace(**{**vars(subprocess), "run": pip})
    )
    found = septran("--json", "doctor", "--install", "pallas_tpu+libtpu")
    assert found.code == 0, found.err
    assert set(called[0]) >= {*backends.get("pallas_tpu").packages, "libtpu==0.0.42.1"}
    assert "libtpu 0.0.42.1" in found.out
    assert not any("libtpu" in word for word in backends.get("pallas_tpu").packages)


@pytest.mark.parametrize(
    ("name", "code"), [("cpp", "C161"), ("palas_tpu", "C130"), ("pallas_tpu+tpu", "C161")]
)
def test_a_target_without_packages_of_its_own_is_refused(septran, name, code):
    found = septran("doctor", "--install", name)
    assert found.code == 2 and code in found.err
    if name == "cpp":
        assert "triton_npu, pallas_tpu, dsa_c+bm1684x" in found.err


def test_a_target_with_optional_parts_alone_names_them(septran):
    found = septran("doctor", "--install", "dsa_c")
    assert found.code == 2 and "C161" in found.err
    assert "septran doctor --install dsa_c+bm1684x," in found.err


def test_the_folder_is_read_by_children_and_not_imported(fresh_home: Path):
    settings = environment.session("pallas_tpu", {"env": (("A", "1"),)})
    there = fresh_home / "environments" / "pallas_tpu"
    assert settings["ro_paths"] == (there,)
    assert settings["env"] == (("A", "1"), (environment.VARIABLE, str(there)))
    assert str(there) not in sys.path
