"""TileLang's own package as a host function sees it: `jit`, `compile`, `autotune`, kernels called on torch tensors.

Needs torch and septran_torch_host beside it, and is therefore imported only where somebody else's file is judged.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from septran_torch_host import DEVICE, Gate, HostError, gate_digest, own_work
from septran_torch_states import Module

from .common import DType, Symbol, TensorType, ceildiv
from .eager import Eager, Given, is_eager
from .errors import SimError
from .machine import Dialect, Machine
from .program import Lacked, PrimFunc, bound_dims, package

ACCUSED = ("race", "bounds", "uninitialised", "async", "deadlock")
"""kinds of errors that are mistakes of the kernel on any device; others are what TileLang or this emulator does not take"""
VERSION = "0.1.15"
"""of TileLang, whose language this is"""
REFUSED = ("capacity", "launch", "shape", "dtype", "memory", "parallel", "rebind")
"""kinds of errors for which TileLang itself refuses the kernel"""


def _next_power_of_2(n: Any) -> int:
    return 1 << max(0, int(n) - 1).bit_length()


def _multiprocessors(*_: object) -> int:
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


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

    def __init__(self, machine: Machine, gate: Gate, version: str = VERSION) -> None:
        self.machine, self.gate, self.version = machine, gate, version

    def names(self) -> dict[str, Any]:
        """Return what `tilelang` itself offers."""
        return {
            "jit": self.jit,
            "lazy_jit": self.jit,
            "compile": self.compile,
            "autotune": self.autotune,
            "cdiv": ceildiv,
            "PassConfigKey": _Words(),
            "TensorSupplyType": _Words(),
            "JITKernel": Kernel,
            "DataType": DType,
            "next_power_of_2": _next_power_of_2,
            "set_log_level": lambda *_: None,
            "__version__": self.version,
        }

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return what further modules offer: tuning without a clock, the number of multiprocessors, TVM's dtypes."""
        driver = types.SimpleNamespace(get_num_sms=_multiprocessors)
        has: dict[str, dict[str, Any]] = {
            "tilelang.autotuner": {"autotune": self.autotune},
            "tilelang.jit": {"jit": self.jit, "compile": self.compile},
            "tilelang.carver.arch": {"driver": driver},
            "tilelang.carver.arch.driver": {"get_num_sms": _multiprocessors},
            "tilelang.math": {
                "cdiv": ceildiv,
                "next_power_of_2": _next_power_of_2,
            },
            "tvm": {"DataType": DType},
            "tilelang.tvm": {"DataType": DType},
        }
        return has

    def jit(self, fn: Any = None, *, out_idx: Any = None, **_: object) -> Any:
        """Stand for @tilelang.jit over a function that returns a prim_func, over a prim_func, or in eager style."""
        if fn is None:
            return lambda f: self.jit(f, out_idx=out_idx)
        if isinstance(fn, PrimFunc):
            return Kernel(self, fn, out_idx)
        if is_eager(fn):
            return EagerKernel(self, Eager(fn, self.machine))
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
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype != kind.dtype:
            raise SimError("dtype", f"{name}: the tensor is {dtype}, the kernel takes {kind.dtype}")
        return self.memory(name, tensor)

    def memory(self, name: str, tensor: torch.Tensor) -> np.ndarray[Any, Any]:
        """Return a tensor's memory; of bfloat16 its bits."""
        if not tensor.is_contiguous():
            raise SimError("shape", f"{name} is not contiguous, which TileLang's kernels ask for")
        if tensor.dtype == torch.bfloat16:
            bits: np.ndarray[Any, Any] = tensor.view(torch.int16).detach().numpy()
            return bits.view(np.uint16)
        found: np.ndarray[Any, Any] = tensor.detach().numpy()
        return found

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
        self.launched(prim.run, args, given)

    def launched(
        self, run: Callable[[list[Any]], list[int]], args: list[Any], given: Sequence[Any]
    ) -> None:
        """Run what launches on arrays, and note which of the tensors behind them it stored to."""
        for arg, tensor in zip(args, given, strict=True):
            if isinstance(arg, np.ndarray) and self.gate._place(tensor) in self.gate.inputs:
                arg.flags.writeable = False
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        notes = len(self.machine.unwritten)
        self.gate.launching = True
        try:
            written = run(args)
        finally:
            self.gate.launching = False
        if len(self.machine.unwritten) > notes:
            self._depends(run, before, args)
        for k in written:
            self.gate.watch.stored.add(self.gate._place(given[k]))

    def _depends(
        self, run: Callable[[list[Any]], list[int]], before: list[Any], args: list[Any]
    ) -> None:
        """Raise when results change with what lies in memory that nobody wrote."""
        self.machine.poison = (1.0, 3)
        try:
            run(before)
        finally:
            self.machine.poison = (np.nan, 85)
        for one, other in zip(before, args, strict=True):
            same = not isinstance(one, np.ndarray) or one.tobytes() == other.tobytes()
            if not same:
                raise SimError("uninitialised", self.machine.unwritten[-1])


