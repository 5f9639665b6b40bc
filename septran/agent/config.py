"""The agent's configuration: configs/agent.yaml < configs/vllm_dsl_<dsl>_config.yaml < --config < settings < flags.

Both bundled files can be overlaid by a user's or a project's file of the same name. Unknown keys, wrong types and
contradictions are errors with file:line:col, all at once; `septran config` prints values and origins.
Keys are read from the environment only: a file that holds one is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran import assets, spanyaml
from septran.agent.client import ClientLimits
from septran.agent.workflow import Step, read_workflow
from septran.agent.writer import Budget
from septran.errors import ConfigError, Diagnostic, Span
from septran.layered import Key, Layered, Schema, Source, Table, layered

_REQUEST: Schema = {
    "temperature": Key(kind="float", default=0.7, minimum=0, about="0 = the likeliest text"),
    "top_p": Key(kind="float", minimum=0),
    "max_tokens": Key(kind="int", default=4096, minimum=16, about="longest reply"),
    "seed": Key(kind="int", default=0, minimum=0, about="first seed; candidates count up"),
    "stop": Key(kind="list", about="texts that end a reply"),
    "reasoning_effort": Key(kind="str", about="for models that reason: low, medium, high"),
    "send_seed": Key(kind="bool", default=True, about="some endpoints refuse a seed"),
}

SCHEMA: Schema = {
    "dsl": Key(kind="str", default="", about="documentation folder's name"),
    "docs_dir": Key(kind="str", default="", about="DSL documentation, e.g. dsl_docs/cpp"),
    "model": Key(kind="str", default="auto", about="auto = the only model the endpoint lists"),
    "base_url": Key(kind="str", default="http://127.0.0.1:8000/v1"),
    "api_key_env": Key(kind="str", default="OPENAI_API_KEY", about="variable that holds the key"),
    "request": _REQUEST,
    "extra_body": Key(kind="map", default={}, about="the server's own options, sent as they are"),
    "roles": Table(
        {
            "model": Key(kind="str"),
            "base_url": Key(kind="str"),
            "api_key_env": Key(kind="str"),
            "temperature": Key(kind="float", minimum=0),
            "max_tokens": Key(kind="int", minimum=16),
            "extra_body": Key(kind="map"),
        },
        about="what a role does differently",
    ),
    "client": {
        "connect_timeout_s": Key(kind="float", default=5.0, minimum=0.1),
        "read_timeout_s": Key(kind="float", default=120.0, minimum=0.1),
        "deadline_s": Key(kind="float", default=600.0, minimum=1, about="one call with retries"),
        "retries": Key(kind="int", default=2, minimum=0),
        "retry_after_cap_s": Key(kind="float", default=120.0, minimum=0),
        "max_concurrency": Key(kind="int", default=8, minimum=1),
        "max_reply_chars": Key(kind="int", default=200_000, minimum=1000),
        "stream": Key(kind="bool", default=True),
    },
    "context": {
        "max_model_len": Key(kind="int", minimum=256, about="of the model; null = unknown"),
        "prompt_tokens": Key(kind="int", default=9000, minimum=500, about="longest prompt"),
        "docs": Key(
            kind="str",
            default="all",
            choices=("all", "api", "none"),
            about="how much DSL documentation a prompt carries; small models do better with less",
        ),
        "history": Key(kind="int", default=5, minimum=0, about="earlier attempts, one line each"),
        "message_chars": Key(kind="int", default=3000, minimum=200, about="of a verdict's message"),
    },
    "memory": {
        "tokens": Key(
            kind="int",
            default=1200,
            minimum=0,
            about="of lessons from earlier runs in a prompt; 0 = none",
        ),
        "folders": Key(kind="list", default=[], about="shared folders of lessons, besides the own"),
    },
    "prices": {
        "currency": Key(kind="str", default="USD"),
        "prompt_per_million": Key(kind="float", default=0.0, minimum=0),
        "completion_per_million": Key(kind="float", default=0.0, minimum=0),
    },
    "ask": {
        "min_share": Key(
            kind="float",
            default=0.01,
            minimum=0,
            about="of the kernel's time, from which a leaf is asked for",
        ),
        "moves": Key(kind="bool", default=False, about="ask for fills and copies, too"),
        "single_calls": Key(
            kind="bool", default=False, about="ask where the library's leaf is one call, too"
        ),
    },
    "frame": Key(
        kind="str",
        default="body",
        choices=("body", "loops"),
        about="the hole the model fills: a function's body, or the inside of generated loops",
    ),
    "accept": Key(
        kind="str",
        default="faster",
        choices=("faster", "predicted", "verified"),
        about="when a verified leaf replaces the library's; predicted: faster, or better by static figures where no time is measured",
    ),
    "min_gain": Key(kind="float", default=1.02, minimum=1, about="speed-up that counts as faster"),
    "goal": Key(kind="float", default=1.02, minimum=1, about="speed-up at which the search stops"),
    "stuck_after": Key(kind="int", default=3, minimum=1, about="failures in a row: `stuck`"),
    "patience": Key(kind="int", default=2, minimum=1, about="rounds without gain: `plateau`"),
    "on_unreachable": Key(kind="str", default="fail", choices=("fail", "library")),
    "budget": {
        "attempts": Key(kind="int", default=8, minimum=1, about="model calls for one leaf"),
        "candidates": Key(kind="int", default=1, minimum=1, about="replies asked for at once"),
        "tokens": Key(kind="int", minimum=0, about="prompt and completion, all leaves of a run"),
        "minutes": Key(kind="float", minimum=0),
        "cost": Key(kind="float", minimum=0, about="in the currency of prices"),
    },
    "search": {
        "kind": Key(kind="str", default="best-of", choices=("best-of", "evolve")),
        "islands": Key(kind="int", default=2, minimum=1),
        "population": Key(kind="int", default=4, minimum=1, about="survivors of an island"),
        "generations": Key(kind="int", default=4, minimum=1),
        "migrate_every": Key(kind="int", default=2, minimum=1),
    },
    "workflow": Key(kind="list", default=[], about="what is asked next; see docs/agents.md"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleConfig:
    """Where and how one role asks its model."""

    model: str
    base_url: str
    api_key_env: str
    options: tuple[tuple[str, object], ...]
    extra: tuple[tuple[str, object], ...]
    seed: int | None

    @property
    def max_tokens(self) -> int:
        """Longest reply in tokens."""
        value = dict(self.options)["max_tokens"]
        assert isinstance(value, int)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The merged, checked configuration: every key of SCHEMA, and who set it."""

    merged: Layered
    workflow: tuple[Step, ...]

    def get(self, *path: str) -> Any:
        """Return the value at a key path such as "client", "retries"."""
        value: Any = self.merged.values
        for key in path:
            value = value[key]
        return value

    @property
    def limits(self) -> ClientLimits:
        """Timeouts and retries of the client."""
        c = self.get("client")
        return ClientLimits(
            connect_timeout=c["connect_timeout_s"],
            read_timeout=c["read_timeout_s"],
            deadline=c["deadline_s"],
            retries=c["retries"],
            retry_after_cap=c["retry_after_cap_s"],
            max_reply_chars=c["max_reply_chars"],
            stream=c["stream"],
        )

    @property
    def budget(self) -> Budget:
        """Limits of the run."""
        return Budget(**self.get("budget"))

    def role(self, name: str) -> RoleConfig:
        """Return the settings of a role: its own entry over the common ones."""
        own: Mapping[str, Any] = self.get("roles").get(name, {})
        request: Mapping[str, Any] = self.get("request")

        def pick(key: str, common: Any) -> Any:
            return own[key] if own.get(key) is not None else common

        options: dict[str, object] = {
            "temperature": pick("temperature", request["temperature"]),
            "max_tokens": pick("max_tokens", request["max_tokens"]),
        }
        for key in ("top_p", "stop", "reasoning_effort"):
            if request[key] is not None:
                options[key] = request[key]
        extra = {**self.get("extra_body"), **(own.get("extra_body") or {})}
        return RoleConfig(
            model=pick("model", self.get("model")),
            base_url=pick("base_url", self.get("base_url")),
            api_key_env=pick("api_key_env", self.get("api_key_env")),
            options=tuple(sorted(options.items())),
            extra=tuple(sorted(extra.items())),
            seed=request["seed"] if request["send_seed"] else None,
        )

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Return {dotted key: {value, from}} for every setting, in order; it holds no secrets."""
        found: dict[str, dict[str, Any]] = {}
        _flatten(self.merged, self.merged.values, SCHEMA, (), found)
        return found


def load(
    dsl: str,
    *,
    file: Path | None = None,
    over: Sequence[Source] = (),
    among: Sequence[assets.Layer] | None = None,
) -> AgentConfig:
    """Return the configuration for a DSL.

    dsl: picks configs/vllm_dsl_<dsl>_config.yaml. file: the user's own (--config), over the bundled one.
    over: stronger layers (settings, environment, flags), weakest first; see `override`.

    Raises:
        ConfigError: C001 no such file, C010.. broken YAML, C020..C022 keys and values, C040
            contradictions, C041 a key in a file, C042 workflow.
    """
    name = f"vllm_dsl_{dsl}_config.yaml"
    search = tuple(among) if among is not None else assets.layers()
    sources: list[Source] = []
    for each in ("agent.yaml", name):
        assets.find(f"configs/{each}", among=search)
        found = reversed(assets.every(f"configs/{each}", among=search))
        sources.extend(Source(asset.layer, spanyaml.load(asset.path)) for asset in found)
    if file is not None:
        sources.append(Source("--config", spanyaml.load(file)))
    sources.extend(over)
    for source in sources:
        _refuse_secrets(source)
    merged = layered(SCHEMA, sources)
    _check(merged)
    where = next((s for s in reversed(sources) if "workflow" in (s.document.value or {})), None)
    steps = read_workflow(merged.values["workflow"], where.document if where else None)
    return AgentConfig(merged=merged, workflow=steps)


def override(name: str, value: Mapping[str, Any]) -> Source:
    """Return a layer set by a flag or variable called `name`, without the keys that are None."""
    return Source.plain(name, _given(value))


def _given(value: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            nested = _given(inner)
            if nested:
                kept[key] = nested
        elif inner is not None:
            kept[key] = inner
    return kept


_SECRET_WORD = re.compile(r"^(api_?key|key|token|secret|authorization|password)$", re.IGNORECASE)
_SECRET_LOOK = re.compile(r"\b(sk-[A-Za-z0-9_-]{16,}|Bearer\s+\S{8,})")


def _refuse_secrets(source: Source) -> None:
    found: list[Diagnostic] = []

    def visit(value: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                here = (*path, key)
                if isinstance(key, str) and _SECRET_WORD.match(key) and isinstance(inner, str):
                    fail(here)
                else:
                    visit(inner, here)
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                visit(inner, (*path, i))
        elif isinstance(value, str) and (
            _SECRET_LOOK.search(value) or re.search(r"https?://[^/@\s]+@", value)
        ):
            fail(path)

    def fail(path: tuple[str | int, ...]) -> None:
        place = source.document.key_span(*path)
        # no file in the span: its excerpt would print the secret
        at = f"{place.file}:{place.line}:{place.col}"
        dotted = ".".join(str(p) for p in path)
        found.append(
            Diagnostic(
                code="C041",
                message=f"{at}: {dotted} holds a key; keys are read from the environment only",
                help="remove it here (and from the file's history), then set api_key_env: NAME_OF_THE_VARIABLE",
            )
        )

    visit(source.document.value, ())
    if found:
        raise ConfigError(found)


def _check(merged: Layered) -> None:
    values, found = merged.values, list[Diagnostic]()

    def fail(message: str, *path: str, help: str = "") -> None:
        near = [o.span for p, o in merged.origins.items() if p[: len(path)] == path and o.span]
        span: Span | None = near[0] if near else None
        found.append(Diagnostic(code="C040", message=message, span=span, help=help))

    longest = values["context"]["max_model_len"]
    if longest is not None and values["request"]["max_tokens"] >= longest:
        fail(
            f"request.max_tokens {values['request']['max_tokens']} does not fit into "
            f"context.max_model_len {longest}",
            "request",
            "max_tokens",
        )
    bodies = [("extra_body", values["extra_body"])]
    bodies += [(f"roles.{n}.extra_body", r.get("extra_body")) for n, r in values["roles"].items()]
    for name, body in bodies:
        for key in body or {}:
            if str(key).startswith("guided_"):
                fail(
                    f"{name}.{key}: vLLM ignores guided_* keys silently since 0.12",
                    *name.split("."),
                    help="use structured_outputs: {choice | regex | grammar | json: ...}",
                )
            if key in ("n", "stream", "messages", "model"):
                fail(f"{name}.{key} is set by SepTran itself", *name.split("."))
    if values["goal"] < values["min_gain"]:
        which = "goal" if merged.origin("goal").span else "min_gain"
        fail(
            "goal is below min_gain, so right leaves would be refused and yet end the search", which
        )
    for name in values["roles"]:
        if not assets.exists(f"agents/{name}/role.yaml"):
            known = sorted({a.name.split("/")[1] for a in assets.listing("agents")})
            fail(
                f"roles.{name}: there is no agents/{name}/role.yaml; known: {', '.join(known)}",
                "roles",
                name,
            )
    if found:
        raise ConfigError(found)


def _flatten(
    merged: Layered,
    values: Mapping[str, Any],
    schema: Schema,
    path: tuple[str, ...],
    found: dict[str, dict[str, Any]],
) -> None:
    for name, rule in schema.items():
        here = (*path, name)
        if isinstance(rule, Key):
            found[".".join(here)] = {"value": values[name], "from": str(merged.origin(*here))}
        elif isinstance(rule, Table):
            for entry, inner in values[name].items():
                _flatten(merged, inner, rule.entry, (*here, entry), found)
        else:
            _flatten(merged, values[name], rule, here, found)
