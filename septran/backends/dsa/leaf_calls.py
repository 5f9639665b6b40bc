"""A leaf in C that is a plain list of vendor_lib calls, read back as the operations that it makes.

Such a leaf can be put where it is called: its calls overlap with the copies around them as the library's do, and no
queue is drained for it. What is not known to mean the same there stays a function: conditions, tiles made by hand,
parts that might leave their tile, calls on two queues of which the list does not say that one waits for the other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from septran.backends.dsa.leaf_text import SPOKEN
from septran.backends.dsa.leaf_values import Matrix, NotPlain, Values
from septran.backends.dsa.machine import storage
from septran.backends.dsa.passes.expand_leaves import scratch_of
from septran.backends.dsa.passes.map_vectors import TEXT
from septran.backends.dsa.passes.operations import Builder
from septran.backends.dsa.reading import Spelled, spellings
from septran.backends.dsa.vendor import load_vendor
from septran.backends.reading import c_syntax as c
from septran.errors import Span
from septran.ir import nodes as ir
from septran.ir.access import map_statements
from septran.ir.expr import Const, Expr, Var
from septran.kernel import Leaf
from septran.prove.printed import Unreadable

_TYPES = frozenset("int long int32_t int64_t double vl_tile".split())
_FLAGS = {"0": 0, "VL_MMA_INIT": 1, "VL_MMA_TRANS_A": 2, "VL_MMA_TRANS_B": 4}
_TURNED = (("trans_a", 2), ("trans_b", 4))
_EVENTS = range(48, 64)


def place_leaves(program: ir.Program, leaves: Mapping[str, Leaf]) -> ir.Program:
    """Pass: return `program` with leaves that are plain lists as the operations that they make.

    leaves: by symbol. A list that needs an operation which the machine's vendor has no call for stays a function.
    """
    spoken = load_vendor(storage(program.machine).vendor).calls
    count = 0

    def placed(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
        nonlocal count
        leaf = leaves.get(stmt.symbol) if isinstance(stmt, ir.LeafCall) else None
        if leaf is None or leaf.inline:
            return (stmt,)
        assert isinstance(stmt, ir.LeafCall)
        found = operations(leaf, stmt, f"p{count}")
        if found is None or any(op.task not in spoken for op in _made(found)):
            return (stmt,)
        count += 1
        return found

    return replace(program, body=map_statements(program.body, placed))


def _made(stmts: tuple[ir.Stmt, ...]) -> Iterator[ir.LeafCall]:
    return (s for s in ir.walk(stmts) if isinstance(s, ir.LeafCall))


def operations(leaf: Leaf, call: ir.LeafCall, prefix: str) -> tuple[ir.Stmt, ...] | None:
    """Return what a leaf does at a call of it, None where it has to stay a function.

    prefix: of the names of its temporaries and loops.
    """
    text = leaf.source[leaf.source.find("{") + 1 : leaf.source.rfind("}")]
    try:
        return _Reader(leaf, call, prefix).read(c.read_leaf(text, _TYPES))
    except (NotPlain, Unreadable):
        return None


@functools.cache
def _calls() -> dict[str, list[Spelled]]:
    return spellings(load_vendor(SPOKEN))


class _Reader:
    def __init__(self, leaf: Leaf, call: ir.LeafCall, prefix: str) -> None:
        free = set(leaf.spec.unread)
        views = {
            a.param: Matrix(a.region, "w" in a.privilege or a.param in free) for a in call.args
        }
        vendor = load_vendor(SPOKEN)
        self.values = Values(
            views,
            dict(call.scalars),
            prefix=prefix,
            scratch=scratch_of(call),
            dtypes={word: dtype for dtype, word in vendor.dtypes.items()},
        )
        self.queues = {word: queue for queue, word in vendor.queues.items()}
        self.prefix = prefix
        self.span = call.span
        self.build = Builder(prefix)
        self.queue = ""
        self.waited: set[str] = set()
        self.loops = 0

    def read(self, lines: tuple[c.Line, ...]) -> tuple[ir.Stmt, ...]:
        self.lines(lines)
        if not self.build.stmts:
            raise NotPlain  # nothing to put in place of the call
        allocs = [ir.Alloc(buffer=b) for b in self.values.temporaries()]
        return (*allocs, *(_placed(s, self.span) for s in self.build.stmts))

    # ---- statements
    def lines(self, lines: tuple[c.Line, ...]) -> None:
        outside = dict(self.values.named)
        at = 0
        while at < len(lines):
            match lines[at]:
                case c.Declare(kind=kind, name=name, value=c.Call() | c.Binary() | c.Name() as v):
                    self.declare(kind, name, v)
                case c.Block(pragmas=(), body=body):
                    self.lines(body)
                case c.ForLoop(pragmas=()) as loop:
                    self.loop(loop)
                case c.Do(c.Call(c.Name("vendor_lib_set"), ends)):
                    at += 1
                    self.order(ends, lines[at : at + 1])
                case c.Do(c.Call(c.Name("vendor_lib_sync"), ())) if not self.values.loops:
                    self.waited = {*self.queues.values()}
                case c.Do(c.Call() as call):
                    self.call(call)
                case _:
                    raise NotPlain
            at += 1
        self.values.named = outside

    def declare(self, kind: str, name: str, value: c.Node) -> None:
        if kind not in _TYPES:
            raise NotPlain
        found = self.values.tile(value) if kind == "vl_tile" else self.values.value(value)
        if kind == "double":
            number = self.values.scalar(value)
            if isinstance(number, Expr):
                raise NotPlain
            found = number
        elif kind != "vl_tile" and isinstance(found, float):
            raise NotPlain  # cut to a whole number
        self.values.hide(name)
        self.values.named[name] = found

    def loop(self, loop: c.ForLoop) -> None:
        extent = self.values.size(loop.extent)
        var = Var(f"{self.prefix}_{loop.var}{self.loops}")
        self.loops += 1
        outer, named = self.build, dict(self.values.named)
        self.build = outer.inside()
        self.values.enter(loop.var, var, extent)
        self.lines(loop.body)
        del self.values.loops[var]
        self.values.named = named
        body = tuple(_placed(s, self.span) for s in self.build.stmts)
        if body:
            outer.adopt(ir.For(var=var.name, extent=extent.expr, body=body), self.build)
        self.build = outer

    # ---- order
    def order(self, ends: tuple[c.Node, ...], after: tuple[c.Line, ...]) -> None:
        """Take a set and the wait for it that follows at once."""
        match after:
            case (c.Do(c.Call(c.Name("vendor_lib_wait"), same)),) if same == ends:
                pass
            case _:
                raise NotPlain
        match ends:
            case (c.Name(source), c.Name(target), c.Name(event)) if event.isdigit():
                source, target = (self.queues.get(q, "") for q in (source, target))
                if int(event) in _EVENTS and source == self.queue and target and not self.values.loops:  # fmt: skip
                    self.waited.add(target)
                    return
        raise NotPlain

    def on(self, queue: str) -> None:
        if self.queue not in ("", queue):
            if queue not in self.waited or self.values.loops:
                raise NotPlain
            self.waited = set()
        self.queue = queue

    # ---- calls
    def call(self, call: c.Call) -> None:
        for spelled in _calls().get(call.name.text, ()):
            fields = spelled.fields(call.args)
            if fields is not None:
                self.operation(spelled.op, fields)
                return
        raise NotPlain

    def operation(self, op: str, fields: Mapping[str, c.Node]) -> None:
        tiles = {x: self.values.tile(fields[x]) for x in "dabc" if x in fields}
        if any(t.region.buffer.mem == "GLOBAL" for t in tiles.values()) or "d" not in tiles:
            raise NotPlain
        if not op.startswith(("dsa.vec_", "dsa.mma", "dsa.fill")):
            raise NotPlain  # it moves
        d, ins = tiles["d"], [t for x, t in tiles.items() if x != "d"]
        if not d.writes:
            raise NotPlain
        self.on("MMA" if op == "dsa.mma" else "VEC")
        out, regions = d.region, [t.region for t in ins]
        name = op.removeprefix("dsa.vec_")
        put = self.build.op
        match op:
            case "dsa.mma":
                self.product(d, ins, _flags(fields["flags"]))
            case "dsa.fill":
                value = self.values.scalar(fields["value"])
                if isinstance(value, Expr):
                    put(op, out, prim="map", expr="s", named=(("s", "s"),), scalars=(("s", value),))
                else:
                    self.build.fill(out, value)
            case "dsa.vec_index":
                axis = self.along(fields)
                put(op, out, prim="map", expr=f"index({out.rank + axis})")
            case "dsa.vec_transpose":
                _same(d, ins[0], turned=True)
                perm = (*range(out.rank - 2), out.rank - 1, out.rank - 2)
                put(op, out, *regions, prim="transpose", perm=perm)
            case _ if name.startswith("reduce_"):
                axis = _reduced(d, ins[0])
                put(op, out, *regions, prim="reduce", op=name.removeprefix("reduce_"), axis=axis)
            case _:
                for tile in ins:
                    _broadcast(d, tile)
                self.mapped(op, name, out, regions, fields)

    def mapped(
        self,
        op: str,
        name: str,
        out: ir.Region,
        ins: list[ir.Region],
        fields: Mapping[str, c.Node],
    ) -> None:
        """Put an operation of each element by itself."""
        scalars: tuple[tuple[str, ir.Scalar], ...] = ()
        words = {"a": "a", "b": "b"}
        if "s" in fields:
            scalars = (("s", self.values.scalar(fields["s"])),)
            turned = name not in TEXT and name.removesuffix("s") not in TEXT
            name = name[1:-1] if turned else name[:-1]
            words = {"a": "s", "b": "a"} if turned else {"a": "a", "b": "s"}
        if name in TEXT:
            expr = TEXT[name].format(**words)
        else:
            expr = {"copy": "a", "neg": "-a", "select": "select(a, b, c)"}.get(name, f"{name}(a)")
        named = [(x, x.upper()) for x, _ in zip("abc", ins, strict=False)]
        named += [("s", "s")] if scalars else []
        self.build.op(op, out, *ins, prim="map", expr=expr, named=tuple(named), scalars=scalars)

    def product(self, out: Matrix, ins: list[Matrix], flags: int) -> None:
        """Put a product of two matrices; what the engine does not take is left to it to refuse."""
        a, b = ins
        m, n = out.rows, out.cols
        ak = (a.cols, a.rows) if flags & 2 else (a.rows, a.cols)
        bk = (b.cols, b.rows) if flags & 4 else (b.rows, b.cols)
        if ak != (m, bk[0]) or bk[1] != n:
            raise NotPlain
        held = (out.region.buffer, a.region.buffer, b.region.buffer)
        if [x.mem for x in held] != ["REGISTER", "SHARED", "SHARED"] or held[0].dtype != "float32":
            raise NotPlain
        if min(len(x.shape) for x in held) < 2:
            raise NotPlain
        name = "gemm" if flags & 1 else "gemm_acc"
        turned: dict[str, Any] = {x: True for x, n in _TURNED if flags & n}
        self.build.op(
            "dsa.mma", out.region, a.region, b.region, prim=name, rw=not flags & 1, **turned
        )

    def along(self, fields: Mapping[str, c.Node]) -> int:
        """Return the axis of positions that start at 0."""
        by = tuple(self.values.size(fields[x]).expr for x in ("base", "by_row", "by_col"))
        if by == (Const(0), Const(0), Const(1)):
            return -1
        if by == (Const(0), Const(1), Const(0)) and self.values.rank > 1:
            return -2
        raise NotPlain


def _placed(stmt: ir.Stmt, span: Span | None) -> ir.Stmt:
    return replace(stmt, span=span) if isinstance(stmt, ir.LeafCall | ir.For) else stmt


def _flags(node: c.Node) -> int:
    match node:
        case c.Name(text) if text in _FLAGS:
            return _FLAGS[text]
        case c.Binary("|", a, b):
            return _flags(a) | _flags(b)
    raise NotPlain


def _same(out: Matrix, tile: Matrix, *, turned: bool) -> None:
    sizes = (tile.cols, tile.rows) if turned else (tile.rows, tile.cols)
    if (out.rows, out.cols) != sizes or out.region.rank != tile.region.rank or out.region.rank < 2:
        raise NotPlain


def _broadcast(out: Matrix, tile: Matrix) -> None:
    """Refuse an operand that has neither the result's rows and columns nor one of them."""
    if tile.region.rank > out.region.rank:
        raise NotPlain
    for mine, its in ((out.rows, tile.rows), (out.cols, tile.cols)):
        if its != mine and not (its.most == 1 and its.expr == Const(1)):
            raise NotPlain


def _reduced(out: Matrix, tile: Matrix) -> int:
    """Return the axis that a reduction takes away: columns where the result has one, else rows."""
    rank = tile.region.rank
    if out.region.rank != rank:
        raise NotPlain
    if out.cols.expr == Const(1) and out.rows == tile.rows:
        return rank - 1
    if rank > 1 and out.rows.expr == Const(1) and out.cols == tile.cols:
        return rank - 2
    raise NotPlain
