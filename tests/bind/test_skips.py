"""`skips` tells policies where a loop leaves blocks out: small tiles leave out more of what a causal mask hides."""

from __future__ import annotations

import pytest

from septran.backends import get
from tests.bind.running import all_operators, bound

CPP = get("cpp")
OPERATORS = all_operators()


def _sites(name, dims):
    op, path = OPERATORS[name]
    return bound(op, path, CPP, "native", "float32", dims).sites


@pytest.mark.parametrize("dims", [{"S": 1024}, {"S": 1000}])
def test_products_below_a_diagonal_are_in_a_loop_that_skips(dims):
    inside = {"scores", "online_causal", "weigh"}
    found = {site.task for site in _sites("attention_causal", dims) if site.skips}
    assert found == inside


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("attention", {"S": 1000}),
        ("gemm", {"M": 1031, "N": 517, "K": 1033}),
        ("gemm_seed", {"M": 1031, "N": 517, "K": 1033}),
        ("conv2d", {}),
    ],
)
def test_a_ragged_edge_skips_nothing(name, dims):
    assert not any(site.skips for site in _sites(name, dims))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_policy_takes_small_tiles_where_blocks_are_skipped(dtype):
    def tiles(name):
        op, path = OPERATORS[name]
        found = bound(op, path, CPP, "native", dtype, {"Z": 8, "S": 1024, "D": 64})
        return found.mapping.instances["host"].tunables

    full, causal = tiles("attention"), tiles("attention_causal")
    assert full["block_size_M"] >= 2 * causal["block_size_M"] > 0
    assert full["block_size_N"] >= 2 * causal["block_size_N"] > 0
    if (
        dtype == "float32"
    ):  # few rows at once, so that few of the products in a row's last block are thrown away
        assert 2 * causal["block_size_M"] <= causal["block_size_N"]
    else:  # the rows of a tile end with a block of columns, and hardly ever enter the next one
        assert 0 <= causal["block_size_N"] - causal["block_size_M"] < 12
