"""Sums of one element are read, and long rows are read once: the maximum and the sum of exponentials block by block."""

import pytest
import torch
import torch.nn.functional as F

import septran
from tests.backends.cpp.test_stores import leaf_text

N = 20001
INF = float("inf")


def test_a_sum_of_which_one_element_is_not_zero_is_that_element():
    text = leaf_text("cross_entropy", "cross_entropy_leaf", M=8, N=1024)
    assert "iota" not in text
    assert "load_n<F>(X_row + target_at, 1)" in text
    assert "if (target_at >= 0 && target_at < n" in text


def test_long_rows_are_read_in_blocks_and_short_ones_are_not():
    long = leaf_text("cross_entropy", "cross_entropy_leaf", M=8, N=N)
    assert long.index("b += 64 * L") < long.index("Max::of(highest") < long.index("vexp(X_v - top)")
    assert "highest" not in leaf_text("cross_entropy", "cross_entropy_leaf", M=8, N=1024)
    assert "highest" not in leaf_text(
        "softmax", "softmax_leaf", M=8, N=N
    )  # its exponentials are kept


@pytest.mark.wider
def test_rows_in_blocks_give_what_whole_rows_give():
    torch.manual_seed(7)
    x = torch.randn(9, N)
    x[1] = torch.linspace(-60, 60, N)  # each block finds a higher maximum
    x[2] = -x[1]
    x[3, :3000] = -INF
    x[4] = -INF
    x[5, 12345] = float("nan")
    x[6, 777] = INF
    x[7] *= 1e30
    x[8] = -3e38
    target = torch.tensor([0, N - 1, N - 1, 4000, 5, 6, 8, 9, 1023])
    got = septran.compile(op="cross_entropy", verify=False)(x, target[:, None])[:, 0]
    want = F.cross_entropy(x.double(), target, reduction="none")
    assert want[[4, 5, 6]].isnan().all()
    torch.testing.assert_close(got.double(), want, rtol=3e-6, atol=3e-6, equal_nan=True)
    outside = torch.tensor([[-5], [N]])
    got = septran.compile(op="cross_entropy")(x[:2], outside)[:, 0]
    torch.testing.assert_close(got, torch.logsumexp(x[:2], 1))  # no element is at such a place
