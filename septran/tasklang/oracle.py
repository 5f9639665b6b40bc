"""Reading 2: run a task body on torch tensors. Slow, literal and mapping-free: the oracle.

Primitives compute in float32 (float64 when the output or an operand is float64), as kernels do; products of integers into
integers in int64, of which the output keeps its own bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from septran.ir import scalar
from septran.ir.dtypes import whole_sums
from septran.tasklang import extern, mapexpr, movement
from septran.tasklang.api import PartitionOptions, current
from septran.tasklang.axes import checked_axis
from septran.tasklang.primitives import PRIMITIVES
from septran.tasklang.tree import Elsewhere, Task
from septran.tasklang.values import caller_span, mistake

if TYPE_CHECKING:
    import torch

DEFAULT_TILE = 32


def run_oracle(
    task: Task, args: tuple[Any, ...], tunables: Mapping[str, int] | None = None
) -> None:
    """Run `task` on torch CPU tensors and scalars in place.

    args: tensors (any float dtype, any strides) and numbers in parameter order; written tensors
        are overwritten. tunables: values by name; others take their default, else 32.
    """
    if isinstance(task.fn, Elsewhere):
        task.fn.run(args, tunables or {})
        return
    wide = any(str(getattr(a, "dtype", "")) == "torch.float64" for a in args)
    token = current.set(_Oracle(dict(tunables or {}), "float64" if wide else "float32"))
    try:
        task.fn(*args)
    finally:
        current.reset(token)


class _Pieces:
    """A grid of views of a torch tensor."""

    def __init__(self, shape: tuple[int, ...], cut: Callable[[tuple[Any, ...]], Any]) -> None:
        self.shape = shape
        self._cut = cut

    def __getitem__(self, index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        return self._cut(items + (slice(None),) * (len(self.shape) - len(items)))


def _per_dim(value: Any, rank: int, default: int) -> tuple[int, ...]:
    if value is None:
        return (default,) * rank
    if isinstance(value, int):
        return (value,) * rank
    return tuple(default if v is None else int(v) for v in value) + (default,) * (rank - len(value))


class _Oracle:
    """The interpreter; one per run."""

    def __init__(self, tunables: dict[str, int], accumulate: str) -> None:
        self.tunables = tunables
        self.accumulate = accumulate

    def partition(self, t: torch.Tensor, o: PartitionOptions) -> _Pieces:
        rank, block = t.ndim, self.tunables.get("block_size", DEFAULT_TILE)
        if o["by"] == "halo":
            return self._halo(t, o)
        if o["by"] == "grid":
            parts = _per_dim(o["parts"], rank, 1)
            tile = [-(-n // p) for n, p in zip(t.shape, parts, strict=True)]
        elif o["shape"] is not None:
            given = tuple(o["shape"]) + (None,) * (rank - len(o["shape"]))
            tile = [n if b is None else int(b) for b, n in zip(given, t.shape, strict=True)]
        else:
            tile = [block] * rank

        def cut(index: tuple[Any, ...]) -> torch.Tensor:
            return t[
                tuple(
                    i if isinstance(i, slice) else slice(i * b, (i + 1) * b)
                    for i, b in zip(index, tile, strict=True)
                )
            ]

        return _Pieces(tuple(-(-n // b) for n, b in zip(t.shape, tile, strict=True)), cut)

    def _halo(self, t: torch.Tensor, o: PartitionOptions) -> _Pieces:
        import torch

        rank = t.ndim
        window, stride = _per_dim(o["window"], rank, 1), _per_dim(o["stride"], rank, 1)
        dilation, pad = _per_dim(o["dilation"], rank, 1), _per_dim(o["pad"], rank, 0)
        reach = tuple((w - 1) * d + 1 for w, d in zip(window, dilation, strict=True))
        positions = tuple(
            (n + 2 * p - r) // s + 1 for n, p, r, s in zip(t.shape, pad, reach, stride, strict=True)
        )
        given = tuple(o["shape"] or ()) + (None,) * (rank - len(o["shape"] or ()))
        tile = tuple(
            n if b is None else min(int(b), n) for b, n in zip(given, positions, strict=True)
        )
        shape = [n + 2 * p for n, p in zip(t.shape, pad, strict=True)]
        padded = torch.full(shape, o["fill"], dtype=t.dtype)
        padded[tuple(slice(p, p + n) for n, p in zip(t.shape, pad, strict=True))] = t

        def cut(index: tuple[Any, ...]) -> torch.Tensor:
            slices = []
            for d, i in enumerate(index):
                i = 0 if isinstance(i, slice) else i
                count = min(tile[d], positions[d] - i * tile[d])
                start = i * tile[d] * stride[d]
                slices.append(slice(start, start + (count - 1) * stride[d] + reach[d]))
            return padded[tuple(slices)]

        return _Pieces(tuple(-(-n // b) for n, b in zip(positions, tile, strict=True)), cut)

    def shift(self, t: torch.Tensor, offset: Any, shape: Any, stride: Any) -> torch.Tensor:
        steps = _per_dim(stride, t.ndim, 1)
        return t[
            tuple(
                slice(o, o + (n - 1) * s + 1, s)
                for o, n, s in zip(offset, shape, steps, strict=True)
            )
        ]

    def laid(self, t: torch.Tensor, kind: str, values: tuple[int, ...]) -> torch.Tensor:
        if kind == "permute":
            return t.permute(values)
        if kind == "slice":
            n = len(values) // 3
            return self.shift(t, values[:n], values[n : 2 * n], values[2 * n :])
        try:
            return t.view(values)
        except RuntimeError as e:
            raise mistake("E137", f"task.reshape to {list(values)}: {e}") from e

    def loop(self, kind: str, extents: tuple[Any, ...]) -> Iterator[Any]:
        if len(extents) == 1:
            yield from range(extents[0])
        else:
            yield from itertools.product(*(range(n) for n in extents))

    def launch(self, callee: Task, args: tuple[Any, ...]) -> None:
        callee.fn(*args)

    def tensor(self, name: str, shape: tuple[Any, ...], dtype: Any) -> torch.Tensor:
        import torch

        if dtype == "accumulate":
            dtype = self.accumulate
        kind = getattr(torch, dtype) if isinstance(dtype, str) else dtype.dtype
        undefined = float("nan") if kind.is_floating_point else 77
        return torch.full(tuple(int(n) for n in shape), undefined, dtype=kind)

    def tunable(self, name: str, default: int | None) -> int:
        return self.tunables.get(name, DEFAULT_TILE if default is None else default)

    def primitive(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        if name not in PRIMITIVES:
            raise mistake("E110", f"unknown primitive {name!r}")
        if "axis" in attrs:
            rank = args[1].ndim
            attrs = {**attrs, "axis": checked_axis(name, attrs["axis"], rank, caller_span())}
        apply_primitive(name, args[0], args[1:], attrs)


def compute_dtype(*tensors: Any) -> torch.dtype:
    """Return float64 when any tensor is float64, else float32."""
    import torch

    wide = any(getattr(t, "dtype", None) == torch.float64 for t in tensors)
    return torch.float64 if wide else torch.float32


def apply_primitive(name: str, y: Any, ins: tuple[Any, ...], attrs: Mapping[str, Any]) -> None:
    """Run one primitive on torch tensors, `y` written in place."""
    import torch

    if name == "fill":
        y.fill_(attrs["value"])
    elif name == "copy":
        y.copy_(ins[0])
    elif name == "transpose":
        y.copy_(ins[0].permute(tuple(attrs["perm"])))
    elif name in ("gemm", "gemm_acc"):
        whole = whole_sums(_name(y.dtype), [_name(x.dtype) for x in ins])
        wide = torch.int64 if whole else compute_dtype(y, *ins)
        product = torch.tensordot(*_operands(ins, attrs, wide), 1).reshape(y.shape)
        y.copy_(product + y.to(wide) if name == "gemm_acc" else product)
    elif name == "map":
        operands = {k: v for k, v in attrs.items() if k != "expr"}
        y.copy_(evaluate_map(str(attrs["expr"]), operands, y))
    elif name == "extern":
        extern.apply(y, ins, attrs)
    elif name in ("scan", "argreduce", "gather", "scatter_acc"):
        movement.apply(name, y, ins, attrs)
    elif name in ("reduce", "reduce_acc"):
        wide = compute_dtype(y, *ins)
        value = _reduce(ins[0].to(wide), attrs["op"], attrs["axis"])
        y.copy_(_combine(attrs["op"], y.to(wide), value) if name == "reduce_acc" else value)


def _operands(ins: tuple[Any, ...], attrs: Mapping[str, Any], dtype: Any) -> tuple[Any, Any]:
    """Return A [.., k] and B [k, n] of a product in `dtype`."""
    a, b = ins[0].to(dtype), ins[1].to(dtype)
    b = b.reshape(b.shape[-2:])
    return a.mT if attrs.get("trans_a") else a, b.mT if attrs.get("trans_b") else b


def _reduce(x: Any, op: str, axis: int | tuple[int, ...]) -> Any:
    match op:
        case "sum":
            return x.sum(axis, keepdim=True)
        case "prod":
            for one in axis if isinstance(axis, tuple) else (axis,):
                x = x.prod(one, keepdim=True)
            return x
        case "max":
            return x.amax(axis, keepdim=True)
    return x.amin(axis, keepdim=True)


def _combine(op: str, a: Any, b: Any) -> Any:
    import torch

    match op:
        case "sum":
            return a + b
        case "prod":
            return a * b
        case "max":
            return torch.maximum(a, b)
    return torch.minimum(a, b)


def evaluate_map(expr: str, operands: Mapping[str, Any], y: Any) -> Any:
    """Return the value of a map expression for output tensor `y`, in a dtype of its kind."""
    import torch

    mapexpr.parse(expr, operands)
    compute = compute_dtype(y, *operands.values())
    nodes = {n: _node(n, v) for n, v in operands.items()}
    tree = scalar.typed(
        expr, nodes, shape=tuple(y.shape), result=_name(y.dtype), compute=_name(compute)
    )
    kinds = {"float": compute, "int": torch.int64, "bool": torch.bool}
    functions = _functions()

    def value(node: scalar.Node) -> Any:
        match node:
            case scalar.Const(number):
                return torch.tensor(number, dtype=kinds[node.kind])
            case scalar.Name(name):
                return operands[name].to(kinds[node.kind])
            case scalar.Index(axis):
                shape = [1] * y.ndim
                shape[axis] = y.shape[axis]
                return torch.arange(y.shape[axis]).reshape(shape)
            case scalar.Op("float" | "int" | "int64", args):
                return value(args[0]).to(kinds[node.kind])
            case scalar.Op(op, args):
                return functions[op](*(value(a) for a in args))

    return value(tree)


def _node(name: str, value: Any) -> scalar.Node:
    if hasattr(value, "dtype"):
        return scalar.tensor(name, _name(value.dtype))
    return scalar.Const(value)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


_NAMED = (
    "exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "abs",
    "sin", "cos", "atan", "log1p", "expm1", "floor", "ceil", "round", "trunc",
)  # fmt: skip


def _functions() -> dict[str, Callable[..., Any]]:
    import torch

    return {
        "+": torch.add,
        "-": torch.sub,
        "*": torch.mul,
        "/": torch.true_divide,
        "**": torch.pow,
        "neg": torch.neg,
        "<": torch.lt,
        "<=": torch.le,
        ">": torch.gt,
        ">=": torch.ge,
        "==": torch.eq,
        "!=": torch.ne,
        "select": torch.where,
        "max": torch.maximum,
        "min": torch.minimum,
        "fmod": torch.fmod,
        "//": torch.floor_divide,
        "%": torch.remainder,
        **{n: getattr(torch, n) for n in _NAMED},
    }
