"""What the accesses of a kernel's warps take of memory, as the emulation of a noted build counts it, with lines of the text.

global: sectors that warps touch, and how many would hold the same bytes (coalescing). shared: wavefronts that they take in
32 banks of 4 bytes, and how many they would take without conflicts. The rules stand in
`backends/cuda/emulator/warp_accesses.cpp` (CUDA C++ Programming Guide, compute capability 5.x and later).

The count is text from a child that nobody trusts: it decides nothing about whether a kernel is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from septran.kernel import Kernel

SPACES = {"global": "sectors", "shared": "wavefronts"}
"""memory -> what accesses take of it"""
_WORTH = 1.05
"""taken over needed, from which on it is said which line is the worst"""
_PLACE = re.compile(r"([0-9a-f]{1,16}) (load|store)")
_LINE = re.compile(r"(.+):(\d+)(?: \(discriminator \d+\))?")


def warp_accesses(raw: Mapping[str, Any], kernel: Kernel, host: Path | None) -> Mapping[str, Any]:
    """Return a verdict's `accesses`; {} where nothing was counted or the count is impossible.

    raw: `accesses` of the emulation's report. host: the program that was called, whose lines are known.
    """
    try:
        spaces = {name: _space(raw[name]) for name in SPACES}
        found = {"lanes": _count(raw["lanes"]), "sector_bytes": _count(raw["sector"])}
        found["partial"] = _count(raw["left_out"]) > 0
    except (KeyError, TypeError, ValueError):
        return {}
    sites = {name: list(each.pop("sites")) for name, each in spaces.items()}
    lines = places({code for all_ in sites.values() for code, *_ in all_}, kernel, host)
    for name, each in spaces.items():
        if worst := _worst(sites[name], lines, kernel):
            each["worst"] = worst
    return {**found, **spaces}


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("not a count")
    return value


def _space(raw: Mapping[str, Any]) -> dict[str, Any]:
    accesses, taken, needed = (_count(raw[name]) for name in ("times", "taken", "needed"))
    if not needed <= taken or (accesses > 0) != (needed > 0):
        raise ValueError("impossible")
    sites = []
    for name, site in raw["sites"].items():
        place = _PLACE.fullmatch(name)
        if place is None:
            raise ValueError("no place")
        counts = {one: _count(site[one]) for one in ("bytes", "times", "taken", "needed", "worst")}
        if counts["needed"] > counts["taken"] or counts["taken"] > taken:
            raise ValueError("impossible")
        sites.append((int(place[1], 16), place[2], counts))
    return {"accesses": accesses, "taken": taken, "needed": needed, "sites": sites}


def _worst(
    sites: Iterable[tuple[int, str, Mapping[str, int]]],
    lines: Mapping[int, tuple[str, int]],
    kernel: Kernel,
) -> dict[str, Any]:
    """Return what the line takes whose accesses of one kind take most beyond what they need; {} where it is not worth a word."""
    by_line: dict[tuple[str, int, str, int], dict[str, int]] = {}
    for code, does, counts in sites:
        file, line = lines.get(code, ("", 0))
        key = (file, line, does, 0 if line else code)
        into = by_line.setdefault(key, dict.fromkeys(counts, 0))
        for name, value in counts.items():
            into[name] = (
                max(into[name], value) if name in ("bytes", "worst") else into[name] + value
            )
    if not by_line:
        return {}
    key, counts = max(by_line.items(), key=lambda item: item[1]["taken"] - item[1]["needed"])
    if counts["taken"] < _WORTH * counts["needed"]:
        return {}
    file, line, does, _ = key
    placed = {"file": file, "line": line, "text": _text(kernel, file, line)} if line else {}
    return {**placed, "does": does, **counts}


def _text(kernel: Kernel, file: str, line: int) -> str:
    text = dict(kernel.files).get(file, "").splitlines()
    return text[line - 1].strip()[:160] if 0 < line <= len(text) else ""


def places(codes: Iterable[int], kernel: Kernel, host: Path | None) -> dict[int, tuple[str, int]]:
    """Return return address -> (file, line) of the kernel's own text, where `addr2line` finds it in `host`.

    Of what is inlined the innermost place in the kernel's main file counts, else the innermost in any file of the kernel.
    """
    from septran.errors import SeptranError
    from septran.toolchain.confined import run_confined

    wanted = sorted(codes)
    if host is None or not wanted:
        return {}
    command = ["addr2line", "-a", "-i", "-e", host.name, *(f"{code - 1:x}" for code in wanted)]
    try:
        done = run_confined(command, host.parent.resolve(), 30.0)
    except (SeptranError, OSError):
        return {}
    frames: list[list[tuple[str, int]]] = []
    for text in done.output.splitlines():
        if text.startswith("0x"):
            frames.append([])
        elif frames and (at := _LINE.fullmatch(text)):
            frames[-1].append((Path(at[1]).name, int(at[2])))
    names = {name: name for name, _ in kernel.files}
    names[f"{Path(kernel.main).stem}.emulated.cpp"] = (
        kernel.main
    )  # its lines are those of the main file
    found = {}
    for code, inner in zip(wanted, frames, strict=False):
        known = [(names[name], line) for name, line in inner if name in names]
        if own := [f for f in known if f[0] == kernel.main] or known:
            found[code] = own[0]
    return found


def with_files(accesses: Mapping[str, Any], named: Callable[[str], str]) -> Mapping[str, Any]:
    """Return `accesses` with the names of files that `named` gives them."""
    found = dict(accesses)
    for name in SPACES:
        worst = (found.get(name) or {}).get("worst") or {}
        if worst.get("file"):
            found[name] = {**found[name], "worst": {**worst, "file": named(worst["file"])}}
    return found


def told(accesses: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (memory, what a kernel takes of it) as rows for a person; [] where nothing was counted."""
    return [(f"{name} memory", text) for name in SPACES if (text := _told(name, accesses))]


def _told(name: str, accesses: Mapping[str, Any]) -> str:
    found = accesses.get(name) or {}
    if not found.get("accesses"):
        return ""
    taken, needed, what = found["taken"], found["needed"], SPACES[name]
    if name == "global":
        size = f" of {accesses['sector_bytes']} bytes"
        text = f"{taken} {what}{size}, {taken / needed:.2f} x what the bytes need"
    else:
        text = f"{taken} {what}, {taken - needed} of them for bank conflicts"
    if worst := found.get("worst"):
        at = f"line {worst['line']} of {worst['file']}" if worst.get("line") else "one place"
        does = f"{worst['does']}s of {worst['bytes']} bytes"
        most = (
            f"{worst['worst']}-way"
            if name == "shared"
            else f"{worst['taken'] / worst['needed']:.2f} x"
        )
        quoted = f": `{worst['text']}`" if worst.get("text") else ""
        text += f"; worst {at} ({does}, {most}){quoted}"
    if accesses.get("partial"):
        text += "; not all accesses were counted"
    return text


def figures(accesses: Mapping[str, Any]) -> dict[str, float]:
    """Return the totals as figures of a leaf: global_sectors, needed_sectors, shared_wavefronts, conflict_wavefronts.

    {} where not all accesses were counted: such totals order nothing.
    """
    if not accesses or accesses["partial"]:
        return {}
    of, shared = accesses["global"], accesses["shared"]
    return {
        "global_sectors": float(of["taken"]),
        "needed_sectors": float(of["needed"]),
        "shared_wavefronts": float(shared["taken"]),
        "conflict_wavefronts": float(shared["taken"] - shared["needed"]),
    }
