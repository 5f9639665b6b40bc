"""What a Python file asks of its sizes: comparisons of what it reckons of a size, whose other side no call at one size reaches.

A size is a count or an extent of a tensor, a number that the host function is given, what a function is handed of these, an extent
in the annotation of a kernel's tensor, and what is made of these by arithmetic.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

from septran.ir.size_asked import BLOCKS, Size, SizeAsked, Term, compared, reckoned, rests, sizes_of

_SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_OPS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Pow: "**",
}  # fmt: skip
_OF_ONE = ("int", "float", "constexpr", "ceil", "floor", "round", "abs")
_OF_TWO = {"min": "min", "max": "max", "minimum": "min", "maximum": "max", "cdiv": "cdiv", "ceildiv": "cdiv"}  # fmt: skip
_COUNTS = ("numel", "nelement")
_ANNOTATIONS = re.compile(r"\b(?:Tensor|Buffer|StridedTensor)\b")
_MOST, _ROUNDS, _DEEP, _OF_A_CALL, _ALTERNATIVES, _MOST_NUMBER = 16, 6, 24, 8, 3, 2**53


def sizes_asked(text: str) -> tuple[SizeAsked, ...]:
    """Return what a text asks of its sizes, each once, in the order of the text.

    Raises:
        SyntaxError: the text is no Python.
    """
    tree = ast.parse(text)
    sizes = _Sizes(tree)
    found: list[tuple[int, int, SizeAsked]] = []
    said: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            said |= {id(s) for s in sides if isinstance(s, ast.BinOp)}
            for left, op, right in zip(sides, node.ops, node.comparators, strict=False):
                if type(op) in _SIGNS:
                    asked = (compared(a, _SIGNS[type(op)], b) for a in sizes.of(left) for b in sizes.of(right))  # fmt: skip
                    found += [(left.lineno, left.col_offset, a) for a in asked if a is not None]
        elif isinstance(node, ast.BinOp | ast.Call) and id(node) not in said:
            # what is part of a longer term is asked of with that
            said |= {id(inner) for inner in ast.walk(node)} if sizes.of(node) else set()
            rest = (a for term in sizes.of(node) for a in rests(term))
            found += [(node.lineno, node.col_offset, a) for a in rest]
    return tuple(dict.fromkeys(asked for *_, asked in sorted(found, key=lambda one: one[:2])))[:_MOST]  # fmt: skip


class _Sizes:
    """Names of a file that are sizes or numbers, wherever they stand, with what they may be."""

    def __init__(self, tree: ast.Module) -> None:
        self._known: dict[str, list[Term]] = {}
        functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        called = {name for call in calls if (name := _called(call))}
        self._fixed = _set_once(tree)
        self._results: dict[str, list[ast.expr]] = {
            name: [r.value for r in ast.walk(f) if isinstance(r, ast.Return) and r.value is not None][:_ALTERNATIVES]
            for name, f in functions.items()
        }  # fmt: skip
        self._indices = _indices(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.With):
                self._grid(node)
        for name, function in functions.items():
            args = [*function.args.posonlyargs, *function.args.args]
            plain = args[: len(args) - len(function.args.defaults)]
            if name not in called:
                for a in plain:
                    self._add(a.arg, Size(a.arg, a.arg))
            for arg in args:
                self._annotated(arg.annotation)
        for _ in range(_ROUNDS):
            before = sum(map(len, self._known.values()))
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                    self._assigned(node)
                elif isinstance(node, ast.Compare):
                    self._reached(node)
                elif isinstance(node, ast.For):
                    self._looped(node)
            for call in calls:
                if (called_one := functions.get(_called(call))) is not None:
                    self._handed(call, called_one)
            if sum(map(len, self._known.values())) == before:
                break

    def of(self, value: ast.expr, depth: int = 0) -> list[Term]:
        """Return what a value may be of sizes and numbers, [] where it is anything else."""
        if depth > _DEEP:
            return []
        depth += 1
        match value:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return [number] if abs(number) < _MOST_NUMBER else []
            case ast.Name(id=name):
                return self._known.get(name, [])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPS:
                return reckoned(_OPS[type(op)], self.of(left, depth), self.of(right, depth))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return reckoned("-", [0], self.of(operand, depth))
            case ast.Call(func=ast.Attribute(attr=name), args=[]) if name in _COUNTS:
                return [Size("numel()", ast.unparse(value))]
            case ast.Call(func=ast.Attribute(attr="size"), args=[axis]):
                return [Size(_axis(axis), ast.unparse(value))]
            case ast.Call(func=ast.Name(id="len"), args=[_]):
                return [Size("size(0)", ast.unparse(value))]
            case ast.Call(func=ast.Attribute(attr="program_id" | "num_programs")):
                return [Size(BLOCKS, ast.unparse(value))]
            case ast.Call(func=ast.Attribute(attr="arange"), args=[_, _]):
                return [0]  # the first of a tile
            case ast.Subscript(value=ast.Attribute(attr="shape"), slice=axis):
                return [Size(_axis(axis), ast.unparse(value))]
            case ast.Subscript(slice=ast.Constant(value=str() as name)):  # args["n"] of a heuristic
                known = self._known.get(name, [])
                return [Size(t.of, ast.unparse(value)) if isinstance(t, Size) else t for t in known]
            case ast.Call(func=func, args=[inner]) if _last(func) in _OF_ONE:
                return self.of(inner, depth)
            case ast.Call(func=func, args=[a, b]) if _last(func) in _OF_TWO:
                return reckoned(_OF_TWO[_last(func)], self.of(a, depth), self.of(b, depth))
            case ast.Call(func=ast.Name(id=name)) if name in self._results:
                returned = [t for r in self._results[name] for t in self.of(r, depth + _OF_A_CALL)]
                return [t for t in returned if any(sizes_of(t))]
        return []

    def _add(self, name: str, term: Term) -> None:
        terms = self._known.setdefault(name, [])
        fits = any(sizes_of(term)) or name in self._fixed
        if fits and term not in terms and len(terms) < _ALTERNATIVES:
            terms.append(term)

    def _annotated(self, annotation: ast.expr | None) -> None:
        """Extents in T.Tensor((M, N), ..) are sizes."""
        if not isinstance(annotation, ast.Call) or not annotation.args:
            return
        if _ANNOTATIONS.search(ast.unparse(annotation.func)):
            for node in ast.walk(annotation.args[0]):
                if isinstance(node, ast.Name) and node.id not in self._known:
                    self._add(node.id, Size("", node.id))

    def _assigned(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name) and type(node.op) in _OPS:
                old = [t for t in self.of(node.target) if any(sizes_of(t))]
                for term in reckoned(_OPS[type(node.op)], old, self.of(node.value)):
                    self._add(node.target.id, term)
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and node.value is not None:
                for term in self.of(node.value):
                    self._add(target.id, term)
            elif isinstance(target, ast.Tuple | ast.List):
                self._unpacked(target.elts, node.value)

    def _unpacked(self, names: list[ast.expr], value: ast.expr | None) -> None:
        shape = isinstance(value, ast.Attribute) and value.attr == "shape"
        values = value.elts if isinstance(value, ast.Tuple) else ()
        for axis, name in enumerate(names):
            if isinstance(name, ast.Name):
                terms = [Size(f"size({axis})", name.id)] if shape else self.of(values[axis]) if axis < len(values) else []  # fmt: skip
                for term in terms:
                    self._add(name.id, term)

    def _looped(self, node: ast.For) -> None:
        """The largest number of a loop that a size ends; of other loops the first."""
        if isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call) and node.iter.args:
            ends = [t for t in self.of(node.iter.args[-1]) if any(sizes_of(t))]
            for term in reckoned("-", ends, [1]) or [0]:
                self._add(node.target.id, term)

    def _reached(self, node: ast.Compare) -> None:
        """The largest that an index of all programs becomes: one less than the size that masks it."""
        match node:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Lt()], comparators=[bound]):
                terms = [t for t in self.of(bound) if any(sizes_of(t))]
                for term in reckoned("-", terms, [1]) if name in self._indices else ():
                    self._add(name, term)

    def _grid(self, node: ast.With) -> None:
        """`with T.Kernel(..) as bx`: places in a grid."""
        for item in node.items:
            kernel = isinstance(item.context_expr, ast.Call) and _last(item.context_expr.func) == "Kernel"  # fmt: skip
            for name in ast.walk(item.optional_vars) if kernel and item.optional_vars else ():
                if isinstance(name, ast.Name):
                    self._add(name.id, Size(BLOCKS, name.id))

    def _handed(self, call: ast.Call, function: ast.FunctionDef) -> None:
        args = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        handed = [(a.arg, v) for a, v in zip(args, call.args, strict=False)]
        handed += [(k.arg, k.value) for k in call.keywords if k.arg]
        for name, value in handed:
            for term in self.of(value):
                if any(sizes_of(term)):
                    self._add(name, term)


def _indices(tree: ast.Module) -> set[str]:
    """Return the names of what is made of a program's number."""
    return {
        t.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and "program_id" in ast.dump(n.value)
        for t in n.targets
        if isinstance(t, ast.Name)
    }


def _set_once(tree: ast.Module) -> set[str]:
    """Return the names that one assignment sets, and no loop, parameter or other statement."""
    stores = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))  # fmt: skip
    params = {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
    return {name for name, times in stores.items() if times == 1 and name not in params}


def _last(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""  # fmt: skip


def _called(call: ast.Call) -> str:
    """Return the name of the function that a call is of: f(..), or a launch f[grid](..)."""
    func = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return func.id if isinstance(func, ast.Name) else ""


def _axis(node: ast.expr) -> str:
    return f"size({node.value})" if isinstance(node, ast.Constant) and isinstance(node.value, int) else ""  # fmt: skip
