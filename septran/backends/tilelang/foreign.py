"""TileLang files that SepTran did not write: their host function or factory, what they may say, how they are run on the CPU."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from septran.backends.base import Built, Foreign, Host, HostParam, Maker
from septran.backends.device.simulated import write_simulated
from septran.backends.judged import python_file
from septran.backends.judged.py_sizes import sizes_asked
from septran.backends.judged.python_file import (
    ATTRIBUTES,
    IMPORTS,
    MODULE,
    NAMES,
    as_kernel,
    asks_device,
    between_calls,
    host_params,
    lay_torch_host,
    refusals,
)
from septran.backends.text.python_host import Rules, decorators, host_functions
from septran.kernel import Kernel

_DEVICE = ("prim_func", "macro")
_DEVICES = (("an H100", "sm_90a"), ("an A100", "sm_80"), ("an RTX 5090", "sm_120a"))
_MAKERS = ("jit", "lazy_jit", "autotune")


def _is_kernel(node: ast.AST) -> bool:
    """Whether a function is device code: `@T.prim_func`, `@T.macro`."""
    return isinstance(node, ast.FunctionDef) and any(w in _DEVICE for w, _ in decorators(node))


_RULES = Rules(
    imports=IMPORTS
    | frozenset(
        """
        tilelang tilelang.language tilelang.autotuner tilelang.jit tilelang.profiler tilelang.testing tilelang.utils
        tilelang.intrinsics tilelang.layout tilelang.carver tilelang.utils.target tilelang.cache
        """.split()
    ),
    names=NAMES,
    # words of the simulator's own objects: device code reaches arrays through its language only
    attributes=ATTRIBUTES
    | {"data", "owner", "ready", "machine", "whole", "claim", "interpreter", "walk"},
    kernel=_is_kernel,
    device_roots=frozenset({"tilelang", "math", "typing", "__future__"}),
)


def hosts(text: str) -> tuple[Host, ...]:
    """Return `ModelNew`, else functions that launch what the file's factories make, else the factories themselves."""
    if (found := host(text, MODULE)) is not None:
        return (found,)
    tree = ast.parse(text)
    makers = _makers(tree)
    names = {m.name for m in makers} | {n.name for n in tree.body if _is_kernel(n)}  # type: ignore[attr-defined]

    def launches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        called = node.func
        word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return word in names or ast.unparse(called) == "tilelang.compile"

    direct = [
        f
        for f in host_functions(text, lambda n: _is_kernel(n) or n in makers, launches)
        if not _only_numbers(tree, f.name)
    ]
    if direct:
        return tuple(Host(name=f.name, line=f.line, params=host_params(f.params)) for f in direct)
    plain = [n for n in tree.body if isinstance(n, ast.FunctionDef) and _is_kernel(n)]
    return tuple(made for m in (*makers, *plain) if (made := host(text, m.name)) is not None)


def host(text: str, name: str) -> Host | None:
    """Return the function, module or factory `name`, None when the file has none at module level."""
    found, tree = python_file.host(text, name), ast.parse(text)
    for node in tree.body if found is None or not found.module else ():
        if isinstance(node, ast.FunctionDef) and node.name == name:
            if _is_kernel(node):
                return Host(name=name, line=node.lineno, params=_tensors(node, ()))
            if node in _makers(tree):
                return _made(tree, node)
    return found


def _makers(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the functions at module level that define a prim_func and return it."""
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not _is_kernel(node)
        and any(_is_kernel(inner) for inner in ast.walk(node))
        and (any(w in _MAKERS for w, _ in decorators(node)) or _returns_kernel(node))
    ]


def _returned(node: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return the prim_func that a factory gives back, None when the text does not say which."""
    inner = {n.name: n for n in ast.walk(node) if isinstance(n, ast.FunctionDef) and _is_kernel(n)}
    last = node.body[-1]
    name = getattr(last.value, "id", "") if isinstance(last, ast.Return) else ""
    return inner.get(name)


def _returns_kernel(node: ast.FunctionDef) -> bool:
    return _returned(node) is not None


def _made(tree: ast.Module, node: ast.FunctionDef) -> Host:
    """Return a factory: what its kernel is called with, and what the factory needs."""
    prim = _returned(node)
    args = [*node.args.args, *node.args.kwonlyargs]
    first = len(node.args.args) - len(node.args.defaults)
    defaults = {a.arg for a in node.args.args[first:]}
    defaults |= {
        a.arg for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d
    }
    params = tuple(HostParam(name=a.arg, default=a.arg in defaults) for a in args)
    outs = _out_idx(node, 0 if prim is None else len(prim.args.args))
    tensors = () if prim is None else _tensors(prim, outs)
    shapes = () if prim is None else tuple(_shape(a, node) for a in prim.args.args)
    dims = tuple(tuple(p.id if isinstance(p, ast.Name) else "" for p in s) for s in shapes)
    inputs = tuple(d for k, d in enumerate(dims) if k not in outs)
    results = tuple(d for k, d in enumerate(dims) if k in outs)
    maker = Maker(params=params, dims=(*inputs, *results), shown=_shown(tree, node, shapes))
    return Host(name=node.name, line=node.lineno, params=tensors, maker=maker)


def _tensors(prim: ast.FunctionDef, outs: tuple[int, ...]) -> tuple[HostParam, ...]:
    return tuple(HostParam(name=a.arg) for k, a in enumerate(prim.args.args) if k not in outs)


def _out_idx(node: ast.FunctionDef, count: int) -> tuple[int, ...]:
    """Return which parameters of the kernel @tilelang.jit makes results of."""
    for word, decorator in decorators(node):
        if word in ("jit", "lazy_jit") and isinstance(decorator, ast.Call):
            for keyword in decorator.keywords:
                if keyword.arg == "out_idx" and count:
                    value = ast.literal_eval(keyword.value)
                    listed = value if isinstance(value, list | tuple) else [value]
                    return tuple(int(k) % count for k in listed)
    return ()


def _shape(arg: ast.arg, factory: ast.FunctionDef) -> tuple[ast.expr, ...]:
    """Return the extents of `A: T.Tensor((M, K), dtype)`, also where they are a list that the factory names."""
    note = arg.annotation
    if not isinstance(note, ast.Call) or not note.args:
        return ()
    shape = note.args[0]
    if isinstance(shape, ast.Name):
        shape = _told(factory).get(shape.id, shape)
    return tuple(shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape])


