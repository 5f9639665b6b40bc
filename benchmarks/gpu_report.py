"""Rows that benchmarks/gpu.py measured, kept one JSON line each, and the page they make."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

Row = Mapping[str, Any]
COMMAND = "python benchmarks/gpu.py"
_GOALS = (
    "Aims: gemm in float16 and bfloat16 at 4096 to 8192 at least 0.95 of cuBLAS, attention at least 0.9 of SDPA, "
    "memory-bound operators at least 0.9 of the copy's bandwidth."
)


class Rows:
    """The rows of a file. A row counts from the moment its line is whole; half a line is a killed run's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.all: list[Row] = []
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    self.all.append(row)

    def known(self, kind: str, key: str) -> Row | None:
        """Return the newest row of a kind with a key, None when it is still to be measured."""
        return next(
            (row for row in reversed(self.all) if row["kind"] == kind and row["key"] == key), None
        )

    def add(self, kind: str, key: str, **facts: Any) -> Row:
        """Append a row; it is on disk when this returns."""
        row = {"kind": kind, "key": key, **facts}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        cut = _cut(self.path)
        with self.path.open("a", encoding="utf-8") as stream:
            text = json.dumps(row, sort_keys=True, default=str)
            stream.write(("\n" if cut else "") + text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self.all.append(row)
        return row

    def of(self, kind: str) -> list[Row]:
        """Return the newest row of each key, in the order in which the keys first came."""
        found: dict[str, Row] = {}
        for row in self.all:
            if row["kind"] == kind:
                found[row["key"]] = row
        return list(found.values())


def _cut(path: Path) -> bool:
    """Whether the file's last line was never finished."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) != b"\n"


def fastest(rows: Sequence[Row]) -> list[Row]:
    """Return, of the rows of one kernel at one size, the one with the least time."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.get("ms") is None:
            continue
        name = json.dumps([row[k] for k in ("gpu", "op", "backend", "arch", "dtype", "dims")])
        if name not in best or row["ms"] < best[name]["ms"]:
            best[name] = row
    return list(best.values())


def page(rows: Rows, pictures: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return docs/gpu-results.md. pictures: GPU -> the file that shows its results."""
    lines = ["# Results on GPUs", ""]
    gpus = list(dict.fromkeys(row["gpu"] for row in rows.of("machine")))
    if not gpus:
        lines += [
            "No GPU has been measured yet. On a machine with one, this fills the page (it can be killed and started again):",
            "",
            "```text",
            COMMAND,
            "```",
            "",
            f"`{COMMAND} --dry-run` does everything up to the launch on a machine without a GPU. {_GOALS}",
        ]
        return "\n".join(lines) + "\n"
    lines += [
        f"Written by `{COMMAND}`, which anybody with a GPU can run again. {_GOALS} Times are medians of single "
        "launches with a cold L2 cache, timed by events; ratios are the other's time over ours, above 1 ours is faster.",
    ]
    for name in gpus:
        lines += ["", f"## {name}", "", *_machine(rows, name)]
        if name in pictures:
            lines += ["", f"![Shares of the measured limit on {name}]({pictures[name]})"]
        lines += _best_table(rows, name)
        lines += _check_table(rows, name)
        lines += _variants(rows, name)
        lines += _failures(rows, name)
    return "\n".join(lines) + "\n"


def _machine(rows: Rows, name: str) -> list[str]:
    about = [row for row in rows.of("machine") if row["gpu"] == name][-1]
    versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
    lines = [f"{about['date']}; {about['arch']}, driver {about['driver']}; {versions}."]
    limits = [row for row in rows.of("limit") if row["gpu"] == name]
    if limits:
        said = ", ".join(f"{row['what']} {row['value']:.0f} {row['unit']}" for row in limits)
        lines += ["", f"Measured limits: {said}."]
    lines += [f"\nNot run: {text}." for text in about.get("left_out", ())]
    return lines


def _best_table(rows: Rows, name: str) -> list[str]:
    best = fastest([row for row in rows.of("speed") if row["gpu"] == name])
    if not best:
        return []
    head = "operator backend dtype dims ms TFLOP/s GB/s of_limit vs_eager vs_compile vs_library variant"
    lines = ["", "### Speed", "", *_head(head)]
    torch = {row["key"]: row for row in rows.of("torch") if row["gpu"] == name}
    for row in best:
        other = torch.get(row["torch"], {})
        lines.append(
            "| "
            + " | ".join(
                (
                    row["op"],
                    f"{row['backend']} {row['arch']}",
                    row["dtype"],
                    dims_text(row["dims"]),
                    number(row["ms"], ".4g"),
                    number(row.get("tflops"), ".1f"),
                    number(row.get("gbytes"), ".0f"),
                    number(row.get("share"), ".2f"),
                    ratio(other.get("eager_ms"), row["ms"]),
                    ratio(other.get("compile_ms"), row["ms"]),
                    ratio(other.get("library_ms"), row["ms"]),
                    row["candidate"] or "policy",
                )
            )
            + " |"
        )
    return lines


def _check_table(rows: Rows, name: str) -> list[str]:
    checks = [row for row in rows.of("check") if row["gpu"] == name]
    if not checks:
        return []
    right = sum(row["exit_code"] == 0 and row["where"] == "device" for row in checks)
    lines = ["", "### Accuracy", "", f"{right} of {len(checks)} kernels accurate on the device."]
    wrong = [row for row in checks if row["exit_code"] or row["where"] != "device"]
    if wrong:
        lines += ["", *_head("operator backend dtype dims verdict reason")]
    for row in wrong:
        lines.append(
            f"| {row['op']} | {row['backend']} {row['arch']} | {row['dtype']} | {dims_text(row['dims'])} | "
            f"{row['level']} {row['where'] or ''} | {cell_text(row.get('reason'))} |"
        )
    return lines


def _variants(rows: Rows, name: str) -> list[str]:
    tried = [row for row in rows.of("speed") if row["gpu"] == name]
    if not any(row["candidate"] for row in tried):
        return []
    lines = [
        "",
        "### Variants",
        "",
        *_head("operator backend dtype dims variant ms registers note"),
    ]
    for row in tried:
        facts = row.get("facts") or {}
        lines.append(
            f"| {row['op']} | {row['backend']} {row['arch']} | {row['dtype']} | {dims_text(row['dims'])} | "
            f"{row['candidate'] or 'policy'} | {number(row.get('ms'), '.4g')} | "
            f"{facts.get('registers', '')} | {cell_text(row.get('note'))} |"
        )
    return lines


def _failures(rows: Rows, name: str) -> list[str]:
    """Cells that ended in an error of the script or its libraries and were not measured since."""
    kept = ("op", "backend", "arch", "dtype", "dims", "candidate")
    done = [{k: row[k] for k in kept} for row in rows.of("speed") if row["gpu"] == name]
    failed = [
        row
        for row in rows.of("failed")
        if row["gpu"] == name and {k: row[k] for k in kept} not in done
    ]
    if not failed:
        return []
    lines = ["", "### Not measured", "", *_head("operator backend dtype dims variant error")]
    for row in failed:
        lines.append(
            f"| {row['op']} | {row['backend']} {row['arch']} | {row['dtype']} | {dims_text(row['dims'])} | "
            f"{row['candidate'] or 'policy'} | {cell_text(row['note'])} |"
        )
    return lines


def _head(words: str) -> list[str]:
    names = [word.replace("_", " ") for word in words.split()]
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def dims_text(dims: Mapping[str, int]) -> str:
    return " ".join(f"{k}={v}" for k, v in dims.items())


def number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def ratio(other: float | None, ours: float | None) -> str:
    return number(other / ours if other and ours else None, ".2f")


def cell_text(text: object) -> str:
    return str(text or "").replace("|", "/").replace("\n", " ")[:160]
