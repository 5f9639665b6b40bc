"""One row per ATen operator: name -> a function that says it in canonical nodes."""

from septran.frontend.table import (
    bits,
    checks,
    einsum,
    layout,
    losses,
    makers,
    movement,
    ordering,
    pointwise,
    products,
    recurrent,
    rows,
    windows,
)
from septran.frontend.table.build import ROWS, Args, Builder, NoForm, clean_name

__all__ = [
    "ROWS",
    "Args",
    "Builder",
    "NoForm",
    "bits",
    "checks",
    "clean_name",
    "einsum",
    "layout",
    "losses",
    "makers",
    "movement",
    "ordering",
    "pointwise",
    "products",
    "recurrent",
    "rows",
    "windows",
]
