"""The words that the parent and the static host share; `host.h` has the same layout."""

from __future__ import annotations

from dataclasses import dataclass

GO, DONE, ORDER, PLACEMENT, COUNT, SEED, RECEIPT, WITHOUT = range(8)
READY, ENVIRONMENT, THREADS, PARAMS, PLACEMENTS, DEPTH, VARIANT = range(8, 15)
WINDOW, TABLE, ROW = 16, 528, 6
MAX_PARAMS, MAX_PLACEMENTS, MAX_THREADS = 512, 3, 64
STEP = 64
CONTROL_BYTES, TEXT_BYTES = 81920, 65536
ROOM_BYTES = 256 << 20
CALL, SLOT = 1, 2
CONFINED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Where one tensor lies for one placement. All in bytes but `windows`, places STEP bytes apart.

    offset: of its pages in the file of the inputs or of the outputs. lead: before it in its first page.
    """

    offset: int
    pages: int
    lead: int
    nbytes: int
    windows: int
    written: bool

    def words(self) -> tuple[int, ...]:
        """Return the row as the host reads it."""
        return (self.offset, self.pages, self.lead, self.nbytes, self.windows, int(self.written))
