"""Write down how a call was served, so that the next process need not compile for it (`call_entries`)."""

from __future__ import annotations

import ast
import functools
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import assets
from septran.call.asleep import PLAIN_IMPORTS, asked_key
from septran.call.call_entries import CallEntry, call_key, own_file, read_entry, write_entry
from septran.call.stamp import file_state, sources_changed, stamp
from septran.kernel import Kernel
from septran.mapping.schema import ExplicitMapping, Policy
from septran.started import STARTED_NS
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.confined import probe
from septran.toolchain.launcher import extension_file, spec

if TYPE_CHECKING:
    import torch

_MARGIN_NS = 1_000_000_000
"""Files that changed this shortly before the process began may have been read before: a clock has ticks, a disk its own clock."""
_READING = frozenset(
    "open exec eval compile __import__ __builtins__ __loader__ __spec__ globals load fromfile from_file".split()
)
_PROGRAMS = ("cc1plus", "collect2", "as", "ld", "objcopy")


class Recorder:
    """What `septran.compile` was asked, and the name of all that decided its answer when it was asked."""

    def __init__(self, asked: Mapping[str, Any], key: str) -> None:
        """Use `recorder`."""
        self._asked, self._key = asked, key
        self._libraries: dict[Callable[..., None], tuple[Kernel, bytes]] = {}

    def loaded(self, run: Callable[..., None], kernel: Kernel, library: bytes) -> None:
        """Remember of which library `run` is."""
        self._libraries[run] = (kernel, library)

    def keep(
        self,
        run: Callable[..., None],
        read: Sequence[torch.Tensor],
        shape: tuple[int, ...] | None,
    ) -> None:
        """Keep that calls like one with the tensors `read` are served by `run`. shape: as in `CallEntry`."""
        extension = extension_file()
        if extension is None or run not in self._libraries:
            return
        if sources_changed() or asked_key(self._asked) != self._key:
            return
        kernel, library = self._libraries[run]
        call = call_key([(tuple(t.shape), str(t.dtype)) for t in read])
        try:
            tools = _tools()
            digest = sha256(own_file(extension)).hexdigest()
        except OSError:  # another user's extension
            return
        if any(state[2] > STARTED_NS - _MARGIN_NS for _, state in tools):
            return
        entry = CallEntry(
            asked=self._key,
            call=call,
            symbol=kernel.entry,
            params=tuple(map(spec, kernel.params)),
            shape=shape,
            library=sha256(library).hexdigest(),
            extension=(str(extension), digest),
            tools=tools,
        )
        known = read_entry(self._key, call)
        if known is None or replace(known[0], seal="") != entry:
            write_entry(entry, library)


def recorder(
    asked: Mapping[str, Any],
    key: str | None,
    mapping: ExplicitMapping | Policy,
    device: object,
) -> Recorder | None:
    """Return what writes down the calls of a kernel, None where the next process has to compile again.

    That is where more decides the kernel than the stamp and two files: Python that imports or reads others, leaf files
    of a mapping, a device, packages that bring targets; and where a file changed since this process may have read it.
    key: of what was asked, before any of it was read.
    """
    if key is None or asked["backward"] is not None or asked["dynamic"]:
        return None
    if device is not None or assets.targets():
        return None
    if isinstance(mapping, ExplicitMapping) and mapping.leaf_kernels:
        return None
    here = stamp()
    if here is None or here.newest_ns > STARTED_NS - _MARGIN_NS:
        return None
    if asked["logic_file"] is not None and not _plain(Path(asked["logic_file"])):
        return None
    return Recorder(asked, key)


def _plain(path: Path) -> bool:
    """Return whether a logic file's text says all that it does: no file of the user's beside it is read."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return False
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if not node.level else [""]
        roots = {name.partition(".")[0] for name in names}
        if roots - PLAIN_IMPORTS:
            return False
        called = getattr(node, "id", None) or getattr(node, "attr", None)
        if called in _READING:
            return False
    return True


@functools.cache
def _tools() -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the programs that the compiler runs, as they are; raises OSError where one cannot be found."""
    compiler = cpp_compiler("native")
    if compiler is None:
        raise FileNotFoundError("no compiler")
    found = [file_state(compiler.path)]
    asked = [f"{shlex.quote(compiler.path)} -print-prog-name={name}" for name in _PROGRAMS]
    for told in probe(["/bin/sh", "-c", " && ".join(asked)]).output.splitlines():
        path = told if Path(told).is_absolute() else shutil.which(told)
        found.append(file_state(path or told))
    if len(found) != 1 + len(_PROGRAMS):
        raise FileNotFoundError(f"{compiler.path} does not say what it runs")
    return tuple(found)
