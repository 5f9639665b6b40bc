"""A threading HTTP server that strangers cannot wear out: so many connections at once, and those who say no token make room."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from septran.errors import Failure

MOST = 256
"""connections that are served at once, a thread each"""
STRANGER_S = 1.0
"""for how long a connection that said no token keeps its place when others want it"""
_POLL_S = 0.02
_LINGER_S = 1.0
_MOST_UNREAD = 1 << 21
"""bytes of a refused request that are taken from the line, so that the refusal is read before the line is reset"""
_GONE = (ConnectionError, TimeoutError)


class Connections:
    """Who is connected. A stranger has not said the token yet."""

    def __init__(self, most: int) -> None:
        self._most, self._count, self._lock = most, 0, threading.Lock()
        self._strangers: dict[int, tuple[float, socket.socket]] = {}

    def enter(self, line: socket.socket) -> bool:
        """Give a connection a place, for which the oldest strangers are hung up on; False: all are taken by others."""
        while True:
            with self._lock:
                if self._count < self._most:
                    self._count += 1
                    self._strangers[id(line)] = (time.monotonic(), line)
                    return True
                if not self._strangers:
                    return False
                self._hang_up()
            time.sleep(_POLL_S)

    def known(self, line: socket.socket) -> None:
        """Note that a connection said the token."""
        with self._lock:
            self._strangers.pop(id(line), None)

    def leave(self, line: socket.socket) -> None:
        """Free the place of a connection."""
        with self._lock:
            self._count -= 1
            self._strangers.pop(id(line), None)

    def _hang_up(self) -> None:
        """Hang up on strangers that had time enough; their threads then leave."""
        for since, line in self._strangers.values():
            if time.monotonic() - since >= STRANGER_S:
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)


class Bounded(ThreadingHTTPServer):
    """Serves at most `MOST` connections; a client that goes away is nobody's trouble."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    log: Path | None = None
    """where a traceback of ours goes; None: stderr"""

    def __init__(
        self,
        address: tuple[str, int],
        routes: type[BaseHTTPRequestHandler],
        *,
        most: int = MOST,
    ) -> None:
        self.connections = Connections(most)
        super().__init__(address, routes)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, or say that there are too many."""
        if self.connections.enter(request):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.settimeout(0.1)
            request.sendall(_too_many())
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in one line that we have a mistake; a client that went away is none."""
        e = sys.exception()
        if e is None or isinstance(e, _GONE):
            return
        text = traceback.format_exc()
        if self.log is not None:
            with contextlib.suppress(OSError), self.log.open("a", encoding="utf-8") as file:
                file.write(text)
            text = f"internal error: {type(e).__name__}: {e} ({self.log})\n"
        sys.stderr.write(text)

    def shutdown_request(self, request: Any) -> None:
        """End a connection: what was sent and not read is taken first, else the client hears of a reset instead of our answer."""
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            until, left = time.monotonic() + _LINGER_S, _MOST_UNREAD
            while left > 0 and (wait := until - time.monotonic()) > 0:
                request.settimeout(wait)
                got = len(request.recv(1 << 16))
                left -= got
                if not got:
                    break
        self.close_request(request)


def _too_many() -> bytes:
    why = Failure.said(3, "C181", "too many connections; ask again in 1 s").to_json()
    body = json.dumps(why).encode() + b"\n"
    head = (
        "HTTP/1.0 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
