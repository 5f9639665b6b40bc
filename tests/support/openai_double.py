"""An OpenAI-compatible server for tests: real sockets, real HTTP/1.1, real SSE, scripted faults.

    with ChatDouble([Status(429, retry_after=0.05), Answer("```cpp\\n...\\n```")]) as server:
        ... base_url=server.base_url ...
    server.requests      bodies and headers in order of arrival
    server.unused()      scripted steps nobody asked for

The script is a list (one step per call) or a callable body -> step.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    body: dict[str, Any]
    headers: dict[str, str]
    at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply and how it goes wrong. `*_after` count SSE events and only act on streams."""

    content: str | None = "hello"
    finish_reason: str | None = "stop"
    reasoning: str | None = None
    reasoning_content: str | None = None
    delay: float = 0.0
    chunk: int = 7
    chunk_delay: float = 0.0
    usage: bool = True
    choices: int = 1
    pings: int = 0
    """SSE comments sent before each event, `ping_delay` apart."""
    ping_delay: float = 0.0
    reset_after: int | None = None
    hang_after: int | None = None
    end_after: int | None = None
    error_after: int | None = None
    garbage_after: int | None = None
    drip: float = 0.0
    """not streamed: seconds between single bytes of the body."""


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP status with an error body."""

    code: int
    message: str = ""
    retry_after: float | str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Raw:
    """A 200 with any bytes; a `declared` length above the real one truncates the body."""

    body: bytes
    content_type: str = "application/json"
    declared: int | None = None


@dataclass(frozen=True, slots=True)
class Endless:
    """A body without an end, `delay` seconds between its parts; or a small one that unpacks to a GiB."""

    code: int = 200
    delay: float = 0.0
    bomb: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset before any byte of an answer."""


Step = Answer | Status | Raw | Reset | Endless


