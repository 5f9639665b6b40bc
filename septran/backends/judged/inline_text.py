"""C++ and CUDA C++ inside Python (`load_inline`): the texts of the sources, and the Python around them without them; nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from septran.backends.base import Unjudged
from septran.backends.judged.torch_text import bindings

_POSITIONS = ("name", "cpp_sources", "cuda_sources", "functions")
_BUILDER = "torch.utils.cpp_extension"
_CODE = ("cpp_sources", "cuda_sources")
_MIXED = "load_inline with and without cuda_sources in one file, or --backend says another target than it is for"
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

    parts: of each call, the Python names that its extension offers. flags: of the build, which the judge does not give to its own.
    """

    text: str
    offered: dict[str, str]
    parts: tuple[tuple[str, ...], ...] = ()
    flags: tuple[str, ...] = ()


def on_processor(text: str) -> bool:
    """Whether all extensions that a Python file builds are C++ without CUDA."""
    try:
        calls = tuple(_calls(ast.parse(text)))
    except SyntaxError:
        return False
    return bool(calls) and all(_is_cpp(_given(call)) for call in calls)


def extension(text: str, name: str = "kernel.py", *, processor: bool = False) -> Extension:
    """Return the sources that a Python file hands to `load_inline`; `#line` gives them the lines of `name`.

    processor: whether they are to be C++ alone (`on_processor`).

    Raises:
        SyntaxError: it is no Python. Unjudged: a source or a name is not a text that the file says.
    """
    tree = ast.parse(text)
    texts = _Texts(tree)
    parts: list[list[str]] = []
    names: list[tuple[str, ...]] = []
    offered: dict[str, str] = {}
    flags: list[str] = []
    for call in _calls(tree):
        given = _given(call)
        if any(k.arg is None for k in call.keywords):
            raise Unjudged(call.lineno, "load_inline with **options")
        if _is_cpp(given) != processor:
            raise Unjudged(call.lineno, _MIXED)
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
        named = {f: f for f in texts.names(given["functions"])} if "functions" in given else {}
        named = named or bindings("".join(code))
        if both := offered.keys() & named.keys():
            told = f"two extensions of the file that both offer {', '.join(sorted(both))}"
            raise Unjudged(call.lineno, told)
        offered |= named
        names.append(tuple(named))
    joined = "#include <torch/extension.h>\n"  # as load_inline itself does
    joined += "".join("".join(part) for part in _apart(parts, set(offered)))
    return Extension(
        text=joined,
        offered=offered,
        parts=tuple(names),
        flags=tuple(dict.fromkeys(flags)),
    )


def python_of(text: str) -> str:
    """Return a file's Python, in which a call `septran_extension(n)` stands for its n-th `load_inline`; lines stay.

    Texts that only the calls need, and imports of torch's builder, are made empty.
    """
    tree = ast.parse(text)
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    edits: list[tuple[int, int, str]] = []

    def put(node: ast.expr | ast.stmt, word: str, tail: str = "") -> None:
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        edits.append((first, last, word + "\n" * ((node.end_lineno or 0) - node.lineno) + tail))

    calls = list(_calls(tree))
    for number, call in enumerate(calls):
        put(call, "septran_extension(", f"{number})")
    for node in ast.walk(tree):
        nothing = "" if node in tree.body else "pass"
        if isinstance(node, ast.ImportFrom) and node.module == _BUILDER:
            put(node, nothing)
        elif isinstance(node, ast.Import) and any(a.name == _BUILDER for a in node.names):
            others = [a for a in node.names if a.name != _BUILDER]
            named = [f"{a.name} as {a.asname}" if a.asname else a.name for a in others]
            if any(a.name == _BUILDER and not a.asname for a in node.names):
                named.append("torch")  # the name that such an import binds
            put(node, f"import {', '.join(named)}" if named else nothing)
    inside = {n for call in calls for n in ast.walk(call)}
    read = {n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    used = {n.id for n in read & inside} - {n.id for n in read - inside}
    for stmt in tree.body:
        if isinstance(stmt, ast.Assign) and _is_source(stmt, used):
            put(stmt, "")
    raw = text.encode()
    for first, last, word in sorted(edits, reverse=True):
        raw = raw[:first] + word.encode() + raw[last:]
    return raw.decode()


def _is_source(stmt: ast.Assign, used: set[str]) -> bool:
    """Whether a statement of the module only says a text that an extension is made of."""
    targets = {t.id for t in stmt.targets if isinstance(t, ast.Name)}
    plain = not any(isinstance(n, ast.Call) for n in ast.walk(stmt.value))
    return plain and bool(targets) and targets <= used


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


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func) == "load_inline":
            yield node


def _given(call: ast.Call) -> dict[str, ast.expr]:
    """Return what a call of `load_inline` gives by name."""
    given = dict(zip(_POSITIONS, call.args, strict=False))
    return given | {k.arg: k.value for k in call.keywords if k.arg}


def _is_cpp(given: dict[str, ast.expr]) -> bool:
    """Whether such a call has no CUDA: none, None, or an empty text or list."""
    match given.get("cuda_sources"):
        case None | ast.Constant(value=None | "") | ast.List(elts=[]) | ast.Tuple(elts=[]):
            return True
    return False


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
