"""A live torch module as an exported graph, in the caller's own process."""

from __future__ import annotations

import contextlib
import inspect
import json
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.aten.graph import Graph, parse_graph
from septran.aten.literals import with_literals
from septran.aten.open_graph import OpenGraph, named, read_open_graph
from septran.call.state import Watch, as_buffers, attributes, inside
from septran.errors import ConfigError, Span

if TYPE_CHECKING:
    import torch

_ONE_AT_A_TIME = threading.RLock()
"""What is done to torch and to a module while it is exported is undone in the order of a stack."""


def export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, mode: str
) -> tuple[Graph, Any]:
    """Return the exported graph of a live module, and the structure of its results.

    Raises:
        ConfigError: C151, torch cannot export it.
    """
    path = _source(module)
    data, values, results = _exported(module, args, kwargs, mode=mode)
    return with_literals(parse_graph(json.dumps(data), str(path), values)), results


def export_open(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    mode: str,
    shapes: Any,
) -> tuple[OpenGraph, Any]:
    """Return the exported graph of a live module with the open sizes of torch's `dynamic_shapes`, and its results' structure.

    Raises:
        ConfigError: C151, torch cannot export it so.
    """
    data, values, results = _exported(module, args, kwargs, mode=mode, shapes=shapes)
    from septran.frontend.child import capture as child

    given = child.names_of(module.forward, args, kwargs, shapes)
    return read_open_graph(named(data, given), str(_source(module)), values), results


def _exported(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    mode: str,
    shapes: Any = None,
) -> tuple[dict[str, Any], dict[str, bytes], Any]:
    """Return what an export says as plain values, the bytes of inputs and weights, and the structure of the results."""
    from septran.frontend.child import capture as child
    from septran.frontend.child import form
    from septran.frontend.refusals import export_help
    from septran.frontend.table import KNOWN

    path = _source(module)
    was = module.training
    held = frozenset(attributes(module))
    try:
        if mode == "eval":
            _set_training(module, False)
        with _ONE_AT_A_TIME, as_buffers(module), Watch(module).watching() as watch:
            program = child.export(module, args, dict(kwargs), path, shapes, known=KNOWN)
        span = Span(str(path), max(1, form.returned(module.forward, path)))
        if watch.changed:
            raise _changing(module, watch.changed, span)
        with tempfile.TemporaryDirectory(prefix="septran-export-") as folder:
            data = child.describe(
                program, (args, dict(kwargs)), path, Path(folder), attributes=held
            )
            raw = (Path(folder) / "values.bin").read_bytes()
        _name_held(data["inputs"], program.constants, inside(module))
    except child.Refused as e:
        raise ConfigError.of(
            "C151",
            f"torch.export cannot capture {type(module).__name__}: {e.message}",
            Span(str(path), max(1, e.line)),
            help=export_help(e.message),
        ) from e
    finally:
        _set_training(module, was)
    values = {r["name"]: raw[r["offset"] : r["offset"] + r["bytes"]] for r in data["values"]}
    return data, values, program.call_spec.out_spec


def _changing(module: torch.nn.Module, what: str, span: Span) -> ConfigError:
    return ConfigError.of(
        "C151",
        f"{type(module).__name__}: forward changes {what}, which a kernel does not do",
        span,
        help="state is a tensor of the module's own (`register_buffer`, or an attribute that is a tensor before the first call); "
        "what forward keeps at its first call alone is kept before this: call the module once",
    )


def _name_held(
    inputs: list[dict[str, Any]],
    constants: Mapping[str, Any],
    held: Mapping[str, torch.Tensor],
) -> None:
    """Name constants that a list, dict or object of the module holds after their place there: they are read at each call."""
    for one in inputs:
        tensor = constants.get(one["target"]) if one["kind"] == "constant_tensor" else None
        for place, other in held.items() if tensor is not None else ():
            if tensor is other or _same_memory(tensor, other):
                one["kind"], one["target"] = "buffer", place
                break


def _same_memory(a: Any, b: torch.Tensor) -> bool:
    """Return whether two tensors are the same elements of one memory."""
    import torch

    if not isinstance(a, torch.Tensor) or (a.shape, a.dtype, a.device) != (
        b.shape,
        b.dtype,
        b.device,
    ):
        return False
    return bool(a.numel() and a.stride() == b.stride() and a.data_ptr() == b.data_ptr())


def _set_training(module: torch.nn.Module, on: bool) -> None:
    with contextlib.suppress(NotImplementedError):  # an exported program's module has one mode
        module.train(on)


def _source(module: torch.nn.Module) -> Path:
    try:
        return Path(inspect.getsourcefile(type(module)) or "module.py")
    except TypeError:
        return Path("module.py")
