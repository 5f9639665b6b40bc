"""Index tensors of a printed Triton kernel: shapes, elements and conditions as expressions of a position."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace

from septran.backends.reading import python_syntax as py
from septran.ir.expr import Bin, Const, Expr, Var, free, make, substitute
from septran.prove.printed import Test, Unreadable
from septran.prove.text_held import positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Integers: `at` over the positions' variables. wide: in 64 bits. shape: () = a number."""

    shape: tuple[int, ...]
    at: Expr
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Truth values: whether all `tests` hold at a position."""

    shape: tuple[int, ...]
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Elements of an array. wide: no number that was added can need more than the bits it has."""

    base: str
    shape: tuple[int, ...]
    at: Expr
    wide: bool


@dataclass(slots=True)
class Tensors:
    """Evaluates expressions of numbers and tensors.

    numbers, tensors, arrays: what names stand for. bound: all names that stand for something. needs: gets what is divided; Triton's division truncates.
    """

    numbers: Mapping[str, Expr]
    tensors: Mapping[str, Tensor]
    arrays: Mapping[str, str]
    bound: Container[str]
    needs: list[Expr]

    def number(self, node: ast.expr) -> Expr:
        """Return a scalar index. Raises Unreadable: it is none."""
        return py.index(node, self.numbers, self.needs)

    def is_number(self, node: ast.expr) -> bool:
        """Whether an expression has no tensors."""
        return not any(
            isinstance(n, ast.Attribute | ast.Subscript)
            or (isinstance(n, ast.Name) and n.id not in self.numbers and n.id not in _BUILTINS)
            for n in ast.walk(node)
        )

    def tensor(self, node: ast.expr) -> Tensor:
        """Return integers. Raises Unreadable: it is something else."""
        if self.is_number(node):
            return Tensor(shape=(), at=self.number(node))
        match node:
            case ast.Name(id=name) if name in self.tensors:
                return self.tensors[name]
            case ast.BinOp(left=a, right=b):
                return self._operate(node, self.tensor(a), self.tensor(b))
            case ast.Subscript(value=value):
                inner = self.tensor(value)
                shape, put = _along(node, inner.shape)
                return replace(inner, shape=shape, at=put(inner.at))
            case ast.Call(func=ast.Attribute(value=value, attr="to"), args=[kind], keywords=[]):
                if py.dotted(kind) == "tl.int64":
                    return replace(self.tensor(value), wide=True)
        call = py.called(node)
        if call is not None and call.name == "tl.arange" and len(call.args) == 2 and not call.named:
            first, last = (py.whole(a) for a in call.args)
            if first is not None and last is not None:
                size = last - first
                if size < 1 or size & (size - 1):
                    raise py.broken(node, f"a tile of {size}, which is no power of two")
                if first == 0:
                    return Tensor(shape=(last,), at=Var(positions(1)[0]))
        raise self.unknown(node)

    def unknown(self, node: ast.expr) -> Unreadable:
        """Return the error that an expression is not read, or that its name stands for nothing."""
        if isinstance(node, ast.Name) and node.id not in self.bound:
            return py.broken(node, f"nothing is called {node.id}")
        return py.wrong(node)

    def mask(self, node: ast.expr) -> Mask:
        """Return a condition. Raises Unreadable: it is something else."""
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                m, n = self.mask(left), self.mask(right)
                shape = _broadcast(node, m.shape, n.shape)
                tests = (*_spread(m.tests, m.shape, shape), *_spread(n.tests, n.shape, shape))
                return Mask(shape=shape, tests=tests)
            case ast.Subscript(value=value):
                inner = self.mask(value)
                shape, put = _along(node, inner.shape)
                tests = tuple(Test(t.op, put(t.a), put(t.b)) for t in inner.tests)
                return Mask(shape=shape, tests=tests)
        compared = py.comparison(node)
        if compared is None:
            raise py.wrong(node, f"the condition {ast.unparse(node)}")
        op, x, y = compared
        a, b = self.tensor(x), self.tensor(y)
        shape = _broadcast(node, a.shape, b.shape)
        return Mask(
            shape=shape, tests=(Test(op, _flat(a.at, a.shape, shape), _flat(b.at, b.shape, shape)),)
        )

    def tests(self, node: ast.expr, shape: tuple[int, ...]) -> tuple[Test, ...]:
        """Return the conditions of a mask on a tile of `shape`. Raises Unreadable: it is no such mask."""
        mask = self.mask(node)
        if _broadcast(node, mask.shape, shape) != shape:
            raise py.wrong(node, f"a mask of {mask.shape} on a tile of {shape}")
        return _spread(mask.tests, mask.shape, shape)

    def address(self, node: ast.expr) -> Address:
        """Return `array + index + index`. Raises Unreadable: it is something else."""
        match node:
            case ast.Name(id=name) if name in self.arrays:
                return Address(base=self.arrays[name], shape=(), at=Const(0), wide=True)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                base, more = self.address(left), self.tensor(right)
                shape = _broadcast(node, base.shape, more.shape)
                step = _flat(more.at, more.shape, shape)
                at = make(
                    "+" if isinstance(op, ast.Add) else "-", _flat(base.at, base.shape, shape), step
                )
                wide = base.wide and (more.wide or isinstance(more.at, Const))
                return Address(base=base.base, shape=shape, at=at, wide=wide)
        raise py.wrong(node, f"the address {ast.unparse(node)}")

    def _operate(self, node: ast.BinOp, a: Tensor, b: Tensor) -> Tensor:
        shape = _broadcast(node, a.shape, b.shape)
        op = py.operator(node)
        if op in ("//", "%"):
            raise py.wrong(node)
        at = py.operate(node, op, _flat(a.at, a.shape, shape), _flat(b.at, b.shape, shape))
        return Tensor(shape=shape, at=at, wide=a.wide or b.wide)


