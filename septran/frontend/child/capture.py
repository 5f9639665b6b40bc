"""Runs in a confined child: read a module file, export it with torch.export, write the graph as JSON.

    python capture.py MODULE_FILE OUT_FOLDER CONFIG_JSON

Where a call is small (cost.py), the exported program has to give what the module gives (same.py).
Nothing of the user's Python leaves this process: what does is `graph.json` (nodes, shapes, source lines)
and `values.bin` (inputs and weights, when they are small). The parent trusts neither.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

_DEEPEST = 4
"""Rules of torch that are followed one after another."""
_FEW = 4096
"""Elements of a tensor that is made where a module asks for values while it is made."""
_OPEN = "get_dynamic_shapes"
"""A file may define it: what `torch.export` takes as `dynamic_shapes`."""


def _beside(name: str) -> Any:
    """Return a file of this folder; it is loaded under no name, as a module of the user's may have its."""
    path = Path(__file__).resolve().with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"septran_capture_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_form = _beside("form")
Refused = _form.Refused


def main() -> None:
    """Write `graph.json` into the folder: the graph, or why there is none."""
    path, out, config = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    try:
        found = _capture(path, out, config)
    except Refused as e:
        line = e.line or _form.defined(path, "Model")
        found = {"refused": e.what, "message": e.message, "line": line}
    except Exception as e:  # torch's, about what the file made: a lazy layer, a sparse tensor
        line = _form.line_of(e, path) or _form.defined(path, "Model")
        message = f"{type(e).__name__}: {_form.first(e)}"
        found = {"refused": "export", "message": message, "line": line}
    (out / "graph.json").write_text(json.dumps(found), encoding="utf-8")


def _capture(path: Path, out: Path, config: dict[str, Any]) -> dict[str, Any]:
    cost, same = _beside("cost"), _beside("same")
    module = _form.read(path)
    model, inputs = _without_values(module, path, config) or _build(module, path, config)
    size = sum(_nbytes(t) for t in _tensors(model, inputs))
    small = size <= config["values_bytes"]
    before = None
    if small:
        model, inputs = _build(module, path, config)
        before = same.copied(model)
    shapes = _form.guarded(path, vars(module).get(_OPEN, lambda: None))
    if shapes is None and config.get("open"):
        shapes = _beside("all_open").of(inputs)
    with nullcontext() if small else FakeTensorMode(allow_non_fake_inputs=True):
        program = export(model, inputs, {}, path, shapes, known=frozenset(config["known"]))
    if small and cost.is_small(program) and (why := same.why_not(program, before, model, inputs)):
        raise Refused("differs", why, _form.returned(model.forward, path, start=True))
    found = describe(program, inputs, path, out if small else None)
    if not any(isinstance(o["value"], dict) and "ref" in o["value"] for o in found["outputs"]):
        raise Refused("nothing", "Model returns no tensor", _form.returned(model.forward, path))
    if shapes is not None:
        found["names"] = _form.guarded(path, lambda: names_of(model.forward, inputs, {}, shapes))
    return found


def _without_values(module: ModuleType, path: Path, config: dict[str, Any]) -> Any:
    """Return the module and its inputs as shapes; None for a module that asks for values of more than a few numbers.

    Many a module reads a few numbers off a tensor while it is made (`linspace(0, rate, depth)[i].item()`): what is
    small and made of nothing is made then, and all else stays a shape.
    """
    for few in (nullcontext, _Few):
        with FakeTensorMode(allow_non_fake_inputs=True), few():
            try:
                return _build(module, path, config)
            except Refused:
                continue
    return None


