"""The C++ documentation's kernels are right on every vector width, and on aarch64 under qemu."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from septran.agent.docs import Block
from tests.dsl_docs.runner import docs_of
from tests.dsl_docs.runner_cpp import check

BLOCKS = [b for doc in docs_of("cpp") for b in doc.blocks if b.test == "run"]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["generic", "x86_64_v3", "aarch64"])
@pytest.mark.parametrize("block", BLOCKS, ids=[b.attrs["case"] for b in BLOCKS])
def test_block_on_arch(block: Block, arch: str, tmp_path: Path) -> None:
    launcher = ""
    if arch == "aarch64":
        launcher = shutil.which("qemu-aarch64") or ""
        if not launcher:
            pytest.skip("qemu-aarch64 is not installed")
    outcome = check(block, tmp_path, arch, launcher)
    assert outcome.ok, outcome.log[-2000:]
