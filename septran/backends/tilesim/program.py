"""Loads a TileLang source file with a simulated `tilelang` package and calls its kernels."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import host_torch
from .buffers import Buffer
from .common import Symbol, TensorType
from .errors import SimError
from .interpret import Interpreter
from .machine import Dialect, Machine
from .shifts import SHIFTS
from .threads import tells_threads, words_of
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

    def asks(self, env: dict[str, Any]) -> None:
        """Tell the machine whether this kernel tells threads or warp groups apart."""
        words = words_of(self.body, env)
        self.machine.tells_threads = tells_threads(words)
        self.machine.tells_groups = "ws" in words

    def walk(self, env: dict[str, Any]) -> Any:
        """Run the body."""
        try:
            return self.interpreter.call(self.body, env)
        except SimError as e:
            if e.kind == "parallel" and self.machine.tells_threads:
                raise NotImplementedError(f"{e.message} (line {e.line})") from e
            raise

    def written(self, views: Sequence[tuple[Buffer, Array]], args: Sequence[Any]) -> list[int]:
        """Deliver what was stored in bfloat16; return which arguments were stored to."""
        for buffer, given in views:
            if buffer.dtype == "bfloat16" and buffer.owner is not None and given.flags.writeable:
                stored = buffer.owner != -1
                bits = np.ascontiguousarray(buffer.data).view(np.uint32) >> np.uint32(16)
                given[stored] = bits.astype(np.uint16)[stored]
        changed = {id(g) for b, g in views if b.owner is not None and np.any(b.owner != -1)}
        return [k for k, given in enumerate(args) if id(given) in changed]

    def tensor(self, name: str, kind: TensorType, given: Array) -> Buffer:
        """Return an array of the caller's as a kernel's parameter.

        Raises:
            SimError: its shape or dtype is another than the annotation's.
        """
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
        if self.machine.hosted:
            buffer.reader = np.full(kind.shape, -1, np.int32)
        self.machine.arrays.append(buffer)
        return buffer


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
        self.run(args)

    def run(self, args: Sequence[Any]) -> list[int]:
        """Run all blocks as `__call__` does; return which arguments were written."""
        parameters = list(self.signature.parameters.values())
        if len(args) != len(parameters):
            raise SimError("type", f"Expected {len(parameters)} arguments, got {len(args)}")
        env = self.environment()
        self.asks(env)
        sizes = bound_dims(
            (p.annotation, np.shape(a)) for p, a in zip(parameters, args, strict=True)
        )
        env = {name: settled(value, sizes) for name, value in env.items()}
        views: list[tuple[Buffer, Array]] = []
        self.machine.arrays = []
        SHIFTS.another_launch()
        self.machine.another_call()
        for parameter, given in zip(parameters, args, strict=True):
            kind = parameter.annotation
            if isinstance(kind, TensorType):
                buffer = self.tensor(parameter.name, settled_type(kind, sizes), given)
                views.append((buffer, given))
                env[parameter.name] = buffer
            else:
                env[parameter.name] = constant(given) if not isinstance(given, Value) else given
        self.walk(env)
        return self.written(views, args)


def bound_dims(given: Iterable[tuple[Any, tuple[int, ...]]]) -> dict[Symbol, int]:
    """Return the extents that the shapes of a call give to the symbols of its kernel's annotations."""
    found: dict[Symbol, int] = {}
    for kind, shape in given:
        if isinstance(kind, TensorType) and len(kind.shape) == len(shape):
            for dim, extent in zip(kind.shape, shape, strict=True):
                if isinstance(dim, Symbol) and found.setdefault(dim, extent) != extent:
                    raise SimError("shape", f"{dim.name} is {found[dim]} and {extent}")
    return found


def settled_type(kind: TensorType, sizes: Mapping[Symbol, int]) -> TensorType:
    """Return the annotation with its symbols' extents."""
    return TensorType(tuple(sizes.get(d, d) for d in kind.shape), kind.dtype)


