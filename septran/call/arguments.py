"""Meet the values of a call with an operator's parameters: dims, dtype, outputs.

    bound = bind(operator, (x,), {})        # softmax: Y is the output, M and N are read off x

Nothing here computes; torch is imported late.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

from septran.call.operators import OUT, pointwise
from septran.errors import ArgumentError, closest
from septran.tasklang.operator import Operator, evaluate_dim

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A call that fits. tensors: what was given, by parameter.

    outputs: parameters the kernel writes and the caller did not give. given: those that the caller gave and it does not read, as they were given: they are returned.
    in_order: they were given by their place alone. shape: of everything, for a pointwise
    operator that is called with another rank than its own; None = as the operator says. numpy: whether results are wanted as arrays.
    """

    tensors: Mapping[str, torch.Tensor]
    outputs: tuple[str, ...]
    scalars: Mapping[str, float]
    dims: Mapping[str, int]
    dtype: str
    given: Mapping[str, Any] = field(default_factory=dict)
    in_order: bool = False
    shape: tuple[int, ...] | None = None
    numpy: bool = False


def bind(
    operator: Operator,
    read: Sequence[str],
    values: Sequence[Any],
    named: Mapping[str, Any],
) -> Bound:
    """Return what a call of `operator` means.

    read: the tensor parameters that the kernel reads, in order. values: those in order, or all tensors in
    order with the outputs given. named: the same by parameter name, and scalars; an output that is None is not given. `out` is the
    one output, or a tuple of all, as torch has it.
    Inputs of a pointwise operator are broadcast against each other, as views.

    Raises:
        ArgumentError: C140, values that do not fit; it is a TypeError, too.
    """
    import torch

    given = by_name(operator, read, values, named)
    scalars = {n: _scalar(operator, n, given.pop(n)) for n in operator.scalars if n in given}
    arrays = [n for n, v in given.items() if not isinstance(v, torch.Tensor)]
    tensors = {n: _tensor(operator, n, v) for n, v in given.items()}
    missing = [n for n in read if n not in tensors]
    if missing:
        raise wrong(operator, f"{missing[0]} is not given", read)
    written = [n for n in operator.outputs if n in tensors and n not in read]
    shape = _broadcast(operator, tensors, read) if pointwise(operator) else None
    shapes = {n: tuple(t.shape) if shape is None else (t.numel(),) for n, t in tensors.items()}
    dims = _dims(operator, shapes, read)
    places: dict[torch.device, str] = {}
    for name, tensor in tensors.items():
        places.setdefault(tensor.device, name)
    if len(places) > 1:
        said = ", ".join(f"{n} is on {device}" for device, n in places.items())
        raise wrong(operator, said, read)
    return Bound(
        tensors=tensors,
        outputs=tuple(n for n in operator.outputs if n not in tensors),
        scalars=scalars,
        dims=dims,
        dtype=_dtype(operator, tensors, read),
        given={n: given[n] for n in written},
        in_order=len(values) > len(read),
        shape=shape,
        numpy=bool(given) and len(arrays) == len(given),
    )


