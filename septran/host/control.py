"""The words that the parent and the static host share; `host.h` has the same layout."""

from __future__ import annotations

from dataclasses import dataclass

GO, DONE, ORDER, PLACEMENT, COUNT, SEED, RECEIPT, WITHOUT = range(8)
READY, ENVIRONMENT, THREADS, PARAMS, PLACEMENTS, DEPTH, VARIANT, MOVES = range(8, 16)
WINDOW, TABLE, ROW = 16, 528, 10
MAX_PARAMS, MAX_PLACEMENTS, MAX_THREADS = 512, 3, 1024
STEP = 64
CONTROL_BYTES, TEXT_BYTES = 131072, 65536
ROOM_BYTES = 256 << 20
CALL, SLOT, MOVED = 1, 2, 3
SETTINGS_LEFT = 8
"""of the word ENVIRONMENT after one call: OpenMP's settings are others"""
VARY_UNIT, VARY_LEVEL, INPUT_CHANGED = 1, 2, 4
CONFINED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Where one tensor lies for one placement. All in bytes but `windows`, places STEP bytes apart.

    offset: of its pages in the file of the inputs or of the outputs. lead: before it in its first page. unit: what its address is
    a multiple of wherever it lies, a power of two. source, source_pages: of a tensor that is read and written, where in the inputs' file it is
    filled from before a call; its windows are places there, and it keeps what it holds in a call with no such window. every: calls of a slot
    from one filling to the next.
    """

    offset: int
    pages: int
    lead: int
    nbytes: int
    windows: int
    written: bool
    unit: int = 1
    source: int = 0
    source_pages: int = 0
    every: int = 1

    def words(self) -> tuple[int, ...]:
        """Return the row as the host reads it."""
        kind = int(self.written)
        return (
            *(self.offset, self.pages, self.lead, self.nbytes, self.windows, kind, self.unit),
            *(self.source, self.source_pages, self.every),
        )
