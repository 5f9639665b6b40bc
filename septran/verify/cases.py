"""Secret inputs: one of each family of values, drawn from seeds that only the parent and the evidence know."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from septran.domain import Domain
from septran.errors import ConfigError
from septran.ir.dtypes import is_float
from septran.kernel import KernelParam
from septran.verify.families import DRAWS, FAMILIES, ONE_SIGN, SPECIAL, Range, around, in_lines
from septran.verify.problem import Problem, Within

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


# inputs of which one element is changed, each in a call of its own
_NEAR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One input set.

    target: the input that gets the special values, "*" for each (independent) one. touched: for a near-duplicate, the input and the
    position (fraction of its flat size) of the one element that differs.
    """

    name: str
    family: str
    seed: int
    target: str = ""
    touched: tuple[str, float] | None = None

    @property
    def zero_mean(self) -> bool:
        """Whether the family's sums of products cancel."""
        return any(f.zero_mean for f in FAMILIES if f.name == self.family)


_POINTS, _LARGE_POINTS = "points", "large_points"
_IN_LINES = ("below_zero", "sorted", "padded")
_MOST_POINTS = 3
_OWN = Case(name="own", family="own", seed=0)
"""The values that the module file itself feeds its module, and its weights."""


def plan(problem: Problem, seed: int | None = None) -> tuple[Case, ...]:
    """Return the cases for `problem`, the most telling first; `seed` None draws a secret one.

    Cases for which the operator has no value are left out (`undefined` names them).

    Raises:
        ConfigError: C152, there is a value for none of them.
    """
    if problem.within is not None:
        return plan(problem.within.problem, seed)
    found = tuple(c for c in _planned(problem, seed) if has_value(problem, c))
    if not found:
        raise ConfigError.of(
            "C152",
            "there is a value for none of the inputs that the judge draws",
            help="make what the module asks of its inputs (a positive definite matrix) inside of it: x @ x.mT + torch.eye(n)",
        )
    return found


def draws(problem: Problem, family: str, count: int, seed: int) -> tuple[Case, ...]:
    """Return `count` more cases of one family, special values each time in an input drawn anew; fewer where the operator has no value, none where no input takes them."""
    rng = random.Random(f"{family} {seed}")
    real = [p.name for p in problem.inputs if _is_real(problem, p)]
    special = family in SPECIAL
    targets = [n for n in real if problem.domain(n).specials] if special else real or [""]
    if not targets:
        return ()
    found = (
        Case(
            name=f"{family}_{number}",
            family=family,
            seed=rng.getrandbits(63),
            target=rng.choice(targets) if special else "",
        )
        for number in range(count)
    )
    return tuple(c for c in found if has_value(problem, c))


def undefined(problem: Problem, seed: int) -> tuple[str, ...]:
    """Return the names of the cases for which the operator has no value."""
    outer = problem if problem.within is None else problem.within.problem
    return tuple(c.name for c in _planned(outer, seed) if not has_value(outer, c))


def has_value(problem: Problem, case: Case) -> bool:
    """Return whether the operator has a value for the inputs of a case."""
    if problem.reference.defined is None:
        return True
    inputs = tensors(draw(problem, case))
    # a matrix may be regular in float64 and singular in float32, in which torch shows how far a result may be
    return gives_value(problem, inputs) and (
        problem.accumulate == "float64" or gives_value(problem, _narrow(inputs))
    )


