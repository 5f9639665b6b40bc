"""What a machine without denormals may cost: measured of the reference, element by element, never guessed.

On such a machine an operand below the smallest normal number counts as 0, and so does a result. Behind a large factor
(a norm of small rows) that is more than the smallest normal number itself. The reference is run in float64 with
these numbers taken out where the machine would, so what follows each of them decides what it costs, and where
there are none nothing is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from septran.ir.dtypes import DTYPES, is_float
from septran.reference import Remote
from septran.verify.problem import Problem

if TYPE_CHECKING:
    import torch

    Change = Callable[[torch.Tensor], torch.Tensor]


def cost_of_flushing(
    problem: Problem,
    inputs: Mapping[str, torch.Tensor],
    values: Mapping[int, torch.Tensor],
    call: Callable[[Any, Mapping[str, torch.Tensor]], tuple[torch.Tensor, ...]],
) -> dict[int, torch.Tensor]:
    """Return float output's number -> how far each element may move, float64, where denormals are lost.

    values: the outputs that they move from. call: runs a function as the reference is run.
    """
    found = {i: value * 0.0 for i, value in values.items()}
    for fn, given in _flushed(problem, inputs):
        results = call(fn, given)
        for i, value in values.items():
            change = (results[i].to(value.dtype) - value).abs()
            found[i] = found[i].maximum(change.nan_to_num(0.0, 0.0, 0.0))
    return found


def _flushed(
    problem: Problem, inputs: Mapping[str, torch.Tensor]
) -> Iterator[tuple[Any, dict[str, torch.Tensor]]]:
    """Yield functions and inputs whose results a machine without denormals may have, for the reference on `inputs`.

    inputs: float64 or integers. First, inputs that are denormal in their own format are 0, and so is each result of a step of the
    reference that is in the compute dtype. Then each step is off by up to the smallest normal number: a kernel may add up in
    another order, and loses that much of a part. Steps of a function in another process are not seen, only its inputs.
    """
    given = {p.name: _normal(p.dtype, inputs[p.name]) for p in problem.meant}
    given = {**inputs, **given}
    fn = problem.reference.fn
    if isinstance(fn, Remote):
        yield fn, given
        return
    least = 2.0 ** DTYPES[problem.accumulate].least

    def zero(value: torch.Tensor) -> torch.Tensor:
        return value.masked_fill(value.abs() < least, 0.0)

    def moved(way: float) -> Change:
        # an exact 0 has no part that could be lost
        return lambda value: value + way * value.sign().abs()

    for change in (zero, moved(least), moved(-least)):
        yield _stepwise(fn, change), given


def _normal(dtype: str, values: torch.Tensor) -> torch.Tensor:
    if not is_float(dtype):
        return values
    return values.masked_fill(values.abs() < 2.0 ** DTYPES[dtype].least, 0.0)


def _stepwise(fn: Any, change: Change) -> Callable[..., Any]:
    """Return `fn` with every float that one of its operators makes changed; views of changed floats are left alone."""

    def called(*args: Any, **given: Any) -> Any:
        from torch.utils._python_dispatch import TorchDispatchMode

        class Steps(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                found = func(*args, **(kwargs or {}))
                several = isinstance(found, tuple | list)
                many = found if several else (found,)
                made = [
                    _changed(one, change, returned.alias_info)
                    for one, returned in zip(many, func._schema.returns, strict=False)
                ]
                if len(made) != len(many):  # a list of tensors is one value of the schema
                    return found
                return type(found)(made) if several else made[0]

        with Steps():
            return fn(*args, **given)

    return called


def _changed(value: Any, change: Change, alias: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    if alias is None:
        return change(value)
    if alias.is_write:
        value.copy_(change(value))
    return value
