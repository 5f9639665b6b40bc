"""Read a DSL's documentation: front matter, sections, tagged code blocks, and what a prompt needs of it.

A DSL folder `dsl_docs/<name>/` has api.md, basic_docs.md and suggestion.md. A file starts with YAML
front matter between `---` lines (dsl, file, version, targets, verified, tokens_max) and tags each
fence with how it is tested:  ```cpp {test=run}  or  ```cpp {test=error re="no match for"}.
A delta folder names its parent with `extends:`; the parent's text comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from septran import assets, spanyaml
from septran.errors import ConfigError, Span, closest

FILES = ("api", "basic_docs", "suggestion")
_KEYS = ("dsl", "file", "version", "targets", "verified", "tokens_max", "extends")
_FENCE = re.compile(r"^(?P<mark>```+|~~~+)(?P<info>.*)$")
_INFO = re.compile(r"^(?P<lang>[\w+-]*)\s*(?:\{(?P<tag>.*)\})?\s*$")
_ATTR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')
_QUOTES = {0x2018: "'", 0x2019: "'"}  # compilers quote names so in a UTF-8 locale
_ALWAYS = ("performance", "resource", "numeric", "trap", "do not")
"""words in the titles of the advice that every prompt carries"""
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced code block. test: compile | lower | run | emulate | error | none, "" when untagged."""

    lang: str
    test: str
    attrs: Mapping[str, str]
    code: str
    line: int
    section: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a file below a `## ` heading (the text includes the heading)."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """One file. `body` is the text after the front matter, as it goes into a prompt."""

    file: str
    front: Mapping[str, object]
    body: str
    first_line: int
    sections: tuple[Section, ...]
    blocks: tuple[Block, ...]


def parse(text: str, file: str) -> Doc:
    """Return the parsed documentation file.

    Raises:
        ConfigError: C050 front matter missing, with unknown or missing keys, or an unclosed fence.
    """
    lines = text.splitlines()
    if not lines or lines[0] != "---" or "---" not in lines[1:]:
        raise ConfigError.of(
            "C050", f"{file} has no front matter", Span(file, 1), help="start it with --- lines"
        )
    end = lines.index("---", 1)
    front = spanyaml.loads("\n".join(lines[1:end]), file=file)
    value = front.value if isinstance(front.value, dict) else {}
    for key in value:
        if key not in _KEYS:
            raise ConfigError.of("C050", f"{file}: unknown key {key!r}{closest(str(key), _KEYS)}")
    for key in _KEYS[:-1]:
        if key not in value:
            raise ConfigError.of("C050", f"{file}: the front matter has no {key!r}", Span(file, 1))
    body = "\n".join(lines[end + 1 :]).strip("\n") + "\n"
    blocks, sections = _walk(lines[end + 1 :], end + 2, file)
    return Doc(
        file=file,
        front=value,
        body=_without_tags(body),
        first_line=end + 2,
        sections=sections,
        blocks=blocks,
    )


def _walk(lines: list[str], first: int, file: str) -> tuple[tuple[Block, ...], tuple[Section, ...]]:
    blocks: list[Block] = []
    sections: list[Section] = []
    title, held = "", list[str]()
    fence: tuple[str, str, int] | None = None
    code: list[str] = []
    for number, line in enumerate(lines, first):
        match = _FENCE.match(line)
        if fence is None and line.startswith("## "):
            sections.append(Section(title=title, text="\n".join(held)))
            title, held = line[3:].strip(), []
        if fence is None and match:
            fence, code = (match["mark"], match["info"], number), []
        elif fence is not None and match and match["mark"] == fence[0] and not match["info"]:
            blocks.append(_block(fence[1], code, fence[2], title))
            fence = None
        elif fence is not None:
            code.append(line)
        held.append(line)
    if fence is not None:
        raise ConfigError.of("C050", f"{file}: a code block is not closed", Span(file, fence[2]))
    sections.append(Section(title=title, text="\n".join(held)))
    return tuple(blocks), tuple(s for s in sections if s.title)


def _block(info: str, code: list[str], line: int, section: str) -> Block:
    match = _INFO.match(info.strip())
    tag = (match["tag"] or "") if match else ""
    attrs = {k: _unquote(v) for k, v in _ATTR.findall(tag)}
    return Block(
        lang=match["lang"] if match else info.strip(),
        test=attrs.get("test", ""),
        attrs=attrs,
        code="\n".join(code) + "\n",
        line=line,
        section=section,
    )


def _unquote(value: str) -> str:
    return value[1:-1].replace('\\"', '"') if value.startswith('"') else value


def _without_tags(body: str) -> str:
    return re.sub(r"^(```+[\w+-]*)[ \t]*\{.*\}[ \t]*$", r"\1", body, flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DslDocs:
    """The three files of a DSL, the parent's first where there is one."""

    api: tuple[Doc, ...]
    basic_docs: tuple[Doc, ...]
    suggestion: tuple[Doc, ...]


