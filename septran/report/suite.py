"""A suite's page: every row with its gate, and where the kernels lie below the roof of their machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from septran import assets
from septran.report.plots import roofline_plot


def html(found: Mapping[str, Any], facts: str, bounds: Sequence[str]) -> str:
    """Return the page of a septran.suite/1 object. facts: the machine, in a line. bounds: what bounds each row."""
    points = [
        (row["row"], figure["gflops"], figure["gbytes_per_s"], figure["limit_share"], figure["limited_by"])
        for row in found["rows"]
        if (figure := row["figure"]) and figure["gflops"] and figure["gbytes_per_s"]
    ]  # fmt: skip
    return assets.page(
        "suite",
        found=found,
        facts=facts,
        rows=list(zip(found["rows"], bounds, strict=True)),
        words={True: "held", False: "missed", None: "open"},
        roofline=roofline_plot(points),
    )
