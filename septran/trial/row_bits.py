"""Whether a row of a kernel's result has the same bits for every number of rows: run and compared.

The kernel is printed with the same leaves for several numbers of rows. Smaller batches are the last rows of the
largest one, so that a row stands at another place in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from septran.kernel import Leaf
from septran.plan.problem import problem_of
from septran.plan.resolve import Plan, lower_plan
from septran.plan.rows import row_dims
from septran.trial.place import Place
from septran.verify.cases import Case, draw, numpy_dtype
from septran.verify.problem import Problem
from septran.verify.session import Call, run_calls

DIFFER = "V218"
COUNTS = (64, 1, 7)
"""numbers of rows that are compared: the most first"""
Arrays = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBits:
    """What came out. compared: numbers of rows. differ: those with a row of other bits. why: no comparison, "" = there is one."""

    compared: tuple[int, ...] = ()
    differ: tuple[int, ...] = ()
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"compared": list(self.compared), "differ": list(self.differ), "why": self.why}


def compare_rows(
    place: Place,
    plan: Plan,
    leaves: Mapping[str, Leaf],
    *,
    work: Path,
    counts: Sequence[int] = COUNTS,
    seed: int = 0,
) -> RowBits:
    """Return whether the last rows of a batch have the same bits when they are a batch of their own.

    leaves: spec key -> leaf; they have to serve every number of rows, as under `deterministic: batch-invariant`.
    """
    (row,) = row_dims(plan.operator)
    axes = {
        name: kind.dims.index(row)
        for name, kind in plan.operator.types().items()
        if row in kind.dims
    }
    most, *fewer = counts
    whole: Arrays = {}
    given: Arrays = {}
    differ = []
    for count in (most, *fewer):
        part = replace(plan, dims={**plan.dims, row: count})
        lowered = lower_plan(part)
        problem = problem_of(part, lowered.program, part.dims)
        if not given:
            given = draw(problem, Case(name="rows", family="normal", seed=seed))
        mine = {n: _last(x, axes.get(n), count) for n, x in given.items()}
        kernel = place.backend.emit(lowered.program, leaves)
        folder = work / f"rows{count}"
        folder.mkdir(parents=True, exist_ok=True)
        built = place.build(kernel, folder)
        if built.artifact is None:
            return RowBits(why=f"{count} rows: {built.log.strip()[-200:]}")
        found = _run(kernel, built.artifact, problem, mine, place, folder / "child")
        if isinstance(found, str):
            return RowBits(why=f"{count} rows: {found}")
        whole = whole or found
        if any(
            _last(whole[n], axes.get(n), count).tobytes() != x.tobytes() for n, x in found.items()
        ):
            differ.append(count)
    return RowBits(compared=tuple(counts), differ=tuple(differ))


def _last(array: Any, axis: int | None, count: int) -> Any:
    """Return the last `count` rows, a copy."""
    if axis is None:
        return array
    length = array.shape[axis]
    return array.take(range(length - count, length), axis=axis)


def _run(
    kernel: Any, artifact: Path, problem: Problem, given: Arrays, place: Place, work: Path
) -> Arrays | str:
    """Return output -> array of one call in the sandbox, or why there is none."""
    import numpy as np

    problem = replace(problem, samples={n: x.tobytes() for n, x in given.items()})
    transcript = run_calls(
        kernel,
        artifact,
        problem,
        [Call(case=Case(name="own", family="own", seed=0), placement="end")],
        settings=place.sessions,
        work=work,
        noise=np.random.default_rng(0),
    )
    if transcript.failure or not transcript.ran:
        return f"{transcript.failure}: {transcript.message}"
    outputs = transcript.ran[0].outputs
    return {
        p.name: np.frombuffer(outputs[p.name], dtype=numpy_dtype(p.dtype)).reshape(p.shape)
        for p in problem.outputs
    }
