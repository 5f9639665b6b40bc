"""What a call of a Python host function leaves behind, and which tensors have torch's default dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from septran.backends.judged.child.torch_left import Before, Untyped

_CHANGES: dict[str, Callable[[Any], object]] = {
    "wish for gradients": lambda x: x.requires_grad_(True),
    "shape": lambda x: x.unsqueeze_(0),
    "attribute": lambda x: setattr(x, "seen", 1),
    "hook": lambda x: x.requires_grad_(True).register_hook(print),
    "gradient": lambda x: setattr(x, "grad", x.detach().clone()),
    "default dtype": lambda x: torch.set_default_dtype(torch.float64),
}


def place(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


@pytest.mark.parametrize("what", _CHANGES)
def test_what_is_left_otherwise_is_told(what: str) -> None:
    x = torch.ones(3)
    before = Before([("x", x, False)])
    assert before.changed() == ""
    _CHANGES[what](x)
    assert before.changed().startswith("leaves ")
    assert torch.get_default_dtype() == torch.float32  # put back


def test_another_seed_is_told() -> None:
    with torch.random.fork_rng():
        before = Before([])
        torch.rand(3)  # a number that is drawn is no other seed
        assert before.changed() == ""
        torch.manual_seed(torch.initial_seed() + 1)
        assert before.changed() == "leaves torch with another seed"


def test_a_tensor_without_a_dtype_is_known_with_what_is_made_of_it() -> None:
    untyped, x = Untyped(), torch.ones(3)
    made, typed = torch.empty(3), torch.empty(3, dtype=torch.float32)
    like, clone = torch.empty_like(x), made.clone()
    untyped.note(made, [3], place, lasts=False)
    untyped.note(typed, [3, torch.float32], place, lasts=False)
    untyped.note(like, [x], place, lasts=False)
    untyped.note(clone, [made], place, lasts=False)
    untyped.note(torch.arange(3), [3], place, lasts=False)
    known = [untyped.has(one, place) for one in (made, typed, like, clone, made[1:], x)]
    assert known == [True, False, False, True, True, False]
