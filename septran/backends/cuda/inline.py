"""CUDA C++ inside Python (`load_inline`), as answers to benchmarks of modules have it: read by `ast`, none of its Python is run.

The texts of the sources become one CUDA file; `ModelNew.forward` becomes a C++ function that calls theirs (`inline_forward`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from septran.backends.base import Host, HostCall, HostParam, Unjudged, as_it_is
from septran.backends.cuda.foreign import FOREIGN as PLAIN
from septran.backends.cuda.foreign import unjudged_words
from septran.backends.cuda.inline_forward import Forward
from septran.backends.cuda.torch_text import bindings, call_text, entry, launching, torch_functions
from septran.backends.judged.c_foreign import ENTRY, plain_kernel
from septran.backends.judged.python_file import MODULE
from septran.backends.text.python_host import module_class
from septran.kernel import Kernel, KernelParam
from septran.prove.foreign.launch import Launch, NotRead

_POSITIONS = ("name", "cpp_sources", "cuda_sources", "functions")
_CODE = ("cpp_sources", "cuda_sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What the `load_inline` calls of a file say. text: their sources as one. offered: Python name -> C++ function."""

    text: str
    offered: dict[str, str]


def extension(text: str, name: str = "kernel.py") -> Extension:
    """Return the sources that a Python file hands to `load_inline`; `#line` gives them the lines of `name`.

    Raises:
        SyntaxError: it is no Python. Unjudged: a source or a name is not a text that the file says.
    """
    tree = ast.parse(text)
    texts = _Texts(tree)
    parts: list[str] = []
    offered: dict[str, str] = {}
    for call in _calls(tree):
        given = dict(zip(_POSITIONS, call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg}
        if any(k.arg is None for k in call.keywords):
            raise Unjudged(call.lineno, "load_inline with **options")
        if "cuda_sources" not in given:
            raise Unjudged(
                call.lineno,
                "load_inline without cuda_sources; judge C++ as a .cpp file with a function on pointers",
            )
        for word in _CODE:
            if word in given:
                parts += [
                    f'#line {line} "{name}"\n{code}\n' for line, code in texts.of(given[word])
                ]
        if "functions" in given:
            offered |= {f: f for f in texts.names(given["functions"])}
    joined = "#include <torch/extension.h>\n" + "".join(parts)  # as load_inline itself does
    return Extension(text=joined, offered=offered or bindings(joined))


def hosts(text: str) -> tuple[Host, ...]:
    """Return the class `ModelNew`, else the functions on tensors that launch and that the extension offers."""
    if (found := host(text, MODULE)) is not None:
        return (found,)
    read = extension(text)
    offered = set(read.offered.values())
    return tuple(f.host() for f in launching(read.text) if not offered or f.name in offered)


def host(text: str, name: str) -> Host | None:
    """Return the module class or the C++ function `name`."""
    if (made := module_class(text, name)) is not None:
        params = tuple(HostParam(name=n, default=d) for n, d in made.params)
        return Host(name=name, line=made.line, params=params, module=True)
    return next((f.host() for f in torch_functions(extension(text).text) if f.name == name), None)


def kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the sources as one CUDA file with the judge's entry after it."""
    read = extension(text)
    more, run = "", ""
    if call.host.module:
        forward = Forward(text, read.offered, call, params)
        more, run = forward.function(), forward.call()
    else:
        run = call_text(call, params)
    last = entry(ENTRY, params, run, returns=call.returns, more=more)
    found = plain_kernel(read.text, last, call, params, "cuda_c", arch, ".cu")
    return found, ("all of its Python, which was read and not run",)


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func) == "load_inline":
            yield node


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class _Texts:
    """The texts that a file's names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._named = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def of(self, node: ast.expr) -> list[tuple[int, str]]:
        """Return (line, text) of each source that an expression says."""
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [one for part in parts for one in self.of(part)]
            case ast.Name(id=name) if name in self._named:
                return self.of(self._named[name])
            case ast.Constant(value=None):
                return []
        return [(node.lineno, self._text(node))]

    def names(self, node: ast.expr) -> list[str]:
        """Return the function names of `functions=`: a list, a dictionary with descriptions, or one text."""
        keys = [k for k in node.keys if k is not None] if isinstance(node, ast.Dict) else [node]
        return [text for key in keys for _, text in self.of(key)]

    def _text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Constant(value=int() | float() as number):
                return str(number)
            case ast.Name(id=name) if name in self._named:
                return self._text(self._named[name])
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left) + self._text(right)
            case ast.JoinedStr(values=parts):
                return "".join(self._text(p) for p in parts)
            case ast.FormattedValue(value=value, format_spec=None, conversion=-1):
                return self._text(value)
        raise Unjudged(node.lineno, "a source of load_inline that is not written out in the file")


def _unsupported(text: str) -> tuple[str, ...]:
    return unjudged_words(extension(text).text)


def _launches(
    text: str, file: str, call: HostCall, params: tuple[KernelParam, ...], run_dir: Path
) -> tuple[Launch, ...]:
    raise NotRead(0, "host functions on torch's tensors are not read")


FOREIGN = replace(
    PLAIN,
    readings=as_it_is,
    suffixes=(".py",),
    marks=("load_inline(",),
    hosts=hosts,
    host=host,
    kernel=kernel,
    unsupported=_unsupported,
    launches=_launches,
    unordered=lambda text: PLAIN.unordered(extension(text).text),
)
