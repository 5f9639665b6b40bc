"""Which sizes of a module's inputs stay open: what the user says, torch's `dynamic_shapes`, and the names of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from septran.errors import ArgumentError, closest

if TYPE_CHECKING:
    import torch

Named = Mapping[str, Mapping[int, str]]
"""Argument of `forward` -> axis -> name of the size: `{"x": {0: "B"}}`."""


def torch_shapes(
    forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], asked: Named
) -> dict[str, Any]:
    """Return torch's `dynamic_shapes` of the sizes that a user names; one name is one size.

    Raises:
        ArgumentError: C140, no such argument or axis, or what is said is no mapping of axes to names.
    """
    import torch

    from septran.frontend.child.capture import arguments

    given = arguments(forward, args, kwargs)
    known: dict[str, Any] = {}
    found: dict[str, Any] = dict.fromkeys(given)
    for name, axes in asked.items():
        if name not in given:
            raise ArgumentError.of(
                "C140", f"dynamic: the module has no argument {name!r}{closest(name, given)}"
            )
        value = given[name]
        if not isinstance(axes, Mapping) or not isinstance(value, torch.Tensor):
            raise ArgumentError.of(
                "C140",
                f"dynamic: {name} is {axes!r}",
                help=f'say which axes of a tensor stay open: dynamic={{"{name}": {{0: "B"}}}}',
            )
        for axis, size in axes.items():
            if not isinstance(axis, int) or not 0 <= axis < value.ndim:
                raise ArgumentError.of(
                    "C140", f"dynamic: {name} has {value.ndim} axes, and {axis!r} is none of them"
                )
            if not isinstance(size, str) or not size.isidentifier():
                raise ArgumentError.of("C140", f"dynamic: {size!r} is no name of a size")
            known.setdefault(size, torch.export.Dim(size))
        found[name] = {axis: known[size] for axis, size in axes.items()}
    return found


def of_program(program: torch.export.ExportedProgram) -> tuple[Any, ...]:
    """Return torch's `dynamic_shapes` of an exported program's positional inputs: its own open sizes and ranges."""
    import torch
    from torch.utils import _pytree as pytree

    dims: dict[str, Any] = {}

    def dim(size: Any) -> Any:
        if isinstance(size, int) or str(size.node.expr) not in map(str, program.range_constraints):
            return None
        name = str(size.node.expr)
        limits = next(r for s, r in program.range_constraints.items() if str(s) == name)
        if name not in dims:
            high = {} if "oo" in str(limits.upper) else {"max": int(limits.upper)}
            dims[name] = torch.export.Dim(name, min=max(1, int(limits.lower)), **high)
        return dims[name]

    users = [i for i in program.graph_signature.user_inputs if isinstance(i, str)]
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    specs = []
    for name in users:
        value = values[name]
        shape = value.shape if isinstance(value, torch.Tensor) else ()
        axes = {a: dim(n) for a, n in enumerate(shape) if dim(n) is not None}
        specs.append(axes or None)
    args, _ = pytree.tree_unflatten(specs, program.call_spec.in_spec)
    return tuple(args)
