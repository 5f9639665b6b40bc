"""The picture of docs/gpu-results.md: how near each operator comes to what the machine can do, by backend."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from benchmarks.gpu_report import Row, dims_text, fastest

_BAR = 0.26


def drawn(rows: Sequence[Row], gpu: str) -> str:
    """Return an SVG of the fastest rows with a share of the measured limit, "" where there are none."""
    best = [row for row in fastest([row for row in rows if row["gpu"] == gpu]) if row.get("share")]
    if not best:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    labels = list(dict.fromkeys(_label(row) for row in best))
    names = sorted({row["backend"] for row in best})
    with mpl.rc_context({"svg.hashsalt": "septran", "font.size": 9}):
        figure = Figure(figsize=(8.5, 0.9 + 0.42 * len(labels)), layout="constrained")
        axes = figure.add_subplot()
        for n, name in enumerate(names):
            mine = {_label(row): row["share"] for row in best if row["backend"] == name}
            places = [labels.index(label) + (n - (len(names) - 1) / 2) * _BAR for label in mine]
            axes.barh(places, list(mine.values()), _BAR, label=name)
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_xlabel("share of the measured limit: cuBLAS for products, a copy for the others")
        axes.set_title(gpu)
        figure.legend(loc="outside lower center", ncols=len(names))
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return re.sub(r"[ \t]+$", "", stream.getvalue(), flags=re.MULTILINE)


def _label(row: Row) -> str:
    return f"{row['op']} {row['dtype']}, {dims_text(row['dims'])}"
