"""Kernels of several archs that are one text: it runs once, and each arch's own compiler still sees it.

    <run>/texts/KEY.json    the cell that ran: arch, room, and its septran.gen/1 object

Archs of one target often get the same kernel but for the arch in its head and for the names of its leaves. Where such a
kernel is emulated, and its target says what of an arch the emulation knows (`Backend.room`), a second run would repeat the
first call by call. Only verdicts that are accurate are taken over; what is refused anywhere is run again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from septran import backends
from septran.kernel import Kernel, content_hash
from septran.mapping.schema import Policy
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.result import Result
from septran.seal import read_sealed, write_sealed
from septran.settings import Settings
from septran.trial.place import place_in

_HEAD_LINES = 2
_OF_THE_RUN = ("level", "where", "status", "max_error", "budget_ratio", "seed", "ties")


@dataclass(frozen=True, slots=True)
class Text:
    """What decides how a cell runs here. key: the same for the same text. room: as `Backend.room`."""

    key: str
    arch: str
    room: int


def text_of(request: GenRequest, settings: Settings) -> Text | None:
    """Return the text of a cell, None for one that always runs by itself.

    Raises:
        InputError: the user's mistake, as `run.gen.gen`.
    """
    backend = backends.get(request.backend)
    own = request.require or request.dynamic or request.fallback or request.prepare
    if backend.room is None or request.writer != "library" or own:
        return None
    plan = resolve(request)
    place = place_in(settings, backend, plan.arch, request.where)
    invariant = isinstance(plan.mapping, Policy) and bool(plan.mapping.deterministic)
    if place.trouble is not None or place.where != "emulated" or invariant:
        return None
    program = lower_plan(plan).program
    kernel, problem = backend.emit(program, {}), problem_of(plan, program, plan.dims)
    decides = [
        *(plan.logic.sha, backend.name, dict(plan.dims), plan.dtype, request.seed),
        *(problem.declared, problem.flushes, repr(place.sessions)),
        *(kernel.entry, kernel.options, without_arch(kernel)),
    ]
    return Text(content_hash(decides), plan.arch, backend.room(kernel))


def without_arch(kernel: Kernel) -> list[tuple[str, str]]:
    """Return a kernel's files without the arch in their head, and with leaves named by number."""
    found = []
    arch = re.compile(rf"\b{re.escape(kernel.arch)}\b")
    for name, text in kernel.files:
        for number, leaf in enumerate(kernel.leaves):
            text = text.replace(leaf.spec.symbol, f"leaf_{number}")
        lines = text.split("\n")
        lines[:_HEAD_LINES] = [arch.sub("ARCH", line) for line in lines[:_HEAD_LINES]]
        found.append((name, "\n".join(lines)))
    return found


def ran_as(text: Text, folder: Path) -> Mapping[str, Any] | None:
    """Return the accurate result of a cell with the same text that had no more room, None when there is none."""
    known = read_sealed(folder.parent, f"{folder.name}/{text.key}.json")
    if known is None or known["room"] > text.room or known["arch"] == text.arch:
        return None
    found: Mapping[str, Any] = known["result"]
    return found


def keep(text: Text, result: Result, folder: Path) -> None:
    """Let later cells with this text take `result` over, when it is accurate."""
    data = result.to_json()
    if data.get("level") == "accurate" and data.get("where") == "emulated" and not result.code:
        known = {"arch": text.arch, "room": text.room, "result": data}
        write_sealed(folder.parent, f"{folder.name}/{text.key}.json", json.dumps(known) + "\n")


def taken_over(compiled: Result, ran: Mapping[str, Any]) -> Result:
    """Return what is known of a kernel that was compiled for its own arch and whose text ran for another one."""
    arch = str(ran["arch"])
    about_it = re.compile(rf"\b{re.escape(arch)}\b")
    missing = [item for item in ran["not_checked"] if not about_it.search(item)]
    own = compiled.to_json()["not_checked"]
    verdict = {name: ran[name] for name in _OF_THE_RUN if name in ran}
    return replace(
        compiled,
        not_checked=list(dict.fromkeys((*own, *missing))),
        speedup={"torch_eager": None, "torch_compile": None},
        same_text_as=arch,
        **verdict,
    )
