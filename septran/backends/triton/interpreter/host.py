"""Triton's side of a host function that somebody else wrote: what it asks of the driver, its launches, its tuner.

Lies beside a judged kernel as septran_triton_host.py; septran_torch_host.py is torch's side.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from septran_torch_card import card_of, pretend_cuda
from septran_torch_host import Gate, gate_digest
from septran_triton_asm import install_asm
from septran_triton_blocks import install_blocks
from septran_triton_driver import Driver
from septran_triton_launches import Launches
from septran_triton_libdevice import install_libdevice
from septran_triton_watch import Watch


class HostWatch(Watch):  # type: ignore[misc,unused-ignore]
    """A watch that also knows which memories launches have stored to."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: set[int] = set()

    def check(
        self, ptrs: np.ndarray, mask: np.ndarray, size: int, programs: np.ndarray, what: str
    ) -> None:
        """As `Watch.check`; notes the memory that a store or an atomic operation reaches."""
        super().check(ptrs, mask, size, programs, what)
        if what == "load" or not ptrs.size:
            return
        live = ptrs[np.broadcast_to(mask, ptrs.shape)]
        if live.size:
            first = int(live.min())
            self.stored.update(m.low for m in self.memories if m.low <= first < m.high)


class Compiled:
    """What `kernel.warmup(...)` returns: figures of a compiled kernel, and the kernel itself to launch."""

    n_regs, n_spills = 32, 0

    def __init__(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._function, self._args, self._options = function, args, options
        self.metadata = types.SimpleNamespace(
            shared=1024, num_warps=options.get("num_warps", 4), num_stages=1
        )

    def _init_handles(self) -> None:
        """Do nothing: there is no driver to load the kernel into."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return a launch; constants that were given at warm-up need not be given again."""

        def launch(*args: Any, **options: Any) -> Any:
            names = self._function.arg_names
            known = {**dict(zip(names, self._args, strict=False)), **self._options}
            known.update(zip(names, args, strict=False))
            known.update(options)
            wanted = {k: v for k, v in known.items() if k in names}
            return self._function.run(grid=grid, warmup=False, **wanted)

        return launch


def _no_allocator() -> bool:
    try:
        from triton.runtime import _allocation
    except ImportError:  # a Triton without it
        return False
    return isinstance(_allocation._allocator.get(), _allocation.NullAllocator)


def _at_compile_time(error: BaseException | None) -> bool:
    """Whether an error is a `tl.static_assert` that does not hold."""
    while error is not None:
        if any(f.name == "_new_static_assert" for f in traceback.extract_tb(error.__traceback__)):
            return True
        error = error.__cause__
    return False


def install(watch: HostWatch, file: str, arch: str) -> Gate:
    """Make Triton and torch answer as with a GPU of `arch`; return what stands around imports and calls.

    Call it before the file is imported, after the interpreter was installed.
    """
    import triton
    import triton.language as tl
    import triton.runtime.autotuner as tuner
    import triton.runtime.interpreter as it
    from torch.utils import _triton as torch_triton

    install_blocks(tl)
    install_libdevice(tl, it)
    install_asm(tl, it)
    # what torch.compile would look through; the interpreter's kernels are none of those it knows
    torch.library.wrap_triton = lambda kernel: kernel  # type: ignore[assignment,attr-defined,unused-ignore]
    torch_triton.has_triton = lambda: True
    gate, card = Gate(watch, file), card_of(arch)
    triton.runtime.driver.set_active(Driver(card))
    stock_launch = it.GridExecutor.__call__

    made = Launches(gate)

    def launch(self: Any, *args: Any, **options: Any) -> Any:
        made.note(self, args, options)
        gate.launching = True
        try:
            return stock_launch(self, *args, **options)
        finally:
            gate.launching = False

    stock_run = it.InterpretedFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        if warmup:
            return Compiled(self, args, options)
        return stock_run(self, *args, grid=grid, warmup=False, **options)

    def warmup(self: Any, *args: Any, grid: Any = None, **options: Any) -> Any:
        return Compiled(self, args, options)

    stock_descriptor = it.interpreter_semantic.make_tensor_descriptor

    def descriptor(*args: Any, **options: Any) -> Any:
        """One that a kernel makes itself lies in memory that somebody has to give it; one that the host made is only taken in."""
        if sys._getframe(1).f_code.co_name != "_implicit_cvt" and _no_allocator():
            raise RuntimeError(
                "Kernel requires a runtime memory allocation, but no allocator was set: triton.set_allocator"
            )
        return stock_descriptor(*args, **options)

    it.interpreter_semantic.make_tensor_descriptor = descriptor
    stock_tuned = tuner.Autotuner.run

    uncompiled: set[int] = set()

    def tuned(self: Any, *args: Any, **options: Any) -> Any:
        """A configuration that does not compile is none that a tuner takes, as long as there is another."""
        while True:
            self.cache.clear()
            try:
                return stock_tuned(self, *args, **options)
            except Exception as error:
                taken = id(self.best_config)
                if len(self.configs) == 1 or taken in uncompiled or not _at_compile_time(error):
                    raise
                uncompiled.add(taken)

    def bench(self: Any, *args: Any, config: Any, **options: Any) -> list[float]:
        """No clock: which configuration a call takes follows from its inputs, so that all get a turn."""
        if id(config) in uncompiled:
            return [float("inf")] * 3
        seed = hashlib.sha256(gate_digest(gate) + repr(config).encode()).digest()
        return [int.from_bytes(seed[:6], "big") + 1.0] * 3

    it.GridExecutor.__call__ = launch
    it.InterpretedFunction.run = run
    it.InterpretedFunction.warmup = warmup
    tuner.Autotuner.run = tuned
    tuner.Autotuner._bench = bench
    pretend_cuda(card)

    return gate
