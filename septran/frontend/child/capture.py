"""Runs in a confined child: read a module file, export it with torch.export, write the graph as JSON.

    python capture.py MODULE_FILE OUT_FOLDER CONFIG_JSON

Where a call is small (cost.py), the exported program has to give what the module gives (same.py).
Nothing of the user's Python leaves this process: what does is `graph.json` (nodes, shapes, source lines)
and `values.bin` (inputs and weights, when they are small). The parent trusts neither.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import re
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

    def ended(what: str, line: int) -> None:
        told = {"refused": "late", "message": what, "line": line}
        (out / "graph.json").write_text(json.dumps(told), encoding="utf-8")

    _beside("waits").watch(path, config["idle_s"], config["limit_s"], config["wall_s"], ended)
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
    attributes = getattr(model, _ATTRIBUTES)
    found = describe(program, inputs, path, out if small else None, attributes=attributes)
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
    setattr(model, _ATTRIBUTES, _register_state(model))
    return model, inputs


_ATTRIBUTES = "septran_attributes"


def _register_state(model: Any) -> frozenset[str]:
    """Make tensors kept as plain attributes buffers, so that a new state becomes an output; return their names."""
    found = []
    for path, part in model.named_modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                delattr(part, name)
                part.register_buffer(name, value)
                found.append(".".join(filter(None, (path, name))))
    return frozenset(found)


def _tensors(model: Any, inputs: tuple[Any, ...]) -> list[Any]:
    held = [*model.parameters(), *model.buffers()]
    return held + [t for t in torch.utils._pytree.tree_leaves(inputs) if torch.is_tensor(t)]


def _nbytes(t: Any) -> int:
    return int(t.numel() * t.element_size())


_HELD = re.compile(
    r"marked (\w+) as dynamic but your code specialized it to be a constant \((\d+)\)"
)


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
    ending: Any = None
    refused: Any = None
    chosen = _beside("chosen")
    assigned = _beside("assigned").Assigned()
    for way in ("as it is", "rows", "strict"):
        if way == "strict" and (assigned.names or ending is not None):
            break  # torch forgets what parts of the module are given; or it was exported, with a size that values decide
        if way == "rows" and ending is None and not _is_about_values(first):
            continue
        rows = _beside("chosen_mode").ChosenRows(chosen) if way == "rows" else None
        try:
            # what torch says about its own export is no business of the model's user: a refusal is
            with (
                torch.no_grad(),
                _beside("shortcuts").taken(),
                _beside("composites").remembered(),
                warnings.catch_warnings(),
                nullcontext() if way == "strict" else assigned.kept(model),
            ):
                warnings.simplefilter("ignore")
                with nullcontext() if rows is None else rows:
                    program = torch.export.export(
                        model, inputs, named, dynamic_shapes=dynamic, strict=way == "strict"
                    )
                program = program.run_decompositions({})
                if not assigned.wrong:
                    if way != "as it is" or not _is_open_ended(program):
                        program = _decomposed(program, known)
                        if rows is not None:
                            _try_rows(program, model, inputs, named, path, assumed=rows.assumed)
                        return program
                    ending = program
        except Refused as e:
            refused = e
        except Exception as e:
            if (why := _unsupported(e, chosen.Unsupported)) is not None:
                line = _form.line_of(e, path) or _form.returned(model.forward, path)
                refused = Refused("export", f"{_sized(first)}; what has no form: {why}", line)
                continue
            first = first or e
            if isinstance(e, MemoryError):  # the other way may not run this line at all
                break
        if assigned.wrong:
            raise Refused("export", assigned.wrong, _form.returned(model.forward, path))
    if refused is not None:
        raise refused
    if ending is not None:  # whoever describes it says which size that is
        return _decomposed(ending, known)
    assert first is not None
    line = _form.line_of(first, path) or _form.returned(model.forward, path)
    raise Refused("export", _said(first), line) from first


def _said(error: BaseException) -> str:
    """Return what torch said at the end of an export, in words that a user of it needs."""
    said = f"{type(error).__name__}: {_form.first(error)}"
    if sized := re.fullmatch(r"DynamicOutputShapeException: aten\.(\w+)\.\w+", said):
        said = f"{sized[1]}: the size of a result depends on values"
    if held := _HELD.search(str(error)):
        said = f"{held[1]} is to stay open, but forward was traced for {held[1]} = {held[2]} only"
        said += " (give an example of more than 1)" if held[2] == "1" else ""
    return said


# ---- rows that values choose
def _sized(error: BaseException | None) -> str:
    """Return whose size depends on values, where torch said so."""
    told = error is not None and "DynamicOutputShape" in type(error).__name__
    return _said(error) if told and error is not None else "the size of a result depends on values"


def _is_about_values(error: BaseException | None) -> bool:
    found = f"{type(error).__name__} {error}"
    return re.search(r"DynamicOutputShape|DataDependent|[Dd]ata-dependent", found) is not None


def _is_open_ended(program: Any) -> bool:
    """Return whether values decide a size of an exported program."""
    results = (node.meta.get("val") for node in program.graph.nodes)
    sizes = (n for r in results for t in _values(r) for n in t.shape if isinstance(n, torch.SymInt))
    return any(not n.node.expr.is_Integer and n.node.hint is None for n in sizes)


def _unsupported(error: BaseException | None, kind: type[Exception]) -> str | None:
    """Return what has no form for chosen rows, where that is behind an exception."""
    while error is not None:
        if isinstance(error, kind):
            return str(error)
        error = error.__cause__ or error.__context__
    return None


def _try_rows(
    program: Any, model: Any, inputs: Any, named: Any, path: Path, *, assumed: bool
) -> None:
    """Raise Refused where all rows in place of those that values choose are another function, or where that cannot be tried and has to be.

    assumed: that something is done only where a row is chosen, and comes to nothing where none is.
    """
    at = _form.returned(model.forward, path, start=True)
    held = _values((inputs, named, [*model.parameters(), *model.buffers()]))
    if not any(isinstance(t, FakeTensor) for t in held) and _beside("cost").is_small(program):
        observed = functools.partial(_beside("chosen_mode").ChosenRows, _beside("chosen"))
        if why := _beside("same").why_not_chosen(
            program, model, inputs, named, observed, assumed=assumed
        ):
            raise Refused("differs", why, at)
    elif assumed:
        asked = "forward asks whether a row is chosen, and what that decides was not tried: the module is too large to be called here"
        raise Refused("export", asked, at)


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


def describe(
    program: Any, inputs: Any, path: Path, values: Path | None, *, attributes: frozenset[str]
) -> dict[str, Any]:
    """Return an exported program as described.py says; raises Refused."""
    described = _beside("described")
    try:
        found: dict[str, Any] = described.describe(
            program, inputs, path, values, attributes=attributes
        )
    except described.Unsized as e:
        raise Refused("export", e.message, e.line) from None
    return found


if __name__ == "__main__":
    main()
