"""What the dialect refuses, each with the message that names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.tilesim import SimError, run_file
from septran.backends.tilesim.npu import npu_dialect

HEAD = """
import tilelang.language as T


@T.prim_func
def entry(A: T.Tensor((32, 32), "{dtype}"), C: T.Tensor((32, 32), "{dtype}")):
    with T.Kernel(1, is_npu=True) as (cid, _):
"""
VECTOR = """
a = T.alloc_ub([32, 32], "{dtype}")
row = T.alloc_ub([32, 1], "{dtype}")
test = T.alloc_ub([32, 32], "bool")
T.copy(A, a)
T.copy(A[0:32, 0:1], row)
{body}
T.copy(a, C)
"""


def run(tmp_path: Path, body: str, dtype: str = "float32") -> np.ndarray:
    text = HEAD.format(dtype=dtype)
    text += "".join(f"        {line}\n" for line in body.format(dtype=dtype).strip().splitlines())
    path = tmp_path / "kernel.py"
    path.write_text(text, encoding="utf-8")
    a = np.arange(1024).reshape(32, 32).astype(dtype)
    c = np.zeros((32, 32), dtype)
    run_file(path, "entry", [a, c], npu_dialect())
    return c


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("T.vpow(a, a, a)", "32-bit signless integer"),
        ('T.vcmp(a, row, test, "lt")', "vcmp' op operands' shape are inconsistent"),
        (
            'T.vcmp(a, a, test, "lt")\nT.vselect(test, a, row, a)',
            "vsel' op operands' shape are inconsistent",
        ),
        ("T.vadd(1.0, a, a)", "only the second source"),
        ("T.vadd(a[0:16, 0:32], a, a)", "inconsistent"),
        ('T.reduce(a, row, dims=[0], reduce_mode="sum")', "reduce output shape"),
        ("T.vexp(A, a)", "must be in UB"),
        ("T.copy(A, C)", "GM->GM"),
        ("T.copy(A[0:32, 1:33], a)", "outside 0:32"),
        ("T.copy(A[0:16, 0:32], a[0:32, 0:32])", "extents differ"),
        ("T.copy(A, a, [32, 32])", "coalesced_width"),
    ],
)
def test_refused(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(SimError) as caught:
        run(tmp_path, VECTOR.replace("{body}", body))
    assert message in str(caught.value)
    assert caught.value.line > 0


def test_integers_have_powers(tmp_path: Path) -> None:
    body = VECTOR.replace("{body}", "T.vsub(a, a, a)\nT.vadd(a, 3, a)\nT.vpow(a, a, a)")
    assert (run(tmp_path, body, "int32") == 27).all()
