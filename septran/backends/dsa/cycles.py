"""What a simulated kernel's cycle report may say, and the shares that follow from it.

The simulator runs in the child beside the kernel, so its report is a claim. Shares are computed here
from the counts; counts that no run on the machine can have are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from septran.ir.dtypes import nbytes
from septran.kernel import Kernel

QUEUES = ("LOAD", "STORE", "MMA", "VEC")
_COUNTS = ("busy", "stalled", "commands", "bytes")


def possible(raw: Mapping[str, Any], kernel: Kernel) -> dict[str, Any]:
    """Return the figures of a report of the simulator that `kernel` may have left.

    cycles: of the slowest core. Per queue, over all cores: busy, stalled (cycles), commands, bytes,
    utilisation (share of all cycles of all cores). overlap: sum of the utilisations; above 1, engines work
    at the same time. mma_bound_share: the cycles of the matrix engine if it never had to wait or to pad, as a
    share of all. bytes_moved: between GLOBAL and the cores.

    Raises:
        ValueError: no run on the machine can have these counts.
    """
    machine = _config(kernel)
    cores = machine["VL_CORES"]
    cycles = _count(raw, "cycles")
    if _count(raw, "cores") != cores:
        raise ValueError(f"{raw['cores']} cores on a machine of {cores}")
    room = cycles * cores
    queues: dict[str, dict[str, Any]] = {}
    for name in QUEUES:
        queue: dict[str, Any] = {key: _count(raw["queues"][name], key) for key in _COUNTS}
        if queue["busy"] > room:
            raise ValueError(f"{name} is busy for {queue['busy']} of {room} cycles")
        queue["utilisation"] = _share(queue["busy"], room)
        queues[name] = queue
    _moves(kernel, queues, machine)
    macs, ideal = _count(raw, "macs"), _count(raw, "mma_ideal")
    peak = 2 * machine["VL_MMA_ROWS"] * machine["VL_MMA_COLS"] * machine["VL_MMA_DEPTH"]
    if ideal > queues["MMA"]["busy"] or macs > ideal * peak:
        raise ValueError(f"{macs} multiply-adds in {queues['MMA']['busy']} cycles of the engine")
    return {
        "unit": "cycles",
        "total": cycles,
        "cores": cores,
        "queues": queues,
        "overlap": _share(sum(q["busy"] for q in queues.values()), room),
        "mma_bound_share": _share(ideal, room),
        "macs": macs,
        "bytes_moved": queues["LOAD"]["bytes"] + queues["STORE"]["bytes"],
        "bank_conflicts": _count(raw, "bank_conflicts"),
        "varies": bool(raw.get("varies", False)),
    }


def _moves(
    kernel: Kernel, queues: Mapping[str, Mapping[str, Any]], machine: Mapping[str, int]
) -> None:
    """Refuse bytes that the engines cannot have moved, and outputs that nothing stored."""
    rate = machine["VL_DMA_BYTES_PER_CYCLE"]
    for name in ("LOAD", "STORE"):
        if queues[name]["bytes"] > queues[name]["busy"] * rate:
            raise ValueError(f"{name} moves {queues[name]['bytes']} bytes in too few cycles")
    outputs = sum(nbytes(p.dtype) * math.prod(p.shape) for p in kernel.params if "w" in p.privilege)
    if queues["STORE"]["bytes"] < outputs:
        raise ValueError(
            f"STORE moves {queues['STORE']['bytes']} bytes, the outputs have {outputs}"
        )


def _config(kernel: Kernel) -> dict[str, int]:
    text = dict(kernel.files)["vl_config.h"]
    return {name: int(n) for name, n in re.findall(r"#define (VL_\w+) (\d+)", text)}


def _count(found: Mapping[str, Any], name: str) -> int:
    value = found[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is {value!r}")
    return value


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
