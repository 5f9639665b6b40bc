"""Every way a server can misbehave, over real HTTP, ends as a Reply or one of our few Faults."""

from __future__ import annotations

import email.utils
import logging
import time
from dataclasses import replace

import pytest

from septran.agent.chat import Message, Reply, Request, estimate_tokens
from septran.agent.client import ClientLimits, OpenAIChat, read_key
from septran.agent.faults import Fault
from septran.errors import EnvironmentProblem
from tests.support.openai_double import Answer, ChatDouble, Endless, Raw, Reset, Status, Step

CODE = "```cpp\nfor (long i = 0; i < C.n[0]; ++i) C(i) = A(i);\n```"
LIMITS = ClientLimits(read_timeout=2.0, deadline=5.0, retries=2)
REQUEST = Request(model="fake-coder", messages=(Message("user", "write it"),))


class ClosingChat(OpenAIChat):
    """Closes its connections after each call."""

    def ask(self, request: Request) -> Reply:
        try:
            return super().ask(request)
        finally:
            self.close()


def chat_with(double: ChatDouble, limits: ClientLimits = LIMITS, key: str = "EMPTY") -> OpenAIChat:
    return ClosingChat(double.base_url, key, limits, sleep=lambda s: time.sleep(min(s, 0.02)))


@pytest.mark.few(9)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("answer", "finish", "text"),
    [
        (Answer(CODE), "stop", CODE),
        (Answer(CODE, pings=2), "stop", CODE),
        (Answer(CODE, usage=False), "stop", CODE),
        (Answer(CODE[:20], finish_reason="length"), "length", CODE[:20]),
        (Answer(CODE[:20], finish_reason="abort"), "cut", CODE[:20]),
        (Answer(CODE[:20], finish_reason="repetition"), "cut", CODE[:20]),
        (Answer("", finish_reason="content_filter"), "refused", ""),
        (Answer(None), "refused", ""),
        (Answer(""), "refused", ""),
    ],
)
def test_replies(stream: bool, answer: Answer, finish: str, text: str) -> None:
    with ChatDouble([answer]) as double:
        reply = chat_with(double, replace(LIMITS, stream=stream)).ask(REQUEST)
    assert (reply.finish, reply.text) == (finish, text)
    assert reply.estimated is not answer.usage
    if text:
        assert reply.completion_tokens > 0
        assert reply.prompt_tokens > 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_apart(stream: bool, name: str) -> None:
    answer = Answer(CODE, **{name: "```cpp\nwrong();\n```"})
    with ChatDouble([answer]) as double:
        reply = chat_with(double, replace(LIMITS, stream=stream)).ask(REQUEST)
    assert reply.text == CODE
    assert "wrong()" in reply.reasoning


@pytest.mark.few(12)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "fault",
    [
        Status(429, retry_after=0.01),
        Status(429, headers={"retry-after-ms": "5"}),
        Status(429),
        Status(408),
        Status(500),
        Status(502, body="<html>Bad gateway</html>", content_type="text/html"),
        Status(503),
        Reset(),
        Raw(b'{"id": "x", ', declared=500),
        Raw(b"<html>login</html>", "text/html"),
        Raw(b'{"id": "x", "choices": ['),
        Raw(b"[]"),
        Raw(b'{"choices": []}'),
        Raw(b'{"choices": [{"message": null, "finish_reason": 3}]}'[:-2]),
        Raw(b"data: hello\n\n", "text/event-stream"),
        Raw(b"", "text/event-stream"),
    ],
)
def test_passing_faults_are_retried_and_counted(stream: bool, fault: Step) -> None:
    with ChatDouble([fault, Answer(CODE)]) as double:
        reply = chat_with(double, replace(LIMITS, stream=stream)).ask(REQUEST)
        assert len(double.requests) == 2
    assert reply.text == CODE
    assert reply.retries == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(CODE, reset_after=3),
        Answer(CODE, end_after=3),
        Answer(CODE, error_after=3),
        Answer(CODE, garbage_after=3),
        Answer(CODE, choices=0),
    ],
)
def test_broken_streams_restart_the_whole_call(answer: Answer) -> None:
    steps: list[Step] = [answer, Answer(CODE)]
    with ChatDouble(steps) as double:
        if answer.choices == 0:
            with pytest.raises(Fault) as caught:
                chat_with(double, replace(LIMITS, retries=0)).ask(REQUEST)
            assert caught.value.kind in ("malformed", "network")
        else:
            reply = chat_with(double).ask(REQUEST)
            assert (reply.text, reply.retries) == (CODE, 1)


