"""Holds an exported program against the module that it was made of, on the module's own inputs.

A module can give another result while it is exported: it asks whether it is (`torch.compiler.is_exporting`), counts its
calls, or meets a fault of the export. The graph is what is judged and compiled, so it has to be the module's function.
The module's Python runs in this process and can do here what it wants: this finds mistakes and plain lies, and protects nobody.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

_FAR = {2: 1e-1}
"""Bytes of a dtype -> what two ways to compute one function may differ by, relative; else _NEAR."""
_NEAR = 1e-2
_SHARE = 0.01
"""Of the elements that may differ by more: where sums cancel, and positions of extremes that are as good as equal."""

Results = list[torch.Tensor] | None


def copied(model: Any) -> Any:
    """Return a copy of a module, which an export cannot change; None where it cannot be copied."""
    try:
        return copy.deepcopy(model)
    except Exception:
        return None


def why_not(program: Any, before: Any, model: Any, inputs: Any) -> str | None:
    """Return how the exported program differs from the module, or None.

    before: the module as it was before it was exported; it is asked twice, since it may count its calls.
    """
    if before is None or _is_random(program):
        return None
    first = _called(before, inputs)
    if first is None:
        return None
    for again in (_called(model, inputs), _called_twice(before, inputs)):
        if again is not None and (how := _difference(again, first)):
            return f"the module gives something else when it is called again: {how}"
    try:
        found = _run(program, inputs)
    except Exception:  # the program cannot be run here, then it is judged by the parent alone
        return None
    if how := _difference(found, first):
        return f"torch.export gives another function than the module is: {how}"
    return None


_UNTRIED = (
    "forward asks whether a row is chosen, and no inputs were found for which none is: "
    "whether what it does then comes to nothing is not known"
)


def why_not_chosen(
    program: Any, model: Any, inputs: Any, named: Any, observed: Any, *, assumed: bool
) -> str | None:
    """Return how a program that works on all rows differs from a module that works on those that values choose, or None.

    observed: empty list -> context in which the module works on all rows; the list then has for each thing that is done
    only where a row is chosen whether one was. assumed: that there are such things. Inputs are drawn until each of them was seen without: rows that are all alike
    leave most experts of a mixture without any.
    """
    if _is_random(program):
        return _UNTRIED if assumed else None
    missing: set[int] | None = None
    for number in range(_DRAWS):
        given, others = _with_rows_alike((inputs, named), number)
        seen: list[bool] = []
        try:
            with torch.no_grad():
                wanted = _tensors(copy.deepcopy(model)(*_copied(given), **_copied(others)))
                with observed(seen):
                    copy.deepcopy(model)(*_copied(given), **_copied(others))
        except Exception:  # it cannot be called with these
            continue
        if how := _difference(_run(program, given, others), wanted):
            return f"with all rows in place of those that values choose, it is another function where all rows are alike: {how}"
        without = {i for i, some in enumerate(seen) if not some}
        missing = (set(range(len(seen))) if missing is None else missing) - without
        if not missing and number >= _LEAST:
            return None
    return _UNTRIED if assumed else None


_DRAWS, _LEAST = 32, 4


def _with_rows_alike(tree: Any, number: int) -> Any:
    """Return inputs whose rows are all alike: numbers of both signs, of one, or none but 0."""
    draw = torch.Generator().manual_seed(number)

    def one(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or t.dtype == torch.bool or not t.numel():
            return t
        if not t.is_floating_point():
            at = int(torch.randint(t.numel(), (), generator=draw))
            return t.reshape(-1)[at].expand_as(t).clone()
        if t.dim() < 2:
            return t
        row = torch.randn(t.shape[-1], generator=draw) * float(t.abs().max())
        row = (row, row, row, row, row, row.abs(), -row.abs(), row * 0)[number % 8]
        return row.to(t.dtype).expand_as(t).clone()

    return tree_map(one, tree)


def _called(model: Any, inputs: Any) -> Results:
    """Return the tensors that a copy of the module gives for copies of the inputs; None where it cannot be run here."""
    try:
        return _called_itself(copy.deepcopy(model), inputs)
    except Exception:  # it cannot be copied
        return None


def _called_itself(model: Any, inputs: Any) -> Results:
    try:
        with torch.no_grad():
            return _tensors(model(*_copied(inputs)))
    except Exception:  # no kernel for a dtype on this processor
        return None


def _called_twice(model: Any, inputs: Any) -> Results:
    """Return what a copy gives at its second call, with the tensors that it held at its first; None where no number changed."""
    now = copied(model)
    was = _numbers(now)
    if _called_itself(now, inputs) is None or _numbers(now) == was:
        return None
    with torch.no_grad():
        now.load_state_dict(model.state_dict())
    return _called_itself(now, inputs)


def _numbers(model: Any) -> list[Any]:
    """Return the plain values that the parts of a module hold: what they count, which branch they took last."""
    plain = (bool, int, float, str)
    return [(k, v) for part in model.modules() for k, v in vars(part).items() if type(v) in plain]


def _run(program: Any, inputs: Any, named: Any = None) -> list[torch.Tensor]:
    held = [t for t in program.state_dict.values() if isinstance(t, torch.Tensor)]
    was = [t.clone() for t in held]
    try:
        with torch.no_grad():
            # a result may be the running statistic itself, which is put back below
            return [
                t.clone()
                for t in _tensors(program.module()(*_copied(inputs), **_copied(named or {})))
            ]
    finally:
        with torch.no_grad():
            for now, then in zip(held, was, strict=True):
                now.copy_(then)  # running statistics


def _copied(inputs: Any) -> Any:
    return tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, inputs)


def _tensors(results: Any) -> list[torch.Tensor]:
    return [t.detach() for t in tree_leaves(results) if isinstance(t, torch.Tensor)]


def _is_random(program: Any) -> bool:
    return any(
        torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        for node in program.graph.nodes
        if node.op == "call_function"
    )


def _difference(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> str | None:
    if len(found) != len(wanted):
        return f"{len(found)} results where it gives {len(wanted)}"
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i} is {_kind(a)} where it gives {_kind(b)}"
        if far := _far(a, b):
            return f"result {i} differs in {far} of {a.numel()} elements"
    return None


def _kind(t: torch.Tensor) -> str:
    return f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}"


def _far(a: torch.Tensor, b: torch.Tensor) -> int:
    """Return how many elements are far apart, 0 where they are few enough."""
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    equal = (a == b) | (a != a) & (b != b)
    if b.is_floating_point() and b.numel():
        near = _FAR.get(b.element_size(), _NEAR)
        x, y = a.double(), b.double()
        size = y[y.isfinite()].abs()
        middle = size.median() if size.numel() else torch.zeros(())
        equal = equal | ((x - y).abs() <= near * (y.abs() + 0.1 * middle))
    far = int((~equal).sum())
    return far if far > _SHARE * b.numel() else 0