class _Few(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """Below a FakeTensorMode: operators whose operands hold values, and are few, are computed."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        held = _values((args, kwargs))
        if any(isinstance(t, FakeTensor) for t in held):
            return func(*args, **kwargs)
        if not held:
            found = func(*args, **kwargs)
            if sum(t.numel() for t in _values(found)) > _FEW:
                return found
        elif sum(t.numel() for t in held) > _FEW:
            return func(*args, **kwargs)
        with unset_fake_temporarily():
            return func(*args, **kwargs)


def _values(tree: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [t for t in leaves if isinstance(t, torch.Tensor)]


def _build(module: ModuleType, path: Path, config: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    model, inputs = _form.built(module, path, config.get("shape", 0))
    if config["mode"] == "eval":
        model.eval()
    model.requires_grad_(False)
    _register_state(model)
    return model, inputs


def _register_state(model: Any) -> None:
    """Make tensors kept as plain attributes buffers, so that a new state becomes an output."""
    for part in model.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                delattr(part, name)
                part.register_buffer(name, value)


def _tensors(model: Any, inputs: tuple[Any, ...]) -> list[Any]:
    held = [*model.parameters(), *model.buffers()]
    return held + [t for t in torch.utils._pytree.tree_leaves(inputs) if torch.is_tensor(t)]


def _nbytes(t: Any) -> int:
    return int(t.numel() * t.element_size())


def export(
    model: Any,
    inputs: tuple[Any, ...],
    named: dict[str, Any],
    path: Path,
    dynamic: Any = None,
    *,
    known: frozenset[str],
) -> Any:
    """Return torch's exported program; raises Refused. dynamic: torch's `dynamic_shapes`.

    known: operators that stay as they are; any other is decomposed by torch's own rules where those end in known ones.
    """
    first: BaseException | None = None
    for strict in (False, True):
        try:
            # what torch says about its own export is no business of the model's user: a refusal is
            with (
                torch.no_grad(),
                _beside("shortcuts").taken(),
                _beside("composites").remembered(),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")
                program = torch.export.export(
                    model, inputs, named, dynamic_shapes=dynamic, strict=strict
                ).run_decompositions({})
                return _decomposed(program, known)
        except Exception as e:
            first = first or e
    assert first is not None
    line = _form.line_of(first, path) or _form.returned(model.forward, path)
    raise Refused("export", f"{type(first).__name__}: {_form.first(first)}", line) from first


def _decomposed(program: Any, known: frozenset[str]) -> Any:
    own = _own_rules()
    for operator in sorted(_unknown(program, known), key=str):
        found, tried = program, {operator}
        for _ in range(_DEEPEST):
            rules = {
                **torch._decomp.decomposition_table,
                **torch.export.default_decompositions(),
                **own,
            }
            wanted = {one: rules[one] for one in tried if one in rules}
            if operator not in wanted:
                break
            try:
                found = program.run_decompositions(wanted)
            except (
                Exception
            ):  # torch's rule does not fit these arguments: the operator stays, and is named
                break
            new = _unknown(found, known) - _unknown(program, known)
            if not new:
                program = found
                break
            tried |= new
    return program


def _own_rules() -> dict[Any, Any]:
    found: dict[Any, Any] = _beside("rules").RULES
    return found


def _unknown(program: Any, known: frozenset[str]) -> set[Any]:
    """Return the operators that have no form; those outside of `aten` (prims, the user's own) never have one."""
    called = {node.target for node in program.graph.nodes if node.op == "call_function"}
    return {
        one
        for one in called
        if isinstance(one, torch._ops.OpOverload)
        and not (one.namespace == "aten" and one._schema.name.split("::")[1] in known)
        and torch.Tag.nondeterministic_seeded not in one.tags
    }


# ---- sizes that stay open
def arguments(forward: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return argument of `forward` -> value, for those that are given."""
    return dict(inspect.signature(forward).bind(*args, **kwargs).arguments)


def names_of(forward: Any, args: Any, kwargs: Any, shapes: Any) -> list[list[list[Any]]]:
    """Return for each tensor of a call, flattened, pairs of an axis and the name that torch's `dynamic_shapes` gives it."""
    given = arguments(forward, args, kwargs)
    if isinstance(shapes, dict):
        pairs = [(shapes.get(name), value) for name, value in given.items()]
    else:
        pairs = list(zip(shapes, given.values(), strict=False))
    return [axes for spec, value in pairs for axes in _axes(spec, value)]


def _axes(spec: Any, value: Any) -> Iterator[list[list[Any]]]:
    if isinstance(value, torch.Tensor):
        items = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        named = [[axis, getattr(dim, "__name__", None)] for axis, dim in items]
        yield [[a, n] for a, n in named if isinstance(n, str) and n.isidentifier()]
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _axes(spec.get(key) if isinstance(spec, dict) else None, inner)
    elif isinstance(value, tuple | list):
        specs = spec if isinstance(spec, tuple | list) else [None] * len(value)
        for one, inner in zip(specs, value, strict=False):
            yield from _axes(one, inner)
    else:
        leaves = torch.utils._pytree.tree_leaves(value)
        yield from ([] for leaf in leaves if isinstance(leaf, torch.Tensor))


# ---- the exported program as plain values
def describe(program: Any, inputs: Any, path: Path, values: Path | None) -> dict[str, Any]:
    """Return an exported program as plain values; `values`: folder that gets weights and inputs."""
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
            except Refused as e:
                line, _ = _line(node.meta.get("stack_trace") or "", path)
                raise Refused(e.what, e.message, line) from None
        elif node.op == "output":
            kinds = [s.kind.name.lower() for s in signature.output_specs]
            targets = [s.target or "" for s in signature.output_specs]
            for arg, kind, target in zip(node.args[0], kinds, targets, strict=True):
                found["outputs"].append({"value": _plain(arg), "kind": kind, "target": target})
    if values is not None:
        found["values"] = _save(saved, values / "values.bin")
    found["dims"] = [
        {"symbol": str(s), "low": int(r.lower), "high": int(r.upper) if _finite(r.upper) else None}
        for s, r in program.range_constraints.items()
    ]
    return found


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
        raise Refused("export", "the size of a result depends on values")
    return {"size": str(n.node.expr), "hint": int(n.node.hint)}


def _argument(one: Any, names: Iterator[str]) -> dict[str, Any]:
    """Return one of the file's own inputs: a tensor's name in the graph, a plain value, or what it is."""
    if torch.is_tensor(one):
        return {"tensor": next(names)}
    if one is None or isinstance(one, bool | int | float | str):
        return {"value": _plain(one)}
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
    except Refused as e:  # a size: say whose
        name = op.split(".")[1] if schema is not None else op
        raise Refused(e.what, f"{name}: {e.message}") from None
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


if __name__ == "__main__":
    main()