@pytest.mark.parametrize(
    ("steps", "kind", "calls"),
    [
        ([Status(429, retry_after=0.01)] * 3, "busy", 3),
        ([Status(503)] * 3, "busy", 3),
        ([Reset()] * 3, "network", 3),
        ([Raw(b"<html>", "text/html")] * 3, "malformed", 3),
        ([Status(429, retry_after=999)], "busy", 1),
        ([Status(401)], "setup", 1),
        ([Status(403)], "setup", 1),
        ([Status(404)], "setup", 1),
        ([Status(422)], "setup", 1),
        ([Status(400, "temperature must be non-negative")], "setup", 1),
        ([Status(400, "This model's maximum context length is 4096 tokens.")], "context", 1),
        ([Status(400, "max_tokens=9 cannot be greater than max_model_len=8")], "context", 1),
    ],
)
def test_lasting_faults(steps: list[Step], kind: str, calls: int) -> None:
    with ChatDouble(steps) as double:
        with pytest.raises(Fault) as caught:
            chat_with(double).ask(REQUEST)
        assert caught.value.kind == kind
        assert len(double.requests) == calls


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("answer", "stream"),
    [
        (Answer(CODE, chunk=1, chunk_delay=0.05), True),
        (Answer(CODE, pings=1000, ping_delay=0.05), True),
        (Answer(CODE, hang_after=3), True),
        (Answer(CODE, delay=3), True),
        (Answer(CODE, drip=0.02), False),
        (Answer(CODE, delay=3), False),
    ],
)
def test_total_deadline(answer: Answer, stream: bool) -> None:
    limits = ClientLimits(read_timeout=2.0, deadline=0.5, retries=2, stream=stream)
    with ChatDouble([answer] * 3) as double:
        start = time.monotonic()
        with pytest.raises(Fault) as caught:
            chat_with(double, limits).ask(REQUEST)
        assert time.monotonic() - start < 10
    assert caught.value.kind == "deadline"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "step",
    [Endless(500), Endless(400, delay=0.05), Endless(302, bomb=True), Endless(404, bomb=True)],
)
def test_an_error_without_an_end_ends(step: Endless) -> None:
    limits = replace(LIMITS, read_timeout=1.0, deadline=2.0, retries=1)
    with ChatDouble([step] * 2) as double, pytest.raises(Fault) as caught:
        chat_with(double, limits).ask(REQUEST)
    assert caught.value.kind in ("network", "deadline", "busy", "setup")


def test_a_list_of_models_without_an_end_ends() -> None:
    with ChatDouble(models=Endless()) as double, pytest.raises(Fault) as caught:
        chat_with(double, replace(LIMITS, read_timeout=1.0)).models()
    assert caught.value.kind == "network"


def test_a_retry_after_date_is_understood() -> None:
    later = email.utils.formatdate(time.time() + 999, usegmt=True)
    with ChatDouble([Status(429, retry_after=later)]) as double, pytest.raises(Fault) as caught:
        chat_with(double).ask(REQUEST)
    assert "asks to wait 99" in caught.value.message


def test_retry_after_is_waited() -> None:
    waits: list[float] = []
    with ChatDouble([Status(429, retry_after=1.5), Answer(CODE)]) as double:
        ClosingChat(double.base_url, "EMPTY", LIMITS, sleep=waits.append).ask(REQUEST)
    assert waits == [1.5]


def test_no_server() -> None:
    chat = ClosingChat("http://127.0.0.1:9/v1", "EMPTY", replace(LIMITS, retries=0))
    with pytest.raises(Fault) as caught:
        chat.ask(REQUEST)
    assert caught.value.kind == "network"
    assert "L505" in caught.value.as_problem(chat.where).codes


def test_huge_reply_is_refused() -> None:
    limits = replace(LIMITS, max_reply_chars=1000, retries=0)
    for stream in (True, False):
        with ChatDouble([Answer("x" * 5000, chunk=500)]) as double:
            with pytest.raises(Fault) as caught:
                chat_with(double, replace(limits, stream=stream)).ask(REQUEST)
            assert caught.value.kind == "malformed"


def test_extra_body_options_and_idempotency_key_are_sent() -> None:
    request = replace(REQUEST, options=(("seed", 3),), extra=(("top_k", 20),))
    with ChatDouble([Answer(CODE)]) as double:
        chat_with(double).ask(request)
        seen = double.requests[0]
    assert (seen.body["seed"], seen.body["top_k"]) == (3, 20)
    assert seen.headers["idempotency-key"] == request.key


def test_the_key_is_in_no_fault_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    key = "sk-secret-0123456789"
    with caplog.at_level(logging.DEBUG), ChatDouble([], key="another") as double:
        chat = chat_with(double, key=key)
        with pytest.raises(Fault) as caught:
            chat.ask(REQUEST)
        assert double.requests[0].headers["authorization"] == f"Bearer {key}"
    assert key not in str(caught.value) + repr(chat) + str(caught.value.as_problem(chat.where))
    assert "Incorrect API key" in str(caught.value)
    assert key not in caplog.text


def test_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    assert read_key("NO_SUCH_KEY", "http://127.0.0.1:8000/v1") == "EMPTY"
    with pytest.raises(EnvironmentProblem) as caught:
        read_key("NO_SUCH_KEY", "https://api.example.com/v1")
    assert caught.value.codes == ("L501",)


def test_models_are_listed() -> None:
    with ChatDouble() as double:
        chat = chat_with(double)
        assert chat.models() == ("fake-coder",)
        chat.close()


def test_request_key_depends_on_everything_that_is_sent() -> None:
    other = [
        replace(REQUEST, model="x"),
        replace(REQUEST, messages=(Message("user", "write it!"),)),
        replace(REQUEST, options=(("seed", 1),)),
        replace(REQUEST, extra=(("top_k", 1),)),
        replace(REQUEST, slot="2"),
    ]
    assert len({r.key for r in (REQUEST, *other)}) == 6


def test_estimate_is_on_the_safe_side_for_code() -> None:
    assert 25 <= estimate_tokens(CODE) <= 45
