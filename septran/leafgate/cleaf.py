"""A leaf in a C-family language: the generated signature, and a body of the subset."""

from __future__ import annotations

import re

from septran.kernel import LeafSpec
from septran.leafgate.layout import text_of
from septran.leafgate.names import Scopes, language
from septran.leafgate.refusal import Refusal
from septran.leafgate.statements import Statements
from septran.leafgate.tokens import indents, tokens


def print_body(body: str, *, names: tuple[str, ...], of: str, threads: bool = False) -> str:
    """Return the text of `{ .. }` as it may be compiled.

    names: the leaf's arguments. of: cpp, cuda or c. threads: the contract lets the leaf start threads.

    Raises:
        Refusal: with the line in `body`.
    """
    subset = language(of)
    parser = Statements(tokens(body), subset, Scopes(subset, names), threads=threads)
    if parser.now.text != "{":
        parser.refuse("the body does not begin with {")
    tree = parser.block()
    if parser.now.kind != "end":
        parser.refuse("the text leaves the function", "return the body only")
    parser.settle()
    return text_of(tree, indents(body))


def print_leaf(source: str, *, signature: str, spec: LeafSpec, of: str) -> str:
    """Return a whole leaf as it may be compiled: the generated signature and the printed body.

    Raises:
        Refusal: also when `source` does not begin with `signature` (spaces and comments aside).
    """
    at = source.find("{")
    head = source[: at if at >= 0 else len(source)]
    if _squeezed(head) != _squeezed(signature):
        raise Refusal(1, f"the leaf does not begin with its signature `{signature.strip()}`", "")
    body = "\n" * head.count("\n") + source[at:]
    names = (*(p.name for p in spec.params), *(name for name, _ in spec.scalars), "scratch")
    printed = print_body(body, names=names, of=of, threads=spec.proc == "HOST")
    return f"{signature.rstrip()} {printed.lstrip(chr(10))}\n"


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL))
