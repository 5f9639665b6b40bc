"""What bounds a hot loop on a core that LLVM describes: `llvm-mca` on the compiler's listing of it.

Source: llvm.org/docs/CommandGuide/llvm-mca.html; its JSON has the use of each resource by a round and the cycles of many.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran.errors import SeptranError
from septran.toolchain.confined import plain, run_confined, toolchain_folders

_NAME = re.compile(r"llvm-mca(?:-(\d+))?")
_TEXT, _FOUND = "loop.s", "loop.json"
_WAITS = 1.15
"""How many times what its resources take a round may last before what it waits for is called the bound."""
_NEAR = 0.95
_MOST = 3
"""Resources that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A block, run round after round. cycles: of a round. throughput: of a round that waits for nothing, in cycles.

    by: what takes longest: "dependences", "dispatch", or resources of the processor.
    """

    cycles: float
    throughput: float
    by: str
    processor: str


def tool() -> str | None:
    """Return the newest `llvm-mca` on PATH, None where there is none."""
    found: list[tuple[int, str]] = []
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        names = Path(folder).glob("llvm-mca*") if folder else ()
        for path in names:
            name = _NAME.fullmatch(path.name)
            if name and shutil.which(str(path)):
                found.append((int(name[1] or 0), str(path)))
    return max(found)[1] if found else None


def port_bound(lines: Sequence[str], *, processor: str, machine: str, folder: Path) -> Bound | None:
    """Return what bounds the instructions `lines`; None where the tool is missing or does not know them.

    processor: as LLVM names it, or "native". machine: as `platform.machine` does. folder: it works there.
    """
    path = tool()
    if path is None or not lines:
        return None
    (folder / _TEXT).write_text("".join(f"\t{line}\n" for line in lines), encoding="utf-8")
    command = [path, f"-mtriple={machine}-linux-gnu", f"-mcpu={processor}", "-json"]
    try:
        done = run_confined(
            [*command, "-o", _FOUND, _TEXT],
            folder.resolve(),
            20.0,
            reads=toolchain_folders(path, {}),
        )
    except SeptranError:
        return None
    if done.code != 0 or not plain(folder / _FOUND):
        return None
    try:
        return read(json.loads((folder / _FOUND).read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, RecursionError):
        return None


def read(found: Any) -> Bound:
    """Return the bound that llvm-mca's JSON of one region says.

    Raises:
        KeyError, TypeError, IndexError, ZeroDivisionError: it is no such JSON.
    """
    (region,) = found["CodeRegions"]
    summary = region["SummaryView"]
    rounds = float(summary["Iterations"])
    cycles = float(summary["TotalCycles"]) / rounds
    names = found["TargetInfo"]["Resources"]
    whole = len(region["Instructions"])
    used = {
        str(names[one["ResourceIndex"]]): float(one["ResourceUsage"])
        for one in region["ResourcePressureView"]["ResourcePressureInfo"]
        if one["InstructionIndex"] == whole
    }
    throughput = float(summary["BlockRThroughput"])
    dispatch = float(summary["TotaluOps"]) / rounds / float(summary["DispatchWidth"])
    return Bound(
        cycles=round(cycles, 2),
        throughput=round(throughput, 2),
        by=_by(cycles, throughput, dispatch, used),
        processor=str(found["TargetInfo"]["CPUName"]),
    )


def _by(cycles: float, throughput: float, dispatch: float, used: dict[str, float]) -> str:
    most = max(used.values(), default=0.0)
    if cycles > _WAITS * max(throughput, most):
        return "dependences"
    if dispatch > most:
        return "dispatch"
    busiest = [name for name, use in used.items() if use >= _NEAR * most]
    return " and ".join(busiest[:_MOST]) if most else "dispatch"
