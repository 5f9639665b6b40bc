"""Inputs inside narrow bounds stay what their family is: different values, of one sign where it says so."""

from __future__ import annotations

import numpy as np
import pytest

from septran.domain import Domain
from septran.kernel import KernelParam
from septran.reference import Reference
from septran.verify.cases import Case, draw
from septran.verify.families import FAMILIES
from septran.verify.problem import Problem

CONSTANT = ("equal",)


def drawn(family: str, domain: Domain) -> np.ndarray:
    """Return one 16 x 24 float32 input of a chain."""
    param = KernelParam(name="x", dtype="float32", shape=(16, 24), privilege="r")
    problem = Problem(
        name="p", params=(param,), reference=Reference(fn=lambda x: x), domains={"x": domain}
    )
    return draw(problem, Case(name=family, family=family, seed=7, target="x"))["x"]


@pytest.mark.parametrize("high", [32.0, 0.03])
@pytest.mark.parametrize("family", [f.name for f in FAMILIES if not f.special])
def test_bounds_do_not_make_all_values_the_same(family, high):
    x = drawn(family, Domain(low=-high, high=high, specials=False))
    assert np.abs(x).max() <= np.float32(high)
    if family not in CONSTANT:
        inside = np.abs(x) < 0.999 * high
        # most whole numbers and thresholds are beyond a narrow bound
        assert inside.mean() > (0.1 if family in ("integers", "threshold") else 0.5)


@pytest.mark.parametrize("family", ["uniform", "beside", "equal"])
def test_values_of_one_sign_have_a_bound_of_their_own(family):
    x = drawn(family, Domain(low=-32.0, high=32.0, one_sign=1e-3, specials=False))
    assert x.min() >= 0 and 1e-4 < x.max() <= np.float32(1e-3)
    free = drawn(family, Domain(low=-32.0, high=32.0, specials=False))
    scale = x.max() / free.max()
    assert np.log2(scale) == round(float(np.log2(scale)))
