"""Run a compiler on sources that nobody trusts, in the sandbox; ask a tool its version without one.

Sources may name any file (`#include "/someone/else/key"`), and a Python kernel runs while it is lowered, so a
compile step reads the system's folders, Python, SepTran and the headers its flags name, and writes one folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran.errors import EnvironmentProblem
from septran.preloaded import Preload
from septran.sandbox import MIB, STARVED, Confined, Limits, patience

_MEMORY_BYTES = 12 * 1024 * MIB
_OUTPUT_BYTES = MIB
_PROCESSES = 256
_NOT_ITS_OWN = {
    STARVED: "got no processor time from this machine",
    "machine memory": "was ended because this machine ran out of memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a process ended. code: exit status, negative for a signal, 124 when it ran out of time.

    not_enforced: parts of the sandbox that this machine refused, ready for `Built.not_checked`.
    """

    code: int
    output: str
    seconds: float
    not_enforced: tuple[str, ...] = ()


Run = Callable[[Sequence[str], Path, float], Finished]
"""(command, folder, seconds) -> Finished."""


def probe(command: Sequence[str], timeout_s: float = 20.0) -> Finished:
    """Run a trusted tool without inputs (`g++ --version`); code 127 when it cannot be started."""
    start = time.monotonic()
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        done = subprocess.run(
            list(command),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finished(code=127, output=str(error), seconds=time.monotonic() - start)
    return Finished(code=done.returncode, output=done.stdout, seconds=time.monotonic() - start)


def run(command: Sequence[str], cwd: Path, timeout_s: float) -> Finished:
    """Run `command` confined to `cwd`, the only folder it may write; output is stdout and stderr."""
    return run_confined(command, cwd, timeout_s)


def run_confined(
    command: Sequence[str],
    cwd: Path,
    timeout_s: float,
    *,
    env: Mapping[str, str] | None = None,
    reads: Sequence[Path] = (),
    preload: Preload | None = None,
) -> Finished:
    """Run `command` as `run` does, with `env` added and the folders `reads` readable.

    preload: what a script that this Python runs imports (`septran.preloaded`).
    timeout_s: of a machine with nothing else to do; on a busy one up to three times as much.

    Raises:
        EnvironmentProblem: V214, it could not even be started, so that no source was read; or the machine did not run it
            for as long as it needs, or ended it because memory ran out.
    """
    child = Confined(
        command,
        rw_dir=cwd,
        ro_paths=(*reads, *_headers(command), *toolchain_folders(command[0], env or {})),
        limits=Limits(
            timeout_s=timeout_s * patience(),
            cpu_s=int(8 * timeout_s),
            memory_bytes=_MEMORY_BYTES,
            output_cap=_OUTPUT_BYTES,
            address_space=False,
            processes=_PROCESSES,
        ),
        env={"LC_ALL": "C", **(env or {})},
        preload=preload,
    )
    result = child.wait()
    if result.broken:
        raise EnvironmentProblem.of(
            "V214", f"{Path(command[0]).name} did not start: {result.broken}", help="septran doctor"
        )
    if result.why in _NOT_ITS_OWN:
        why = _NOT_ITS_OWN[result.why]
        raise EnvironmentProblem.of("V214", f"{Path(command[0]).name} {why}", help="try again")
    output = result.stdout_tail
    if result.why:
        output += f"\n{Path(command[0]).name} was ended by its {result.why} limit"
    return Finished(
        code=124 if result.why == "timeout" else result.rc or (1 if result.why else 0),
        output=output,
        seconds=result.seconds,
        not_enforced=tuple(f"compile sandbox: {part}" for part in result.not_enforced),
    )


def plain(path: Path) -> bool:
    """Return whether a confined child left a file, not a link to one that only we may read."""
    return path.is_file() and not path.is_symlink()


def child_result(path: Path) -> dict[str, Any] | None:
    """Return what a lowering child wrote (ok, log, facts that are counts); None when it is no such object."""
    if not plain(path):
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        facts = {str(name): int(value) for name, value in found["facts"].items()}
        return {"ok": bool(found["ok"]), "log": str(found["log"]), "facts": facts}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def child_answer(run: Callable[[], Finished], path: Path) -> dict[str, Any] | None:
    """Return `child_result` of a child that wrote `path`; None where it could not be started or failed."""
    try:
        ended = run()
    except EnvironmentProblem:
        return None
    return None if ended.code else child_result(path)


def _headers(command: Sequence[str]) -> tuple[Path, ...]:
    """The folders of `-I`; flags are SepTran's own, never a kernel's."""
    return tuple(Path(word[2:]) for word in command if word.startswith("-I") and word[2:])


def toolchain_folders(program: str, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where a compiler outside the system's folders lies, and the library folders it is given."""
    found = [Path(word) for word in env.get("LD_LIBRARY_PATH", "").split(":") if word]
    path = Path(shutil.which(program) or program).resolve()
    if path.parent.name == "bin":
        found.append(path.parent.parent)
    cuda = os.environ.get("CUDA_HOME")
    if cuda:
        found.append(Path(cuda))
    return tuple(folder for folder in found if not _holds_home(folder.resolve()))


def _holds_home(folder: Path) -> bool:
    """Whether reading all of `folder` would mean reading somebody's home."""
    home = Path.home().resolve()
    return folder == home or folder in home.parents
