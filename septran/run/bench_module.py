"""Measure a torch module's kernels, with weights prepared once, against the module: whole calls on both sides.

The module is compiled as a user does it (`septran.compile(module, (x,), prepare=True)`) and judged before it is timed; then
both are called in turn in this process, in alternating slots on one processor. With one thread the clock is the processor's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from septran import backends
from septran.plan.cores import cores
from septran.run.bench import Figure
from septran.settings import Settings
from septran.stopwatch import one_processor, rotating_slot
from septran.verify.pairs import measure_pairs

if TYPE_CHECKING:
    import torch

    Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]

_BUDGET_S, _SLOT_S = 3.0, 8e-3


def _linear(dims: Mapping[str, int]) -> Made:
    import torch

    return torch.nn.Linear(dims["K"], dims["N"]), (torch.randn(dims["M"], dims["K"]),)


def _linear_gelu(dims: Mapping[str, int]) -> Made:
    import torch

    layer, x = _linear(dims)
    return torch.nn.Sequential(layer, torch.nn.GELU()), x


def _int_mm(dims: Mapping[str, int]) -> Made:
    import torch

    class Product(torch.nn.Module):  # type: ignore[misc]
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch._int_mm(a, b)

    def whole(*shape: int) -> torch.Tensor:
        return torch.randint(-128, 128, shape, dtype=torch.int8)

    return Product(), (whole(dims["M"], dims["K"]), whole(dims["K"], dims["N"]))


MODULES: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, int]], Made]]] = {
    "linear": (("M", "K", "N"), _linear),
    "linear_gelu": (("M", "K", "N"), _linear_gelu),
    "int_mm": (("M", "K", "N"), _int_mm),
}
"""Module -> the sizes that it needs, and what makes it and its inputs: M rows, N results of K each."""


def bench_module(
    name: str, dims: Mapping[str, int], backend: str, arch: str | None, *, settings: Settings
) -> Figure:
    """Return the figure of a module of MODULES.

    Raises:
        NotCorrect: V2xx, its kernels are not accurate. EnvironmentProblem: V111, the target is not here.
    """
    import torch

    from septran.call.module import CompiledModule

    threads = settings.threads or cores()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        module, given = MODULES[name][1](dims)
        module.eval()
        compiled = CompiledModule(module, given, target=backend, arch=arch, prepare=True)
        calls: list[Callable[[], Any]] = [lambda: compiled(*given), lambda: module(*given)]
        with torch.no_grad(), one_processor():
            out: torch.Tensor = calls[0]()
            slots = [rotating_slot([c], processor_time=threads == 1) for c in calls]
            pairs = measure_pairs(slots[0], slots[1], budget_s=_BUDGET_S, slot_s=_SLOT_S)
    finally:
        torch.set_num_threads(before)
    ratio = pairs.ratio()
    flops = 2 * dims["M"] * dims["K"] * dims["N"]
    moved = given[0].element_size() * (dims["M"] + dims["N"]) * dims["K"] + out.nbytes
    return Figure(
        op=name,
        backend=backend,
        arch=compiled.arch,
        dims=dict(dims),
        dtype=str(given[0].dtype).removeprefix("torch."),
        threads=threads,
        level="accurate",
        where=backends.get(backend).where,
        kernel_us=_rounded(1e6 * pairs.first_s),
        torch_us=_rounded(1e6 * pairs.second_s),
        speedup={"torch_eager": _rounded(ratio.middle), "torch_compile": None},
        call_us=None,
        reused=None,
        reliable=ratio.reliable,
        baseline="module",
        low=_rounded(ratio.low),
        high=_rounded(ratio.high),
        gflops=_rounded(flops / pairs.first_s / 1e9),
        gbytes_per_s=_rounded(moved / pairs.first_s / 1e9),
        limit_share=None,
        limited_by=None,
        limit_reason="a module's whole call has no roofline",
        cycles=None,
        reason=None,
        run=None,
        exit_code=0,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
