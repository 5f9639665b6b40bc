"""The builds besides the one that is judged, which a verdict may silently do without: each compiles for each kind of file."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.base import Foreign
from septran.kernel import Kernel
from septran.plan.wanted import load_wanted
from septran.run.judge_call import called
from septran.run.judge_target import candidates, entry_of, target_of
from tests.judge.corpus import HERE, HONEST, REFERENCES

FILES = (
    *("rows.cpp", "extension_file.cpp", "extension_gelu.py", "rows.cu", "torch_softmax.cu"),
    *("inline_add.py", "inline_ptx.py", "ptx.cu", "bulk.cu", "hopper.cu", "collectives.cu"),
)
"""one of each kind of file that is compiled: with torch's tensors or without, inside Python, with inline PTX, with libraries"""
KNOWN = {"extension_file.cpp": ("", "softmax.py", {})}


ON_PROCESSOR = ("rows.cpp", "extension_file.cpp", "extension_gelu.py")


def _builds_of(name: str) -> tuple[str, ...]:
    return ("sought", "unset", "watched" if name in ON_PROCESSOR else "noted")


def kernel_of(name: str) -> tuple[Foreign, Kernel]:
    honest = next((h for h in HONEST if h.file == name), None)
    entry, asked, numbers = KNOWN[name] if honest is None else (honest.entry, honest.reference, honest.numbers)  # fmt: skip
    file, reference = HERE / name, REFERENCES / asked
    text = file.read_text(encoding="utf-8")
    _, foreign = target_of(file, "", text)
    wanted = load_wanted(reference)
    host = entry_of(file, candidates(file, entry, foreign, text), lambda one: True)
    call = called((file, reference), foreign, host, wanted, numbers, ())
    arch = "native" if name in ON_PROCESSOR else "sm_90a"
    return foreign, foreign.kernel(text, call, wanted.problem.params, arch)[0]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "build"),
    [(n, b) for b in ("sought", "noted", "watched", "unset") for n in FILES if b in _builds_of(n)],
)
def test_builds_that_a_verdict_may_do_without_compile(name: str, build: str, tmp_path: Path) -> None:  # fmt: skip
    foreign, kernel = kernel_of(name)
    make = getattr(foreign, build)
    made = list(make(kernel, tmp_path)) if build == "unset" else [make(kernel, tmp_path)]
    for built in made:
        assert built.ok, built.log[-2000:]
