"""What earlier runs learned about a DSL: leaves that were verified, and what failed on the way and why.

<folder>/<dsl>/<sha>.json   one lesson, named by its content's hash; $SEPTRAN_HOME/memory, and any folder that is shared

A lesson comes from a search that ended verified. It is text that a model wrote once, and is shown as such: as material, and
never run. A file that is damaged or of another form is passed over.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from septran.agent.chat import estimate_tokens
from septran.agent.contract import primitive_words
from septran.agent.record import write_whole
from septran.kernel import LeafSpec

SCHEMA = "septran.lesson/1"
_NEAR = 0.4
"""likeness of two leaves from which one's lesson is shown to the other"""
_MOST_FILES = 5000
_CHARS = {"body": 4000, "failed": 1500, "why": 600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One verified leaf. failed, status, why: the last body that was not right before it, and its verdict; "" = none.

    features: what the leaf does and on what (`features_of`). speedup: over the library's leaf, None = not measured.
    """

    dsl: str
    task: str
    features: tuple[str, ...]
    body: str
    failed: str = ""
    status: str = ""
    why: str = ""
    speedup: float | None = None


def features_of(spec: LeafSpec) -> tuple[str, ...]:
    """Return the words by which leaves are compared: primitives, operations, functions, dtypes, memories."""
    found = set(primitive_words(spec)) | {p.mem for p in spec.params}
    for prim in spec.prims:
        found |= set(re.findall(r"([a-z]\w*)\s*\(", str(prim.attr("expr") or "")))
    return tuple(sorted(found))


class Memory:
    """Lessons in folders; the first one is written to."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """`folders` need not exist."""
        self._folders = tuple(folders)

    def learn(self, lesson: Lesson) -> None:
        """Keep a lesson; the same one twice is one file."""
        text = json.dumps({"schema": SCHEMA, **asdict(_cut(lesson))}, indent=1, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        write_whole(self._folders[0] / lesson.dsl / f"{name}.json", text + "\n")

    def near(self, spec: LeafSpec, dsl: str) -> tuple[Lesson, ...]:
        """Return the lessons of leaves like `spec`, the most alike first, then the fastest."""
        wanted = set(features_of(spec))
        found: dict[str, tuple[float, Lesson]] = {}
        for folder in self._folders:
            for path in sorted((folder / dsl).glob("*.json"))[:_MOST_FILES]:
                lesson = _read(path, dsl)
                if lesson is None:
                    continue
                likeness = len(wanted & set(lesson.features)) / len(wanted | set(lesson.features))
                if likeness >= _NEAR:
                    found.setdefault(path.stem, (likeness, lesson))
        ranked = sorted(found.items(), key=lambda e: (-e[1][0], -(e[1][1].speedup or 0), e[0]))
        return tuple(lesson for _, (_, lesson) in ranked)


def told(lessons: Sequence[Lesson], language: str, tokens: int) -> str:
    """Return what a prompt says of `lessons` in at most `tokens` tokens: one right body, then failures, each once."""
    parts: list[str] = []
    left = tokens

    def add(text: str) -> None:
        nonlocal left
        need = estimate_tokens(text)
        if need <= left:
            parts.append(text)
            left -= need

    if lessons:
        best = lessons[0]
        gain = f", {best.speedup:.2f} x the library's speed" if best.speedup else ""
        add(
            f"A body that was verified for a leaf like this ({best.task}{gain}):\n{_fenced(best.body, language)}"
        )
    seen = set[tuple[str, str]]()
    for lesson in lessons:
        kind = (lesson.status, lesson.why)
        if lesson.failed and kind not in seen and len(seen) < 3:
            seen.add(kind)
            add(
                f"What failed there ({lesson.task}, {lesson.status}):\n{_fenced(lesson.failed, language)}\n"
                f"because:\n{_fenced(lesson.why, 'text')}"
            )
    return "\n\n".join(parts)


def _fenced(text: str, tag: str) -> str:
    """Return a code block that the text cannot close."""
    return f"```{tag}\n{text.replace('```', chr(39) * 3).rstrip()}\n```"


def _cut(lesson: Lesson) -> Lesson:
    values = asdict(lesson)
    for name, most in _CHARS.items():
        text = "".join(c for c in values[name] if c.isprintable() or c in "\n\t")
        values[name] = text[:most]
    return Lesson(**{**values, "features": tuple(values["features"])})


def _read(path: Path, dsl: str) -> Lesson | None:
    try:
        if path.stat().st_size > 64_000:
            return None
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict) or value.pop("schema", None) != SCHEMA:
            return None
        if not isinstance(value["speedup"], int | float | None):
            return None
        lesson = Lesson(**{**value, "features": tuple(value["features"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (
        lesson.dsl,
        lesson.task,
        lesson.body,
        lesson.failed,
        lesson.status,
        lesson.why,
        *lesson.features,
    )
    if not all(isinstance(t, str) for t in texts) or lesson.dsl != dsl or not lesson.body:
        return None
    if re.search(r"[^\w .-]", lesson.task + lesson.status):
        return None
    return _cut(lesson)