class ChatDouble:
    """The server; a context manager."""

    def __init__(
        self,
        script: Sequence[Step] | Callable[[dict[str, Any]], Step] = (),
        *,
        model: str = "fake-coder",
        key: str | None = None,
        models: Endless | None = None,
    ) -> None:
        self._choose = script if callable(script) else None
        self._steps: list[Step] = [] if callable(script) else list(script)
        self.model, self.key, self.models = model, key, models
        self.requests: list[Seen] = []
        self.problems: list[str] = []
        self.stopped = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> ChatDouble:
        outer = self

        class Handler(_Handler):
            double = outer

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Resets by the client are part of the tests."""

        self._http = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopped.set()
        self._http.shutdown()
        self._http.server_close()

    def unused(self) -> int:
        """Return the number of scripted steps that were never asked for."""
        return len(self._steps)

    def arrived(self, seen: Seen) -> None:
        with self._lock:
            self.requests.append(seen)

    def next_step(self, body: dict[str, Any]) -> Step:
        if self._choose is not None:
            return self._choose(body)  # outside the lock: answers may wait for each other
        with self._lock:
            if self._steps:
                return self._steps.pop(0)
            self.problems.append("a request came after the script's end")
            return Status(418, "script exhausted")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    double: ChatDouble

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def _send(self, code: int, text: str, kind: str = "application/json", **headers: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _error(self, status: Status) -> None:
        message = status.message or f"injected {status.code}"
        error = {"message": message, "type": "injected", "param": None, "code": status.code}
        headers = dict(status.headers)
        if status.retry_after is not None:
            headers["retry-after"] = str(status.retry_after)
        body = status.body if status.body is not None else json.dumps({"error": error})
        self._send(status.code, body, status.content_type, **headers)

    def _reset(self) -> None:
        with contextlib.suppress(OSError):
            self.wfile.flush()
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True

    def do_GET(self) -> None:
        if self.path.endswith("/models") and self.double.models is not None:
            self._endless(self.double.models)
        elif self.path.endswith("/models"):
            one = {"id": self.double.model, "object": "model", "created": 0, "owned_by": "test"}
            self._send(200, json.dumps({"object": "list", "data": [one]}))
        else:
            self._error(Status(404, "Not Found"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(raw)
        headers = {k.lower(): v for k, v in self.headers.items()}
        self.double.arrived(Seen(body=body, headers=headers, at=time.monotonic()))
        double = self.double
        if double.key and headers.get("authorization") != f"Bearer {double.key}":
            said = headers.get("authorization", "").removeprefix("Bearer ")
            return self._error(Status(401, f"Incorrect API key provided: {said}"))
        if body.get("model") != double.model:
            return self._error(Status(404, f"The model `{body.get('model')}` does not exist."))
        try:
            self._play(double.next_step(body), body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        return None

    def _play(self, step: Step, body: dict[str, Any]) -> None:
        match step:
            case Reset():
                self._reset()
            case Status():
                self._error(step)
            case Raw():
                self.send_response(200)
                self.send_header("content-type", step.content_type)
                self.send_header("content-length", str(step.declared or len(step.body)))
                self.end_headers()
                self.wfile.write(step.body)
                if step.declared:
                    self._reset()
            case Endless():
                self._endless(step)
            case Answer():
                self.double.stopped.wait(step.delay)
                if body.get("stream"):
                    self._stream(step, body)
                else:
                    self._whole(step, body)

    def _endless(self, step: Endless) -> None:
        self.send_response(step.code)
        self.send_header("content-type", "application/json")
        if step.bomb:
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        packer = zlib.compressobj(9, wbits=31)
        part = b" " * (1 << 20)
        with contextlib.suppress(OSError):
            while not self.double.stopped.wait(step.delay):
                self.wfile.write(packer.compress(part) if step.bomb else part[:4096])

    def _usage(self, step: Answer, body: dict[str, Any]) -> dict[str, int] | None:
        if not step.usage:
            return None
        prompt = sum(len(str(m.get("content"))) for m in body["messages"]) // 4
        completion = len((step.content or "") + (step.reasoning or "")) // 4
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def _whole(self, step: Answer, body: dict[str, Any]) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": step.content}
        for name in ("reasoning", "reasoning_content"):
            if getattr(step, name) is not None:
                message[name] = getattr(step, name)
        choice = {"index": 0, "message": message, "finish_reason": step.finish_reason}
        value = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": self.double.model,
            "usage": self._usage(step, body),
            "choices": [choice] * step.choices,
        }
        if not step.drip:
            return self._send(200, json.dumps(value))
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        for i in range(len(data)):
            self.wfile.write(data[i : i + 1])
            self.wfile.flush()
            if self.double.stopped.wait(step.drip):
                break
        return None

    def _events(self, step: Answer, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        base = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": self.double.model,
        }

        def event(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
            return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        if step.choices:
            yield event({"role": "assistant", "content": ""})
            for name in ("reasoning", "reasoning_content", "content"):
                text = getattr(step, name) or ""
                for i in range(0, len(text), step.chunk):
                    yield event({name: text[i : i + step.chunk]})
            yield event({}, step.finish_reason)
        usage = self._usage(step, body)
        if usage and (body.get("stream_options") or {}).get("include_usage"):
            yield {**base, "choices": [], "usage": usage}

    def _stream(self, step: Answer, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

        def write(data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        for k, event in enumerate(self._events(step, body)):
            if step.reset_after == k:
                return self._reset()
            if step.hang_after == k:
                self.double.stopped.wait(30)
            if step.end_after == k:
                break
            if step.garbage_after == k:
                write(b"data: {not json\n\n")
            if step.error_after == k:
                error = {"message": "injected engine error", "type": "server", "code": 500}
                write(b"data: " + json.dumps({"error": error}).encode() + b"\n\n")
                break
            for _ in range(step.pings):
                write(b": ping\n\n")
                self.double.stopped.wait(step.ping_delay)
            write(b"data: " + json.dumps(event).encode() + b"\n\n")
            if step.chunk_delay:
                self.double.stopped.wait(step.chunk_delay)
        else:
            write(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        return None
