"""The plots of a report, as SVG that takes its text colour from the page, so that it reads light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from septran.report.data import Row
from septran.report.history import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK = "#010203"  # stands for the page's text colour
_COLORS = ("#2f83c5", "#d97a1f", "#2a9d6a", "#c2518f", "#8a72d6", "#b39b1e", "#3aa7b5", "#b5584a")
_WIDTH, _LINE = (
    5.6,
    0.26,
)  # inches; letters stay readable on a telephone, where the page is half as wide
_MOST_BARS = 48


def budget_plot(rows: Sequence[Row]) -> str:
    """Return how much of the allowed error each kernel used, by backend; "" without figures."""
    known = [row for row in rows if row.budget_ratio is not None and row.sort == "accurate"]
    if not known:
        return ""
    names = sorted({row.backend for row in known}, reverse=True)
    figure, axes = _figure(len(names) + 1)
    for number, name in enumerate(names):
        values = sorted(100 * float(r.budget_ratio or 0) for r in known if r.backend == name)
        spread = [number + 0.5 * (((7 * i) % 11) / 11 - 0.45) for i in range(len(values))]
        axes.plot(values, spread, "o", ms=3.5, alpha=0.8, mew=0, color=_COLORS[0])
        middle = values[len(values) // 2]
        axes.plot([middle, middle], [number - 0.38, number + 0.38], color=_INK, lw=1.6)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_xlim(-2, 104)
    axes.set_xlabel("share of the allowed error used (%); bar: median")
    return _svg(figure)


def speed_plot(rows: Sequence[Row]) -> str:
    """Return each timed kernel's speed against torch with its interval; "" without figures."""
    from matplotlib.ticker import MaxNLocator

    known = [row for row in rows if row.speedup]
    if not known:
        return ""
    ops = sorted({row.op for row in known}, reverse=True)
    targets = sorted({row.backend for row in known})
    figure, axes = _figure(len(ops) + 1 + 0.6 * (len(targets) > 1))
    for number, op in enumerate(ops):
        mine = [row for row in known if row.op == op]
        for place, row in enumerate(mine):
            y = number + (0.6 * (place + 0.5) / len(mine) - 0.3)
            color = _COLORS[targets.index(row.backend) % len(_COLORS)]
            low, high = row.low or row.speedup, row.high or row.speedup
            axes.plot([low, high], [y, y], color=color, lw=1.2, alpha=0.7)
            axes.plot([row.speedup], [y], "o", ms=4, color=color)
    axes.axvline(1.0, color=_INK, lw=1, ls=(0, (4, 3)))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    low, high = axes.get_xlim()
    if high < 4 * low:  # hardly a power of two lies between
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_yticks(range(len(ops)), ops)
    axes.set_ylim(-0.7, len(ops) - 0.3)
    axes.set_xlabel("times as fast as torch (right of the line: faster)")
    if len(targets) > 1:
        for number, name in enumerate(targets):
            axes.plot([], [], "o", color=_COLORS[number % len(_COLORS)], label=name)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=8)
    return _svg(figure)


def trend_plot(points: Sequence[Point]) -> str:
    """Return the speed of the same kernels from run to run with its interval; "" with fewer than two figures."""
    known = [(i, p) for i, p in enumerate(points) if p.speed and p.low and p.high]
    if len(known) < 2:
        return ""
    figure, axes = _figure(6)
    for i, point in known:
        axes.plot([i, i], [point.low, point.high], color=_COLORS[0], lw=1.2, alpha=0.7)
    axes.plot([i for i, _ in known], [p.speed for _, p in known], "o-", ms=4, color=_COLORS[0])
    axes.axhline(1.0, color=_INK, lw=1, ls=(0, (4, 3)))
    axes.set_xticks(range(len(points)), [str(i + 1) for i in range(len(points))])
    axes.set_xlabel("run, the newest on the right; times as fast as torch")
    return _svg(figure)


