"""What a kernel that works in place is timed against works in place, too."""

from __future__ import annotations

import pytest
import torch

from septran.in_place import in_place, refills
from septran.stopwatch import rotating_slot
from septran.verify.torch_side import torch_slots
from tests.verify.test_slots import in_out


@pytest.mark.parametrize(
    ("fn", "wanted"),
    [
        (lambda X, Y: Y + X, "add_"),
        (lambda X, Y: X * Y, "mul_"),
        (lambda X, Y: torch.exp(Y), "exp_"),
        (lambda X, Y: Y.relu(), "relu_"),
        (lambda X, Y: X - Y, "copy_"),
        (lambda X, Y: Y + X @ X, "addmm_"),
        (lambda X, Y: Y @ X, "copy_"),
        (lambda X, Y: (Y + X, Y * X), "add_"),  # the other result is made of what was there before
    ],
)
def test_the_last_step_goes_to_the_argument(fn, wanted) -> None:
    given = {"X": torch.randn(3, 3), "Y": torch.randn(3, 3)}
    found = fn(**given)
    call = in_place(fn, given, {0: "Y"})
    assert call is not None
    before = given["Y"].clone()
    text = str(call.func)  # type: ignore[attr-defined]
    text += getattr(getattr(call.func, "__self__", None), "code", "")  # type: ignore[attr-defined]
    results = call()
    first = found[0] if isinstance(found, tuple) else found
    torch.testing.assert_close(given["Y"], first)
    assert not torch.equal(given["Y"], before)
    if isinstance(found, tuple):
        torch.testing.assert_close(results[1], found[1])
    assert wanted in text


def test_two_that_read_each_other_are_copied() -> None:
    given = {"X": torch.randn(3), "Y": torch.randn(3)}
    x, y = given["X"].clone(), given["Y"].clone()
    call = in_place(lambda X, Y: (X + Y, X - Y), given, {0: "X", 1: "Y"})
    assert call is not None
    call()
    torch.testing.assert_close(given["X"], x + y)
    torch.testing.assert_close(given["Y"], x - y)


def test_a_function_that_looks_at_values_has_none() -> None:
    given = {"X": torch.ones(3), "Y": torch.ones(3)}
    assert in_place(lambda X, Y: Y + X if X[0] > 0 else Y, given, {0: "Y"}) is None


def test_values_stay_what_they_are_while_calls_are_timed() -> None:
    """Products of thousands of calls would be 0, infinite or, slowly, denormal."""
    given = {"X": torch.full((4,), 0.5), "Y": torch.ones(4)}
    call = in_place(lambda X, Y: Y * X, given, {0: "Y"})
    assert call is not None
    slot = rotating_slot([call], refill=refills([given], ["Y"]))
    assert slot(10_000) > 0
    assert 0.5**33 < float(given["Y"][0]) < 1


def test_a_kernel_in_place_is_timed_against_torch_in_place() -> None:
    sets = [{n: torch.randn(4096).numpy() for n in "XY"} for _ in range(2)]
    slots = torch_slots(in_out(), sets, processor_time=True)
    assert set(slots) == {"fn", "in_place"}
    assert slots["in_place"](20) > 0
