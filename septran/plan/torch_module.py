"""Recognise a torch module file (KernelBench form) as one of the known operators, by its behaviour.

The file defines `Model`, `get_inputs()` and `get_init_inputs()`. The module runs once on its own inputs;
each operator whose tensors fit those shapes is tried on the same values (and the module's parameters),
and the one that agrees is the task.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from septran.errors import ConfigError, Span
from septran.plan import catalog
from septran.tasklang.execute import time_limit
from septran.tasklang.load import Logic, load_logic
from septran.tasklang.operator import Operator

if TYPE_CHECKING:
    import torch

LOAD_LIMIT_S = 60.0
_TOLERANCE = 1e-3


def load_task_file(path: Path) -> tuple[Operator, Logic]:
    """Return the operator a module file is, with its dims taken from the module's inputs.

    Raises:
        ConfigError: C134, the file is not in the form, raised, or behaves like no known operator.
    """
    import torch

    model, inputs = _load(path)
    with torch.no_grad():
        wanted = model(*inputs)
    if not isinstance(wanted, torch.Tensor):
        raise _unknown(path, f"Model returns a {type(wanted).__name__}, not one tensor")
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    held = [p.detach() for p in (*model.parameters(), *model.buffers())]
    for file in catalog.op_files():
        logic = load_logic(file)
        for operator in logic.operators.values():
            dims = _match(operator, (*tensors, *held), wanted)
            if dims is not None:
                return replace(operator, dims=dims), logic
    shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
    raise _unknown(path, f"no operator gives Model's results on inputs {shapes}")


def _unknown(path: Path, why: str) -> ConfigError:
    return ConfigError.of(
        "C134",
        f"{path}: {why}",
        Span(str(path), 1),
        help="write the logic in Task Lang and use --logic; `septran ls ops` lists what is recognised",
    )


def _load(path: Path) -> tuple[Any, Sequence[Any]]:
    """Return the module in eval mode and its inputs; everything in the file runs under a time limit."""
    try:
        text = path.read_text(encoding="utf-8")
        code = compile(text, str(path), "exec", dont_inherit=True)
    except (OSError, SyntaxError) as e:
        raise _unknown(path, str(e)) from e
    module = ModuleType("septran_task")
    try:
        with time_limit(LOAD_LIMIT_S):
            exec(code, module.__dict__)
            names = vars(module)
            missing = [n for n in ("Model", "get_inputs", "get_init_inputs") if n not in names]
            if missing:
                raise _unknown(path, f"it does not define {', '.join(missing)}")
            model = names["Model"](*names["get_init_inputs"]())
            return model.eval(), names["get_inputs"]()
    except ConfigError:
        raise
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        raise _unknown(path, f"it raised {type(e).__name__}: {e}") from e


def _match(
    operator: Operator, values: Sequence[torch.Tensor], wanted: torch.Tensor
) -> dict[str, int] | None:
    """Return the dims under which `operator` gives `wanted` from `values`, None when it does not."""
    import torch

    types = operator.types()
    inputs = [p for p in types if p not in operator.outputs]
    if len(inputs) != len(values) or len(operator.outputs) != 1:
        return None
    for order in itertools.permutations(values):
        for given in _views(operator, inputs, order):
            dims = _dims(operator, {p: tuple(t.shape) for p, t in given.items()})
            if dims is None:
                continue
            try:
                with torch.no_grad():
                    found = operator.reference.fn(**given, **operator.scalar_values(dims))
            except (RuntimeError, IndexError, ValueError):
                continue
            if found.numel() != wanted.numel():
                continue
            if torch.allclose(
                found.reshape(-1).float(),
                wanted.reshape(-1).float(),
                rtol=_TOLERANCE,
                atol=_TOLERANCE,
            ):
                return dims
    return None


def _views(
    operator: Operator, inputs: Sequence[str], values: Sequence[torch.Tensor]
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield the values as the operator's inputs: as they are, or flattened for pointwise ones."""
    ranks = {p: len(operator.types()[p].dims) for p in inputs}
    if all(v.ndim == ranks[p] for p, v in zip(inputs, values, strict=True)):
        yield dict(zip(inputs, values, strict=True))
    elif all(r == 1 for r in ranks.values()):
        yield {p: v.reshape(-1) for p, v in zip(inputs, values, strict=True)}


def _dims(operator: Operator, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int] | None:
    """Return the dims read off the shapes, None when two disagree or one stays unknown."""
    found: dict[str, int] = {}
    for param, shape in shapes.items():
        for text, size in zip(operator.types()[param].dims, shape, strict=True):
            if text.isidentifier():
                if found.setdefault(text, size) != size:
                    return None
            elif text.isdigit() and int(text) != size:
                return None
    return found if set(found) == set(operator.dims) else None
