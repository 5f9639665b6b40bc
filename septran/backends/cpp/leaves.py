"""The cpp library's leaves: C++ for any list of primitives, so every command works with no model.

`library_leaf` turns a LeafSpec into one function: rows (rows.py) become row loops of vectors, a
gemm becomes a call of the packed product in runtime/gemm.h, the rest calls of the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from septran.backends.cpp.rows import RowGroup, RowPrim, plan, reads, reduce_axis
from septran.backends.cpp.spelling import SPELLING, literal, wide_lanes
from septran.backends.text.cstyle import C_TYPES, identifier
from septran.backends.text.spell import argument
from septran.ir.nodes import LeafCall, Prim
from septran.ir.scalar import Index, Name, Op, walk
from septran.kernel import Leaf, LeafParam, LeafSpec

ROWS, COLS = 12, 32
"""Width of the panels of A and B; runtime/gemm.h has the same numbers."""

_MOVEMENT = ("scan", "argreduce", "gather", "scatter_acc")
_OPS = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min"}


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
    return Leaf(
        spec=spec,
        writer="library",
        name="gemm_leaf_simd" if gemms else "rows_leaf_simd",
        source=_LeafText(spec).text(),
    )


def layouts(call: LeafCall) -> Mapping[str, str]:
    """Return the buffer layouts a gemm leaf wants for operands staged by a copy.

    A [m, k] is wanted as "panel_m:12": [ceil(m/12)][k][12]; with trans_a, A [k, m] as "panel_m_t:12",
    the same panels over its last dim. B [k, n] is wanted as "panel_n:32": [ceil(n/32)][k][32]; with
    trans_b, B [n, k] as "panel_n_t:32", the same panels over its first dim. Rows or columns that
    are missing in the last panel are 0. Leading dims are flattened over run-time extents. An
    operand that any other primitive of the leaf uses stays in rows.
    """
    wanted: dict[str, str] = {}
    gemms = [p for p in call.prims if p.name in ("gemm", "gemm_acc")]
    for prim in gemms:
        a, b = prim.ins
        wanted[a] = f"panel_m_t:{ROWS}" if prim.attr("trans_a") else f"panel_m:{ROWS}"
        wanted[b] = f"panel_n_t:{COLS}" if prim.attr("trans_b") else f"panel_n:{COLS}"
    params = {a.param for a in call.args}
    uses = [name for p in call.prims for name in (*reads(p, params), p.out)]
    return {name: layout for name, layout in wanted.items() if uses.count(name) == 1}


class _LeafText:
    """Prints one leaf."""

    def __init__(self, spec: LeafSpec) -> None:
        self.spec = spec
        self.params: dict[str, LeafParam] = {p.name: p for p in spec.params}
        self.double = self._needs_double()
        self.lines: list[str] = []
        self.depth = 1
        self._taken = {identifier(n) for n in self.params} | {
            identifier(n) for n, _ in spec.scalars
        }

    def _needs_double(self) -> bool:
        if any(p.dtype == "float64" for p in self.spec.params):
            return True
        maps = (p for p in self.spec.prims if p.name == "map")
        return any(wide_lanes(self.spec.expression(prim)) for prim in maps)

    def text(self) -> str:
        kind = "f64" if self.double else "f32"
        steps = plan(self.spec)
        for step in steps:
            if isinstance(step, RowGroup):
                self.rows(step)
            else:
                self.primitive(step)
        head = [f"{signature(self.spec)} {{", "    using namespace st;"]
        used = "\n".join(self.lines)
        if any(isinstance(s, RowGroup) for s in steps) or "<F>" in used or "F," in used:
            head.append(f"    using F = {kind}v;")
            if "<I>" in used or "const I " in used:
                head.append(f"    using I = {kind.replace('f', 'i')}v;")
            if " L" in used:
                head.append("    constexpr long L = lanes<F>;")
        return "\n".join([*head, *self.lines, "}"]) + "\n"

    # ---- small things
    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def open(self, text: str) -> None:
        self.line(f"{text} {{")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.line("}")

    def fresh(self, name: str) -> str:
        name = identifier(name)
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def literal(self, value: object) -> str:
        assert isinstance(value, int | float)
        return literal(value, self.dtype)

    @property
    def dtype(self) -> str:
        """What floats are computed in."""
        return "float64" if self.double else "float32"

    # ---- primitives that are calls
    def primitive(self, prim: Prim) -> None:
        if prim.name in ("gemm", "gemm_acc"):
            self.gemm(prim)
        elif prim.name in ("reduce", "reduce_acc"):
            self.reduce_columns(prim)
        elif prim.name in _MOVEMENT:
            self.movement(prim)
        elif prim.name == "transpose":
            perm = prim.attr("perm")
            assert isinstance(perm, tuple | list)
            self.copy(prim.out, prim.ins[0], tuple(int(d) for d in perm))
        else:
            self.copy(prim.out, prim.ins[0], None)

    def movement(self, prim: Prim) -> None:
        axis = prim.attr("axis")
        assert isinstance(axis, int)
        names = (prim.out, *prim.ins)
        options = [str(axis % len(self.params[prim.out].shape))]
        if prim.attr("op"):
            options.insert(0, f"On::{prim.attr('op')}")
        if prim.name == "scan":
            options.append("true" if prim.attr("reverse") else "false")
        self.line(f"{prim.name}<{', '.join(options)}>({', '.join(identifier(n) for n in names)});")

    def gemm(self, prim: Prim) -> None:
        flags = [
            "true" if flag else "false"
            for flag in (
                prim.name == "gemm_acc",
                self.params[prim.ins[0]].layout != "row",
                self.params[prim.ins[1]].layout != "row",
                bool(prim.attr("trans_a")),
                bool(prim.attr("trans_b")),
            )
        ]
        args = ", ".join(identifier(n) for n in (prim.out, *prim.ins))
        self.line(f"gemm<{'double' if self.double else 'float'}, {', '.join(flags)}>({args});")

    def copy(self, out: str, source: str, perm: tuple[int, ...] | None) -> None:
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
            f"reduce_rows<{_OPS[str(prim.attr('op'))]}, F, {acc}>({y}.p{py}, {y}.s[{rank - 1}], "
            f"{x}.p{px}, {x}.s[{axis}], {x}.s[{rank - 1}], {x}.n[{axis}], {x}.n[{rank - 1}]);"
        )
        for _ in outer:
            self.close()

    # ---- rows
    def rows(self, group: RowGroup) -> None:
        taken = set(self._taken)
        _RowLoop(self, group).emit()
        self._taken = taken


class _RowLoop:
    """Prints one row group: the loops over outer dims, then its inner loops."""

    def __init__(self, leaf: _LeafText, group: RowGroup) -> None:
        self.leaf = leaf
        self.group = group
        self.rank = len(leaf.params[group.first.space].shape)
        self.at: list[str] = []
        self.row: dict[str, str] = {}
        self.once: dict[tuple[str, str], str] = {}
        """(parameter with one value per row, F or I) -> variable of that type that holds it."""
        self.position = ""

    def emit(self) -> None:
        leaf, first = self.leaf, self.group.first
        space = identifier(first.space)
        loops = 0
        for d in range(self.rank - 1):
            if leaf.params[first.space].shape[d] == 1:
                self.at.append("0")
                continue
            var = leaf.fresh(f"i{d}")
            self.at.append(var)
            leaf.open(f"for (long {var} = 0; {var} < {space}.n[{d}]; ++{var})")
            loops += 1
        if not loops:
            leaf.line("{")
            leaf.depth += 1
            loops = 1
        for loop in self.group.loops:
            for row in loop:
                for name in (*reads(row.prim, self.leaf.params), row.prim.out):
                    self._row_pointer(name)
        walks = [loop for loop in self.group.loops if loop[0].inner is not None]
        for loop in self.group.loops:
            if loop[0].inner is None:
                self._single(loop[0])
            else:
                # Several passes over a row: fetch the next one while the last pass computes.
                last = len(walks) > 1 and loop is walks[-1]
                self._inner(loop, self._next_rows() if last else ())
        for _ in range(loops):
            leaf.close()

    def _next_rows(self) -> tuple[str, ...]:
        """Return, per tensor of the group in GLOBAL, the address of its next row's elements."""
        found: dict[str, None] = {}
        for row in (row for loop in self.group.loops for row in loop):
            for name in (*reads(row.prim, self.leaf.params), row.prim.out):
                param = self.leaf.params[name]
                rank = len(param.shape)
                follows = rank == self.rank >= 2 and param.shape[-2] != 1 and param.shape[-1] != 1
                if follows and param.mem == "GLOBAL" and self._unit(name):
                    found[f"{self.row[name]} + {identifier(name)}.s[{rank - 2}]"] = None
        return tuple(found)

    # ---- where things are
    def _outer_terms(self, name: str) -> str:
        shape = self.leaf.params[name].shape
        shift = self.rank - len(shape)
        terms = ""
        for d in range(len(shape) - 1):
            if shape[d] != 1 and self.at[d + shift] != "0":
                terms += f" + {self.at[d + shift]} * {identifier(name)}.s[{d}]"
        return terms

    def _row_pointer(self, name: str) -> None:
        if name in self.row:
            return
        param = self.leaf.params[name]
        var = self.leaf.fresh(f"{name}_row")
        self.row[name] = var
        kind = C_TYPES[param.dtype] if param.privilege != "r" else f"const {C_TYPES[param.dtype]}"
        self.leaf.line(f"{kind}* const {var} = {identifier(name)}.p{self._outer_terms(name)};")

    def _unit(self, name: str) -> bool:
        return self.leaf.params[name].step[-1] == 1

    def _last(self, name: str) -> str:
        return f"{identifier(name)}.s[{len(self.leaf.params[name].shape) - 1}]"

    # ---- one value per row
    def _once(self, name: str, kind: str) -> str:
        """Return a variable of type F or I (`kind`) with the row's value in every lane."""
        if (name, kind) not in self.once:
            var = self.leaf.fresh(f"{name}_1")
            self.leaf.line(
                f"const {kind} {var} = splat<{kind}>(to_lane<lane<{kind}>>({self.row[name]}[0]));"
            )
            self.once[name, kind] = var
        return self.once[name, kind]

    def _forget(self, name: str) -> None:
        for kind in ("F", "I"):
            self.once.pop((name, kind), None)

    def _keep_once(self, name: str, kind: str, text: str) -> None:
        leaf = self.leaf
        dtype = leaf.params[name].dtype
        var = leaf.fresh(f"{name}_1")
        leaf.line(f"const {kind} {var} = {text};")
        leaf.line(f"{self.row[name]}[0] = cast<{C_TYPES[dtype]}>(lane<{kind}>({var}[0]));")
        self._forget(name)
        if dtype == leaf.dtype:
            self.once[name, kind] = var

    def _single(self, row: RowPrim) -> None:
        leaf, prim, kind = self.leaf, row.prim, "F"
        if row.reduces:
            text = self._once(prim.ins[0], "F")
            if prim.name == "reduce_acc":
                text = f"{_OPS[str(prim.attr('op'))]}::of({self._once(prim.out, 'F')}, {text})"
        elif prim.name == "fill":
            text = f"splat<F>({leaf.literal(prim.attr('value'))})"
        elif prim.name == "copy":
            text = self._once(prim.ins[0], "F")
        else:
            kind, text = self._expression(prim, self._once, last_index="0")
        self._keep_once(prim.out, kind, text)

    def _expression(
        self, prim: Prim, value: Callable[[str, str], str], *, last_index: str
    ) -> tuple[str, str]:
        """Return the type (F or I) and the text of a map. value: (parameter, F or I) -> variable."""
        leaf = self.leaf
        rank = len(leaf.params[prim.out].shape)
        shift = self.rank - rank

        def index(axis: int) -> str:
            if axis == rank - 1:
                if last_index == "0":
                    return "splat<I>(0)"
                return f"(iota<I>() + splat<I>({last_index}))"
            outer = self.at[axis + shift] if axis + shift >= 0 else "0"
            return f"splat<I>({outer})"

        def operand(node: Name | Index, want: str) -> str:
            if isinstance(node, Index):
                text = index(node.axis)
                return f"convert<F>({text})" if want == "float" else text
            if not node.tile:
                return f"splat<{'F' if want == 'float' else 'I'}>({identifier(node.name)})"
            text = value(node.name, "F" if want == "float" else "I")
            return f"({text} != 0)" if want == "bool" else text

        tree = leaf.spec.expression(prim)
        kind = "F" if tree.kind == "float" else "I"
        return kind, argument(tree, SPELLING, operand, leaf.dtype)

    # ---- whole rows
    def _inner(self, loop: tuple[RowPrim, ...], next_rows: tuple[str, ...]) -> None:
        leaf = self.leaf
        space = loop[0].space
        rank = len(leaf.params[space].shape)
        length = leaf.fresh("n")
        leaf.line(f"const long {length} = {identifier(space)}.n[{rank - 1}];")
        for row in loop:
            for name in reads(row.prim, leaf.params):
                if leaf.params[name].shape[-1] == 1:
                    for kind in self._read_as(row.prim, name):
                        self._once(name, kind)
        reductions = {
            row.prim.out: leaf.fresh(f"{row.prim.out}_acc") for row in loop if row.reduces
        }
        for row in loop:
            if row.reduces:
                acc = reductions[row.prim.out]
                leaf.line(f"F {acc}[4];")
                leaf.line(f"clear<{_OPS[str(row.prim.attr('op'))]}>({acc});")
        j = leaf.fresh("j")
        leaf.line(f"long {j} = 0;")
        if reductions:
            u, q = leaf.fresh("u"), leaf.fresh("q")
            leaf.open(f"for (; {j} + 4 * L <= {length}; {j} += 4 * L)")
            leaf.line("#pragma GCC unroll 4")
            leaf.open(f"for (long {u} = 0, {q} = {j}; {u} < 4; ++{u}, {q} += L)")
            for address in next_rows:
                leaf.line(f"prefetch({address} + {q});")
            self._step(loop, q, None, {k: f"{v}[{u}]" for k, v in reductions.items()})
            leaf.close()
            leaf.close()
        else:
            leaf.open(f"for (; {j} + L <= {length}; {j} += L)")
            for address in next_rows:
                leaf.line(f"prefetch({address} + {j});")
            self._step(loop, j, None, {})
            leaf.close()
        rest = leaf.fresh("rest")
        leaf.open(f"for (; {j} < {length}; {j} += L)")
        leaf.line(f"const long {rest} = {length} - {j};")
        self._step(loop, j, rest, {k: f"{v}[0]" for k, v in reductions.items()})
        leaf.close()
        for row in loop:
            if not row.reduces:
                self._forget(row.prim.out)
                continue
            out = row.prim.out
            op, acc = _OPS[str(row.prim.attr("op"))], reductions[out]
            text = f"total<{op}>({acc})"
            if row.prim.name == "reduce_acc":
                text = f"{op}::of({self._once(out, 'F')}, {text})"
            self._keep_once(out, "F", text)

    def _read_as(self, prim: Prim, name: str) -> tuple[str, ...]:
        """Return as which of F and I a primitive reads one of its operands."""
        if prim.name != "map":
            return ("F",)
        tree = self.leaf.spec.expression(prim)
        real = isinstance(tree, Name) and tree.kind == "float"
        whole = isinstance(tree, Name) and not real
        for node in walk(tree):
            args = node.args if isinstance(node, Op) else ()
            for arg in (a for a in args if isinstance(a, Name) and a.name == name):
                as_float = arg.kind == "float" or (isinstance(node, Op) and node.op == "float")
                real, whole = real or as_float, whole or not as_float
        return (*(("F",) if real else ()), *(("I",) if whole else ()))

    def _step(
        self, loop: tuple[RowPrim, ...], j: str, rest: str | None, acc: Mapping[str, str]
    ) -> None:
        """Print the work on one vector of elements at position `j`."""
        leaf = self.leaf
        values: dict[tuple[str, str], str] = {}
        taken = set(leaf._taken)

        def value(name: str, kind: str) -> str:
            if leaf.params[name].shape[-1] == 1:
                return self._once(name, kind)
            if (name, kind) not in values:
                values[name, kind] = leaf.fresh(f"{name}_v")
                leaf.line(f"const {kind} {values[name, kind]} = {self._load(kind, name, j, rest)};")
            return values[name, kind]

        for row in loop:
            prim, kind = row.prim, "F"
            if row.reduces:
                op = f"{_OPS[str(prim.attr('op'))]}"
                text = value(prim.ins[0], "F")
                if rest is not None:
                    text = f"keep({text}, {rest}, unit<{op}, F>())"
                leaf.line(f"{acc[prim.out]} = {op}::of({acc[prim.out]}, {text});")
                continue
            if prim.name == "fill":
                text = f"splat<F>({leaf.literal(prim.attr('value'))})"
            elif prim.name == "copy":
                text = value(prim.ins[0], "F")
            else:
                kind, text = self._expression(prim, value, last_index=j)
            var = leaf.fresh(f"{prim.out}_v")
            leaf.line(f"const {kind} {var} = {text};")
            leaf.line(self._store(prim.out, var, j, rest))
            for known in ("F", "I"):
                values.pop((prim.out, known), None)
            if leaf.params[prim.out].dtype == leaf.dtype:
                values[prim.out, kind] = var
        leaf._taken = taken

    def _load(self, kind: str, name: str, j: str, rest: str | None) -> str:
        row = self.row[name]
        if not self._unit(name):
            step = self._last(name)
            return f"gather<{kind}>({row} + {j} * {step}, {step}, {rest or 'L'})"
        if rest is None:
            return f"load<{kind}>({row} + {j})"
        return f"load_n<{kind}>({row} + {j}, {rest})"

    def _store(self, name: str, var: str, j: str, rest: str | None) -> str:
        row = self.row[name]
        if not self._unit(name):
            step = self._last(name)
            return f"scatter({row} + {j} * {step}, {step}, {var}, {rest or 'L'});"
        if rest is None:
            return f"store({row} + {j}, {var});"
        return f"store_n({row} + {j}, {var}, {rest});"
