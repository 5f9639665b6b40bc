"""How a folder of task files came out, in the words of KernelBench: correct, speed against eager, fast_p.

Source: Ouyang et al., KernelBench: Can LLMs Write Efficient GPU Kernels? (2025), section 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

THRESHOLDS = (0.5, 0.8, 1.0, 1.5, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Task files on one target.

    files: asked for, refused ones included. correct: accurate kernels; opaque: those of them in which a part of the module is an
    opaque leaf, which a model wrote; by_torch: those of which torch computes a part. speed: geometric mean over the correct and
    timed ones of eager's time over the kernel's, None when none was timed. fast: p -> share of all files that are
    correct and more than p times as fast as eager. compiled, by_compile: how many were timed against torch.compile, too, and the
    geometric mean of its time over theirs.
    """

    backend: str
    files: int
    correct: int
    opaque: int
    by_torch: int
    timed: int
    speed: float | None
    fast: Mapping[float, float]
    compiled: int = 0
    by_compile: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "files": self.files,
            "correct": self.correct,
            "by_an_opaque_leaf": self.opaque,
            "with_torch": self.by_torch,
            "timed": self.timed,
            "speed": self.speed,
            "fast": {str(p): share for p, share in self.fast.items()},
            "timed_torch_compile": self.compiled,
            "speed_torch_compile": self.by_compile,
        }

    def text(self) -> str:
        """Return the score on one line."""
        words = [f"{self.backend}: {self.correct} of {self.files} task files correct"]
        if self.opaque:
            words.append(f"{self.opaque} of them by an opaque leaf")
        if self.by_torch:
            words.append(f"{self.by_torch} of them with parts that torch computes")
        if self.speed is not None:
            words.append(f"{self.speed:.2f} x eager (geometric mean of {self.timed})")
            words += [f"fast_{p:g} {share:.2f}" for p, share in self.fast.items()]
        if self.by_compile is not None:
            words.append(
                f"{self.by_compile:.2f} x torch.compile (geometric mean of {self.compiled})"
            )
        return ", ".join(words)


def scores(
    requests: Mapping[str, Mapping[str, Any]],
    results: Iterable[Mapping[str, Any]],
    good: frozenset[str],
) -> tuple[Score, ...]:
    """Return the score of each target that task files were made for.

    requests: of each planned cell, by its id. good: ids of the cells whose kernels are accurate.
    """
    found = {str(data["cell"]): data for data in results}
    by_target: dict[str, list[str]] = {}
    for cell, request in requests.items():
        if request.get("task_file"):
            by_target.setdefault(str(request["backend"]), []).append(cell)
    return tuple(
        _score(backend, ids, {i: found[i] for i in ids if i in found and i in good})
        for backend, ids in by_target.items()
    )


def _speeds(results: Iterable[Mapping[str, Any]], other: str) -> list[float]:
    """Return how fast kernels are against what torch does otherwise, of those that were timed so."""
    found = ((data.get("speedup") or {}).get(other) for data in results)
    return [float(speed) for speed in found if speed]


def _mean(speeds: Sequence[float]) -> float | None:
    """Return the geometric mean."""
    return round(math.exp(sum(map(math.log, speeds)) / len(speeds)), 3) if speeds else None


def _opaque(data: Mapping[str, Any]) -> bool:
    return any(leaf.get("opaque") for leaf in data.get("leaves") or ())


def _score(backend: str, ids: Sequence[str], correct: Mapping[str, Mapping[str, Any]]) -> Score:
    speeds = _speeds(correct.values(), "torch_eager")
    compiled = _speeds(correct.values(), "torch_compile")
    return Score(
        backend=backend,
        files=len(ids),
        correct=len(correct),
        opaque=sum(map(_opaque, correct.values())),
        by_torch=sum(bool(data.get("host_leaves")) for data in correct.values()),
        timed=len(speeds),
        speed=_mean(speeds),
        fast={p: sum(s > p for s in speeds) / len(ids) for p in THRESHOLDS},
        compiled=len(compiled),
        by_compile=_mean(compiled),
    )
