"""A function of tensors as a user of torch writes it where the result replaces an argument: `y.add_(x)` for `y + x`.

A kernel that reads and writes a tensor makes no result; neither does what it is timed against.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import fx

    Tensors = Mapping[str, torch.Tensor]

_EITHER = ("add", "mul")  # whose arguments may change places
_PRODUCTS = ("matmul", "mm")


def in_place(
    fn: Callable[..., Any], given: Mapping[str, Any], replaced: Mapping[int, str]
) -> Callable[[], Any] | None:
    """Return a call that leaves results of `fn(**given)` in its arguments, None where torch cannot be seen doing it.

    replaced: the result's number -> the argument that it replaces.
    """
    import torch
    from torch import fx

    tensors = {n: v for n, v in given.items() if isinstance(v, torch.Tensor)}
    numbers = {n: v for n, v in given.items() if n not in tensors}
    for whole in (True, False):
        graph = fx.Graph()
        tracer = fx.proxy.GraphAppendingTracer(graph)
        held = {n: fx.Proxy(graph.placeholder(n), tracer) for n in tensors}
        try:
            found = fn(**held, **numbers)
            results = [r.node for r in (found if isinstance(found, tuple) else (found,))]
            _replace(graph, results, {i: held[n].node for i, n in replaced.items()}, whole=whole)
            graph.output(tuple(results))
            made = fx.GraphModule({}, graph).forward
            if _same(fn, made, tensors, numbers, replaced):
                return _alone(graph, tensors) or partial(made, **tensors)
        except Exception:  # a function of a user's file, which may ask its arguments for anything
            continue
    return None


def _alone(graph: fx.Graph, tensors: Tensors) -> Callable[[], Any] | None:
    """Return the call of a graph's one step, as a user writes it; None where there are more."""
    steps = [n for n in graph.nodes if n.op not in ("placeholder", "output")]
    if len(steps) != 1 or steps[0].op != "call_method" or steps[0].kwargs:
        return None
    step = steps[0]
    if any(isinstance(a, tuple | list | dict | slice) for a in step.args):
        return None
    target, *args = [tensors[str(a.target)] if hasattr(a, "op") else a for a in step.args]
    return partial(getattr(target, str(step.target)), *args)


def refills(sets: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Callable[[], None]:
    """Return what gives the tensors `names` of each set the values that they have now."""
    kept = [(given[n], given[n].clone()) for given in sets for n in names]

    def refill() -> None:
        for tensor, first in kept:
            tensor.copy_(first)

    return refill


def _replace(
    graph: fx.Graph, results: list[fx.Node], targets: Mapping[int, fx.Node], *, whole: bool
) -> None:
    """Write `results` into `targets`, once all results are there. whole: a product that is added goes there in one call."""
    import torch
    from torch import fx

    if len(targets) == 1:
        ((number, target),) = targets.items()
        node, name = results[number], _name(results[number])
        args = list(node.args)
        if name in _EITHER and len(args) == 2 and args[0] is not target:
            args.reverse()
        if args and args[0] is target and not node.users and hasattr(torch.Tensor, f"{name}_"):
            added = args[1] if name == "add" and len(args) == 2 else None
            graph.erase_node(node)
            if (
                whole
                and isinstance(added, fx.Node)
                and _name(added) in _PRODUCTS
                and not added.users
            ):
                name, args = "addmm", [target, *added.args]
                graph.erase_node(added)
            results[number] = graph.call_method(f"{name}_", tuple(args), dict(node.kwargs))
            return
    for number, target in targets.items():
        results[number] = graph.call_method("copy_", (target, results[number]))


def _name(node: fx.Node) -> str:
    """Return the name of torch's function that a node calls: "add" of `a + b`, "" of none."""
    if node.op == "call_method":
        return str(node.target)
    if node.op != "call_function" or not callable(node.target):
        return ""
    name = str(node.target.__name__)
    return {"truediv": "div"}.get(name, name) if node.target in _OPERATORS else name


_OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv)


def _same(
    fn: Callable[..., Any],
    made: Callable[..., Any],
    tensors: Tensors,
    numbers: Mapping[str, Any],
    replaced: Mapping[int, str],
) -> bool:
    """Return whether the call leaves in the arguments what the function gives."""
    import torch

    copies = {n: t.clone() for n, t in tensors.items()}
    with torch.no_grad():
        found = fn(**tensors, **numbers)
        made(**copies)
    wanted: Sequence[Any] = found if isinstance(found, tuple) else (found,)
    return all(
        torch.allclose(copies[n], wanted[i].to(copies[n].dtype), equal_nan=True)
        for i, n in replaced.items()
    )
