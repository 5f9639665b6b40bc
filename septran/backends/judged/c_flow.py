"""The accesses of C++ and CUDA C++ functions, from what `c_source` read and the numbers of one call."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from septran.backends.judged.c_functions import CFile, Closure, CSource
from septran.backends.judged.c_ratios import (
    FLOATS,
    Ratio,
    forgotten,
    of_floats,
    ratio_of,
    rounded,
    whole,
)
from septran.backends.judged.c_words import SIZES
from septran.backends.judged.expressions import COMPARED
from septran.backends.judged.flow import Flow, assigned
from septran.backends.judged.values import Other, Pointer, Tile, Value, numbers
from septran.prove.foreign.launch import Memory, NotRead
from septran.prove.foreign.quantity import Number, Space, Where

_ATOMIC = ("atomicAdd", "atomicSub", "atomicMax", "atomicMin", "atomicExch", "atomicCAS", "atomicOr", "atomicAnd", "atomicInc")  # fmt: skip
_CASTS = frozenset(("int", "unsigned", "size_t", "long", "int64_t", "uint32_t", "int32_t", "ptrdiff_t", "unsigned int", "long long"))  # fmt: skip
_PURE = re.compile(
    r"__\w+|make_\w+|(f?(abs|max|min|mod)|f?ma|exp|exp2|exp10|expm1|log\w*|r?sqrt|r?cbrt|pow|a?(sin|cos|tan)h?|atan2|erfc?|floor"
    r"|ceil|l?l?round|l?l?rint|trunc|copysign|isnan|isinf|isfinite|signbit|hypot|fdim|[lt]gamma|nearbyint|clamp|abs|half|saturate"
    r"|u?int_as_float|numeric_limits|lowest|infinity|max|min|warpSize|omp_get_\w+|clock64|bit_cast|popcount)[fl]?"
)
"""functions that touch no memory of the kernel's"""
_PLAIN = frozenset(
    "printf assert __builtin_assume __threadfence __threadfence_block __prefetch".split()
)


@dataclass(frozen=True, slots=True)
class Array:
    """An array with extents: an element is reached by one index each."""

    memory: str
    dims: tuple[int, ...]
    at: Number


