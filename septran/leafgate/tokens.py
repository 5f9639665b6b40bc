"""C-family text to tokens. What code has no use for ends here: quotes, backslashes, macros, odd characters.

The compiler never sees this text, only what is printed from the tokens, so the reading of comments, line
splices and trigraphs need not agree with the compiler's: it only has to be one reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from septran.leafgate.refusal import Refusal

MAX_CHARS = 60_000
MAX_BRACKETS = 50
_NUMBER = re.compile(
    r"(0[xX][0-9a-fA-F]+(\.[0-9a-fA-F]*)?([pP][-+]?\d+)?|0[bB][01]+|(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)"
    r"(u|U|l|L|ul|UL|ll|LL|ull|ULL|f|F)?"
)
_TOKEN = re.compile(
    r"(?P<space>[ \t\n]+)|(?P<number>\.?\d(?:[eEpP][-+]|[\w.])*)|(?P<name>[A-Za-z_]\w*)|(?P<pragma>#[^\n]*)"
    r"|(?P<op>\.\.\.|<<=|->\*?|\+\+|--|[-+*/%&|^=!<>]=|&&|\|\||<<|::|[-+*/%&|^~!=<>?:;,.(){}\[\]])"
)
_OTHER_SPELLINGS = ("<:", ":>", "<%", "%>", "%:", "??")


@dataclass(frozen=True, slots=True)
class Token:
    """kind: name, number, op, pragma or end. line counts from 1; at: offset, to see what is adjacent."""

    kind: str
    text: str
    line: int
    at: int


class Cursor:
    """A place in tokens of which the last is of kind "end"; who reads them says how it refuses."""

    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.at = 0

    @property
    def now(self) -> Token:
        """The token here."""
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        """Return a token further on."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def wrong(self, what: str = "") -> Exception:
        """Return the error that what stands here is not read."""
        raise NotImplementedError

    def take(self, text: str = "") -> Token:
        """Take a token, `text` if given."""
        token = self.now
        if token.kind == "end" or (text and token.text != text):
            raise self.wrong()
        self.at += 1
        return token

    def take_if(self, text: str) -> bool:
        """Take a token if it is `text`."""
        if self.now.text != text:
            return False
        self.at += 1
        return True


def tokens(text: str) -> list[Token]:
    """Return the tokens of `text`, the last one of kind "end". Raises Refusal."""
    clean = _uncommented(text)
    found: list[Token] = []
    at = 0
    line = 1
    while at < len(clean):
        match = _TOKEN.match(clean, at)
        if match is None:
            raise Refusal(line, f"the character {clean[at]!r}")
        word, kind = match.group(), str(match.lastgroup)
        if kind == "number" and not _NUMBER.fullmatch(word):
            raise Refusal(
                line, f"the number {word[:20]}", "write plain digits and a suffix f, u or l"
            )
        if kind == "pragma":
            if clean[clean.rfind("\n", 0, at) + 1 : at].strip():
                raise Refusal(line, "a # inside a line")
            word = "#" + " ".join(word[1:].split())
            word = (
                re.sub(r" ?([():,]) ?", r"\1", word).replace(")", ") ").strip().replace(") )", "))")
            )
        if kind != "space":
            found.append(Token(kind, word, line, at))
        line += clean.count("\n", at, match.end())
        at = match.end()
    return [*found, Token("end", "the end of the leaf", line, at)]


def indents(text: str) -> dict[int, str]:
    """Return the white space each line starts with."""
    lines = text.replace("\r\n", "\n").split("\n")
    return {i: line[: len(line) - len(line.lstrip(" "))] for i, line in enumerate(lines, 1)}


def _uncommented(text: str) -> str:
    """Return the text with comments blanked (line breaks stay) and digit separators dropped."""
    if len(text) > MAX_CHARS:
        raise Refusal(1, f"{len(text)} characters", f"at most {MAX_CHARS}")
    text = text.replace("\r\n", "\n")
    out: list[str] = []
    at, line, depth = 0, 1, 0
    while at < len(text):
        if text.startswith(("//", "/*"), at):
            end = _comment_end(text, at, line)
            breaks = text.count("\n", at, end)
            out.append(" " + "\n" * breaks)
            line, at = line + breaks, end
            continue
        char = text[at]
        if char == "'" and text[at + 1 : at + 2].isalnum() and _in_number(text, at):
            at += 1
            continue
        if (char not in "\n\t" and not " " <= char <= "~") or char in "\\\"'`$@":
            raise Refusal(
                line,
                f"the character {char!r} outside a comment",
                "a leaf is plain ASCII without text, quotes and backslashes",
            )
        if text[at : at + 2] in _OTHER_SPELLINGS:
            raise Refusal(line, f"the token {text[at : at + 2]}", "write [ ] { } # as they are")
        depth += (char in "({[") - (char in ")}]")
        if not 0 <= depth <= MAX_BRACKETS:
            raise Refusal(
                line,
                "a bracket closes more than was opened"
                if depth < 0
                else f"brackets nested deeper than {MAX_BRACKETS}",
            )
        line += char == "\n"
        out.append(char)
        at += 1
    if depth:
        raise Refusal(line, "a bracket is not closed; the code looks cut")
    return "".join(out)


def _comment_end(text: str, at: int, line: int) -> int:
    if text[at + 1] == "/":
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    end = text.find("*/", at + 2)
    if end < 0:
        raise Refusal(line, "a comment that does not end")
    return end + 2


def _in_number(text: str, at: int) -> bool:
    start = at
    while start > 0 and at - start < 40 and (text[start - 1].isalnum() or text[start - 1] in "_'."):
        start -= 1
    return start < at and text[start].isdigit()
