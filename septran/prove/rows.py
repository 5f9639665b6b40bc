"""Rule `row-order`: an output's row is computed alike wherever it stands and however many rows there are.

A row dim is a size that stays symbolic and counts independent rows (M of a product). Loops whose extent speaks
of it are row loops: they say which rows are worked on. Asked for every leaf call is that

    the same steps run      for every row, iterations of all other loops are the same set
    on the same data        each operand comes from the same call, iteration and place, rows apart
    over the same lengths   what a product or reduction adds up has one length in each step

so that, by induction from the inputs, two rows go through the same calls in the same order. Leaves then decide:
the certificate takes for granted that they treat rows alike, which is tested on bits. Threads and the number of
tiles are row loops' extents and therefore inside the statement; the tiles' sizes are numbers in the Program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from septran.ir import nodes as ir
from septran.ir.expr import free
from septran.prove.certificate import Finding
from septran.prove.dataflow import BORDER, by_pair, flow, tag_of
from septran.prove.sets import Model, NotAffine, Statement, affine, read_map
from septran.prove.witness import At, describe, drawn, sample

if TYPE_CHECKING:
    import islpy as isl

ROW_ORDER = "row-order"
LEAVES = (
    "leaves compute each row from that row of their operands, with the same bits at every place and for every "
    "number of rows (tests compare bits)"
)
"""What the rule takes for granted."""
_ALONG = ("reduce", "reduce_acc", "scan", "argreduce")


def row_order(model: Model, rows: Sequence[str]) -> Iterator[Finding]:
    """Yield what breaks the rule (P062). rows: names among the model's symbolic sizes."""
    asked = _Rows(model, frozenset(rows))
    for s in model.statements:
        if isinstance(s.stmt, ir.LeafCall):
            yield from asked.steps(s)
            yield from asked.lengths(s, s.stmt)
    yield from asked.data()


@dataclass(slots=True)
class _Rows:
    model: Model
    names: frozenset[str]

    def _apart(self, s: Statement) -> tuple[list[str], list[str]]:
        """Return what says which rows (numbers of rows and row loops), and the other loops."""
        is_row = [bool(free(f.extent) & self.names) for f in s.loops]
        pairs = list(zip(s.vars, is_row, strict=True))
        sizes = [d.name for d in self.model.dims if d.name in self.names]
        return [*sizes, *(v for v, row in pairs if row)], [v for v, row in pairs if not row]

    def _map(self, body: str) -> isl.Map:
        """Return the isl map `{ body }`, in which the numbers of rows are no parameters."""
        sizes = ", ".join(d.name for d in self.model.dims if d.name not in self.names)
        return read_map(f"[{sizes}] -> {{ {body} }}")

    def steps(self, s: Statement) -> Iterator[Finding]:
        """The iterations of all other loops are the same for every row."""
        import islpy as isl

        rows, others = self._apart(s)
        runs = self._map(f"[{', '.join(rows)}] -> [{', '.join(others)}] : {self.model.when(s)}")
        every = isl.Map.from_domain_and_range(runs.domain(), runs.range())
        missing = every.subtract(runs)
        if not missing.is_empty():
            text = f"whether {describe(s)} runs depends on the row"
            yield self._finding(s, text, sample(missing, (*rows, *others)))

    def lengths(self, s: Statement, call: ir.LeafCall) -> Iterator[Finding]:
        """What is added up has one length in each step."""
        rows, others = self._apart(s)
        for arg, dim in _summed(call):
            told = f"exists ({', '.join(rows)} : {self.model.when(s)} and n = {affine(arg.region.extent[dim])})"
            found = self._map(f"[{', '.join(others)}] -> [n] : {told}")
            if not found.is_single_valued():
                text = f"how much of {arg.param} {describe(s)} adds up depends on the row"
                yield self._finding(
                    s, text, sample(found.subtract(found.lexmin()), (*others, "length"))
                )

    def data(self) -> Iterator[Finding]:
        """Each operand comes from the same call, iteration and place, rows apart."""
        calls = {tag_of(s): s for s in self.model.statements if s.kind == "leaf"}
        for (sink, source), origin in sorted(by_pair(flow(self.model).origin).items()):
            tag, _, operand = sink.partition("__")
            if tag not in calls:
                continue
            s = calls[tag]
            for at in self._places(source, calls, origin):
                many = self._many(s, origin, at)
                if not many.is_empty():
                    text = f"where {describe(s)} takes {operand.rpartition('_')[0]} from depends on the row"
                    yield self._finding(s, text, sample(many, tuple(self._apart(s)[1])))
                    break

    def _finding(self, s: Statement, text: str, at: At) -> Finding:
        return Finding(
            code="P062",
            text=text,
            statements=(describe(s),),
            at=at,
            places=() if s.span is None else (s.span,),
            tiles=drawn(self.model, at, s),
        )

    def _places(self, source: str, calls: dict[str, Statement], origin: isl.Map) -> Iterator[int]:
        """Yield the coordinates of a source that name no row."""
        import islpy as isl

        if source == f"IN__{BORDER}":
            return  # one number for every row
        if source.startswith("IN__"):
            shape = self.model.shapes[source.removeprefix("IN__")]
            rows = [bool(free(e) & self.names) for e in shape]
        else:
            named, _ = self._apart(calls[source.partition("__")[0]])
            rows = [v in named for v in calls[source.partition("__")[0]].vars]
        yield from (k for k in range(origin.dim(isl.dim_type.out)) if k >= len(rows) or not rows[k])

    def _many(self, s: Statement, origin: isl.Map, at: int) -> isl.Map:
        """Return other loops and position -> coordinate `at` of the source, where rows differ in it."""
        import islpy as isl

        only = origin.project_out(isl.dim_type.out, at + 1, origin.dim(isl.dim_type.out) - at - 1)
        only = only.project_out(isl.dim_type.out, 0, at)
        named, _ = self._apart(s)
        for k in reversed(range(len(s.vars))):
            if s.vars[k] in named:
                only = only.project_out(isl.dim_type.in_, k, 1)
        for name in self.names:
            size = only.find_dim_by_name(isl.dim_type.param, name)
            if size >= 0:
                only = only.project_out(isl.dim_type.param, size, 1)
        return only if only.is_empty() else only.subtract(only.lexmin())


def _summed(call: ir.LeafCall) -> Iterator[tuple[ir.LeafArg, int]]:
    """Yield (operand, dim) of what the primitives of a leaf go along."""
    known = {a.param for a in call.args}
    for prim in call.prims:
        if prim.name in ("gemm", "gemm_acc"):
            for name, key, plain in zip(prim.ins, ("trans_a", "trans_b"), (1, 2), strict=True):
                if name in known:
                    arg = call.arg(name)
                    yield arg, arg.region.rank - (3 - plain if prim.attr(key) else plain)
        elif prim.name in _ALONG and prim.ins[0] in known:
            arg = call.arg(prim.ins[0])
            axis = prim.attr("axis")
            if not isinstance(axis, int):
                raise NotAffine(f"the axis of {prim.name} is not affine")
            yield arg, axis % arg.region.rank
