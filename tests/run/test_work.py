"""The arithmetic of a Program, read from its products."""

from __future__ import annotations

import pytest

from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.work import work_of


def work(op: str, backend: str = "cpp", **dims: int) -> int | None:
    return work_of(lower_plan(resolve(GenRequest(op=op, backend=backend, dims=dims))).bound.program)


@pytest.mark.parametrize("backend", ["cpp", "dsa_c", "triton_cuda"])
def test_products_at_odd_sizes(backend: str) -> None:
    assert work("gemm", backend, M=300, N=17, K=1033) == 2 * 300 * 17 * 1033
    assert work("batched_gemm", backend, S=3, M=70, N=33, K=65) == 2 * 3 * 70 * 33 * 65


def test_other_products() -> None:
    assert work("gemv", M=77, K=1001) == 2 * 77 * 1001
    assert work("attention", Z=2, S=70, D=40) == 4 * 2 * 70 * 70 * 40
    image = work("conv2d", B=1, H=9, W=11, Ci=3, Co=5)
    assert image is not None and image % (2 * 9 * 11 * 3 * 5) == 0
    assert image == 9 * 2 * 9 * 11 * 3 * 5  # a 3 x 3 window, padded


def test_blocks_that_are_skipped_do_not_count() -> None:
    whole, causal = (work(op, Z=1, S=4096, D=16) for op in ("attention", "attention_causal"))
    assert whole is not None and causal is not None
    assert whole // 2 <= causal < whole


@pytest.mark.parametrize("op", ["relu", "row_max", "transpose"])
def test_operators_without_a_product(op: str) -> None:
    assert work(op) is None
