"""What stands at a Python module's own level, also inside of `if`, `try` and `with`; and decorators that change nothing of what is computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SAME = frozenset(
    """
    torch.compile torch.compiler.disable torch._dynamo.disable torch.compiler.allow_in_graph torch._dynamo.allow_in_graph
    torch.jit.ignore torch.jit.unused torch.library.triton_op torch.library.custom_op
    torch.amp.custom_fwd torch.amp.custom_bwd torch.cuda.amp.custom_fwd torch.cuda.amp.custom_bwd
    """.split()
)
"""Decorators under which a function computes what it computes without them: compilers, registries, and what saves autocast's state."""
_CASTS = "cast_inputs"
"""what makes one of them another function: it rounds what it is given"""


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Return what names mean that a text imports: `tl` is `triton.language`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                found[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            found.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    return found


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the module's statements; of an `if`, `try` or `with` that defines functions or classes those in it, in order."""
    yield from (node for node, _ in placed(tree.body))


def placed(
    body: Sequence[ast.stmt], inside: tuple[ast.stmt, ...] = ()
) -> Iterator[tuple[ast.stmt, tuple[ast.stmt, ...]]]:
    """Yield such statements with what each stands in, the outermost first."""
    for node in body:
        if _is_open(node):
            for part in bodies(node):
                yield from placed(part, (*inside, node))
            for handler in getattr(node, "handlers", ()):
                yield from ((s, (*inside, node)) for s in handler.body)
        else:
            yield node, inside


def bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements of an `if`, `try` or `with`, but for what answers errors."""
    yield getattr(node, "body", [])
    yield getattr(node, "orelse", [])
    yield getattr(node, "finalbody", [])


def heads(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield what decides which of these statements run."""
    if isinstance(node, ast.If):
        yield node.test
    elif isinstance(node, ast.With):
        yield from node.items
    elif isinstance(node, ast.Try):
        yield from (h.type for h in node.handlers if h.type is not None)


def _is_open(node: ast.stmt) -> bool:
    if not isinstance(node, (ast.If, ast.Try, ast.With)) or is_script(node):
        return False
    return any(isinstance(s, _DEFINITIONS) or _is_open(s) for part in bodies(node) for s in part)


def is_script(node: ast.AST) -> bool:
    """Whether a statement is `if __name__ == ..:`, which no import runs."""
    return isinstance(node, ast.If) and any(
        isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test)
    )


def plain_decorators(tree: ast.Module) -> set[int]:
    """Return the ids of decorators under which a function computes the same: known by what the file imports, and by nothing that it binds itself."""
    known = imported_names(tree)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}  # fmt: skip
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, _DEFINITIONS)}
    found: set[int] = set()
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            root, _, rest = ast.unparse(called).partition(".")
            if root in known and root not in bound:
                full = f"{known[root]}.{rest}" if rest else known[root]
                given = decorator.keywords if isinstance(decorator, ast.Call) else []
                if full in _SAME and not any(k.arg in (_CASTS, None) for k in given):
                    found.add(id(decorator))
    return found


def own_decorators(tree: ast.Module) -> set[int]:
    """Return the ids of decorators that are functions of the file: what they do is read and run with it."""
    own = {n.name for n in statements(tree) if isinstance(n, ast.FunctionDef)}
    every = (d for n in ast.walk(tree) for d in getattr(n, "decorator_list", ()))
    return {id(d) for d in every if isinstance(d, ast.Name) and d.id in own}


def undecorated(text: str) -> str:
    """Return the text with such decorators made empty; lines stay."""
    tree = ast.parse(text)
    gone = plain_decorators(tree)
    lines = text.splitlines()
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            if id(decorator) in gone:
                last = decorator.end_lineno or decorator.lineno
                lines[decorator.lineno - 1 : last] = [""] * (last - decorator.lineno + 1)
    return "\n".join(lines) + "\n"
