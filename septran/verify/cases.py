"""Secret inputs: families of values, drawn from seeds that only the parent and the evidence know.

A family is chosen for the mistakes it shows: narrow domains hide identities, zero-mean inputs hide
nothing of a lost low-order bit, one huge element shows a subsampled sum, and so on
(docs/verification.md has the table).
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from septran.domain import Domain
from septran.ir.dtypes import is_float
from septran.kernel import KernelParam
from septran.verify.problem import Problem, Within

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
    Draw = Callable[[np.random.Generator, tuple[int, ...], "Range"], Array]


@dataclass(frozen=True, slots=True)
class Range:
    """Magnitudes of a dtype and of what is computed from it.

    big: largest ordinary magnitude that keeps products and sums finite. tiny: least normal number.
    decades: log10 of the smallest and largest magnitude whose products and sums this operator keeps finite.
    mask: the large negative number people add to hide an element. outlier: what takes another branch.
    """

    big: float
    tiny: float
    decades: tuple[float, float] = (-6.0, 6.0)
    mask: float = -1e9
    outlier: float = 2e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of values. zero_mean: sums of products cancel, so the tight bound applies.

    one_sign: all values have the same sign. special: holds NaN, infinities or values that a narrow domain excludes; given to one input only.
    """

    name: str
    shows: str
    zero_mean: bool = False
    one_sign: bool = False
    special: bool = False


FAMILIES: tuple[Family, ...] = (
    Family(name="integers", shows="wrong index, tail or count: results are exact", zero_mean=True),
    Family(name="normal", shows="low-precision arithmetic", zero_mean=True),
    Family(name="nan", shows="swallowed NaN; reads of the wrong element", special=True),
    Family(name="uniform", shows="long same-sign sums", one_sign=True),
    Family(name="heavy", shows="subsampled reductions: one element dominates"),
    Family(name="neg_inf_led", shows="online softmax that starts from -inf", special=True),
    Family(name="mixed", shows="lost small terms, narrow exponents"),
    Family(name="wide", shows="intermediates that overflow or vanish: the whole exponent range"),
    Family(name="outliers", shows="branches for large values; finite masks taken for -inf"),
    Family(name="inf", shows="infinities turned into numbers or NaN", special=True),
    Family(name="small", shows="absolute cut-offs: everything is tiny", zero_mean=True),
    Family(name="threshold", shows="off-by-one-ulp comparisons, saturation points"),
    Family(
        name="beside",
        shows="sums beyond 1e15; one tiny element in a row of large ones",
        one_sign=True,
    ),
    Family(name="cancel", shows="sums that are zero up to rounding", zero_mean=True),
    Family(name="equal", shows="variance of constants, ties", one_sign=True),
    Family(name="denormal", shows="flush to zero", special=True),
    Family(name="zeros", shows="signed zeros, division by a zero norm", special=True),
)


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


_OWN = Case(name="own", family="own", seed=0)
"""The values that the module file itself feeds its module, and its weights."""


def plan(problem: Problem, seed: int | None = None) -> tuple[Case, ...]:
    """Return the cases for `problem`, the most telling first; `seed` None draws a secret one.

    Cases for which the operator has no value are left out (`undefined` names them).
    """
    if problem.within is not None:
        return plan(problem.within.problem, seed)
    return tuple(c for c in _planned(problem, seed) if has_value(problem, c))


def undefined(problem: Problem, seed: int) -> tuple[str, ...]:
    """Return the names of the cases for which the operator has no value."""
    outer = problem if problem.within is None else problem.within.problem
    return tuple(c.name for c in _planned(outer, seed) if not has_value(outer, c))


