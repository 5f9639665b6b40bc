"""The passes every target runs first: stage operands, share and hoist the stagings."""

from __future__ import annotations

from functools import partial

from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import Layouts, insert_copies
from septran.passes.merge_stages import merge_stages
from septran.passes.run import Pass


def staging_passes(layouts: Layouts | None = None) -> tuple[tuple[str, Pass], ...]:
    """Return the named passes; layouts: what the target's leaves want staged operands to look like."""
    return (
        ("insert_copies", partial(insert_copies, layouts=layouts)),
        ("merge_stages", merge_stages),
        ("hoist_copies", hoist_copies),
    )
