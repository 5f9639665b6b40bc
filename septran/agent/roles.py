"""The agent's roles as data: agents/<role>/role.yaml and its Jinja templates become messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septran import assets, spanyaml
from septran.agent.chat import Message
from septran.errors import ConfigError, closest

_KEYS = ("name", "about", "answer", "docs")
ANSWERS = ("code", "text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """answer: what the reply is read as. docs: whether the system message carries the DSL's documentation."""

    name: str
    about: str
    answer: str
    docs: bool


def load_role(name: str) -> Role:
    """Return the role `name`. Raises ConfigError C001 no such role, C043 a malformed role.yaml."""
    document = spanyaml.load(assets.find(f"agents/{name}/role.yaml").path)
    value = document.value if isinstance(document.value, dict) else {}
    for key in value:
        if key not in _KEYS:
            raise ConfigError.of(
                "C043",
                f"role {name}: unknown key {key!r}{closest(str(key), _KEYS)}",
                document.key_span(key),
            )
    for key in _KEYS:
        if key not in value:
            raise ConfigError.of(
                "C043", f"role {name}: the key {key!r} is missing", document.span()
            )
    if value["answer"] not in ANSWERS:
        raise ConfigError.of(
            "C043", f"role {name}: answer is one of {', '.join(ANSWERS)}", document.span("answer")
        )
    return Role(name=name, about=value["about"], answer=value["answer"], docs=bool(value["docs"]))


def messages(role: str, template: str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the system and user message of a role; `variables` are values, never templates.

    Raises:
        ConfigError: C043 a template that is missing, broken or uses an unknown variable.
    """
    import jinja2

    environment = assets.environment("agents")
    try:
        system = environment.get_template(f"{role}/system.j2").render(**variables)
        user = environment.get_template(f"{role}/{template}.j2").render(**variables)
    except jinja2.TemplateError as e:
        name = getattr(e, "name", None) or f"{role}/{template}.j2"
        raise ConfigError.of("C043", f"agents/{name}: {e.message or e}") from e
    return Message("system", system.strip() + "\n"), Message("user", user.strip() + "\n")
