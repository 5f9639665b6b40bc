"""Reads a printed C++ kernel back: what stands in its text, without a look at the Program."""

from __future__ import annotations

import re
from collections.abc import Mapping

from septran.backends.reading import c_syntax as c
from septran.backends.reading.c_reading import FUNCTIONS, CReading, names
from septran.backends.text.cstyle import C_TYPES, Layout, elements, identifier
from septran.ir.expr import Const, Expr, Var
from septran.ir.nodes import Buffer, Program, buffers
from septran.kernel import Kernel, size_name
from septran.prove.printed import Place, Printed, Room, Unreadable, View


def read(kernel: Kernel, program: Program) -> Printed:
    """Return the hierarchy of a C++ kernel as its text says it. `program` only says how buffers are laid out.

    Raises:
        Unreadable: the text is none that the emitter prints.
    """
    text = dict(kernel.files)[kernel.main]
    head = re.search(
        rf'^extern "C" [^\n]*\bvoid {re.escape(kernel.entry)}\(void\* const\* args\) \{{\n(.*?)^\}}\n',
        text,
        re.MULTILINE | re.DOTALL,
    )
    if head is None:
        raise Unreadable(f"no function {kernel.entry}")
    reading = _Reading({identifier(size_name(d.name)): d.name for d in program.dims})
    reading.read(c.read_body(head.group(1), text.count("\n", 0, head.start(1)) + 1))
    return Printed(
        file=kernel.main,
        acts=tuple(reading.acts),
        names=names(program),
        order=tuple(reading.order),
        rooms=reading.rooms,
        memories=reading.memories,
        places={b.name: place(b) for b in buffers(program)},
        silent=frozenset(("sync", "post", "await")),
    )


def place(buffer: Buffer) -> Place:
    """Return how this target lays out one version of a buffer: rows, or panels side by side."""
    layout = Layout.of(buffer)
    if layout is None:
        return Place.of_steps(buffer.steps, elements(buffer), buffer.start)
    index = tuple(f"x_{d}" for d in range(len(buffer.shape)))
    rows: Expr = Const(0)
    for name, extent in zip(index[:-1], buffer.shape[:-1], strict=True):
        rows = rows * extent + Var(name)
    split, along = (rows, Var(index[-1])) if layout.over_rows else (Var(index[-1]), rows)
    stride = layout.stride(buffer.shape)
    return Place(
        index=index,
        address=split // layout.width * stride + along * layout.width + split % layout.width,
        size=elements(buffer),
        strides=((stride, layout.width) + (0,) * len(index))[: len(index)],
        packed=True,
    )


_SCRATCH = {"host": "0", "core": "1"}
_DTYPES = {text: dtype for dtype, text in C_TYPES.items()}


