"""Threads after a call: a loader's own pools may grow a little, a kernel's may not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from septran.verify.refusal import _claims


@pytest.mark.parametrize(
    ("loader", "left", "refused"),
    [
        ("pallas_sim.py.j2", 20, False),
        ("pallas_sim.py.j2", 40, True),
        ("c_abi.py.j2", 20, True),
        ("c_abi.py.j2", 19, False),
    ],
)
def test_only_a_runtime_with_pools_starts_threads_late(
    loader: str, left: int, refused: bool
) -> None:
    ran = [SimpleNamespace(claims={"threads": count}) for count in (18, left, 18)]
    transcript = SimpleNamespace(ran=ran, ready={"threads": 17}, hosted=False)
    why = _claims(transcript, SimpleNamespace(threads=2, loader=loader, gpu=None))  # type: ignore[arg-type]
    assert bool(why) is refused
    assert why in (
        "",
        f"{left} threads are left after a call; {27 if 'pallas' in loader else 19} are allowed",
    )