def has_value(problem: Problem, case: Case) -> bool:
    """Return whether the operator has a value for the inputs of a case."""
    if problem.reference.defined is None:
        return True
    inputs = _tensors(draw(problem, case))
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
    for family in FAMILIES:
        if family.special and not open_names:
            continue
        target = rng.choice(open_names) if family.special else ""
        case = Case(name=family.name, family=family.name, seed=rng.getrandbits(63), target=target)
        found.append(case)
        if family.name == "normal" and problem.inputs:
            given = [p.name for p in problem.meant]
            for number, who in enumerate(rng.sample(given, min(len(given), _NEAR)), start=1):
                name = "near_duplicate" if number == 1 else f"near_duplicate_{number}"
                touched = (who, rng.uniform(0.05, 0.95))
                found.append(replace(case, name=name, touched=touched))
        if not names and len(found) >= 4:
            break
    second = replace(found[1], name="normal_2", seed=rng.getrandbits(63))
    own = [_OWN] if problem.meant and all(p.name in problem.samples for p in problem.meant) else []
    return (found[0], *own, *found[1:], second)


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

    made = within.given(**_tensors(draw(within.problem, case)), **within.problem.scalars)
    kinds = {p.name: numpy_dtype(p.dtype) for p in problem.inputs}
    with np.errstate(over="ignore", invalid="ignore"):
        return {
            name: np.ascontiguousarray(value.numpy().astype(kinds[name]))
            for name, value in zip(within.names, made, strict=True)
        }


def _tensors(arrays: Mapping[str, Array]) -> dict[str, Any]:
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
    if domain.kind == "bool" or param.dtype == "bool":
        return rng.integers(0, 2, param.shape).astype(dtype)
    if domain.kind == "index" or not is_float(param.dtype):
        low = int(_bound(domain.low, problem.dims, -8 if domain.kind != "index" else 0))
        high = int(_bound(domain.high, problem.dims, 8))
        return rng.integers(low, max(high, low + 1), param.shape).astype(dtype)
    family = case.family
    if family in _SPECIAL and case.target not in ("*", param.name):
        family = "normal"
    unit = _unit(domain)
    span = _within(_range(param.dtype, problem.reference.kind), domain, unit)
    values = _DRAWS[family](rng, param.shape, span) * unit
    if domain.one_sign is not None and family in _ONE_SIGN:
        values = _below(values, domain.one_sign)
    values = _into_domain(values, domain, problem.dims)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values.astype(dtype))


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


def _touch(problem: Problem, array: Array, name: str, position: float) -> None:
    """Change one interior element by about its own size, so that no fingerprint sees it."""
    flat = array.reshape(-1)
    at = int(position * (flat.size - 1))
    domain = problem.domain(name)
    if array.dtype == bool or domain.kind == "bool":
        flat[at] = not flat[at]
    elif array.dtype.kind in "iu":
        low = int(_bound(domain.low, problem.dims, -8 if domain.kind != "index" else 0))
        high = int(_bound(domain.high, problem.dims, 8))
        flat[at] = low + (int(flat[at]) - low + 1) % max(high - low, 1)
    elif domain.kind == "real" and domain.low is None and domain.high is None:
        flat[at] = -(float(flat[at]) + 1.0)
    else:
        flat[at] = float(flat[at]) * 0.5


