"""A page that draws a tuner's search: every trial in its order, the best so far, and what the model had said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from septran import assets
from septran.report.plots import predicted_plot, search_plot


def page(found: Mapping[str, Any]) -> str:
    """Return the page of a septran.tune/1 object."""
    scale = 1.0 if found["unit"] == "cycles" else 1e6
    measured = [t for t in found["trials"] if t["found"] is not None]
    drawn = [(t["number"], scale * t["found"]) for t in measured]
    pairs = [(t["predicted"], scale * t["found"]) for t in measured if t["predicted"]]
    unit = "cycles" if found["unit"] == "cycles" else "us"
    return assets.page(
        "tune",
        found=found,
        unit=unit,
        scale=scale,
        search=search_plot(drawn, unit),
        model="" if found["how"] == "predicted" else predicted_plot(pairs, unit),
    )
