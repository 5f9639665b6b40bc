"""Read septran.toml as a spanyaml.Document: plain values plus the place of each key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from septran.errors import ConfigError, Span
from septran.spanyaml import Document, KeyPath, read_text

_TABLE = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(
    r"""^(\s*)((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_"'-]+)*)\s*=\s*"""
)
_AT = re.compile(r"at line (\d+), column (\d+)")


def load(path: Path) -> Document:
    """Return the parsed file.

    Raises:
        ConfigError: C010 syntax (TOML rejects duplicate keys itself), C012 missing file.
    """
    text = read_text(path)
    file = str(path)
    try:
        value: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        at = _AT.search(str(e))
        span = Span(file, int(at[1]), int(at[2])) if at else Span(file, 1)
        message = _AT.sub("", str(e)).replace("()", "").strip()
        raise ConfigError.of("C010", f"this is not valid TOML: {message}", span) from e
    except (RecursionError, ValueError) as e:
        # tomllib lets these two of Python's own through
        why = "it nests too deep" if isinstance(e, RecursionError) else str(e).split(";")[0]
        raise ConfigError.of("C010", f"this is not valid TOML: {why}", Span(file, 1)) from None
    spans, key_spans = _places(text, file)
    return Document(file=file, value=value, spans=spans, key_spans=key_spans)


def _places(text: str, file: str) -> tuple[dict[KeyPath, Span], dict[KeyPath, Span]]:
    """Return places found line by line; keys inside multi-line values keep their parent's place."""
    spans: dict[KeyPath, Span] = {(): Span(file, 1)}
    keys: dict[KeyPath, Span] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = _parts(header[1])
            keys[table] = spans[table] = Span(file, number, header.start(1) + 1, len(header[1]))
        elif pair := _KEY.match(line):
            path = (*table, *_parts(pair[2]))
            value = line[pair.end() :].split(" #")[0].rstrip()
            keys.setdefault(path, Span(file, number, pair.start(2) + 1, len(pair[2])))
            spans.setdefault(path, Span(file, number, pair.end() + 1, max(1, len(value))))
    return spans, keys


def _parts(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