def by_name(
    operator: Operator, read: Sequence[str], values: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of a call by parameter; raises ArgumentError C140."""
    every = tuple(operator.types())
    names = every if len(values) == len(every) > len(read) else tuple(read)
    if len(values) > len(names):
        raise wrong(operator, f"{len(values)} values are given", read)
    found = dict(zip(names, values, strict=False))
    known = dict.fromkeys((*every, *operator.scalars))
    for name, value in _outputs_by_name(operator, read, named, known).items():
        if name not in known:
            raise wrong(
                operator, f"it has no parameter {name!r}{closest(name, tuple(known))}", read
            )
        if name in found:
            raise wrong(operator, f"{name} is given twice", read)
        found[name] = value
    return {n: v for n, v in found.items() if v is not None or n not in operator.outputs}


def _outputs_by_name(
    operator: Operator, read: Sequence[str], named: Mapping[str, Any], known: Mapping[str, None]
) -> Mapping[str, Any]:
    """Return the named values with `out` under the outputs' own names, unless a parameter is called so."""
    if OUT not in named or OUT in known:
        return named
    names = [n for n in operator.outputs if n not in read]
    value = named[OUT]
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not names or (len(values) != len(names) and value is not None):
        wanted = f"a tuple of {len(names)}: {', '.join(names)}" if len(names) > 1 else "one tensor"
        said = (
            f"{OUT} is {wanted}"
            if names
            else f"it writes {', '.join(operator.outputs)} in place and has no {OUT}"
        )
        raise wrong(operator, said, read)
    rest = {n: v for n, v in named.items() if n != OUT}
    for name in names:
        if name in rest:
            raise wrong(operator, f"{name} is given twice, as {OUT}, too", read)
    return {**rest, **dict(zip(names, values, strict=False))}


def _scalar(operator: Operator, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong(operator, f"{name} is a {type(value).__name__}, not a number")
    if not math.isfinite(value):
        raise wrong(operator, f"{name} is {value}, not a finite number")
    return float(value)


def _tensor(operator: Operator, name: str, value: Any) -> torch.Tensor:
    import torch

    if isinstance(value, torch.Tensor):
        if value.is_nested:
            raise wrong(operator, f"{name} is a nested tensor of {value.dtype}")
        if value.layout != torch.strided or value.is_complex() or value.is_quantized:
            raise wrong(operator, f"{name} is a {value.layout} tensor of {value.dtype}")
        return value
    if type(value).__module__ == "numpy" and hasattr(value, "flags"):
        if name in operator.outputs and not value.flags.writeable:
            raise wrong(operator, f"{name} is a read-only array")
        try:
            with warnings.catch_warnings():  # of an array that is read-only: it is not written here
                warnings.simplefilter("ignore")
                return torch.from_numpy(value)
        except (TypeError, ValueError) as e:
            raise wrong(operator, f"{name}: {e}") from None
    raise wrong(operator, f"{name} is a {type(value).__name__}, not a torch tensor")


def _broadcast(
    operator: Operator, tensors: dict[str, torch.Tensor], read: Sequence[str]
) -> tuple[int, ...]:
    """Expand the inputs of a pointwise operator to one shape, and return it."""
    import torch

    shapes = {n: tuple(tensors[n].shape) for n in read}
    if len(set(shapes.values())) == 1:
        shape = next(iter(shapes.values()))
    else:
        try:
            shape = tuple(torch.broadcast_shapes(*shapes.values()))
        except RuntimeError:
            said = ", ".join(f"{n} is {list(s)}" for n, s in shapes.items())
            raise wrong(operator, f"{said}: they do not broadcast", read) from None
        tensors.update((n, tensors[n].expand(shape)) for n in read)
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != shape:
            raise wrong(operator, f"{name} is {list(tensor.shape)}, not {list(shape)}", read)
    return shape


def _dims(
    operator: Operator, shapes: Mapping[str, tuple[int, ...]], read: Sequence[str]
) -> dict[str, int]:
    """Return each dim, read off the shapes; every shape is then checked against all dims."""
    found: dict[str, int] = {}
    source: dict[str, str] = {}
    types = operator.types()
    for name in dict.fromkeys((*read, *shapes)):
        shape, texts = shapes[name], types[name].dims
        if len(shape) != len(texts):
            raise wrong(
                operator,
                f"{name} has {len(shape)} dims {list(shape)}, not {' x '.join(texts)}",
                read,
            )
        for text, size in zip(texts, shape, strict=True):
            if text in operator.dims and found.setdefault(text, size) != size:
                raise wrong(
                    operator,
                    f"{name} says {text} = {size}, {source[text]} says {text} = {found[text]}",
                    read,
                )
            source.setdefault(text, name)
    unknown = [d for d in operator.dims if d not in found]
    if unknown:
        raise wrong(operator, f"dim {unknown[0]} follows from no tensor that is given", read)
    for name, shape in shapes.items():
        wanted = tuple(evaluate_dim(text, found) for text in types[name].dims)
        if shape != wanted:
            raise wrong(operator, f"{name} is {list(shape)}, not {list(wanted)}", read)
    return found


def _dtype(operator: Operator, tensors: Mapping[str, torch.Tensor], read: Sequence[str]) -> str:
    """Return the operator's dtype T, which all tensors of type T share; fixed types are checked."""
    types, found = operator.types(), ""
    first = ""
    for name in dict.fromkeys((*read, *tensors)):
        dtype = str(tensors[name].dtype).removeprefix("torch.")
        wanted = types[name].dtype
        if wanted != "T" and dtype != wanted:
            raise wrong(operator, f"{name} is {dtype}, not {wanted}", read)
        if wanted == "T" and found and dtype != found:
            raise wrong(operator, f"{name} is {dtype}, {first} is {found}", read)
        if wanted == "T" and not found:
            found, first = dtype, name
    if found and found not in operator.dtypes:
        raise wrong(operator, f"{first} is {found}; it has {', '.join(operator.dtypes)}", read)
    return found or operator.dtypes[0]


def one_or_all(results: Sequence[Any]) -> Any:
    """Return the results as a call returns them: the only one, or a tuple; None of a kernel that only writes what it reads."""
    return (results[0] if len(results) == 1 else tuple(results)) if results else None


def overwritten(operator: Operator, name: str, read: Sequence[str]) -> ArgumentError:
    """Return the error C140 of an output that was given by its place alone, in another tensor's memory: nobody said that it may be written."""
    said = f"in order ({', '.join(operator.types())}) {name} is written, and it lies in the memory of another one"
    return wrong(operator, f"{said}; if that is meant, say {name}=... or {OUT}=...", read)


def wrong(operator: Operator, what: str, read: Sequence[str] = ()) -> ArgumentError:
    """Return the error C140 of a call of `operator`."""
    types = operator.types()
    names = read or [n for n in types if n not in operator.outputs]
    call = ", ".join(f"{n}[{' '.join(types[n].dims)}]" for n in names)
    given = f"; {', '.join(operator.outputs)} may be given by name or as {OUT}="
    scalars = "".join(f", {n}={v!r} by default" for n, v in operator.scalars.items())
    return ArgumentError.of(
        "C140", f"{operator.name}: {what}", help=f"call it as kernel({call}){given}{scalars}"
    )
