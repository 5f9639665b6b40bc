"""TileLang's own package as a host function sees it: `jit`, `compile`, `autotune`, kernels called on torch tensors.

Needs torch and septran_torch_host beside it, and is therefore imported only where somebody else's file is judged.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from septran_torch_host import DEVICE, Gate, HostError, gate_digest, own_work
from septran_torch_states import Module

from .common import Symbol, TensorType
from .errors import SimError
from .machine import Dialect, Machine
from .program import PrimFunc, bound_dims, package

ACCUSED = ("race", "bounds", "uninitialised", "async")
"""kinds of errors that are mistakes of the kernel on any device; others are what TileLang or this emulator does not take"""
REFUSED = ("capacity", "launch", "shape", "dtype", "memory", "parallel", "rebind")
"""kinds of errors for which TileLang itself refuses the kernel"""


@dataclass(slots=True)
class Memory:
    """One tensor's bytes [low, high)."""

    low: int
    high: int
    name: str
    writable: bool


@dataclass(slots=True)
class Book:
    """What `Gate` tells of memory; launches note here what they stored to."""

    memories: list[Memory] = field(default_factory=list)
    stored: set[int] = field(default_factory=set)
    last_error: str = ""

    def forget(self) -> None:
        """Allow nothing: the next call has other memory."""
        self.memories.clear()

    def add(
        self, address: int, nbytes: int, itemsize: int, name: str, *, writable: bool = True
    ) -> None:
        """Remember a tensor."""
        del itemsize
        self.memories.append(Memory(address, address + nbytes, name, writable))