def load(folder: str) -> DslDocs:
    """Return the docs of `folder` ("dsl_docs/cpp"); a missing file is left out. Raises C050, C001."""
    found: dict[str, tuple[Doc, ...]] = {}
    for name in FILES:
        path = f"{folder}/{name}.md"
        if not assets.exists(path):
            found[name] = ()
            continue
        doc = parse(assets.read(path), path)
        parent: tuple[Doc, ...] = ()
        if "extends" in doc.front:
            above = f"{folder.rsplit('/', 1)[0]}/{doc.front['extends']}/{name}.md"
            parent = (parse(assets.read(above), above),) if assets.exists(above) else ()
        found[name] = (*parent, doc)
    if not found["api"]:
        assets.read(f"{folder}/api.md")  # raises C001 with the nearest names
    return DslDocs(found["api"], found["basic_docs"], found["suggestion"])


def always(docs: DslDocs) -> str:
    """Return api and basic docs: what every prompt for a new leaf carries."""
    return "\n".join(doc.body for doc in (*docs.api, *docs.basic_docs))


def suggestions(docs: DslDocs, *, words: frozenset[str], log: str) -> str:
    """Return the parts of suggestion.md that this leaf and the last message call for.

    Formulas, rules of speed and of numbers and silent traps are always there: who reads them only after a
    failure has paid for a call to get them.

    words: the leaf's primitives; the decision table's rows whose first cell names one are taken.
    log: the last message; rows of the error table whose `regex` matches it are taken.
    """
    parts: list[str] = []
    for doc in docs.suggestion:
        for section in doc.sections:
            title = section.title.lower()
            if "error" in title:
                text = _rows(section.text, lambda cell: bool(log) and _matches(cell, log))
            elif "decision" in title:
                text = _rows(section.text, lambda cell: _names(cell, words))
            else:
                text = section.text if any(word in title for word in _ALWAYS) else ""
            if text:
                parts.append(text.strip("\n"))
    return "\n\n".join(parts)


def row_regex(cell: str) -> str:
    """Return the regex of an error row: the text between backticks, an escaped bar for a bar."""
    return cell.strip().strip("`").replace("\\|", "|")


def _table(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.lstrip().startswith("|")]


def _rows(text: str, wanted: object) -> str:
    table = _table(text)
    assert callable(wanted)
    kept = [row for row in table[2:] if wanted(_CELL.split(row.strip().strip("|"))[0])]
    if not kept:
        return ""
    heading = text.splitlines()[0]
    return "\n".join([heading, "", *table[:2], *kept])


def _matches(cell: str, log: str) -> bool:
    try:
        return re.search(row_regex(cell), log.translate(_QUOTES)) is not None
    except re.error:
        return False


def _names(cell: str, words: frozenset[str]) -> bool:
    found = set(re.findall(r"\w+", cell.lower()))
    return "any" in found or bool(found & words)
