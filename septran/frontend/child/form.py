"""The form of a module file: what it has to define and to return, and the line of its text at which a mistake is told.

Loaded by capture.py, in the confined child.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_NEEDED = ("Model", "get_init_inputs")
_FUNCTION = "reference"
"""A file may define a function of this name instead of a module; it has no weights."""
_INPUTS = ("get_inputs", "get_inputs_dyn_list")


class Refused(Exception):
    """A reason that is told to the user as it is. what: form, raised, export, differs, nothing."""

    def __init__(self, what: str, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.what, self.message, self.line = what, message, line


def read(path: Path) -> ModuleType:
    """Run a module file and return what it defines; raises Refused."""
    text = path.read_text(encoding="utf-8")
    module = ModuleType("septran_task")
    module.__file__ = str(path)
    sys.modules["septran_task"] = module
    linecache.checkcache(str(path))
    guarded(path, lambda: exec(compile(text, str(path), "exec", dont_inherit=True), vars(module)))
    names = vars(module)
    own = [n for n, v in names.items() if _is_module_class(v) and v.__module__ == module.__name__]
    if "Model" not in names and callable(names.get(_FUNCTION)):
        _as_module(module)
    elif "Model" not in names and len(own) == 1:
        names["Model"] = names[own[0]]
    if "get_init_inputs" not in names and _fits(names.get("Model"), (), {}):
        names["get_init_inputs"] = list
    missing = [n for n in _NEEDED if n not in names]
    if not set(_INPUTS) & names.keys():
        missing.append("get_inputs")
    if "Model" in missing and not own:
        inputs = ", and no get_inputs" if "get_inputs" in missing else ""
        raise Refused(
            "form",
            f"it defines neither a class Model with get_init_inputs nor a function {_FUNCTION}{inputs}",
        )
    if missing:
        which = f": which of {', '.join(own)} is it?" if "Model" in missing and own else ""
        if missing == ["get_init_inputs"] and _is_module_class(names["Model"]):
            which = f", and Model is made with {_required(names['Model'])}"
        raise Refused("form", f"it does not define {', '.join(missing)}{which}")
    return module


def _is_module_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def _as_module(module: ModuleType) -> None:
    """Define `Model` and `get_init_inputs` for a file that has only a function."""
    function = vars(module)[_FUNCTION]

    class Model(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        forward = staticmethod(function)

    vars(module).update(Model=Model, get_init_inputs=list)


def built(module: ModuleType, path: Path, shape: int) -> tuple[Any, tuple[Any, ...]]:
    """Return the module of a file and the arguments of its call; raises Refused.

    shape: which of the calls of `get_inputs_dyn_list`.
    """
    torch.manual_seed(0)
    names = vars(module)
    given = _asked(names, "get_init_inputs", path)
    kind, at = names["Model"], defined(path, "Model")
    if isinstance(kind, torch.nn.Module) or not callable(kind):
        raise Refused("form", f"Model is {_kind(kind)}: it has to be the class of the module", at)
    args, kwargs = _arguments(given, kind, "get_init_inputs", names, path)
    model = guarded(path, lambda: kind(*args, **kwargs), at)
    if not isinstance(model, torch.nn.Module):
        raise Refused("form", f"Model is a {type(model).__name__}, not a torch module", at)
    asked = next(n for n in _INPUTS if n in names)
    inputs = _asked(names, asked, path)
    if asked != "get_inputs":
        inputs = guarded(path, lambda: inputs[shape], defined(path, asked))
    if torch.is_tensor(inputs):
        inputs = (inputs,)
    args, kwargs = _arguments(inputs, model.forward, asked, names, path)
    args = _in_order(model, args, kwargs, names[asked], path)
    _with_values(asked, torch.utils._pytree.tree_leaves(args), returned(names[asked], path))
    _with_values("Model", [*model.parameters(), *model.buffers()], at)
    return model, args


def _with_values(what: str, tensors: list[Any], line: int) -> None:
    for one in tensors:
        if type(one).__module__ == "numpy":
            made = "torch.from_numpy makes a tensor of it"
            raise Refused("form", f"{what} has an array of numpy: {made}", line)
        if torch.is_tensor(one) and (one.layout != torch.strided or one.device.type == "meta"):
            how = "without values (meta)" if one.device.type == "meta" else str(one.layout)[6:]
            dense = "inputs and weights are dense tensors with values"
            raise Refused("form", f"{what} has a tensor that is {how}: {dense}", line)


def _asked(names: dict[str, Any], name: str, path: Path) -> Any:
    """Return what one of the file's functions returns."""
    function = names[name]
    if not callable(function):
        raise Refused("form", f"{name} is {_kind(function)}, not a function", defined(path, name))
    return guarded(path, function, defined(path, name))


