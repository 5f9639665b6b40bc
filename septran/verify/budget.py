"""How far each element of a correct result may be from torch in float64; policy in configs/accuracy.yaml.

Sources: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2 (error of
sums in any order, and its statistical size sqrt(n) u for same-sign terms).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from septran.accuracy import Policy
from septran.errors import TaskLangError
from septran.ir.dtypes import DTYPES, is_float
from septran.reference import Remote
from septran.rounding import DIGITS, Rounding
from septran.verify.declared import declared_error
from septran.verify.directions import alone, moved, together
from septran.verify.effects import Effects
from septran.verify.flushing import cost_of_flushing
from septran.verify.integers import integers_beside
from septran.verify.matrix_units import cut_off
from septran.verify.problem import Problem

if TYPE_CHECKING:
    import torch

    from septran.verify.cases import Array

    Tensors = Mapping[str, torch.Tensor]
    Magnitude = Callable[[int, bool], torch.Tensor]

_LARGE = 1 << 18
# directions in which torch's own error in float32 is measured, besides the inputs as they are
_OWN = 2
# directions that are taken forwards and back
_BOTH = 2
# directions in which sums are moved: two sums may go the same way and cancel behind
_SUMMED = 8
# what a number may be, of the largest that rounding made, where exact arithmetic has 0 / 0
_UNDECIDED = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One output: float64 (or integer) values, the budget per element, and whether bits must match.

    flushes: 0 stands for a number below the normal ones, too. others: what integers may be instead, element by element.
    undecided: how large a number may be where the value is NaN for exact arithmetic alone, 0 elsewhere. torchs: torch's own float32, where that is not finite and
    the value is, or is infinite and the value NaN.
    """

    name: str
    dtype: str
    values: torch.Tensor
    budget: torch.Tensor
    exact: bool
    flushes: bool = False
    others: tuple[torch.Tensor, ...] = ()
    undecided: torch.Tensor | None = None
    torchs: torch.Tensor | None = None


def expected(
    problem: Problem, arrays: Mapping[str, Array], *, zero_mean: bool, policy: Policy, seed: int
) -> tuple[Expected, ...]:
    """Return reference and budget of each output for one input set; torch runs here, in the parent."""
    *_, found = growing(problem, arrays, zero_mean=zero_mean, policy=policy, seed=seed)
    return found


def growing(
    problem: Problem, arrays: Mapping[str, Array], *, zero_mean: bool, policy: Policy, seed: int
) -> Iterator[tuple[Expected, ...]]:
    """Yield what `expected` returns, last, and before it the same with smaller budgets.

    What is measured of a reference only adds to a budget, and each measurement runs the whole reference again. So a kernel that is
    within a small one is within all, and only what is not has to wait for the next.
    """
    import torch

    inputs = tensors(arrays)
    with torch.no_grad():
        results = evaluate(problem, inputs)
        check_results(problem, results)
    wide = {
        i: results[i].to(torch.float64)
        for i, param in enumerate(problem.outputs)
        if is_float(param.dtype)
    }
    magnitude = functools.cache(partial(_magnitude, problem, inputs))
    measured = problem.reference.kind not in ("exact", "gemm", "reduction", "softmax") and wide
    rounds = _conditioning(problem, inputs, wide, policy, seed) if measured else iter([{}])
    found: tuple[Expected, ...] = ()
    while True:
        with torch.no_grad():
            effects = next(rounds, None)
            if effects is None:
                break
            found = tuple(
                _one(
                    problem,
                    magnitude,
                    results,
                    i,
                    effects.get(i),
                    zero_mean=zero_mean,
                    policy=policy,
                )
                for i in range(len(problem.outputs))
            )
        yield found
    if problem.declared:
        with torch.no_grad():
            more = declared_error(problem, inputs, policy, partial(_call, problem))
        found = tuple(replace(one, budget=one.budget + more) for one in found)
        yield found
    if problem.flushes:
        with torch.no_grad():
            cost = cost_of_flushing(problem, inputs, wide, partial(_call, problem))
            found = tuple(
                one if one.exact else replace(one, budget=one.budget + cost[i])
                for i, one in enumerate(found)
            )
        yield found
    whole = [i for i, param in enumerate(problem.outputs) if not is_float(param.dtype)]
    if whole and problem.reference.kind != "exact":
        step = _factor(problem, policy) * policy.unit_roundoff[problem.accumulate]
        directions = together(
            inputs, 2 * policy.probes, torch.Generator().manual_seed(seed % 2**31)
        )
        again = partial(evaluate, problem)
        for others in integers_beside(
            again,
            inputs,
            {i: found[i].values for i in whole},
            directions,
            step,
            low=problem.accumulate == "float32",
        ):
            yield tuple(replace(one, others=others.get(i, ())) for i, one in enumerate(found))


