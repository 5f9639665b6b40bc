"""The passes every target runs first: stage operands, share and hoist the stagings, insert Sync."""

from __future__ import annotations

from functools import partial

from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import Layouts, insert_copies
from septran.passes.insert_sync import insert_sync
from septran.passes.merge_stages import merge_stages
from septran.passes.run import Pass


def staging_passes(
    layouts: Layouts | None = None, *, private: tuple[str, ...] = ("REGISTER",)
) -> tuple[tuple[str, Pass], ...]:
    """Return the named passes.

    layouts: what the target's leaves want staged operands to look like.
    private: memories owned by one thread of execution (see `insert_sync`).
    """
    return (
        ("insert_copies", partial(insert_copies, layouts=layouts)),
        ("merge_stages", merge_stages),
        ("hoist_copies", hoist_copies),
        ("insert_sync", partial(insert_sync, private=private)),
    )
