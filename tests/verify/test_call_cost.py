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


def test_the_cost_is_on_the_clock_of_the_pairs_it_is_added_to(monkeypatch):
    """A busy machine moves the wall clock; a pair in processor time never looks at it, its cost neither."""
    kernel = septran.compile(op="add").specialized(torch.ones(8), torch.ones(8)).kernel
    read = []

    def clock(name: str, step: float) -> Any:
        def now() -> float:
            read.append(name)
            return step * len(read)

        return now

    monkeypatch.setattr(costs.time, "perf_counter", clock("wall", 1.0))
    monkeypatch.setattr(costs.time, "thread_time", clock("processor", 3e-6))
    found = costs.call_cost(kernel, processor_time=True)
    assert set(read) == {"processor"}
    assert found.call < 3e-6 and found.low <= found.call + found.allocate <= found.high
    read.clear()
    costs.call_cost(kernel)
    assert set(read) == {"wall"}


def test_the_spread_of_the_cost_is_known():
    steady_cost = costs._cost([(1.0, 2.0)] * 15)
    assert (steady_cost.call, steady_cost.allocate) == (1.0, 1.0)
    assert (steady_cost.low, steady_cost.high) == (2.0, 2.0)
    # where new pages are touched: what the touching takes more than in memory that is there
    shaken = costs._cost([(1.0, 2.0, 10.0 + n, 5.0) for n in range(15)])
    assert shaken.low < shaken.call + shaken.allocate == 12.0 < shaken.high
