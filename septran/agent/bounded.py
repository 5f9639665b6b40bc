"""What the client reads whole by itself (errors, redirects, the list of models) has a size and a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

_MOST = 4 << 20
_MOST_PACKED = 64 << 10  # a thousandth of what it may unpack to


def bounds(seconds: float) -> Callable[[httpx2.Response], None]:
    """Return a hook that ends such a body after some MiB or `seconds` with an error of the HTTP library."""
    import httpx2

    class Bounded(httpx2.SyncByteStream):
        def __init__(self, inner: httpx2.SyncByteStream, most: int) -> None:
            self._inner, self._most = inner, most

        def __iter__(self) -> Iterator[bytes]:
            until, size = time.monotonic() + seconds, 0
            for part in self._inner:
                size += len(part)
                if size > self._most or time.monotonic() > until:
                    raise httpx2.ReadError("the answer does not end")
                yield part

        def close(self) -> None:
            self._inner.close()

    def hook(response: httpx2.Response) -> None:
        streamed = response.is_success and response.request.method == "POST"
        if not streamed and isinstance(response.stream, httpx2.SyncByteStream):
            packed = "content-encoding" in response.headers
            response.stream = Bounded(response.stream, _MOST_PACKED if packed else _MOST)

    return hook
