"""The table's rows `got through`: in a Python process each is accepted at the present commit, too; the static host is what refuses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran.verify.verify import Request, verify
from tests.attacks import families
from tests.attacks.attack import Attack
from tests.attacks.corpus_cuda import HOST


@pytest.mark.slow
@pytest.mark.parametrize("attack", [pytest.param(a, id=a.name) for a in HOST])
def test_it_is_the_host_that_refuses(attack: Attack, tmp_path: Path) -> None:
    kernel, built, problem, sessions, language, where = families.make(
        attack.language,
        tmp_path / "b",
        body=attack.body,
        before=attack.before,
        edits=attack.edits,
        source=attack.source,
    )
    request = Request(gate=False, sessions=sessions, language=language, where=where)
    assert built.host is not None, built.not_checked
    there = verify(kernel, built, problem, run_dir=tmp_path / "host", request=request)
    assert there.code == "V205"
    bare = replace(built, host=None)
    assert verify(kernel, bare, problem, run_dir=tmp_path / "child", request=request).passed
