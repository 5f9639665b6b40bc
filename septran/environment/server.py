"""The environment over HTTP: a few routes, a token, bounded everything; loopback unless asked otherwise.

GET  /v1/health                          is it up, how much waits
GET  /v1/tasks                           kernels that have leaf tasks
GET  /v1/tasks/OP/BACKEND?dim=M=64       their contracts, frames and prompts
POST /v1/submissions                     a reply for a leaf: 202, or 429 with Retry-After
POST /v1/bench                           the same, to be timed
GET  /v1/submissions/ID?wait=30          queued, running or done with the reward vector
GET  /v1/submissions/ID/explain          the same in words
GET  /v1/explain/CODE                    the page of an error code
GET  /v1/adapters/verifiers              a file for an environment that has verifiers and no SepTran
"""

from __future__ import annotations

import contextlib
import hmac
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from septran.environment.connections import MOST, Bounded
from septran.environment.request import MOST_BYTES, is_size, read_submission
from septran.environment.service import Full, Service
from septran.environment.tasks import Asked
from septran.environment.told import Accepted, Explained
from septran.errors import ConfigError, Failure, SeptranError
from septran.surroundings import as_problem

_ADAPTER = Path(__file__).parent / "adapters" / "septran_leaves.py"
MOST_WAIT_S = 60.0
_SOCKET_S = 90.0
_DIGITS = 19


class Server(Bounded):
    """Serves a `Service` on `address`; `token` is asked of every request."""

    def __init__(
        self, address: tuple[str, int], service: Service, token: str, *, most: int = MOST
    ) -> None:
        """most: connections at once."""
        self.service, self.token = service, token
        super().__init__(address, _Routes, most=most)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"


class _Routes(BaseHTTPRequestHandler):
    server: Server
    server_version = "septran"
    sys_version = ""
    timeout = _SOCKET_S

    def do_GET(self) -> None:
        """Answer a question."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Take a submission."""
        self._answer(self._post)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of ours, in the form that every refusal has."""
        self.request_version = self.request_version.replace("HTTP/0.9", "HTTP/1.0")
        self.close_connection = True
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "C180", "ask with GET or POST")
        else:
            text = message or HTTPStatus(code).phrase
            self._refuse(HTTPStatus(code), "C180", f"no request of HTTP: {text[:80]}")

    def handle(self) -> None:
        """Answer what a client asks, for as long as there is one."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what matters is in the ledger."""

    def _answer(self, route: Callable[[], None]) -> None:
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            self._refuse(
                HTTPStatus.UNAUTHORIZED, "C180", "give the token: Authorization: Bearer TOKEN"
            )
            return
        self.server.connections.known(self.connection)
        try:
            route()
        except Full as e:
            why = Failure.said(3, "C181", str(e)).to_json()
            self._send(HTTPStatus.TOO_MANY_REQUESTS, why, {"Retry-After": str(e.retry_s)})
        except SeptranError as e:
            status = (
                HTTPStatus.NOT_FOUND if self.command == "GET" else HTTPStatus.UNPROCESSABLE_ENTITY
            )
            self._send(status, Failure.of(e).to_json())
        except (ConnectionError, TimeoutError):
            raise
        except Exception as e:
            problem = as_problem(e)
            if problem is not None:  # a full disk, say
                self._send(HTTPStatus.SERVICE_UNAVAILABLE, Failure.of(problem).to_json())
                return
            why = Failure.said(4, "INTERNAL", f"{type(e).__name__}: {e}").to_json()
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, why)
            raise

    def _get(self) -> None:
        try:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
        except ValueError:
            self._refuse(HTTPStatus.NOT_FOUND, "C180", f"no route {self.path[:80]!r}")
            return
        service = self.server.service
        match parts.path.strip("/").split("/"):
            case ["v1", "health"]:
                self._send(HTTPStatus.OK, service.health())
            case ["v1", "tasks"]:
                self._send(HTTPStatus.OK, service.tasks())
            case ["v1", "tasks", op, backend]:
                self._send(HTTPStatus.OK, service.contracts(_asked(op, backend, query)))
            case ["v1", "submissions", name]:
                found = service.verdict(name, wait_s=_wait(query))
                self._found(found, f"no submission {name[:40]!r}")
            case ["v1", "submissions", name, "explain"] | ["v1", "explain", name]:
                text = service.explain(name)
                told = None if text is None else Explained(code=name, text=text).to_json()
                self._found(told, f"nothing is known about {name[:40]!r}")
            case ["v1", "adapters", "verifiers"]:
                self._reply(HTTPStatus.OK, _ADAPTER.read_bytes(), "text/x-python")
            case _:
                self._refuse(HTTPStatus.NOT_FOUND, "C180", f"no route {parts.path[:80]!r}")

    def _post(self) -> None:
        bench = self.path == "/v1/bench"
        if self.path != "/v1/submissions" and not bench:
            self._refuse(HTTPStatus.NOT_FOUND, "C180", f"no route {self.path[:80]!r}")
            return
        length = _whole(self.headers.get("Content-Length", ""))
        if length is None or length > MOST_BYTES:
            self.close_connection = True
            text = f"a submission has a Content-Length of at most {MOST_BYTES} bytes"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "C180", text)
            return
        name, new = self.server.service.submit(
            read_submission(self.rfile.read(length), bench=bench)
        )
        state = Accepted(id=name, new=new).to_json()
        self._send(HTTPStatus.ACCEPTED if new else HTTPStatus.OK, state)

    def _found(self, found: Mapping[str, Any] | None, missing: str) -> None:
        if found is None:
            self._refuse(HTTPStatus.NOT_FOUND, "C180", missing)
        else:
            self._send(HTTPStatus.OK, found)

    def _refuse(self, status: HTTPStatus, code: str, message: str) -> None:
        self._send(status, Failure.said(2, code, message).to_json())

    def _send(
        self, status: HTTPStatus, data: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        self._reply(status, (json.dumps(data) + "\n").encode(), "application/json", headers)

    def _reply(
        self, status: HTTPStatus, body: bytes, kind: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _whole(text: str) -> int | None:
    """Return the number that `text` is; None: none, or one that no size here reaches."""
    return int(text) if text.isdecimal() and len(text) < _DIGITS else None


def _asked(op: str, backend: str, query: Mapping[str, list[str]]) -> Asked:
    dims = {}
    for word in query.get("dim", ()):
        name, _, size = word.partition("=")
        dims[name] = _whole(size) or 0
        if not is_size(dims[name]):
            raise ConfigError.of("C180", f"dim={word[:40]!r} is not dim=NAME=SIZE")
    return Asked(
        op=op,
        backend=backend,
        arch=query.get("arch", [None])[0],
        dims=dims,
        dtype=query.get("dtype", [None])[0],
    )


def _wait(query: Mapping[str, list[str]]) -> float:
    try:
        return min(MOST_WAIT_S, max(0.0, float(query.get("wait", ["0"])[0])))
    except ValueError:
        return 0.0
