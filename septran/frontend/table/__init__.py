"""One row per ATen operator: name -> a function that says it in canonical nodes."""

from septran.aten.evaluate import ALLOWED
from septran.frontend.table import (
    bags,
    bits,
    checks,
    compares,
    einsum,
    layout,
    losses,
    makers,
    movement,
    ordering,
    pair,
    patches,
    pointwise,
    positions,
    products,
    recurrent,
    resample,
    rows,
    special,
    spectral,
    triangles,
    windows,
)
from septran.frontend.table.build import ROWS, Args, Builder, NoForm, clean_name

KNOWN = (frozenset(ROWS) | frozenset(pair.COMPLEX)) & ALLOWED
"""Operators that have a form, and that the judge may run."""

__all__ = [
    "KNOWN",
    "ROWS",
    "Args",
    "Builder",
    "NoForm",
    "bags",
    "bits",
    "checks",
    "clean_name",
    "compares",
    "einsum",
    "layout",
    "losses",
    "makers",
    "movement",
    "ordering",
    "pair",
    "patches",
    "pointwise",
    "positions",
    "products",
    "recurrent",
    "resample",
    "rows",
    "special",
    "spectral",
    "triangles",
    "windows",
]
