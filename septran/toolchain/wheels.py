"""A few files out of one wheel of a registry: what pip cannot install here, because the rest is for another Python.

The wheel is fetched by pip, held against the hash that SepTran's data names, and dropped after the files are out.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from septran.errors import EnvironmentProblem
from septran.toolchain.environment import pip

_CHUNK = 1 << 20
_OF = "sha256.txt"
"""File beside those of a wheel that says which wheel they are of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """Files of a package at one version.

    requirement: as pip takes it. python: the version the wheel says it is for. sha256, megabytes: of the wheel.
    licence: what its metadata says. files: members that are kept; a name that ends in "/" is a folder.
    """

    requirement: str
    python: str
    sha256: str
    megabytes: int
    licence: str
    files: tuple[str, ...]

    def wants(self, member: str) -> bool:
        """Return whether a member of the wheel is one of the files."""
        return any(
            member == name or (name.endswith("/") and member.startswith(name) and member != name)
            for name in self.files
        )

    def missing(self, folder: Path) -> tuple[str, ...]:
        """Return which of the files are not in `folder`."""
        return tuple(name for name in self.files if not (folder / name).exists())


def is_here(wheel: Wheel, folder: Path) -> bool:
    """Return whether `folder` has the files, of this wheel."""
    of = folder / _OF
    known = of.is_file() and of.read_text(encoding="utf-8").strip() == wheel.sha256
    return known and not wheel.missing(folder)


def fetch(wheel: Wheel, folder: Path) -> Path:
    """Bring the files of `wheel` into `folder`, which holds nothing else, and return it.

    Raises:
        EnvironmentProblem: V112, pip failed, the wheel is not the one that was meant, or it lacks a file.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as name:
        work = Path(name)
        unpack(wheel, _downloaded(wheel, work), work / "files")
        (work / "files" / _OF).write_text(f"{wheel.sha256}\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        (work / "files").replace(folder)
    return folder


def unpack(wheel: Wheel, archive: Path, folder: Path) -> None:
    """Write the files of `wheel` from its `archive` into `folder`.

    Raises:
        EnvironmentProblem: V112, the archive has another hash, or lacks a file.
    """
    digest = hashlib.sha256()
    with archive.open("rb") as file:
        while part := file.read(_CHUNK):
            digest.update(part)
    if digest.hexdigest() != wheel.sha256:
        raise _problem(
            wheel, f"its sha256 is {digest.hexdigest()}, not {wheel.sha256}: nothing of it is kept"
        )
    with zipfile.ZipFile(archive) as found:
        for member in found.infolist():
            parts = Path(member.filename).parts
            if member.is_dir() or not wheel.wants(member.filename) or ".." in parts:
                continue
            to = folder / member.filename
            to.parent.mkdir(parents=True, exist_ok=True)
            with found.open(member) as source, to.open("wb") as target:
                shutil.copyfileobj(source, target)
    if lacking := wheel.missing(folder):
        raise _problem(wheel, f"it has no {', '.join(lacking)}")


def _downloaded(wheel: Wheel, folder: Path) -> Path:
    options = ("--no-deps", "--python-version", wheel.python, "--only-binary=:all:")
    why = pip("download", *options, "--dest", str(folder), wheel.requirement)
    found = sorted(folder.glob("*.whl"))
    if why or not found:
        raise _problem(wheel, why or "pip brought no wheel")
    return found[0]


def _problem(wheel: Wheel, why: str) -> EnvironmentProblem:
    return EnvironmentProblem.of(
        "V112",
        f"{wheel.requirement} could not be brought: {why}",
        help=f"pip download --no-deps --python-version {wheel.python} --only-binary=:all: {wheel.requirement}",
    )
