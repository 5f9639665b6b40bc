"""The next call of a module that was compiled in this process, straight to its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from septran.aten.graph import Ref
from septran.aten.index_uses import IndexUse
from septran.call.partitioned import Split
from septran.call.quick_call import Meaning, QuickCall, quick_call
from septran.call.translated import Translated

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import TreeSpec


def quick_module(
    made: Translated | Split,
    results: TreeSpec,
    uses: tuple[IndexUse, ...],
    example: Sequence[Any],
    module: torch.nn.Module,
) -> QuickCall | None:
    """Return the next call like `example` of a module that was called with it, None where it has to be met with the parameters again."""
    kernels, once = made, None
    if isinstance(made, Split):
        if made.whole is None:
            return None
        kernels, once = made.whole, made.once
    assert isinstance(kernels, Translated)
    graph, operator, launched = made.graph, kernels.kernel.operator, kernels.kernel.launched
    outputs = [o.value.name for o in graph.outputs if isinstance(o.value, Ref)]
    plain = len(outputs) == len(graph.outputs) and all(
        o.kind == "user_output" for o in graph.outputs
    )
    if launched is None or operator is None or not plain:
        return None
    launch, names = launched
    inputs = tuple(n for n in names if n not in operator.outputs)
    written = tuple(n for n in names if n in operator.outputs)
    if written != operator.outputs or len(outputs) != len(written):
        return None
    meaning = Meaning(
        name=type(module).__name__,
        order=made.order,
        inputs=tuple(kernels.parameters[n] for n in inputs),
        writes=tuple(n in operator.outputs for n in names),
        results=tuple(graph.meta_of(n).shape for n in outputs),
        fixed=made.constants,
        structure=None if results.is_leaf() else partial(_structured, results),
        uses=uses,
        once=once,
    )
    return quick_call(meaning, launch, example, module, {})


def _structured(results: TreeSpec, values: list[Any]) -> Any:
    from torch.utils import _pytree as pytree

    return pytree.tree_unflatten(values, results)
