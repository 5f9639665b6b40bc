"""What somebody's Python file may not say: imports, names and attributes that no kernel needs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from septran.backends.text.python_host import Stars, root_of
from septran.backends.text.python_module import imported_names
from septran.backends.text.python_scopes import local_names

UNMODELLED = "unmodelled"
"""the kind of what honest files say, too, and of which there is no model here: it accuses nobody, and is not run"""
_PLAIN_MODULES = frozenset(
    """
    abc array bisect calendar cmath copy csv datetime decimal difflib fractions graphlib heapq json keyword numbers pprint random re
    reprlib statistics string struct textwrap unicodedata uuid
    """.split()
)
"""of Python's own those that reach neither the machine nor the process"""
_WORDS = frozenset({"numpy"})
"""attributes that are also modules: `x.numpy()` reads values, `import numpy` may be for anything"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a file may say. imports: modules. names, attributes: words that it may not use; `torch.x` is that one only.

    kernel: whether a function is device code, which may use only imports of `device_roots`. handed: an attribute that may be
    given to these functions of the language, and to nothing else.
    """

    imports: frozenset[str]
    names: frozenset[str]
    attributes: frozenset[str]
    kernel: Callable[[ast.AST], bool]
    device_roots: frozenset[str]
    handed: tuple[str, frozenset[str]] = ("", frozenset())
    stars: Stars = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    """packages of which any module may be imported: what stands for them says what it lacks"""
    spared: frozenset[str] = frozenset()
    """full names that may be used although what they are in may not"""
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """modules that may be imported -> all of them that may be used"""
    called: frozenset[str] = frozenset()
    """full names that may be called and nothing else"""
    unmodelled: frozenset[str] = frozenset()
    """of `attributes` those that honest files use, too"""

    def may_import(self, module: str) -> bool:
        """Whether a file may import a module."""
        return module in self.imports or module.partition(".")[0] in self.packages

    def kind_of_import(self, module: str) -> str:
        """Return the kind of an import that is not allowed: hostile are insides, what stands beside the file in its child, and the machine's modules."""
        parts = module.split(".")
        names = {".".join(parts[: k + 1]) for k in range(len(parts))}
        own = any(p[:1] == "_" for p in parts) or parts[0].startswith("septran")
        of_python = parts[0] in sys.stdlib_module_names and parts[0] not in _PLAIN_MODULES
        hostile = own or of_python or names & (self.attributes - self.unmodelled - _WORDS)
        return "import" if hostile else UNMODELLED


def objections(text: str, rules: Rules) -> tuple[tuple[str, str, int], ...]:
    """Return (kind, what, line) of everything that `text` may not say."""
    tree = ast.parse(text)
    imported = imported_names(tree)
    own = local_names(tree) | set(_handed(tree, rules, imported))
    own |= {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _dotted(node, imported) in rules.spared
        for inner in ast.walk(node.value)
    }
    found = [
        one
        for node in ast.walk(tree)
        if id(node) not in own
        for one in _objection(node, rules, imported)
    ]
    found += _beyond(tree, rules, imported)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and rules.kernel(node):
            found += _in_kernel(node, rules, imported)
    return tuple(dict.fromkeys(found))


def _beyond(
    tree: ast.Module, rules: Rules, imported: Mapping[str, str]
) -> Iterator[tuple[str, str, int]]:
    """Yield what a text does with modules of which it may use little, and with functions that it may call only."""
    if not rules.only:
        return
    above = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module) in rules.only:
            for alias in node.names:
                if alias.name not in rules.only[str(node.module)]:
                    yield "import", f"imports {node.module}.{alias.name}", node.lineno
        if not isinstance(node, ast.Name) or node.id not in imported:
            continue
        name, at = imported[node.id], node
        while name in rules.only:
            outer = above[id(at)]
            if not (isinstance(outer, ast.Attribute) and outer.attr in rules.only[name]):
                yield "attribute", f"uses {name} for more than a version", node.lineno
                break
            name, at = f"{name}.{outer.attr}", outer  # type: ignore[assignment]
        outer = above[id(at)]
        if name in rules.called and not (isinstance(outer, ast.Call) and outer.func is at):
            yield "attribute", f"uses {name} without calling it", node.lineno


