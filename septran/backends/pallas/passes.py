"""The passes of the Pallas backend: staging only; Pallas orders and pipelines copies itself."""

from __future__ import annotations

from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import insert_copies
from septran.passes.merge_stages import merge_stages
from septran.passes.run import Pass

PASSES: tuple[tuple[str, Pass], ...] = (
    ("insert_copies", insert_copies),
    ("hoist_copies", hoist_copies),
    ("merge_stages", merge_stages),
)
