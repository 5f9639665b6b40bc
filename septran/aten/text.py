"""A part of an exported graph as text that a person reads, and read back: what an opaque leaf means.

    a: float32[3, 4, 4]
    inv: float32[3, 4, 4] = aten.linalg_inv.default(A=a)  # model.py:14
    return inv

It is Python's grammar, read by Python's parser and never run: names, annotations of shape and dtype, calls of ATen
operators with their arguments by name, `x[i]` for one of several results.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from septran.aten.evaluate import allowed, run_graph
from septran.aten.graph import Dtype, Graph, Input, Meta, Node, Output, Ref

MAX_CHARS = 400_000


class BadGraph(ValueError):
    """The text is no graph; the message says where and why."""


def graph_text(graph: Graph, source: Sequence[str] = ()) -> str:
    """Return the text of a graph whose outputs are values of its own; source: the lines of the user's file."""
    file = Path(graph.file).name
    told = 0
    lines = [f"{i.name}: {_meta(i.meta)}" for i in graph.inputs]
    for node in graph.nodes:
        kind = ", ".join("None" if m is None else _meta(m) for m in node.results)
        kind = f"({kind}{',' if len(node.results) == 1 else ''})" if node.many else kind
        where = f"  # {file}:{node.line}" if node.line else ""
        if node.line != told and 0 < node.line <= len(source):
            where += f"  {_plain(source[node.line - 1].strip())}"
        told = node.line
        lines.append(f"{node.name}: {kind} = {_call(node)}{where}")
    lines.append("return " + ", ".join(o.value.name for o in graph.outputs))
    return "\n".join(lines) + "\n"


def _plain(line: str) -> str:
    """Return a line of the user's file as it may stand in a comment inside a triple-quoted text."""
    kept = "".join(c for c in line if c.isascii() and c.isprintable())
    return kept.replace('"""', "").removesuffix("\\")[:110]


def _meta(meta: Meta) -> str:
    return f"{meta.dtype}[{', '.join(map(str, meta.shape)) or '()'}]"


def _call(node: Node) -> str:
    if node.op == "getitem":
        source, index = node.args
        return f"{source.name}[{index}]"
    named = ", ".join(f"{k}={_value(v)}" for k, v in node.named.items() if v is not None)
    return f"{node.op}({named})"


def _value(value: Any) -> str:
    match value:
        case Ref(name):
            return name
        case Dtype(name):
            return f"torch.{name}"
        case tuple():
            return f"[{', '.join(_value(v) for v in value)}]"
        case float() if not math.isfinite(value):
            return f'float("{value}")'
    return repr(value)


@functools.lru_cache(maxsize=64)
def parse_text(text: str) -> Graph:
    """Return the graph that `text` describes.

    Raises:
        BadGraph: it is not of the form, reads what is not there, or names an operator that the judge does not run.
    """
    if len(text) > MAX_CHARS:
        raise BadGraph(f"it has more than {MAX_CHARS} characters")
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise BadGraph(f"line {getattr(e, 'lineno', None) or 1}: it is not of the form") from None
    inputs: list[Input] = []
    nodes: list[Node] = []
    outputs: list[Output] = []
    known: set[str] = set()
    for stmt in body:
        line = f"line {stmt.lineno}"
        if outputs:
            raise BadGraph(f"{line}: nothing follows return")
        match stmt:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=None):
                if nodes:
                    raise BadGraph(f"{line}: inputs come first")
                meta = _parse_meta(kind, line)
                inputs.append(Input(name=name, kind="user_input", target="", meta=meta))
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=kind, value=ast.expr() as value
            ):
                nodes.append(_parse_node(name, kind, value, known, line))
            case ast.Return(value=ast.expr() as value):
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                for part in parts:
                    ref = _operand(part, known, line)
                    if not isinstance(ref, Ref):
                        raise BadGraph(f"{line}: only values of the graph are returned")
                    outputs.append(Output(value=ref, kind="user_output", target=""))
                continue
            case _:
                raise BadGraph(f"{line}: it is neither `name: dtype[shape]`, a call, nor return")
        if name in known:
            raise BadGraph(f"{line}: two values are named {name}")
        known.add(name)
    graph = Graph(
        file="", inputs=tuple(inputs), nodes=tuple(nodes), outputs=tuple(outputs), values={}
    )
    for ref in outputs:
        try:
            graph.meta_of(ref.value.name)
        except KeyError:
            raise BadGraph(
                f"{ref.value.name} is returned, but is several tensors or none"
            ) from None
    if not outputs:
        raise BadGraph("nothing is returned")
    return graph


