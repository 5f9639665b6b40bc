"""Headers that every kernel of a target includes first, parsed once per machine and set of flags.

Half of what a compiler does with an emitted kernel is reading the standard library (0.09 of 0.21 s for C++, 0.2 of 0.45 s for the
emulation of CUDA). The precompiled form is made when the same headers are asked for a second time: one kernel alone would
pay more than it gains.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from septran.errors import EnvironmentProblem
from septran.intact import intact, seal
from septran.own_tool import run_tool
from septran.toolchain.compilers import Compiler, cache_folder, host_features

_NAME, _MADE = "first.h", "first.h.gch"
_MOST = 16
"""precompiled headers that are kept, of 15 to 25 MB each: those used last"""


def first_headers(
    compiler: Compiler, flags: Sequence[str], text: str, *, extra: str = ""
) -> Path | None:
    """Return a file to `-include` whose precompiled form lies beside it; None where there is none yet, or never will be.

    flags: what the kernel is compiled with, all of them: others do not fit. text: the `#include` lines. extra: what else
    the headers depend on. The file's folder has nothing else in it and is never written again.
    """
    digest = hashlib.sha256()
    native = host_features() if "-march=native" in flags else ""
    for part in (compiler.path, compiler.version, native, *flags, text, extra):
        digest.update(part.encode() + b"\0")
    folder = cache_folder() / "headers" / digest.hexdigest()[:32]
    try:
        with contextlib.suppress(FileNotFoundError):
            made = (folder / _MADE).stat()
            if _intact(folder / _MADE, made.st_mtime_ns, made.st_size):
                os.utime(folder)
                return folder / _NAME
        return _asked(compiler, flags, text, folder)
    except (OSError, EnvironmentProblem):
        return None


def _asked(compiler: Compiler, flags: Sequence[str], text: str, folder: Path) -> Path | None:
    """Return what is made of `text` into `folder` at the second time, and only then."""
    note = folder.with_suffix(".asked")
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not note.exists():
        note.touch()
        return None
    if note.read_text(encoding="ascii"):
        return None
    work = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        (work / _NAME).write_text(text, encoding="utf-8")
        command = [compiler.path, *flags, "-x", "c++-header", _NAME, "-o", _MADE]
        done = run_tool(command, cpu_s=120, cwd=work)
        if done.returncode:
            note.write_text("it does not compile", encoding="ascii")
            return None
        seal(work / _MADE)
        work.chmod(0o755)
        # where another process was faster its folder stays, and this kernel does without
        shutil.rmtree(folder, ignore_errors=True)
        work.replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _drop_oldest(folder.parent)
    return folder / _NAME


def _drop_oldest(parent: Path) -> None:
    found = [p for p in parent.iterdir() if (p / _MADE).is_file()]
    for old in sorted(found, key=lambda p: p.stat().st_mtime)[:-_MOST]:
        shutil.rmtree(old, ignore_errors=True)


@functools.lru_cache(64)
def _intact(path: Path, changed_ns: int, size: int) -> bool:
    """Return whether the file is what was made; one that was not touched since is not read again."""
    return size > 0 and changed_ns > 0 and intact(path)
