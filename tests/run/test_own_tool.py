"""Tools that SepTran runs for itself: a busy machine ends none, one that computes without end is ended, and nobody reads half an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from septran.errors import EnvironmentProblem
from septran.host import link
from septran.own_tool import run_tool
from septran.verify import gate_binary


def script(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_waiting_is_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that the machine lets wait for longer than its limit makes the object all the same."""
    monkeypatch.setattr(link, "_CPU_S", 1)
    slow = script(tmp_path, "cc", "sleep 1.3\nfor last; do :; done\necho made > $last")
    source = tmp_path / "own.c"
    source.write_text("int x;\n", encoding="utf-8")
    made = link.trusted_object(slow, source, [], tmp_path / "kept")
    assert made.path is not None
    assert made.path.read_text(encoding="utf-8").startswith("made")


def test_work_without_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"V214\]: spin was ended by its limit of 1 s"):
        run_tool([script(tmp_path, "spin", "while :; do :; done")], cpu_s=1)


def test_half_a_disassembly_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that was killed has not said that the rest is harmless."""
    script(tmp_path, "c++filt", "echo half; kill -9 $$")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(EnvironmentProblem, match="ended by signal 9"):
        gate_binary._demangled("x")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no nothing"):
        run_tool([str(tmp_path / "nothing")], cpu_s=1)
    assert run_tool(["cat"], cpu_s=1, given="said").stdout == "said"


def test_the_null_program_is_compiled_from_text(tmp_path: Path) -> None:
    compiler = script(
        tmp_path,
        "cc",
        'cd "$(dirname "$0")"\nwhile [ "$1" != -o ]; do [ "$1" = - ] && cat > text; shift; done\ncp text "$2"',
    )
    host = tmp_path / "host.o"
    host.touch()
    made = link.null_program(compiler, link.HostObject(path=host), tmp_path)
    assert made is not None
    assert "st_entry" in made.read_text(encoding="utf-8")
