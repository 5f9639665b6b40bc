"""Loads a TileLang source file with a simulated `tilelang` package and calls its kernels."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .buffers import Buffer
from .common import TensorType
from .errors import SimError
from .interpret import Interpreter
from .machine import Dialect, Machine
from .values import STORAGE, Array, Value, constant, round_bfloat16

NAMES_OF_PACKAGE = ("tilelang.language", "tilelang.rocm.language", "tilelang.cuda.language")


class Traced:
    """A function whose body the interpreter walks: T.prim_func or T.macro."""

    def __init__(self, fn: Callable[..., Any], machine: Machine) -> None:
        self.fn = fn
        self.machine = machine
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, first - 1)
        found = tree.body[0]
        assert isinstance(found, ast.FunctionDef)
        self.body = found
        self.file = inspect.getsourcefile(fn) or ""
        self.source = Path(self.file).read_text(encoding="utf-8").splitlines()
        self.interpreter = Interpreter(machine, self.file, self.source)
        self.signature = inspect.signature(fn)
        self.closure: inspect.ClosureVars | None = None

    def environment(self) -> dict[str, Any]:
        """Return the names the body can see: builtins, module globals and closure."""
        if self.closure is None:
            self.closure = inspect.getclosurevars(self.fn)
        closure = self.closure
        return {**closure.builtins, **self.fn.__globals__, **closure.nonlocals}

    def walk(self, env: dict[str, Any]) -> Any:
        """Run the body."""
        return self.interpreter.call(self.body, env)


class Macro(Traced):
    """T.macro: runs in the caller's block; arguments are bound by name."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the body with these arguments."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self.walk({**self.environment(), **bound.arguments})


class PrimFunc(Traced):
    """T.prim_func: call it with numpy arrays; bfloat16 arrays are uint16 bit patterns."""

    def __call__(self, *args: Any) -> None:
        """Run all blocks; raises SimError, leaves outputs in the given arrays."""
        parameters = list(self.signature.parameters.values())
        if len(args) != len(parameters):
            raise SimError("type", f"Expected {len(parameters)} arguments, got {len(args)}")
        env = self.environment()
        views: list[tuple[Buffer, Array]] = []
        for parameter, given in zip(parameters, args, strict=True):
            kind = parameter.annotation
            if isinstance(kind, TensorType):
                buffer = self._tensor(parameter.name, kind, given)
                views.append((buffer, given))
                env[parameter.name] = buffer
            else:
                env[parameter.name] = constant(given) if not isinstance(given, Value) else given
        self.walk(env)
        for buffer, given in views:
            if buffer.dtype == "bfloat16" and buffer.owner is not None and given.flags.writeable:
                written = buffer.owner != -1
                bits = np.ascontiguousarray(buffer.data).view(np.uint32) >> np.uint32(16)
                given[written] = bits.astype(np.uint16)[written]

    def _tensor(self, name: str, kind: TensorType, given: Array) -> Buffer:
        if tuple(given.shape) != kind.shape:
            raise SimError("shape", f"{name}: shape {tuple(given.shape)} != {kind.shape}")
        data = given
        if kind.dtype == "bfloat16":
            if given.dtype == np.uint16:
                data = (given.astype(np.uint32) << np.uint32(16)).view(np.float32)
            else:
                data = round_bfloat16(np.asarray(given, np.float32))
            data.flags.writeable = given.flags.writeable  # inputs stay read-only, though copied
        elif given.dtype != STORAGE[kind.dtype]:
            raise SimError("dtype", f"{name}: dtype {given.dtype} != {kind.dtype}")
        buffer = Buffer(self.machine, data, kind.dtype, "global", name, fresh=False)
        buffer.owner = np.full(kind.shape, -1, np.int32)
        return buffer


def _decorator(machine: Machine, cls: type[Traced]) -> Callable[..., Any]:
    def decorate(fn: Callable[..., Any] | None = None, **_: object) -> Any:
        return decorate if fn is None else cls(fn, machine)

    return decorate


def namespace(machine: Machine) -> types.SimpleNamespace:
    """Return the simulated `tilelang.language` of the machine's dialect."""
    if machine.dialect.name.startswith("ascend"):
        from .npu import npu_names

        names = npu_names(machine)
    else:
        from .gpu import gpu_names

        names = gpu_names(machine)
    names["prim_func"] = _decorator(machine, PrimFunc)
    names["macro"] = _decorator(machine, Macro)
    return types.SimpleNamespace(**names)


@contextmanager
def simulated_package(machine: Machine) -> Iterator[None]:
    """Put the simulated `tilelang` into sys.modules for the time of an import."""
    language = types.ModuleType("tilelang.language")
    vars(language).update(vars(namespace(machine)))
    top, rocm, cuda = (types.ModuleType(n) for n in ("tilelang", "tilelang.rocm", "tilelang.cuda"))
    top.__path__ = rocm.__path__ = cuda.__path__ = []
    for module in (top, rocm, cuda):
        vars(module)["language"] = language
    vars(top)["jit"] = lambda fn=None, **_: fn if fn is not None else (lambda f: f)
    vars(top)["compile"] = lambda fn, **_: fn
    cache = types.ModuleType("tilelang.cache")
    nothing = lambda *_, **__: None  # noqa: E731 - there is no cache here
    vars(cache)["clear_cache"] = nothing
    vars(top).update({"cache": cache, "disable_cache": nothing, "enable_cache": nothing})
    modules = {"tilelang": top, "tilelang.rocm": rocm, "tilelang.cuda": cuda}
    modules["tilelang.cache"] = cache
    modules |= dict.fromkeys(NAMES_OF_PACKAGE, language)
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = old


def load_file(path: Path, dialect: Dialect) -> tuple[types.ModuleType, Machine]:
    """Import a TileLang source file under the simulator.

    Runs the file's module level as Python: only in the sandboxed child for untrusted code.
    """
    machine = Machine(dialect)
    machine.meets = "sync_block_wait" in path.read_text(encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"tilesim_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SimError("load", f"cannot import {path.name}")
    module = importlib.util.module_from_spec(spec)
    with simulated_package(machine):
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        finally:
            sys.modules.pop(spec.name, None)
    return module, machine


def run_file(path: Path, entry: str, arrays: Sequence[Array], dialect: Dialect) -> list[str]:
    """Import `path`, call its kernel `entry` on `arrays`; returns the simulator's notes."""
    module, machine = load_file(path, dialect)
    kernel = getattr(module, entry, None)
    if not isinstance(kernel, PrimFunc):
        raise SimError("load", f"{path.name} has no @T.prim_func named {entry!r}")
    kernel(*arrays)
    return machine.notes
