"""Verify one kernel on the GPU, in this process or in a worker's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu_cells import Cell
from septran.errors import SeptranError
from septran.plan.resolve import GenRequest
from septran.run.gen import gen
from septran.settings import load

_KEPT = ("level", "where", "exit_code", "max_error", "budget_ratio", "reason", "not_checked")


def verify(cell: Cell, folder: Path) -> Mapping[str, Any]:
    """Return the verdict on a cell's policy at the cell's dims, as a row's facts."""
    request = GenRequest(
        op=cell.op, backend=cell.backend, arch=cell.arch, dims=cell.dims, dtype=cell.dtype,
        where="device", require=("device",),
    )  # fmt: skip
    try:
        data = gen(request, settings=load(), progress=_silent, into=folder, timed=False).to_json()
    except SeptranError as e:
        return {"level": "failed", "where": None, "exit_code": e.exit_code, "reason": str(e)[:300]}
    except Exception as e:  # one cell must not cost the others
        text = f"{type(e).__name__}: {e}"[:300]
        return {"level": "failed", "where": None, "exit_code": 1, "reason": text}
    return {name: data.get(name) for name in _KEPT}


def _silent(text: str) -> None:
    """Progress of a single kernel is not this script's."""
