"""Mapping files written for a test, and the places their comments mark."""

from __future__ import annotations

import re
import textwrap


def written(tmp_path, text):
    path = tmp_path / "my.mapping.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def marks(path):
    """Return (code, line) of every `# error: CODE[@WORD]`; WORD is what the span must start at."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        head, _, tail = line.partition("# error: ")
        for code, word in re.findall(r"([EMC]\d+)(?:@(\S+))?", tail):
            found.append((code, number, head.index(word) + 1 if word else None))
    return found


def told(error, path, expected):
    got = [(d.code, d.span.line, d.span.col) for d in error.diagnostics]
    assert {d.span.file for d in error.diagnostics} == {str(path)}
    assert len(got) == len(expected), str(error)
    for have, want in zip(got, expected, strict=True):
        assert have[:2] == want[:2], str(error)
        if want[2] is not None:
            assert have[2] == want[2], str(error)