def _shown(
    tree: ast.Module, node: ast.FunctionDef, shapes: Sequence[Sequence[ast.expr]]
) -> tuple[tuple[str, object], ...]:
    """Return the plain values with which the file itself calls a factory, from its first such call.

    A name stands for its value where all of the file gives it one and the same; `**config` for a dict that is written out.
    Not so for what makes extents: those are the reference's, and a demonstration has others.
    """
    extents = {n.id for s in shapes for e in s for n in ast.walk(e) if isinstance(n, ast.Name)}
    names = [a.arg for a in node.args.args]
    told = _told(tree)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == node.name:
            given = [*zip(names, call.args, strict=False)]
            for k in call.keywords:
                if k.arg is not None:
                    given.append((k.arg, k.value))
                    continue
                spread = told.get(k.value.id) if isinstance(k.value, ast.Name) else k.value
                if isinstance(spread, ast.Dict):
                    given += [
                        (str(key.value), value)
                        for key, value in zip(spread.keys, spread.values, strict=True)
                        if isinstance(key, ast.Constant)
                    ]
            plain = [
                (n, told.get(v.id) if isinstance(v, ast.Name) and n not in extents else v)
                for n, v in given
            ]
            return tuple((n, v.value) for n, v in plain if isinstance(v, ast.Constant))
    return ()


def _told(tree: ast.AST) -> dict[str, ast.expr]:
    """Return name -> what it is bound to, of names that the whole file binds to one and the same text."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                parts: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    parts = [*zip(target.elts, node.value.elts, strict=False)]
                for name, value in parts:
                    if isinstance(name, ast.Name):
                        found.setdefault(name.id, []).append(value)
        elif isinstance(node, ast.FunctionDef):
            last = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            for arg, default in zip(last, node.args.defaults, strict=True):
                found.setdefault(arg.arg, []).append(default)
    return {n: v[0] for n, v in found.items() if len({ast.unparse(one) for one in v}) == 1}


def _only_numbers(tree: ast.Module, name: str) -> bool:
    """Whether a function is a demonstration: no parameter at all, or numbers by annotation or default only."""
    node = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    args = [*node.args.posonlyargs, *node.args.args]
    numbers = [
        a
        for a in args
        if ast.unparse(a.annotation or ast.Constant(None)) in ("int", "str", "bool", "float")
    ]
    first = len(args) - len(node.args.defaults)
    return all(a in numbers or k >= first for k, a in enumerate(args))


def build(kernel: Kernel, folder: Path) -> Built:
    """Write the file and the simulator beside it; nothing is compiled."""
    artifact = write_simulated(kernel, folder)
    lay_torch_host(folder)
    return Built(
        ok=True, artifact=artifact, command=f"{kernel.main} in SepTran's TileLang simulator"
    )


FOREIGN = Foreign(
    suffixes=(".py",),
    marks=("import tilelang", "from tilelang"),
    hosts=hosts,
    host=host,
    kernel=partial(as_kernel, backend="tilelang_cuda"),
    objections=partial(refusals, rules=_RULES),
    build=build,
    loader="tilelang_host.py.j2",
    readings=partial(asks_device, archs=_DEVICES),
    between_calls=between_calls,
    sizes=sizes_asked,
    mixes=True,
    session=(("call_timeout_s", 60.0), ("budget_s", 40.0), ("alignment", 16)),
    unchecked=(
        "compile for a GPU: launches ran in SepTran's TileLang simulator, no code was generated",
        "races inside one block: TileLang's compiler places the barriers between its tile operations",
        "layouts, swizzles and what a schedule does to pipelined copies",
        "time: nothing was measured",
    ),
)
