"""Measure kernels against torch: one figure per operator, backend, sizes and type.

The kernel is generated and verified first; a kernel that is not right has no speed. Then kernel and torch are timed
in alternating slots (septran/verify/timing.py). torch.compile is measured in a process of its own. Where a kernel runs
in a simulator with a cycle model, its cycles are the figure: the simulator's own speed says nothing.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from septran.backends import get as get_backend
from septran.errors import SeptranError
from septran.plan.cores import cores
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.gen import gen
from septran.run.roofline import bytes_of, measured
from septran.run.work import work_of
from septran.settings import Settings

_COMPILE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """What to measure. dims: size sets laid over the operator's sample dims, at least one."""

    kernel: GenRequest
    dims: Sequence[Mapping[str, int]] = ({},)
    torch_compile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The septran.bench/1 object, in its order. *_us: microseconds per call; None: not measured, or not known.

    speedup: torch's time over the kernel's. low, high: of the interval. limit_share: of the machine's limit
    (septran/run/roofline.py), None with limit_reason; with a cycle model the use of the busiest engine. limited_by:
    arithmetic, memory or that engine.
    """

    op: str
    backend: str
    arch: str | None
    dims: Mapping[str, int]
    dtype: str
    threads: int
    level: str
    where: str | None
    kernel_us: float | None
    torch_us: float | None
    speedup: Mapping[str, float | None]
    call_us: float | None
    reused: float | None
    reliable: bool | None
    baseline: str | None
    low: float | None
    high: float | None
    gflops: float | None
    gbytes_per_s: float | None
    limit_share: float | None
    limited_by: str | None
    limit_reason: str | None
    cycles: Mapping[str, Any] | None
    reason: str | None
    run: str | None
    exit_code: int

    def to_json(self) -> dict[str, Any]:
        """Return the septran.bench/1 object."""
        return {
            "schema": "septran.bench/1",
            **{f.name: getattr(self, f.name) for f in fields(self)},
        }


def bench(
    request: BenchRequest, *, settings: Settings, progress: Callable[[str], None]
) -> Iterator[Figure]:
    """Yield one figure per size set.

    Raises:
        InputError: the user's mistake. EnvironmentProblem: V110, kernels cannot be run here.
    """
    if get_backend(request.kernel.backend).where == "native":
        with contextlib.suppress(SeptranError):  # a share is a help, not the point
            measured(settings.threads or cores())
    for dims in request.dims:
        asked = replace(request.kernel, dims={**request.kernel.dims, **dims})
        result = gen(asked, settings=settings, progress=progress)
        yield _figure(asked, result.to_json(), settings, compiled=request.torch_compile)


def _figure(
    request: GenRequest, data: Mapping[str, Any], settings: Settings, *, compiled: bool
) -> Figure:
    timing = data.get("timing") or {}
    seconds = timing.get("kernel_s") or None
    plan = resolve(request)
    moved = bytes_of(plan)
    flops = work_of(lower_plan(plan).bound.program)
    other = against_compile(request, data, settings) if compiled else None
    threads = timing.get("threads") or settings.threads or cores()
    gflops = flops / seconds / 1e9 if flops and seconds else None
    gbytes = moved / seconds / 1e9 if seconds else None
    cycles = data.get("cycles") or None
    limit = data.get("limit") or {}
    engine, used = busiest(cycles) if cycles else (limit.get("by") or None, limit.get("share"))
    return Figure(
        op=data["op"],
        backend=data["backend"],
        arch=data.get("arch"),
        dims=data["dims"],
        dtype=data["dtype"],
        threads=threads,
        level=data["level"],
        where=data.get("where"),
        kernel_us=_rounded(seconds and 1e6 * seconds),
        torch_us=_rounded(timing.get("torch_s") and 1e6 * timing["torch_s"]),
        speedup={
            "torch_eager": (data.get("speedup") or {}).get("torch_eager"),
            "torch_compile": other,
        },
        call_us=_rounded(timing.get("call_s") and 1e6 * timing["call_s"]),
        reused=_rounded(timing.get("reused")),
        reliable=timing.get("reliable"),
        baseline=timing.get("baseline"),
        low=_rounded(timing.get("low")),
        high=_rounded(timing.get("high")),
        gflops=_rounded(gflops),
        gbytes_per_s=_rounded(gbytes),
        limit_share=_rounded(used),
        limited_by=engine,
        limit_reason=None if used is not None else limit.get("reason") or data.get("reason"),
        cycles=cycles,
        reason=data.get("reason"),
        run=data.get("run"),
        exit_code=data.get("exit_code", 0),
    )


def busiest(cycles: Mapping[str, Any]) -> tuple[str, float]:
    """Return the engine of a cycle report that works most, and the share of the time it does."""
    used = {name: float(queue["utilisation"]) for name, queue in cycles["queues"].items()}
    name = max(used, key=lambda n: used[n])
    return name, used[name]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def against_compile(
    request: GenRequest, data: Mapping[str, Any], settings: Settings
) -> float | None:
    """Return torch.compile's time over that of a kernel's call; None where one of them has none.

    data: a septran.gen/1 object with the kernel's timing.
    """
    timing = data.get("timing") or {}
    if not timing.get("kernel_s"):
        return None
    called = timing["kernel_s"] + (timing.get("call_s") or 0.0)  # torch's side allocates, too
    threads = timing.get("threads") or settings.threads or cores()
    on_gpu = data.get("where") == "device"
    other = _compiled_s(request, threads, timing.get("clock") or "wall", on_gpu)
    return _rounded(other / called) if other else None


def _compiled_s(request: GenRequest, threads: int, clock: str, on_gpu: bool) -> float | None:
    """Return seconds per call under torch.compile by the kernel's clock, measured in a child; None when it fails here."""
    names = ("op", "task_file", "logic", "backend", "arch", "dims", "dtype")
    words = {name: getattr(request, name) for name in names}
    plain = {k: str(v) if isinstance(v, Path) else v for k, v in words.items()}
    plain["dims"] = dict(request.dims)
    plain |= {"threads": threads, "clock": clock}
    plain["device"] = "cuda" if on_gpu else "cpu"
    return torch_compile_s(plain)


def torch_compile_s(words: Mapping[str, Any]) -> float | None:
    """Return seconds per call under torch.compile of what `septran.run.torch_compile` is told, None when it fails here."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "septran.run.torch_compile", json.dumps(words)],
            capture_output=True, text=True, timeout=_COMPILE_S, check=True,
        )  # fmt: skip
        return float(done.stdout.strip().splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError):
        return None
