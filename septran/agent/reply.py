"""From the text of a reply to code or JSON. The text is data: whatever else it says changes nothing."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass

from septran.agent.forms import DIFFS, named, of_diff, of_json
from septran.agent.frame import C_TOKENS, HOLE, Frame, body_problem, strip_comments
from septran.ir.brackets import closing
from septran.kernel import LeafSpec
from septran.leafgate.names import language

_MOST = 400_000  # characters; no leaf is longer
_INVISIBLE = dict.fromkeys(
    [
        0xFEFF,
        0x200B,
        0x200C,
        0x200D,
        0x2060,
        0x00AD,
        0x202A,
        0x202B,
        0x202C,
        0x202D,
        0x202E,
        0x2066,
        0x2067,
        0x2068,
        0x2069,
    ]
)
_QUOTES = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " ", "\u2212": "-"}
)
_THINK = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<lang>[\w+#.-]*)[^\n`]*$", re.MULTILINE)


_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<[\w./+-]+>[ \t]*$", re.MULTILINE)
_IMPORT = re.compile(r"\A(?:\s*(?:import|from)[ \t][^\n;]*\n)+")
_DECLARATION = re.compile(
    r"^[ \t]*(?:using\b|(?:(?:static|inline)\s+)*(?:constexpr|const)\b)(?:[^;{}]|\{[^{}]*\})*;",
    re.MULTILINE,
)
_FUNCTION = re.compile(
    r"^[ \t]*(?:(?:static|inline|constexpr|__device__|__host__|__forceinline__|\[\[[\w:, ]*\]\])\s+)*"
    r"(?P<type>(?:const\s+)?[A-Za-z][\w:]*(?:<[\w:, ]*>)?(?:\s+(?:int|long|char|short|double|float))*)\s+"
    r"(?P<name>[A-Za-z]\w*)\s*(?P<params>\([^(){};]*\))\s*(?:noexcept\s*)?\{",
    re.MULTILINE,
)
_NO_TYPES = frozenset("return else new namespace struct class union enum template".split())


@dataclass(frozen=True, slots=True)
class Found:
    """Code out of a reply, or the reason why there is none (for the next prompt).

    refused: the body that the gate refused, whose lines `problem` counts.
    """

    body: str
    problem: str = ""
    refused: str = ""


def clean(text: str) -> str:
    """Return the reply with one kind of line end, no invisible characters and no thinking part."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_INVISIBLE)
    text = text.replace("\x00", "")
    kept: list[str] = []
    start, thinking = 0, False
    for tag in _THINK.finditer(text):
        closing = bool(tag[1])
        if closing and not thinking:
            kept.clear()  # the opening tag was part of the prompt's template
        elif not thinking:
            kept.append(text[start : tag.start()])
        thinking = not closing
        start = tag.end()
    if not thinking:
        kept.append(text[start:])
    return "".join(kept)


def fences(text: str) -> tuple[tuple[str, str, bool], ...]:
    """Return (language tag, code, closed) of each fenced block, in order."""
    found: list[tuple[str, str, bool]] = []
    mark, lang, start = "", "", 0
    for match in _FENCE.finditer(text):
        if not mark:
            mark, lang, start = match["mark"], match["lang"].lower(), match.end()
        elif match["mark"][0] == mark[0] and len(match["mark"]) >= len(mark):
            if match["lang"]:
                # a new block opens before the last one was closed
                found.append((lang, _block(text[start : match.start()]), True))
                mark, lang, start = match["mark"], match["lang"].lower(), match.end()
                continue
            found.append((lang, _block(text[start : match.start()]), True))
            mark = ""
    if mark:
        found.append((lang, _block(text[start:]), False))
    return tuple(found)


def _block(text: str) -> str:
    return textwrap.dedent(text.strip("\n")).rstrip() + "\n" if text.strip() else ""


def extract_body(text: str, frame: Frame, spec: LeafSpec) -> Found:
    """Return the body that a reply proposes for the hole of `frame`.

    The last non-empty block with a fitting (or no) language tag counts. A reply without any fence is taken
    as code when it looks like code. When the block holds the whole function, its body is taken out. A diff and a JSON
    object with the code in it are read where there is no such block.
    """
    text = clean(text[:_MOST])
    blocks = [b for b in fences(text) if b[1].strip()]
    if not any(b[0] in ("", *frame.tags) for b in blocks):
        inner = of_json(extract_json(text) or {})
        if inner:
            return extract_body(inner if "```" in inner else f"```\n{inner}\n```", frame, spec)
        blocks = [("", of_diff(code), closed) if lang in DIFFS else (lang, code, closed) for lang, code, closed in blocks]  # fmt: skip
    fitting = [b for b in blocks if b[0] in ("", *frame.tags)]
    if fitting:
        whole = [b for b in fitting if spec.symbol in b[1]] or fitting
        code = whole[-1][1]
    elif blocks:
        return Found(
            "", f"the code block is tagged {blocks[-1][0]!r}; write it in {frame.language}"
        )
    elif _looks_like_code(text, frame):
        code = _block(text)
    else:
        return Found("", "the reply holds no code block")
    code = code.translate(_QUOTES)
    # headers and modules are the frame's file's; what only they would name is refused by its name
    code = (_INCLUDE if frame.braces else _IMPORT).sub("", code)
    code, other = named(code, frame, spec.symbol)
    if other:
        return Found("", other)
    body = _inside(code, frame, spec)
    if body is None:
        return Found("", f"the function {spec.symbol} in the reply has no complete body")
    if not strip_comments(body, braces=frame.braces).strip():
        return Found("", "the code block is empty")
    body = _unrepeated(body, frame)
    problem = body_problem(frame, body)
    return Found("", problem, refused=body) if problem else Found(body)


