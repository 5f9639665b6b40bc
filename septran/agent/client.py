"""The one place that talks to a model server: the `openai` client, wrapped so that every fault is ours.

The client is used with its own retries off, so that every call is counted. Its known gaps are closed
here (each has a test with a real HTTP server): HTML or broken JSON in a 200, empty choices, null
content, a stream that ends without a finish_reason, a slow drip that no read timeout catches, a
Retry-After it would ignore, errors inside a stream.
"""

from __future__ import annotations

import email.utils
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from septran.agent.bounded import bounds
from septran.agent.chat import Reply, Request, as_json, estimate_tokens, messages_tokens
from septran.agent.faults import Fault
from septran.agent.redact import Redactor
from septran.errors import EnvironmentProblem

if TYPE_CHECKING:
    import openai

_CONTEXT_WORDS = ("context length", "max_model_len", "maximum context", "too long", "context size")
_REFUSAL_WORDS = (
    "content_filter",
    "content management policy",
    "content policy",
    "responsibleaipolicy",
)
_SPENT_WORDS = ("insufficient_quota", "credit balance")
"""of a 429 that waiting does not cure"""
_FINISH = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "content_filter": "refused",
    "refusal": "refused",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Times in seconds. `deadline` bounds one call with its retries, whatever the server does."""

    connect_timeout: float = 5.0
    read_timeout: float = 120.0
    deadline: float = 600.0
    retries: int = 2
    retry_after_cap: float = 120.0
    max_reply_chars: int = 200_000
    stream: bool = True


def read_key(variable: str, base_url: str) -> str:
    """Return the key from the environment; a dummy for a server on this machine.

    Raises EnvironmentProblem L501 when the variable is not set and the server is elsewhere.
    """
    key = os.environ.get(variable, "").strip()
    if key:
        return key
    host = urlsplit(base_url).hostname or ""
    if host in ("localhost", "::1") or host.startswith("127."):
        return "EMPTY"
    raise EnvironmentProblem.of(
        "L501",
        f"no key for {host or base_url}: the environment variable {variable} is not set",
        help=f"export {variable}=... (keys are read from the environment only)",
    )


@dataclass(slots=True)
class _Collected:
    """What has arrived of one reply."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    request_id: str = ""
    chars: int = 0
    choices: int = 0
    events: int = 0

    def add(self, part: Mapping[str, Any], choice: Mapping[str, Any], limit: int) -> None:
        content = part.get("content")
        thought = part.get("reasoning") or part.get("reasoning_content")
        for value, into in ((content, self.text), (thought, self.reasoning)):
            if isinstance(value, str):
                into.append(value)
                self.chars += len(value)
        if self.chars > limit:
            raise Fault("malformed", f"the reply is longer than {limit} characters")
        if isinstance(part.get("refusal"), str):
            self.finish = "refusal"
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self.finish = self.finish or reason
        self.choices += 1


