"""A library leaf's list of operations as the C that a reply could give: calls of vendor_lib on the leaf's views.

What the emitter knows of a call (places, pitches, sizes) a leaf reads from its views; temporaries lie in its scratch.
"""

from __future__ import annotations

from septran.backends.dsa.leaf_tiles import NoText, Tiles, number, size
from septran.backends.dsa.passes.expand_leaves import expand_call
from septran.backends.dsa.passes.operations import whole
from septran.backends.dsa.vendor import load_vendor
from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var
from septran.kernel import LeafSpec

SPOKEN = "vendor_lib"
"""The vendor whose calls a leaf makes, whatever machine it is for."""
_EVENT = 48
_FLAGS = ("VL_MMA_INIT", "VL_MMA_TRANS_A", "VL_MMA_TRANS_B")


def leaf_call(spec: LeafSpec) -> ir.LeafCall:
    """Return a call of the leaf on whole buffers; extents have the names that its text has for them: `X.n[0]`."""
    args = tuple(
        ir.LeafArg(
            param=p.name,
            region=whole(
                ir.Buffer(name=p.name, shape=p.shape, dtype=p.dtype, mem=p.mem),
                tuple(
                    Const(1) if n == 1 else Var(f"{p.name}.n[{d}]") for d, n in enumerate(p.shape)
                ),
            ),
            privilege=p.privilege,
        )
        for p in spec.params
    )
    scalars = tuple(
        (name, Var(name) if value == "int" else float(value)) for name, value in spec.scalars
    )
    return ir.LeafCall(task=spec.task, impl="auto", args=args, scalars=scalars, prims=spec.prims)


def body(spec: LeafSpec) -> str:
    """Return the statements of the library's leaf, indented by two.

    Raises:
        NoText: an operation that calls on the leaf's views cannot say.
    """
    stmts = expand_call(leaf_call(spec), "tmp")
    text = _Text(spec, stmts)
    for stmt in stmts:
        text.stmt(stmt)
    return "".join(f"  {line}\n" for line in (*text.tiles.declared, *text.lines))


class _Text:
    def __init__(self, spec: LeafSpec, stmts: tuple[ir.Stmt, ...]) -> None:
        self.vendor = load_vendor(SPOKEN)
        self.tiles = Tiles(spec, stmts, self.vendor.dtypes)
        self.lines: list[str] = []
        self.depth = 0
        self.queue = ""
        self.event = _EVENT

    def put(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    # ---- order
    def on(self, queue: str) -> None:
        """Order what comes on `queue` behind everything before it."""
        before, self.queue = self.queue, queue
        if before in ("", queue):
            return
        if self.depth:
            self.put("vendor_lib_sync();")
            return
        for call in ("dsa.set", "dsa.wait"):
            ends = {"source": before, "target": queue, "event": self.event}
            self.put(self.vendor.calls[call].format(**ends))
        self.event += 1

    def drain(self) -> None:
        if self.queue:
            self.put("vendor_lib_sync();")
        self.queue = ""

    # ---- statements
    def stmt(self, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.Alloc():
                pass
            case ir.Copy(dst=dst, src=src):
                if "GLOBAL" not in (dst.buffer.mem, src.buffer.mem):
                    raise NoText("a copy between local memories")
                self.on(self.queue_of(stmt))
                same = dst.buffer.dtype == src.buffer.dtype
                self.each(dst, "dsa.dma_copy" if same else "dsa.dma_cast", d=dst, a=src)
            case ir.LeafCall():
                self.on(self.queue_of(stmt))
                self.operation(stmt)
            case ir.For():
                self.loop(stmt)
            case _:
                raise NoText(f"no call for {type(stmt).__name__}")

    def queue_of(self, stmt: ir.Stmt) -> str:
        match stmt:
            case ir.Copy(dst=dst):
                return self.vendor.queues["STORE" if dst.buffer.mem == "GLOBAL" else "LOAD"]
            case ir.LeafCall():
                return self.vendor.queues["MMA" if stmt.task == "dsa.mma" else "VEC"]
        return ""

    def loop(self, stmt: ir.For) -> None:
        queues = {self.queue_of(s) for s in ir.walk(stmt.body)} - {""}
        if len(queues) == 1:
            self.on(*queues)
        else:  # what one turn leaves unfinished on one queue the next may need on another
            self.drain()
        self.open(stmt.var, stmt.extent)
        for inner in stmt.body:
            self.stmt(inner)
        if len(queues) > 1:
            self.drain()
        self.close()

    def open(self, var: str, extent: Expr) -> None:
        self.put(f"for (int {var} = 0; {var} < {size(extent)}; {var}++) {{")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.put("}")

    # ---- operations
    def operation(self, call: ir.LeafCall) -> None:
        out, ins = call.args[0].region, tuple(a.region for a in call.args[1:])
        prim = call.prims[0]
        numbers = [number(v) for _, v in call.scalars]
        match call.task:
            case "dsa.mma":
                self.product(out, ins[0], ins[1], prim)
            case "dsa.vec_transpose":
                self.transposed(out, ins[0], prim.perm)
            case "dsa.fill":
                value = numbers[0] if numbers else number(float(str(prim.attr("value"))))
                self.each(out, call.task, value=value, d=out)
            case "dsa.vec_index":
                self.index(out, str(prim.attr("expr")))
            case name if name.startswith("dsa.vec_reduce"):
                self.each(ins[0], name, d=out, a=ins[0])
            case name:
                tiles = dict(zip("abc", ins, strict=False))
                self.each(out, name, d=out, **tiles, **({"s": numbers[0]} if numbers else {}))

    def product(self, c: ir.Region, a: ir.Region, b: ir.Region, prim: ir.Prim) -> None:
        if min(c.rank, a.rank, b.rank) < 2 or any(n > 1 for r in (c, a, b) for n in r.tile[:-2]):
            raise NoText("a product of other than two matrices")
        held = (prim.name != "gemm_acc", *prim.turned)
        flags = " | ".join(flag for flag, yes in zip(_FLAGS, held, strict=True) if yes)
        self.each(c, "dsa.mma", flags=flags or "0", d=c, a=a, b=b)

    def transposed(self, out: ir.Region, src: ir.Region, perm: tuple[int, ...]) -> None:
        moved = [{d, p} for d, p in enumerate(perm) if d != p and out.tile[d] > 1]
        if any(dims != {out.rank - 2, out.rank - 1} for dims in moved):
            raise NoText("it moves other axes than the last two")
        self.each(out, "dsa.vec_transpose" if moved else "dsa.vec_copy", d=out, a=src)

    def index(self, out: ir.Region, text: str) -> None:
        axis = int(text[text.index("(") + 1 : text.index(")")])
        if axis < out.rank - 2 and out.tile[axis] > 1:
            raise NoText("the position along an axis in front of the last two")
        by = {"by_row": int(axis == out.rank - 2), "by_col": int(axis == out.rank - 1)}
        self.each(out, "dsa.vec_index", base=0, **by, d=out)

    def each(self, over: ir.Region, op: str, **words: ir.Region | str | int) -> None:
        """Put one call for each matrix of `over`, in loops over the dims in front of its last two."""
        at: dict[int, Expr] = {}
        for d in range(over.rank - 2):
            if over.tile[d] > 1:
                var = self.tiles.own("i")
                at[d - over.rank] = Var(var)
                self.open(var, over.extent[d])
        fields = {
            name: self.tiles.tile(word, at) if isinstance(word, ir.Region) else word
            for name, word in words.items()
        }
        self.put(self.vendor.calls[op].format(**fields))
        for _ in at:
            self.close()
