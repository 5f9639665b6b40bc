"""The cpp library's leaves: C++ for any list of primitives, so every command works with no model.

`library_leaf` turns a LeafSpec into one function: rows (rows.py) become row loops of vectors, a
gemm becomes a call of the packed product in runtime/gemm.h, the rest calls of the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.planes import line_of
from septran.backends.cpp.row_loop import RowLoop
from septran.backends.cpp.rows import RowGroup, plan, reads, reduce_axis
from septran.backends.cpp.spelling import REDUCTIONS
from septran.backends.cpp.stores import homes, unneeded
from septran.backends.cpp.winograd import takes
from septran.backends.text.cstyle import C_TYPES, identifier
from septran.ir.dtypes import whole_sums
from septran.ir.nodes import LeafCall, Prim, Region
from septran.kernel import Leaf, LeafParam, LeafSpec
from septran.passes.insert_copies import AS_STORED

ROWS, COLS = 12, 32
"""Width of the panels of A and B; runtime/gemm.h has the same numbers."""

_MOVEMENT = ("scan", "argreduce", "gather", "scatter_acc")


def signature(spec: LeafSpec) -> str:
    """Return the C++ declaration a leaf of `spec` has to define, without the body."""
    parts = []
    for p in spec.params:
        kind = C_TYPES[p.dtype] if p.privilege != "r" else f"const {C_TYPES[p.dtype]}"
        parts.append(f"st::View<{kind}, {len(p.shape)}> {identifier(p.name)}")
    parts.extend(
        f"{'long' if kind == 'int' else 'float'} {identifier(name)}" for name, kind in spec.scalars
    )
    return f"static void {spec.symbol}({', '.join(parts)})"


def library_leaf(spec: LeafSpec) -> Leaf:
    """Return the library's leaf for `spec`; every list of known primitives has one."""
    gemms = any(p.name in ("gemm", "gemm_acc") for p in spec.prims)
    line = line_of(spec)
    source = _lean(spec).text()
    return Leaf(
        spec=spec,
        writer="library",
        name="gemm_leaf_simd" if gemms else "rows_leaf_simd",
        source=source if line is None else _by_lines(spec, line, source),
    )


def _lean(spec: LeafSpec) -> LeafText:
    """Return the printer of a leaf that knows what nobody reads."""
    every = LeafText(spec)
    every.text()
    dropped = unneeded(spec, every.traffic)
    return LeafText(spec, dropped=dropped, homes=homes(spec, every.traffic, dropped))


def _by_lines(spec: LeafSpec, line: int, source: str) -> str:
    """Return the text of a leaf that walks dim `line` last where its tensors lie along that dim, else as `source` does."""
    rank = len(spec.params[0].shape)
    order = (rank - 1, *(d for d in range(rank - 1) if d != line), line)

    def moved(p: LeafParam) -> LeafParam:
        return replace(
            p,
            shape=tuple(p.shape[d] for d in order),
            ragged=tuple(p.ragged[d] for d in order),
            step=(*(p.step[d] for d in order[:-1]), 1),
        )

    text = _lean(replace(spec, params=tuple(map(moved, spec.params)))).text()
    along = [identifier(p.name) for p in spec.params if p.shape[line] != 1]
    names = [identifier(p.name) for p in spec.params]
    turned = ", ".join(map(str, order))
    head, *body = source.splitlines()
    return "\n".join(
        (
            head,
            f"    if ({' && '.join(f'{n}.s[{line}] == 1' for n in along)}) {{",
            *(f"        {n} = st::turned<{turned}>({n});" for n in names),
            *(f"    {text_line}" for text_line in text.splitlines()[1:-1]),
            "        return;",
            "    }",
            *body,
            "",
        )
    )


def layouts(call: LeafCall) -> Mapping[str, str]:
    """Return the buffer layouts a gemm leaf wants for operands staged by a copy.

    A [m, k] is wanted as "panel_m:12": [ceil(m/12)][k][12]; with trans_a, A [k, m] as "panel_m_t:12",
    the same panels over its last dim. B [k, n] is wanted as "panel_n:32": [ceil(n/32)][k][32]; with
    trans_b, B [n, k] as "panel_n_t:32", the same panels over its first dim. Rows or columns that
    are missing in the last panel are 0. Leading dims are flattened over run-time extents. An
    operand that any other primitive of the leaf uses stays in rows. So do two operands in bfloat16,
    and those of a product of integers: the product packs pairs or quads of them, which no panel of
    elements holds. B of a product by itself whose tensor has 32 columns, in rows one behind the other, is a panel as it is stored.
    """
    wanted: dict[str, str] = {}
    gemms = [p for p in call.prims if p.name in ("gemm", "gemm_acc")]
    dtypes = {a.param: a.region.buffer.dtype for a in call.args}
    for prim in gemms:
        a, b = prim.ins
        pairs = dtypes[a] == dtypes[b] == "bfloat16"
        if pairs or whole_sums(dtypes[prim.out], (dtypes[a], dtypes[b])):
            continue
        wanted[a] = f"panel_m_t:{ROWS}" if prim.attr("trans_a") else f"panel_m:{ROWS}"
        wanted[b] = f"panel_n_t:{COLS}" if prim.attr("trans_b") else f"panel_n:{COLS}"
    params = {a.param for a in call.args}
    uses = [name for p in call.prims for name in (*reads(p, params), p.out)]
    found = {name: layout for name, layout in wanted.items() if uses.count(name) == 1}
    regions = {a.param: a.region for a in call.args}
    # products that add up share their panels over taps and tiles (share_panels, merge_taps)
    once = {p.ins[1] for p in gemms if p.name == "gemm" and not p.attr("trans_b")} & found.keys()
    return found | {b: AS_STORED for b in once if _is_panel(regions[b])}


