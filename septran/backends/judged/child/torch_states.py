"""What users' tensors are beside what they hold: weights that want gradients, results of other operators, parts of larger tensors.

A host function may branch on that (`x.requires_grad`, `x.storage_offset()`, `type(x)`), so it is called with each by turns. What it
raises of other than plain tensors accuses nobody: it is called with plain ones then, and the judge is told.
Lies beside a judged kernel as septran_torch_states.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from septran_torch_host import HostError, poison, word_of

_RECORD = Path("states.json")
_LEAD, _TAIL = 48, 16
"""elements of a larger tensor before and behind its part: as aligned as the judge places tensors"""
_ACCUSED = (HostError, NotImplementedError)
_EMULATORS = ("SimError", "Found")


def _plain(tensor: Any) -> Any:
    return tensor


def _leaf(tensor: Any) -> Any:
    return torch.nn.Parameter(tensor) if tensor.is_floating_point() else tensor


def _inner(tensor: Any) -> Any:
    with torch.enable_grad():
        return _leaf(tensor).view_as(tensor)


def _part(tensor: Any) -> Any:
    count = tensor.numel()
    whole = torch.empty(_LEAD + count + _TAIL, dtype=tensor.dtype)
    poison(whole)
    part = whole[_LEAD : _LEAD + count].view(tensor.shape)
    return part.copy_(tensor)


_STATES: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("plain tensors", _plain),
    ("parameters that want gradients", _leaf),
    ("parts of larger tensors", _part),
    ("results of operators, with gradients", _inner),
    ("plain tensors", _plain),
)
"""an odd number: gradients are on and off by turns, too"""


class States:
    """The states that inputs are given in, one for each call; outputs are plain."""

    def __init__(self, watch: Any, outputs: list[str]) -> None:
        self._watch, self._outputs = watch, frozenset(outputs)
        self._calls = 0
        self._left: dict[str, str] = {}

    def call(self, tensors: dict[str, Any], run: Callable[[dict[str, Any]], Any]) -> Any:
        """Return what `run` returns of the tensors, by name, as this call has them."""
        words, make = _STATES[self._calls % len(_STATES)]
        self._calls += 1
        if make is _plain or words in self._left:
            return run(tensors)
        try:
            given = {
                name: one if name in self._outputs else make(one) for name, one in tensors.items()
            }
            return run(given)
        except _ACCUSED:
            raise
        except Exception as error:
            if self._watch.last_error or type(error).__name__ in _EMULATORS:
                raise
            self._left[words] = f"{type(error).__name__}: {error}"[:200]
            _RECORD.write_text(json.dumps(self._left), encoding="utf-8")
        return run(tensors)


class Module:
    """An object of a judged class whose weights are those of the reference, new ones in each call."""

    def __init__(self, made: Any, state: list[tuple[str, str]]) -> None:
        self._made, self._state, self._loads = made, state, 0
        self._places = {**dict(made.named_parameters()), **dict(made.named_buffers())}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object."""
        return self._made(*args, **kwargs)

    def load(self, tensors: dict[str, Any]) -> None:
        """Let the object hold these weights; `tensors` by the problem's names.

        Raises:
            HostError: it has no weight of that name and shape.
            NotImplementedError: it keeps tensors besides its weights, which new weights would not reach.
        """
        for part in self._made.modules():
            for name, value in vars(part).items():
                if isinstance(value, torch.Tensor):
                    raise NotImplementedError(
                        f"the module keeps a tensor in {name} that is no parameter or buffer"
                    )
        # users train modules and use them
        self._loads += 1
        self._made.train(self._loads % 2 == 1)
        for target, param in self._state:
            place, given = self._places.get(target), tensors[param]
            has = ", ".join(self._places) or "none"
            if place is None:
                raise HostError(
                    f"host: the reference's weight {target} is none of the module's: {has}"
                )
            if (tuple(place.shape) or (1,)) != tuple(given.shape) or place.dtype != given.dtype:
                told = f"{word_of(place.dtype)}{list(place.shape)}"
                raise HostError(
                    f"host: weight {target} is {told}, the reference's {word_of(given.dtype)}{list(given.shape)}"
                )
            holder, _, leaf = target.rpartition(".")
            part = self._made.get_submodule(holder)
            given = given.reshape(place.shape)
            if leaf in part._parameters:
                part._parameters[leaf] = torch.nn.Parameter(given, given.requires_grad)
            else:
                part._buffers[leaf] = given.detach()
