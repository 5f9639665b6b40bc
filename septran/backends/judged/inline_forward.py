"""`ModelNew.forward` as a C++ function: calls of the extension, views, allocation and numbers; nothing that computes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Literal

from septran.backends.base import HostCall, Passed, Unjudged
from septran.backends.judged.c_host import literal
from septran.backends.judged.c_hosts import in_place
from septran.backends.judged.torch_text import argument, tensor_word
from septran.kernel import KernelParam

_Kind = Literal["tensor", "number"]
_SAME = frozenset("contiguous cuda detach clone t is_contiguous dim numel".split())
_PLACES = frozenset("transpose flatten unsqueeze squeeze".split())
_SHAPES = frozenset("view reshape permute".split())
_NUMBERS = frozenset("dim numel size stride is_contiguous".split())
_LIKE = frozenset("empty_like zeros_like ones_like".split())
_FILLED = frozenset("empty zeros ones".split())
_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Mod: "%",
}
_COMPARES: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_TORCH_DTYPES = {
    "float32": "kFloat",
    "float": "kFloat",
    "float16": "kHalf",
    "half": "kHalf",
    "bfloat16": "kBFloat16",
    "float64": "kDouble",
    "int32": "kInt",
    "int64": "kLong",
}


class Forward:
    """The translation of one class. offered: Python name -> C++ function of the extension."""

    def __init__(
        self,
        text: str,
        offered: Mapping[str, str],
        call: HostCall,
        params: tuple[KernelParam, ...],
    ) -> None:
        tree = ast.parse(text)
        made = next(
            n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == call.host.name
        )
        methods = {n.name: n for n in made.body if isinstance(n, ast.FunctionDef)}
        self._forward = methods["forward"]
        self._offered = offered
        self._call = call
        self._params = params
        self._state = dict(call.state)
        self._extensions, self._aliases = _extensions(tree, offered)
        self._numbers = _numbers(tree, methods.get("__init__"), call.made_with)
        self._kinds: dict[str, _Kind] = {
            p.name: "tensor" if a.param else "number"
            for p, a in zip(call.host.params, call.args, strict=False)
        }

    def call(self, copy: str) -> str:
        """Return the call of `function` with the problem's tensors. copy: as `c_hosts.in_place`."""
        given = [argument(a, self._params) for a in self._call.args]
        weights = [tensor_word(p, self._params) for p in self._state.values()]
        before = in_place(self._call, self._params, copy)
        return f"({before}septran_forward({', '.join([*given, *weights])}))"

    def function(self) -> str:
        """Return the C++ function.

        Raises:
            Unjudged: `forward` does something else.
        """
        lines = self._block(self._forward.body, "    ")
        names = [_name(p.name) for p, _ in zip(self._call.host.params, self._call.args, strict=False)]  # fmt: skip
        weights = [_weight(path) for path in self._state]
        head = ", ".join(f"auto {n}" for n in (*names, *weights))
        return f"static auto septran_forward({head}) {{\n" + "\n".join(lines) + "\n}\n"

    # ---- statements
    def _block(self, body: list[ast.stmt], indent: str) -> list[str]:
        return [indent + line for stmt in body for line in self._stmt(stmt)]

    def _stmt(self, stmt: ast.stmt) -> list[str]:
        match stmt:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return []
            case ast.Expr(value=ast.Call() as value):
                return [f"{self._expr(value)[0]};"]
            case ast.Return(value=ast.Tuple(elts=parts)):
                return [f"return std::vector<at::Tensor>{{{self._list(parts)}}};"]
            case ast.Return(value=ast.expr() as value):
                return [f"return {self._expr(value)[0]};"]
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                word, kind = self._expr(value)
                fresh = name not in self._kinds
                self._kinds[name] = kind
                return [f"{'auto ' if fresh else ''}{_name(name)} = {word};"]
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=value):
                return self._unpacked(parts, value)
            case ast.If(test=test, body=body, orelse=orelse):
                lines = [f"if ({self._expr(test)[0]}) {{", *self._inner(body), "}"]
                return [*lines, *(["else {", *self._inner(orelse), "}"] if orelse else [])]
            case ast.Assert():
                return []
        raise Unjudged(stmt.lineno, f"`{_short(stmt)}` in forward")

    def _inner(self, body: list[ast.stmt]) -> list[str]:
        before = dict(self._kinds)
        lines = self._block(body, "    ")
        self._kinds = before
        return lines

    def _unpacked(self, parts: list[ast.expr], value: ast.expr) -> list[str]:
        shape = self._shape_of(value)
        word = "" if shape else self._expr(value)[0]
        lines = [] if shape else [f"auto septran_parts{value.lineno} = {word};"]
        for i, part in enumerate(parts):
            if not isinstance(part, ast.Name):
                raise Unjudged(part.lineno, f"`{_short(part)} = ...` in forward")
            fresh = "" if part.id in self._kinds else "auto "
            self._kinds[part.id] = "number" if shape else "tensor"
            one = (
                f"{shape}.size({i})"
                if shape
                else f"septran_tensors::part<{i}>(septran_parts{value.lineno})"
            )
            lines.append(f"{fresh}{_name(part.id)} = {one};")
        return lines

    # ---- expressions
    def _expr(self, node: ast.expr) -> tuple[str, _Kind]:
        match node:
            case ast.Constant(value=None):
                return "std::nullopt", "number"
            case ast.Constant(value=bool() | int() | float() as value):
                return literal(value), "number"
            case ast.Name(id=name) if name in self._kinds:
                return _name(name), self._kinds[name]
            case ast.Call():
                return self._called(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Name() if ast.unparse(node) in self._numbers:
                return literal(self._numbers[node.id]), "number"
            case ast.Subscript(value=value, slice=index) if shape := self._shape_of(value):
                return f"{shape}.size({self._number(index)})", "number"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                words = self._number(left), self._number(right)
                return f"({words[0]} {_OPERATORS[type(op)]} {words[1]})", "number"
            case ast.UnaryOp(op=ast.USub(), operand=value):
                return f"-{self._number(value)}", "number"
            case ast.UnaryOp(op=ast.Not(), operand=value):
                return f"!{self._number(value)}", "number"
            case ast.BoolOp(op=op, values=values):
                sign = " && " if isinstance(op, ast.And) else " || "
                return f"({sign.join(self._number(v) for v in values)})", "number"
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARES:
                return f"({self._number(left)} {_COMPARES[type(op)]} {self._number(right)})", "number"  # fmt: skip
        raise self._beyond(node)

    def _called(self, node: ast.Call) -> tuple[str, _Kind]:
        function = self._function(node.func)
        if function is not None:
            if node.keywords:
                raise Unjudged(node.lineno, f"`{_short(node)}`: a call by keyword")
            return f"{function}({self._list(node.args)})", "tensor"
        if isinstance(node.func, ast.Name) and node.func.id in ("int", "float", "bool"):
            kind = {"int": "int64_t", "float": "double", "bool": "bool"}[node.func.id]
            return f"static_cast<{kind}>({self._number(node.args[0])})", "number"
        if not isinstance(node.func, ast.Attribute):
            raise self._beyond(node)
        name, of = node.func.attr, node.func.value
        if isinstance(of, ast.Name) and of.id == "torch" and "torch" not in self._kinds:
            return self._allocated(name, node), "tensor"
        word, kind = self._expr(of) if self._is_value(of) else ("", "number")
        if kind != "tensor":
            raise self._beyond(node)
        args = node.args
        if name in _SAME and not args:
            return f"{word}.{name}()", "number" if name in _NUMBERS else "tensor"
        if name in ("size", "stride") and len(args) == 1:
            return f"{word}.{name}({self._number(args[0])})", "number"
        if name in _PLACES:
            return f"{word}.{name}({', '.join(map(self._number, args))})", "tensor"
        if name in _SHAPES:
            return f"{word}.{name}({self._shape(args)})", "tensor"
        raise self._beyond(node)

    def _is_value(self, node: ast.expr) -> bool:
        """Whether a method's object is one that forward has; `self` and modules are none."""
        if isinstance(node, ast.Name):
            return node.id in self._kinds
        return (
            not isinstance(node, ast.Attribute)
            or self._path(node) in self._state
            or (self._path(node) == "" and self._is_value(node.value))
        )

    def _attribute(self, node: ast.Attribute) -> tuple[str, _Kind]:
        path = self._path(node)
        if path in self._state:
            return _weight(path), "tensor"
        if f"self.{path}" in self._numbers:
            return literal(self._numbers[f"self.{path}"]), "number"
        if path.endswith(".data") and path.removesuffix(".data") in self._state:
            return _weight(path.removesuffix(".data")), "tensor"
        if path:
            has = ", ".join(self._state) or "none"
            raise Unjudged(
                node.lineno,
                f"`self.{path}`, which is no weight of the reference (it has {has}) and no number that __init__ gives",
            )
        if node.attr in ("T", "data", "is_cuda", "dtype", "device") and self._is_value(node.value):
            word, kind = self._expr(node.value)
            if kind == "tensor":
                tail = {"T": ".t()", "data": ""}.get(node.attr, f".{node.attr}()")
                return word + tail, "tensor" if node.attr in ("T", "data") else "number"
        if ast.unparse(node.value) == "torch" and node.attr in _TORCH_DTYPES:
            return f"at::{_TORCH_DTYPES[node.attr]}", "number"
        raise self._beyond(node)

    def _allocated(self, name: str, node: ast.Call) -> str:
        options = {k.arg: k.value for k in node.keywords}
        if options.keys() - {"dtype", "device"}:
            raise self._beyond(node)
        kind = self._number(options["dtype"]) if "dtype" in options else ""
        if name in _LIKE and len(node.args) == 1:
            word, what = self._expr(node.args[0])
            if what == "tensor":
                return f"at::{name}({word}{f', at::TensorOptions({kind})' if kind else ''})"
        if name in _FILLED:
            return (
                f"at::{name}({self._shape(node.args)}, at::TensorOptions({kind or 'at::kFloat'}))"
            )
        raise self._beyond(node)

    # ---- parts
    def _function(self, node: ast.expr) -> str | None:
        """Return the C++ function that an expression is, None when it is none of the extension's."""
        word = ast.unparse(node)
        if word in self._aliases:
            return self._aliases[word]
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in self._extensions:
            return self._offered.get(node.attr)
        return None

    def _path(self, node: ast.expr) -> str:
        """Return "a.b" of `self.a.b`, "" for what does not begin with self."""
        word = ast.unparse(node)
        return word.removeprefix("self.") if word.startswith("self.") else ""

    def _shape_of(self, node: ast.expr) -> str:
        """Return the tensor whose sizes an expression is: `x.shape`, `x.size()`."""
        if isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Attribute):
            node, wanted = node.func, "size"
        else:
            wanted = "shape"
        if not isinstance(node, ast.Attribute) or node.attr != wanted or not self._is_value(node.value):  # fmt: skip
            return ""
        word, kind = self._expr(node.value)
        return word if kind == "tensor" else ""

    def _shape(self, args: list[ast.expr]) -> str:
        parts = (
            args[0].elts if len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List) else args
        )
        if len(parts) == 1 and (of := self._shape_of(parts[0])):
            return f"{of}.sizes()"
        return f"at::IntArrayRef({{{', '.join(map(self._number, parts))}}})"

    def _number(self, node: ast.expr) -> str:
        word, kind = self._expr(node)
        if kind == "tensor":
            raise self._beyond(node, "arithmetic on tensors")
        return word

    def _list(self, parts: list[ast.expr]) -> str:
        return ", ".join(self._expr(p)[0] for p in parts)

    def _beyond(self, node: ast.expr, what: str = "") -> Unjudged:
        return Unjudged(
            node.lineno,
            f"`{_short(node)}` in forward{f' ({what})' if what else ''}: besides calls of the extension only allocation, "
            "views, sizes and numbers are read",
        )