def _is_panel(b: Region) -> bool:
    """Return whether the operand lies in memory as a panel of columns does."""
    *lead, _, columns = b.tile
    rows = b.buffer.steps[-2:] == (COLS, 1) and columns == COLS and set(b.step) == {1}
    plain = not b.guard and not any(b.grid) and b.version is None
    return rows and plain and all(n == 1 for n in lead) and b.buffer.dtype in ("float32", "float64")


class LeafText(LeafLines):
    """Prints one leaf."""

    def text(self) -> str:
        """Return the function's text."""
        kind = "f64" if self.double else "f32"
        steps = plan(self.spec)
        taps: list[Prim] = []
        for number, step in enumerate(steps):
            if isinstance(step, RowGroup):
                self.rows(step, number)
            else:
                self.moved(step, number)
                taps.append(step)
                if number + 1 == len(steps) or not self.same_sums(step, steps[number + 1]):
                    self.primitive(taps)
                    taps = []
        head = [f"{signature(self.spec)} {{", "    using namespace st;"]
        used = "\n".join(self.lines)
        if any(isinstance(s, RowGroup) for s in steps) or "<F>" in used or "F," in used:
            head.append(f"    using F = {kind}v;")
            if "<I>" in used or "const I " in used:
                head.append(f"    using I = {kind.replace('f', 'i')}v;")
            if " L" in used:
                head.append("    constexpr long L = lanes<F>;")
        return "\n".join([*head, *self.lines, "}"]) + "\n"

    def moved(self, prim: Prim, number: int) -> None:
        """Note what a primitive that is a call reads and writes."""
        when = (number, 0, next(at for at, p in enumerate(self.spec.prims) if p is prim))
        names = reads(prim, self.params)
        for name in (*names, *((prim.out,) if prim.name.endswith("_acc") else ())):
            self.traffic.load(name, when)
        self.traffic.store(prim.out, when)

    # ---- primitives that are calls
    def same_sums(self, prim: Prim, after: Prim | RowGroup) -> bool:
        """Return whether a product's sums can stay in registers for the next one."""
        if isinstance(after, RowGroup) or after.name != "gemm_acc" or after.out != prim.out:
            return False
        one, other = ([self.params[n] for n in p.ins] for p in (prim, after))
        alike = all(
            (a.shape, a.step, a.dtype, a.layout) == (b.shape, b.step, b.dtype, b.layout)
            for a, b in zip(one, other, strict=True)
        )
        alike = alike and not self.whole_sums(prim)
        rows = len(one[0].shape) == len(self.params[prim.out].shape) and one[0].layout == "row"
        plain = prim.out not in (*prim.ins, *after.ins) and not any((*prim.turned, *after.turned))
        return prim.name in ("gemm", "gemm_acc") and alike and rows and plain

    def primitive(self, prims: Sequence[Prim]) -> None:
        """Print a primitive, or products of the same sums, that is a call of the runtime."""
        prim, *more = prims
        if more:
            self.taps(prims)
        elif prim.name in ("gemm", "gemm_acc"):
            self.gemm(prim)
        elif prim.name in ("reduce", "reduce_acc"):
            self.reduce_columns(prim)
        elif prim.name in _MOVEMENT:
            self.movement(prim)
        elif prim.name == "transpose":
            self.copy(prim.out, prim.ins[0], prim.perm)
        else:
            self.copy(prim.out, prim.ins[0], None)

    def movement(self, prim: Prim) -> None:
        """Print a scan, a gather or the like."""
        names = (prim.out, *prim.ins)
        options = [str(prim.axis(len(self.params[prim.out].shape)))]
        if prim.op:
            options.insert(0, f"On::{prim.op}")
        if prim.name == "scan":
            options.append("true" if prim.attr("reverse") else "false")
        self.line(f"{prim.name}<{', '.join(options)}>({', '.join(identifier(n) for n in names)});")

    def whole_sums(self, prim: Prim) -> bool:
        """Return whether a product adds integers."""
        return whole_sums(self.params[prim.out].dtype, [self.params[n].dtype for n in prim.ins])

    def gemm(self, prim: Prim) -> None:
        """Print a matrix product; one into integers has sums of integers."""
        args = ", ".join(identifier(n) for n in (prim.out, *prim.ins))
        if self.whole_sums(prim):
            acc, *turned = (str(f).lower() for f in (prim.name == "gemm_acc", *prim.turned))
            self.line(f"gemm_integers<{', '.join((acc, *turned))}>({args});")
            return
        flags = [
            "true" if flag else "false"
            for flag in (
                prim.name == "gemm_acc",
                self.params[prim.ins[0]].layout != "row",
                self.params[prim.ins[1]].layout != "row",
                *prim.turned,
            )
        ]
        self.line(f"gemm<{'double' if self.double else 'float'}, {', '.join(flags)}>({args});")

    def taps(self, prims: Sequence[Prim]) -> None:
        """Print products of the same sums."""
        acc, packed = prims[0].name == "gemm_acc", self.params[prims[0].ins[1]].layout != "row"
        operands = []
        for side in (0, 1):
            params = [self.params[p.ins[side]] for p in prims]
            kind = f"View<const {C_TYPES[params[0].dtype]}, {len(params[0].shape)}>"
            operands.append(self.fresh(f"{prims[0].ins[side]}_taps"))
            names = ", ".join(identifier(p.name) for p in params)
            self.line(f"const {kind} {operands[-1]}[] = {{{names}}};")
        flags = ["double" if self.double else "float", *(str(f).lower() for f in (acc, packed))]
        out = ", ".join((identifier(prims[0].out), *operands))
        sides = (prims[0].out, prims[0].ins[0])
        dtypes = {n: p.dtype for n, p in self.params.items()}
        if takes(dict(self.spec.options), prims, dtypes):
            self.line(f"gemm_winograd<{', '.join(flags[1:])}>({out});")
            return
        planes = all(self.params[n].step[-1] != 1 and self.params[n].shape[-1] != 1 for n in sides)
        self.line(f"gemm_{'planes' if planes else 'taps'}<{', '.join(flags)}>({out});")

    def copy(self, out: str, source: str, perm: tuple[int, ...] | None) -> None:
        """Print a copy; perm: the source axis of each axis of the output."""
        y, x = self.params[out], self.params[source]
        shift = len(y.shape) - len(x.shape)
        order = perm if perm is not None else tuple(range(-shift, len(x.shape)))
        name = identifier(source)
        extents, steps = [], []
        for d, axis in enumerate(order):
            extents.append(f"{identifier(out)}.n[{d}]")
            broadcast = perm is None and (axis < 0 or x.shape[axis] == 1)
            steps.append("0" if broadcast else f"{name}.s[{axis}]")
        view = f"View<const {C_TYPES[x.dtype]}, {len(y.shape)}>"
        call = "transpose" if perm is not None else "copy"
        self.line(
            f"{call}({identifier(out)}, {view}{{{name}.p, {{{', '.join(extents)}}}, "
            f"{{{', '.join(steps)}}}}});"
        )

    def reduce_columns(self, prim: Prim) -> None:
        """Print a reduction over an axis that is not the last."""
        source, out = prim.ins[0], prim.out
        axis = reduce_axis(prim, self.params)
        rank = len(self.params[source].shape)
        x, y = identifier(source), identifier(out)
        outer = [d for d in range(rank - 1) if d != axis]
        at = {d: self.fresh(f"i{d}") for d in outer}
        for d in outer:
            self.open(f"for (long {at[d]} = 0; {at[d]} < {x}.n[{d}]; ++{at[d]})")
        px = "".join(f" + {at[d]} * {x}.s[{d}]" for d in outer)
        py = "".join(f" + {at[d]} * {y}.s[{d}]" for d in outer)
        acc = "true" if prim.name == "reduce_acc" else "false"
        self.line(
            f"reduce_rows<{REDUCTIONS[str(prim.attr('op'))]}, F, {acc}>({y}.p{py}, {y}.s[{rank - 1}], "
            f"{x}.p{px}, {x}.s[{axis}], {x}.s[{rank - 1}], {x}.n[{axis}], {x}.n[{rank - 1}]);"
        )
        for _ in outer:
            self.close()

    # ---- rows
    def rows(self, group: RowGroup, number: int) -> None:
        """Print a row group."""
        taken = set(self.taken)
        RowLoop(self, group, number).emit()
        self.taken = taken
