"""M011, a memory is too small: counted here and said here, whoever knows what a target stores.

`Held` is something that takes bytes of a memory for as long as a processor runs; what the target adds to its dense
size (padded rows, several stages) is in `nbytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from septran.errors import MappingError, Span
from septran.ir.nodes import Buffer

SMALLER = "reduce pipeline or the tile sizes"
_LISTED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What takes `nbytes` bytes, all versions together; span: where the mapping or the logic asks for it."""

    what: str
    nbytes: int
    span: Span | None = None

    @classmethod
    def of(cls, buffer: Buffer, nbytes: int, span: Span | None = None) -> Held:
        """Return the entry of a buffer whose versions take `nbytes` together."""
        stages = f" x{buffer.versions} stages" if buffer.versions > 1 else ""
        return cls(
            what=f"{buffer.name}{list(buffer.shape)} {buffer.dtype}{stages}",
            nbytes=nbytes,
            span=span,
        )


def check_memory(
    memory: str, proc: str, capacity: int, held: Sequence[Held], *, help: str = SMALLER
) -> None:
    """Refuse more bytes than `memory` has.

    proc: the processor that owns the memory. capacity: in bytes. help: the advice.

    Raises:
        MappingError: M011, with the largest of `held` by name.
    """
    if sum(h.nbytes for h in held) > capacity:
        raise too_small(memory, proc, capacity, held, help=help)


def too_small(
    memory: str, proc: str, capacity: int, held: Sequence[Held], *, help: str = SMALLER
) -> MappingError:
    """Return M011 for a memory that cannot hold `held`; arguments as of `check_memory`."""
    largest = sorted(held, key=lambda h: -h.nbytes)
    parts = [f"{h.what} = {h.nbytes}" for h in largest[:_LISTED]]
    if len(largest) > _LISTED:
        parts.append(f"{len(largest) - _LISTED} more")
    error = MappingError.of(
        "M011",
        f"{memory} needs {sum(h.nbytes for h in held)} bytes per {proc} but the limit is {capacity}: "
        + ", ".join(parts),
        next((h.span for h in largest if h.span is not None), None),
        help=help,
    )
    assert isinstance(error, MappingError)
    return error
