"""A module's next call of the same kind: tensors go straight to the kernel, weights are looked up and nothing else is.

The first call finds out which tensor is which parameter of the kernel. A later one only asks whether that still
holds: the modules on the way to each weight are the same objects, and what was prepared of weights is of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from septran.aten.index_uses import IndexUse, check_positions
from septran.aten.once import PREFIX
from septran.call.once import Once

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a kernel's tensors are. order: the user's inputs as the call's values come.

    inputs: of the kernel, in its order, (kind, the module's name). writes: whether each of its tensors is a result. results: shapes of what it returns, in its order.
    fixed: tensors that the module makes itself, by name. structure: values of the results -> what the module returns, None for the one tensor.
    """

    name: str
    order: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    writes: tuple[bool, ...]
    results: tuple[tuple[int, ...], ...]
    fixed: Mapping[str, torch.Tensor]
    structure: Callable[[list[Any]], Any] | None
    uses: tuple[IndexUse, ...] = ()
    once: Once | None = None


@dataclass(slots=True, kw_only=True, repr=False)
class QuickCall:
    """One kind of call. stale: whether it was found to hold no longer.

    owners: (the children of a module, a name, the child that was there). weights: (a module's tensors, a name). pick: values of the
    call, then weights, then `fixed` -> those of the kernel, in its order. sources: where what `made` was prepared of is looked up. kinds: shape and dtype of each value, where positions are checked.
    """

    meaning: Meaning
    run: Callable[..., Any]
    count: int
    owners: tuple[tuple[Mapping[str, Any], str, Any], ...]
    weights: tuple[tuple[Mapping[str, Any], str], ...]
    fixed: tuple[torch.Tensor, ...]
    made: Mapping[str, torch.Tensor]
    pick: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    sources: tuple[tuple[Mapping[str, Any], str], ...] = ()
    kinds: tuple[Any, ...] = ()
    stale: bool = field(default=False)

    def __call__(self, values: tuple[Any, ...]) -> Any:
        """Return what the module returns; NotImplemented where this is not a call of the kind."""
        if len(values) != self.count:
            return NotImplemented
        for children, name, child in self.owners:
            if children.get(name) is not child:
                self.stale = True
                return NotImplemented
        if self.sources:
            once = self.meaning.once
            if once is None or not once.holds(
                self.made, [held.get(name) for held, name in self.sources]
            ):
                self.stale = True
                return NotImplemented
        if self.kinds:
            try:
                if tuple((v.shape, v.dtype) for v in values) != self.kinds:
                    return NotImplemented
            except AttributeError:
                return NotImplemented
            users = dict(zip(self.meaning.order, values, strict=True))
            check_positions(self.meaning.uses, users, self.meaning.name)
        weights = [held.get(name) for held, name in self.weights]
        found = self.run(*self.pick((*values, *weights, *self.fixed)))
        if found is NotImplemented or self.meaning.structure is None:
            return found
        return self.meaning.structure(list(found) if isinstance(found, tuple) else [found])


def quick_call(
    meaning: Meaning,
    launch: Callable[..., Any],
    example: Sequence[Any],
    module: torch.nn.Module | None,
    weights: Mapping[str, torch.Tensor],
) -> QuickCall | None:
    """Return the next call like `example`, None where it has to be met with the parameters again.

    launch: the loaded kernel. module: whose weights are read at each call; `weights` are those that it lacks.
    """
    import torch

    read = {name for kind, name in meaning.inputs if kind == "user_input"}
    plain = len(example) == len(meaning.order) and all(type(v) is torch.Tensor for v in example)
    if not hasattr(launch, "lying") or not plain or not read.issuperset(meaning.order):
        return None
    if not meaning.inputs:  # what is computed of nothing
        return None
    made = meaning.once.known() if meaning.once is not None else {}
    held: list[tuple[Mapping[str, Any], str]] = []
    fixed: list[torch.Tensor] = []
    owners: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
    places: list[tuple[str, int]] = []
    shapes: list[tuple[int, ...]] = []
    for kind, name in meaning.inputs:
        if kind == "user_input":
            places.append(("user", meaning.order.index(name)))
            shapes.append(tuple(example[places[-1][1]].shape))
            continue
        known = meaning.fixed.get(name)
        if known is None and name.startswith(PREFIX):
            known = made.get(name.removeprefix(PREFIX))
        if known is not None:
            places.append(("fixed", len(fixed)))
            fixed.append(known)
            shapes.append(tuple(known.shape))
            continue
        place = _place(module, weights, name, owners)
        if place is None:
            return None
        places.append(("weight", len(held)))
        shapes.append(tuple(place[0][place[1]].shape))
        held.append(place)
    sources = []
    for one in meaning.once.graph.inputs if meaning.once is not None else ():
        place = _place(module, weights, one.target, owners)
        if place is None:
            return None
        sources.append(place)
    start = {"user": 0, "weight": len(example), "fixed": len(example) + len(held)}
    at = tuple(start[kind] + number for kind, number in places)
    given, made_here = iter(shapes), iter(meaning.results)
    try:
        lying = launch.lying(tuple(next(made_here if w else given) for w in meaning.writes))
    except (ValueError, TypeError):  # more dims than it has room for
        return None
    return QuickCall(
        meaning=meaning,
        run=lying.values,
        count=len(example),
        owners=tuple(owners.values()),
        weights=tuple(held),
        fixed=tuple(fixed),
        made=made,
        pick=itemgetter(*at) if len(at) > 1 else lambda values: (values[at[0]],),
        sources=tuple(sources),
        kinds=tuple((v.shape, v.dtype) for v in example) if meaning.uses else (),
    )


def _place(
    module: torch.nn.Module | None,
    weights: Mapping[str, torch.Tensor],
    name: str,
    owners: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]],
) -> tuple[Mapping[str, Any], str] | None:
    """Return where a weight is looked up, and add the modules on the way to `owners`; None where nobody has it."""
    *path, last = name.split(".")
    way = []
    for part in path:
        child = module._modules.get(part) if module is not None else None
        if module is not None:
            way.append((module._modules, part, child))
        module = child
    if module is not None:
        for held in (vars(module), module._parameters, module._buffers):
            if held.get(last) is not None:
                owners.update({(id(step[0]), step[1]): step for step in way})
                return held, last
    return (weights, name) if name in weights else None
