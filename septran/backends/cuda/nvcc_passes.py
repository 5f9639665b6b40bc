"""A CUDA file as nvcc reads it: once for the host, where `__CUDA_ARCH__` is not defined, and once for each architecture.

What the passes read differently is resolved here and nowhere else, so that one build holds what both make of the file: device
code as the device's pass reads it. What they may differ in is the bodies of device functions, which host code cannot call;
a signature, a type, a variable or a host function that depends on the pass is refused, as the two halves of a program
would not fit (CUDA C++ programming guide, "__CUDA_ARCH__").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from septran.backends.base import Reading, Unjudged
from septran.backends.cuda.device_conditions import Passes, resolved
from septran.backends.judged.c_host import blank
from septran.ir.brackets import closing

ARCHITECTURES = (900, 750, 800, 860, 890, 1000, 1200)
"""values of `__CUDA_ARCH__` that are tried, that of the card first: compute capabilities of cards in use"""
_MOST = 4
_SCOPE = re.compile(
    r"\b(?:namespace|struct|class|union|enum)\b[^()]*(?:(?:__align__|alignas|__attribute__)\s*\(+[^()]*\)+[^()]*)?$"
    r"|\bextern\s*$"
)
_NAME = re.compile(r"([~\w]+)\s*\(")
_MARKS = re.compile(r"\b(?:C10|AT)_(?:HOST_DEVICE|DEVICE)\b")


@dataclass(frozen=True, slots=True)
class _Body:
    """A function's body, from its brace to its last one. head: where its header starts."""

    header: str
    head: int
    start: int
    end: int


def readings(text: str) -> tuple[Reading, ...]:
    """Return each text that the device's passes make of a file, the card's first.

    Raises:
        Unjudged: the host's pass reads something else in what host code sees, or there are too many texts.
    """
    if "__CUDA_ARCH__" not in text:
        return (Reading("", text),)
    found: dict[str, list[int]] = {}
    for arch in ARCHITECTURES:
        found.setdefault(_reading(text, arch), []).append(arch)
    if len(found) > _MOST:
        raise Unjudged(
            _line(text),
            f"its text is another for {len(found)} architectures; {_MOST} at most are judged",
        )
    return tuple(
        Reading(
            f"__CUDA_ARCH__ is {' or '.join(map(str, archs))}" if len(found) > 1 else "", reading
        )
        for reading, archs in found.items()
    )


def _line(text: str) -> int:
    return text.count("\n", 0, text.index("__CUDA_ARCH__")) + 1


def _reading(text: str, arch: int) -> str:
    """Return the text that the device's pass reads, once the host's has been compared with it."""
    host, device = resolved(text, None), resolved(text, arch)
    depends = host.depends | device.depends
    marks = _qualifiers(device.text)
    on_host, on_device = _skeleton(host, marks), _skeleton(device, marks)
    for (line, one), (_, other) in zip(on_host, on_device, strict=False):
        if one != other:
            raise Unjudged(
                line, f"`{(one or other)[:60]}` depends on __CUDA_ARCH__, and host code sees it"
            )
    if len(on_host) != len(on_device):
        raise Unjudged(_line(text), "what host code sees depends on __CUDA_ARCH__")
    for line, part in on_device:
        if used := depends & set(re.findall(r"\w+", part)):
            raise Unjudged(
                line, f"{', '.join(sorted(used))} depends on __CUDA_ARCH__, and host code uses it"
            )
    return device.text


def _qualifiers(text: str) -> dict[str, str]:
    """Return the file's own names for `__host__` and its kin."""
    found = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.*)$", text, re.MULTILINE)
    return {
        name: value for name, value in found if re.search(r"\b__(?:host|device|global)__\b", value)
    }


def _skeleton(read: Passes, marks: dict[str, str]) -> list[tuple[int, str]]:
    """Return what host code sees of a text, with lines: all but functions that only device code can call."""
    plain = _without_directives(blank(read.text))
    shown = _without_directives(read.text)
    bodies = list(_bodies(plain))
    kinds = [_kind(b, marks) for b in bodies]
    called = " ".join(
        shown[b.start : b.end] for b, kind in zip(bodies, kinds, strict=True) if kind == "host"
    )
    parts, at = [], 0
    for body, kind in zip(bodies, kinds, strict=True):
        if kind == "device":
            parts.append((at, shown[at : body.head]))
        elif (kind == "both" and _only_device_calls(body, called)) or kind == "kernel":
            parts.append((at, shown[at : body.start]))
        else:
            continue
        at = body.end
    parts.append((at, shown[at:]))
    return [
        (read.text.count("\n", 0, place + match.start()) + 1, match.group())
        for place, part in parts
        for match in re.finditer(r"\S+", part)
    ]


def _only_device_calls(body: _Body, called: str) -> bool:
    name = _NAME.search(body.header)
    return name is not None and name[1] != "operator" and not re.search(rf"\b{name[1]}\b", called)


def _kind(body: _Body, marks: dict[str, str]) -> str:
    """Return who calls a function: host, device, both, or "kernel", whose signature the host sees."""
    words = {
        w
        for name in re.findall(r"\w+", _MARKS.sub(_plain_mark, body.header))
        for w in marks.get(name, name).split()
    }
    if "__global__" in words:
        return "kernel"
    if "__device__" not in words:
        return "host"
    return "both" if "__host__" in words or "constexpr" in words else "device"


def _plain_mark(match: re.Match[str]) -> str:
    return "__host__ __device__" if "HOST" in match.group() else "__device__"


def _without_directives(text: str) -> str:
    return re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        lambda m: re.sub(r"[^\n]", " ", m.group()),
        text,
        flags=re.MULTILINE,
    )


def _bodies(plain: str) -> list[_Body]:
    """Return the bodies of functions, also of those in namespaces and types."""
    found, head, at = [], 0, 0
    while at < len(plain):
        ch = plain[at]
        if ch == "{":
            header = plain[head:at]
            if _SCOPE.search(header):
                head = at + 1
            else:
                end = min(closing(plain, at, "{") + 1, len(plain))
                if not header.rstrip().endswith(("=", "]", ",", "(", "return")) and ")" in header:
                    found.append(_Body(header, head, at, end))
                    head = end
                at = end - 1
        elif ch in ";}":
            head = at + 1
        at += 1
    return found