def _handed(tree: ast.Module, rules: Rules, imported: Mapping[str, str]) -> Iterator[int]:
    """Yield the ids of attributes `x.data` in `T.Tensor(shape, dtype, x.data)`, T being what was imported and nothing else."""
    word, takers = rules.handed
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}  # fmt: skip
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for call in ast.walk(tree) if word else ():
        match call:
            case ast.Call(ast.Attribute(ast.Name(root)) as func, args) if root not in bound:
                if _dotted(func, imported) in takers:
                    given = [*args, *(k.value for k in call.keywords)]
                    yield from (
                        id(a) for a in given if isinstance(a, ast.Attribute) and a.attr == word
                    )


def _objection(
    node: ast.AST, rules: Rules, imported: Mapping[str, str]
) -> Iterator[tuple[str, str, int]]:
    line = getattr(node, "lineno", 0)
    match node:
        case ast.Import(names=names):
            for alias in names:
                within = any(n.startswith(f"{alias.name}.") for n in rules.spared)
                if not (rules.may_import(alias.name) or within):
                    yield rules.kind_of_import(alias.name), f"imports {alias.name}", line
        case ast.ImportFrom(module=module, level=level, names=names):
            spared = {a.name for a in names if f"{module}.{a.name}" in rules.spared}
            if level:
                yield UNMODELLED, f"imports from {'.' * level}{module or ''}", line
            elif not rules.may_import(str(module)) and len(spared) < len(names):
                yield rules.kind_of_import(str(module)), f"imports from {module}", line
            for alias in (a for a in names if a.name not in spared):
                known = {alias.name, f"{module}.{alias.name}"} & rules.attributes
                inside = alias.name[:1] in ("_", "*") and alias.name != "__version__"
                if known or inside:
                    honest = not inside and known <= rules.unmodelled
                    kind = UNMODELLED if honest else "import"
                    yield kind, f"imports {module}.{alias.name}", line
        case ast.Name(id=word) if word in rules.names:
            yield "name", f"uses {word}", line
        case ast.Call(func=ast.Name(id="hasattr"), args=[of, *_]) if root_of(of) not in imported:
            yield (
                "name",
                f"asks what {ast.unparse(of)} has, which is another object in an interpreter",
                line,
            )
        case ast.Call(func=ast.Attribute() as called, args=[], keywords=[]) if (
            _dotted(called, imported) == "torch.finfo"
        ):
            yield "attribute", "asks torch.finfo() of torch's default dtype", line
        case ast.Attribute(attr="__name__", value=ast.Call()):
            yield (
                "attribute",
                "asks for the name of a class, which is another in an interpreter",
                line,
            )
        case ast.Attribute(attr=word):
            dotted = _dotted(node, imported)
            if isinstance(node.ctx, ast.Store) and dotted.startswith("torch.backends."):
                return
            if dotted and not isinstance(node.ctx, ast.Load):
                yield "attribute", f"changes {dotted}", line
            if word in rules.attributes or dotted in rules.attributes or _private(word):
                yield (
                    UNMODELLED if dotted in rules.unmodelled else "attribute",
                    f"uses {dotted if dotted in rules.attributes else f'.{word}'}",
                    line,
                )


def _dotted(node: ast.Attribute, imported: Mapping[str, str]) -> str:
    """Return the full name of an attribute of something imported, "" for any other."""
    parts, at = [node.attr], node.value
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    known = imported.get(at.id) if isinstance(at, ast.Name) else None
    return ".".join([known, *reversed(parts)]) if known else ""


def _private(word: str) -> bool:
    """Whether an attribute is somebody's inside; `kernel._init_handles()` is what tutorials call."""
    if word in ("_init_handles", "__init__", "__name__", "__version__", "_asdict", "_replace"):
        return False
    return word.startswith("_")


def _in_kernel(
    node: ast.FunctionDef, rules: Rules, imported: Mapping[str, str]
) -> Iterator[tuple[str, str, int]]:
    """Device code computes with its own language: anything else would only work in an interpreter."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load) and inner.id in imported:
            full = imported[inner.id]
            if full.split(".")[0] not in rules.device_roots:
                module = full if rules.may_import(full) else full.rpartition(".")[0] or full
                known = rules.may_import(module)
                yield (
                    "kernel" if known else rules.kind_of_import(module),
                    f"device code of {node.name} uses {imported[inner.id]}",
                    inner.lineno,
                )
