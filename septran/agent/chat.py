"""What is asked of a model and what it answers, independent of how it is reached."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from septran.kernel import content_hash


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; role is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. `slot` says what it is for (leaf, attempt, candidate), so that equal prompts differ.

    options: temperature, top_p, max_tokens, seed, stop, ... as the chat.completions call names them.
    extra: the server's own options (vLLM), sent in the body as they are.
    """

    model: str
    messages: tuple[Message, ...]
    options: tuple[tuple[str, object], ...] = ()
    extra: tuple[tuple[str, object], ...] = ()
    slot: str = ""

    @property
    def key(self) -> str:
        """Identity of the call in the run record: a paid call with this key is never repeated."""
        return content_hash(
            [
                self.model,
                [[m.role, m.text] for m in self.messages],
                list(self.options),
                list(self.extra),
                self.slot,
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back. finish: stop | length | refused | cut. Only `stop` means the text is whole.

    reasoning: the model's thinking when the server sends it apart; never used as code.
    estimated: the token counts are estimates (`estimate_tokens`), the server sent none.
    retries: calls that failed before this one succeeded; they are counted in `Usage.calls` too.
    """

    text: str
    finish: str
    reasoning: str = ""
    model: str = ""
    request_id: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    seconds: float = 0.0
    retries: int = 0


class Chat(Protocol):
    """A model that can be asked; safe to call from several threads."""

    def ask(self, request: Request) -> Reply:
        """Return the reply. Raises Fault."""
        ...

    def close(self) -> None:
        """Give back what is held between calls."""
        ...

    @property
    def where(self) -> str:
        """Address for messages to a person (no secrets)."""
        ...


_PIECES = re.compile(r"[A-Za-z]+|\d+|\s+|[^\sA-Za-z\d]+")


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of `text`, without any model's tokenizer.

    Words cost one token per 6 letters, numbers one per 2 digits, punctuation one per 2 characters,
    runs of white space one when they hold a line end or indentation. Meant to be on the safe side
    for code; figures made with it are marked as estimates wherever they are shown.
    """
    total = 0
    for piece in _PIECES.findall(text):
        first = piece[0]
        if first.isspace():
            total += 1 if len(piece) > 1 or first == "\n" else 0
        elif first.isdigit():
            total += math.ceil(len(piece) / 2)
        elif first.isascii() and first.isalpha():
            total += math.ceil(len(piece) / 6)
        else:
            total += math.ceil(len(piece) / 2)
    return total


def messages_tokens(messages: tuple[Message, ...]) -> int:
    """Return the estimated prompt tokens of a message list (4 per message for the chat template)."""
    return sum(estimate_tokens(m.text) + 4 for m in messages)


def as_json(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    """Return messages in the form the chat API takes."""
    return [{"role": m.role, "content": m.text} for m in messages]


def mapping(items: tuple[tuple[str, object], ...]) -> Mapping[str, object]:
    """Return the options as a dict."""
    return dict(items)
