"""The share of the machine's limit: measured once, kept, and never invented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.run import roofline
from septran.run.roofline import Limits, Share, share_of


def plan(op: str = "gemm", backend: str = "cpp", **dims: int) -> Plan:
    return resolve(GenRequest(op=op, backend=backend, dims=dims))


def share(of: Plan, seconds: float | None, *, where: str, threads: int) -> Share:
    return share_of(of, lower_plan(of).bound.program, seconds, where=where, threads=threads)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of 100 GFLOP/s that copies 1 MB at 200 GB/s and 100 MB at 10 GB/s."""
    kept = tmp_path / "limits.json"
    data = {"gflops": {"float32": 100.0, "float64": 50.0}, "copies": [[1e6, 200], [1e8, 10]]}
    kept.write_text(json.dumps(data))
    monkeypatch.setattr(roofline, "_kept", lambda threads: kept)
    return kept


def test_a_product_is_held_to_the_arithmetic(limits: Path) -> None:
    found = share(plan(M=500, N=500, K=500), 0.005, where="native", threads=1)
    assert found.by == "arithmetic"
    assert found.share == pytest.approx(2 * 500**3 / 100e9 / 0.005)


def test_a_dtype_with_a_limit_of_its_own_is_held_to_it(limits: Path) -> None:
    """Matrix tiles multiply bfloat16 many times as fast as vectors do float32."""
    data = json.loads(limits.read_text())
    data["gflops"]["bfloat16"] = 1600.0
    limits.write_text(json.dumps(data))
    halves = resolve(
        GenRequest(op="gemm", backend="cpp", dims={"M": 500, "N": 500, "K": 500}, dtype="bfloat16")
    )
    found = share(halves, 0.001, where="native", threads=1)
    assert found.share == pytest.approx(2 * 500**3 / 1600e9 / 0.001)
    assert found.gflops == 1600.0


def test_a_map_is_held_to_the_memory_of_its_size(limits: Path) -> None:
    small = share(plan("relu", N=1 << 18), 1e-4, where="native", threads=1)
    assert small.by == "memory"
    assert small.share == pytest.approx(8 * (1 << 18) / 200e9 / 1e-4)
    large = share(plan("relu", N=1 << 25), 0.1, where="native", threads=1)
    assert large.share == pytest.approx(8 * (1 << 25) / 10e9 / 0.1)


def test_a_limit_that_was_beaten_was_measured_badly(limits: Path) -> None:
    found = share(plan(M=500, N=500, K=500), 1e-6, where="native", threads=1)
    assert found.share == 1.0
    assert not limits.exists()


@pytest.mark.parametrize(
    ("where", "seconds", "why"),
    [
        ("emulated", 1.0, "emulation"),
        ("native", None, "not timed"),
        ("device", 1.0, "no peak figures"),
    ],
)
def test_what_is_not_known_is_null_with_a_reason(
    limits: Path, where: str, seconds: float | None, why: str
) -> None:
    found = share(plan(M=8, N=8, K=8), seconds, where=where, threads=1)
    assert found.share is None
    assert why in found.reason


def test_nothing_is_measured_on_the_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(roofline, "_kept", lambda threads: tmp_path / "none.json")
    monkeypatch.setattr(roofline, "_measure", lambda threads: pytest.fail("measured"))
    found = share(plan(M=8, N=8, K=8), 1.0, where="native", threads=1)
    assert found.share is None
    assert "septran bench" in found.reason


def test_a_busy_machine_does_not_bend_the_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measure(threads: int) -> Limits:
        disturbed = 3.0 if threads > 1 else 80.0
        return roofline._limits({"float32": disturbed}, [[1000, 5], [2000, 50], [3000, disturbed]])

    monkeypatch.setattr(roofline, "_kept", lambda threads: tmp_path / f"{threads}.json")
    monkeypatch.setattr(roofline, "_measure", measure)
    found = roofline.measured(2)
    assert found.gflops == {"float32": 80.0}
    assert found.copies == ((1000, 80.0), (2000, 80.0), (3000, 80.0))
    monkeypatch.setattr(roofline, "_measure", lambda threads: pytest.fail("measured again"))
    assert roofline.measured(2) == found


@pytest.mark.slow
def test_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(roofline, "_kept", lambda threads: tmp_path / f"{threads}.json")
    found = roofline.measured(1)
    assert 0.5 < found.gflops["float64"] <= found.gflops["float32"] < 1e4
    speeds = [speed for _, speed in found.copies]
    assert speeds == sorted(speeds, reverse=True)
    assert 0.1 < speeds[-1] <= speeds[0] < 1e4
