"""The table of docs/performance.md: what `septran predict` says of every operator against what is measured.

    python benchmarks/predicted.py dsa_c             measures and prints the table
    python benchmarks/predicted.py cpp --write       puts it into docs/performance.md
    python benchmarks/predicted.py gpu --write       of kernels in benchmarks/results/gpu.jsonl; needs no GPU
    python benchmarks/predicted.py cpp --kept cpp.json   keeps measured figures there, and uses those it has

Every kernel is verified first. dsa_c: cycles of the simulated machine. cpp: microseconds of one thread, processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import gpu_cells  # noqa: E402
from benchmarks.gpu_cells import Cell  # noqa: E402
from benchmarks.gpu_report import Rows, dims_text  # noqa: E402
from septran import settings as settings_  # noqa: E402
from septran.plan import catalog  # noqa: E402
from septran.plan.predicted import prediction_of  # noqa: E402
from septran.plan.resolve import GenRequest  # noqa: E402
from septran.run.gen import gen  # noqa: E402
from septran.run.predict import predicted  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"


def measured(request: GenRequest, folder: Path) -> float:
    """Return cycles, or microseconds where the machine has a clock, of a request's verified kernel."""
    settings = replace(settings_.load(flags={}), home=folder)
    data = gen(request, settings=settings, progress=lambda _: None).data
    if data["level"] != "accurate":
        raise SystemExit(f"{request.op}: {data['level']}: {data.get('reason')}")
    if data.get("cycles"):
        return float(data["cycles"]["total"])
    return 1e6 * float(data["timing"]["kernel_s"])


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal ones share theirs."""
    ordered = sorted(values)
    return [(ordered.index(v) + len(ordered) - ordered[::-1].index(v) - 1) / 2 for v in values]


def table(backend: str, kept: Path | None) -> str:
    """Return the table and the figures below it."""
    known: dict[str, float] = json.loads(kept.read_text()) if kept and kept.exists() else {}
    rows, pairs = [], []
    for entry in catalog.ops():
        name = entry["name"]
        request = GenRequest(op=name, backend=backend)
        found = predicted(request).prediction
        if name not in known:
            with tempfile.TemporaryDirectory() as folder:
                known[name] = measured(request, Path(folder))
            if kept:
                kept.write_text(json.dumps(known, indent=1))
        real = known[name]
        if found.ticks is None:
            rows.append(f"| {name} | {real:,.0f} | unknown | | {found.unknown} |")
            continue
        told = found.ticks if found.seconds is None else 1e6 * found.seconds
        pairs.append((told, real))
        digits = 0 if found.seconds is None else 1
        error = told / real - 1
        rows.append(f"| {name} | {real:,.{digits}f} | {told:,.{digits}f} | {error:+.0%} | {found.bound} |")  # fmt: skip
    return "\n".join([_head(backend), *rows, "", _summary(pairs, len(rows))])


def on_gpu(path: Path) -> str:
    """Return the table and the figures below it of kernels that benchmarks/gpu.py measured, policies and variants."""
    named = {each["name"]: each for each in gpu_cells.settings()["candidates"]}
    rows, pairs, policies = [], [], []
    for row in Rows(path).of("speed"):
        if row.get("ms") is None:
            continue
        names = ("op", "backend", "arch", "dtype", "dims", "candidate")
        cell = Cell(**{n: row[n] for n in names}, change=named.get(row["candidate"], {}))
        with tempfile.TemporaryDirectory() as folder:
            made = gpu_cells.lowering(cell, Path(folder))
        found = prediction_of(made.lowered, made.plan.backend, made.plan.machine, {})
        if found.seconds is None:
            raise SystemExit(f"{cell}: {found.unknown}")
        told, real = 1e6 * found.seconds, 1e3 * row["ms"]
        pairs.append((told, real))
        if not cell.candidate:
            policies.append((told, real))
            what = f"{cell.op} {dims_text(cell.dims)} | {cell.backend}"
            rows.append(f"| {what} | {real:,.1f} | {told:,.1f} | {told / real - 1:+.0%} | {found.bound} |")  # fmt: skip
    head = "| operator, float16 | target | us measured | predicted | error | bound by |\n|---|---|---|---|---|---|"
    below = (
        f"Policies: {_summary(policies, len(policies))}",
        f"With their variants: {_summary(pairs, len(pairs))}",
    )
    return "\n".join((head, *rows, "", *below))


def _head(backend: str) -> str:
    unit = "us" if backend == "cpp" else "cycles"
    return f"| operator, sample sizes | {unit} measured | predicted | error | bound by |\n|---|---|---|---|---|"


def _summary(pairs: Sequence[tuple[float, float]], asked: int) -> str:
    errors = [abs(told / real - 1) for told, real in pairs]
    told, real = (ranks([p[i] for p in pairs]) for i in (0, 1))
    rank = statistics.correlation(told, real)
    worst = max(errors)
    factor = math.exp(statistics.mean(abs(math.log(t / r)) for t, r in pairs))
    return (
        f"{len(pairs)} of {asked} kernels predicted; error: median {statistics.median(errors):.1%}, "
        f"largest {worst:.0%}, geometric mean factor {factor:.2f}; rank correlation {rank:.2f}."
    )


def main() -> None:
    """Print the table, or write it between its marks in the page."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("backend", choices=("cpp", "dsa_c", "gpu"))
    asked.add_argument("--write", action="store_true")
    asked.add_argument("--kept", type=Path)
    given: Mapping[str, object] = vars(asked.parse_args())
    os.environ["SEPTRAN_THREADS"] = "1" if given["backend"] == "cpp" else "2"
    if given["backend"] == "gpu":
        text = on_gpu(ROOT / "benchmarks" / "results" / "gpu.jsonl")
    else:
        text = table(str(given["backend"]), given["kept"])  # type: ignore[arg-type]
    print(text)
    if given["write"]:
        page = PAGE.read_text(encoding="utf-8")
        pattern = rf"(<!-- predicted {given['backend']} -->\n).*?(<!-- end -->)"
        page, count = re.subn(pattern, lambda m: f"{m[1]}{text}\n{m[2]}", page, flags=re.DOTALL)
        assert count == 1, given["backend"]
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
