"""The passes of the TileLang backends: staging; TileLang itself orders and pipelines copies."""

from __future__ import annotations

from septran.backends.tilelang.passes.stage_operands import stage_operands
from septran.backends.tilelang.passes.stage_results import stage_results
from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import insert_copies
from septran.passes.merge_stages import merge_stages
from septran.passes.run import Pass

PASSES: tuple[tuple[str, Pass], ...] = (
    ("insert_copies", insert_copies),
    ("stage_operands", stage_operands),
    ("hoist_copies", hoist_copies),
    ("merge_stages", merge_stages),
    ("stage_results", stage_results),
)
