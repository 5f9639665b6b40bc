"""TileLang files that SepTran did not write: their host function or factory, what they may say, how they are run on the CPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from septran.backends.base import Built, Foreign, Host, HostParam, Maker
from septran.backends.device.simulated import write_simulated
from septran.backends.judged import python_file, python_versions
from septran.backends.judged.py_sizes import sizes_asked
from septran.backends.judged.python_file import (
    ATTRIBUTES,
    IMPORTS,
    MODULE,
    NAMES,
    ON_DEVICE,
    UNMODELLED,
    as_kernel,
    between_calls,
    host_params,
    lay_torch_host,
    readings,
    refusals,
)
from septran.backends.judged.python_imports import merged
from septran.backends.text.python_host import decorators, host_functions
from septran.backends.text.python_module import statements
from septran.backends.text.python_rules import Rules
from septran.backends.tilelang.foreign_lowered import lowered
from septran.backends.tilesim.eager_text import eager_text, shape_of, tensors_of
from septran.kernel import Kernel

_DEVICE = ("prim_func", "macro")
_DEVICES = (("an H100", "sm_90a"), ("a slice of an A100", "sm_80"), ("an RTX 5090", "sm_120a"))
_MAKERS = ("jit", "lazy_jit", "autotune")


def _is_kernel(node: ast.AST) -> bool:
    """Whether a function is device code: `@T.prim_func`, `@T.macro`, or a kernel in eager style."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(w in _DEVICE for w, _ in decorators(node)) or _is_eager(node)


def _is_eager(node: ast.AST) -> bool:
    """Whether a function under `@tilelang.jit` is called with tensors itself."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(w in _MAKERS for w, _ in decorators(node)) and eager_text(node)


_RULES = Rules(
    imports=IMPORTS | python_versions.IMPORTS,
    names=NAMES,
    # words of the simulator's own objects: device code reaches arrays through its language only
    attributes=(ATTRIBUTES - python_versions.ATTRIBUTES)
    | set(
        "data owner ready machine whole claim interpreter walk read write buffer inside unwritten".split()
    ),
    only=python_versions.ONLY,
    called=python_versions.CALLED,
    unmodelled=UNMODELLED,
    kernel=_is_kernel,
    device_roots=frozenset({"tilelang", "math", "typing", "__future__", "tvm"}),
    handed=("data", frozenset({"tilelang.language.Tensor", "tilelang.language.Buffer"})),
    stars={"tilelang.autotuner": ("autotune",)},
    packages=("tilelang", "tvm"),
)


def hosts(text: str) -> tuple[Host, ...]:
    """Return `ModelNew`, else functions that launch what the file's factories make, else the factories themselves."""
    if (module := host(text, MODULE)) is not None:
        return (module,)
    tree = ast.parse(text)
    makers = _makers(tree)
    names = {m.name for m in makers} | {n.name for n in statements(tree) if _is_kernel(n)}  # type: ignore[attr-defined]

    others = {
        a.asname or a.name.partition(".")[0]
        for n in ast.walk(tree)
        if isinstance(n, ast.Import)
        for a in n.names
    }

    def launches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        called = node.func
        of = ast.unparse(called)
        word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        own = of.partition(".")[0] not in others  # `scipy.linalg.hadamard` is not the file's
        return (word in names and own) or of == "tilelang.compile"

    eager = [n for n in statements(tree) if isinstance(n, ast.FunctionDef) and _is_eager(n)]
    direct = [
        f
        for f in host_functions(text, lambda n: _is_kernel(n) or n in makers, launches)
        if not _only_numbers(tree, f.name)
    ]
    plain = [
        n
        for n in statements(tree)
        if isinstance(n, ast.FunctionDef) and any(w == "prim_func" for w, _ in decorators(n))
    ]
    own = [m for m in makers if any(w in _MAKERS for w, _ in decorators(m))]
    kernels = [*((m, 1) for m in (*eager, *own)), *((m, 2) for m in makers if m not in own)]
    found = [
        Host(name=f.name, line=f.line, params=host_params(f.params), gives=f.gives) for f in direct
    ]
    for node, tier in (*kernels, *((n, 3) for n in plain)):
        made = host(text, node.name)
        found += [] if made is None else [replace(made, tier=tier)]
    return tuple(found)


def host(text: str, name: str) -> Host | None:
    """Return the function, module or factory `name`, None when the file has none at module level."""
    found, tree = python_file.host(text, name), ast.parse(text)
    for node in statements(tree) if found is None or not found.module else ():
        if isinstance(node, ast.FunctionDef) and node.name == name:
            if _is_eager(node):
                return _eager(tree, node)
            if _is_kernel(node):
                return Host(name=name, line=node.lineno, params=_tensors(node, ()))
            if node in _makers(tree):
                return _made(tree, node)
    return found


