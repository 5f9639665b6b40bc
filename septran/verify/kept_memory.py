"""Freed memory that stays with the process while large tensors are judged.

A float64 reference makes and frees dozens of tensors of tens of megabytes. The C library gives each such block back to the kernel
and asks for it again, zeroed page by page: on a virtual machine that takes longer than the arithmetic.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator

# parameters of glibc's mallopt(3)
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 72 << 20
"""Blocks up to this size are kept. glibc 2.36 leaves a hole beside each of the first few blocks that ask for an alignment, so
that they take new pages seven times before they are used again: too much for larger ones."""
_DEFAULT_PAD = 128 << 10
_LARGEST_THRESHOLD = 32 << 20
"""Where glibc's own adjustment ends once blocks of this size were freed: what is left behind."""


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what is freed inside until the end, then give it back. Does nothing with another C library than glibc."""
    library = _glibc()
    if library is None:
        yield
        return
    mallopt, malloc_trim = library
    mallopt(_MMAP_THRESHOLD, _KEPT)
    mallopt(_TOP_PAD, _KEPT)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        mallopt(_TOP_PAD, _DEFAULT_PAD)
        mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        mallopt(_TRIM_THRESHOLD, 2 * _LARGEST_THRESHOLD)
        malloc_trim(0)


@functools.cache
def _glibc() -> tuple[Callable[[int, int], int], Callable[[int], int]] | None:
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - others have a mallopt that does nothing
        return library.mallopt, library.malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