class OpenAIChat:
    """An OpenAI-compatible endpoint (OpenAI, vLLM, SGLang, llama.cpp, gateways)."""

    def __init__(
        self,
        base_url: str,
        key: str,
        limits: ClientLimits,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Keep the settings; the `openai` package is imported at the first call."""
        self._base_url = base_url
        self._limits = limits
        self._sleep = sleep
        self._key = key
        self.redact = Redactor((key,))
        self._client: openai.OpenAI | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"OpenAIChat({self.where})"

    @property
    def where(self) -> str:
        """The endpoint's address, without user and password."""
        return self.redact(self._base_url)

    def _openai(self) -> openai.OpenAI:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> openai.OpenAI:
        try:
            import openai
        except ImportError as e:
            raise EnvironmentProblem.of(
                "L501", "the openai package is not installed", help="pip install 'openai>=3.51,<4'"
            ) from e
        limits = self._limits
        hooks = {"response": [bounds(min(limits.read_timeout, limits.deadline))]}
        return openai.OpenAI(
            http_client=openai.DefaultHttpxClient(event_hooks=hooks),
            base_url=self._base_url,
            api_key=self._key,
            max_retries=0,
            timeout=openai.Timeout(limits.read_timeout, connect=limits.connect_timeout),
        )

    def close(self) -> None:
        """Close idle connections; the next call opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def models(self) -> tuple[str, ...]:
        """Return the names the server lists. Raises Fault."""
        try:
            page = self._openai().models.list()
            return tuple(str(m.id) for m in page.data)
        except Exception as e:
            raise self._as_fault(e) from None

    def ask(self, request: Request) -> Reply:
        """Return the reply, after counted retries within the total deadline. Raises Fault."""
        limits = self._limits
        start = time.monotonic()
        stream = limits.stream
        for attempt in range(limits.retries + 1):
            left = limits.deadline - (time.monotonic() - start)
            if left <= 0:
                raise Fault("deadline", f"no whole reply within {limits.deadline:g} s")
            try:
                got = self._once(request, stream, start + limits.deadline)
                return self._finish(got, request, time.monotonic() - start, attempt)
            except Fault as fault:
                if fault.kind == "refused":
                    said = _Collected(text=[fault.message], finish="refusal", choices=1)
                    return self._finish(said, request, time.monotonic() - start, attempt)
                if not fault.retry or attempt == limits.retries:
                    raise
                wait = self._wait(fault, attempt)
                if wait >= limits.deadline - (time.monotonic() - start):
                    raise Fault(fault.kind, fault.message, status=fault.status) from None
                if fault.kind == "malformed":
                    stream = False  # some servers stream badly but answer well
                self._sleep(wait)
        raise AssertionError("unreachable")

    def _wait(self, fault: Fault, attempt: int) -> float:
        if fault.retry_after is not None:
            if fault.retry_after > self._limits.retry_after_cap:
                raise Fault(
                    "busy",
                    f"{fault.message}; the server asks to wait {fault.retry_after:g} s, "
                    f"more than the cap of {self._limits.retry_after_cap:g} s",
                    status=fault.status,
                )
            return fault.retry_after
        return float(min(0.5 * 2**attempt, 8.0))

    def _once(self, request: Request, stream: bool, until: float) -> _Collected:
        got = _Collected()
        body: dict[str, Any] = dict(request.options)
        body["model"] = request.model
        body["messages"] = as_json(request.messages)
        if request.extra:
            body["extra_body"] = dict(request.extra)
        body["timeout"] = max(0.05, min(self._limits.read_timeout, until - time.monotonic()))
        body["extra_headers"] = {"Idempotency-Key": request.key}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        try:
            self._receive(body, got, until)
        except Fault:
            raise
        except Exception as e:
            raise self._as_fault(e) from None
        return got

    def _receive(self, body: dict[str, Any], got: _Collected, until: float) -> None:
        """Read the raw body, so that the deadline holds against drips and SSE comments too."""
        create = self._openai().chat.completions.with_streaming_response.create
        limit = 64 * self._limits.max_reply_chars
        rest, size = b"", 0
        with create(**body) as response:
            is_events = "event-stream" in response.headers.get("content-type", "")
            for part in response.iter_bytes():
                if time.monotonic() > until:
                    raise Fault("deadline", f"no whole reply within {self._limits.deadline:g} s")
                size += len(part)
                if size > limit:
                    raise Fault("malformed", f"the answer is longer than {limit} bytes")
                rest += part
                if is_events:
                    *lines, rest = rest.split(b"\n")
                    for line in lines:
                        self._event(line, got)
        if is_events:
            self._event(rest, got)
            if got.events == 0:
                raise Fault("malformed", "the stream held no event", retry=True)
            if got.finish is None:
                raise Fault("network", "the stream ended before the reply was whole", retry=True)
        else:
            self._body(json.loads(rest), got)

    def _event(self, line: bytes, got: _Collected) -> None:
        line = line.strip()
        if not line.startswith(b"data:"):
            return  # comments (": ping"), event names, blank lines
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        event = json.loads(data)
        got.events += 1
        self._note(event, got)
        for choice in event.get("choices") or ():
            got.add(choice.get("delta") or {}, choice, self._limits.max_reply_chars)

    def _body(self, value: object, got: _Collected) -> None:
        if not isinstance(value, dict):
            raise Fault("malformed", "the answer is not a JSON object", retry=True)
        self._note(value, got)
        choices = value.get("choices")
        if not isinstance(choices, list) or not choices:
            raise Fault("malformed", "the answer has no choices", retry=True)
        got.add(choices[0].get("message") or {}, choices[0], self._limits.max_reply_chars)

    def _note(self, event: Mapping[str, Any], got: _Collected) -> None:
        if event.get("error"):
            raise Fault("busy", f"the server reports: {event['error']}", retry=True)
        got.model = str(event.get("model") or got.model)
        got.request_id = str(event.get("id") or got.request_id)
        if isinstance(event.get("usage"), dict):
            got.usage = event["usage"]

    def _finish(self, got: _Collected, request: Request, seconds: float, retries: int) -> Reply:
        if got.choices == 0:
            raise Fault("malformed", "the reply has no choices")
        text, reasoning = "".join(got.text), "".join(got.reasoning)
        prompt = got.usage.get("prompt_tokens")
        completion = got.usage.get("completion_tokens")
        estimated = not isinstance(prompt, int) or not isinstance(completion, int)
        finish = _FINISH.get(got.finish or "", "cut")
        if finish == "stop" and not text.strip():
            finish = "refused"
        return Reply(
            text=self.redact(text),
            reasoning=self.redact(reasoning),
            finish=finish,
            model=got.model or request.model,
            request_id=self.redact(got.request_id),
            prompt_tokens=messages_tokens(request.messages) if estimated else int(prompt or 0),
            completion_tokens=(
                estimate_tokens(text) + estimate_tokens(reasoning)
                if estimated
                else int(completion or 0)
            ),
            estimated=estimated,
            seconds=seconds,
            retries=retries,
        )

    def _as_fault(self, error: Exception) -> Fault:
        """Return the fault for anything the client, the network or a parser raised."""
        import openai

        message = self.redact(" ".join(str(error).split()))[:600]
        match error:
            case openai.APITimeoutError():
                return Fault("deadline", f"no answer in time: {message}", retry=True)
            case openai.APIStatusError():
                return _status_fault(
                    error.status_code, error.response.headers, message, str(error.code or "")
                )
            case openai.APIConnectionError():
                cause = error.__cause__
                detail = self.redact(str(cause)) if cause is not None else message
                return Fault("network", f"connection failed: {detail}", retry=True)
            case openai.APIError():
                return Fault("busy", f"the server reports: {message}", retry=True)
            case ValueError() | AttributeError() | TypeError() | KeyError() | IndexError():
                return Fault("malformed", f"the answer is not a chat reply: {message}", retry=True)
        name = type(error).__name__  # the HTTP library's own errors come through while reading
        if name.endswith("Timeout"):
            return Fault("deadline", "no answer in time", retry=True)
        return Fault("network", f"{name}: {message}", retry=True)


def _status_fault(status: int, headers: Mapping[str, str], message: str, code: str) -> Fault:
    low = f"{message} {code}".lower()
    if status in (400, 403, 422) and any(w in low for w in _REFUSAL_WORDS):
        return Fault("refused", f"HTTP {status}: {message}", status=status)
    if status == 429 and any(w in low for w in _SPENT_WORDS):
        return Fault("setup", f"HTTP {status}: {message}", status=status)
    if status in (408, 409, 429) or status >= 500:
        return Fault(
            "busy",
            f"HTTP {status}: {message}",
            retry=True,
            retry_after=_after(headers),
            status=status,
        )
    if status in (400, 413, 422) and any(w in low for w in _CONTEXT_WORDS):
        return Fault("context", message, status=status)
    return Fault("setup", f"HTTP {status}: {message}", status=status)


def _after(headers: Mapping[str, str]) -> float | None:
    """Return the wait the server asks for: retry-after-ms, seconds, or an HTTP date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers.get("retry-after")
        if value is None:
            return None
        try:
            return max(0.0, float(value))
        except ValueError:
            return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
