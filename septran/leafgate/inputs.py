"""A leaf writes what it is given to write: a tile that it only reads is the destination of nothing, under no name.

Judged alone, a leaf that spoils an input once it has its results is right; in a kernel that reads the tile again it is wrong. Where
nothing watches a language's tiles its text is asked: `written` of configs/leaves/ says which argument of a call is the destination.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from septran import assets, spanyaml
from septran.kernel import LeafSpec
from septran.leafgate.refusal import Refusal

_CALL = re.compile(r"\b(\w+)\s*\(")
_MADE = re.compile(r"\b\w+\s*=(?!=)[^;]*;")
_SET = re.compile(r"(?<![=!<>+*/%&|^-])=(?!=)")
_NAMES_OF_NAMES = 8
_DESTINATIONS = ("dst", "out", "c", "C")


def refuse_written_inputs(text: str, spec: LeafSpec, subset: str) -> None:
    """Raise Refusal where a leaf writes a parameter that it only reads, or a part or another name of one."""
    written = _written(subset)
    read = {p.name for p in spec.params if "w" not in p.privilege} - set(spec.unread)
    if not written or not read:
        return
    python = text.lstrip().startswith(("def ", "@"))
    found = _in_python(text, read, written) if python else _in_c(text, read, written)
    if found is not None:
        line, name = found
        raise Refusal(line, f"{name} is written", "it is only read: write a tile of the leaf's own")


@functools.cache
def _written(subset: str) -> dict[str, int]:
    value = spanyaml.load(assets.find(f"configs/leaves/{subset}.yaml").path).value
    pairs = (word.split(":") for word in str(value.get("written") or "").split())
    return {name: int(at) for name, at in pairs}


def _in_c(text: str, read: set[str], written: dict[str, int]) -> tuple[int, str] | None:
    body = text[text.find("{") :]
    before = text[: text.find("{")].count("\n")
    names = set(read)
    for _ in range(_NAMES_OF_NAMES):
        names |= {name for name, value in _made(body) if _is_tile(value, names)}
    for call in _CALL.finditer(body):
        if call[1] in written:
            args = _arguments(body[call.end() :])
            at = args[min(written[call[1]], len(args) - 1)].strip()
            if _is_tile(at, names):
                return 1 + before + body.count("\n", 0, call.start()), at
    return None


def _made(body: str) -> Iterator[tuple[str, str]]:
    """Yield each name that is given a value, and the value: `x = a, y = b;` are two, `x = y = a;` two of one."""
    for statement in _MADE.finditer(body):
        for one in _arguments(statement[0].removesuffix(";")):
            *names, value = _SET.split(one)
            yield from ((word[0], value) for n in names if (word := re.search(r"\w+(?=\s*$)", n)))


def _is_tile(value: str, names: set[str]) -> bool:
    """Whether a value is one of these tiles, a part of one or made of its address; `x.rows` is a number."""
    return any(
        re.search(rf"(?<![\w.]){re.escape(n)}\b(?!\s*(?:\.(?!\s*addr\b)|\[|=))", value)
        for n in names
    )


def _arguments(text: str) -> list[str]:
    """Return the arguments of a call whose text begins after its parenthesis."""
    found, depth = [""], 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            break
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


def _in_python(text: str, read: set[str], written: dict[str, int]) -> tuple[int, str] | None:
    tree = ast.parse(text)
    names = set(read)
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Assign)]
    for _ in range(_NAMES_OF_NAMES):
        for one in made:
            if _root(one.value) in names:
                names |= {t.id for t in one.targets if isinstance(t, ast.Name)}
    for node in ast.walk(tree):
        for at in _destinations(node, written):
            if _root(at) in names:
                return at.lineno, ast.unparse(at)
    return None


def _destinations(node: ast.AST, written: dict[str, int]) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return [t for t in targets if isinstance(t, ast.Subscript)]
        case ast.AugAssign(target=target):
            return [target]
        case ast.Call(func=ast.Attribute(attr=name), args=args, keywords=keywords):
            found = [k.value for k in keywords if k.arg in _DESTINATIONS]
            if name in written and args:
                found.append(args[min(written[name], len(args) - 1)])
            return found
    return []


def _root(node: ast.expr) -> str:
    """Return the name of a tile or of the tile that a part is of, "" for anything else."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
