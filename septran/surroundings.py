"""What a disk, a limit, a folder's owner or a broken library does to us, as the error that a person can act on."""

from __future__ import annotations

import errno
from pathlib import Path

from septran import assets
from septran.errors import EnvironmentProblem, SeptranError

# the other errors of a system call are our mistakes
_SYSTEM = frozenset(
    getattr(errno, f"E{name}")
    for name in (
        "NOSPC DQUOT FBIG ACCES PERM ROFS IO BUSY STALE LOOP NAMETOOLONG NOTDIR NXIO NOMEM AGAIN MFILE NFILE"
    ).split()
)

STDOUT = "stdout"
"""The file name of an error when the result could not be written."""
_FULL = "free some space; `septran runs prune` removes old runs"
_HELP = {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL}


def as_problem(e: BaseException) -> SeptranError | None:
    """Return `e` as an error of SepTran: itself, or V001 or V002; None when it is a bug."""
    if isinstance(e, SeptranError):
        return e
    if isinstance(e, OSError) and e.filename == STDOUT:
        return EnvironmentProblem.of(
            "V002",
            f"stdout is full or closed: {e.strerror}",
            help="what was made is kept: `septran runs ls`",
        )
    if isinstance(e, OSError) and _below_home(e.filename):
        return EnvironmentProblem.of(
            "V002", f"{e.strerror} ({e.filename})", help="set SEPTRAN_HOME to a folder of yours"
        )
    if isinstance(e, OSError) and e.errno in _SYSTEM:
        where = f" ({e.filename})" if e.filename else ""
        return EnvironmentProblem.of(
            "V002", f"{e.strerror}{where}", help=_HELP.get(e.errno or 0, "")
        )
    if isinstance(e, FileNotFoundError) and not _has_cwd():
        return EnvironmentProblem.of("V002", "the working directory does not exist any more")
    if isinstance(e, ImportError) and not str(e.name).startswith("septran"):
        return EnvironmentProblem.of(
            "V001",
            f"a library cannot be loaded: {str(e).splitlines()[0]}",
            help="install it again; `ulimit -v` and a full memory look like this, too",
        )
    if isinstance(e, MemoryError):
        return EnvironmentProblem.of(
            "V002", "this machine has not enough memory", help="use smaller sizes (--dim)"
        )
    return None


def _below_home(name: object) -> bool:
    return isinstance(name, str) and Path(name).absolute().is_relative_to(assets.home().absolute())


def _has_cwd() -> bool:
    try:
        return bool(Path.cwd())
    except OSError:
        return False