class CFlow(Flow):
    """The walk over one C function. memories: grows with the arrays that are declared."""

    def __init__(
        self,
        file: CFile,
        space: Space,
        start: Where,
        memories: dict[str, Memory],
        sizes: dict[str, int],
    ) -> None:
        """sizes: memory -> bytes of an element."""
        super().__init__(space, start)
        self.file, self.memories, self.sizes = file, memories, sizes
        self.declared: dict[str, int] = {}
        self.dynamic_bytes: int | None = None
        self.atomic = False
        self.at_file_level: set[str] = set()
        for stmt in file.declared:
            self.statement(stmt)
        self.at_file_level = set(self.env)

    # ---- statements
    def statement(self, stmt: ast.stmt) -> None:
        """Follow one statement; `#pragma omp` holds the one below it."""
        if isinstance(stmt, ast.With):
            call = stmt.items[0].context_expr
            assert isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant)
            self.pragma(str(call.args[0].value), stmt)
            return
        super().statement(stmt)

    def pragma(self, text: str, stmt: ast.With) -> None:
        """Follow a statement below `#pragma omp`."""
        words = set(text.replace("(", " ").split())
        if "simd" in words and "parallel" not in words and "for" not in words:
            self.run(stmt.body)
            return
        raise NotRead(stmt.lineno, f"{text} is not read")

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a name, or store to an element."""
        if isinstance(target, ast.Subscript):
            place = self.place(target)
            if isinstance(place, Pointer):
                known = (
                    self.arith.constant(self._number(value))
                    if isinstance(value, int | Tile)
                    else None
                )
                self.touch(
                    "atomic" if self.atomic else "store", place, target.lineno, self.always, known
                )
            return
        if isinstance(target, ast.Attribute):
            inner = target.value
            if isinstance(inner, ast.Subscript):
                self.assign(inner, Tile(None))
            return
        if isinstance(target, ast.Name) and target.id in self.at_file_level:
            raise NotRead(target.lineno, f"{target.id} is a variable of the file, which others see")
        super().assign(target, forgotten(value))

    @property
    def always(self) -> Where:
        """No guard."""
        return Where(self.space.everywhere)

    # ---- places
    def place(self, node: ast.expr) -> Value:
        """Return the address of what an expression names, or what it is if it has none."""
        match node:
            case ast.Subscript():
                base = self.evaluate(node.value)
                index = self._number(self.evaluate(node.slice))
                if isinstance(base, Array):
                    return self._element(base, index, node.lineno)
                if isinstance(base, Pointer):
                    step = self.arith.mul(index, base.width)
                    at = self.arith.add(base.at, step)
                    why = base.why or ("" if at is not None else "its address depends on data")
                    return replace(base, at=at, why=why)
                if isinstance(base, Other):
                    raise NotRead(
                        node.lineno, f"an element of {base.name or 'something'} that is not read"
                    )
                return Tile(None)
            case ast.Call(func=ast.Name(id="__cast__")):
                return self.evaluate(node)
        return self.evaluate(node)

    def _element(self, array: Array, index: Number, line: int) -> Value:
        rest = 1
        for extent in array.dims[1:]:
            rest *= extent
        at = self.arith.add(array.at, self.arith.mul(index, rest))
        if len(array.dims) > 1:
            return Array(array.memory, array.dims[1:], at)
        why = "" if at is not None else "its address depends on data"
        return Pointer(array.memory, at, (), 1, why)

    # ---- expressions
    def _subscript(self, node: ast.Subscript) -> Value:
        place = self.place(node)
        if not isinstance(place, Pointer):
            return place
        self.touch("atomic" if self.atomic else "load", place, node.lineno, self.always)
        return Tile(None)

    def _number(self, value: Value) -> Number:
        if isinstance(value, Tile) and value.where is not None:
            return self.arith.choose(value.where, 1, 0)
        return super()._number(value)

    def _decayed(self, value: Value) -> Value:
        return (
            Pointer(value.memory, value.at)
            if isinstance(value, Array) and len(value.dims) == 1
            else value
        )

    def _binary(self, op: type[ast.operator], a: Value, b: Value, line: int) -> Value:
        a, b = self._decayed(a), self._decayed(b)
        if isinstance(a, Array) or isinstance(b, Array):
            return self._rows(op, a, b, line)
        if isinstance(b, Pointer) and op is ast.Add and not isinstance(a, Pointer):
            a, b = b, a
        if isinstance(a, Pointer) and not isinstance(b, Pointer):
            step = self.arith.mul(self._number(b), a.width)
            at = self.arith.add(a.at, step) if op is ast.Add else self.arith.sub(a.at, step)
            return replace(
                a, at=at, why=a.why or ("" if at is not None else "its address depends on data")
            )
        if isinstance(a, float | Ratio) or isinstance(b, float | Ratio):
            return of_floats(op, a, b)
        x, y = self._number(a), self._number(b)
        found = self.arithmetic(op, x, y)
        return found if isinstance(found, int) else Tile(found)

    def _rows(self, op: type[ast.operator], a: Value, b: Value, line: int) -> Value:
        """`array + k` of an array of arrays: a pointer to rows."""
        if not isinstance(a, Array) or op is not ast.Add:
            raise NotRead(line, "arithmetic of an array of arrays")
        rest = 1
        for extent in a.dims[1:]:
            rest *= extent
        return replace(a, at=self.arith.add(a.at, self.arith.mul(self._number(b), rest)))

    def _unary(self, op: ast.unaryop, value: Value) -> Value:
        if isinstance(op, ast.Not):
            found = self.truth(value)
            return not found if isinstance(found, bool) else Tile(None, (), found.negated())
        if isinstance(op, ast.UAdd):
            return value
        if isinstance(value, float):
            return -value
        n = self._number(value)
        found_n = self.arith.sub(0, n)
        if isinstance(op, ast.Invert):
            found_n = self.arith.sub(found_n, 1)
        return found_n if isinstance(found_n, int) else Tile(found_n)

    def _compare(self, op: ast.cmpop, a: Value, b: Value) -> Value:
        x, y = self._number(a), self._number(b)
        found = self.arith.compare(COMPARED[type(op)], x, y)
        if isinstance(x, int) and isinstance(y, int):
            return not found.set.is_empty()
        return Tile(None, (), found)

    def _bool(self, node: ast.BoolOp) -> Value:
        every = isinstance(node.op, ast.And)
        found: Where | None = None
        before = self.when
        try:
            for one in node.values:
                part = self.truth(self.evaluate(one))
                if isinstance(part, bool):
                    if part is not every:
                        return part
                    continue
                found = part if found is None else (found & part if every else found | part)
                self.when = self.when & (part if every else part.negated())
        finally:
            self.when = before
        return every if found is None else Tile(None, (), found)

    def _choice(self, node: ast.IfExp) -> Value:
        found = self.truth(self.evaluate(node.test))
        if isinstance(found, bool):
            return self.evaluate(node.body if found else node.orelse)
        before = self.when
        try:
            self.when = before & found
            yes = self.evaluate(node.body)
            self.when = before & found.negated()
            no = self.evaluate(node.orelse)
        finally:
            self.when = before
        if numbers(yes) is None or numbers(no) is None:
            return Tile(None)
        return self._either(found, yes, no)

    def _attribute(self, node: ast.Attribute) -> Value:
        if isinstance(node.value, ast.Name) and node.value.id not in self.env:
            found = self.builtin(node.value.id, node.attr)
            if found is not None:
                return found
        base = self.evaluate(node.value)
        if isinstance(base, tuple) and node.attr in ("x", "y", "z"):
            return base["xyz".index(node.attr)]
        if isinstance(base, Other):
            raise NotRead(node.lineno, f"{base.name}.{node.attr} is not read")
        return Tile(None)

    def builtin(self, name: str, part: str) -> Value | None:
        """Return a variable that the language has, as threadIdx.x; None when there is none."""
        return None

    # ---- calls
    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute):
            return self.method(node)
        if not isinstance(node.func, ast.Name):
            raise NotRead(node.lineno, "a call that is not read")
        name = node.func.id
        special: Callable[[ast.Call], Value] | None = (
            getattr(self, f"_do{name}", None) if name.startswith("__") else None
        )
        if special is not None:
            return special(node)
        args = [self.evaluate(a) for a in node.args]
        if isinstance(closure := self.env.get(name), Closure):
            return self.closed(closure, args, node.lineno)
        if name in self.file.functions:
            templates = next((self.evaluate(k.value) for k in node.keywords), ())
            return self.inlined(self.file.functions[name], args, tuple(templates), node.lineno)
        if name in _ATOMIC:
            if not isinstance(args[0], Pointer):
                raise NotRead(node.lineno, "an atomic operation on something that is not read")
            self.touch("atomic", args[0], node.lineno, self.always)
            return Tile(None)
        return self.called(name, args, node)

    def called(self, name: str, args: list[Value], node: ast.Call) -> Value:
        """Follow a call of a function that is not the file's."""
        if name in ("min", "max") and len(args) == 2:
            if isinstance(args[0], float) or isinstance(args[1], float):
                return Tile(None)
            pick = self.arith.least if name == "min" else self.arith.most
            found = pick(self._number(args[0]), self._number(args[1]))
            return found if isinstance(found, int) else Tile(found)
        if name == "dim3":
            return (*map(whole, args), 1, 1, 1)[:3]
        if len(args) == 1 and name in FLOATS:
            return ratio_of(args[0]) or Tile(None)
        if len(args) == 1 and (near := rounded(name, args[0])) is not None:
            return near
        if name in _CASTS and len(args) == 1:
            args = [whole(args[0])]
            return args[0] if isinstance(args[0], int | Tile) else Tile(None)
        if name == "__ldg" and isinstance(args[0], Pointer):
            self.touch("load", args[0], node.lineno, self.always)
            return Tile(None)
        if any(isinstance(a, Pointer | Array | Closure) for a in args) and name not in _PLAIN:
            raise NotRead(node.lineno, f"{name}(...) of an address is not read")
        if not _PURE.fullmatch(name) and name not in _PLAIN and name not in SIZES:
            raise NotRead(node.lineno, f"what {name}(...) touches is not known")
        return Tile(None)

    def method(self, node: ast.Call) -> Value:
        """Follow `x.f(...)`."""
        assert isinstance(node.func, ast.Attribute)
        raise NotRead(node.lineno, f".{node.func.attr}(...) is not read")

    def inlined(
        self, function: CSource, args: Sequence[Value], templates: tuple[Value, ...], line: int
    ) -> Value:
        """Follow a function of the file."""
        if function.unread:
            raise NotRead(function.line, f"{function.name}: {function.unread}")
        if self.depth > 12 or len(args) > len(function.params):
            raise NotRead(line, f"a call of {function.name} that is not read")
        env = {name: self.env[name] for name in self.at_file_level}
        env.update(zip(function.templates, templates, strict=False))
        given = [self._carried(self._decayed(forgotten(a))) for a in args]
        env.update({p.name: a for p, a in zip(function.params, given, strict=False)})
        return self.inline(function.body, env)

    def _carried(self, value: Value) -> Value:
        """Return a value as another function gets it: a lambda sees what it captured as it is now."""
        if isinstance(value, Closure) and value.depth == self.depth:
            return (
                replace(value, env=self.env, depth=-1) if value.refers else replace(value, depth=-1)
            )
        return value

    def _do__lambda__(self, node: ast.Call) -> Value:
        source, refers = (self.evaluate(a) for a in node.args)
        return Closure(source, self.env, self.depth, refers)

    def closed(self, closure: Closure, args: Sequence[Value], line: int) -> Value:
        """Follow a lambda, which changes nothing that it captured."""
        source = closure.source
        own = {p.name for p in source.params}
        changed = assigned(*source.body) & closure.env.keys() - own
        if changed or self.depth > 12 or len(args) != len(source.params):
            raise NotRead(
                line, f"a lambda that changes {', '.join(sorted(changed)) or 'something'}"
            )
        here = closure.refers and closure.depth == self.depth
        env = dict(self.env if here else closure.env)
        given = [self._decayed(forgotten(a)) for a in args]
        env.update({p.name: a for p, a in zip(source.params, given, strict=True)})
        return self.inline(source.body, env)

    def _do__cast__(self, node: ast.Call) -> Value:
        kind = self.evaluate(node.args[0])
        kind = kind.name if isinstance(kind, Other) else kind
        value = self._decayed(self.evaluate(node.args[1]))
        if kind in FLOATS:
            return ratio_of(value) or Tile(None)
        value = whole(value) if kind in _CASTS else forgotten(value)
        if not kind.endswith("*"):
            return (
                value
                if isinstance(value, int) or (isinstance(value, Tile) and kind in _CASTS)
                else (value if isinstance(value, Pointer) else Tile(None))
            )
        if not isinstance(value, Pointer):
            return value
        return self._cast(value, kind.rstrip("*").strip(), node.lineno)

    def _cast(self, value: Pointer, kind: str, line: int) -> Value:
        """Return an address as one of larger elements."""
        if kind in ("void", "char", "unsigned char"):
            return (
                value
                if kind == "void"
                else replace(value, at=None, why=f"a cast to {kind}* is not read")
            )
        size, has = self._size(kind), self.sizes.get(value.memory)
        if size is None or has is None or size % has:
            raise NotRead(line, f"a cast to {kind}* is not read")
        return replace(value, width=size // has)

    def _size(self, kind: str) -> int | None:
        bound = self.env.get(kind)
        kind = bound.name if isinstance(bound, Other) else bound if isinstance(bound, str) else kind
        return SIZES.get(kind)

    def _do__address__(self, node: ast.Call) -> Value:
        inner = node.args[0]
        place = self.place(inner)
        if isinstance(place, Pointer | Array):
            return self._decayed(place)
        if isinstance(inner, ast.Name):
            return Other(inner.id)
        raise NotRead(node.lineno, "the address of something that is not read")

    def _do__unset__(self, node: ast.Call) -> Value:
        kind = str(self.evaluate(node.args[0]))
        if kind.endswith("*"):
            return Other(kind)
        if kind.startswith("vector") or "vector" in kind.split():
            raise NotRead(node.lineno, "a vector without its size")
        return (1, 1, 1) if kind == "dim3" else Tile(None)

    def _do__new__(self, node: ast.Call) -> Value:
        kind = str(self.evaluate(node.args[0]))
        args = [self.evaluate(a) for a in node.args[1:]]
        if kind == "dim3":
            return (*args, 1, 1, 1)[:3]
        if "vector" in kind.split():
            size = self.arith.constant(self._number(args[0])) if args else None
            if size is None:
                raise NotRead(node.lineno, "a vector whose size is not known before it runs")
            element = kind.split("<")[-1].split(">")[0].strip()
            return self._array("own", element, f"vector of line {node.lineno}", (size,))
        if kind in SIZES and len(args) == 1:
            return args[0] if isinstance(args[0], int | Tile) else Tile(None)
        if any(isinstance(a, Pointer | Array) for a in args):
            raise NotRead(node.lineno, f"a {kind} of an address is not read")
        return Other(kind)

    def _do__array__(self, node: ast.Call) -> Value:
        home, kind, name = (str(self.evaluate(a)) for a in node.args[:3])
        dims: list[int] = []
        line = node.lineno
        for dim in node.args[3:]:
            value = self.evaluate(dim)
            if value is None:
                line = 0  # dynamic memory is one, whoever declares it
            known = (
                self._dynamic(kind) if value is None else self.arith.constant(self._number(value))
            )
            if known is None:
                raise NotRead(node.lineno, f"how large {name} is, is not known before it runs")
            dims.append(known)
        return self._array(home, kind, name, tuple(dims), line)

    def _dynamic(self, kind: str) -> int | None:
        size = self._size(kind)
        return None if self.dynamic_bytes is None or not size else self.dynamic_bytes // size

    def _array(
        self, home: str, kind: str, name: str, dims: tuple[int, ...], line: int = 0
    ) -> Value:
        """Return an array; one that is declared elsewhere by the same name is another. line: of its declaration, 0 where that does not count."""
        total = 1
        for extent in dims:
            total *= extent
        key = name
        while key in self.memories and (self.memories[key].size, self.declared.get(key)) != (total, line):  # fmt: skip
            key += "'"
        self.declared[key] = line
        self.memories[key] = Memory(name=name, size=total, shared=home)  # type: ignore[arg-type]
        self.sizes[key] = self._size(kind) or 4
        return Array(key, dims, 0)

    # ---- loops
    def span(self, node: ast.For) -> tuple[Number, Number, int]:
        """Return first, end and step of a counted loop."""
        assert isinstance(node.iter, ast.Call)
        low, high, step = (self._number(self.evaluate(a)) for a in node.iter.args)
        found = self.arith.constant(step)
        if found is None:
            raise NotRead(node.lineno, "a loop whose step is not known before it runs")
        return low, high, found
