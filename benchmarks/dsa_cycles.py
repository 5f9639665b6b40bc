"""Cycle tables of docs/backends.md: what depth buys on dsa_c, and where the operators stand.

    python benchmarks/dsa_cycles.py            prints the tables
    python benchmarks/dsa_cycles.py --write    puts them into docs/backends.md

Cycles are those of the simulated machine (configs/machines/dsa_c.yaml), the same on every computer. Each
kernel is verified first. Takes about three minutes.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran import settings as settings_
from septran.plan.resolve import GenRequest
from septran.run.gen import gen
from septran.run.inspect import mapping_text

PAGE = Path(__file__).resolve().parents[1] / "docs" / "backends.md"
DEPTHS = (1, 2, 3, 4, 6)
TILES = ((128, 128, 64), (64, 64, 32), (32, 32, 32), (16, 16, 64))
OPERATORS = ("gemm", "conv2d", "attention", "softmax", "layernorm", "transpose", "add")


def pipelined(tile: tuple[int, int, int], depth: int, folder: Path) -> GenRequest:
    """Return gemm 512^3 under the shipped policy's mapping with another tile and depth."""
    text = mapping_text(GenRequest(op="gemm", backend="dsa_c"), settings=settings_.load(flags={}))
    for name, size in zip("MNK", tile, strict=True):
        text = re.sub(rf"block_size_{name}: \d+", f"block_size_{name}: {size}", text)
    text = re.sub(r"pipeline: \d+", f"pipeline: {depth}", text)
    path = folder / f"{'_'.join(map(str, tile))}_{depth}.mapping.yaml"
    path.write_text(text, encoding="utf-8")
    return GenRequest(op="gemm", backend="dsa_c", mapping=path)


def cycles_of(request: GenRequest, folder: Path) -> Mapping[str, Any]:
    """Return the cycle report of a request's verified kernel."""
    settings = replace(settings_.load(flags={}), home=folder)
    data = gen(request, settings=settings, progress=lambda _: None).data
    if data["level"] != "accurate":
        raise SystemExit(f"{request.op}: {data['level']}: {data.get('reason')}")
    found: Mapping[str, Any] = data["cycles"]
    return found


def depth_table(folder: Path) -> Iterator[str]:
    """Yield the rows: a tile per row, a depth per column; cycles, and the engine that binds the last."""
    yield "| tile m x n x k | " + " | ".join(f"pipeline {d}" for d in DEPTHS) + " | bound by |"
    yield "|---" * (len(DEPTHS) + 2) + "|"
    for tile in TILES:
        reports = [cycles_of(pipelined(tile, depth, folder), folder) for depth in DEPTHS]
        cells = [f"{r['total']} ({r['overlap']:.2f})" for r in reports]
        queues = reports[-1]["queues"]
        name = max(queues, key=lambda q: float(queues[q]["busy"]))
        bound = f"{name} {100 * queues[name]['utilisation']:.0f} %"
        yield f"| {' x '.join(map(str, tile))} | " + " | ".join(cells) + f" | {bound} |"


def operator_table(folder: Path) -> Iterator[str]:
    """Yield the rows: an operator at its sample dims per row."""
    names = ("LOAD", "STORE", "MMA", "VEC")
    yield "| operator (sample dims) | cycles | " + " | ".join(names) + " | overlap | MB moved |"
    yield "|---" * (len(names) + 4) + "|"
    for op in OPERATORS:
        found = cycles_of(GenRequest(op=op, backend="dsa_c"), folder)
        used = " | ".join(f"{100 * found['queues'][n]['utilisation']:.0f} %" for n in names)
        moved = f"{found['bytes_moved'] / 1e6:.2f}"
        yield f"| {op} | {found['total']} | {used} | {found['overlap']:.2f} | {moved} |"


def main() -> None:
    """Print the tables, or write them between their marks in the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {"depth": depth_table(folder), "operators": operator_table(folder)}
        page = PAGE.read_text(encoding="utf-8")
        for mark, rows in tables.items():
            text = "\n".join(rows)
            print(f"{mark}\n{text}\n", flush=True)
            pattern = rf"(<!-- dsa_cycles {mark} -->\n).*?(<!-- end -->)"
            page, count = re.subn(pattern, rf"\g<1>{text}\n\2", page, flags=re.DOTALL)
            assert count == 1, mark
        if "--write" in sys.argv[1:]:
            PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