def _narrow(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {n: t.float() if t.is_floating_point() else t for n, t in inputs.items()}


def gives_value(problem: Problem, inputs: Mapping[str, Any]) -> bool:
    """Return whether the operator has a value for these tensors (float64)."""
    defined = problem.reference.defined
    return defined is None or defined(**inputs, **problem.scalars)


def _planned(problem: Problem, seed: int | None) -> tuple[Case, ...]:
    rng = random.Random(secrets.randbits(64) if seed is None else seed)
    names = [p.name for p in problem.inputs if _is_real(problem, p)]
    open_names = [n for n in names if problem.domain(n).specials]
    found: list[Case] = []
    targets: dict[str, str] = {}
    for family in FAMILIES:
        if family.special and not open_names:
            continue
        # infinities stand in another input than NaN did: what a kernel asks of one it need not ask of the other
        others = [n for n in open_names if family.name != "inf" or n != targets.get("nan")]
        target = rng.choice(others or open_names) if family.special else ""
        targets[family.name] = target
        case = Case(name=family.name, family=family.name, seed=rng.getrandbits(63), target=target)
        found.append(case)
        if family.name == "normal" and problem.inputs:
            given = [p.name for p in problem.meant if problem.domain(p.name).value is None]
            for number, who in enumerate(rng.sample(given, min(len(given), _NEAR)), start=1):
                name = "near_duplicate" if number == 1 else f"near_duplicate_{number}"
                touched = (who, rng.uniform(0.05, 0.95))
                found.append(replace(case, name=name, touched=touched))
        if not names and len(found) >= 4:
            break
    second = replace(found[1], name="normal_2", seed=rng.getrandbits(63))
    if problem.points and names:
        found += [Case(name=name, family=name, seed=rng.getrandbits(63)) for name in _IN_LINES]
        for number in range(_calls_at_points(problem, names)):
            name = f"{_POINTS}_{number + 1}" if number else _POINTS
            found.append(Case(name=name, family=_POINTS, seed=rng.getrandbits(63)))
        reached = [_span(problem, p) for p in problem.inputs if p.name in names]
        if any(_beyond(span, problem.points) for span in reached):
            found.append(Case(name=_LARGE_POINTS, family=_LARGE_POINTS, seed=rng.getrandbits(63)))
    own = [_OWN] if problem.meant and all(p.name in problem.samples for p in problem.meant) else []
    return (found[0], *own, *found[1:], second)


def _calls_at_points(problem: Problem, names: list[str]) -> int:
    """Return how many calls it takes until each point has stood in each input, three at most."""
    least = min(math.prod(p.shape) for p in problem.inputs if p.name in names)
    return max(1, min(_MOST_POINTS, -(-4 * len(problem.points) // max(least, 1))))


def draw(problem: Problem, case: Case) -> dict[str, Array]:
    """Return input name -> array in its storage dtype (ml_dtypes.bfloat16 for bfloat16)."""
    import numpy as np

    if problem.made is not None:
        return dict(problem.made[case.name])
    if problem.within is not None:
        return _made(problem, problem.within, case)
    arrays: dict[str, Array] = {}
    for param in problem.inputs:
        if param.name in problem.sizes:
            arrays[param.name] = np.full(param.shape, problem.sizes[param.name], dtype="int64")
    if case.family == _OWN.family:
        return arrays | {p.name: _given(p, problem.samples[p.name]) for p in problem.meant}
    for index, param in enumerate(problem.meant):
        rng = np.random.default_rng([case.seed, index])
        arrays[param.name] = _draw_one(problem, param, case, rng)
    if case.touched is not None:
        name, position = case.touched
        _touch(problem, arrays[name], name, position)
    return arrays


def _made(problem: Problem, within: Within, case: Case) -> dict[str, Array]:
    """Return what the larger problem makes of its own inputs."""
    import numpy as np

    made = within.given(**tensors(draw(within.problem, case)), **within.problem.scalars)
    kinds = {p.name: numpy_dtype(p.dtype) for p in problem.inputs}
    with np.errstate(over="ignore", invalid="ignore"):
        return {
            name: np.ascontiguousarray(value.numpy().astype(kinds[name]))
            for name, value in zip(within.names, made, strict=True)
        }


def tensors(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return torch tensors of arrays, floats as float64."""
    import numpy as np
    import torch

    plain = {n: a if a.dtype.kind in "iub" else a.astype(np.float64) for n, a in arrays.items()}
    return {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in plain.items()}


def _given(param: KernelParam, raw: bytes) -> Array:
    import numpy as np

    return np.frombuffer(raw, dtype=numpy_dtype(param.dtype)).reshape(param.shape).copy()


def numpy_dtype(name: str) -> Any:
    """Return numpy's dtype for a dtype name."""
    import numpy as np

    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _is_real(problem: Problem, param: KernelParam) -> bool:
    kind = problem.domain(param.name).kind
    return is_float(param.dtype) and kind in ("real", "positive", "unit")


def _draw_one(problem: Problem, param: KernelParam, case: Case, rng: np.random.Generator) -> Array:
    import numpy as np

    domain = problem.domain(param.name)
    dtype = numpy_dtype(param.dtype)
    if domain.value is not None:
        return np.resize(np.frombuffer(domain.value, dtype=dtype), param.shape)
    if domain.kind == "bool" or param.dtype == "bool":
        return rng.integers(0, 2, param.shape).astype(dtype)
    if domain.kind == "index" or not is_float(param.dtype):
        low = int(_bound(domain.low, problem.dims, -8 if domain.kind != "index" else 0))
        high = int(_bound(domain.high, problem.dims, 8))
        drawn = rng.integers(low, max(high, low + 1), param.shape)
        if domain.distinct and high - low >= param.shape[-1]:
            drawn = _distinct(rng, param.shape, low, high)
        if domain.nonzero:
            drawn = np.where(drawn == 0, _beside_zero(low, high), drawn)
        if domain.rising:
            drawn = np.sort(drawn, axis=None).reshape(param.shape)
            drawn.reshape(-1)[:1] = low
        if domain.sentinel is not None:
            drawn = np.where(rng.random(param.shape) < _NONE, domain.sentinel, drawn)
        return drawn.astype(dtype)
    family = case.family
    if family in SPECIAL and case.target not in ("*", param.name):
        family = "normal"
    unit, span = _unit(domain), _span(problem, param)
    if family == _POINTS:
        values = around(rng, param.shape, span, problem.points)
    elif family == _LARGE_POINTS:  # apart: in a sum they would hide all others
        top = replace(span, big=10.0 ** span.decades[1])
        values = around(rng, param.shape, top, _beyond(span, problem.points))
    elif family in _IN_LINES:
        values = in_lines(rng, param.shape, family) * unit
    else:
        values = DRAWS[family](rng, param.shape, span) * unit
    if case.family in _BESIDE_ZEROS and case.target not in ("*", param.name):
        values = np.where(rng.random(param.shape) < _ZEROS, 0.0, values)
    if domain.one_sign is not None and family in (*ONE_SIGN, "below_zero"):
        values = _below(values, domain.one_sign)
    values = _repeated(_into_domain(values, domain, problem.dims), domain.paired)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values.astype(dtype))


def _repeated(values: Array, paired: str) -> Array:
    """Return numbers whose last dim repeats what it says."""
    import numpy as np

    half = values.shape[-1] // 2
    if paired == "halves":
        return np.concatenate([values[..., :half], values[..., :half]], axis=-1)
    return np.repeat(values[..., ::2], 2, axis=-1) if paired else values


def _distinct(rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int) -> Array:
    """Return integers of which no two along the last dim are the same."""
    import numpy as np

    lines = [rng.choice(high - low, shape[-1], replace=False) for _ in range(math.prod(shape[:-1]))]
    return low + np.array(lines, np.int64).reshape(shape)


def _beside_zero(low: int, high: int) -> int:
    return 1 if high > 1 or low >= 0 else -1


_NONE = 0.125
"""How many of an input's integers are its sentinel."""
_ZEROS, _BESIDE_ZEROS = 0.5, ("nan", "inf")
"""How many numbers are 0 beside another input's special ones: 0 times those is NaN, so a kernel may not leave out the products of zeros."""


def _bound(value: float | str | None, dims: Mapping[str, int], default: float) -> float:
    if value is None:
        return default
    return float(dims[value]) if isinstance(value, str) else float(value)


# log10 of the largest magnitude of which the operator's products and sums stay finite in float32
_DECADES = {"exact": 38.0, "elementwise": 38.0, "softmax": 37.0, "reduction": 33.0, "gemm": 15.0}


def _range(dtype: str, kind: str) -> Range:
    # half storage overflows at 65504, so its large values are chosen for sums of products
    top = _DECADES.get(kind, 8.0)
    decades = (-min(top, 37.0), top)
    sums = kind in ("gemm", "reduction")
    match dtype:
        case "float16":
            least = -4.0 if kind in ("exact", "elementwise", "softmax") else -3.0
            most = 1.0 if sums else 4.5
            large = 2.0**4 if sums else 3e4
            return Range(2.0**4, 2.0**-14, (least, most), -16.0 if sums else -1e4, large)
        case "bfloat16":
            return Range(1e6, 2.0**-126, decades)
        case "float64":
            return Range(1e12, 2.0**-1022, (8 * decades[0], 8 * decades[1]))
        case _:
            return Range(1e6, 2.0**-126, decades)


def held_by(problem: Problem, param: KernelParam) -> tuple[float, float]:
    """Return the least and the largest number that an input may hold; infinities where there are none."""
    domain = problem.domain(param.name)
    if domain.kind == "bool" or param.dtype == "bool":
        return 0.0, 1.0
    if domain.kind == "index" or not is_float(param.dtype):
        low = _bound(domain.low, problem.dims, -8 if domain.kind != "index" else 0)
        return low, max(_bound(domain.high, problem.dims, 8) - 1, low)
    least = {"positive": 5e-324, "unit": 0.0}.get(domain.kind, -math.inf)
    most = 1.0 if domain.kind == "unit" else math.inf
    return max(_bound(domain.low, problem.dims, least), least), _bound(
        domain.high, problem.dims, most
    )


def bounds_of(problem: Problem, param: KernelParam) -> tuple[float, float]:
    """Return the least and the largest number of ordinary size that an input may hold."""
    low, high = held_by(problem, param)
    if not is_float(param.dtype):
        return low, high
    unit = _unit(problem.domain(param.name))
    big = _span(problem, param).big * unit
    if problem.domain(param.name).kind == "positive":
        low = max(low, 1e-3 * unit)
    return max(low, -big), min(high, big)


def _span(problem: Problem, param: KernelParam) -> Range:
    domain = problem.domain(param.name)
    return _within(_range(param.dtype, problem.reference.kind), domain, _unit(domain))


def _beyond(span: Range, points: tuple[float, ...]) -> tuple[float, ...]:
    """Return the points that are no ordinary magnitude, and that what is computed of them still holds."""
    return tuple(p for p in points if span.big < abs(p) <= 10.0 ** span.decades[1])


def _unit(domain: Domain) -> float:
    """Return what 1 stands for: a power of two that a domain of smaller numbers holds."""
    high = domain.high
    if domain.kind != "real" or not isinstance(high, int | float) or not 0 < high < 1:
        return 1.0
    return 2.0 ** math.floor(math.log2(high))


def _within(span: Range, domain: Domain, unit: float) -> Range:
    """Return a range inside of a domain's bounds, in units: cut off there, large values would all be the same."""
    high = domain.high
    if domain.kind == "unit" or not isinstance(high, int | float) or high <= 0:
        return span
    (least, most), top = span.decades, high / unit
    return replace(span, big=min(span.big, top), decades=(least, min(most, math.log10(top))))


def _below(values: Array, bound: float) -> Array:
    """Return values times the power of two that takes them to `bound`: what has few bits keeps them."""
    import numpy as np

    largest = float(np.abs(values).max(initial=0.0))
    return values if largest <= bound else values * 2.0 ** math.floor(math.log2(bound / largest))


def _into_domain(values: Array, domain: Domain, dims: Mapping[str, int]) -> Array:
    import numpy as np

    if domain.kind == "positive":
        values = np.abs(values)
        values = np.where(values == 0, 1.0, values)
    elif domain.kind == "unit":
        values = np.where(np.isfinite(values), np.abs(values) % 1.0, values)
    if domain.low is not None or domain.high is not None:
        low = _bound(domain.low, dims, -np.inf)
        high = _bound(domain.high, dims, np.inf)
        values = np.where(np.isnan(values), values, np.clip(values, low, high))
    return values


def _exchange(array: Array, at: int, low: int, high: int) -> None:
    """Change an element to one that its line lacks, or change it with another of its line."""
    line = array.reshape(-1, array.shape[-1])[at // array.shape[-1]]
    k = at % array.shape[-1]
    taken = set(line.tolist())
    free = next((n for n in range(low, min(high, low + line.size + 1)) if n not in taken), None)
    if free is not None:
        line[k] = free
    else:
        line[[k, k - 1]] = line[[k - 1, k]]


def _touch(problem: Problem, array: Array, name: str, position: float) -> None:
    """Change one interior element by about its own size, so that no fingerprint sees it."""
    flat = array.reshape(-1)
    at = int(position * (flat.size - 1))
    domain = problem.domain(name)
    if array.dtype == bool or domain.kind == "bool":
        flat[at] = not flat[at]
    elif array.dtype.kind in "iu":
        if domain.rising:
            flat[at] = flat[max(at - 1, 0)]  # a bag less; more of them may not be in order
            return
        low = int(_bound(domain.low, problem.dims, -8 if domain.kind != "index" else 0))
        high = int(_bound(domain.high, problem.dims, 8))
        if domain.distinct:
            _exchange(array, at, low, high)
            return
        flat[at] = low + (int(flat[at]) - low + 1) % max(high - low, 1)
        if domain.nonzero and not flat[at]:
            flat[at] = _beside_zero(low, high)
    elif domain.kind == "real" and domain.low is None and domain.high is None:
        flat[at] = -(float(flat[at]) + 1.0)
    else:
        flat[at] = float(flat[at]) * 0.5
    if domain.paired:
        line, k, half = (
            flat.reshape(-1, array.shape[-1])[at // array.shape[-1]],
            at % array.shape[-1],
            array.shape[-1] // 2,
        )
        line[(k + half) % (2 * half) if domain.paired == "halves" else k ^ 1] = line[k]
