"""The torch side of a timing: the operator as users of torch write it, in slots like the kernel's."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from septran.gpu import Gpu
from septran.in_place import in_place, refills
from septran.reference import Remote
from septran.stopwatch import Slot, gpu_slot, rotating_slot
from septran.verify import budget
from septran.verify.problem import Problem
from septran.verify.session import Sessions

if TYPE_CHECKING:
    import numpy as np

_ORDER = 64


def torch_slots(
    problem: Problem, sets: Sequence[dict[str, Any]], *, processor_time: bool
) -> dict[str, Slot]:
    """Return slots of torch on the CPU by the name of the way it is called.

    sets: of inputs, used in turn. Where the kernel reads and writes a tensor, torch also works in place, if it has a way to.
    """
    given = [_cpu_tensors(problem, inputs) | dict(problem.scalars) for inputs in sets]
    fn, best = problem.reference.fn, problem.reference.best
    replaced = {i: p.name for i, p in enumerate(problem.outputs) if p.privilege == "rw"}
    if isinstance(fn, Remote):
        found = {"fn": fn.slot(given[0], processor_time=processor_time)}
        there = fn.slot_in_place(given[0], replaced, processor_time=processor_time)
        return found if there is None else {**found, "in_place": there}
    calls = {"fn": torch_calls(fn, given)}
    if best is not None:
        calls["best"] = torch_calls(best, given, bound=True)
    if replaced and (first := in_place(fn, given[0], replaced)) is not None:
        rest = [in_place(fn, one, replaced) for one in given[1:]]
        calls["in_place"] = [first, *(call for call in rest if call is not None)]
    # in place there is one tensor for all sets
    refill = refills(given[:1], tuple(replaced.values())) if replaced else None
    draw = random.Random(len(given))
    return {
        # in no order, as the kernel's: sets that come round again are in a cache just when they were drawn a short while ago
        name: rotating_slot(draw.choices(c, k=_ORDER), processor_time=processor_time, refill=refill)
        for name, c in calls.items()
    }


def torch_calls(
    fn: Callable[..., Any], sets: list[dict[str, Any]], *, bound: bool = False
) -> list[Callable[[], Any]]:
    """Return calls of `fn` on each set; bound: `fn(**set)` prepares and returns the call."""
    if bound:
        return [fn(**given) for given in sets]
    return [functools.partial(fn, **given) for given in sets]


def _cpu_tensors(problem: Problem, inputs: dict[str, Any]) -> dict[str, Any]:
    import torch

    given = {}
    for param in problem.meant:
        array: np.ndarray[Any, Any] = inputs[param.name]
        if array.dtype.name == "bfloat16":
            given[param.name] = torch.from_numpy(array.view("int16")).view(torch.bfloat16)
        else:
            given[param.name] = torch.from_numpy(array)
    return given


def gpu_slot_of(problem: Problem, inputs: dict[str, Any], gpu: Gpu) -> Slot:
    """Return torch on the same GPU: each call with a cold L2, timed by events, as the kernel's are.

    Raises:
        OSError: this torch does not see the GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise OSError(f"torch {torch.__version__} does not see the GPU")
    fn, given = problem.reference.fn, {**gpu_tensors(problem, inputs), **problem.scalars}
    return fn.slot(given, gpu_l2=gpu.l2) if isinstance(fn, Remote) else gpu_slot(fn, given, gpu.l2)


def gpu_tensors(problem: Problem, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs as tensors on the GPU, in the parameters' dtypes."""
    return {name: found.cuda() for name, found in _cpu_tensors(problem, inputs).items()}


def fastest(slots: dict[str, Slot], settings: Sessions, limit: int) -> tuple[str, int]:
    """Return the way of calling torch and the thread count, 1 or `limit`, that are fastest: the baseline is its best."""
    if settings.gpu is not None:
        return "fn", 1
    best: dict[tuple[str, int], float] = {}
    for name, slot in slots.items():
        for count in {1, limit}:
            with budget.threads(count):
                slot(1)
                best[name, count] = min(slot(1) for _ in range(5))
    return min(best, key=lambda key: best[key])
