"""What the text of a launch says of the blocks that a step holds, and how it says a place in one."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from septran.backends.pallas.shapes import JNP_DTYPE, free_names, held
from septran.backends.reading import python_syntax as py
from septran.ir.expr import Const, Expr, Var
from septran.ir.nodes import Buffer

_DTYPES = {text: dtype for dtype, text in JNP_DTYPE.items()}


def dtype_of(node: ast.expr) -> str:
    """Return the dtype of `jnp.float32`. Raises Unreadable: it is none."""
    found = _DTYPES.get(py.dotted(node))
    if found is None:
        raise py.wrong(node)
    return found


def is_for(name: str, buffer: Buffer) -> bool:
    """Whether the text's name is a buffer's."""
    return free_names().may_be(name, buffer.name)


def axis_of(axis: int) -> Var:
    """Return what stands for the step's number along an axis of the grid; no name of the text has a prime."""
    return Var(f"axis_{axis}'")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOf:
    """What a step holds of an array: extents per dim, which block that is, the zeros around the array.

    scratch: it is a tile; slots: of a ring, the first dim counts them. copied: all of it stays where it is, only copies touch it.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    index: tuple[Expr, ...]
    zeros: tuple[tuple[int, int], ...]
    scratch: bool = False
    slots: bool = False
    copied: bool = False

    @staticmethod
    def is_whole(node: ast.expr) -> bool:
        """Whether a launch leaves an array where it is."""
        return ast.unparse(node) == "pl.BlockSpec(memory_space=pl.ANY)"

    @classmethod
    def read(
        cls, node: ast.expr, buffer: Buffer, zeros: tuple[tuple[int, int], ...], axes: int
    ) -> BlockOf:
        """Read `pl.BlockSpec((16, 64), lambda i0, i1: (i0, 0))`. Raises Unreadable: it is something else."""
        if cls.is_whole(node):
            sizes = held(buffer.shape)
            around = tuple(a + n + b for n, (a, b) in zip(sizes, zeros, strict=True))
            start = (Const(0),) * len(around)
            return cls(buffer=buffer, shape=around, index=start, zeros=zeros, copied=True)
        match py.called(node):
            case py.Call(
                name="pl.BlockSpec",
                args=(shape, ast.Lambda(args=ast.arguments(args=given), body=ast.Tuple(elts=told))),
                named={},
            ) if len({a.arg for a in given}) == len(given) == axes:
                names: dict[str, Expr] = {a.arg: axis_of(k) for k, a in enumerate(given)}
                index = tuple(py.index(e, names) for e in told)
                sizes = py.shape(shape)
                plain = all(isinstance(e, Const | Var) for e in index)
                if plain and len(index) == len(sizes) == len(zeros) and min(sizes) > 0:
                    return cls(buffer=buffer, shape=sizes, index=index, zeros=zeros)
        raise py.wrong(node)

    def moves(self, axis: int) -> bool:
        """Whether steps along an axis hold other blocks."""
        return axis_of(axis) in self.index


def is_all(node: ast.expr) -> bool:
    """Whether a place is `...`."""
    return isinstance(node, ast.Constant) and node.value is ...


def words_of(node: ast.expr) -> list[ast.expr]:
    """Return what a place says of each dim."""
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def at_of(node: ast.expr) -> ast.Subscript:
    """Return `ref[place]` of `ref.at[place]`."""
    match node:
        case ast.Subscript(value=ast.Attribute(value=ref, attr="at"), slice=place):
            return ast.copy_location(ast.Subscript(value=ref, slice=place, ctx=ast.Load()), node)
    raise py.wrong(node)
