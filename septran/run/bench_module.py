"""Measure a torch module's kernels, with weights prepared once, against the module: whole calls on both sides.

The module is compiled as a user does it (`septran.compile(module, (x,), prepare=True)`) and judged before it is timed; then
both are called in turn in this process. Under torch.compile it is `mode="max-autotune"`, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from septran.plan.cores import cores
from septran.run.bench import Figure, torch_compile_s
from septran.run.bench_call import Calls, compared
from septran.settings import Settings

if TYPE_CHECKING:
    import torch

    Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


def _linear(dims: Mapping[str, int]) -> Made:
    import torch

    return torch.nn.Linear(dims["K"], dims["N"]), (torch.randn(dims["M"], dims["K"]),)


def _linear_gelu(dims: Mapping[str, int]) -> Made:
    import torch

    layer, x = _linear(dims)
    return torch.nn.Sequential(layer, torch.nn.GELU()), x


def _whole(*shape: int) -> torch.Tensor:
    import torch

    return torch.randint(-128, 128, shape, dtype=torch.int8)


def _int_mm(dims: Mapping[str, int]) -> Made:
    import torch

    class Product(torch.nn.Module):  # type: ignore[misc]
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch._int_mm(a, b)

    return Product(), (_whole(dims["M"], dims["K"]), _whole(dims["K"], dims["N"]))


def _int_mm_packed(dims: Mapping[str, int]) -> Made:
    import torch

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", _whole(dims["K"], dims["N"]))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return torch._int_mm(a, self.weight)

    return Layer(), (_whole(dims["M"], dims["K"]),)


MODULES: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, int]], Made]]] = {
    "linear": (("M", "K", "N"), _linear),
    "linear_gelu": (("M", "K", "N"), _linear_gelu),
    "int_mm": (("M", "K", "N"), _int_mm),
    "int_mm_packed": (("M", "K", "N"), _int_mm_packed),
}
"""Module -> the sizes that it needs, and what makes it and its inputs: M rows, N results of K each. packed: its factor is a weight."""


def bench_module(
    name: str,
    dims: Mapping[str, int],
    backend: str,
    arch: str | None,
    *,
    settings: Settings,
    torch_compile: bool = False,
) -> Figure:
    """Return the figure of a module of MODULES. torch_compile: also against torch.compile with `mode="max-autotune"`.

    Raises:
        NotCorrect: V2xx, its kernels are not accurate. EnvironmentProblem: V111, the target is not here.
    """
    words = {"module": name, "dims": dict(dims), "threads": settings.threads or cores()}
    return compared(
        name,
        dims,
        backend,
        lambda: _calls(name, dims, backend, arch),
        settings=settings,
        compiled=lambda: torch_compile_s(words) if torch_compile else None,
    )


def _calls(name: str, dims: Mapping[str, int], backend: str, arch: str | None) -> Calls:
    import torch

    from septran.call.module import CompiledModule

    torch.manual_seed(0)
    module, given = MODULES[name][1](dims)
    module.eval()
    compiled = CompiledModule(module, given, target=backend, arch=arch, prepare=True)
    with torch.no_grad():
        out: torch.Tensor = compiled(*given)
    moved = given[0].element_size() * (dims["M"] + dims["N"]) * dims["K"] + out.nbytes
    return Calls(
        arch=compiled.arch,
        dtype=str(given[0].dtype).removeprefix("torch."),
        ours=lambda: compiled(*given),
        theirs=lambda: module(*given),
        flops=2 * dims["M"] * dims["K"] * dims["N"],
        moved=moved,
        baseline="module",
    )
