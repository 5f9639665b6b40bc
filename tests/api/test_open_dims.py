"""`septran.compile(..., dynamic=...)`: one kernel for all sizes of a dim."""

from __future__ import annotations

import pytest
import torch

import septran
from septran.errors import SeptranError


def test_one_build_serves_every_number_of_rows(monkeypatch: pytest.MonkeyPatch):
    from septran.call import open_dims

    built = []
    kept = open_dims.OpenBuild.__init__
    monkeypatch.setattr(
        open_dims.OpenBuild, "__init__", lambda self, *a: (built.append(1), kept(self, *a))[1]
    )
    kernel = septran.compile(op="softmax", dynamic=("M",), verify=False)
    for rows in (1, 2, 37, 127, 300):
        x = torch.randn(rows, 24)
        torch.testing.assert_close(kernel(x), torch.softmax(x, 1))
    assert len(built) == 1
    assert "size_M" in kernel.source(torch.randn(3, 24))


@pytest.mark.slow
def test_an_open_kernel_is_verified_at_other_sizes_before_its_first_use():
    kernel = septran.compile(op="gemm", dynamic={"M": 64, "N": 70})
    for rows, columns in ((5, 33), (64, 70), (129, 1)):
        a, b = torch.randn(rows, 40), torch.randn(40, columns)
        torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)
    (verdict,) = kernel.verdicts.values()
    assert verdict.passed


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"op": "gemm", "dynamic": ("Q",)}, "C110"),
        ({"op": "gemm", "target": "dsa_c", "dynamic": ("M",)}, "C162"),
        ({"op": "gemm", "dynamic": {"M": 0}}, "C111"),
    ],
)
def test_what_cannot_stay_open_is_said(asked, code: str):
    with pytest.raises(SeptranError) as e:
        septran.compile(**asked)
    assert e.value.codes == (code,)


def test_a_size_that_the_kernel_is_not_for_is_said():
    kernel = septran.compile(op="softmax", dynamic={"N": 24}, verify=False)
    with pytest.raises(SeptranError) as e:
        kernel(torch.randn(2, 25))
    assert e.value.codes == ("C140",) and "N = 25 is not from 1 to 24" in str(e.value)
