"""Reads a printed CUDA C++ kernel back: launches, grids and what a block does, from the text alone.

Not read, so nothing is claimed of them: kernels with tensor copies (`copy_bulk`) and with panels for wgmma.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from septran.backends.cuda.dialect import CUDA, HIP
from septran.backends.cuda.passes.place_shared import shared_bytes, shared_shape
from septran.backends.cuda.passes.wgmma import is_panels
from septran.backends.reading import c_syntax as c
from septran.backends.reading.c_reading import FUNCTIONS, CReading, names
from septran.backends.text.cstyle import strides
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const, Expr
from septran.ir.nodes import ASYNC, Buffer, Program, buffers
from septran.kernel import Kernel
from septran.prove.printed import Loop, Place, Printed, Room, Unread, Unreadable, View

_DTYPES = {text.replace(" ", ""): dtype for d in (CUDA, HIP) for dtype, text in d.types.items()}
_BLOCK = "blockIdx.x"


def read(kernel: Kernel, program: Program) -> Printed:
    """Return the hierarchy of a CUDA C++ kernel as its text says it. `program` only says how buffers are laid out.

    Raises:
        Unreadable: the text is none that the emitter prints. Unread: it has tensor copies.
    """
    if any(is_panels(b) for b in buffers(program)):
        raise Unread("it has tensor copies")
    text = dict(kernel.files)[kernel.main]
    host = _Host(_kernels(text))
    host.read(_launch_lines(host, kernel, text))
    return Printed(
        file=kernel.main,
        acts=tuple(host.acts),
        names=names(program),
        order=tuple(host.order),
        rooms=host.rooms,
        memories=host.memories,
        places={b.name: place(b) for b in buffers(program) if b.mem in ("GLOBAL", "SHARED")},
        widened=frozenset(("post",)),
    )


def place(buffer: Buffer) -> Place:
    """Return how this target lays out a global array or a shared tile with padded rows."""
    shared = buffer.mem == "SHARED"
    steps = strides(shared_shape(buffer)) if shared else buffer.steps
    size = shared_bytes(buffer) // nbytes(buffer.dtype) if shared else math.prod(buffer.shape)
    return Place.of_steps(steps, size, buffer.start)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A `__global__` function: names of its parameters, and its body."""

    params: tuple[str, ...]
    body: tuple[c.Line, ...]


def _kernels(text: str) -> dict[str, _Kernel]:
    found = {}
    head = r"^__global__ void __launch_bounds__\(SEPTRAN_THREADS(?:, 1)?\) (\w+)\(([^\n]*)\) \{\n(.*?)^\}\n"
    for m in re.finditer(head, text, re.MULTILINE | re.DOTALL):
        params = tuple(p.split()[-1].lstrip("*") for p in m.group(2).split(","))
        body = c.read_body(m.group(3), text.count("\n", 0, m.start(3)) + 1)
        found[m.group(1)] = _Kernel(params, body)
    return found


