"""What a call is said to cost besides its kernel is what a user's loop takes where the kernel does next to nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

import septran
from septran.toolchain.launch_type import call_directly
from septran.verify import call_cost as costs
from tests.support.steady import steady


def _seconds(kernel: Any, x: torch.Tensor) -> float:
    """Return seconds of a call, the least of some short loops."""
    found = []
    for _ in range(20):
        begun = time.perf_counter()
        for _ in range(100):
            kernel(x, x)
        found.append((time.perf_counter() - begun) / 100)
    return min(found)


@pytest.mark.wider
def test_a_small_call_costs_what_a_plain_loop_takes():
    kernel = septran.compile(op="add")
    x = torch.ones(8)
    kernel(x, x)
    emitted = kernel.specialized(x, x).kernel

    def ratio() -> float:
        said = costs.call_cost(emitted)
        return (said.call + said.allocate) / _seconds(kernel, x)

    ratios = steady(ratio, lambda r: 0.5 < r < 2.0)
    assert 0.5 < ratios[-1] < 2.0, ratios


def test_without_the_extension_a_call_is_charged_its_checks(monkeypatch):
    kernel = septran.compile(op="add").specialized(torch.ones(8), torch.ones(8)).kernel
    called = []

    def stand_in(_: object) -> object:
        return lambda *tensors: called.append([tuple(t.shape) for t in tensors])

    monkeypatch.setattr(costs, "stand_in", stand_in)
    assert costs.call_cost(kernel).call > 0
    assert called[0] == [(8,)] * 3


def test_a_launcher_without_direct_calls_is_no_error():
    call_directly(int, object())
