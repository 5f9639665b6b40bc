"""The passes of the TileLang backends: staging, then what TileLang can do; it orders and pipelines copies itself."""

from __future__ import annotations

from septran.backends.tilelang.passes.check_tiles import check_tiles
from septran.backends.tilelang.passes.settle import settle_blocks, settle_loops, settle_threads
from septran.backends.tilelang.passes.share_warps import share_warps
from septran.backends.tilelang.passes.stage_operands import stage_operands
from septran.backends.tilelang.passes.stage_results import stage_results
from septran.passes.heavy_first import heavy_first
from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import insert_copies
from septran.passes.merge_stages import merge_stages
from septran.passes.name_scores import name_scores
from septran.passes.run import Pass

PASSES: tuple[tuple[str, Pass], ...] = (
    ("insert_copies", insert_copies),
    ("stage_operands", stage_operands),
    ("hoist_copies", hoist_copies),
    ("merge_stages", merge_stages),
    ("share_warps", share_warps),
    ("stage_results", stage_results),
    ("name_scores", name_scores),
)
FINISH: tuple[tuple[str, Pass], ...] = (
    ("settle_threads", settle_threads),
    ("check_tiles", check_tiles),
    ("heavy_first", heavy_first),
    ("settle_loops", settle_loops),
    ("settle_blocks", settle_blocks),
)
