"""Rows that values choose (`x[mask]`, `torch.where(mask)`), as all rows, of which some count.

A mixture of experts hands each expert the tokens that chose it: as many as values say, which no graph can have. Such rows are worked
on one by one and put back at their places, so all of them can be worked on, and put back where the mask is true.

`Rows` stands for the chosen ones: `grid` has the dims of the mask first, each of its size or of 1 where a row does not depend on it,
then the dims of a row. Where the user sees the axis of rows is `axis`. What mixes rows is refused.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

Assume = Callable[[Callable[[], torch.Tensor]], None]
MOST = 64
"""Positions of a mask that may be written to one place one after another (the experts of a token)."""


class Unsupported(TypeError):
    """What has no form for rows that values choose. A TypeError, which `list(rows)` forgives the length that it asks for."""


class Choice:
    """The true places of a mask of booleans, in order.

    assume: notes that something is done only where a condition holds. call: calls a method of torch's tensors with chosen rows.
    """

    def __init__(self, mask: torch.Tensor, assume: Assume, call: Callable[..., Any]) -> None:
        if mask.dim() == 0:
            raise Unsupported("a mask without a dim")
        self.mask, self.assume, self.call = mask, assume, call

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of the mask."""
        return tuple(self.mask.shape)

    def places(self) -> tuple[Rows, ...]:
        """Return where the mask is true, axis by axis, as `torch.where(mask)` does."""
        return tuple(self._place(axis) for axis in range(self.mask.dim()))

    def _place(self, axis: int) -> Rows:
        shape = [1] * self.mask.dim()
        shape[axis] = self.sizes[axis]
        grid = torch.arange(self.sizes[axis], device=self.mask.device).reshape(shape)
        return Rows(self, grid, 0, place=axis)

    def table(self) -> Rows:
        """Return the places as rows of a table, as `mask.nonzero()` does."""
        grids = [p.grid.expand(self.sizes) for p in self.places()]
        single = 0 if self.mask.dim() == 1 else None
        return Rows(self, torch.stack(grids, -1), 0, place=single)

    def only(self, grid: torch.Tensor) -> torch.Tensor:
        """Return a grid [all sizes, row] that is 0 where the mask is false."""
        rank = self.mask.dim()
        row = tuple(grid.shape[rank:])
        wide = grid.expand(*self.sizes, *row)
        return torch.where(self.mask.reshape(*self.sizes, *[1] * len(row)), wide, 0)


