"""The leaf store: best first, rebuildable, damage-proof, safe for many processes."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from septran.agent.library import AutoWriter, LibraryWriter
from septran.agent.store import LeafStore
from septran.agent.writer import Budget, LeafVerdict
from septran.errors import SeptranError
from septran.kernel import Leaf
from tests.agent.leaves import BACKEND, GEMM, RELU, FakeJudge


def leaf(text: str) -> Leaf:
    return Leaf(spec=RELU, writer="llm", name="m", source=text)


def verdict(seconds: float | None) -> LeafVerdict:
    return LeafVerdict(level="accurate", status="ok", seconds=seconds, baseline_seconds=1.0)


def test_best_is_the_fastest(tmp_path: Path) -> None:
    store = LeafStore(tmp_path / "leaves")
    assert store.best(RELU) is None
    assert not (tmp_path / "leaves").exists(), "reading must not create anything"
    store.put(leaf("a"), verdict(0.5))
    store.put(leaf("b"), verdict(0.25), model="m7")
    store.put(leaf("c"), verdict(None))
    assert [s.leaf.source for s in store.all_of(RELU)] == ["b", "a", "c"]
    best = store.best(RELU)
    assert best is not None
    assert (best.leaf, best.model, best.verdict.speedup) == (leaf("b"), "m7", 4.0)
    assert store.best(GEMM) is None


def test_only_verified_leaves(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="verified"):
        LeafStore(tmp_path).put(leaf("a"), LeafVerdict(level="ran", status="wrong"))


def test_index_is_rebuilt(tmp_path: Path) -> None:
    store = LeafStore(tmp_path)
    store.put(leaf("a"), verdict(0.5))
    store.put(leaf("b"), verdict(0.25))
    (tmp_path / "index.sqlite").unlink()
    assert LeafStore(tmp_path).count() == 2
    (tmp_path / "index.sqlite").write_bytes(b"not a database at all" * 100)
    best = LeafStore(tmp_path).best(RELU)
    assert best is not None
    assert best.leaf.source == "b"
    assert LeafStore(tmp_path).rebuild() == 2


def test_a_changed_object_is_not_read(tmp_path: Path) -> None:
    store = LeafStore(tmp_path)
    name = store.put(leaf("good"), verdict(0.5))
    path = tmp_path / "objects" / name[:2] / f"{name}.json"
    path.write_text(path.read_text().replace("good", "evil"))
    assert store.best(RELU) is None
    assert store.rebuild() == 0


def test_the_same_leaf_once(tmp_path: Path) -> None:
    store = LeafStore(tmp_path)
    assert store.put(leaf("a"), verdict(0.5)) == store.put(leaf("a"), verdict(0.5))
    assert store.count() == 1


def test_a_store_that_somebody_has_is_waited_for(tmp_path: Path) -> None:
    """To change a journal is not what SQLite's own time limit waits for."""
    other = sqlite3.connect(
        tmp_path / "index.sqlite", check_same_thread=False, isolation_level=None
    )
    other.execute("CREATE TABLE another (x)")
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, other.rollback)
    timer.start()
    LeafStore(tmp_path).put(leaf("l"), verdict(1.0))
    timer.join()
    other.close()
    assert LeafStore(tmp_path).count() == 1


def test_many_writers_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda i: LeafStore(tmp_path).put(leaf(f"l{i}"), verdict(1 / (i + 1))), range(40)
            )
        )
    assert LeafStore(tmp_path).count() == 40


def test_library_writer() -> None:
    written = LibraryWriter(BACKEND.library).write(RELU, FakeJudge(lambda s: verdict(1)), Budget())
    assert written.leaf == BACKEND.library(RELU)
    with pytest.raises(SeptranError) as caught:
        LibraryWriter(lambda spec: None).write(RELU, FakeJudge(lambda s: verdict(1)), Budget())
    assert caught.value.codes == ("L520",)


def test_auto_takes_what_the_judge_confirms_here(tmp_path: Path) -> None:
    store = LeafStore(tmp_path)
    auto = AutoWriter(BACKEND.library, store)
    floor = BACKEND.library(RELU)
    right = FakeJudge(lambda source: verdict(0.5))
    assert auto.write(RELU, right, Budget()).leaf == floor
    store.put(leaf("stored"), verdict(0.1))
    assert auto.write(RELU, right, Budget()).leaf.source == "stored"
    slower = FakeJudge(lambda source: verdict(1.5))
    assert auto.write(RELU, slower, Budget()).leaf == floor
    wrong = FakeJudge(lambda source: LeafVerdict(level="ran", status="wrong"))
    assert auto.write(RELU, wrong, Budget()).leaf == floor


def test_specs_of_other_tiles_do_not_share(tmp_path: Path) -> None:
    store = LeafStore(tmp_path)
    store.put(leaf("a"), verdict(0.5))
    other = replace(RELU, arch="generic")
    assert store.best(other) is None