def _arguments(
    given: Any, callee: Any, name: str, names: dict[str, Any], path: Path
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and named arguments that a list, a dict of names, or a pair of both says."""
    if isinstance(given, dict) and all(isinstance(k, str) for k in given):
        return (), given
    if given is None or isinstance(given, str | bytes | set | dict | torch.Tensor):
        raise Refused("form", _no_list(given, name), returned(names[name], path))
    try:
        found = tuple(given)
    except TypeError:
        raise Refused("form", _no_list(given, name), returned(names[name], path)) from None
    if len(found) == 2 and isinstance(found[0], tuple | list) and isinstance(found[1], dict):
        args, kwargs = tuple(found[0]), found[1]
        # a pair is two arguments where they fit, but an empty list in front of a dict is none
        if (not args or not _fits(callee, found, {})) and _fits(callee, args, kwargs):
            return args, kwargs
    return found, {}


def _no_list(given: Any, name: str) -> str:
    what = "nothing" if given is None else _kind(given)
    return f"{name} returns {what}: it has to return the list of arguments"


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _fits(callee: Any, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> bool:
    try:
        inspect.signature(callee).bind(*args, **kwargs)
    except (TypeError, ValueError):  # ValueError: it has no signature to be asked
        return False
    return True


def _required(kind: Any) -> str:
    """Return the arguments that a class cannot be made without."""
    params = inspect.signature(kind).parameters.values()
    return ", ".join(
        p.name
        for p in params
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    )


def _in_order(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Any, path: Path
) -> tuple[Any, ...]:
    """Return the arguments of a call of `forward` in its order; raises Refused where they do not fit."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return args
    if model._forward_pre_hooks and not kwargs:  # hooks may give `forward` other arguments
        return args
    try:
        bound = signature.bind(*args, **kwargs)
        given = list(bound.arguments)
        bound.apply_defaults()
    except TypeError as e:
        what = f"what {asked.__name__} returns does not fit forward{signature}: {e}"
        raise Refused("form", what, returned(asked, path)) from None
    if not kwargs:
        return args
    if named := sorted(bound.kwargs.keys() & kwargs.keys()):
        # a call of a compiled module has its arguments in a row
        what = f"forward takes {', '.join(named)} by name only: make it an ordinary argument"
        raise Refused("form", what, returned(model.forward, path, start=True))
    last = max(i for i, name in enumerate(bound.arguments) if name in given)
    return tuple(bound.args[: last + 1])


# ---- where it stands
def guarded(path: Path, run: Callable[[], Any], at: int = 1) -> Any:
    """Return what `run` returns; an exception becomes Refused at the last line of the file that it came through, or `at`."""
    try:
        return run()
    except Refused:
        raise
    except BaseException as e:
        line = e.lineno if isinstance(e, SyntaxError) else line_of(e, path)
        raise Refused("raised", f"{type(e).__name__}: {first(e)}", line or at) from e


def line_of(error: BaseException, path: Path) -> int:
    """Return the last line of the file that an exception came through, or 0."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return (lines[-1] if lines else 0) or 0


def first(error: BaseException) -> str:
    """Return the first line of what an exception says, without the file's name."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)  # its own names the copy
    return (text.strip().splitlines() or [""])[0][:300]


def defined(path: Path, name: str) -> int:
    """Return the line at which a file defines or sets a name, or 1."""
    lines = [1]
    for one in ast.parse(path.read_text(encoding="utf-8")).body:
        here = [getattr(one, "name", "")]
        if isinstance(one, ast.Assign):
            here = [getattr(t, "id", "") for t in one.targets]
        if name in here:
            lines.append(one.lineno)
    return lines[-1]


def returned(function: Any, path: Path, *, start: bool = False) -> int:
    """Return the line of a function's last return statement, or of its start; 0 for what stands elsewhere."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != str(path):
        return 0
    lines = [
        one.positions.lineno
        for one in dis.get_instructions(code)
        if one.opname.startswith("RETURN") and one.positions and one.positions.lineno
    ]
    return int(code.co_firstlineno if start or not lines else lines[-1])
