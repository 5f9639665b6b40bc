"""The generated frame around the hole that a model fills, and the way back from a reply to a leaf.

Frames are data: agents/coder/frames/<language>.j2 renders the text around the hole. The signature is always
generated, so a reply can decide nothing but the body, and the gate (septran.leafgate) prints what is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from septran import assets, spanyaml
from septran.agent.contract import broadcast_indices
from septran.backends.base import Backend
from septran.kernel import Leaf, LeafSpec
from septran.leafgate import Refusal, printed

HOLE = "@@BODY@@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Text with one HOLE. braces: a C-like language; else Python. indent: of the hole's lines."""

    text: str
    language: str
    braces: bool
    indent: str
    tags: tuple[str, ...]
    kind: str
    plain: str
    """the same function with nothing but the hole: for a reply that brings its own loops"""
    spec: LeafSpec
    signature: str
    subset: str
    """what a body may say: configs/leaves/<subset>.yaml"""

    @property
    def shown(self) -> str:
        """The frame as a prompt shows it."""
        mark = "// YOUR CODE" if self.braces else "# YOUR CODE"
        return self.text.replace(HOLE, mark)

    def around(self, body: str) -> str:
        """Return the text around the hole that `body` is meant for."""
        return self.plain if self.kind == "loops" and brings_loops(body) else self.text

    def fill(self, body: str) -> str:
        """Return the frame with `body` in the hole, indented."""
        lines = [self.indent + line if line.strip() else "" for line in body.splitlines()]
        text = self.around(body)
        hole = next(line for line in text.splitlines() if HOLE in line)
        return text.replace(hole, hole.replace(self.indent + HOLE, HOLE)).replace(
            HOLE, "\n".join(lines)
        )

    def leaf(self, body: str, *, writer: str, name: str) -> Leaf:
        """Return the leaf with `body`, as the gate prints it.

        Raises:
            Refusal: with the line in `body`.
        """
        leaf = Leaf(spec=self.spec, writer=writer, name=name, source=self.fill(body))
        above = self.around(body).partition(HOLE)[0].count("\n")
        try:
            return printed(leaf, signature=self.signature, subset=self.subset)
        except Refusal as why:
            raise Refusal(max(1, why.line - above), why.what, why.instead) from None


def make_frame(spec: LeafSpec, backend: Backend, kind: str) -> Frame:
    """Return the frame of a spec. kind "loops" falls back to "body" where loops are not simple.

    Raises ConfigError C001 when the language has no frame.
    """
    rules = spanyaml.load(assets.find(f"agents/coder/frames/{backend.language}.yaml").path).value
    loops = loop_nest(spec) if kind == "loops" and rules.get("loops") else None
    template = assets.environment("agents").get_template(f"coder/frames/{backend.language}.j2")
    known = {"signature": backend.signature(spec).rstrip(), "spec": spec, "hole": HOLE}
    helpers = loops if loops and loops.get("functions") else None
    plain = template.render(loops=None, helpers=helpers, **known)
    text = template.render(loops=loops, helpers=helpers, **known) if loops else plain
    line = next(line for line in text.splitlines() if HOLE in line)
    return Frame(
        text=text,
        language=backend.language,
        braces=bool(rules["braces"]),
        indent=line[: line.index(HOLE)],
        tags=tuple(rules["tags"]),
        kind="loops" if loops else "body",
        plain=plain,
        spec=spec,
        signature=backend.signature(spec),
        subset=backend.subset or backend.language,
    )


def loop_nest(spec: LeafSpec) -> dict[str, object] | None:
    """Return what a frame with loops needs, for a leaf of one primitive of a simple form, else None.

    kind: map or gemm. out, letters: the loops. operands: (name, parameter, indices) of a map, an index being a loop's number or
    None for 0. What is declared hides no parameter: `a` and `l` are tensors of some users.
    """
    if len(spec.prims) != 1:
        return None
    prim = spec.prims[0]
    shapes = {p.name: p.shape for p in spec.params}
    dtypes = {p.name: p.dtype for p in spec.params}
    rank = len(shapes[prim.out])
    common = {
        "out": prim.out,
        "rank": rank,
        "dtype": dtypes[prim.out],
        "compute": "double" if "float64" in dtypes.values() else "float",
    }
    if prim.name == "map":
        expr = str(prim.attr("expr"))
        if any(word in expr for word in ("index(", "**")):
            return None
        called = dict.fromkeys(re.findall(r"\b([a-z]\w*)\s*\(", expr))
        named = [(n, p) for n, p in prim.named if n != p or p in shapes]
        own = _apart([n for n, _ in named], {*shapes, *called})
        free = {*shapes, *called, *own.values()}
        operands = [
            {
                "name": own[n],
                "param": p,
                "at": broadcast_indices(shapes[p], shapes[prim.out]) if p in shapes else None,
            }
            for n, p in named
        ]
        return {
            **common,
            "kind": "map",
            "letters": list(_apart(_LETTERS[:rank], free).values()),
            "value": _apart(["value"], free)["value"],
            "operands": operands,
            "expr": _WORD.sub(lambda word: own.get(word[0], word[0]), expr),
            "functions": tuple(called),
        }
    if prim.name in ("gemm", "gemm_acc") and all(len(shapes[n]) == 2 for n in prim.ins):
        if len(shapes[prim.out]) != 2 or any(p.layout != "row" for p in spec.params):
            return None
        return {
            **common,
            "kind": "gemm",
            "own": _apart(["i", "j", "k", "a", "b", "sum"], set(shapes)),
            "a": prim.ins[0],
            "b": prim.ins[1],
            "trans_a": bool(prim.attr("trans_a")),
            "trans_b": bool(prim.attr("trans_b")),
            "acc": prim.name == "gemm_acc",
        }
    return None


_LETTERS = ("i", "j", "k", "l", "m")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?!\s*\()")
"""a name in an expression that is not called, nor the e of a number"""


def _apart(wanted: Sequence[str], taken: AbstractSet[str]) -> dict[str, str]:
    """Return wanted name -> the name to declare, which is none of `taken` and no other's."""
    found: dict[str, str] = {}
    for word in wanted:
        name = word
        while name in taken or name in found.values():
            name += "_"
        found[word] = name
    return found


def brings_loops(body: str) -> bool:
    """Return whether a body meant for the inside of generated loops loops over an extent itself."""
    return re.search(r"\bfor\s*\([^)]*\.n\[", strip_comments(body, braces=True)) is not None


def assemble(frame: Frame, body: str, spec: LeafSpec, writer: str, name: str) -> Leaf:
    """Return the leaf whose source is the frame around `body`, as the gate prints it.

    Raises:
        Refusal: when `body` is not part of the language's subset (`body_problem` says so, too).
    """
    return replace(frame, spec=spec).leaf(body, writer=writer, name=name)


def body_problem(frame: Frame, body: str) -> str:
    """Return why `body` cannot go into the frame, "" when it can: what a writer is told."""
    try:
        frame.leaf(body, writer="", name="")
    except Refusal as why:
        return f"not a leaf of this target: line {why.line} of the body: {why.sentence}"
    return ""


C_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_PY_TOKENS = re.compile(r'#[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')


def strip_comments(text: str, *, braces: bool) -> str:
    """Return code without comments and with empty string literals."""

    def blank(match: re.Match[str]) -> str:
        return match[0][0] * 2 if match[0][0] in "\"'" else " "

    return (C_TOKENS if braces else _PY_TOKENS).sub(blank, text)
