"""A kernel that is compiled only when a call needs more than the cache has.

    kernel = asleep(asked)          # None: compile it
    kernel(x)                       # in the cache: its library is mapped and called, and nothing else of SepTran imported

Whatever else is asked of it (its source, an attribute, a call of another kind, a trace by torch) wakes it: it is
compiled in place and is the CompiledKernel from then on.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from septran.call.call_entries import CallEntry, call_key, folder_of, own_file, read_entry
from septran.call.stamp import file_state, stamp
from septran.document import plain_text
from septran.errors import SeptranError
from septran.toolchain.launch_type import call_directly, launch_type, threads_end_at_forks

PLAIN_IMPORTS = frozenset(
    "__future__ collections dataclasses functools itertools math septran task_lang tasklang torch typing".split()
)
"""What a logic file may import and still be all that its kernel depends on."""
_MOST = 8
_REAL = "septran.call.kernel"
_TRACER = "torch._dynamo"


def asleep(asked: Mapping[str, Any], wake: Callable[[], Any]) -> Any:
    """Return a kernel for what `septran.compile` was asked, None where it has to be compiled now. wake: compiles it.

    Only in a process that compiled nothing yet: where the compiler's parts are imported, nothing is saved.
    """
    if _REAL in sys.modules or _TRACER in sys.modules:
        return None
    if asked["backward"] is not None or asked["dynamic"]:
        return None
    key = asked_key(asked)
    try:
        if key is None or not folder_of(key).is_dir():
            return None
    except SeptranError:  # there is no home
        return None
    made = Asleep(key, wake)
    _SLEEPERS.add(made)
    if _WAKER not in sys.meta_path:
        sys.meta_path.insert(0, _WAKER)
    return made


def asked_key(asked: Mapping[str, Any]) -> str | None:
    """Return the name of all that decides what `septran.compile` gives: what it was asked, and the stamp of this place."""
    here = stamp()
    if here is None:
        return None
    try:
        texts = [
            None if asked[n] is None else sha256(plain_text(Path(asked[n])).encode()).hexdigest()
            for n in ("logic_file", "mapping_file")
        ]
        if asked["logic_file"] is not None and _shadowed(Path(asked["logic_file"]).parent):
            return None
    except (OSError, ValueError):
        return None
    words = (
        "logic_file",
        "mapping_file",
        "target",
        "op",
        "arch",
        "entry",
        "verify",
        "deterministic",
    )
    given = [asked[n] for n in words]
    return sha256(repr([given, texts, here.digest]).encode()).hexdigest()


def _shadowed(folder: Path) -> bool:
    """Return whether a logic file in `folder` that imports one of `PLAIN_IMPORTS` may get a file of the user's."""
    return any(p.name.partition(".")[0] in PLAIN_IMPORTS for p in folder.iterdir())


class _Sleep:
    """What a sleeping kernel knows: how it is compiled, and the calls that the cache had, the latest first."""

    def __init__(self, key: str, wake: Callable[[], Any]) -> None:
        self.key, self.wake = key, wake
        self.quick: tuple[Callable[..., Any], ...] = ()
        self.lock = threading.RLock()
        self._made: dict[Any, Callable[..., Any]] = {}

    def found(self, values: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return what serves calls like this one, None where the cache has nothing that may be run."""
        import torch

        if not values or any(type(v) is not torch.Tensor for v in values):
            return None
        kinds = tuple((tuple(v.shape), str(v.dtype)) for v in values)
        if kinds not in self._made:
            entry = read_entry(self.key, call_key(kinds))
            made = None if entry is None else _loaded(*entry)
            if made is None:
                return None
            self._made[kinds] = made  # mapped once, however many kinds there are
            self.quick = (made, *self.quick)[:_MOST]
        return self._made[kinds]


class Asleep:
    """A kernel like CompiledKernel that has not been compiled in this process; see the module's text."""

    _quick: tuple[Callable[..., Any], ...] = ()
    _into: tuple[Callable[..., Any], ...] = ()
    _outputs: tuple[str, ...] = ()

    def __init__(self, key: str, wake: Callable[[], Any]) -> None:
        """Use `septran.compile`."""
        self._sleep = _Sleep(key, wake)

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Run the kernel; raises as `CompiledKernel`."""
        if not named:
            for quick in self._quick:
                found = quick(*values)
                if found is not NotImplemented:
                    return found
            made = self._sleep.found(values)
            if made is not None:
                with self._sleep.lock:
                    if type(self) is Asleep:
                        self._quick = self._sleep.quick
                found = made(*values)
                if found is not NotImplemented:
                    return found
        return awake(self)(*values, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__signature__"):
            raise AttributeError(name)  # what a library asks of any object is no reason to wake
        return getattr(awake(self), name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Be a CompiledKernel for whoever knows that class."""
        return sys.modules[_REAL].CompiledKernel if _REAL in sys.modules else type(self)

    def __repr__(self) -> str:
        return repr(awake(self))

    def __dir__(self) -> list[str]:
        return dir(awake(self))

    def __reduce__(self) -> Any:
        return awake(self).__reduce__()


def _loaded(entry: CallEntry, library: bytes) -> Callable[..., Any] | None:
    """Map the library and return its call, None where the extension or a tool is not what it was."""
    path, digest = entry.extension
    try:
        if sha256(own_file(Path(path))).hexdigest() != digest:
            return None
        if any(file_state(tool) != (tool, state) for tool, state in entry.tools):
            return None
        kind = launch_type(Path(path))
        if kind is None:
            return None
        threads_end_at_forks()
        folder = Path(tempfile.mkdtemp(prefix="septran-module-"))
        try:
            file = folder / "kernel.so"
            file.write_bytes(library)
            made = kind(str(file), entry.symbol, entry.params, _never)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # what is mapped stays mapped
        call_directly(Asleep, made)
        launch = made if entry.shape is None else made.shaped(entry.shape)
    except (OSError, ValueError, TypeError):
        return None
    fresh: Callable[..., Any] = launch.fresh
    return fresh


def _never(*_: Any) -> Exception:
    """`fresh` says NotImplemented where a tensor does not fit; only a call in place is explained."""
    return TypeError("the tensors are not what the kernel was made for")


def awake(kernel: Any) -> Any:
    """Compile a sleeping kernel in place and return it; raises as `septran.compile`."""
    if type(kernel) is not Asleep:
        return kernel
    sleep = kernel._sleep
    with sleep.lock:
        if type(kernel) is Asleep:
            made = sleep.wake()
            kernel.__dict__.update(made.__dict__, _quick=sleep.quick)
            # a plain assignment meets the property of the class
            object.__dict__["__class__"].__set__(kernel, type(made))
    return kernel


_SLEEPERS: weakref.WeakSet[Asleep] = weakref.WeakSet()


class _Waker:
    """Wakes the kernels when torch's tracer is imported: it follows calls through Python, which ends before the cache does."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name != _TRACER:
            return
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for kernel in list(_SLEEPERS):
            try:
                awake(kernel)
            except Exception:  # said by its next call
                continue


_WAKER = _Waker()
