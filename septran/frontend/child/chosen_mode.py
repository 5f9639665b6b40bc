"""Calls of torch on rows that values choose, while a module is exported: each as a call on all rows (chosen.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_SAME = ("contiguous", "clone", "detach", "to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "bool")  # fmt: skip
_POINTWISE = ("true_divide", "relu6", "softsign", "tanhshrink", "square", "float_power", "hardtanh", "celu", "selu", "softplus", "masked_fill", "floor_divide")  # fmt: skip
"""torch's elementwise functions that are none of its elementwise operators."""
_DUNDERS = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not"}  # fmt: skip
_ALONG = {
    **dict.fromkeys(
        ("softmax", "log_softmax", "logsumexp", "sum", "mean", "prod", "var", "std", "amax", "amin", "max", "min", "argmax", "argmin"),
        (1, None),
    ),
    **dict.fromkeys(("cumsum", "squeeze", "select", "narrow"), (1, None)),
    **dict.fromkeys(("chunk", "split", "tensor_split"), (2, 0)),
    "unbind": (1, 0),
    "glu": (1, -1),
    "normalize": (2, 1),
    "topk": (2, -1),
    "norm": (2, None),
}  # fmt: skip
"""Function along dims -> where its `dim` stands, and what it is where it is not given."""
_WRITES = ("setitem", "iadd", "isub", "imul", "itruediv", "ior", "iand", "ixor")
_SIZED = ("reshape", "view", "flatten", "unsqueeze", "transpose")


