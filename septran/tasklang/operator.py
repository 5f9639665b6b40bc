"""An operator: a logic file's entry task with shapes, reference, sample dims and input domains."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from septran.domain import Domain, DomainKind
from septran.errors import InputError, closest
from septran.reference import Reference, ReferenceKind
from septran.tasklang.primitives import DTYPE_ALIASES
from septran.tasklang.tree import Task

MAX_SIZE = 1 << 40
FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """Dims (names or integer expressions of names) and dtype ("T" = the operator's dtype)."""

    dims: tuple[str, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What `septran gen --op NAME` needs to know besides the logic.

    tensors: parameter -> "M K" (dims; integer expressions such as "(H + 2 - 3) // 2 + 1" are written
        without spaces) with an optional ":dtype" ("M:int64"). Order is the entry task's order.
    outputs: the parameters the entry task writes.
    scalars: parameter -> float constant, or an expression over dims ("D ** -0.5"); fixed at compile
        time.
    dims: sample dims. odd_dims: further dims, none a multiple of any tile.
    reference: torch meaning and error model. domains: input -> allowed values. samples: input -> the bytes
        of values of its own (a module's weights), judged as one more family. limits: dim -> the least and the largest size
        that it is for, where its file says so.
    """

    name: str
    about: str
    entry: Task
    tensors: Mapping[str, str]
    outputs: tuple[str, ...]
    dims: Mapping[str, int]
    odd_dims: tuple[Mapping[str, int], ...]
    reference: Reference
    scalars: Mapping[str, float | str] = field(default_factory=dict)
    domains: Mapping[str, Domain] = field(default_factory=dict)
    dtypes: tuple[str, ...] = FLOATS
    samples: Mapping[str, bytes] = field(default_factory=dict)
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def types(self) -> dict[str, TensorType]:
        """Return each tensor parameter's type."""
        return {name: _type(text) for name, text in self.tensors.items()}

    def bind_dims(self, given: Mapping[str, int]) -> dict[str, int]:
        """Return all dims, `given` over the sample dims.

        Raises:
            InputError: C110 for an unknown dim, C111 for a size below 1, or outside of `limits`.
        """
        for name, value in given.items():
            if name not in self.dims:
                raise InputError.of(
                    "C110",
                    f"operator {self.name} has no dim {name!r}; it has "
                    f"{', '.join(self.dims)}{closest(name, self.dims)}",
                )
            if value < 1:
                raise InputError.of("C111", f"dim {name}={value}: a size is at least 1")
            if value > MAX_SIZE:
                raise InputError.of("C111", f"dim {name}={value}: a size is at most {MAX_SIZE}")
            low, high = self.limits.get(name, (1, MAX_SIZE))
            if not low <= value <= high:
                raise InputError.of(
                    "C111",
                    f"dim {name}={value}: {self.name} is for {low} to {high}, as its file says",
                )
        return {**self.dims, **given}

    def shape(self, param: str, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of `param` for `dims`; raises InputError C111 when a size is below 1."""
        shape = tuple(evaluate_dim(d, dims) for d in _type(self.tensors[param]).dims)
        if any(n < 1 for n in shape):
            raise InputError.of(
                "C111", f"{self.name}: {param} would have shape {shape} for {dict(dims)}"
            )
        return shape

    def scalar_values(self, dims: Mapping[str, int]) -> dict[str, float]:
        """Return the compile-time scalars for `dims`."""
        return {
            name: float(eval_scalar(value, dims)) if isinstance(value, str) else value
            for name, value in self.scalars.items()
        }


@functools.lru_cache(4096)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@functools.lru_cache(4096)
def _type(text: str) -> TensorType:
    body, _, dtype = text.partition(":")
    canonical = DTYPE_ALIASES.get(dtype, "T") if dtype else "T"
    return TensorType(dims=tuple(body.split()), dtype=canonical)


def operator_problem(op: Any) -> str:
    """Return what is wrong with an operator's own data, "" when nothing is."""
    if not isinstance(op.entry, Task):
        return f"entry is a {type(op.entry).__name__}, not a task"
    if not isinstance(op.reference, Reference) or not callable(op.reference.fn):
        return "reference must be a Reference with a function"
    if not isinstance(op.name, str) or not re.fullmatch(r"\w[\w.-]{0,99}", op.name):
        return f"name must be a word of letters, digits, _ . and -, found {str(op.name)[:80]!r}"
    if not isinstance(op.reference.ulps, int | float) or isinstance(op.reference.ulps, bool):
        return f"reference: ulps is {op.reference.ulps!r}, not a number"
    texts = (op.tensors, op.scalars, op.dims, *(op.odd_dims or ()))
    if not isinstance(op.odd_dims, tuple | list) or not all(isinstance(t, Mapping) for t in texts):
        return "tensors, scalars and dims are mappings; odd_dims is a tuple of mappings"
    for dims in (op.dims, *op.odd_dims):
        for name, size in dims.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                return f"dim {name} = {size!r}; a size is an integer of at least 1"
            if size > MAX_SIZE:
                return f"dim {name}: a size is at most {MAX_SIZE}"
            if name not in op.dims:
                return f"odd_dims has {name!r}; dims are {', '.join(map(str, op.dims))}"
    for name in (*op.tensors, *op.scalars):
        if name not in op.entry.params:
            return (
                f"{name!r} is no parameter of {op.entry.name}{closest(str(name), op.entry.params)}"
            )
    missing = [p for p in op.entry.params if p not in op.tensors and p not in op.scalars]
    if missing:
        return f"parameter {missing[0]!r} of {op.entry.name} is neither in tensors nor in scalars"
    known = ", ".join(map(str, op.dims))
    for name, text in op.tensors.items():
        try:
            op.shape(name, op.dims)
        except KeyError as e:
            return f"tensors: {name} is {text!r}, which has no dim {e}; dims are {known}"
        except (SyntaxError, ValueError, TypeError, AttributeError, ZeroDivisionError) as e:
            return f"tensors: {name} is {text!r}: {e}"
    try:
        op.scalar_values(op.dims)
    except (ValueError, TypeError, KeyError, SyntaxError, ArithmeticError) as e:
        return f"scalars: {dict(op.scalars)!r}: {type(e).__name__} {e}"
    for what, words, among in (
        ("outputs", op.outputs, tuple(op.tensors)),
        ("domains", op.domains, tuple(op.tensors)),
        ("dtypes", op.dtypes, tuple(DTYPE_ALIASES.values())),
    ):
        for word in words if isinstance(words, tuple | list | Mapping) else (words,):
            if word not in among:
                return f"{what}: {word!r} is not one of {', '.join(dict.fromkeys(among))}"
    return "" if op.outputs else "outputs: an operator writes at least one tensor"


def unknown_word(op: Any) -> tuple[str, tuple[str, ...]]:
    """Return what an operator says that is in no closed list, and the keywords that lead to it; "" when all is known."""
    kinds = get_args(ReferenceKind)
    if op.reference.kind not in kinds:
        return _unknown("reference: kind", op.reference.kind, kinds), ("reference", "kind")
    for name, text in op.tensors.items():
        dtype = text.partition(":")[2]
        if dtype and dtype not in (*DTYPE_ALIASES, "T"):
            return _unknown(f"tensors: dtype of {name}", dtype, DTYPE_ALIASES), ("tensors", name)
    for name, domain in op.domains.items():
        if not isinstance(domain, Domain):
            return f"domains: {name} is {domain!r}, not a Domain", ("domains", name)
        if domain.kind not in get_args(DomainKind):
            told = _unknown(f"domains: kind of {name}", domain.kind, get_args(DomainKind))
            return told, ("domains", name, "kind")
        for end in ("low", "high"):
            value = getattr(domain, end)
            if isinstance(value, str) and value not in op.dims:
                told = _unknown(f"domains: {end} of {name}", value, op.dims)
                return told, ("domains", name, end)
    return "", ()


def _unknown(what: str, word: object, known: Iterable[str]) -> str:
    known = tuple(known)
    return f"{what} {word!r} is unknown; known: {', '.join(known)}{closest(str(word), known)}"


def eval_scalar(text: str, dims: Mapping[str, int]) -> float:
    """Return the value of an expression over dim names with + - * / ** and numbers."""

    def visit(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int(value) | float(value)):
                return float(value)
            case ast.Name(id=name):
                return float(dims[name])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -visit(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _REAL:
                return float(_REAL[type(op)](visit(left), visit(right)))
        raise ValueError(f"scalar expression {text!r} is not arithmetic over dims")

    return visit(ast.parse(text, mode="eval").body)


_BOTH = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_REAL: Mapping[type[ast.operator], Callable[[float, float], Any]] = {
    **_BOTH,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_OPS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    **_BOTH,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate_dim(text: str, dims: Mapping[str, int]) -> int:
    """Return the value of an integer expression over dim names (+ - * // % and parentheses)."""

    def visit(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return dims[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPS:
                return _OPS[type(op)](visit(left), visit(right))
        raise ValueError("a dim is names and numbers with + - * // % and no spaces")

    return int(text) if text.isdecimal() else visit(_parsed(text))