def _launch_lines(host: _Host, kernel: Kernel, text: str) -> tuple[c.Line, ...]:
    found = re.search(
        rf"^static const char\* {re.escape(kernel.entry)}_launch\([^\n]*\) \{{\n(.*?)"
        r"^    const (?:cuda|hip)Error_t error = \w+GetLastError\(\);\n",
        text,
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise Unreadable(f"no function {kernel.entry}_launch")

    def workspace(m: re.Match[str]) -> str:
        host.memories[f"workspace {m.group(1)}"] = int(m.group(2))
        return "\n"

    room = r'    if \((?:cuda|hip)MallocAsync\(&(\w+), (\d+), stream\)\) return "out of device memory";\n'
    body = re.sub(room, workspace, found.group(1))
    return c.read_body(body, text.count("\n", 0, found.start(1)) + 1)


class _Reading(CReading):
    functions = FUNCTIONS


class _Host(_Reading):
    """The function that launches kernels."""

    def __init__(self, kernels: dict[str, _Kernel]) -> None:
        super().__init__()
        self.kernels = kernels
        self.order: list[str] = []
        self.memories: dict[str, int] = {}

    def declare(self, line: c.Declare) -> None:
        match line.value:
            case c.Call(
                c.Name("static_cast"), (c.Call(c.Name("[]"), (c.Name("args"), c.Name(at))),)
            ):
                if int(at) != len(self.order):
                    raise Unreadable(f"line {line.line}: parameters out of order")
                self.order.append(line.name)
            case c.Name("nullptr"):
                memory = f"workspace {line.name}"
                if memory not in self.memories:
                    raise Unreadable(f"line {line.line}: {line.name} gets no memory")
                self.room(line.name, Room(memory=memory, offset=0, scope=(), line=line.line))
            case _:
                super().declare(line)

    def call(self, call: c.Call, line: int) -> None:
        match call.name.text, call.args:
            case (
                "cudaFuncSetAttribute" | "cudaFreeAsync" | "hipFuncSetAttribute" | "hipFreeAsync",
                _,
            ):
                pass
            case "ST_LAUNCH", (
                c.Name(name),
                c.Call(c.Name("dim3"), (blocks,)),
                c.Call(c.Name("dim3"), (c.Name("SEPTRAN_THREADS"),)),
                c.Name(size),
                c.Name("stream"),
                *passed,
            ) if name in self.kernels:
                self._launch(name, self.index(blocks), int(size), passed, line)
            case _:
                super().call(call, line)

    def _launch(self, name: str, blocks: Expr, size: int, passed: list[c.Node], line: int) -> None:
        kernel = self.kernels[name]
        if len(passed) != len(kernel.params):
            raise Unreadable(f"line {line}: {name} gets {len(passed)} arguments")
        memory = f"shared memory of {name}"
        self.memories[memory] = size
        inner = _Block(self, memory)
        for param, given in zip(kernel.params, passed, strict=True):
            if not isinstance(given, c.Name):
                raise Unreadable(f"line {line}: the argument {given}")
            inner.alias[param] = given.text
        lines = inner.grid(kernel.body, blocks, line)
        inner.read(lines)
        self.acts += inner.acts
        for key, room in inner.rooms.items():
            self.room(key, room)


class _Block(_Reading):
    """What one block of a kernel does."""

    def __init__(self, host: _Host, memory: str) -> None:
        super().__init__()
        self.loops, self.tests = host.loops, host.tests
        self.memory = memory
        self.alias: dict[str, str] = {}
        self.bounds: dict[str, tuple[Expr, ...] | None] = {}

    def grid(self, lines: tuple[c.Line, ...], blocks: Expr, line: int) -> tuple[c.Line, ...]:
        """Read the indices of the grid's loops; return what follows them."""
        rest, found = list(lines), []
        for each in lines:
            if isinstance(each, c.Declare) and each.kind == "st::idx" and each.value is not None:
                found.append((each.name, self.index(each.value)))
                rest.remove(each)
            elif found or not isinstance(each, c.Declare | c.Do):
                break
        loop = Loop(var=_BLOCK, extent=blocks, line=line, parallel=True, indices=tuple(found))
        self.loops = (*self.loops, loop)
        return tuple(rest)

    # ---- statements
    def declare(self, line: c.Declare) -> None:
        match line.value:
            case None if line.kind == "st::Frag":
                dtype, layout, shape = _fragment(line.template)
                room = Room(
                    memory="",
                    offset=0,
                    scope=(),
                    line=line.line,
                    dtype=dtype,
                    layout=layout,
                    shape=shape,
                )
                self.room(line.name, room)
                self.bounds[line.name] = None
            case c.Call(c.Name("reinterpret_cast"), (inner,)):
                memory, at = self.based(inner)
                if memory != "smem" or not isinstance(at, Const):
                    raise Unreadable(f"line {line.line}: {line.name} lies at {at}")
                room = Room(
                    memory=self.memory,
                    offset=at.value,
                    scope=(),
                    line=line.line,
                    dtype=_DTYPES.get(line.kind, line.kind),
                )
                self.room(line.name, room)
            case _:
                super().declare(line)

    def loop(self, line: c.ForLoop, *, parallel: bool = False) -> None:
        if any(p != "#pragma unroll" for p in line.pragmas):
            raise Unreadable(f"line {line.line}: {line.pragmas}")
        inside = set(_bound_in(line.body))
        self.bounds.update(dict.fromkeys(inside & self.bounds.keys()))
        super().loop(line)
        self.bounds.update(dict.fromkeys(inside & self.bounds.keys()))

    def condition(self, line: c.If) -> None:
        super().condition(line)
        self.bounds.update(dict.fromkeys(set(_bound_in(line.body)) & self.bounds.keys()))

    def call(self, call: c.Call, line: int) -> None:
        self.needs = []
        match call.name.text, call.args:
            case "ST_DYNAMIC_SHARED", (c.Name("smem"),):
                pass
            case "st::bound", (c.Name(name), *extent):
                self.bounds[name] = tuple(self.index(e) for e in extent)
            case "st::copy", (dst, src):
                self.act("copy", "copy", line, (self.view(dst), self.view(src)))
            case "st::copy_async", (dst, src):
                self.act("copy", "copy_async", line, (self.view(dst), self.view(src)))
                tile = _numbers(call.name.template.removeprefix("st::Tile"))
                self.acts[-1] = replace(self.acts[-1], tile=tile, engine=ASYNC)
            case "st::copy_padded", (dst, src, outside, step, *fill):
                shown = self.view(src)
                padded = replace(
                    shown,
                    extent=None,
                    whole=shown.extent or (),
                    outside=self.indices(outside),
                    step=self.indices(step),
                    fill=_fill(*fill),
                )
                self.act("copy", "copy_padded", line, (self.view(dst), padded))
                static, _, full = call.name.template.rpartition(" , ")
                self.acts[-1] = replace(
                    self.acts[-1],
                    tile=_numbers(static.removeprefix("st::Tile")),
                    full=full == "true",
                )
            case "__syncthreads", ():
                self.act("sync", "BLOCK", line)
            case "st::cp_commit", ():
                self.act("post", "", line)
            case "st::cp_wait", ():
                self.act("await", "", line)
                self.acts[-1] = replace(self.acts[-1], pending=int(call.name.template))
            case name, args if name.startswith("leaf_"):
                views = tuple(self.view(a) for a in args if self.is_view(a))
                scalars = tuple(self.number(a) for a in args if not self.is_view(a))
                self.act("leaf", name, line, views, scalars)
            case _:
                super().call(call, line)

    # ---- operands
    def is_view(self, node: c.Node) -> bool:
        return isinstance(node, c.Call) or (isinstance(node, c.Name) and node.text in self.bounds)

    def based(self, node: c.Node) -> tuple[str, Expr]:
        base, at = super().based(node)
        return self.alias.get(base, base), at

    def view(self, node: c.Node) -> View:
        """Return `st::View<..>{pointer, extents, strides}` or a fragment."""
        match node:
            case c.Name(text) if text in self.bounds:
                extent = self.bounds[text]
                if extent is None:
                    raise Unreadable(f"the extents of {text} are not known here")
                return View(base=text, at=Const(0), extent=extent, strides=None)
            case c.Call(c.Name("st::View", kind), (first, extents, steps), True):
                base, at = self.based(first)
                found = View(
                    base=base, at=at, extent=self.indices(extents), strides=self.whole(steps)
                )
                return self.typed(found, kind, _DTYPES)
        raise Unreadable(f"the operand {node}")


def _bound_in(lines: tuple[c.Line, ...]) -> Iterator[str]:
    for line in lines:
        match line:
            case c.Do(c.Call(c.Name("st::bound"), (c.Name(name), *_))):
                yield name
            case c.ForLoop() | c.If():
                yield from _bound_in(line.body)


def _fragment(template: str) -> tuple[str, str, tuple[int, ...]]:
    """Return (dtype, layout, shape) of `float, st::Grid<2, 4, 8, 2>, 128, 128`."""
    found = re.fullmatch(r"([\w ]+?) , st :: Grid < ([\d ,]+) > , ([\d ,]+)", template)
    if found is None:
        raise Unreadable(f"the fragment {template}")
    kind = found.group(1).replace(" ", "")
    grid = "x".join(str(n) for n in _numbers(found.group(2)))
    return _DTYPES.get(kind, kind), f"frag:{grid}", _numbers(found.group(3))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text))


def _fill(node: c.Node | None = None) -> float:
    """Return what a padded copy reads as outside its tensor."""
    match node:
        case None:
            return 0.0
        case c.Binary("-", c.Name("0"), value):
            return -_fill(value)
        case c.Name("INFINITY"):
            return float("inf")
        case c.Name(text):
            try:
                return float(text.removesuffix("f"))
            except ValueError:
                pass
    raise Unreadable(f"{node} is no number")
