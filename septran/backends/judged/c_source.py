"""C++ and CUDA C++ files read into Python's `ast`, function by function, as far as kernels need it.

A function that says something else is unread with its line; the others are not touched by that. Addresses: `*p` is `p[0]`,
`&x` is `__address__(x)`; casts, arrays and launches are calls of `__cast__`, `__array__` and `__launch__`.
"""

from __future__ import annotations

import ast
import contextlib
import re
from dataclasses import replace

from septran.backends.judged.c_functions import CFile, CParameter, CSource
from septran.backends.judged.c_macros import expanded
from septran.backends.judged.c_statements import Body
from septran.backends.judged.c_words import split
from septran.ir.brackets import closing
from septran.leafgate.refusal import Refusal
from septran.leafgate.tokens import Token, tokens
from septran.prove.foreign.launch import NotRead

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_DROPPED = re.compile(
    r"\b(__restrict__|__restrict|volatile|register|inline|__inline__|__forceinline__|noexcept|typename|mutable)\b"
    r"|__launch_bounds__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|alignas\s*\([^)]*\)|__align__\s*\([^)]*\)|\[\[[^\]]*\]\]"
    r"|__attribute__\s*\(\([^)]*\)\)"
)


def read_file(text: str) -> CFile:
    """Return the functions of a file.

    Raises:
        NotRead: not even its functions can be told apart.
    """
    for pattern in (_COMMENT, _STRING):
        text = pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    text = _DROPPED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    text = expanded(text)
    try:
        found = [_spelled(token) for token in tokens(text)]
    except Refusal as e:
        raise NotRead(e.line, str(e)) from e
    return _File(found).read()


_WORDS = {"and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~", "not_eq": "!="}  # fmt: skip
"""what C++ may write for operators"""


def _spelled(token: Token) -> Token:
    return replace(token, kind="op", text=_WORDS[token.text]) if token.text in _WORDS else token


class _File:
    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.texts = [t.text for t in found]
        self.at = 0
        self.functions: dict[str, CSource] = {}
        self.declared: list[ast.stmt] = []

    def read(self) -> CFile:
        while self.tokens[self.at].kind != "end":
            self._item()
        return CFile(self.functions, tuple(self.declared))

    def _item(self) -> None:
        start = self.at
        word = self.tokens[start].text
        if word in ("}", ";") or self.tokens[start].kind == "pragma":
            self.at += 1
            return
        if word == "extern" and self.tokens[start + 1].text == "{":
            self.at += 2
            return
        templates: tuple[str, ...] = ()
        if word == "template":
            end = self._closing(start + 1, "<")
            templates = tuple(part[-1] for part in split(self.tokens, start + 2, end) if part)
            start = self.at = end + 1
        while (text := self.tokens[self.at].text) not in ("(", "{", ";", "="):
            if self.tokens[self.at].kind == "end":
                return
            self.at += 1
        if text == "{":  # namespace, struct
            if self.tokens[start].text == "namespace":
                self.at += 1
            else:
                self.at = self._closing(self.at, "{") + 1
            return
        if text == "(":
            close = self._closing(self.at, "(")
            if self.tokens[close + 1].text == "{":
                self._function(start, close, templates)
                return
        end = self.at
        while self.tokens[end].text != ";":
            if self.tokens[end].kind == "end":
                self.at = end
                return
            end = self._closing(end, "{") if self.tokens[end].text == "{" else end
            end += 1
        if self.tokens[start].text not in ("using", "typedef", "struct", "class", "enum"):
            # a name that is used and not known is said where it is used
            with contextlib.suppress(NotRead):
                outside = Body(self.tokens[start : end + 1])
                outside.file_level = True
                self.declared += outside.all()
        self.at = end + 1

    def _function(self, start: int, close: int, templates: tuple[str, ...]) -> None:
        open_ = self.at
        name = self.tokens[open_ - 1].text
        marks = frozenset(t.text for t in self.tokens[start : open_ - 1])
        params = []
        for words in split(self.tokens, open_ + 1, close):
            words = words[: words.index("=")] if "=" in words else words
            if not words or words == ["void"]:
                continue
            stars = "*" * (words.count("*") + words.count("["))
            names = [w for w in words if re.match(r"[A-Za-z_]\w*$", w) and w != "const"]
            params.append(CParameter(names[-1], " ".join(names[:-1]) + stars))
        end = self._closing(close + 1, "{")
        line, unread = self.tokens[start].line, ""
        body: list[ast.stmt] = []
        try:
            body = Body(self.tokens[close + 2 : end]).all()
        except NotRead as e:
            unread = str(e)
        found = CSource(name, line, marks, templates, tuple(params), tuple(body), unread)
        self.functions[name] = found
        self.at = end + 1

    def _closing(self, at: int, opening: str) -> int:
        found = closing(self.texts, at, opening)
        if found == len(self.texts):
            raise NotRead(self.tokens[at].line, f"{opening} is not closed")
        return found