def _parse_meta(kind: ast.expr, line: str) -> Meta:
    match kind:
        case ast.Subscript(value=ast.Name(id=dtype), slice=sizes):
            parts = sizes.elts if isinstance(sizes, ast.Tuple) else [sizes]
            shape = tuple(p.value for p in parts if isinstance(p, ast.Constant))
            fits = all(isinstance(n, int) and 0 <= n < 1 << 48 for n in shape)
            if len(shape) == len(parts) <= 16 and fits:
                return Meta(shape=shape, dtype=dtype)  # type: ignore[arg-type]
    raise BadGraph(f"{line}: a tensor is written as float32[2, 3]")


def _parse_node(name: str, kind: ast.expr, value: ast.expr, known: set[str], line: str) -> Node:
    many = isinstance(kind, ast.Tuple)
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    results = tuple(
        None if isinstance(k, ast.Constant) and k.value is None else _parse_meta(k, line)
        for k in kinds
    )
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    match value:
        case ast.Subscript(value=ast.Name() as source, slice=ast.Constant(value=int() as index)):
            op, args = "getitem", (_operand(source, known, line), index)
        case ast.Call(func=func, args=[], keywords=keywords):
            op = ast.unparse(func)
            if op == "getitem" or not allowed(op) or len(op.split(".")) != 3:
                raise BadGraph(f"{line}: {op} is no operator that the judge runs")
            for word in keywords:
                if word.arg is None:
                    raise BadGraph(f"{line}: arguments are given by name")
                named[word.arg] = _operand(word.value, known, line)
        case _:
            raise BadGraph(f"{line}: a value is aten.OPERATOR.OVERLOAD(name=...) or x[0]")
    return Node(
        name=name, op=op, args=args, named=named, results=results, many=many, line=0, path=""
    )


def _operand(value: ast.expr, known: set[str], line: str) -> Any:
    match value:
        case ast.Name(id=name):
            if name not in known:
                raise BadGraph(f"{line}: {name} is not there")
            return Ref(name)
        case ast.Attribute(value=ast.Name(id="torch"), attr=dtype):
            return Dtype(dtype)
        case ast.List(elts=parts):
            return tuple(_operand(p, known, line) for p in parts)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
            if text in ("inf", "-inf", "nan"):
                return float(text)
        case ast.Constant(value=None | bool() | int() | float() | str()):
            return value.value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    raise BadGraph(f"{line}: {ast.unparse(value)} is no argument")


def run_text(text: str, operands: Sequence[Any], result: int) -> Any:
    """Return one result of the graph that `text` describes for torch tensors in the order of its inputs.

    Floats are computed in the widest dtype among them.
    """
    import torch

    graph = parse_text(text)
    wide = torch.float32
    if any(t.dtype == torch.float64 for t in operands):
        wide = torch.float64
    values: Mapping[str, Any] = {
        one.name: (t.to(wide) if t.is_floating_point() else t).reshape(one.meta.shape)
        for one, t in zip(graph.inputs, operands, strict=True)
    }
    return run_graph(graph, values, dtype=wide)[result]


def steps(text: str) -> tuple[tuple[str, ...], ...]:
    """Return (operator, result dtypes and shapes) of each node: what a prompt counts and a plan shows."""
    return tuple(
        (n.op, *("None" if m is None else _meta(m) for m in n.results))
        for n in parse_text(text).nodes
    )