class Rows:
    """Chosen rows. place: the axis of the mask whose positions these are, where they are positions."""

    def __init__(
        self, choice: Choice, grid: torch.Tensor, axis: int, place: int | None = None
    ) -> None:
        self.choice, self.grid, self.axis, self.place = choice, grid, axis, place

    @property
    def lead(self) -> int:
        """Return how many dims of `grid` are the mask's."""
        return len(self.choice.sizes)

    @property
    def row(self) -> tuple[int, ...]:
        """Return the dims of one row."""
        return tuple(self.grid.shape[self.lead :])

    @property
    def shape(self) -> tuple[Any, ...]:
        """Return the shape as a user sees it."""
        row = self.row
        return (
            *row[: self.axis],
            Count(self.choice.assume, self.choice.mask.any, self.choice),
            *row[self.axis :],
        )

    @property
    def ndim(self) -> int:
        """Return how many dims a user sees."""
        return len(self.row) + 1

    def with_grid(self, grid: torch.Tensor, axis: int | None = None) -> Rows:
        """Return other numbers for the same rows."""
        return Rows(self.choice, grid, self.axis if axis is None else axis)

    def shaped(self, grid: torch.Tensor, axis: int = 0) -> Rows:
        """Return the same numbers in another shape: places stay places."""
        one = math.prod(grid.shape[self.lead :]) == 1
        return Rows(self.choice, grid, axis, self.place if one else None)

    def physical(self, dim: int) -> int:
        """Return the dim of `grid` that a dim of the rows is."""
        dim = dim % len(self.shape)
        if dim == self.axis:
            raise Unsupported("an operator along the chosen rows")
        return self.lead + (dim if dim < self.axis else dim - 1)

    def padded(self, ndim: int) -> Rows:
        """Return it with dims of one in front, as broadcasting has them."""
        more = ndim - self.ndim
        if not more:
            return self
        at = self.lead
        shape = (*self.grid.shape[:at], *[1] * more, *self.row)
        return Rows(self.choice, self.grid.reshape(shape), self.axis + more)

    def reshaped(self, shape: Sequence[Any]) -> Rows:
        """Return the rows in another shape, one of whose dims is that of the rows."""
        before, after = math.prod(self.row[: self.axis]), math.prod(self.row[self.axis :])
        counts = [i for i, n in enumerate(shape) if isinstance(n, Count)]
        for at in counts or [i for i, n in enumerate(shape) if n == -1]:
            front, back = list(shape[:at]), list(shape[at + 1 :])
            if not (_fill(front, before) and _fill(back, after)):
                continue
            sizes = (*self.grid.shape[: self.lead], *front, *back)
            return self.shaped(self.grid.reshape(sizes), at)
        raise Unsupported("a shape that puts several dims into that of the chosen rows")

    def item(self, key: Any) -> Rows:
        """Return `rows[key]`, which takes all rows."""
        dims = keys(key, self.ndim)
        at, found, axis, seen = 0, [], 0, 0
        for one in dims:
            if one is None or at != self.axis:
                if not (one is None or isinstance(one, int | slice)):
                    raise Unsupported("rows of the chosen rows")
                found.append(one)
                at += one is not None
                seen += not isinstance(one, int) or isinstance(one, bool)
                continue
            if one != slice(None):
                raise Unsupported("rows of the chosen rows")
            axis, at = seen, at + 1
        grid = self.grid[(*[slice(None)] * self.lead, *found)]
        return self.shaped(grid, axis)

    def __iter__(self) -> Iterator[Any]:
        """Go through all places; what is done for one that is not chosen has to come to nothing, which is tried."""
        if self.place != 0 or self.lead != 1:
            raise Unsupported("a loop over the chosen rows")
        mask = self.choice.mask
        for j in range(self.choice.sizes[0]):
            self.choice.assume(functools.partial(mask.select, 0, j))
            yield Element(j, self.ndim - 1)

    def tolist(self) -> list[Any]:
        """Return all places, as a loop over them has them."""
        return list(self)

    def __len__(self) -> int:
        raise Unsupported("len() of the chosen rows")

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "device", "layout", "requires_grad", "is_cuda"):
            return getattr(self.grid, name)
        method = getattr(torch.Tensor, name)
        if not callable(method):
            raise Unsupported(f"`{name}` of chosen rows")
        return lambda *args, **named: self.choice.call(method, (self, *args), named)

    def dim(self) -> int:
        """Return how many dims a user sees."""
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or one size."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> Any:
        """Return how many there are, of which only whether there is one can be asked."""
        return Count(self.choice.assume, self.choice.mask.any, self.choice)

    nelement = numel

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Unsupported(getattr(func, "__name__", str(func)))


def _operator(name: str) -> Callable[..., Any]:
    def run(self: Rows, *others: Any) -> Any:
        return self.choice.call(getattr(torch.Tensor, name), (self, *others), {})

    return run


for _name in (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "mod", "floordiv"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "invert", "neg", "abs", "getitem", "matmul"),
    *("iadd", "isub", "imul", "itruediv"),
):  # fmt: skip
    setattr(Rows, f"__{_name}__", _operator(f"__{_name}__"))
Rows.__hash__ = object.__hash__  # type: ignore[method-assign,unused-ignore]


class Count:
    """How many rows are chosen: none is the one thing that can be asked, and the answer is no."""

    def __init__(
        self, assume: Assume, some: Callable[[], torch.Tensor], choice: Choice | None = None
    ) -> None:
        self._assume, self._any, self._choice = assume, some, choice

    def _some(self, other: Any, *least: int) -> bool:
        if type(other) is not int or other not in least:
            raise Unsupported("a number that is how many rows are chosen")
        self._assume(self._any)
        return True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Count) and other._choice is self._choice is not None:
            return True
        return other != -1 and not self._some(other, 0)

    def __gt__(self, other: Any) -> bool:
        return self._some(other, 0)

    def __ge__(self, other: Any) -> bool:
        return self._some(other, 0, 1)

    def __le__(self, other: Any) -> bool:
        return not self._some(other, 0)

    def __lt__(self, other: Any) -> bool:
        return not self._some(other, 1)

    def __bool__(self) -> bool:
        return self._some(0, 0)

    def item(self) -> Count:
        """Return the number."""
        return self

    __hash__ = object.__hash__

    def _refuse(self, *_: Any) -> Any:
        raise Unsupported("a number that is how many rows are chosen")

    __index__ = __int__ = __float__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __neg__ = _refuse


