"""The line of a compiler's log that says why: what a card shows of it."""

from __future__ import annotations

import pytest

from septran.toolchain.built import Built

BISHENG = """BiShengIR refuses f: loc("kernel.mlir":2:1): warning: Failed to apply loop transformation, reverting
loc("kernel.mlir":2:1): error: Failed to run BiShengHIR pipeline
loc("kernel.mlir":91:15): error: 'hivm.hir.store' op only support store ub to gm currently!
loc("kernel.mlir":2:1): error: Failed to apply transform
[ERROR] Failed to run BiShengIR pipeline"""
OVERFLOW = """[NOTE] Due to Ub overflow, compilation still failed.
loc("kernel.mlir":1:1): error: Failed to run BiShengHIR pipeline
loc("kernel.mlir":2:3): error: ub overflow, requires 3145984 bits while 1572864 bits available!
[ERROR] Failed to run BiShengIR pipeline"""
MOSAIC = """MosaicError: INTERNAL: Mosaic failed to compile TPU kernel: not implemented: Strided load
The MLIR operation involved:"""


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (BISHENG, "only support store ub to gm"),
        (OVERFLOW, "ub overflow, requires"),
        (MOSAIC, "not implemented: Strided load"),
        ("kernel.cpp:3: note: x\nkernel.cpp:4:1: error: no y\nkernel.cpp:5:1: error: z", "no y"),
        ("loc: error: Failed to run the pipeline", "Failed to run the pipeline"),
        ("a\nb", "a"),
        ("", "no output"),
    ],
)
def test_the_line_that_says_why_is_shown(log: str, why: str) -> None:
    assert why in Built(ok=False, artifact=None, log=log).cause