class Hosted:
    """The simulated package's side of hosts: compiles nothing, launches on torch tensors."""

    def __init__(self, machine: Machine, gate: Gate) -> None:
        self.machine, self.gate = machine, gate

    def names(self) -> dict[str, Any]:
        """Return what `tilelang` itself offers."""
        return {
            "jit": self.jit,
            "lazy_jit": self.jit,
            "compile": self.compile,
            "autotune": self.autotune,
            "cdiv": lambda a, b: -(-a // b),
            "PassConfigKey": _Words(),
            "set_log_level": lambda *_: None,
            "__version__": "0.1.15",
        }

    def jit(self, fn: Any = None, *, out_idx: Any = None, **_: object) -> Any:
        """Stand for @tilelang.jit over a function that returns a prim_func, over a prim_func, or in eager style."""
        if fn is None:
            return lambda f: self.jit(f, out_idx=out_idx)
        if isinstance(fn, PrimFunc):
            return Kernel(self, fn, out_idx)
        return Factory(self, fn, out_idx)

    def compile(self, fn: Any, out_idx: Any = None, **_: object) -> Kernel:
        """Stand for tilelang.compile."""
        if isinstance(fn, Kernel):
            return fn
        if not isinstance(fn, PrimFunc):
            raise HostError("host: tilelang.compile takes what @T.prim_func made")
        return Kernel(self, fn, out_idx)

    def autotune(self, fn: Any = None, *, configs: Any = (), **_: object) -> Any:
        """Stand for @tilelang.autotune: nothing is timed, the inputs decide which configuration is taken."""

        def decorate(inner: Any) -> Any:
            def tuned(*args: Any, **kwargs: Any) -> Any:
                listed = list(configs(*args, **kwargs) if callable(configs) else configs)
                if not listed:
                    return inner(*args, **kwargs)
                chosen = listed[gate_digest(self.gate)[0] % len(listed)]
                named = chosen if isinstance(chosen, dict) else vars(chosen)
                return inner(*args, **{**named, **kwargs})

            return tuned

        return decorate if fn is None else decorate(fn)

    def array(self, name: str, kind: TensorType, tensor: Any) -> np.ndarray[Any, Any]:
        """Return a tensor's memory as a kernel's parameter sees it."""
        if not isinstance(tensor, torch.Tensor):
            raise SimError("dtype", f"{name} is a {type(tensor).__name__}, not a tensor")
        if not tensor.is_contiguous():
            raise SimError("shape", f"{name} is not contiguous, which TileLang's kernels ask for")
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype != kind.dtype:
            raise SimError("dtype", f"{name}: the tensor is {dtype}, the kernel takes {kind.dtype}")
        if dtype == "bfloat16":
            tensor = tensor.view(torch.int16)
        found: np.ndarray[Any, Any] = tensor.detach().numpy()
        return found.view(np.uint16) if dtype == "bfloat16" else found

    def launch(self, prim: PrimFunc, tensors: Iterable[Any]) -> None:
        """Run a kernel; twice where it read what nobody wrote, to see whether a result depends on it."""
        parameters = list(prim.signature.parameters.values())
        given = list(tensors)
        if len(given) != len(parameters):
            raise SimError(
                "shape", f"the kernel takes {len(parameters)} arguments, {len(given)} are given"
            )
        kinds = [p.annotation for p in parameters]
        with own_work():
            args = [
                self.array(p.name, k, g) if isinstance(k, TensorType) else g
                for p, k, g in zip(parameters, kinds, given, strict=True)
            ]
        for arg, tensor in zip(args, given, strict=True):
            if isinstance(arg, np.ndarray) and self.gate._place(tensor) in self.gate.inputs:
                arg.flags.writeable = False
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        notes = len(self.machine.unwritten)
        self.gate.launching = True
        try:
            written = prim.run(args)
        finally:
            self.gate.launching = False
        if len(self.machine.unwritten) > notes:
            self._depends(prim, before, args)
        for k in written:
            self.gate.watch.stored.add(self.gate._place(given[k]))

    def _depends(self, prim: PrimFunc, before: list[Any], args: list[Any]) -> None:
        """Raise when results change with what lies in memory that nobody wrote."""
        self.machine.poison = (1.0, 3)
        try:
            prim.run(before)
        finally:
            self.machine.poison = (np.nan, 85)
        for one, other in zip(before, args, strict=True):
            same = not isinstance(one, np.ndarray) or one.tobytes() == other.tobytes()
            if not same:
                raise SimError("uninitialised", self.machine.unwritten[-1])


class Kernel:
    """A compiled kernel: takes the tensors that are not in `out_idx`, makes and returns those that are."""

    def __init__(self, host: Hosted, prim: PrimFunc, out_idx: Any) -> None:
        self._host, self._prim = host, prim
        count = len(prim.signature.parameters)
        listed = (
            [] if out_idx is None else out_idx if isinstance(out_idx, list | tuple) else [out_idx]
        )
        self._outs = [int(k) % count for k in listed]

    def __call__(self, *args: Any, **_: object) -> Any:
        """Launch."""
        parameters = list(self._prim.signature.parameters.values())
        inputs = [k for k in range(len(parameters)) if k not in self._outs]
        if len(args) != len(inputs):
            raise SimError(
                "shape", f"the kernel takes {len(inputs)} arguments, {len(args)} are given"
            )
        given = dict(zip(inputs, args, strict=True))
        kinds = {k: p.annotation for k, p in enumerate(parameters)}
        sizes = bound_dims(
            (kinds[k], tuple(t.shape)) for k, t in given.items() if isinstance(t, torch.Tensor)
        )
        for k in self._outs:
            shape = tuple(sizes[d] if isinstance(d, Symbol) else d for d in kinds[k].shape)
            given[k] = torch.empty(shape, dtype=getattr(torch, kinds[k].dtype), device=DEVICE)
        self._host.launch(self._prim, [given[k] for k in range(len(parameters))])
        made = [given[k] for k in self._outs]
        return None if not made else made[0] if len(made) == 1 else made


class Factory:
    """A function under @tilelang.jit that returns a prim_func for the sizes it is given."""

    def __init__(self, host: Hosted, fn: Callable[..., Any], out_idx: Any) -> None:
        self._host, self._fn, self._out_idx = host, fn, out_idx

    def __call__(self, *args: Any, **kwargs: Any) -> Kernel:
        """Return the kernel for these sizes."""
        if "T.const" in inspect.getsource(self._fn) or "T.empty" in inspect.getsource(self._fn):
            raise NotImplementedError("TileLang's eager style (T.const, T.empty)")
        found = self._fn(*args, **kwargs)
        if isinstance(found, Kernel):
            return found
        if not isinstance(found, PrimFunc):
            raise NotImplementedError(f"@tilelang.jit over a function that gives a {type(found)}")
        return Kernel(self._host, found, self._out_idx)


class _Words:
    """Names without a meaning here (`tilelang.PassConfigKey.X`)."""

    def __getattr__(self, name: str) -> str:
        return name


def load(path: Path, dialect: Dialect, gate: Gate) -> tuple[types.ModuleType, Hosted]:
    """Import somebody's file; the simulated package stays, as host functions import late."""
    machine = Machine(dialect)
    machine.hosted = True
    host = Hosted(machine, gate)
    sys.modules.update(package(machine, host.names()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module, host


def entry(
    found: Any, host: Hosted, made_with: Iterable[tuple[str, Any]], state: list[tuple[str, str]]
) -> Callable[..., Any]:
    """Return what is called with tensors: a function, an object of a class, or a kernel made for sizes.

    made_with: (keyword, "" by place; value). state: as of `septran_torch_states.Module`.
    """
    given = list(made_with)
    if isinstance(found, PrimFunc):
        return Kernel(host, found, None)
    if isinstance(found, type):
        module: Callable[..., Any] = Module(found(*(v for _, v in given)), state)
        return module
    if given:
        made = found(**dict(given))
        return Kernel(host, made, None) if isinstance(made, PrimFunc) else made
    called: Callable[..., Any] = found
    return called