def settled(value: Any, sizes: Mapping[Symbol, int]) -> Any:
    """Return what a symbol stands for once the tensors of a call say it: a number of the kernel's, or one it is made for."""
    if not isinstance(value, Symbol) or value not in sizes:
        return value
    return sizes[value] if value.fixed else Value(sizes[value], "int32")


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


_LAYOUTS = {
    "layout": (
        "Layout Fragment make_swizzled_layout make_wgmma_swizzled_layout make_tcgen05mma_swizzled_layout make_linear_layout "
        "make_full_bank_swizzled_layout make_half_bank_swizzled_layout make_quarter_bank_swizzled_layout"
    ),
    "intrinsics": "make_mma_swizzle_layout",
}
"""what makes layouts: where in shared memory an element lies changes no result"""


def _layouts(part: str) -> types.ModuleType:
    module = types.ModuleType(f"tilelang.{part}")
    vars(module).update(dict.fromkeys(_LAYOUTS[part].split(), _laid_out))
    vars(module)["__getattr__"] = partial(_unknown, module.__name__)
    return module


class Lacking:
    """A name that hosts may import and this emulator does not have; using it says so."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"{self._name} is unknown to this emulator")

    def __call__(self, *_: object, **__: object) -> Any:
        """Say that it is not there."""
        raise NotImplementedError(f"{self._name} is unknown to this emulator")


def _part(name: str, has: Mapping[str, Any]) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__path__ = []
    module.__spec__ = ModuleSpec(name, None)  # torch asks whether there is a TVM
    vars(module).update(has)

    def lacking(word: str) -> Lacking:
        if word.startswith("__"):
            raise AttributeError(word)
        return Lacking(f"{name}.{word}")

    vars(module)["__getattr__"] = lacking
    return module


class Lacked:
    """Finds further modules of the simulated packages: files import some of which a kernel needs nothing."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return a module that says what is missing when it is used."""
        del path, target
        if name.partition(".")[0] not in ("tilelang", "tvm"):
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Return the module."""
        return _part(spec.name, {})

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: there is no text."""


def _laid_out(*_: object, **__: object) -> object:
    return object()


def package(
    machine: Machine,
    offers: Mapping[str, Any] | None = None,
    parts: Mapping[str, Mapping[str, Any]] = types.MappingProxyType({}),
) -> dict[str, types.ModuleType]:
    """Return the modules of the simulated `tilelang` by name.

    offers: what the package has for hosts of somebody else's; None: as much as SepTran's own files need.
    parts: further modules and what they have; of anything else they say what is missing when it is used.
    """
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
    layouts = {f"tilelang.{part}": _layouts(part) for part in _LAYOUTS}
    if offers is not None:
        vars(top).update(offers)
        vars(top).update({part: layouts[f"tilelang.{part}"] for part in _LAYOUTS})
        for module in (language, top):
            vars(module)["__getattr__"] = partial(_unknown, module.__name__)
    modules = {"tilelang": top, "tilelang.rocm": rocm, "tilelang.cuda": cuda}
    modules["tilelang.cache"] = cache
    if offers is not None:
        modules |= layouts
        modules |= {name: _part(name, has) for name, has in parts.items()}
        for name, module in modules.items():  # `import tilelang.autotuner` binds it in its package
            package, _, last = name.rpartition(".")
            if package in modules and (package == "tilelang" or package in parts):
                vars(modules[package]).setdefault(last, module)
    if offers is None:
        modules["torch"] = host_torch(machine)
    return modules | dict.fromkeys(NAMES_OF_PACKAGE, language)


@contextmanager
def simulated_package(machine: Machine) -> Iterator[None]:
    """Put the simulated `tilelang` into sys.modules for the time of an import."""
    modules = package(machine)
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


def _unknown(module: str, name: str) -> Any:
    """Say that this emulator lacks a name, which is no mistake of the file that uses it."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"{module}.{name} is unknown to this emulator")


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
