"""What inline PTX reckons and compares, in the plain C++ that is read for sizes, atomics and the like; nothing compiles it."""

from __future__ import annotations

import re

from septran.backends.cuda.ptx.statements import translated
from septran.ir.brackets import closing, split_top

_WRAPPER = re.compile(
    r"(?:cuemu::ptx::(?:as|given|low)<\w+>|static_cast<(?:u?int\d+_t|cuemu::ptx::Twice<\w+>)>)\("
)
_SET = re.compile(r"cuemu::ptx::set\((\w+), ")
_CALL = re.compile(r"cuemu::ptx::(left|right|field)<\w+>\(")
_SAID = {
    "left": "({0}) << ({1})",
    "right": "({0}) >> ({1})",
    "field": "(({0}) >> ({1})) % (1 << ({2}))",
}
_LONG = re.compile(r"\b(\d+|0[xX][0-9a-fA-F]+)ll\b")


def shown(source: str) -> str:
    """Return the source with inline PTX as plain assignments and comparisons; lines stay. Sources without any are themselves."""
    text = translated(source)
    if text == source:
        return source
    text = _LONG.sub(r"\1", _SET.sub(r"\1 = (", _WRAPPER.sub("(", text)))
    while match := _CALL.search(text):
        end = closing(text, match.end() - 1, "(")
        args = split_top(text[match.end() : end], "(")
        text = f"{text[: match.start()]}({_SAID[match.group(1)].format(*args)}{text[end:]}"
    return text
