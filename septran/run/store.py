"""Run directories: everything about a run is a file, written so that a kill leaves no half file.

    <root>/2026-11-21T01-52-03--gemm--cpp--7f3a/
        run.json       request, settings with their origin, versions, machine, content key, status
        events.jsonl   append-only, one object per line, flushed
        ...            whatever the run writes (kernel, verdict, attempts)
    <root>/latest      link to the newest run

Nothing needed lives only in a database; a run directory alone can be shown, verified and replayed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Literal

import septran
from septran import assets, gpu, seal
from septran.atomic import write_atomic
from septran.document import Document, read_object
from septran.errors import ConfigError, closest
from septran.kernel import content_hash
from septran.settings import Settings
from septran.surroundings import as_problem

Status = Literal["running", "finished", "failed", "interrupted"]
_RESERVE = "reserve"
_RESERVE_BYTES = 16 << 10  # for the last words of a run that filled the disk
_LIBRARIES = ("torch", "numpy", "tilelang", "triton", "pybind11", "openai")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Document):
    """What run.json says of a run that starts; its end adds status, exit code and summary. key: of what was asked."""

    SCHEMA: ClassVar[str] = "septran.run/1"
    id: str
    status: Status
    pid: int
    created: str
    key: str
    request: Mapping[str, Any]
    settings: Mapping[str, Any]
    versions: Mapping[str, Any]
    machine: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """An open or finished run; `id` is the directory's name."""

    dir: Path

    @property
    def id(self) -> str:
        """The directory's name."""
        return self.dir.name

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file of the run (folders in `name` are made) and return its path."""
        path = (self.dir / name).resolve()
        if not path.is_relative_to(self.dir.resolve()):
            raise ValueError(f"{name!r} leaves the run directory")
        return write_atomic(path, content)

    def write_json(self, name: str, value: object) -> Path:
        """Write `value` as indented JSON."""
        return self.write(name, json.dumps(value, indent=2, default=str) + "\n")

    def write_sealed(self, name: str, value: object) -> Path:
        """Write `value` as indented JSON that is told from an edited one later (`seal`)."""
        return seal.write_sealed(self.dir, name, json.dumps(value, indent=2, default=str) + "\n")

    def is_sealed(self, name: str) -> bool:
        """Return whether a file of the run is as this home wrote it."""
        return seal.is_sealed(self.dir, name)

    def event(self, kind: str, **data: object) -> None:
        """Append one line to events.jsonl and flush it to the disk."""
        entry = {"at": _now().isoformat(timespec="milliseconds"), "kind": kind, **data}
        line = (json.dumps(entry, default=str) + "\n").encode()
        file = os.open(self.dir / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line)  # one write: lines of two processes do not mix
            os.fsync(file)
        finally:
            os.close(file)

    def events(self) -> list[dict[str, Any]]:
        """Return the events; a torn last line (the process was killed) is left out."""
        path = self.dir / "events.jsonl"
        found = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                continue
        return found

    def subdir(self, name: str) -> Path:
        """Return a folder inside the run, made when missing."""
        path = self.dir / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def info(self) -> dict[str, Any]:
        """Return run.json ({} when it is missing or damaged)."""
        found = read_object(self.dir / "run.json") or {}
        parts = ("request", "summary")
        return found if all(isinstance(found.get(n, {}), dict) for n in parts) else {}

    def update(self, **fields: object) -> None:
        """Set fields of run.json; one that somebody edited stays one that somebody edited."""
        write = self.write_sealed if self.is_sealed("run.json") else self.write_json
        write("run.json", {**self.info(), **fields})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the run to this process while the body runs; raises ConfigError C067 when another has it.

        The lock is the system's: it ends with the process, however that ends.
        """
        with (self.dir / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError.of(
                    "C067",
                    f"run {self.id} is being run by another process (pid {self.info().get('pid', '?')})",
                    help="wait for it, or end it",
                ) from None
            yield

    def finish(self, status: Status, *, exit_code: int, summary: Mapping[str, object]) -> None:
        """Close the run: status, exit code and the few figures a listing shows."""
        (self.dir / _RESERVE).unlink(missing_ok=True)
        self.update(
            status=status,
            exit_code=exit_code,
            summary=dict(summary),
            finished=_now().isoformat(timespec="seconds"),
        )

    def fail(self, e: Exception, **summary: object) -> None:
        """Close the run that `e` ended and say why; `e` itself is more important than that this works."""
        problem = as_problem(e)
        code, why = 4, f"{type(e).__name__}: {e}"
        if problem is not None:
            first = problem.diagnostics[0]
            code, why = problem.exit_code, f"[{first.code}] {first.message}"
        with contextlib.suppress(OSError):
            self.finish("failed", exit_code=code, summary={**summary, "why": why})
            self.event("error", why=why)


def root(settings: Settings) -> Path:
    """Return where runs live: $SEPTRAN_HOME/runs when set, else .septran/runs of the project or cwd."""
    if os.environ.get("SEPTRAN_HOME"):
        return settings.home / "runs"
    return (settings.project or Path.cwd()) / ".septran" / "runs"


def reference(run: Run) -> str:
    """Return the words that name `run` to a call from this folder without --project: its id, or its whole path."""
    if os.environ.get("SEPTRAN_HOME"):
        folder = assets.home() / "runs"
    else:
        here = Path.cwd()
        folder = (assets.find_project(here) or here) / ".septran" / "runs"
    return run.id if run.dir.parent == folder else shlex.quote(str(run.dir))


def create(
    request: Mapping[str, object],
    *,
    label: Sequence[str],
    settings: Settings,
    key: str = "",
    folder: Path | None = None,
) -> Run:
    """Return a new run directory with its run.json and the `latest` link.

    Args:
        request: what was asked, as plain values.
        label: words for the directory's name, e.g. ("gemm", "cpp").
        settings: recorded with the origin of each value.
        key: content key; runs with the same key do the same work. Default: hash of the request.
        folder: where the directory is made; default: `root(settings)`.
    """
    folder = root(settings) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    _ignore_itself(folder)
    words = "--".join(_slug(word) for word in label if word)
    run = _claim(folder, f"{_now():%Y-%m-%dT%H-%M-%S}--{words}")
    run.write(_RESERVE, bytes(_RESERVE_BYTES))
    head = Head(
        id=run.id,
        status="running",
        pid=os.getpid(),
        created=_now().isoformat(timespec="seconds"),
        key=key or content_hash(request),
        request=dict(request),
        settings=settings.to_json(),
        versions=versions(),
        machine=machine(),
    )
    run.write_sealed("run.json", head.to_json())
    _point_latest(folder, run)
    return run


def listing(folder: Path) -> tuple[Run, ...]:
    """Return the runs in `folder`, newest first."""
    if not folder.is_dir():
        return ()
    found = [p for p in folder.iterdir() if p.is_dir() and not p.is_symlink()]
    return tuple(Run(p) for p in sorted(found, reverse=True) if (p / "run.json").is_file())


def find(reference: str, folder: Path) -> Run:
    """Return a run by "latest", id, unique part of an id, or path.

    Raises:
        ConfigError: C030 no such run, C031 several match.
    """
    path = Path(reference).expanduser()
    if (path / "run.json").is_file():
        return Run(path.resolve())
    runs = listing(folder)
    if reference == "latest" and runs:  # the link says which came last, whatever the clock said
        last = (folder / "latest").resolve().name
        return next((run for run in runs if run.id == last), runs[0])
    exact = [run for run in runs if run.id == reference]
    matches = exact or [run for run in runs if reference in run.id]
    if len(matches) == 1:
        return matches[0]
    if matches:
        shown = ", ".join(run.id for run in matches[:5])
        raise ConfigError.of("C031", f"{reference!r} names {len(matches)} runs: {shown}")
    near = closest(reference, [run.id for run in runs])
    raise ConfigError.of(
        "C030", f"no run {reference!r} in {folder}{near}", help="see `septran runs ls`"
    )


def require_sealed(run: Run, name: str) -> None:
    """Raise ConfigError C146 where a file that says what to do is not as this home wrote it.

    It names programs, endpoints, files to read and to write: whoever can edit it would decide what runs here.
    """
    if run.is_sealed(name):
        return
    raise ConfigError.of(
        "C146",
        f"{name} of run {run.id} was edited, or written in another SEPTRAN_HOME, so nothing it asks for is done",
        help="begin another run; `septran runs show` says what this one was asked for",
    )


def remove(run: Run) -> None:
    """Delete a run and re-point `latest`."""
    folder = run.dir.parent
    shutil.rmtree(run.dir)
    latest = folder / "latest"
    if latest.is_symlink() and not latest.exists():
        latest.unlink()
        if rest := listing(folder):
            _point_latest(folder, rest[0])


def prune(folder: Path, *, keep: int, older_than: timedelta | None = None) -> tuple[Run, ...]:
    """Delete finished runs beyond the newest `keep` (and older than `older_than`); return them."""
    gone = []
    for run in listing(folder)[keep:]:
        info = run.info()
        if info.get("status") == "running" and _alive(info.get("pid")):
            continue
        if older_than is not None and _age(info) < older_than:
            continue
        remove(run)
        gone.append(run)
    return tuple(gone)


def status(run: Run) -> str:
    """Return the status; a run whose process is gone without a word was "interrupted".

    A run whose run.json cannot be read is "damaged"; the others do not suffer from it.
    """
    if not run.info():
        return "damaged"
    info = run.info()
    found = str(info.get("status", "interrupted"))
    return "interrupted" if found == "running" and not _alive(info.get("pid")) else found


def versions() -> dict[str, str]:
    """Return versions of SepTran, Python and the libraries that matter for a result."""
    found = {"septran": septran.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, object]:
    """Return the machine a run happened on: system, processor model, usable cores, GPUs if any."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        model = found[1] if found else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    vendors: tuple[gpu.Vendor, ...] = ("nvidia", "amd")
    gpus = [str(here) for vendor in vendors if isinstance(here := gpu.find(vendor), gpu.Gpu)]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": model,
        "cores": cores,
        **({"gpu": ", ".join(gpus)} if gpus else {}),
    }


def _claim(folder: Path, stem: str) -> Run:
    while True:
        path = folder / f"{stem}--{secrets.token_hex(2)}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return Run(path)


def _point_latest(folder: Path, run: Run) -> None:
    link = folder / f".latest-{secrets.token_hex(4)}"
    link.symlink_to(run.id, target_is_directory=True)
    link.replace(folder / "latest")


def _ignore_itself(folder: Path) -> None:
    if folder.parent.name == ".septran" and not (folder.parent / ".gitignore").exists():
        write_atomic(folder.parent / ".gitignore", "*\n")


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "run"


def _alive(pid: object) -> bool:
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _age(info: Mapping[str, Any]) -> timedelta:
    try:
        return _now() - datetime.fromisoformat(str(info["created"]))
    except (KeyError, ValueError):
        return timedelta.max


def _now() -> datetime:
    return datetime.now(UTC)