class EagerKernel:
    """A function in eager style: takes tensors and numbers, returns what its text returns."""

    def __init__(self, host: Hosted, eager: Eager) -> None:
        self._host, self._eager = host, eager

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch."""
        bound = self._eager.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = dict(bound.arguments)
        tensors = {n: t for n, t in named.items() if isinstance(t, torch.Tensor)}
        with own_work():
            arrays = {n: self._host.memory(n, t) for n, t in tensors.items()}
        kinds = {n: str(t.dtype).removeprefix("torch.") for n, t in tensors.items()}
        shown = {
            n: Given(tuple(tensors[n].shape), kinds[n], None) if n in tensors else v
            for n, v in named.items()
        }
        results, places, several = self._eager.plan(shown)
        made = [
            torch.empty(shape, dtype=getattr(torch, dtype), device=DEVICE)
            for shape, dtype in results
        ]
        with own_work():
            outs = [self._host.memory("a result", t) for t in made]

        def run(flat: list[Any]) -> list[int]:
            taken = dict(zip(tensors, flat, strict=False))
            filled = {
                n: Given(tuple(taken[n].shape), kinds[n], taken[n]) if n in taken else v
                for n, v in named.items()
            }
            return self._eager.launch(filled, flat[len(tensors) :])

        self._host.launched(run, [*arrays.values(), *outs], [*tensors.values(), *made])
        back = [made[k] if isinstance(k, int) else tensors[k] for k in places]
        return tuple(back) if several else back[0] if back else None

    def get_kernel_source(self, *_: object, **__: object) -> str:
        """Return nothing: no code is generated here."""
        return ""

    def compile(self, *_: object, **fixed: Any) -> Callable[..., Any]:
        """Stand for `.compile(..)`: what is called with tensors afterwards; of `T.const` a call's tensors say the values."""
        params = self._eager.signature.parameters
        numbers = {
            n: v for n, v in fixed.items() if n in params and not isinstance(v, torch.Tensor)
        }
        free = [n for n in params if n not in numbers]
        return lambda *args, **kwargs: self(
            **dict(zip(free, args, strict=False)), **{**numbers, **kwargs}
        )


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

    def get_kernel_source(self, *_: object, **__: object) -> str:
        """Return nothing: no code is generated here."""
        return ""


class Factory:
    """A function under @tilelang.jit that returns a prim_func for the sizes it is given."""

    def __init__(self, host: Hosted, fn: Callable[..., Any], out_idx: Any) -> None:
        self._host, self._fn, self._out_idx = host, fn, out_idx

    def __call__(self, *args: Any, **kwargs: Any) -> Kernel:
        """Return the kernel for these sizes."""
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


def load(
    path: Path, dialect: Dialect, gate: Gate, version: str | None = None
) -> tuple[types.ModuleType, Hosted]:
    """Import somebody's file; the simulated package stays, as host functions import late. version: what it says it is."""
    machine = Machine(dialect)
    machine.hosted = True
    host = Hosted(machine, gate, version or VERSION)
    sys.meta_path.append(Lacked())
    sys.modules.update(package(machine, host.names(), host.parts()))
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
    if isinstance(found, EagerKernel):
        return found.compile(**dict(given))
    if given:
        made = found(**dict(given))
        return Kernel(host, made, None) if isinstance(made, PrimFunc) else made
    called: Callable[..., Any] = found
    return called
