"""An exported program as plain values, for the graph that leaves the child."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch


class Unsized(Exception):
    """A size depends on values. line: of the user's file, 0 where it is not known."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def describe(
    program: Any, inputs: Any, path: Path, values: Path | None, *, attributes: frozenset[str]
) -> dict[str, Any]:
    """Return an exported program as plain values; `values`: folder that gets weights and inputs.

    attributes: tensors of the module that are no buffers. What a call makes anew of weights alone, as `weight_norm` does, is no state.

    Raises:
        Unsized: the size of a result depends on values.
    """
    signature = program.graph_signature
    specs = {s.arg.name: s for s in signature.input_specs if hasattr(s.arg, "name")}
    given = [t for t in torch.utils._pytree.tree_leaves(inputs) if torch.is_tensor(t)]
    given_names = [
        s.arg.name
        for s in signature.input_specs
        if s.kind.name == "USER_INPUT" and type(s.arg).__name__ == "TensorArgument"
    ]
    held = {**program.state_dict, **program.constants}
    users = dict(zip(given_names, given, strict=False))
    found: dict[str, Any] = {"inputs": [], "nodes": [], "outputs": [], "values": []}
    names = iter(given_names)
    found["call"] = [_argument(one, names) for one in inputs]
    saved: list[Any] = []
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = specs.get(node.name)
            value = node.meta.get("val")
            if spec is None or not torch.is_tensor(value):
                continue
            kind = spec.kind.name.lower()
            if not node.users and kind != "user_input":
                continue
            tensor = users.get(node.name) if kind == "user_input" else held.get(spec.target)
            entry = {"name": node.name, "kind": kind, "target": spec.target or "", **_meta(value)}
            found["inputs"].append(entry)
            if (values is not None and tensor is not None) or (
                kind == "constant_tensor" and tensor is not None and tensor.numel() <= 4096
            ):
                saved.append((node.name, tensor))
        elif node.op == "call_function" and not _about_sizes(node):
            try:
                found["nodes"].append(_node(node, path))
            except Unsized as e:
                line, _ = _line(node.meta.get("stack_trace") or "", path)
                raise Unsized(e.message, line) from None
        elif node.op == "output":
            kinds = [s.kind.name.lower() for s in signature.output_specs]
            targets = [s.target or "" for s in signature.output_specs]
            for arg, kind, target in zip(node.args[0], kinds, targets, strict=True):
                new = kind == "buffer_mutation" and target in attributes
                if not (new and _of_weights(arg, specs, target)):
                    found["outputs"].append({"value": _plain(arg), "kind": kind, "target": target})
    if values is not None:
        found["values"] = _save(saved, values / "values.bin")
    found["dims"] = [
        {
            "symbol": str(s),
            "low": int(r.lower) if _finite(r.lower) else 0,
            "high": int(r.upper) if _finite(r.upper) else None,
        }
        for s, r in program.range_constraints.items()
    ]
    return found


def _of_weights(node: Any, specs: Mapping[str, Any], target: str) -> bool:
    """Whether what the module holds as `target` is made of its other tensors alone."""
    seen, left = set(), [node]
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        left += one.all_input_nodes
        spec = specs.get(one.name) if one.op == "placeholder" else None
        if spec is not None and (spec.kind.name == "USER_INPUT" or spec.target == target):
            return False
    return True


def _finite(number: Any) -> bool:
    """Return whether a bound of a size is a number, and not one of torch's infinities."""
    return number.is_Integer is True and int(number) < 1 << 60


def _about_sizes(node: Any) -> bool:
    """Return whether a node computes or checks a size: sizes stand as expressions where they are used."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt | torch.SymBool):
        return True
    name = getattr(node.target, "__name__", "")
    return value is None and name.startswith(("_assert_scalar", "sym_constrain_range"))


def _size(n: Any) -> Any:
    """Return a size: a number, or an expression over open sizes and its value here."""
    if isinstance(n, int) or n.node.expr.is_Integer:  # it was to be open, and the module fixes it
        return int(n)
    if n.node.hint is None:
        raise Unsized("the size of a result depends on values")
    return {"size": str(n.node.expr), "hint": int(n.node.hint)}


def _argument(one: Any, names: Iterator[str]) -> dict[str, Any]:
    """Return one of the file's own inputs: a tensor's name in the graph, a plain value, a list of these, or what it is."""
    if torch.is_tensor(one):
        return {"tensor": next(names)}
    if one is None or isinstance(one, bool | int | float | str):
        return {"value": _plain(one)}
    if type(one) in (list, tuple, torch.Size):
        kind = "list" if type(one) is list else "tuple"
        return {"items": [_argument(part, names) for part in one], "kind": kind}
    for leaf in torch.utils._pytree.tree_leaves(one):
        if torch.is_tensor(leaf):
            next(names)
    return {"opaque": type(one).__name__}


def _save(saved: list[tuple[str, Any]], path: Path) -> list[dict[str, Any]]:
    rows, at = [], 0
    with path.open("wb") as out:
        for name, tensor in saved:
            raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            out.write(raw)
            rows.append({"name": name, "offset": at, "bytes": len(raw)})
            at += len(raw)
    return rows


def _meta(value: Any) -> dict[str, Any]:
    return {
        "shape": [_size(n) for n in value.shape],
        "dtype": str(value.dtype).removeprefix("torch."),
    }


def _node(node: Any, path: Path) -> dict[str, Any]:
    value = node.meta.get("val")
    items = value if isinstance(value, tuple | list) else [value]
    schema = getattr(node.target, "_schema", None)
    op = str(node.target) if schema is not None else getattr(node.target, "__name__", "?")
    args = [_plain(a) for a in node.args]
    named = {k: _plain(v) for k, v in node.kwargs.items()}
    if schema is not None:  # every argument by name, with the defaults filled in
        for spec, arg in zip(schema.arguments, args, strict=False):
            named[spec.name] = arg
        for spec in schema.arguments[len(args) :]:
            if spec.name not in named:
                named[spec.name] = _plain(spec.default_value)
        args = []
    line, where = _line(node.meta.get("stack_trace") or "", path)
    try:
        results = [_meta(v) if torch.is_tensor(v) else None for v in items]
    except Unsized as e:  # say whose
        name = op.split(".")[1] if schema is not None else op
        raise Unsized(f"{name}: {e.message}") from None
    return {
        "name": node.name,
        "op": op,
        "args": args,
        "named": named,
        "results": results,
        "many": isinstance(value, tuple | list),
        "line": line,
        "path": where or _scope(node),
    }


def _scope(node: Any) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def _line(stack: str, path: Path) -> tuple[int, str]:
    line = 0
    for text in stack.splitlines():
        text = text.strip()
        if text.startswith(f'File "{path}", line '):
            line = int(text.split("line ", 1)[1].split(",", 1)[0])
    return line, ""


def _plain(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        if value.op == "get_attr":  # a branch or a body of control flow
            return "GraphModule"
        known = value.meta.get("val")
        return _size(known) if isinstance(known, torch.SymInt) else {"ref": value.name}
    if isinstance(value, torch.SymInt):
        return _size(value)
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, torch.device | torch.layout | torch.memory_format):
        return None  # where and how it is stored is not the module's meaning
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return {"other": type(value).__name__}