class Counts:
    """How often each number below `n` is in `numbers`, as `bincount` says."""

    def __init__(self, assume: Assume, numbers: torch.Tensor, n: int) -> None:
        self._counts = [
            Count(assume, functools.partial(_holds, numbers, number)) for number in range(n)
        ]

    def tolist(self) -> list[Count]:
        """Return the numbers."""
        return self._counts

    def __getitem__(self, at: int) -> Count:
        return self._counts[at]

    def __iter__(self) -> Iterator[Count]:
        return iter(self._counts)

    def cpu(self) -> Counts:
        """Return the same."""
        return self

    def __getattr__(self, name: str) -> Any:
        raise Unsupported(f"`{name}` of numbers that are how many rows are chosen")


def _holds(numbers: torch.Tensor, number: int) -> torch.Tensor:
    return (numbers == number).any()


class Element(int):
    """One place of a loop over chosen places, in so many dims of one."""

    dims: int

    def __new__(cls, value: int, dims: int) -> Element:
        """Return the place `value`."""
        found = super().__new__(cls, value)
        found.dims = dims
        return found

    def item(self) -> int:
        """Return the place."""
        return int(self)

    def __getitem__(self, key: int) -> Element:
        if not self.dims or key not in (0, -1):
            raise IndexError(key)
        return Element(self, self.dims - 1)

    def squeeze(self, *_: int) -> Element:
        """Return the place without dims."""
        return Element(self, 0)


# ---- shapes
def keys(key: Any, ndim: int) -> list[Any]:
    """Return what is asked of each dim of a tensor, and None for each new one."""
    found = list(key) if isinstance(key, tuple) else [key]
    rest = [slice(None)] * (ndim - sum(_taken(one) for one in found))
    where = next((i for i, one in enumerate(found) if one is ...), len(found))
    return [*found[:where], *rest, *found[where + 1 :]]


def _taken(one: Any) -> int:
    if one is None or one is ...:
        return 0
    return one.dim() if is_mask(one) else 1


def is_tensor(one: Any) -> bool:
    """Return whether it is no scalar, and no chosen rows."""
    return isinstance(one, torch.Tensor)


def is_mask(one: Any) -> bool:
    """Return whether an index is a mask of booleans."""
    return bool(isinstance(one, torch.Tensor) and one.dtype == torch.bool)


def _fill(sizes: list[Any], product: int) -> bool:
    """Put a size in place of a -1, so that the product is right; return whether it is."""
    if any(isinstance(n, Count) for n in sizes):
        return False
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        if not rest or product % rest:
            return False
        sizes[sizes.index(-1)] = product // rest
    return bool(math.prod(sizes) == product)


# ---- several operands
def aligned(operands: Sequence[Any]) -> tuple[Rows, list[Any]]:
    """Return operands as grids that broadcast against each other, and rows of the result's axis; scalars stay."""
    rows = [one for one in operands if isinstance(one, Rows)]
    sizes = [o.ndim for o in operands if isinstance(o, Rows | torch.Tensor)]
    ndim = max(sizes)
    padded = [one.padded(ndim) for one in rows]
    first = padded[0]
    if any(one.choice is not first.choice or one.axis != first.axis for one in padded):
        raise Unsupported("rows of two choices in one operator")
    found, left = [], iter(padded)
    for one in operands:
        if isinstance(one, Rows):
            found.append(next(left).grid)
        elif isinstance(one, torch.Tensor):
            found.append(_beside(one, first))
        else:
            found.append(one)
    return first, found


