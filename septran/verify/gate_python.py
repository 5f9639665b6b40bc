"""What a Python DSL leaf may say, decided on its syntax tree."""

from __future__ import annotations

import ast
from typing import Any

from septran import assets, spanyaml
from septran.verify.gate_types import Finding


def scan_python(source: str, *, name: str, language: str = "python") -> list[Finding]:
    """Return imports, names, attributes and statements that a leaf may not contain.

    language: of the target; `configs/gates/<language>.yaml` says what it may hold besides (imports) and which
    refused words it may use (allow).
    """
    rules = _rules(language)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [Finding(kind="syntax", what=str(error)[:200], where=name)]
    found: list[Finding] = []
    for node in ast.walk(tree):
        what = _objection(node, rules)
        if what:
            line = getattr(node, "lineno", 0)
            found.append(Finding(kind=what[0], what=what[1], where=f"{name}:{line}"))
    return found


def _rules(language: str) -> dict[str, Any]:
    rules = spanyaml.load(assets.find("configs/gate.yaml").path).value["python"]
    own = f"configs/gates/{language}.yaml"
    if not assets.exists(own):
        return dict(rules)
    more = spanyaml.load(assets.find(own).path).value
    allowed = more.get("allow", ())
    found = {part: [word for word in words if word not in allowed] for part, words in rules.items()}
    return {**found, "imports": [*rules["imports"], *more.get("imports", ())]}


def _objection(node: ast.AST, rules: dict[str, Any]) -> tuple[str, str] | None:
    match node:
        case ast.Import(names=names):
            for alias in names:
                if alias.name not in rules["imports"]:
                    return "import", f"imports {alias.name}"
        case ast.ImportFrom(module=module, level=level, names=names):
            for alias in names:
                word = alias.name
                if word in rules["modules"] or word in rules["names"] or word[:1] in ("_", "*"):
                    return "import", f"imports {word}"
            if level or module not in rules["imports"]:
                return "import", f"imports from {'.' * level}{module or ''}"
        case ast.Name(id=word):
            if word in rules["names"] or (word.startswith("__") and word.endswith("__")):
                return "name", f"uses {word}"
        case ast.Attribute(attr=word, value=ast.Name(id=base)) if base in rules["library_names"]:
            return "library", f"computes with {base}.{word}"
        case ast.Attribute(attr=word, value=base_node):
            ours = isinstance(base_node, ast.Name) and base_node.id in rules["languages"]
            if word in rules["methods"] and not ours:
                return "library", f"computes with the tensor library's .{word}"
            if word.startswith("_") or word in rules["attributes"] or word in rules["modules"]:
                return "attribute", f"uses .{word}"
        case ast.JoinedStr():
            return "statement", "formats values"
        case ast.MatMult():
            return "library", "uses @ (the tensor library's product)"
        case ast.Try() | ast.TryStar() | ast.Raise():
            return "statement", "handles or raises exceptions"
        case ast.Global() | ast.Nonlocal():
            return "statement", "keeps state outside the kernel"
        case ast.ClassDef():
            return "statement", "defines a class"
        case ast.AsyncFunctionDef() | ast.Await() | ast.Yield() | ast.YieldFrom():
            return "statement", "suspends execution"
        case ast.keyword(arg=None) | ast.Starred():
            return "statement", "unpacks arguments"
        case _:
            return None
    return None
