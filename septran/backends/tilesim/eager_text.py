"""Which functions under @tilelang.jit are kernels in eager style, told by their text; judges of text ask it, too."""

from __future__ import annotations

import ast


def eager_text(node: ast.FunctionDef) -> bool:
    """Whether the text of such a function launches or says what its tensors are; none with a function in it does."""
    inner = [n for stmt in node.body for n in ast.walk(stmt)]
    if any(isinstance(n, ast.FunctionDef) for n in inner):
        return False
    words = {
        n.func.attr for n in inner if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    }
    said = any(isinstance(n, ast.AnnAssign) and n.value is None for n in inner)
    return said or bool(words & {"Kernel", "const", "empty", "match_buffer"})


def tensors_of(node: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return parameter -> what the text says it is, of those that it says are tensors."""
    params = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    found = {p.arg: p.annotation for p in params if p.annotation and _is_tensor(p.annotation)}
    for stmt in ast.walk(node):
        match stmt:
            case ast.AnnAssign(ast.Name(name), kind, None) if _is_tensor(kind):
                found[name] = kind
    return {p.arg: found[p.arg] for p in params if p.arg in found}


def shape_of(kind: ast.expr) -> ast.expr | None:
    """Return the text of the shape in `T.Tensor((M, K), dtype)` and `T.Tensor[[M, K], dtype]`."""
    if isinstance(kind, ast.Call):
        return kind.args[0] if kind.args else None
    if isinstance(kind, ast.Subscript):
        return kind.slice.elts[0] if isinstance(kind.slice, ast.Tuple) else kind.slice
    return None


def _is_tensor(kind: ast.expr) -> bool:
    called = kind.func if isinstance(kind, ast.Call) else kind
    called = called.value if isinstance(called, ast.Subscript) else called
    return getattr(called, "attr", getattr(called, "id", "")) in (
        "Tensor",
        "StridedTensor",
        "Buffer",
    )
