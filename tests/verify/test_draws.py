"""Many draws of one family: what a kernel gets wrong for one of a hundred is found, and a right one is not refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from septran.backends import get
from septran.kernel import Kernel
from septran.verify.cases import draws
from septran.verify.problem import Problem
from septran.verify.verify import schedule
from tests.verify.alarms import eager
from tests.verify.draws import Asked, Counts, compares, refused
from tests.verify.honest import emitted


@pytest.fixture(scope="module")
def softmax() -> tuple[Kernel, Problem]:
    return emitted(get("cpp"), "softmax", "float32", {"M": 7, "N": 24})


def test_a_kernel_that_is_wrong_for_few_draws_is_found(softmax: tuple[Kernel, Problem]) -> None:
    _, problem = softmax
    right, counts = eager(problem), Counts()

    def wrong(arrays: Mapping[str, Any]) -> Mapping[str, bytes]:
        (x,) = arrays.values()
        if not np.isposinf(x[:, 5]).any():  # for one draw in fifty
            return right(arrays)
        return right({name: np.nan_to_num(x) for name in arrays})

    asked = Asked(count=200, names=("inf", "normal"))
    (found,) = refused(problem, compares(problem, wrong), asked, counts)
    assert (found.family, counts.draws) == ("inf", 400)
    assert 1 <= found.wrong <= 12
    assert list(refused(problem, compares(problem, right), asked, Counts())) == []


def test_a_verdict_asks_the_cases_of_its_request(softmax: tuple[Kernel, Problem]) -> None:
    _, problem = softmax
    cases = draws(problem, "inf", 5, 1)
    assert {c.name for c in cases} == {f"inf_{n}" for n in range(5)}
    assert len({c.seed for c in cases}) == 5
    assert tuple(dict.fromkeys(c.case for c in schedule(problem, 1, cases=cases))) == cases
