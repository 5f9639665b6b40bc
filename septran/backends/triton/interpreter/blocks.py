"""Block pointers, which files for Triton before 3.7 hold: addresses and masks of a block of a tensor.

Lies beside a judged kernel as septran_triton_blocks.py. The installed Triton has none, so they are made of its tensors here:
a block of a base address, a shape, strides and offsets in elements. Dims that `boundary_check` names are masked at both ends; what
is masked reads as zeros or NaN where `padding_option` says so, and as noise where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

_PADDING = {"": None, "zero": 0.0, "nan": float("nan")}


@dataclass(frozen=True)
class Block:
    """What `tl.make_block_ptr` returns. shape, strides, offsets: numbers or scalars, one a dim; block_shape: numbers."""

    base: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block_shape: tuple[int, ...]

    @property
    def dtype(self) -> Any:
        """The pointer's type, whose element_ty is the elements'."""
        return self.base.dtype

    @property
    def type(self) -> Any:
        """As `dtype`."""
        return self.base.type


def install_blocks(tl: Any) -> None:
    """Give `tl` block pointers. Call it before a kernel is launched: launches wrap what the module holds then."""
    stock = {"load": tl.load, "store": tl.store}

    def whole(values: Sequence[Any]) -> tuple[int, ...]:
        return tuple(int(getattr(v, "value", v)) for v in values)

    def make_block_ptr(
        base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
    ) -> Block:
        extents = whole(block_shape)
        ranks = {len(tuple(v)) for v in (shape, strides, offsets, block_shape, order)}
        if ranks != {len(extents)} or sorted(whole(order)) != list(range(len(extents))):
            raise ValueError(f"a block pointer of {sorted(ranks)} dims, order {whole(order)}")
        return Block(base, tuple(shape), tuple(strides), tuple(offsets), extents)

    def advance(block: Block, offsets: Any) -> Block:
        moved = tuple(a + b for a, b in zip(block.offsets, offsets, strict=True))
        return replace(block, offsets=moved)

    def places(block: Block, checked: Sequence[int]) -> tuple[Any, Any]:
        """Return addresses and mask (None: all) of a block's elements."""
        at, mask = block.base, None
        rank = len(block.block_shape)
        for dim, extent in enumerate(block.block_shape):
            index = tuple(slice(None) if d == dim else None for d in range(rank))
            along = (block.offsets[dim] + tl.arange(0, extent))[index if rank > 1 else slice(None)]
            at = at + along * block.strides[dim]
            if dim in checked:
                inside = (along >= 0) & (along < block.shape[dim])
                mask = inside if mask is None else mask & inside
        at = tl.broadcast_to(at, block.block_shape)
        return at, None if mask is None else tl.broadcast_to(mask, block.block_shape)

    def load(
        pointer: Any,
        mask: Any = None,
        other: Any = None,
        boundary_check: Any = (),
        padding_option: Any = "",
        **options: Any,
    ) -> Any:
        if not isinstance(pointer, Block):
            return stock["load"](pointer, mask, other, **options)
        if mask is not None or other is not None:
            raise ValueError(
                "`mask` and `other` are not for block pointers: they have boundary_check"
            )
        at, inside = places(pointer, whole(boundary_check))
        fill = _PADDING[str(getattr(padding_option, "value", padding_option) or "")]
        return stock["load"](at, inside, None if inside is None else fill, **options)

    def store(
        pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), **options: Any
    ) -> Any:
        if not isinstance(pointer, Block):
            return stock["store"](pointer, value, mask, **options)
        if mask is not None:
            raise ValueError("`mask` is not for block pointers: they have boundary_check")
        at, inside = places(pointer, whole(boundary_check))
        return stock["store"](at, value, inside, **options)

    tl.make_block_ptr, tl.advance = make_block_ptr, advance
    for name, function in (("load", load), ("store", store)):
        _as_builtin(function, stock[name])
        setattr(tl, name, function)


def _as_builtin(function: Callable[..., Any], stock: Any) -> None:
    """Mark a function as one of the language's, which launches hand their builder."""
    function.__dict__.update({k: v for k, v in vars(stock).items() if k.startswith("__triton")})
    function.__module__ = stock.__module__
