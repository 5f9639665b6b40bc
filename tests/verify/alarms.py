"""python -m tests.verify.alarms [SEEDS] [OPERATOR[/DTYPE] ...]: how often the budgets refuse an honest kernel.

Library kernels of cpp and torch's own float32, at sizes that divide nothing, on the secret inputs of SEEDS verdicts. The
kernel runs in this process and only its numbers are compared, so that hundreds of verdicts take seconds; `honest` makes whole
verdicts. One line per operator and dtype: verdicts, refused ones, and the largest share of a budget; exit status 1 when one is refused.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.accuracy import load_policy
from septran.backends import get
from septran.backends.cpp.backend import CPP
from septran.errors import SeptranError
from septran.verify import budget, judge
from septran.verify.cases import draw, plan
from septran.verify.known import expected_of
from septran.verify.problem import Problem
from tests.verify.honest import OPERATORS, emitted

if TYPE_CHECKING:
    from septran.kernel import Kernel as Emitted
    from septran.verify.cases import Array

DTYPES = ("float32", "float64", "float16", "bfloat16")
Kernel = Callable[[Mapping[str, "Array"]], Mapping[str, bytes]]


@dataclass
class Counts:
    """Verdicts, those with a wrong element, and the largest share of a budget that an element took."""

    verdicts: int = 0
    refused: int = 0
    most: float = 0.0
    where: str = ""


def alarms(problem: Problem, kernel: Kernel, seeds: range) -> Counts:
    """Return the counts over all cases of all `seeds`; the call and what is expected are those of a verdict."""
    found = Counts()
    for seed in seeds:
        wrong = 0
        for case in plan(problem, seed):
            if case.touched is not None:
                continue
            arrays = draw(problem, case)
            known = expected_of(problem, case, load_policy())
            raw = kernel(arrays)
            for param, one in zip(problem.outputs, known, strict=True):
                said = judge.compare(param, one, raw[param.name])
                wrong += said.wrong
                if said.ratio > found.most:
                    found.most = said.ratio
                    found.where = f"{case.family}, seed {seed}, element {said.worst}: {said.got} for {said.wanted}"
        found.verdicts, found.refused = found.verdicts + 1, found.refused + bool(wrong)
    return found


def library(op: str, dtype: str, folder: Path) -> tuple[Problem, Kernel]:
    """Return the operator's problem and cpp's library kernel for it.

    Raises:
        SeptranError: the operator has no such dtype.
    """
    kernel, problem = emitted(get("cpp"), op, dtype, OPERATORS[op])
    return problem, loaded(kernel, problem, folder)


def loaded(kernel: Emitted, problem: Problem, folder: Path) -> Kernel:
    """Return a kernel of cpp, built and loaded into this process: arrays -> its outputs' bytes."""
    call = CPP.load(kernel, folder)

    def run(arrays: Mapping[str, Array]) -> Mapping[str, bytes]:
        import torch

        given = tensors(arrays)
        for p in problem.outputs:
            if p.privilege == "w":
                given[p.name] = torch.empty(p.shape, dtype=judge.torch_dtype(p.dtype))
        call(*(given[p.name] for p in kernel.params))
        return {p.name: stored(given[p.name]) for p in problem.outputs}

    return run


def eager(problem: Problem) -> Kernel:
    """Return torch's own evaluation in float32 (float64 for float64), rounded once to the outputs' dtypes."""

    def run(arrays: Mapping[str, Array]) -> Mapping[str, bytes]:
        import torch

        wide = torch.float64 if problem.accumulate == "float64" else torch.float32
        found = budget.evaluate(problem, tensors(arrays), dtype=wide)
        outs = zip(problem.outputs, found, strict=True)
        return {p.name: stored(t.to(judge.torch_dtype(p.dtype))) for p, t in outs}

    return run


def tensors(arrays: Mapping[str, Array]) -> dict[str, Any]:
    import torch

    return {
        name: torch.from_numpy(a.view("int16")).view(torch.bfloat16)
        if a.dtype.name == "bfloat16"
        else torch.from_numpy(a)
        for name, a in arrays.items()
    }


def stored(tensor: Any) -> bytes:
    import torch

    found: bytes = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    return found


def rows(seeds: int, words: tuple[str, ...]) -> Iterator[tuple[str, Counts]]:
    """Yield (name, counts) of each operator and dtype, of the library's kernel and of torch's."""
    for op in OPERATORS:
        for dtype in DTYPES:
            if words and not {op, f"{op}/{dtype}"} & set(words):
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    problem, kernel = library(op, dtype, Path(folder))
                except SeptranError:
                    continue
                yield f"{op} {dtype} library", alarms(problem, kernel, range(seeds))
                yield f"{op} {dtype} torch", alarms(problem, eager(problem), range(seeds))


def main() -> int:
    refused = 0
    for name, counts in rows(int((sys.argv[1:] or ["20"])[0]), tuple(sys.argv[2:])):
        refused += counts.refused
        print(
            f"{name}: {counts.verdicts} verdicts, {counts.refused} refused, {counts.most:.2f} of a budget at most ({counts.where})",
            flush=True,
        )
    return 1 if refused else 0


if __name__ == "__main__":
    raise SystemExit(main())
