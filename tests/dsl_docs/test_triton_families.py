"""The Triton documentation's kernels compile for the other families of GPU, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.agent.docs import Block
from tests.dsl_docs.runner import docs_of
from tests.dsl_docs.runner_triton_cuda import OTHER_FAMILIES, check

BLOCKS = [(doc, b) for doc in docs_of("triton_cuda") for b in doc.blocks if b.test == "run"]


@pytest.mark.wider
@pytest.mark.parametrize(
    "block",
    [b for _, b in BLOCKS],
    ids=[f"{doc.file.removeprefix('dsl_docs/')}:{b.line}" for doc, b in BLOCKS],
)
def test_block_on_other_families(block: Block, tmp_path: Path) -> None:
    outcome = check(block, tmp_path, OTHER_FAMILIES)
    assert outcome.ok, outcome.log[-2000:]
