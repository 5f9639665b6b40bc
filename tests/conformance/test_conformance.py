"""The table on every target that can run here: each row is right, or refused with a coded error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from septran import backends
from tests.backends.dsa_c.test_bm1684x import models
from tests.backends.pallas.installed import simulated
from tests.conformance.harness import COMPILED, TENSORS, Target, batches
from tests.conformance.rows import EDGES, Row
from tests.conformance.table import REFUSED, ROWS

TARGETS = (
    "cpp",
    "cuda_c",
    "dsa_c",
    "tilelang_cuda",
    "tilelang_npuir",
    "triton_cuda",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "hip_c",
            "tilelang_hip",
            "triton_hip",
            "triton_npu",
            "pallas_tpu",
            "dsa_c bm1684x",
        )
    ),
)
DEFAULT = tuple(name for name in TARGETS if isinstance(name, str))
__all__ = ["models", "simulated"]
ONE_LAUNCH = ("tilelang_npuir",)


def test_every_target_is_tried() -> None:
    tried = {t if isinstance(t, str) else t.values[0] for t in TARGETS}
    assert set(dict(backends.BUILTIN)) <= tried


def test_names_are_unique() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def _check(name: str, folder: Path, rows: Sequence[Row], *, compiled: bool = False) -> None:
    target = Target.of(name)
    known = {n: code for n, code in REFUSED.get(name, {}).items() if n in {r.name for r in rows}}
    lacks = {row.name: "dtype" for row in rows if not target.takes(row)}
    for row in rows:
        if row.name in known and target.takes(row) and (code := target.refusal(row, folder)):
            lacks[row.name] = code
    assert lacks == known
    wrong: dict[str, str] = {}
    taken = [row for row in rows if row.name not in known]
    size = COMPILED if compiled else TENSORS
    for number, batch in enumerate(batches(taken, one_launch=name in ONE_LAUNCH, tensors=size)):
        here = folder / str(number)
        here.mkdir()
        wrong |= target.wrong(batch, here, compiled=compiled)
    assert wrong == {}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.wider) if n == "cpp" else n for n in TARGETS]
)
def test_rows(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Where each edge needs a child of its own, the ragged ones are slow, too."""
    if name == "pallas_tpu":
        request.getfixturevalue("simulated")
    if name == "dsa_c bm1684x":
        request.getfixturevalue("models")("bm1684x")
    _check(name, tmp_path, [row for row in ROWS if row.edge in _quick(name)])


@pytest.mark.wider
@pytest.mark.parametrize("name", DEFAULT)
def test_every_other_edge(name: str, tmp_path: Path) -> None:
    _check(name, tmp_path, [row for row in ROWS if row.edge not in _quick(name)])


def _quick(name: str) -> tuple[str, ...]:
    """Return the edges of test_rows: by default last tiles that are shorter, all where it is slow."""
    if name not in DEFAULT:
        return tuple(EDGES)
    if name in ONE_LAUNCH:
        return ("row",)
    return ("row", "ragged") if name == "cpp" else ("ragged",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "cuda_c",
        "hip_c",
        "tilelang_cuda",
        "tilelang_hip",
        "tilelang_npuir",
        "triton_cuda",
        "triton_hip",
    ],
)
def test_rows_compile(name: str, tmp_path: Path) -> None:
    _check(name, tmp_path, ROWS, compiled=True)