_BUILTINS = ("min", "max")


def never_negative(e: Expr) -> bool:
    """Whether an expression shows at once that it is not negative; loop variables and blocks count from 0."""
    match e:
        case Const(value):
            return value >= 0
        case Var():
            return True
        case Bin(op, a, b):
            return op != "-" and never_negative(a) and never_negative(b)
    return False


def _broadcast(node: ast.AST, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    if not a or not b:
        return a or b
    if len(a) != len(b) or any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        raise py.broken(node, f"tiles of {a} and {b} do not fit")
    return tuple(max(m, n) for m, n in zip(a, b, strict=True))


def _flat(e: Expr, shape: tuple[int, ...], wider: tuple[int, ...]) -> Expr:
    """Return an element of a tensor of `shape` at a position of one of `wider`."""
    names = zip(positions(len(shape)), shape, wider, strict=False)
    single = {p: Const(0) for p, n, m in names if n == 1 and m != 1}
    return substitute(e, dict(single)) if single.keys() & free(e) else e


def _spread(
    tests: tuple[Test, ...], shape: tuple[int, ...], wider: tuple[int, ...]
) -> tuple[Test, ...]:
    return tuple(Test(t.op, _flat(t.a, shape, wider), _flat(t.b, shape, wider)) for t in tests)


def _along(
    node: ast.Subscript, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], Callable[[Expr], Expr]]:
    """Return the shape of `x[:, None]`, and what gives its elements."""
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    kinds = [
        isinstance(i, ast.Slice) and i.lower is i.upper is i.step is None
        for i in index
        if not (isinstance(i, ast.Constant) and i.value is None)
    ]
    if not all(kinds) or len(kinds) != len(shape):
        raise py.wrong(node)
    new = positions(len(index))
    sizes: list[int] = []
    moved: dict[str, Expr] = {}
    for axis, i in enumerate(index):
        if isinstance(i, ast.Slice):
            moved[positions(len(shape))[len(moved)]] = Var(new[axis])
            sizes.append(shape[len(moved) - 1])
        else:
            sizes.append(1)
    return tuple(sizes), lambda e: substitute(e, moved)
