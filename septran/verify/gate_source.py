"""What a C-family leaf may say: tokenised, comments and strings removed, lines kept."""

from __future__ import annotations

import re

from septran import assets, spanyaml
from septran.verify.gate_types import Finding

_TOKENS = re.compile(
    r"""(?P<raw>R"(?P<delim>[^()\s\\]{0,16})\(.*?\)(?P=delim)")|(?P<line>//(?:\\\n|[^\n])*)"""
    r"""|(?P<block>/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(\w+)([^\n]*)", re.MULTILINE)
_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]|%:|<%|%>|<:|:>")


def scan_c_source(source: str, *, name: str) -> list[Finding]:
    """Return what the text of a leaf that somebody else wrote may not contain."""
    rules = spanyaml.load(assets.find("configs/gate.yaml").path).value["source"]
    joined = source.replace("\\\r\n", "\\\n")
    text = _strip(joined)
    found: list[Finding] = []

    def add(kind: str, what: str, at: int) -> None:
        line = text.count("\n", 0, at) + 1
        found.append(Finding(kind=kind, what=what, where=f"{name}:{line}"))

    for match in _DIRECTIVE.finditer(text):
        word, rest = match.group(1), match.group(2).strip()
        if word in ("include", "include_next", "import", "embed"):
            header = _header(joined, text.count("\n", 0, match.start()), rest)
            if header not in rules["includes"]:
                add("include", f"includes {header or rest}", match.start())
        elif word not in rules["directives"]:
            add("preprocessor", f"uses #{word}", match.start())
        elif word == "define" and "#" in rest:
            add("preprocessor", "pastes or quotes tokens", match.start())
        elif word == "pragma" and not any(rest.startswith(p) for p in rules["pragmas"]):
            add("preprocessor", f"uses #pragma {rest[:40]}", match.start())
    for match in _TRIGRAPH.finditer(text):
        if match.group() not in ("<:", ":>"):
            add("preprocessor", f"alternative token {match.group()}", match.start())
    if "\\\n" in text:
        add("preprocessor", "continues a line with a backslash", text.index("\\\n"))
    opening = len(text) - len(text.lstrip())  # the generated signature may begin with `static`
    for match in re.finditer(r"[A-Za-z_]\w*", text):
        word = match.group()
        if word in rules["words"] and (word != "static" or match.start() != opening):
            add("word", f"uses {word}", match.start())
    return found


def _strip(source: str) -> str:
    """Return the text with comments and literals blanked, line numbers kept."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return _TOKENS.sub(blank, source)


def _header(source: str, line: int, rest: str) -> str:
    """Return the header named on a line of the original text (a quoted name was blanked)."""
    text = source.split("\n")[line] if line < source.count("\n") + 1 else rest
    match = re.search(r"(?:<([^>]*)>|\"([^\"]*)\")", text)
    return (match.group(1) or match.group(2) or "") if match else ""
