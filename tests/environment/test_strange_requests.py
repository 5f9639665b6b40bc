"""`septran serve`: what is no request of ours gets an answer in the form of every other one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from septran.environment.server import Server

LONG = "9" * 5000
HEADERS = "Authorization: Bearer t\r\n"


class Unasked:
    """The service of a server whose requests all end before it."""

    def contracts(self, asked: object) -> None:
        raise AssertionError(asked)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    server = Server(("127.0.0.1", 0), Unasked(), "t")  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[:2]
    server.shutdown()
    server.server_close()
    thread.join()


def answer(address: tuple[str, int], request: str) -> tuple[int, bytes]:
    with socket.create_connection(address, timeout=30) as sent:
        sent.sendall(request.encode("latin-1"))
        sent.shutdown(socket.SHUT_WR)
        raw = b"".join(iter(lambda: sent.recv(4096), b""))
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (f"POST /v1/submissions HTTP/1.1\r\n{HEADERS}Content-Length: {LONG}\r\n\r\n", 413),
        (f"POST /v1/submissions HTTP/1.1\r\n{HEADERS}Content-Length: \xb2\r\n\r\n", 413),
        (f"GET /v1/tasks/softmax/cpp?dim=M={LONG} HTTP/1.1\r\n{HEADERS}\r\n", 404),
        (f"GET http://[::1/v1/tasks HTTP/1.1\r\n{HEADERS}\r\n", 404),
        (f"PUT /v1/tasks HTTP/1.1\r\n{HEADERS}\r\n", 405),
        (f"DELETE /v1/submissions/a HTTP/1.1\r\n{HEADERS}\r\n", 405),
        (f"GET /v1/tasks HTTP/9.9\r\n{HEADERS}\r\n", 505),
        ("GET /v1/tasks and more HTTP/1.1\r\n\r\n", 400),
        (f"GET /{'a' * 70_000} HTTP/1.1\r\n\r\n", 414),
    ],
)
def test_a_strange_request_is_refused_in_json(request_text, status, address, capfd):
    got, body = answer(address, request_text)
    assert got == status
    assert json.loads(body)["errors"][0]["code"] == "C180"
    assert "Traceback" not in capfd.readouterr().err


def test_head_has_no_body(address):
    assert answer(address, f"HEAD /v1/tasks HTTP/1.1\r\n{HEADERS}\r\n") == (405, b"")
