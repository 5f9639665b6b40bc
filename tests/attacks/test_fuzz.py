"""Mutants of honest kernels are rejected; what survives is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks import fuzz


def test_every_kind_of_mistake_is_made() -> None:
    kinds = {m.kind for name in fuzz.OPERATORS for m in fuzz.mutants(name, fuzz.honest(name)[0])}
    assert kinds == {rule.kind for rule in fuzz.RULES}


def test_mutants_differ_from_the_kernel_by_one_line() -> None:
    kernel, _ = fuzz.honest("softmax")
    for mutant in fuzz.mutants("softmax", kernel):
        assert mutant.before != mutant.after
        assert mutant.after in mutant.kernel.source
        assert mutant.kernel.params == kernel.params


def test_a_maximum_that_misses_the_end_of_a_row_is_caught(tmp_path: Path) -> None:
    """Found by the fuzzer: the row's last element overflows exp only when it is the largest by far."""
    kernel, problem = fuzz.honest("softmax")
    tails = [m for m in fuzz.mutants("softmax", kernel) if m.kind == "tail short"]
    assert "rest = n - j" in tails[0].before
    assert fuzz.judge(tails[0], problem, b"", tmp_path).startswith("V2")


@pytest.mark.slow
def test_mutants_are_caught() -> None:
    found = fuzz.run(40, seed=11)
    text = fuzz.table(found)
    valid = [o for _, o in found if o not in ("invalid", "equivalent")]
    assert len(valid) >= 20, text
    assert valid.count("survived") <= 0.1 * len(valid), text
