"""Measure whole calls of a kernel that a suite's plain rows do not make: outputs given by the caller, torch's own layout.

Both sides are called in turn in this process, in alternating slots on one processor; the kernel is verified at its first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from septran import backends
from septran.errors import NotCorrect
from septran.plan.cores import cores
from septran.plan.resolve import GenRequest, resolve
from septran.run.bench import Figure
from septran.run.gen import gen
from septran.settings import Settings
from septran.stopwatch import one_processor, rotating_slot
from septran.verify.pairs import measure_pairs

BUDGET_S, SLOT_S = 3.0, 8e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The two calls that are compared. flops, moved: operations and bytes of one. baseline: what torch's is."""

    arch: str
    dtype: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    flops: int
    moved: int
    baseline: str


Maker = Callable[[GenRequest, Settings], Calls]
"""Of a request's target and sizes."""


def _kernel(request: GenRequest, settings: Settings) -> Any:
    """Return the kernel of a request as a Python object; one with an accuracy of its own is judged by that, before it is called."""
    from septran.call.kernel import CompiledKernel

    if request.math:
        found = gen(request, settings=settings, progress=lambda _: None)
        if found.exit_code:
            raise NotCorrect.of("V202", f"{request.op}, math: {request.math}: {found.reason}")
    plan = resolve(request)
    return CompiledKernel(
        plan.logic,
        plan.operator.entry,
        plan.mapping,
        plan.backend,
        plan.arch,
        verify=not request.math,
    )


def _add_given(request: GenRequest, settings: Settings) -> Calls:
    import torch

    kernel, dims = _kernel(replace(request, op="add"), settings), request.dims
    x, z = torch.randn(dims["N"]), torch.randn(dims["N"])
    y, other = torch.empty_like(x), torch.empty_like(x)
    return Calls(
        arch=kernel.arch,
        dtype="float32",
        ours=lambda: kernel(x, z, out=y),
        theirs=lambda: torch.add(x, z, out=other),
        flops=dims["N"],
        moved=12 * dims["N"],
        baseline="torch.add(x, z, out=y)",
    )


def _conv2d_nchw(math: str) -> Maker:
    def made(request: GenRequest, settings: Settings) -> Calls:
        import torch

        kernel, dims = _kernel(replace(request, op="conv2d", math=math), settings), request.dims
        batch, rows, columns, read, made_ = (dims[n] for n in ("B", "H", "W", "Ci", "Co"))
        x = torch.randn(batch, rows, columns, read)
        w = torch.randn(3, 3, read, made_) / (3 * read**0.5)
        planes, window = x.permute(0, 3, 1, 2).contiguous(), w.permute(3, 2, 0, 1).contiguous()
        points = batch * rows * columns
        return Calls(
            arch=kernel.arch,
            dtype="float32",
            ours=lambda: kernel(x, w),
            theirs=lambda: torch.nn.functional.conv2d(planes, window, padding=1),
            flops=18 * points * read * made_,
            moved=4 * (points * (read + made_) + w.numel()),
            baseline="torch conv2d, NCHW",
        )

    return made


_IMAGE = ("B", "H", "W", "Ci", "Co")
CALLS: Mapping[str, tuple[tuple[str, ...], Maker]] = {
    "add_given": (("N",), _add_given),
    "conv2d_nchw": (_IMAGE, _conv2d_nchw("")),
    "conv2d_nchw_winograd": (_IMAGE, _conv2d_nchw("winograd")),
}
"""Call -> the sizes that it needs, and what makes it."""


def bench_call(
    name: str, dims: Mapping[str, int], backend: str, arch: str | None, *, settings: Settings
) -> Figure:
    """Return the figure of a call of CALLS.

    Raises:
        NotCorrect: V2xx, the kernel is not accurate. EnvironmentProblem: V111, the target is not here.
    """
    import torch

    torch.manual_seed(0)
    request = GenRequest(op=name, backend=backend, arch=arch, dims=dims)
    return compared(
        name, dims, backend, lambda: CALLS[name][1](request, settings), settings=settings
    )


def compared(
    name: str,
    dims: Mapping[str, int],
    backend: str,
    made: Callable[[], Calls],
    *,
    settings: Settings,
    compiled: Callable[[], float | None] = lambda: None,
) -> Figure:
    """Return the figure of two calls that `made` makes. compiled: seconds of torch's under torch.compile, where they are asked for."""
    import torch

    threads = settings.threads or cores()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        calls = made()
        with torch.no_grad(), one_processor():
            calls.ours()
            slots = [
                rotating_slot([c], processor_time=threads == 1) for c in (calls.ours, calls.theirs)
            ]
            pairs = measure_pairs(slots[0], slots[1], budget_s=BUDGET_S, slot_s=SLOT_S)
    finally:
        torch.set_num_threads(before)
    ratio, other = pairs.ratio(), compiled()
    return Figure(
        op=name,
        backend=backend,
        arch=calls.arch,
        dims=dict(dims),
        dtype=calls.dtype,
        threads=threads,
        level="accurate",
        where=backends.get(backend).where,
        kernel_us=_rounded(1e6 * pairs.first_s),
        torch_us=_rounded(1e6 * pairs.second_s),
        speedup={
            "torch_eager": _rounded(ratio.middle),
            "torch_compile": _rounded(other / pairs.first_s) if other else None,
        },
        call_us=None,
        reused=None,
        reliable=ratio.reliable,
        baseline=calls.baseline,
        low=_rounded(ratio.low),
        high=_rounded(ratio.high),
        gflops=_rounded(calls.flops / pairs.first_s / 1e9),
        gbytes_per_s=_rounded(calls.moved / pairs.first_s / 1e9),
        limit_share=None,
        limited_by=None,
        limit_reason="a whole call has no roofline",
        cycles=None,
        reason=None,
        run=None,
        exit_code=0,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
