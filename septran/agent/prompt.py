"""The prompt of a leaf: role, contract, frame, documentation, trimmed history. Rendering costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from septran.agent import docs as dsl_docs
from septran.agent.chat import Message, messages_tokens
from septran.agent.config import AgentConfig
from septran.agent.contract import primitive_words, render_leafspec
from septran.agent.frame import Frame, make_frame
from septran.agent.roles import load_role, messages
from septran.backends.base import Backend
from septran.kernel import LeafSpec
from septran.leafgate.names import is_compiled, language


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A body in a prompt with one line about it; status and message for the last attempt.

    predicted: time and bound of its kernel where nothing could be measured.
    """

    body: str
    text: str = ""
    predicted: str = ""
    status: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What of the search so far goes into a prompt. earlier: one line per attempt, oldest first."""

    earlier: tuple[str, ...] = ()
    last: Shown | None = None
    best: Shown | None = None
    parent: Shown | None = None
    inspiration: Shown | None = None
    plan: str = ""
    advice: str = ""
    log: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompter:
    """Renders the messages of every role for one leaf."""

    spec: LeafSpec
    backend: Backend
    config: AgentConfig
    frame: Frame
    docs: dsl_docs.DslDocs
    memory: str = ""
    """what earlier runs learned about leaves like this"""
    library: str = ""
    """time of the kernel with the library's leaf, and what bounds it"""

    @classmethod
    def of(cls, spec: LeafSpec, backend: Backend, config: AgentConfig) -> Prompter:
        """Return the prompter of a leaf. Raises ConfigError C001, C050 for missing or broken documents."""
        folder = config.get("docs_dir") or f"dsl_docs/{backend.docs}"
        return cls(
            spec,
            backend,
            config,
            make_frame(spec, backend, config.get("frame")),
            dsl_docs.load(folder),
        )

    def render(self, role: str, template: str, context: Context) -> tuple[Message, ...]:
        """Return system and user message, trimmed to `context.prompt_tokens` of the config by rule.

        What goes first when the prompt is too long: memory and earlier attempts, suggestions, the message's
        middle, the inspiration, then basic docs. Contract, frame, api docs and the last body stay.
        """
        limit = int(self.config.get("context", "prompt_tokens"))
        longest = self.config.get("context", "max_model_len")
        if longest is not None:
            limit = min(limit, int(longest) - self.config.role(role).max_tokens)
        found: tuple[Message, ...] = ()
        for trim in range(6):
            found = self._rendered(role, template, context, trim)
            if messages_tokens(found) <= limit:
                break
        return found

    def _rendered(
        self, role: str, template: str, context: Context, trim: int
    ) -> tuple[Message, ...]:
        keep = int(self.config.get("context", "history"))
        chars = int(self.config.get("context", "message_chars"))
        last = context.last
        if last is not None:
            last = replace(last, message=shorten(last.message, chars if trim < 3 else 800))
        variables: dict[str, Any] = {
            "language": self.frame.language,
            "target": self.backend.title,
            "spec_text": render_leafspec(self.spec, self.backend),
            "frame": self.frame.shown.rstrip(),
            "hole": self.frame.kind,
            "braces": self.frame.braces,
            "plain_c": self.frame.braces and language(self.frame.subset).plain_c,
            "docs": self._documents(role, trim),
            "suggestions": self._suggestions(context)
            if trim < 2 and self.config.get("context", "docs") != "none"
            else "",
            "earlier": context.earlier[-keep:] if keep and trim < 1 else (),
            "last": last,
            "best": context.best,
            "last_is_best": last is not None
            and context.best is not None
            and last.body.rstrip() == context.best.body.rstrip(),
            "parent": context.parent,
            "inspiration": context.inspiration if trim < 4 else None,
            "memory": self.memory if trim < 1 else "",
            "library": self.library,
            "plan": context.plan,
            "advice": context.advice,
            "max_tokens": self.config.role(role).max_tokens,
            "failures": 0,
            "calls_left": 0,
            **context.numbers,
        }
        return messages(role, template, variables)

    def _documents(self, role: str, trim: int) -> str:
        wanted = self.config.get("context", "docs")
        if not load_role(role).docs:
            return ""
        if wanted == "none":
            subset = self.backend.subset or self.backend.language
            return f"Operands: {language(subset).members}.\n" if is_compiled(subset) else ""
        if trim >= 5 or wanted == "api":
            return "\n".join(doc.body for doc in self.docs.api)
        return dsl_docs.always(self.docs)

    def _suggestions(self, context: Context) -> str:
        return dsl_docs.suggestions(self.docs, words=primitive_words(self.spec), log=context.log)


def shorten(text: str, limit: int) -> str:
    """Return `text` with its middle left out when it is long: the first error and the end both count."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}\n... ({len(text) - limit} characters left out) ...\n{text[-(limit - head) :]}"


def render_prompt(
    spec: LeafSpec, backend: Backend, config: AgentConfig, *, role: str = "coder"
) -> tuple[Message, ...]:
    """Return the first messages a role would be sent for `spec`; no call is made."""
    template = "first" if role == "coder" else "user"
    return Prompter.of(spec, backend, config).render(role, template, Context())
