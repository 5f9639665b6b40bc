"""CUDA C++ inside Python (`load_inline`), as answers to benchmarks of modules have it: read by `ast`, none of its Python is run.

The texts of the sources become one CUDA file; `ModelNew.forward` becomes a C++ function that calls theirs (`inline_forward`).
"""

from __future__ import annotations

import ast
import re
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
_FLAGS = ("extra_cflags", "extra_cuda_cflags")
_DEFINE = re.compile(r"-D\s*(\w+)(?:=(.*))?$", re.DOTALL)
_OF_NO_MATTER = re.compile(
    r"$|-O|-g|-W|-w$|-std|--std|-lineinfo|--generate-line-info|-Xptxas|--ptxas|-v$|--expt|--extended-lambda|--threads|-t\d|-fPIC|-diag"
)
"""flags that leave the meaning of the text alone"""
_DEVICE_CODE = re.compile(r"__(?:global|device)__[^;{}()]*(?:\([^()]*\)[^;{}()]*)?\b(\w+)\s*\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What the `load_inline` calls of a file say. text: their sources as one. offered: Python name -> C++ function.

    flags: of the build, which the judge does not give to its own.
    """

    text: str
    offered: dict[str, str]
    flags: tuple[str, ...] = ()


def extension(text: str, name: str = "kernel.py") -> Extension:
    """Return the sources that a Python file hands to `load_inline`; `#line` gives them the lines of `name`.

    Raises:
        SyntaxError: it is no Python. Unjudged: a source or a name is not a text that the file says.
    """
    tree = ast.parse(text)
    texts = _Texts(tree)
    parts: list[list[str]] = []
    offered: dict[str, str] = {}
    flags: list[str] = []
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
        said = [text for w in _FLAGS if w in given for _, text in texts.of(given[w])]
        defined = [d for flag in said if (d := _DEFINE.match(flag.strip()))]
        flags += [
            f for f in said if not _DEFINE.match(f.strip()) and not _OF_NO_MATTER.match(f.strip())
        ]
        before = [f"#define {d[1]} {'1' if d[2] is None else d[2]}\n" for d in defined]
        after = [f"#undef {d[1]}\n" for d in defined]
        code = [
            f'#line {line} "{name}"\n{code}\n'
            for word in _CODE
            if word in given
            for line, code in texts.of(given[word])
        ]
        parts.append([*before, *code, *after])
        if "functions" in given:
            named = texts.names(given["functions"])
            if both := offered.keys() & set(named):
                told = f"two extensions of the file that both offer {', '.join(sorted(both))}"
                raise Unjudged(call.lineno, told)
            offered |= {f: f for f in named}
    joined = "#include <torch/extension.h>\n"  # as load_inline itself does
    joined += "".join("".join(part) for part in _apart(parts, set(offered)))
    return Extension(
        text=joined, offered=offered or bindings(joined), flags=tuple(dict.fromkeys(flags))
    )


def _apart(parts: list[list[str]], offered: set[str]) -> list[list[str]]:
    """Return the texts of several extensions so that device code of the same name in two of them is two functions.

    Each extension is a library of its own; here they are one text, in which the later ones get other names.
    """
    seen: set[str] = set()
    found = []
    for number, part in enumerate(parts):
        own = set(_DEVICE_CODE.findall("".join(part))) - offered - {"__launch_bounds__"}
        twice = sorted(own & seen)
        seen |= own
        renamed = [f"#define {n} {n}_of_extension_{number}\n" for n in twice]
        found.append([*renamed, *part, *(f"#undef {n}\n" for n in twice)])
    return found


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
    left: tuple[str, ...] = ("all of its Python, which was read and not run",)
    if read.flags:
        left += (f"flags of its build, {' '.join(read.flags)}: judged without them",)
    return found, left


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
