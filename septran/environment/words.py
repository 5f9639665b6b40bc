"""What became of a submission in words, and the pages of error codes."""

from __future__ import annotations

import re
from typing import Any

from septran import assets
from septran.environment.told import Measured
from septran.errors import Failure


def words(result: dict[str, Any]) -> str:
    """Return a septran.reward/1, septran.measured/1 or septran.error/1 object in words."""
    if result.get("schema") == Failure.SCHEMA:
        return "\n".join(f"[{e.get('code')}] {e.get('message')}" for e in result["errors"])
    if result.get("schema") == Measured.SCHEMA:
        return _measured(result)
    lines = [f"{result['task']} (seed {result['seed']}): {result['rung']}"]
    if result["message"]:
        code = f"[{result['code']}] " if result["code"] else ""
        lines.append(f"{result['place'] or 'reply'}: {code}{result['message']}")
    for name, what in (("first_wrong", "first wrong"), ("worst", "worst")):
        if result.get(name):
            lines.append(_element(what, result[name]))
    if result["budget_share"] is not None:
        lines.append(f"{100 * result['budget_share']:.0f} % of the allowed error")
    if result.get("gain"):
        lines.append(_ratio(result["gain"], "the library's leaf"))
    if result["hack"]:
        lines.append(f"class: {result['hack']}")
    lines += [f"not checked: {text}" for text in result["unchecked"]]
    return "\n".join(lines)


def _measured(result: dict[str, Any]) -> str:
    lines = [f"{result['task']} (seed {result['seed']}): {result['rung']}"]
    if result["message"]:
        lines.append(f"[{result['code']}] {result['message']}")
    if result["leaf_us"] is not None:
        threads = f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}"
        lines.append(f"{result['leaf_us']:g} us a call, measured here on {threads}")
    for name, what in (("gain", "the library's leaf"), ("speedup", "torch")):
        if result[name]:
            lines.append(_ratio(result[name], what))
    if result["reliable"] is False:
        lines.append("the machine was busy: the intervals are wide")
    return "\n".join([*lines, *filter(None, [result["reason"]])])


def _ratio(found: dict[str, Any], what: str) -> str:
    between = f"between {found['low']:.3g} and {found['high']:.3g}"
    return f"{found['value']:.3g} x {what} ({found['kind']}; {between})"


def _element(what: str, found: dict[str, Any]) -> str:
    at = ", ".join(map(str, found["index"]))
    text = f"{what}: {found['output']}[{at}] = {found['got']}, expected {found['expected']} within {found['budget']}, inputs {found['case']!r}"
    by = found.get("by")
    if not by:
        return text
    instance = ", ".join(f"{name} = {value}" for name, value in by["instance"].items())
    leaf = f"leaf {by['leaf']}" if by["leaf"] else "no leaf"
    who = leaf if by["by"] == "leaf" else f"a copy of what {leaf} wrote"
    text += f"; written by {who} at [{', '.join(map(str, by['tile']))}] of the tile"
    return text + (f", {instance}" if instance else "")


def page(code: str) -> str | None:
    """Return the page of an error code, None when there is none."""
    if re.fullmatch(r"[A-Z]\d{3}", code.upper()) is None:
        return None
    path = assets.bundled() / "docs" / "errors" / f"{code.upper()}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else None