def _looks_like_code(text: str, frame: Frame) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or len(text) > 60_000:
        return False
    if frame.braces:
        codelike = sum(line.rstrip().endswith((";", "{", "}", ")", ",")) for line in lines)
    else:
        codelike = sum(
            bool(re.match(r"\s*(for|if|with|return|\w[\w.\[\], :]* ?[-+*/]?= )", line))
            for line in lines
        )
    return codelike * 2 > len(lines)


def _inside(code: str, frame: Frame, spec: LeafSpec) -> str | None:
    """Return the body of `spec.symbol` when `code` defines it, else `code` itself; None when cut.

    What is declared in front of the function as the documents' examples do, goes along: `using V = st::f32v;`.
    """
    if not frame.braces:
        return _inside_python(code, spec)
    plain = C_TOKENS.sub(lambda token: re.sub(r"[^\n]", " ", token[0]), code)
    defined = re.search(rf"\b{re.escape(spec.symbol)}\s*\([^;{{}}]*\)[^;{{}}]*\{{", plain)
    if not defined:
        return code
    start = defined.end() - 1
    end = start + closing(plain[start:], 0, "{")
    if end == len(code):
        return None
    body = _hole_part(textwrap.dedent(code[start + 1 : end].strip("\n")), frame)
    before = plain[: defined.start()]
    front = _declared(code, before)
    if not language(frame.subset).plain_c:
        used = body
        for at, (name, text) in sorted(_helpers(code, before).items(), reverse=True):
            if re.search(rf"\b{name}\b", used):
                front[at] = text
                used += text
    return "".join(f"{front[at]}\n" for at in sorted(front)) + body


def _declared(code: str, before: str) -> dict[int, str]:
    """Return the declarations outside of all braces that `code` begins with, by place; `before`: without texts and comments."""
    found = {}
    for match in _DECLARATION.finditer(before):
        if _outside(before, match.start()):
            text = textwrap.dedent(code[match.start() : match.end()]).strip()
            found[match.start()] = text.replace("inline ", "", 1)
    return found


def _helpers(code: str, before: str) -> dict[int, tuple[str, str]]:
    """Return the functions in front of the leaf, by place: name, and a lambda that the leaf may begin with, as it is one function."""
    found = {}
    for match in _FUNCTION.finditer(before):
        end = match.end() - 1 + closing(before[match.end() - 1 :], 0, "{")
        if match["type"] in _NO_TYPES or not _outside(before, match.start()) or end >= len(before):
            continue
        body = textwrap.dedent(code[match.end() - 1 : end + 1])
        params = code[match.start("params") : match.end("params")]
        text = f"const auto {match['name']} = [&]{params} -> {match['type']} {body};"
        found[match.start()] = match["name"], text
    return found


def _outside(text: str, at: int) -> bool:
    return text.count("{", 0, at) == text.count("}", 0, at)


def _hole_part(body: str, frame: Frame) -> str:
    """Return what stands where the hole is, when a reply repeats the loops of the frame."""
    if frame.kind != "loops":
        return body
    inner = frame.text[frame.text.index("{") + 1 :]
    before, _, after = inner.partition(frame.indent + HOLE)

    def squeeze(text: str) -> str:
        return re.sub(r"\s+", "", strip_comments(text, braces=True))

    lines = body.splitlines()
    head, tail = squeeze(before), squeeze(after.rstrip().removesuffix("}"))
    for i in range(len(lines), -1, -1):
        if squeeze("\n".join(lines[:i])) == head:
            for j in range(len(lines), i - 1, -1):
                if squeeze("\n".join(lines[j:])) == tail:
                    return textwrap.dedent("\n".join(lines[i:j]))
    return body


def _unrepeated(body: str, frame: Frame) -> str:
    """Return what goes into generated loops without the declarations above the hole, which small models say again."""
    if frame.kind != "loops" or frame.around(body) != frame.text:
        return body
    above = frame.text.partition(HOLE)[0].splitlines()
    said = {line.strip() for line in above if line.strip().endswith(";")}
    lines = body.splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if line.strip() not in said), len(lines))
    return "".join(lines[first:]) or body


def _inside_python(code: str, spec: LeafSpec) -> str | None:
    match = re.search(rf"^([ \t]*)def\s+{re.escape(spec.symbol)}\b[^\n]*", code, re.MULTILINE)
    if not match:
        return code
    import ast

    try:
        tree = ast.parse(textwrap.dedent(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = textwrap.dedent(code).splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == spec.symbol:
            # constants of the file are the body's own: `ROWS = 16` in front of the function
            front = [
                "\n".join(lines[n.lineno - 1 : n.end_lineno])
                for n in tree.body
                if isinstance(n, ast.Assign) and n.lineno < node.lineno
            ]
            told = ast.get_docstring(node) is not None and len(node.body) > 1
            first = node.body[told].lineno - 1
            body = textwrap.dedent("\n".join(lines[first : node.end_lineno]))
            return "\n".join([*front, body]) + "\n"
    return None


def extract_json(text: str) -> dict[str, object] | None:
    """Return the first JSON object of a reply (fenced or bare), None when there is none."""
    text = clean(text[:_MOST])
    for _, code, _ in (*fences(text), ("", text, True)):
        start, tries = code.find("{"), 0
        while start >= 0 and tries < 50:
            try:
                value, _end = json.JSONDecoder().raw_decode(code, start)
            except (ValueError, RecursionError):
                start, tries = code.find("{", start + 1), tries + 1
                continue
            return value if isinstance(value, dict) else None
    return None