def _extensions(tree: ast.Module, offered: Mapping[str, str]) -> tuple[set[str], dict[str, str]]:
    """Return the expressions that are an extension, and those that are a function of one."""
    found: set[str] = set()
    builders = {"load_inline"}
    aliases: dict[str, str] = {}

    def is_one(value: ast.expr) -> bool:
        if isinstance(value, ast.Call):
            return ast.unparse(value.func).rsplit(".", 1)[-1] in builders
        return ast.unparse(value) in found

    while True:
        size = len(found) + len(builders) + len(aliases)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    word = ast.unparse(target)
                    if is_one(node.value):
                        found.add(word)
                    elif (
                        isinstance(node.value, ast.Attribute)
                        and is_one(node.value.value)
                        and node.value.attr in offered
                    ):
                        aliases[word] = offered[node.value.attr]
            elif isinstance(node, ast.FunctionDef):
                ends = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value]
                if any(is_one(v) for v in ends):
                    builders.add(node.name)
        if size == len(found) + len(builders) + len(aliases):
            return found, aliases


def _numbers(
    tree: ast.Module, init: ast.FunctionDef | None, made_with: tuple[Passed, ...]
) -> dict[str, int | float | bool]:
    """Return the numbers that names of the file and of `self` stand for when the object is made."""
    known: dict[str, object] = {}
    _assigned(tree.body, known)
    if init is not None:
        names = [a.arg for a in init.args.args[1:]]
        defaults = init.args.defaults
        local = dict(known)
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            local[name] = _plain(default, known)
        local |= {n: p.value for n, p in zip(names, made_with, strict=False)}
        _assigned(init.body, local)
        known |= {k: v for k, v in local.items() if k.startswith("self.")}
    return {k: v for k, v in known.items() if isinstance(v, bool | int | float)}


def _assigned(body: list[ast.stmt], known: dict[str, object]) -> None:
    for stmt in body:
        if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1:
            known[ast.unparse(stmt.targets[0])] = _plain(stmt.value, known)


def _plain(node: ast.expr, known: Mapping[str, object]) -> object:
    if ast.unparse(node) in known:
        return known[ast.unparse(node)]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _name(name: str) -> str:
    return f"v_{name}"


def _weight(path: str) -> str:
    return "w_" + path.replace(".", "_")


def _short(node: ast.AST) -> str:
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= 60 else f"{text[:57]}..."