class _Reading(CReading):
    functions = FUNCTIONS

    def __init__(self, sizes: Mapping[str, str]) -> None:
        """sizes: the text's name of each open dim, in the order of its parameters behind the tensors."""
        super().__init__()
        self.sizes = sizes
        self.order: list[str] = []
        self.told = 0
        self.memories: dict[str, int] = {}
        self.reserved: dict[str, str] = {}
        """the text's name -> the block it stands for now; each parallel part reserves its own"""
        self.parallel = 0

    def block(self, line: c.Block) -> None:
        for pragma in line.pragmas:
            if not re.fullmatch(
                r"#pragma omp parallel( num_threads\(\d+\) ?)?( if\(.*\) ?)?", pragma
            ):
                raise Unreadable(f"line {line.line}: {pragma}")
        super().block(line)

    def loop(self, line: c.ForLoop, *, parallel: bool = False) -> None:
        for pragma in line.pragmas:
            found = re.fullmatch(r"#pragma omp for ?(collapse\((\d+)\) ?)?schedule\(\w+\)", pragma)
            if found is None:
                raise Unreadable(f"line {line.line}: {pragma}")
            self.parallel = int(found.group(2) or 1)
        shared = self.parallel > 0
        self.parallel -= shared
        super().loop(line, parallel=shared)

    def declare(self, line: c.Declare) -> None:
        match line.value:
            case c.Call(
                c.Name("static_cast"), (c.Call(c.Name("[]"), (c.Name("args"), c.Name(number))),)
            ):
                if int(number) != len(self.order):
                    raise Unreadable(f"line {line.line}: parameters out of order")
                self.order.append(line.name)
                return
            case c.Call(
                c.Name("st::size"), (c.Call(c.Name("[]"), (c.Name("args"), c.Name(number))),)
            ):
                if int(number) != len(self.order) + self.told or line.name not in self.sizes:
                    raise Unreadable(f"line {line.line}: sizes out of order")
                if list(self.sizes).index(line.name) != self.told:
                    raise Unreadable(f"line {line.line}: sizes out of order")
                self.numbers[line.name] = Var(self.sizes[line.name])
                self.told += 1
                return
            case c.Call(c.Name("st::scratch", block), (c.Name(size),)):
                if _SCRATCH.get(line.name) != block:
                    raise Unreadable(f"line {line.line}: {line.name} is scratch block {block}")
                block = (
                    line.name
                    if line.name not in self.memories
                    else f"{line.name}, line {line.line}"
                )
                self.reserved[line.name] = block
                self.memories[block] = int(size)
                return
            case c.Call(c.Name("reinterpret_cast"), (inner,)):
                if isinstance(inner, c.Call) and inner.name.text == "st::fresh":
                    inner, _ = inner.args
                memory, at = self.based(inner)
                if not isinstance(at, Const):
                    raise Unreadable(f"line {line.line}: {line.name} lies at {at}")
                self.room(
                    line.name,
                    Room(
                        memory=self.reserved.get(memory, memory),
                        offset=at.value,
                        scope=self.scope,
                        line=line.line,
                        dtype=_DTYPES.get(line.kind, line.kind),
                    ),
                )
                return
        super().declare(line)

    def call(self, call: c.Call, line: int) -> None:
        if self.parallel:
            raise Unreadable(f"line {line}: fewer loops than collapse says")
        self.needs = []
        match call.name.text, call.args:
            case "st::copy" | "st::copy_planes", (dst, src):
                self.act("copy", "copy", line, (self.view(dst), self.view(src)))
            case ("st::pack_rows" | "st::pack_cols") as name, (dst, c.Name(stride), src):
                base, at = self.based(dst)
                width = int(call.name.template)
                packed = View(base=base, at=at, extent=None, strides=(int(stride), width))
                self.act("copy", name, line, (packed, self.view(src)))
            case name, args if name.startswith("leaf_"):
                views = [self.view(a) for a in args if _is_view(a)]
                scalars = tuple(self.scalar(a) for a in args if not _is_view(a))
                self.act("leaf", name, line, tuple(views), scalars)
            case _:
                super().call(call, line)

    def scalar(self, node: c.Node) -> Expr | float:
        if isinstance(node, c.Call) and node.name.text == "float":
            return float(self.number(node.args[0]))  # type: ignore[arg-type]
        return self.index(node)

    def view(self, node: c.Node) -> View:
        """Return `View{pointer, extents, strides}` or a padded operand."""
        match node:
            case c.Call(c.Name("" | "st::View", kind), (first, extent, strides), True):
                base, at = self.based(first)
                found = View(
                    base=base, at=at, extent=self.indices(extent), strides=self.whole(strides)
                )
            case c.Call(
                c.Name("st::padded", kind), (first, extent, strides, shape, outside, step, *fill)
            ):
                base, at = self.based(first)
                found = View(
                    base=base,
                    at=at,
                    extent=self.indices(extent),
                    strides=self.whole(strides),
                    whole=self.indices(shape),
                    outside=self.indices(outside),
                    step=self.indices(step),
                    fill=float(self.number(fill[0])) if fill else 0.0,  # type: ignore[arg-type]
                )
            case _:
                raise Unreadable(f"the operand {node}")
        return self.typed(found, kind, _DTYPES)


def _is_view(node: c.Node) -> bool:
    return isinstance(node, c.Call) and node.braces
