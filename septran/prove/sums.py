"""Rule `sums`: every product and every summand goes in once, none is missing, and their order is one.

For each product or reduction of a leaf, a term is an instance of the call, an element of its result and a
position r along the reduced axis, or several of a reduction that the leaf makes one axis after the other. Dataflow says which
element of an input each factor is. Then

    each term is another one                 (accumulator, elements of the factors) is injective
    the reduced axes are whole               per accumulator, the indices k of the input's axes take every value
    the order does not depend on the row     (sequential loops, r) -> k is one function for all accumulators

The last is the order certificate: with sizes symbolic it holds for every M, which is what the hierarchy can say
about batch invariance; a leaf has to keep its own order, too. Operands that another leaf made have no index of
an input: their axis is not asked to be whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from septran.ir import nodes as ir
from septran.ir.expr import free
from septran.prove.certificate import Finding
from septran.prove.dataflow import Read, as_read, tag_of
from septran.prove.sets import Model, Statement, affine, slot
from septran.prove.witness import describe, finding

if TYPE_CHECKING:
    import islpy as isl

_PRODUCTS = ("gemm", "gemm_acc")
_REDUCTIONS = ("reduce", "reduce_acc")


@dataclass(frozen=True, slots=True)
class Sum:
    """One product or reduction: result and factors as regions, each with its reduced dims."""

    call: Statement
    out: ir.LeafArg
    factors: tuple[tuple[ir.LeafArg, tuple[int, ...]], ...]
    """operand and the dims of it that are summed over"""

    @property
    def sequence(self) -> tuple[str, ...]:
        """Loops that add to the same accumulator, one iteration after the other."""
        moves = frozenset[str]().union(*(free(o) for o in self.out.region.offset))
        return tuple(f.var for f in self.call.loops if not f.parallel and f.var not in moves)


def sums(model: Model) -> Iterator[Finding]:
    """Yield what breaks the rule: P060 a term twice or missing, P061 an order that depends on the row."""
    asked = found_sums(model)
    read = as_read(model) if asked else Read({}, {})
    for each in asked:
        yield from _Terms(model, each, read).findings()


def found_sums(model: Model) -> tuple[Sum, ...]:
    """Return the products and reductions whose operands are parameters of their leaf.

    One that a later step of its leaf reduces on is part of that one, unless the kernel gives it back.
    """
    given = {p.buffer.name for p in model.program.params}
    found: list[Sum] = []
    for s in model.statements:
        if isinstance(s.stmt, ir.LeafCall):
            made: dict[str, tuple[ir.Prim, Sum | None]] = {}
            for prim in s.stmt.prims:
                if not made.keys() & set(prim.ins):
                    each = _sum(s, s.stmt, prim)
                else:
                    each = _further(s.stmt, prim, made)
                if each is not None:
                    _, part = made.get(prim.ins[0], (prim, None))
                    if part in found and part.out.region.buffer.name not in given:
                        found.remove(part)
                    found.append(each)
                made[prim.out] = (prim, each)
    return tuple(found)


def _further(
    call: ir.LeafCall, prim: ir.Prim, made: Mapping[str, tuple[ir.Prim, Sum | None]]
) -> Sum | None:
    """Return a reduction of what the leaf has reduced already as one over the axes of both, None for anything else."""
    before, inner = made.get(prim.ins[0], (prim, None))
    alike = prim.name in _REDUCTIONS and before.name == "reduce" and before.op == prim.op
    if not alike or inner is None:
        return None
    ((x, dims),) = inner.factors
    return replace(inner, out=call.arg(prim.out), factors=((x, (*dims, prim.axis(x.region.rank))),))


def _sum(s: Statement, call: ir.LeafCall, prim: ir.Prim) -> Sum | None:
    if prim.name in _PRODUCTS:
        a, b = (call.arg(x) for x in prim.ins)
        out = call.arg(prim.out)
        if min(x.region.rank for x in (a, b, out)) < 2:
            return None
        along_a = a.region.rank - (2 if prim.attr("trans_a") else 1)
        along_b = b.region.rank - (1 if prim.attr("trans_b") else 2)
        return Sum(s, out, ((a, (along_a,)), (b, (along_b,))))
    axis = prim.attr("axis")
    if prim.name in _REDUCTIONS and isinstance(axis, int):
        (x,) = (call.arg(name) for name in prim.ins)
        out = call.arg(prim.out)
        if out.region.rank == x.region.rank:
            return Sum(s, out, ((x, (axis % x.region.rank,)),))
    return None


@dataclass(slots=True)
class _Terms:
    """The terms T[loops, position in the result, r] of one sum."""

    model: Model
    each: Sum
    read: Read

    def findings(self) -> Iterator[Finding]:
        call = self.each.call
        sources = [self._source(arg, dims) for arg, dims in self.each.factors]
        known = [s for s in sources if s is not None]
        if len(known) != len(sources):
            return
        terms = self._accumulator()
        for element, _, _ in known:
            terms = terms.flat_range_product(element)
        if not terms.is_injective():
            text = f"{describe(call)} adds a term to {self.each.out.param} more than once"
            yield finding(self.model, "P060", text, self.model.instances(call), call)
        for (element, dims, source), (arg, _) in zip(known, self.each.factors, strict=True):
            yield from self._whole(element, dims, source, arg)

    def _whole(
        self, element: isl.Map, dims: tuple[int, ...], source: str, arg: ir.LeafArg
    ) -> Iterator[Finding]:
        import islpy as isl

        call = self.each.call
        rank = element.range().get_space().dim(isl.dim_type.set)
        xs = ", ".join(f"x_{d}" for d in range(rank))
        ks = ", ".join(f"x_{d}" for d in dims)
        index = self.model.map(f"{source}[{xs}] -> K[{ks}]")
        k = element.apply_range(index)
        per = self._accumulator().reverse().apply_range(k)
        extents = self.model.extents(self.read.views[source])
        box = " and ".join(f"0 <= x_{d} < {extents[d]}" for d in dims)
        sizes = f" and {self.model.sizes}" if self.model.dims else ""
        every = self.model.set(f"K[{ks}] : {box}{sizes}")
        whole = isl.Map.from_domain_and_range(per.domain(), every)
        missing = whole.subtract(per)
        if not missing.is_empty():
            text = f"{describe(call)} leaves out part of {arg.param}, which is summed over its {_named(dims)}"
            yield finding(self.model, "P060", text, missing)
        order = self._steps().reverse().apply_range(k)
        order = order.project_out(isl.dim_type.param, 0, order.dim(isl.dim_type.param))
        if not order.is_single_valued():
            text = f"the step at which {describe(call)} adds an element of {arg.param} depends on the row"
            yield finding(self.model, "P061", text, self.model.instances(call), call)

    @property
    def _names(self) -> list[str]:
        out = self.each.out.region
        return [*self.each.call.vars, *(f"p_{d}" for d in range(out.rank)), *self._along]

    @property
    def _along(self) -> list[str]:
        return [f"r_{n}" for n in range(len(self.each.factors[0][1]))]

    @property
    def _inside(self) -> str:
        out = self.each.out.region
        conds = [self.model.when(self.each.call)]
        conds += [f"0 <= p_{d} < {affine(e)}" for d, e in enumerate(out.extent)]
        arg, dims = self.each.factors[0]
        conds += [
            f"0 <= {r} < {affine(arg.region.extent[d])}"
            for r, d in zip(self._along, dims, strict=True)
        ]
        return " and ".join(conds)

    def _map(self, target: str) -> isl.Map:
        return self.model.map(f"T[{', '.join(self._names)}] -> {target} : {self._inside}")

    def _accumulator(self) -> isl.Map:
        """T -> the element it is added to, told apart by the loops around that element's life."""
        region = self.each.out.region
        home = [f.var for f in self.model.homes[region.buffer.name]]
        at = [
            f"{affine(o)} + {step} * p_{d}"
            for d, (o, step) in enumerate(zip(region.offset, region.step, strict=True))
        ]
        return self._map(f"ACC[{', '.join([*home, slot(region), *at])}]")

    def _steps(self) -> isl.Map:
        return self._map(f"STEP[{', '.join([*self.each.sequence, *self._along])}]")

    def _source(
        self, arg: ir.LeafArg, dims: tuple[int, ...]
    ) -> tuple[isl.Map, tuple[int, ...], str] | None:
        """Return (T -> index of an input as it is read, the dims that are summed, the input); None: another leaf's."""
        tag = f"{tag_of(self.each.call)}__{arg.param}_r"
        found = [(source, m) for (sink, source), m in self.read.origin.items() if sink == tag]
        if len(found) != 1 or found[0][0] not in self.read.views:
            return None
        source, origin = found[0]
        position = [self._position(arg, dims, d) for d in range(arg.region.rank)]
        pick = self._map(f"{tag}[{', '.join([*self.each.call.vars, *position])}]")
        return pick.apply_range(origin), dims, source

    def _position(self, arg: ir.LeafArg, dims: tuple[int, ...], d: int) -> str:
        """Return where along dim `d` of a factor a term lies: r, or a position of the result."""
        if d in dims:
            return self._along[dims.index(d)]
        rank = self.each.out.region.rank
        if len(self.each.factors) == 1:
            return f"p_{d}"
        if d >= arg.region.rank - 2:  # the matrix dim that is not summed: rows of A, columns of B
            return f"p_{rank - 2 if arg is self.each.factors[0][0] else rank - 1}"
        of = d - arg.region.rank + rank  # leading dims stand above each other from the right
        return "0" if arg.region.tile[d] == 1 or of < 0 else f"p_{of}"


def _named(dims: tuple[int, ...]) -> str:
    return f"dim {dims[0]}" if len(dims) == 1 else "dims " + " and ".join(map(str, sorted(dims)))
