"""Child process: call a host function that somebody else wrote with Triton's own compiler and without a device.

Kernels are compiled for an arch where they are launched, and do not run. The file lies beside its septran_compiler_host.py.

usage: judged_compile_child.py KERNEL.py ASKED.json OUT.json
"""

import importlib
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MOST_THREADS = 1024
_COMPILER = ("compiler", "language", "backends", "runtime/jit.py", "runtime/autotuner.py")
"""parts of Triton that read a kernel's text and ask no device"""


def main(path: str, asked: str, out: str) -> int:
    """Write what Triton makes of `path`, as `compiler_host.tell`."""
    sys.path += [str(Path(path).parent), str(Path(__file__).parent)]
    host = importlib.import_module("septran_compiler_host")

    @contextmanager
    def compiling(arch: str, facts: dict[str, int]) -> Iterator[None]:
        _install(arch, facts)
        yield

    told: int = host.tell(path, asked, out, compiler=compiling, words=_words)
    return told


def _install(arch: str, facts: dict[str, int]) -> None:
    """Let Triton load what it compiles into a device that only counts (kernels, configs: of the tuner's that were tried and left)."""
    import triton
    import triton.compiler.compiler as compiler
    from resources import usage
    from septran_torch_card import card_of
    from septran_triton_driver import Driver
    from triton.runtime.autotuner import Autotuner

    five = "n_max_threads" in inspect.getsource(compiler.CompiledKernel._init_handles)

    def load_binary(name: str, cubin: bytes, shared: int, device: int) -> tuple[Any, ...]:
        needs = usage(cubin)
        facts["kernels"] += 1
        for key, value in {**needs, "shared": shared}.items():
            facts[key] = max(value, facts.get(key, 0))
        given = (object(), object(), needs.get("registers", 0), needs.get("spill_bytes", 0) // 4)
        return (*given, _MOST_THREADS) if five else given

    driver = Driver(card_of(arch))
    driver.utils.load_binary = load_binary
    driver.utils.unload_module = lambda module: None
    driver.launcher_cls = lambda src, metadata: _launched
    triton.runtime.driver.set_active(driver)
    stock = Autotuner._bench
    taken: set[int] = set()

    def bench(self: Any, *args: Any, config: Any, **more: Any) -> list[float]:
        """The first configuration that the compiler takes is the one: nothing is measured here, and each costs seconds."""
        if id(self) in taken:
            return [2.0] * 3
        found: list[float] = stock(self, *args, config=config, **more)
        if found[0] < 2.0:
            taken.add(id(self))
        return found

    Autotuner._bench = bench
    Autotuner.do_bench = lambda self, call, **more: [1.0] * 3 if call() is None else []


def _launched(*args: Any, **more: Any) -> None:
    """A launch."""


def _words(error: Exception) -> str:
    """Return what an error says, "" for one that is not of Triton's compiler: anything else may need the device that is not there."""
    import triton
    from triton.errors import TritonError

    package = Path(str(triton.__file__)).parent
    frames = traceback.extract_tb(error.__traceback__)
    last = Path(frames[-1].filename) if frames else Path()
    if not (
        isinstance(error, TritonError)
        or any(last.is_relative_to(package / part) for part in _COMPILER)
    ):
        return ""
    told, cause = f"{type(error).__name__}: {_said(error)}", error.__cause__
    while cause is not None:
        if _said(cause) not in told:
            told = f"{told} ({type(cause).__name__}: {_said(cause)})"
        cause = cause.__cause__
    return told


def _said(error: BaseException) -> str:
    """Return an error's words; of one about a kernel's text, the line that it is about in place of all lines before it."""
    number, src = getattr(getattr(error, "node", None), "lineno", 0), getattr(error, "src", None)
    words = getattr(error, "error_message", None)
    if not number or not isinstance(src, str):
        return str(words or error)
    line = "".join(src.splitlines()[number - 1 : number])
    return f"`{line.strip()}`" + (f": {words}" if words else "")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