def tensors(arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Return torch tensors of the arrays: floats as float64, integers as they are."""
    return {name: _tensor(array) for name, array in arrays.items()}


def check_results(problem: Problem, results: tuple[torch.Tensor, ...]) -> None:
    """Raise TaskLangError E153 when the reference's results are not tensors of the outputs' shapes."""
    wanted = [tuple(p.shape) for p in problem.outputs]
    found = [tuple(t.shape) if hasattr(t, "shape") else type(t).__name__ for t in results]
    if found != wanted:
        raise blame(
            problem.reference.fn,
            f"gives {_shapes(found)}, but {', '.join(p.name for p in problem.outputs)} "
            f"has {_shapes(wanted)}",
        )


def blame(fn: object, what: str) -> TaskLangError:
    """Return the error E153 that a reference's function `what`."""
    who, span = (fn.about, fn.span) if isinstance(fn, Remote) else ("the reference", None)
    return TaskLangError.of(
        "E153", f"{who} {what}", span, help="`septran explain E153` says what a reference returns"
    )


def _shapes(shapes: Sequence[object]) -> str:
    return " and ".join(map(str, shapes)) or "nothing"


def evaluate(
    problem: Problem, inputs: Tensors, *, dtype: torch.dtype | None = None
) -> tuple[torch.Tensor, ...]:
    """Return the reference's outputs with float inputs in `dtype` (default float64)."""
    return _call(problem, problem.reference.fn, inputs, dtype)


def _call(
    problem: Problem, fn: Any, inputs: Tensors, dtype: torch.dtype | None = None
) -> tuple[torch.Tensor, ...]:
    given = {
        name: t.to(dtype) if dtype is not None and t.is_floating_point() else t.clone()
        for name, t in inputs.items()
        if name not in problem.sizes
    }
    with threads(_all_threads() if _is_large(given) else 1):
        if isinstance(fn, Remote):
            found = fn.on(problem.device)(**given, **problem.scalars)
        elif problem.device != "cpu":
            return _call_elsewhere(problem, fn, given)
        else:
            found = fn(**given, **problem.scalars)
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def _call_elsewhere(problem: Problem, fn: Any, given: Tensors) -> tuple[torch.Tensor, ...]:
    """Compute on `problem.device`; what the reference makes itself (masks, ranges) is there, too."""
    import torch

    moved = {name: t.to(problem.device) for name, t in given.items()}
    with torch.device(problem.device):
        found = fn(**moved, **problem.scalars)
    results = found if isinstance(found, tuple | list) else (found,)
    return tuple(t.cpu() for t in results)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch on `count` threads: on a busy machine more threads make small work slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _all_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_large(given: Tensors) -> bool:
    return any(t.numel() > _LARGE for t in given.values())


def _tensor(array: Array) -> torch.Tensor:
    import numpy as np
    import torch

    if array.dtype.kind in "iub":
        return torch.from_numpy(np.ascontiguousarray(array))
    return torch.from_numpy(array.astype(np.float64))


def _one(
    problem: Problem,
    magnitude: Magnitude,
    results: tuple[torch.Tensor, ...],
    index: int,
    effects: Effects | None,
    *,
    zero_mean: bool,
    policy: Policy,
) -> Expected:
    import torch

    param = problem.outputs[index]
    values = results[index]
    if not is_float(param.dtype):
        zero = torch.zeros(values.shape, dtype=torch.float64)
        return Expected(name=param.name, dtype=param.dtype, values=values, budget=zero, exact=True)
    values = values.to(torch.float64)
    if problem.reference.kind == "exact":
        return Expected(
            name=param.name, dtype=param.dtype, values=values, budget=values * 0.0, exact=True,
            flushes=problem.flushes,
        )  # fmt: skip
    budget = _arithmetic(problem, magnitude, values, index, zero_mean, policy, effects)
    budget = budget * problem.reference.lipschitz
    fraction, least = DTYPES[param.dtype].digits - 1, DTYPES[param.dtype].least
    if problem.reference.storage_roundings:
        scale = values.abs().nan_to_num(0.0, 0.0, 0.0)
        if problem.reference.magnitude is not None:
            # terms of both signs cancel in the result, their roundings do not
            scale = scale.maximum(magnitude(index, False))
        budget = budget + problem.reference.storage_roundings * 2.0 ** -(fraction + 1) * scale
    # the result is rounded once to the output dtype: half a last place, also of denormals
    spacing = _spacing(values.abs() + budget.nan_to_num(0.0), fraction, least)
    budget = budget + 0.5 * spacing
    budget = budget + 4.0 * 2.0 ** DTYPES[problem.accumulate].least
    found = Expected(name=param.name, dtype=param.dtype, values=values, budget=budget, exact=False)
    if effects is None:
        return found
    if bool(effects.numbers.any()):
        found = replace(found, undecided=_UNDECIDED * effects.numbers)
    lost = None
    if (torchs := effects.torchs) is not None:
        lost = torch.where(values.isnan(), torchs.isinf(), ~torchs.isfinite() & values.isfinite())
    return found if lost is None or not bool(lost.any()) else replace(found, torchs=effects.torchs)


def _arithmetic(
    problem: Problem,
    magnitude: Magnitude,
    values: torch.Tensor,
    index: int,
    zero_mean: bool,
    policy: Policy,
    effects: Effects | None,
) -> torch.Tensor:
    reference = problem.reference
    u = policy.unit_roundoff[problem.accumulate]
    terms = reference.reduction(problem.dims) if reference.reduction else 1
    root = math.sqrt(max(terms, 1))
    size = values.abs().nan_to_num(0.0, 0.0, 0.0)
    few = reference.ulps * u * size
    match reference.kind:
        case "gemm" | "reduction":
            coefficient = policy.zero_mean_coefficient
            if not zero_mean:
                coefficient = max(coefficient, policy.same_sign_coefficient_per_sqrt * root)
            cut = cut_off(problem, policy) * (reference.kind == "gemm")
            return coefficient * u * magnitude(index, True) + few + cut * size
        case "softmax":
            distance = -size.clamp(min=2.0**-1000).log()
            rule = policy.softmax
            factor = rule["constant"] + rule["per_distance"] * distance
            return (factor + rule["per_sqrt"] * root) * u * size + few
        case _:
            assert effects is not None
            probe, own = effects.probe, effects.own
            long = reference.kind != "elementwise"
            if long:
                few = few + 0.25 * (reference.ulps + 2 * root) * u * size
            found = _factor(problem, policy) * probe + policy.torch_error_factor * own + few
            found = found + cut_off(problem, policy) * long * size
            if reference.rounded is not None:
                # the form of an operator may cancel inside (1 + erf in a GELU's tail): a last place of its larger results
                found = found + 2 * u * _of_row(size)
            if reference.magnitude is not None:
                scale = magnitude(index, False)
                found = found + (reference.ulps + 2 * root * long) * u * scale
            return found


def _factor(problem: Problem, policy: Policy) -> float:
    """Return how much of the effect of one rounding a chain may be off by."""
    reference = problem.reference
    terms = reference.reduction(problem.dims) if reference.reduction else 1
    long = reference.kind != "elementwise"
    return policy.probe_coefficient + policy.probe_per_sqrt * math.sqrt(max(terms, 1)) * long


def _magnitude(problem: Problem, inputs: Tensors, index: int, default: bool) -> torch.Tensor:
    import torch

    fn = problem.reference.magnitude
    given = {
        name: t.nan_to_num(0.0, 0.0, 0.0) if t.is_floating_point() else t
        for name, t in inputs.items()
    }
    if fn is None and default:
        fn = problem.reference.fn
        given = {n: t.abs() if t.is_floating_point() else t for n, t in given.items()}
    found = _call(problem, fn, given)
    one = found[index if 1 < len(found) > index else 0]
    scale = one.to(torch.float64).abs().nan_to_num(0.0, 0.0, 0.0)
    try:
        return scale.expand(problem.outputs[index].shape)
    except RuntimeError:
        wanted = tuple(problem.outputs[index].shape)
        raise blame(fn, f"gives {tuple(one.shape)} where {wanted} is expected") from None


def _conditioning(
    problem: Problem,
    inputs: Tensors,
    wide: Mapping[int, torch.Tensor],
    policy: Policy,
    seed: int,
) -> Iterator[dict[int, Effects]]:
    """Yield output -> (largest change under relative perturbations of u, error of torch in the compute dtype), of more and more of them.

    wide: the results, by the output's number. A backward stable algorithm is as good as an exact one on inputs perturbed by a few u; what that does
    to the result is measured instead of derived, so it holds for any fused operator. The steps are as long
    as the budget allows (in float64, 1 + u is 1) and go both ways: a maximum hides one of them, and with it
    what cancels below it. The error of one evaluation in float32 may be small by luck, so the worst of a few counts, whose inputs
    are moved by u. Of a torch module each intermediate result is moved, too: a common large term that a norm
    takes out again leaves its rounding behind, which no change of an input shows (running error analysis). Equal values
    are rounded alike, so results are moved as a whole, too. Last, sums are moved by what rounding their terms adds up to, in one step as long as
    all of the budget: where huge terms cancel, a sigmoid behind them is 0 or 1, and directions of inputs may all cancel with them.

    A NaN that any of these turns into a number is one because values cancelled to the last bit (a row of equal numbers over its deviation); which number rounding
    makes of it nobody knows, so its size is kept besides.
    """
    import torch

    u = policy.unit_roundoff[problem.accumulate]
    step = policy.probe_coefficient * u
    generator = torch.Generator().manual_seed(seed % 2**31)
    reference = problem.reference
    joined = reference.kind != "elementwise"
    most = {i: torch.zeros_like(v) for i, v in wide.items()}
    own = {i: torch.zeros_like(v) for i, v in wide.items()}
    numbers = {i: torch.zeros_like(v) for i, v in wide.items()}
    torchs: dict[int, torch.Tensor] = {}

    def seen(found: Sequence[torch.Tensor]) -> None:
        for i, v in wide.items():
            if bool(v.isnan().any()):
                size = found[i].to(torch.float64).abs().nan_to_num(0.0, 0.0, 0.0)
                numbers[i] = numbers[i].maximum(torch.where(v.isnan(), size, 0.0))

    def away(
        fn: Any, moved: Tensors, steps: float = policy.probe_coefficient
    ) -> dict[int, torch.Tensor]:
        found = _call(problem, fn, moved)
        seen(found)
        return {
            i: (found[i].to(torch.float64) - v).abs().nan_to_num(0.0, 0.0, 0.0) / steps
            for i, v in wide.items()
        }

    def marks() -> int:
        return int(torch.randint(0, 2**31, (), generator=generator))

    def change(signs: Tensors, ways: tuple[float, ...]) -> Iterator[dict[int, torch.Tensor]]:
        seed = marks()
        for way in ways:
            fn = reference.fn
            if reference.rounded is not None:
                fn = reference.rounded(Rounding(size=way, seed=seed))
            yield away(fn, moved(inputs, signs, way))

    def alike(digit: int) -> Iterator[dict[int, torch.Tensor]]:
        if reference.rounded is not None:
            for way in (step, -step):
                yield away(reference.rounded(Rounding(size=way, digit=digit)), inputs)

    def low(signs: Tensors) -> None:
        if problem.accumulate == "float64":
            return
        try:
            found = evaluate(problem, moved(inputs, signs, u), dtype=torch.float32)
        except RuntimeError:
            if reference.defined is None:
                raise
            return  # singular so close to regular: this direction tells nothing
        except IndexError:
            return  # a position computed in float32 lies outside: nor does this one
        seen(found)
        for i, v in wide.items():
            error = (found[i].to(torch.float64) - v).abs().nan_to_num(0.0, 0.0, 0.0)
            own[i] = own[i].maximum(error)
            torchs.setdefault(
                i, found[i].to(torch.float64)
            )  # the first is of the inputs as they are

    def known() -> dict[int, Effects]:
        return {
            i: Effects(probe=most[i], own=own[i], numbers=numbers[i], torchs=torchs.get(i))
            for i in wide
        }

    low({})
    if not joined:  # the effects of single inputs add up
        for signs in alone(inputs):
            up, down = change(signs, (step, -step))
            most = {i: most[i] + up[i].maximum(down[i]) for i in wide}
        for one in itertools.chain.from_iterable(map(alike, range(DIGITS))):
            most = {i: most[i] + one[i] for i in wide}
        yield known()
        return
    yield known()
    for number, signs in enumerate(together(inputs, policy.probes, generator)):
        # a random direction is as good as its opposite, except that each element is seen from both sides
        ways = change(signs, (step, -step) if number < _BOTH else (step,))
        for one in itertools.chain(ways, alike(number) if number < DIGITS else ()):
            most = {i: most[i].maximum(one[i]) for i in wide}
            yield known()
        if number < _OWN:
            low(signs)
            yield known()
    for digit in range(policy.probes, DIGITS):
        for one in alike(digit):
            most = {i: most[i].maximum(one[i]) for i in wide}
            yield known()
    if reference.summed is not None:
        factor = _factor(problem, policy)
        for sign, seed in itertools.product((u, -u), [marks() for _ in range(_SUMMED)]):
            fn = reference.summed(Rounding(size=factor * sign, seed=seed, of_terms=True, unit=u))
            one = away(fn, inputs, factor)
            most = {i: most[i].maximum(one[i]) for i in wide}
            yield known()


def _of_row(size: torch.Tensor) -> torch.Tensor:
    """Return the row's largest value in each element (last axis)."""
    return size.amax(dim=-1, keepdim=True).expand_as(size) if size.dim() else size


def _spacing(size: torch.Tensor, fraction: int, least: int) -> torch.Tensor:
    """Return the distance between neighbours of `size` in a format."""
    import torch

    _, exponent = torch.frexp(size.nan_to_num(0.0, 0.0, 0.0))
    # frexp(0) says exponent 0; its neighbours are denormals
    leading = torch.where(size > 0, exponent - 1, least).clamp(min=least)
    return torch.pow(torch.tensor(2.0, dtype=torch.float64), leading.double() - fraction)