def _beside(tensor: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Return a tensor that is the same for all rows as a grid."""
    if tensor.dim() == 0:
        return tensor
    shape = [1] * (rows.ndim - tensor.dim()) + list(tensor.shape)
    if shape.pop(rows.axis) != 1:
        raise Unsupported("a tensor with a line for each chosen row")
    return tensor.reshape([1] * rows.lead + shape)


# ---- reading and writing a tensor at chosen places
class Key:
    """`tensor[key]` with a mask or chosen places in it. part: the tensor behind all other keys, a view of it.

    dims: of `part` that are chosen. at: what chooses, Rows each. axis: where the result has its rows.
    """

    def __init__(
        self, tensor: torch.Tensor, key: Any, choose: Callable[[torch.Tensor], Choice]
    ) -> None:
        plain: list[Any] = []
        self.dims: list[int] = []
        self.at: list[Rows] = []
        out = 0
        for one in keys(key, tensor.dim()):
            chosen = (
                choose(one).places() if is_mask(one) else (one,) if isinstance(one, Rows) else ()
            )
            for place in chosen:
                if place.ndim != 1 or place.dtype == torch.bool:
                    raise Unsupported("an index of several dims")
                self.dims.append(out)
                self.at.append(place)
                plain.append(slice(None))
                out += 1
            if not chosen:
                if not (one is None or isinstance(one, int | slice)):
                    raise Unsupported("an index beside chosen places")
                plain.append(one)
                out += one is None or not isinstance(one, int)
        self.part = tensor[tuple(plain)]
        self.choice = self.at[0].choice
        if any(place.choice is not self.choice for place in self.at):
            raise Unsupported("places of two choices in one index")
        together = self.dims == list(range(self.dims[0], self.dims[0] + len(self.dims)))
        self.axis = self.dims[0] if together else 0

    def _axes(self) -> list[int] | None:
        """Return the axis of the mask that each chosen dim is; None where a dim is no such axis."""
        axes = [place.place for place in self.at if place.place is not None]
        if len(set(axes)) < len(self.at):
            return None
        sizes = self.choice.sizes
        fits = all(self.part.shape[d] == sizes[a] for d, a in zip(self.dims, axes, strict=True))
        return axes if fits else None

    def read(self) -> Rows:
        """Return `tensor[key]`."""
        rest = [d for d in range(self.part.dim()) if d not in self.dims]
        row = [self.part.shape[d] for d in rest]
        axes = self._axes()
        if axes is None:
            moved = self.part.permute(*self.dims, *rest)
            grid = moved[tuple(torch.broadcast_tensors(*(p.grid for p in self.at)))]
            return Rows(self.choice, grid, self.axis)
        order = [self.dims[axes.index(a)] for a in sorted(axes)]
        sizes = [n if a in axes else 1 for a, n in enumerate(self.choice.sizes)]
        return Rows(self.choice, self.part.permute(*order, *rest).reshape(*sizes, *row), self.axis)

    def write(self, value: Any) -> None:
        """Write where the mask is true; of several values for one place the last."""
        axes = self._axes()
        if axes is None:
            raise Unsupported("writes to places that are computed")
        target = self.read()
        first, (_, grid) = aligned([target, value])
        if first.ndim != target.ndim or first.axis != target.axis:
            raise Unsupported("a value of more dims than what it is written to")
        if isinstance(grid, torch.Tensor) and not grid.dim():
            grid = grid.reshape([1] * target.grid.dim())
        rest = [d for d in range(self.part.dim()) if d not in self.dims]
        others = [a for a in range(target.lead) if a not in axes]
        if math.prod(self.choice.sizes[a] for a in others) > MOST:
            raise Unsupported("writes of many rows to one place")
        order = sorted(axes)
        back = [
            order.index(axes[self.dims.index(d)]) if d in self.dims else len(order) + rest.index(d)
            for d in range(self.part.dim())
        ]
        found = self.part
        for spot in itertools.product(*(range(self.choice.sizes[a]) for a in others)):
            mask, one = self.choice.mask, grid
            for a, j in reversed(list(zip(others, spot, strict=True))):
                mask = mask.select(a, j)
                one = one.select(a, min(j, one.shape[a] - 1)) if is_tensor(one) else one
            mask = mask.reshape(*mask.shape, *[1] * len(rest)).permute(back)
            found = torch.where(mask, one.permute(back) if is_tensor(one) else one, found)
        self.part.copy_(found)


def add_at(tensor: torch.Tensor, dim: int, index: Any, source: Any, alpha: Any = 1) -> torch.Tensor:
    """Add chosen rows to those of `tensor` along `dim` that `index` names, as `index_add_` does."""
    dim = dim % tensor.dim()
    if not (isinstance(index, Rows) and isinstance(source, Rows) and index.ndim == 1):
        raise Unsupported("index_add of chosen rows with other places")
    if index.choice is not source.choice or source.axis != dim:
        raise Unsupported("rows of two choices in one operator")
    choice, rank = index.choice, source.lead
    values = choice.only(source.grid if alpha == 1 else source.grid * alpha)
    if index.place is not None and choice.sizes[index.place] == tensor.shape[dim]:
        others = [a for a in range(rank) if a != index.place]
        total = values.sum(others, dtype=values.dtype) if others else values
        return tensor.add_(total.movedim(0, dim))
    flat = values.reshape(-1, *source.row).movedim(0, dim)
    return tensor.index_add_(dim, index.grid.expand(choice.sizes).reshape(-1), flat)
