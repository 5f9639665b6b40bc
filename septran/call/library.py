"""A kernel as a torch.library operator, so that torch.compile(fullgraph=True) keeps it as one call.

The operator has a fake kernel (shapes and dtypes only) and, when the user gave one, a backward.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from septran.tasklang.operator import Operator, evaluate_dim

if TYPE_CHECKING:
    import torch


def register(
    operator: Operator,
    read: Sequence[str],
    run: Callable[..., Any],
    *,
    unique: str,
    backward: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return `run` as an operator of torch: tensors `read` in order, new tensors out.

    unique: what makes this kernel different from others of the operator's name. backward: called with
    the gradient of each output and the inputs; returns a gradient (or None) for each input.
    """
    import torch

    digest = hashlib.sha256(unique.encode()).hexdigest()[:12]
    name = f"septran::{re.sub(r'[^A-Za-z0-9_]', '_', operator.name)}_{digest}"
    results = ", ".join("Tensor" for _ in operator.outputs)
    several = len(operator.outputs) > 1
    schema = (
        f"({', '.join(f'Tensor {n}' for n in read)}) -> {f'({results})' if several else results}"
    )

    def fake(*tensors: torch.Tensor) -> Any:
        made = tuple(
            _empty(operator, n, dict(zip(read, tensors, strict=True))) for n in operator.outputs
        )
        return made if several else made[0]

    made: Any = torch.library.custom_op(name, run, mutates_args=(), schema=schema)
    made.register_fake(fake)
    if backward is not None:
        given = backward

        def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(*inputs)

        def back(ctx: Any, *gradients: torch.Tensor) -> Any:
            return given(*gradients, *ctx.saved_tensors)

        made.register_autograd(back, setup_context=keep)
    found: Callable[..., Any] = made
    return found


def _empty(operator: Operator, name: str, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    import torch

    types = operator.types()
    dims: dict[str, Any] = {}
    for param, tensor in tensors.items():
        texts = types[param].dims
        if len(texts) != tensor.dim():  # a pointwise operator takes any shape
            like = next(t for n, t in tensors.items() if types[n].dtype == types[name].dtype)
            return torch.empty_like(like, memory_format=torch.contiguous_format)
        dims |= {d: n for d, n in zip(texts, tensor.shape, strict=True) if d in operator.dims}
    like = next(
        (t for n, t in tensors.items() if types[n].dtype == "T"), next(iter(tensors.values()))
    )
    fixed = types[name].dtype
    dtype = like.dtype if fixed == "T" else getattr(torch, fixed)
    return like.new_empty([evaluate_dim(d, dims) for d in types[name].dims], dtype=dtype)
