"""A kernel as a torch.library operator, so that torch.compile(fullgraph=True) keeps it as one call.

The operator has a fake kernel (shapes and dtypes only) and, when the user gave one, a backward.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from septran.call.arguments import wrong
from septran.call.operators import pointwise
from septran.tasklang.operator import Operator, evaluate_dim

if TYPE_CHECKING:
    import torch

_MOST = 64
"""torch's limit of an operator's parameters; a network has more weights than that."""


def register(
    operator: Operator,
    read: Sequence[str],
    run: Callable[..., Any],
    *,
    unique: str,
    backward: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return `run` as an operator of torch: tensors `read` in order, then scalars (None: the default); new tensors out.

    torch.func.vmap runs it once per element of the batch. More tensors than torch lets an operator have go as one list,
    and vmap does not take them.

    unique: what makes this kernel different from others of the operator's name. backward: called with
    the gradient of each output and the inputs; returns a gradient (or None) for each input.
    """
    import torch

    digest = hashlib.sha256(unique.encode()).hexdigest()[:12]
    name = f"septran::{re.sub(r'[^A-Za-z0-9_]', '_', operator.name)}_{digest}"
    results = ", ".join("Tensor" for _ in operator.outputs)
    several = len(operator.outputs) > 1
    scalars = [f"float? {n}=None" for n in operator.scalars]
    listed = len(read) + len(scalars) > _MOST
    parameters = ["Tensor[] tensors"] if listed else [f"Tensor {n}" for n in read]
    schema = f"({', '.join(parameters + scalars)}) -> {f'({results})' if several else results}"

    def fake(*values: Any) -> Any:
        given = dict(zip(read, values, strict=False))
        made = tuple(_empty(operator, n, given) for n in operator.outputs)
        return made if several else made[0]

    def each(info: Any, in_dims: tuple[int | None, ...], *values: Any) -> tuple[Any, Any]:
        size = info.batch_size
        columns = [
            [v] * size if d is None else v.unbind(d) for v, d in zip(values, in_dims, strict=True)
        ]
        found = [made(*row) for row in zip(*columns, strict=True)]
        if not several:
            return torch.stack(found), 0
        return tuple(map(torch.stack, zip(*found, strict=True))), (0,) * len(operator.outputs)

    made: Any = torch.library.custom_op(
        name, _spread(run) if listed else run, mutates_args=(), schema=schema
    )
    made.register_fake(_spread(fake) if listed else fake)
    if not listed:
        made.register_vmap(each)
    if backward is not None:
        given = backward

        def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(*(inputs[0] if listed else inputs[: len(read)]))

        def back(ctx: Any, *gradients: torch.Tensor) -> Any:
            found = given(*gradients, *ctx.saved_tensors)
            every = found if isinstance(found, tuple) else (found,)
            return (*([list(every)] if listed else every), *(None for _ in operator.scalars))

        made.register_autograd(back, setup_context=keep)
    if listed:
        count = len(read)
        return lambda *values: made(list(values[:count]), *values[count:])
    found: Callable[..., Any] = made
    return found


def _spread(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensors, *scalars: fn(*tensors, *scalars)


def _empty(operator: Operator, name: str, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    import torch

    types = operator.types()
    dims: dict[str, Any] = {}
    like = next(
        (t for n, t in tensors.items() if types[n].dtype == "T"), next(iter(tensors.values()))
    )
    fixed = types[name].dtype
    dtype = like.dtype if fixed == "T" else getattr(torch, fixed)
    if pointwise(operator):
        shape = torch.broadcast_shapes(*(t.shape for t in tensors.values()))
        return like.new_empty(shape, dtype=dtype)
    for param, tensor in tensors.items():
        texts = types[param].dims
        if len(texts) != tensor.dim():
            said = f"{param} has {tensor.dim()} dims, not {' x '.join(texts)}"
            raise wrong(operator, said, tuple(tensors))
        dims |= {d: n for d, n in zip(texts, tensor.shape, strict=True) if d in operator.dims}
    return like.new_empty([evaluate_dim(d, dims) for d in types[name].dims], dtype=dtype)
