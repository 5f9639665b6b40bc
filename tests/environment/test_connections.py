"""`septran serve` and clients that say no token: they get no traceback, no thread for ever, and nobody else's place."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from septran.environment import connections
from septran.environment.server import Server
from septran.environment.service import Full
from septran.environment.step import Submission

HEADERS = "Authorization: Bearer t\r\n"
MOST = 16


class Busy:
    """A service whose queue is full, and that has a mistake."""

    def submit(self, sent: Submission) -> tuple[str, bool]:
        time.sleep(0.01)
        raise Full(7)

    def health(self) -> dict[str, object]:
        return {"queued": 0}

    def tasks(self) -> dict[str, object]:
        raise ZeroDivisionError("a mistake of ours")


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Busy(), "t", most=MOST)  # type: ignore[arg-type]
    thread = threading.Thread(
        target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def asked(server: Server, path: str, data: bytes | None = None) -> int:
    request = urllib.request.Request(server.url + path, data, {"Authorization": "Bearer t"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as e:
        e.close()
        return e.code


def dropped(server: Server, text: str) -> None:
    """Send a request and reset the connection."""
    line = socket.create_connection(server.server_address[:2], timeout=30)
    line.sendall(text.encode())
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


@pytest.mark.parametrize(
    "text",
    [
        "GET /v1/health HTTP/1.1\r\nX: y\r\n",
        "GET /v1/health HTTP/1.1\r\nX: y\r\n\r\n",
        "GET /v1/health and more HTTP/1.1\r\n\r\n",
        f"GET /v1/health HTTP/1.1\r\n{HEADERS}\r\n",
        f"POST /v1/submissions HTTP/1.1\r\n{HEADERS}Content-Length: 9\r\n\r\n",
        "\r\n",
        "G",
    ],
)
def test_a_client_that_goes_away_is_nobodys_trouble(
    text: str, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(40):
        dropped(server, text)
    assert asked(server, "/v1/health") == 200
    time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_idle_connections_are_bounded_and_make_room(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STRANGER_S", 0.2)
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(5 * MOST):
            line = socket.create_connection(server.server_address[:2], timeout=30)
            stack.enter_context(line)
        assert asked(server, "/v1/health") == 200
        assert threading.active_count() - before <= MOST + 1


def test_a_flood_of_submissions_gets_answers(server: Server) -> None:
    body = b'{"op": "transpose", "backend": "cpp", "leaf": "transpose_leaf", "reply": ""}'
    with ThreadPoolExecutor(64) as pool:
        found = Counter(pool.map(lambda _: asked(server, "/v1/submissions", body), range(200)))
    assert set(found) <= {429, 503} and found[429] >= 20, found


def test_a_refused_body_is_no_reset(server: Server) -> None:
    request = urllib.request.Request(server.url + "/v1/submissions", b"x" * (1 << 19))
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=30)
    assert error.value.code == 401
    error.value.close()


def test_a_mistake_of_ours_is_an_answer_and_a_line(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.log = tmp_path / "server.log"
    assert asked(server, "/v1/tasks") == 500
    for _ in range(100):
        if server.log.exists() and "ZeroDivisionError" in server.log.read_text():
            break
        time.sleep(0.02)
    assert "Traceback" in server.log.read_text()
    assert "Traceback" not in capfd.readouterr().err