def cycles_plot(rows: Sequence[Row]) -> str:
    """Return how long each engine of a simulated machine worked, kernel by kernel; "" without figures.

    Of many kernels the longest are drawn.
    """
    known = [row for row in rows if row.cycles]
    if len(known) > _MOST_BARS:
        known = sorted(known, key=lambda row: -int(row.cycles["total"]))[:_MOST_BARS]
    if not known:
        return ""
    names = list(dict.fromkeys(name for row in known for name in row.cycles["queues"]))
    figure, axes = _figure(1.1 * len(known) + 1.2)
    height = 0.8 / len(names)
    for number, row in enumerate(reversed(known)):
        for place, name in enumerate(names):
            queue = row.cycles["queues"].get(name, {})
            y = number + 0.4 - (place + 0.5) * height
            share = 100 * float(queue.get("utilisation", 0.0))
            axes.barh(y, share, height, color=_COLORS[place % len(_COLORS)], lw=0)
    axes.set_yticks(range(len(known)), [_kernel_name(row) for row in reversed(known)])
    axes.set_ylim(-0.6, len(known) + 0.1)
    axes.set_xlim(0, 101)
    axes.set_xlabel("share of all cycles in which an engine works (%)")
    for place, name in enumerate(names):
        axes.barh([0], [0], color=_COLORS[place % len(_COLORS)], label=name)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=8)
    return _svg(figure)


def _kernel_name(row: Row) -> str:
    total = f"{row.cycles['total']:,}".replace(",", " ")
    dims = " ".join(part.partition("=")[2] for part in row.dims.split())
    return f"{row.op} {dims} {row.dtype}: {total}"


def _figure(lines: float) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, 0.7 + _LINE * lines), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(colors=_INK, labelsize=8.5, length=3, width=0.6)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.label.set(color=_INK, fontsize=8.5)
    axes.grid(axis="x", color=_INK, alpha=0.13, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set(color=_INK, alpha=0.4)
    return figure, axes


def _svg(figure: Figure) -> str:
    from matplotlib import rc_context

    stream = io.StringIO()
    with rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "septran", "font.family": "sans-serif"}
    ):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r'<text style="', '<text style="fill: currentColor; ', text)
    return re.sub(
        r'^<svg ([^>]*?)width="[^"]*"', r"<svg \1", re.sub(r' height="[\d.]+pt"', "", text, count=1)
    )


def search_plot(measured: Sequence[tuple[int, float]], unit: str) -> str:
    """Return the trials of a search in their order, and the best so far as a line; "" for fewer than two."""
    from matplotlib.ticker import MaxNLocator

    if len(measured) < 2:
        return ""
    figure, axes = _figure(9)
    numbers, values = [m[0] for m in measured], [m[1] for m in measured]
    best = [min(values[: i + 1]) for i in range(len(values))]
    axes.plot(numbers, values, "o", ms=4, alpha=0.8, mew=0, color=_COLORS[0])
    axes.step(numbers, best, where="post", color=_INK, lw=1.4)
    axes.set_ylabel(unit, color=_INK, fontsize=8.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("number of the proposal; line: the best so far")
    return _svg(figure)


def predicted_plot(pairs: Sequence[tuple[float, float]], unit: str) -> str:
    """Return what was measured over what the model had predicted; "" for fewer than two."""
    if len(pairs) < 2:
        return ""
    figure, axes = _figure(9)
    axes.plot([p[0] for p in pairs], [p[1] for p in pairs], "o", ms=4, alpha=0.8, mew=0, color=_COLORS[0])  # fmt: skip
    axes.set_ylabel(f"measured, {unit}", color=_INK, fontsize=8.5)
    axes.set_xlabel("predicted, cycles")
    return _svg(figure)


def roofline_plot(points: Sequence[tuple[str, float, float, float | None, str | None]]) -> str:
    """Return kernels over operations a byte, each with its own roof; "" without any.

    points: name, GFLOP/s, GB/s, share of the limit that binds it, "arithmetic" or "memory". The roof of a kernel is what
    the machine can do at its size and type, so it stands above the point as a bar: no one line holds for L2 and DRAM.
    """
    if not points:
        return ""
    figure, axes = _figure(16)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for name, gflops, gbytes, share, by in points:
        at = gflops / gbytes
        color = _COLORS[0] if by == "arithmetic" else _COLORS[1]
        if share:
            axes.plot([at, at], [gflops, gflops / share], "-", lw=1.0, alpha=0.5, color=color)
            axes.plot([at], [gflops / share], "_", ms=9, color=color)
        axes.plot([at], [gflops], "o", ms=4, mew=0, color=color)
        axes.annotate(name, (at, gflops), xytext=(5, -3), textcoords="offset points", fontsize=6.5, color=_INK)  # fmt: skip
    axes.set_ylabel("GFLOP/s; bar: the machine's limit", color=_INK, fontsize=8.5)
    axes.set_xlabel("operations a byte that has to move")
    return _svg(figure)
