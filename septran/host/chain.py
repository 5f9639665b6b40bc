"""What a slot's receipt is made of, computed again by the parent from outputs it has seen itself.

    window[i] of call n = f(receipt[n], i);  receipt[n + 1] = digest(receipt[n], all output bytes of call n)

Whoever knows receipt[N] made all the outputs of all N calls, one after the other: the inputs of a call are
not known before the outputs of the one before it are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_MASK = (1 << 64) - 1
_LANES = 64
_PRIME = 0x01000193


def mix(x: int) -> int:
    """Return a 64-bit word in which every bit depends on every bit of `x` (splitmix64's last steps)."""
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
    return x ^ x >> 31


def windows_of(receipt: int, windows: Sequence[int]) -> list[int]:
    """Return which window each parameter has in the call that starts at `receipt`."""
    found = (mix((receipt + i) & _MASK) * count >> 64 for i, count in enumerate(windows))
    return [window if count > 1 else 0 for window, count in zip(found, windows, strict=True)]


def digest(raw: np.ndarray[Any, Any], receipt: int) -> int:
    """Return the receipt after outputs `raw` (bytes, as uint8)."""
    import numpy as np

    words = raw[: raw.size // 4 * 4].view(np.uint32)
    rest = bytes(raw[words.size * 4 :])
    words = words ^ (words >> np.uint32(15))
    rows, odd = divmod(words.size, _LANES)
    powers = _powers(rows)
    lane = np.arange(_LANES, dtype=np.uint64)
    acc = (np.uint64(receipt) >> (lane & np.uint64(31))).astype(np.uint32)
    acc ^= lane.astype(np.uint32) * np.uint32(0x9E3779B1)
    body = words[: rows * _LANES].reshape(rows, _LANES) * powers[:rows][::-1, None]
    acc = acc * powers[rows] + body.sum(0, dtype=np.uint32)
    acc[:odd] = acc[:odd] * np.uint32(_PRIME) + words[rows * _LANES :]
    if rest:
        last = int.from_bytes(rest, "little")
        acc[-1] = np.uint32((int(acc[-1]) * _PRIME + (last ^ last >> 15)) & 0xFFFFFFFF)
    out = receipt
    for each in acc.tolist():
        out = ((out ^ each) * 0x9E3779B97F4A7C15) & _MASK
        out ^= out >> 29
    return out


@functools.lru_cache(maxsize=8)
def _powers(rows: int) -> np.ndarray[Any, Any]:
    """Powers 0 to `rows` of the multiplier, modulo 2^32."""
    import numpy as np

    found = np.full(rows + 1, _PRIME, np.uint32)
    found[0] = 1
    return np.multiply.accumulate(found, dtype=np.uint32)