def _makers(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the functions at module level that define a prim_func and return it."""
    return [
        node
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef)
        and not _is_kernel(node)
        and any(_is_kernel(inner) for inner in ast.walk(node))
        and (any(w in _MAKERS for w, _ in decorators(node)) or _returns_kernel(node))
    ]


def _returned(node: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return the prim_func that a factory gives back, None when the text does not say which."""
    inner = {n.name: n for n in ast.walk(node) if isinstance(n, ast.FunctionDef) and _is_kernel(n)}
    for given in _gives(node.body):
        while isinstance(
            given, ast.IfExp
        ):  # two ways to compute one thing: they take the same tensors
            given = given.body
        if (found := inner.get(getattr(given, "id", ""))) is not None:
            return found
    return None


def _gives(body: Sequence[ast.stmt]) -> Iterator[ast.expr | None]:
    """Yield what a function returns, not what functions in it do."""
    for stmt in body:
        if isinstance(stmt, ast.Return):
            yield stmt.value
        elif isinstance(stmt, ast.If):
            yield from _gives([*stmt.body, *stmt.orelse])


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


def _eager(tree: ast.Module, node: ast.FunctionDef) -> Host:
    """Return a kernel in eager style: its tensors are what it is called with, the rest is what it is made for."""
    kinds = tensors_of(node)
    args = [*node.args.posonlyargs, *node.args.args]
    first = len(args) - len(node.args.defaults)
    defaults = {a.arg for a in args[first:]}
    defaults |= {
        a.arg for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d
    }
    rest = [a.arg for a in (*args, *node.args.kwonlyargs) if a.arg not in kinds]
    shapes = tuple(_extents(shape_of(kind), node) for kind in kinds.values())
    dims = tuple(tuple(e.id if isinstance(e, ast.Name) else "" for e in s) for s in shapes)
    params = tuple(HostParam(name=n, default=n in defaults) for n in rest)
    maker = Maker(params=params, dims=dims, shown=_shown(tree, node, shapes))
    tensors = tuple(HostParam(name=n) for n in kinds)
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
    return _extents(None if arg.annotation is None else shape_of(arg.annotation), factory)


def _extents(shape: ast.expr | None, factory: ast.FunctionDef) -> tuple[ast.expr, ...]:
    """Return the extents that a shape's text lists."""
    if shape is None:
        return ()
    if isinstance(shape, ast.Name):
        shape = _told(factory).get(shape.id, shape)
    return tuple(shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape])


def _shown(
    tree: ast.Module, node: ast.FunctionDef, shapes: Sequence[Sequence[ast.expr]]
) -> tuple[tuple[str, object], ...]:
    """Return the plain values with which the file itself calls a factory, from the call that says most; of several the first.

    A name stands for its value where all of the file gives it one and the same; `**config` for a dict that is written out.
    Not so for what makes extents: those are the reference's, and a demonstration has others.
    """
    extents = {n.id for s in shapes for e in s for n in ast.walk(e) if isinstance(n, ast.Name)}
    names = [a.arg for a in node.args.args]
    told = _told(tree)
    found: list[tuple[tuple[str, object], ...]] = [()]
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == node.name:
            given = [*zip(names, call.args, strict=False)]
            for k in call.keywords:
                if k.arg is not None:
                    given.append((k.arg, k.value))
                else:
                    spread = told.get(k.value.id) if isinstance(k.value, ast.Name) else k.value
                    given += _written(spread)
            plain = [
                (n, told.get(v.id) if isinstance(v, ast.Name) and n not in extents else v)
                for n, v in given
            ]
            found.append(tuple((n, value) for n, v in plain for value in _plain(v)))
    return max(found, key=len)


def _written(spread: ast.expr | None) -> list[tuple[str, ast.expr]]:
    """Return what `{"a": 1}` and `dict(a=1)` say."""
    match spread:
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            return [(str(k.value), v) for k, v in pairs if isinstance(k, ast.Constant)]
        case ast.Call(ast.Name("dict"), [], keywords):
            return [(k.arg, k.value) for k in keywords if k.arg is not None]
    return []


def _plain(value: ast.expr | None) -> tuple[object, ...]:
    """Return a number, a text, or a dtype by its name (`T.float16`); nothing for what has to be run."""
    match value:
        case ast.Constant(found):
            return (found,)
        case ast.Attribute(ast.Name("T"), name):
            return (name,)
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
    node = next(n for n in statements(tree) if isinstance(n, ast.FunctionDef) and n.name == name)
    args = [*node.args.posonlyargs, *node.args.args]
    numbers = [
        a
        for a in args
        if ast.unparse(a.annotation or ast.Constant(None)) in ("int", "str", "bool", "float")
    ]
    first = len(args) - len(node.args.defaults)
    return all(a in numbers or k >= first for k, a in enumerate(args))


def _how_made(text: str, host: Host) -> str:
    """Return how what is called comes from a host, as `as_kernel` takes it."""
    if host.maker is None:
        return ""
    nodes = (n for n in statements(ast.parse(text)) if isinstance(n, ast.FunctionDef))
    return "eager" if any(n.name == host.name and _is_eager(n) for n in nodes) else "factory"


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
    kernel=partial(as_kernel, backend="tilelang_cuda", stars=_RULES.stars, made=_how_made),
    objections=partial(refusals, rules=_RULES),
    build=build,
    loader="tilelang_host.py.j2",
    readings=partial(readings, archs=_DEVICES),
    between_calls=between_calls,
    beside=merged,
    sizes=sizes_asked,
    mixes=True,
    session=(("call_timeout_s", 60.0), ("budget_s", 40.0), ("alignment", 16)),
    compiled=lowered,
    device=ON_DEVICE,
    unchecked=(
        "compile for a GPU: launches ran in SepTran's TileLang simulator, nvcc was not asked",
        "races inside one block: TileLang's compiler places the barriers between its tile operations",
        "layouts, swizzles and what a schedule does to pipelined copies",
        "time: nothing was measured",
    ),
)
