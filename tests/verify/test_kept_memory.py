"""Large tensors that are judged one after another use the same pages; afterwards they are given back."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import torch

from septran.verify import kept_memory

BLOCK, BLOCKS = 16 << 20, 30
pytestmark = pytest.mark.skipif(
    kept_memory._glibc() is None, reason="only glibc is told what to keep"
)


def faults_of() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(BLOCKS):
        torch.ones(BLOCK, dtype=torch.uint8)  # numpy asks for huge pages, torch does not
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_freed_blocks_are_used_again_and_given_back_at_the_end():
    apart = faults_of()
    held = resident()
    with kept_memory.kept_memory():
        together = faults_of()
    assert together < apart / 3
    assert resident() < held + 4 * BLOCK