class ChosenRows(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
    """Export with this. chosen: the module of that name. assumed: whether anything is done that a user does only where a row is chosen.

    seen: for a call on values, gets for each such thing whether a row was chosen.
    """

    def __init__(self, chosen: Any, seen: list[bool] | None = None) -> None:
        super().__init__()
        self.of, self.assumed, self._seen = chosen, False, seen
        self._choices: list[tuple[torch.Tensor, Any, Any]] = []
        self._made: dict[int, tuple[torch.Tensor, Any]] = {}
        self._some: list[torch.Tensor] = []
        self._none: list[torch.Tensor] = []
        self._counts: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name == "__get__":
            return func(*args, **kwargs)
        own = getattr(self, f"_on_{name.strip('_')}", None) if name else None
        if own is not None:
            found = own(func, *args, **kwargs)
        elif not self._has_rows((args, kwargs)):
            found = func(*args, **kwargs)
        else:
            found = self._of_rows(func, name, args, kwargs)
        if name.strip("_") in _WRITES or (name.endswith("_") and not name.endswith("__")):
            if not isinstance(args[0], self.of.Rows):
                self._forget(args[0])
        elif isinstance(found, torch.Tensor) and found.dtype in (torch.bool, torch.int64):
            self._note(found, (name, args, kwargs))
        return found

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call what torch's own modes would call with a tensor."""
        return self.__torch_function__(func, (), args, kwargs)

    def _has_rows(self, tree: Any) -> bool:
        if isinstance(tree, dict):
            tree = tuple(tree.values())
        if isinstance(tree, tuple | list):
            return any(self._has_rows(one) for one in tree)
        return isinstance(tree, self.of.Rows)

    def _assume(self, some: Any) -> None:
        self.assumed = True
        if self._seen is not None:
            with torch._C.DisableTorchFunction():
                self._seen.append(bool(some()))

    def _choice(self, mask: torch.Tensor) -> Any:
        """Return the choice of a mask; one and the same for a mask that is used again, or made again of the same."""
        made = self._made_of(mask)
        for known, how, found in self._choices:
            if known is mask or how == made:
                return found
        # a copy: what is chosen does not change with a mask that is written to later
        as_it_is = mask.clone() if mask.dtype == torch.bool else mask != 0
        found = self.of.Choice(as_it_is, self._assume, self._call)
        self._choices.append((mask, made, found))
        return found

    def _note(self, found: torch.Tensor, call: Any) -> None:
        if any(word in call[0] for word in ("rand", "bernoulli", "multinomial")):
            return
        made = self._made_of(call)
        if made is not None:
            self._made[id(found)] = (found, made)

    def _made_of(self, one: Any) -> Any:
        """Return how a value was made, the same for what is made again of the same; None where that is not known."""
        if isinstance(one, torch.Tensor):
            kept, made = self._made.setdefault(id(one), (one, ("tensor", len(self._made))))
            assert kept is one  # it is kept, so no other tensor has its id
            return made
        if isinstance(one, dict):
            one = tuple(one.items())
        if isinstance(one, tuple | list):
            parts = tuple(self._made_of(part) for part in one)
            return None if None in parts else parts
        if isinstance(one, slice):
            return ("slice", one.start, one.stop, one.step)
        plain = one is None or isinstance(one, str | int | float | torch.dtype | type(...))
        return (type(one).__name__, one if plain else None) if plain else None

    def _forget(self, written: Any) -> None:
        """Forget what was known of tensors, as one is written to, and others may be views of it or made of it."""
        self._choices = [(m, None, c) for m, _, c in self._choices if m is not written]
        self._made.clear()
        for known in (self._some, self._none, self._counts):
            known[:] = [one for one in known if one is not written]

    # ---- what makes and asks
    def _on_where(self, func: Any, *args: Any, **named: Any) -> Any:
        if len(args) == 1 and not named:
            return self._choice(args[0]).places()
        return (
            self._pointwise(func, args, named)
            if self._has_rows((args, named))
            else func(*args, **named)
        )

    def _on_nonzero(self, func: Any, x: Any, *, as_tuple: bool = False) -> Any:
        choice = self._choice(x)
        return choice.places() if as_tuple else choice.table()

    def _on_argwhere(self, func: Any, x: Any) -> Any:
        return self._choice(x).table()

    def _on_any(self, func: Any, *args: Any, **named: Any) -> Any:
        return self._noted(func, args, named, self._some)

    def _on_sum(self, func: Any, *args: Any, **named: Any) -> Any:
        return self._noted(func, args, named, self._counts)

    def _on_count_nonzero(self, func: Any, *args: Any, **named: Any) -> Any:
        return self._noted(func, args, named, self._counts)

    def _on_bincount(self, func: Any, x: Any, weights: Any = None, minlength: int = 0) -> Any:
        """Counts of an expert's tokens, of which only whether there is one can be asked."""
        if weights is not None or not minlength or self._has_rows(x):
            return func(x, weights, minlength)
        return self.of.Counts(self._assume, x, minlength)

    def _noted(self, func: Any, args: Any, named: Any, where: list[torch.Tensor]) -> Any:
        """Run what asks of all elements whether one is true, and remember its result."""
        if self._has_rows((args, named)):
            return self._of_rows(func, func.__name__, args, named)
        found = func(*args, **named)
        if (
            len(args) == 1
            and not named
            and not found.dim()
            and args[0].dtype in (torch.bool, torch.int64)
        ):
            where.append(found)
        return found

    def _on_bool(self, func: Any, x: Any) -> Any:
        if isinstance(x, self.of.Rows):
            raise self.of.Unsupported("a branch on chosen rows")
        if any(one is x for one in self._none):
            self._assume(lambda: ~x)
            return False
        if any(one is x for one in (*self._some, *self._counts)):
            self._assume(lambda: x != 0)
            return True
        return func(x)

    def _on_item(self, func: Any, x: Any) -> Any:
        for known in (self._some, self._none):
            if any(one is x for one in known):
                return self._on_bool(func, x)
        if any(one is x for one in self._counts):
            return self.of.Count(self._assume, lambda: x != 0)
        return func(x)

    def _compared(self, func: Any, args: Any, named: Any, known: list[torch.Tensor]) -> Any:
        if self._has_rows((args, named)):
            return self._of_rows(func, func.__name__, args, named)
        found = func(*args, **named)
        if any(one is args[0] for one in self._counts) and type(args[1]) is int and not args[1]:
            known.append(found)
        return found

    def _on_gt(self, func: Any, *args: Any, **named: Any) -> Any:
        return self._compared(func, args, named, self._some)

    _on_ne = _on_greater = _on_gt

    def _on_eq(self, func: Any, *args: Any, **named: Any) -> Any:
        return self._compared(func, args, named, self._none)

    # ---- reading and writing
    def _on_getitem(self, func: Any, x: Any, key: Any) -> Any:
        if isinstance(x, self.of.Rows):
            return x.item(key)
        if isinstance(key, self.of.Element):
            whole = x[int(key)]
            for _ in range(key.dims):
                whole = whole.unsqueeze(0)
            return whole
        if self._chooses(key):
            return self.of.Key(x, key, self._choice).read()
        return func(x, key)

    def _on_setitem(self, func: Any, x: Any, key: Any, value: Any) -> Any:
        if isinstance(x, self.of.Rows):
            raise self.of.Unsupported("writes into chosen rows")
        if self._chooses(key):
            return self.of.Key(x, key, self._choice).write(value)
        return func(x, key, value)

    def _chooses(self, key: Any) -> bool:
        parts = key if isinstance(key, tuple | list) else (key,)
        return any(isinstance(p, self.of.Rows) or self.of.is_mask(p) for p in parts)

    def _on_index_select(self, func: Any, x: Any, dim: int, index: Any) -> Any:
        if not self._has_rows((x, index)):
            return func(x, dim, index)
        return self._on_getitem(func, x, (*[slice(None)] * (dim % x.dim()), index))

    def _on_index_add(
        self, func: Any, x: Any, dim: int, index: Any, source: Any, **named: Any
    ) -> Any:
        if not self._has_rows((index, source)):
            return func(x, dim, index, source, **named)
        into = x if func.__name__.endswith("_") else x.clone()
        return self.of.add_at(into, dim, index, source, **named)

    def _on_index_copy(self, func: Any, x: Any, dim: int, index: Any, source: Any) -> Any:
        if not self._has_rows((index, source)):
            return func(x, dim, index, source)
        into = x if func.__name__.endswith("_") else x.clone()
        self.of.Key(into, (*[slice(None)] * (dim % x.dim()), index), self._choice).write(source)
        return into

    # ---- row by row
    def _of_rows(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        plain = name.strip("_")
        first = args[0] if args else None
        if isinstance(first, self.of.Rows):
            if plain in _SAME:
                others = [a.grid if isinstance(a, self.of.Rows) else a for a in args[1:]]
                same = func(first.grid, *others, **kwargs)
                counts = same.dtype in (torch.int32, torch.int64)
                return first.shaped(same, first.axis) if counts else first.with_grid(same)
            both = plain in ("max", "min") and self._is_operand((*args[1:], *kwargs.values()))
            if plain in _ALONG and not both:
                return self._along(func, plain, first, list(args), dict(kwargs))
            if plain in _SIZED:
                return getattr(self, f"_sized_{plain}")(first, *args[1:], **kwargs)
            if plain in ("linear", "matmul", "mm"):
                return self._product(func, first, args, kwargs)
            if plain in ("layer_norm", "rms_norm"):
                return self._normed(func, first, args, kwargs)
            if "dropout" in plain:
                return self._dropped(first, *args[1:], **kwargs)
        if self._is_pointwise(plain):
            return self._pointwise(func, args, kwargs)
        raise self.of.Unsupported(f"`{plain}` of chosen rows")

    def _is_operand(self, others: Any) -> bool:
        """Return whether a tensor or chosen rows stand beside a function's first operand."""
        return any(isinstance(one, torch.Tensor | self.of.Rows) for one in others)

    def _is_pointwise(self, name: str) -> bool:
        if _DUNDERS.get(name, name) in _POINTWISE:
            return True
        for one in (_DUNDERS.get(name, name), name[1:] if name[0] in "ri" else name):
            packet = getattr(torch.ops.aten, _DUNDERS.get(one, one), None)
            overloads = packet.overloads() if packet is not None else ()
            if any(torch.Tag.pointwise in getattr(packet, o).tags for o in overloads):
                return True
        return False

    def _pointwise(self, func: Any, args: Any, kwargs: Any) -> Any:
        named = list(kwargs)
        writes = func.__name__.endswith("_") and not func.__name__.endswith("__")
        writes = writes or func.__name__ in ("__iadd__", "__isub__", "__imul__", "__itruediv__")
        if (writes and not isinstance(args[0], self.of.Rows)) or "out" in kwargs:
            raise self.of.Unsupported(f"`{func.__name__}` with chosen rows")
        like, grids = self.of.aligned([*args, *kwargs.values()])
        if writes:  # on a copy: what one row is may be a part of a tensor of the user's
            if like.ndim != args[0].ndim:
                raise self.of.Unsupported(f"`{func.__name__}` with chosen rows of more dims")
            grids[0] = (
                grids[0]
                .expand(
                    torch.broadcast_shapes(*(g.shape for g in grids if isinstance(g, torch.Tensor)))
                )
                .clone()
            )
        split = len(grids) - len(named)
        found = func(*grids[:split], **dict(zip(named, grids[split:], strict=True)))
        if writes:
            args[0].grid = found
            return args[0]
        return like.with_grid(found)

    def _along(
        self, func: Any, name: str, rows: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if name == "squeeze" and len(args) + len(kwargs) == 1:
            return rows.reshaped([n for n in rows.shape if not (type(n) is int and n == 1)])
        at, usual = _ALONG[name]
        dim = args[at] if len(args) > at else kwargs.get("dim", usual)
        dims = list(dim) if isinstance(dim, tuple | list) else [dim]
        if name in ("sum", "mean") and (
            dim is None or dims in ([rows.axis], [rows.axis - rows.ndim])
        ):
            kept = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
            return self._total(name, rows, dim is None, bool(kept), kwargs.get("dtype"))
        if dim is None or rows.axis:
            raise self.of.Unsupported(f"`{name}` of chosen rows over this dim")
        if 0 in [d % rows.ndim for d in dims]:
            raise self.of.Unsupported(f"`{name}` along the chosen rows")
        found: Any = [rows.physical(d) for d in dims]
        found = found if isinstance(dim, tuple | list) else found[0]
        if len(args) > at:
            args[at] = found
        else:
            kwargs["dim"] = found
        result = func(rows.grid, *args[1:], **kwargs)
        if isinstance(result, tuple | list):
            return tuple(rows.with_grid(one) for one in result)
        return rows.shaped(result) if name == "squeeze" else rows.with_grid(result)

    def _total(self, name: str, rows: Any, whole: bool, kept: bool, dtype: Any) -> Any:
        """Return the sum or the mean over all chosen rows, whose number is the mask's."""
        only = rows.choice.only(rows.grid)
        dims = list(range(only.dim() if whole else rows.lead))
        total = only.sum(dims, dtype=dtype)
        if name == "mean":
            many = rows.choice.mask.sum().to(total.dtype)
            for n in rows.row if whole else ():
                many = many * n
            total = total / many
        return total.unsqueeze(rows.axis) if kept and not whole else total

    def _sized_reshape(self, rows: Any, *shape: Any, **named: Any) -> Any:
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            raise self.of.Unsupported("`view` of chosen rows as another dtype")
        shape = named.get("shape", shape)
        return rows.reshaped(
            shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        )

    _sized_view = _sized_reshape

    def _sized_flatten(self, rows: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
        start, end = start_dim % rows.ndim, end_dim % rows.ndim
        shape = rows.shape
        return rows.reshaped([*shape[:start], -1, *shape[end + 1 :]])

    def _sized_unsqueeze(self, rows: Any, dim: int) -> Any:
        dim = dim % (rows.ndim + 1)
        shape = list(rows.shape)
        shape.insert(dim, 1)
        return rows.reshaped(shape)

    def _sized_transpose(self, rows: Any, dim0: int, dim1: int) -> Any:
        return rows.with_grid(rows.grid.transpose(rows.physical(dim0), rows.physical(dim1)))

    def _product(self, func: Any, rows: Any, args: Any, kwargs: Any) -> Any:
        others = [*args[1:], *kwargs.values()]
        right = others[0]
        if self._has_rows(others) or rows.axis == rows.ndim - 1 or right.dim() > 2:
            raise self.of.Unsupported(f"`{func.__name__}` along the chosen rows")
        return rows.with_grid(func(rows.grid, *args[1:], **kwargs))

    def _normed(self, func: Any, rows: Any, args: Any, kwargs: Any) -> Any:
        shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
        if self._has_rows((args[1:], kwargs)) or rows.axis >= rows.ndim - len(shape):
            raise self.of.Unsupported(f"`{func.__name__}` along the chosen rows")
        return rows.with_grid(func(rows.grid, *args[1:], **kwargs))

    def _dropped(
        self, rows: Any, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Any:
        if training and p:
            raise self.of.Unsupported("dropout of chosen rows")
        return rows
