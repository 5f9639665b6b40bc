"""The leaf store: verified leaves of all operators and runs, found by the key of their spec.

$SEPTRAN_HOME/leaves/objects/ab/abcd....json   one leaf with its verdict, named by its content's hash
$SEPTRAN_HOME/leaves/index.sqlite              spec key -> objects; can be rebuilt from them at any time
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from septran.agent.record import write_whole
from septran.agent.writer import LeafVerdict
from septran.kernel import Leaf, LeafSpec

_LOCKED_S = 30.0  # how long others may have the index
_SCHEMA = """
CREATE TABLE IF NOT EXISTS leaves (
    object TEXT PRIMARY KEY, spec TEXT NOT NULL, task TEXT NOT NULL, backend TEXT NOT NULL,
    arch TEXT NOT NULL, writer TEXT NOT NULL, model TEXT NOT NULL, level TEXT NOT NULL, speedup REAL
);
CREATE INDEX IF NOT EXISTS by_spec ON leaves (spec, speedup);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A leaf in the store with the verdict it got when it was written."""

    leaf: Leaf
    verdict: LeafVerdict
    model: str
    object: str


class LeafStore:
    """Shared by all operators and processes.

    Only verified leaves go in; none is trusted when it comes out: the caller judges it again.
    """

    def __init__(self, root: Path) -> None:
        """`root` is $SEPTRAN_HOME/leaves; it is created at the first `put`."""
        self._root = root

    def put(self, leaf: Leaf, verdict: LeafVerdict, *, model: str = "") -> str:
        """Store a verified leaf; return the object's name. The same leaf with a better time replaces nothing."""
        if not verdict.verified:
            raise ValueError("only verified leaves are stored")
        value = {
            "schema": "septran.stored-leaf/1",
            "spec": leaf.spec.key,
            "task": leaf.spec.task,
            "backend": leaf.spec.backend,
            "arch": leaf.spec.arch,
            "writer": leaf.writer,
            "name": leaf.name,
            "model": model,
            "source": leaf.source,
            "verdict": asdict(verdict),
        }
        text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        name = hashlib.sha256(text.encode()).hexdigest()
        write_whole(self._path(name), text)
        with self._index() as db:
            _insert(db, name, value)
        return name

    def best(self, spec: LeafSpec) -> Stored | None:
        """Return the fastest stored leaf for `spec` (verified, unmeasured last), None when there is none."""
        found = self.all_of(spec)
        return found[0] if found else None

    def all_of(self, spec: LeafSpec) -> tuple[Stored, ...]:
        """Return the stored leaves of a spec, the fastest first."""
        if not self._root.is_dir():
            return ()
        with self._index() as db:
            rows = db.execute(
                "SELECT object FROM leaves WHERE spec = ? ORDER BY speedup IS NULL, speedup DESC, object",
                (spec.key,),
            ).fetchall()
        read = (self._read(name, spec) for (name,) in rows)
        return tuple(stored for stored in read if stored is not None)

    def count(self) -> int:
        """Return the number of stored leaves."""
        if not self._root.is_dir():
            return 0
        with self._index() as db:
            return int(db.execute("SELECT COUNT(*) FROM leaves").fetchone()[0])

    def rebuild(self) -> int:
        """Make the index anew from the objects; return how many there are. Damaged objects are left out."""
        index = self._root / "index.sqlite"
        for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
            (self._root / name).unlink(missing_ok=True)
        with _open(index) as db:
            return _fill(db, self._root)

    def _path(self, name: str) -> Path:
        return self._root / "objects" / name[:2] / f"{name}.json"

    @contextlib.contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        index = self._root / "index.sqlite"
        self._root.mkdir(parents=True, exist_ok=True)
        fresh = not index.is_file()
        try:
            with _open(index) as db:
                if fresh:
                    _fill(db, self._root)
                yield db
        except sqlite3.DatabaseError as e:
            if isinstance(e, sqlite3.OperationalError) and "locked" in str(e):
                raise
            self.rebuild()
            with _open(index) as db:
                yield db

    def _read(self, name: str, spec: LeafSpec) -> Stored | None:
        value = _object(self._path(name))
        if value is None:
            return None
        leaf = Leaf(
            spec=spec,
            writer=value["writer"],
            name=value["name"],
            source=value["source"],
        )
        verdict = LeafVerdict(**value["verdict"])
        return Stored(leaf=leaf, verdict=verdict, model=value["model"], object=name)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(path, timeout=_LOCKED_S)
    try:
        _write_ahead(db)
        db.executescript(_SCHEMA)
        yield db
        db.commit()
    finally:
        db.close()


def _write_ahead(db: sqlite3.Connection) -> None:
    """Let readers and a writer go on side by side; a change of the journal does not wait for others as statements do."""
    end = time.monotonic() + _LOCKED_S
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as e:
            if "locked" not in str(e) or time.monotonic() > end:
                raise
        time.sleep(0.01)


def _object(path: Path) -> dict[str, Any] | None:
    """Return an object's content; None when it is missing, or not what its name says."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != path.stem:
        return None
    value = json.loads(data)
    return value if isinstance(value, dict) else None


def _insert(db: sqlite3.Connection, name: str, value: dict[str, Any]) -> None:
    verdict = LeafVerdict(**value["verdict"])
    db.execute(
        "INSERT OR REPLACE INTO leaves VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            value["spec"],
            value["task"],
            value["backend"],
            value["arch"],
            value["writer"],
            value["model"],
            verdict.level,
            verdict.speedup,
        ),
    )


def _fill(db: sqlite3.Connection, root: Path) -> int:
    count = 0
    for path in sorted((root / "objects").glob("*/*.json")):
        value = _object(path)
        if value is not None:
            _insert(db, path.stem, value)
            count += 1
    return count
