"""What the C-family emitters share: text with indentation, index expressions, views, loops.

A backend subclasses `CStyle` and answers how memory, copies, leaf calls and processor loops look.
"""

from __future__ import annotations

from dataclasses import dataclass

from septran.errors import InternalError
from septran.ir import nodes as ir
from septran.ir.expr import Bin, Const, Expr, Var, bounds, const

C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "st::f16",
    "bfloat16": "st::bf16",
    "int64": "int64_t",
    "int32": "int32_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}

_KEYWORDS = frozenset(
    "alignas alignof and asm auto bool break case catch char class concept const constexpr continue "
    "decltype default delete do double else enum explicit export extern false float for friend goto "
    "if inline int long mutable namespace new noexcept not nullptr operator or private protected "
    "public register requires return short signed sizeof static struct switch template this throw "
    "true try typedef typename union unsigned using virtual void volatile while xor std st main "
    "args core host int8_t int32_t int64_t uint8_t uint16_t uint32_t F I L "
    # names of the runtime that leaves use without st::
    "keep total first last lanes lane cast load load_n store store_n splat unit gather iota fold "
    "apply power least most plain flat each above scan argreduce scatter_acc On".split()
)


def identifier(name: str) -> str:
    """Return `name` as a C++ identifier that is no keyword and no name of ours."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    if not text or text[0].isdigit():
        text = f"v{text}"
    return f"{text}_" if text in _KEYWORDS else text


def banner(program: ir.Program) -> str:
    """Return the comment at the top of a C++ kernel: what it computes on, and who wrote it."""
    shapes = ", ".join(
        f"{p.buffer.name}: {p.buffer.dtype}{list(p.buffer.shape)} {p.privilege}"
        for p in program.params
    )
    return (
        f"// {program.name}({shapes})\n// Written by SepTran for {program.target} {program.arch}.\n"
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """A packed buffer: `width` rows (or columns) of the tile side by side, zero padded.

    over_rows: panels over the flattened leading dims ("panel_m", "panel_n_t"), contiguous along the
    last dim; otherwise panels over the last dim ("panel_n", "panel_m_t").
    """

    over_rows: bool
    width: int

    @staticmethod
    def of(buffer: ir.Buffer) -> Layout | None:
        """Return the packed layout of a buffer, or None for plain row-major."""
        if buffer.layout == "row":
            return None
        kind, _, width = buffer.layout.partition(":")
        if kind not in ("panel_m", "panel_n", "panel_m_t", "panel_n_t") or not width.isdigit():
            raise InternalError(f"buffer {buffer.name}: unknown layout {buffer.layout!r}")
        return Layout(kind in ("panel_m", "panel_n_t"), int(width))

    def extents(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return (elements split into panels, elements along a panel) of a tile."""
        rows = 1
        for extent in shape[:-1]:
            rows *= extent
        return (rows, shape[-1]) if self.over_rows else (shape[-1], rows)

    def stride(self, shape: tuple[int, ...]) -> int:
        """Return the elements from one panel to the next."""
        return self.width * self.extents(shape)[1]

    def elements(self, shape: tuple[int, ...]) -> int:
        """Return the elements of the whole packed tile."""
        return -(-self.extents(shape)[0] // self.width) * self.stride(shape)


def elements(buffer: ir.Buffer) -> int:
    """Return the elements one version of a buffer occupies in its layout."""
    layout = Layout.of(buffer)
    if layout is not None:
        return layout.elements(buffer.shape)
    total = 1
    for extent in buffer.shape:
        total *= extent
    return total


def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of a shape, in elements."""
    out: list[int] = []
    step = 1
    for extent in reversed(shape):
        out.append(step)
        step *= extent
    return tuple(reversed(out))


_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}


class CStyle:
    """Base of the C-family emitters; one instance prints one Program."""

    indent_unit = "    "

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.ranges: dict[str, tuple[int, int]] = {}
        self.words: dict[str, str] = {}
        """text of variables that the target has a word for"""

    # ---- text
    def line(self, text: str = "") -> None:
        """Append one line at the current depth."""
        self.lines.append(f"{self.indent_unit * self.depth}{text}" if text else "")

    def open(self, text: str) -> None:
        """Append `text {` and go one level deeper."""
        self.line(f"{text} {{" if text else "{")
        self.depth += 1

    def close(self, tail: str = "") -> None:
        """End the block that `open` began."""
        self.depth -= 1
        self.line(f"}}{tail}")

    # ---- index expressions
    def expr(self, e: Expr | int, level: int = 0) -> str:
        """Return C text of an index expression; floor division stays floor for negative values."""
        match const(e):
            case Const(value):
                return str(value) if value >= 0 or level == 0 else f"({value})"
            case Var(name):
                return self.words.get(name) or identifier(name)
            case Bin(op, a, b) if op in ("min", "max"):
                return f"st::{'least' if op == 'min' else 'most'}({self.expr(a)}, {self.expr(b)})"
            case Bin(op, a, b) if op in ("//", "%") and not self._non_negative(a):
                return f"st::floor_{'div' if op == '//' else 'mod'}({self.expr(a)}, {self.expr(b)})"
            case Bin(op, a, b):
                mine = _PRECEDENCE[op]
                text = f"{self.expr(a, mine)} {op[0]} {self.expr(b, mine + 1)}"
                return f"({text})" if mine < level else text
        raise InternalError(f"no C text for index expression {e!r}")

    def _non_negative(self, e: Expr) -> bool:
        try:
            return bounds(e, self.ranges)[0] >= 0
        except KeyError:
            return False

    # ---- regions
    def pointer(self, region: ir.Region) -> str:
        """Return the address of a region's first element."""
        buffer, layout = region.buffer, Layout.of(region.buffer)
        offset: Expr = Const(buffer.start)
        if layout is None:
            for o, s in zip(region.offset, self.buffer_steps(buffer), strict=True):
                offset = offset + o * s
        elif any(o != Const(0) for o in region.offset):
            offset = self._panel_offset(region, layout)
        if region.version is not None:
            offset = region.version * elements(buffer) + offset
        name = identifier(buffer.name)
        return name if offset == Const(0) else f"{name} + {self.expr(offset)}"

    def buffer_steps(self, buffer: ir.Buffer) -> tuple[Expr | int, ...]:
        """Return the strides of a buffer in elements."""
        return buffer.steps

    def _panel_offset(self, region: ir.Region, layout: Layout) -> Expr:
        *leading, last = region.offset
        rows: Expr = Const(0)
        for offset, extent in zip(leading, region.buffer.shape, strict=False):
            rows = rows * extent + offset
        split, along = (rows, last) if layout.over_rows else (last, rows)
        stride = layout.stride(region.buffer.shape)
        return split // layout.width * stride + along * layout.width

    def view_strides(self, region: ir.Region) -> tuple[Expr | int, ...]:
        """Return a region's strides in elements; a packed one says (panel stride, width, 0, ..)."""
        layout = Layout.of(region.buffer)
        if layout is None:
            return tuple(
                s * t for s, t in zip(self.buffer_steps(region.buffer), region.step, strict=True)
            )
        packed = (layout.stride(region.buffer.shape), layout.width)
        return (packed + (0,) * region.rank)[: region.rank]

    def braces(self, values: tuple[Expr | int, ...]) -> str:
        """Return `{a, b, c}`."""
        return "{" + ", ".join(self.expr(v) for v in values) + "}"

    # ---- statements
    def body(self, statements: tuple[ir.Stmt, ...]) -> None:
        """Print statements in order."""
        for stmt in statements:
            self.statement(stmt)

    def statement(self, stmt: ir.Stmt) -> None:
        """Print one statement."""
        match stmt:
            case ir.Alloc():
                self.alloc(stmt)
            case ir.Copy():
                self.copy(stmt)
            case ir.LeafCall():
                self.leaf_call(stmt)
            case ir.For():
                self.loop(stmt)
            case ir.When():
                self.when(stmt)
            case ir.Sync() | ir.Post() | ir.Await():
                self.synchronise(stmt)

    def loop(self, stmt: ir.For) -> None:
        """Print a sequential loop."""
        self.begin(stmt)
        self.body(stmt.body)
        self.close()

    def begin(self, stmt: ir.For, index: str = "long") -> None:
        """Print the head of a loop whose variable has the C type `index`."""
        var = identifier(stmt.var)
        self.ranges[stmt.var] = (0, max(0, bounds(stmt.extent, self.ranges)[1] - 1))
        self.open(f"for ({index} {var} = 0; {var} < {self.expr(stmt.extent)}; ++{var})")

    def when(self, stmt: ir.When) -> None:
        """Print a condition."""
        low, high = Const(stmt.low), Const(stmt.high)
        e = self.expr(stmt.expr)
        self.open(f"if ({self.expr(low)} <= {e} && {e} < {self.expr(high)})")
        self.body(stmt.body)
        self.close()

    def alloc(self, stmt: ir.Alloc) -> None:
        """Print a buffer's declaration."""
        raise NotImplementedError

    def copy(self, stmt: ir.Copy) -> None:
        """Print a copy."""
        raise NotImplementedError

    def leaf_call(self, stmt: ir.LeafCall) -> None:
        """Print the call of a leaf."""
        raise NotImplementedError

    def synchronise(self, stmt: ir.Sync | ir.Post | ir.Await) -> None:
        """Print a synchronisation."""
        raise NotImplementedError