def _integers(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return rng.integers(-3, 4, shape).astype("float64")


def _normal(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return rng.standard_normal(shape)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return rng.random(shape)


def _small(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    # below the cut-offs people write (1e-4, 1e-5), with room for products of two
    return rng.standard_normal(shape) * (2.0**-20 if span.tiny < 2.0**-100 else 2.0**-10)


def _mixed(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    import numpy as np

    top = np.log10(span.big)
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(min(-top, top - 3.0), top, shape)


def _wide(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """Both signs, magnitudes log-uniform over all that the dtype and the operator hold."""
    values: Array = rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(*span.decades, shape)
    return values


def _outliers(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """An eighth hidden by a finite mask, and a few values far beyond any threshold."""
    import numpy as np

    values = np.where(rng.random(shape) < 0.125, span.mask, rng.standard_normal(shape))
    flat = values.reshape(-1)
    where = rng.integers(0, flat.size, max(1, min(flat.size // 64, 16)))
    flat[where] = rng.choice([span.outlier, -span.outlier], where.size)
    return values


def _beside(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """Large values of one sign, whose sums pass 1e15 where the dtype holds them, and one tiny one in each row."""
    low, high = span.decades
    values: Array = (0.5 + 0.5 * rng.random(shape)) * 10.0 ** min(15.0, high - 1.0)
    if shape and shape[-1] > 1:
        rows = values.reshape(-1, shape[-1])
        column = rng.integers(0, shape[-1], len(rows))
        rows[list(range(len(rows))), column] = 10.0 ** max(low + 1.0, -30.0)
    return values


def _heavy(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    values = rng.standard_normal(shape)
    flat = values.reshape(-1)
    flat[rng.integers(0, flat.size)] = span.big * (1 if rng.random() < 0.5 else -1)
    if len(shape) > 1 and shape[-1] > 1:
        # a maximum that misses the end of a row shows only where the end is what overflows
        rows = values.reshape(-1, shape[-1])
        rows[rng.integers(0, len(rows)), -1] = span.big
    return values


def _cancel(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """Each value is followed by its negation along the last axis."""
    values = rng.standard_normal(shape)
    if shape and shape[-1] > 1:
        half = shape[-1] // 2
        values[..., half : 2 * half] = -values[..., :half]
    return values


def _equal(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """One value of two bits: sums of it are exact up to a million terms; rounding errors of equal terms would all have the same sign."""
    import numpy as np

    return np.full(shape, rng.choice([0.5, 0.75, 1.0, 1.5, 2.0, 3.0]))


def _denormal(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    import numpy as np

    values = rng.standard_normal(shape) * span.tiny * 0.25
    return np.where(rng.random(shape) < 0.25, rng.standard_normal(shape), values)


def _zeros(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    import numpy as np

    return np.where(rng.random(shape) < 0.5, 0.0, -0.0)


def _nan(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return _sprinkle(rng, shape, (float("nan"),))


def _inf(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return _sprinkle(rng, shape, (float("inf"), float("-inf")))


def _sprinkle(
    rng: np.random.Generator, shape: tuple[int, ...], choices: tuple[float, ...]
) -> Array:
    """A few special values, few enough that most results stay ordinary."""
    values = rng.standard_normal(shape)
    flat = values.reshape(-1)
    rows = shape[-2] if len(shape) > 1 else flat.size
    count = max(1, min(rows // 4, 8))
    where = rng.integers(0, flat.size, count)
    flat[where] = rng.choice(choices, count)
    return values


def _neg_inf_led(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    values = rng.standard_normal(shape)
    if shape and shape[-1] > 1:
        lead = rng.integers(1, max(2, shape[-1] * 3 // 4))
        values[..., :lead] = float("-inf")
        # only every other row, so that ordinary rows stay beside them
        if len(shape) > 1 and shape[-2] > 1:
            values[..., ::2, :lead] = rng.standard_normal(values[..., ::2, :lead].shape)
    return values


def _threshold(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    import numpy as np

    points = np.array([-20.0, -6.0, -3.0, -1.0, -0.5, 0.5, 1.0, 3.0, 6.0, 20.0])
    points = points[np.abs(points) <= max(span.big, 6.0)]
    nudge = 1.0 + rng.choice([-1.0, 0.0, 1.0], shape) * 2.0**-7
    return rng.choice(points, shape) * nudge


_SPECIAL = tuple(f.name for f in FAMILIES if f.special)
_ONE_SIGN = tuple(f.name for f in FAMILIES if f.one_sign)
_DRAWS: Mapping[str, Draw] = {
    "integers": _integers,
    "normal": _normal,
    "nan": _nan,
    "uniform": _uniform,
    "heavy": _heavy,
    "neg_inf_led": _neg_inf_led,
    "mixed": _mixed,
    "wide": _wide,
    "outliers": _outliers,
    "beside": _beside,
    "small": _small,
    "inf": _inf,
    "threshold": _threshold,
    "cancel": _cancel,
    "equal": _equal,
    "denormal": _denormal,
    "zeros": _zeros,
}
