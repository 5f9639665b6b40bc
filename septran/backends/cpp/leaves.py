"""The cpp library's leaves: C++ for any list of primitives, so every command works with no model.

`library_leaf` turns a LeafSpec into one function: rows (rows.py) become row loops of vectors, a
gemm becomes a call of the packed product in runtime/gemm.h, the rest calls of the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping

from septran.backends.cpp.rows import RowGroup, RowPrim, plan, reads, reduce_axis
from septran.backends.cpp.spelling import MapExpression, Value, literal
from septran.backends.text.cstyle import C_TYPES, identifier
from septran.ir.nodes import LeafCall, Prim
from septran.kernel import Leaf, LeafParam, LeafSpec

ROWS, COLS = 12, 32
"""Width of the panels of A and B; runtime/gemm.h has the same numbers."""

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
        # Two 64-bit integers meet in one expression: only 64-bit lanes compare them exactly.
        return any(
            sum(n in self.params and self.params[n].dtype == "int64" for _, n in prim.named) > 1
            for prim in self.spec.prims
        )

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
            if "<I>" in used:
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
        return literal(value, double=self.double)

    # ---- primitives that are calls
    def primitive(self, prim: Prim) -> None:
        if prim.name in ("gemm", "gemm_acc"):
            self.gemm(prim)
        elif prim.name in ("reduce", "reduce_acc"):
            self.reduce_columns(prim)
        elif prim.name == "transpose":
            perm = prim.attr("perm")
            assert isinstance(perm, tuple | list)
            self.copy(prim.out, prim.ins[0], tuple(int(d) for d in perm))
        else:
            self.copy(prim.out, prim.ins[0], None)

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
        self.once: dict[str, str] = {}
        """parameter with one value per row -> variable of type F that holds it."""
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

    def _is_int(self, name: str) -> bool:
        return not self.leaf.params[name].dtype.startswith(("float", "bfloat"))

    # ---- one value per row
    def _once(self, name: str) -> str:
        """Return a variable of type F (I for integers) with the row's value in every lane."""
        if name not in self.once:
            var = self.leaf.fresh(f"{name}_1")
            kind, lane = ("I", "lane<I>") if self._is_int(name) else ("F", "lane<F>")
            self.leaf.line(
                f"const {kind} {var} = splat<{kind}>(to_lane<{lane}>({self.row[name]}[0]));"
            )
            self.once[name] = var
        return self.once[name]

    def _keep_once(self, name: str, text: str) -> None:
        leaf = self.leaf
        dtype = leaf.params[name].dtype
        var = leaf.fresh(f"{name}_1")
        leaf.line(f"const F {var} = {text};")
        leaf.line(f"{self.row[name]}[0] = cast<{C_TYPES[dtype]}>(lane<F>({var}[0]));")
        self.once.pop(name, None)
        if dtype == ("float64" if leaf.double else "float32"):
            self.once[name] = var

    def _single(self, row: RowPrim) -> None:
        leaf, prim = self.leaf, row.prim
        if row.reduces:
            text = self._once_float(prim.ins[0])
            if prim.name == "reduce_acc":
                text = f"{_OPS[str(prim.attr('op'))]}::of({self._once_float(prim.out)}, {text})"
        elif prim.name == "fill":
            text = f"splat<F>({leaf.literal(prim.attr('value'))})"
        elif prim.name == "copy":
            text = self._once_float(prim.ins[0])
        else:
            named = dict(prim.named)
            text = self._expression(
                prim, lambda operand: self._value_once(named[operand]), last_index="0"
            )
        self._keep_once(prim.out, text)

    def _once_float(self, name: str) -> str:
        text = self._once(name)
        return f"convert<F>({text})" if self._is_int(name) else text

    def _value_once(self, name: str) -> Value:
        text = self._once(name)
        return Value(i=text) if self._is_int(name) else Value(f=text)

    def _expression(self, prim: Prim, operand: object, *, last_index: str) -> str:
        leaf = self.leaf
        rank = len(leaf.params[prim.out].shape)
        shift = self.rank - rank

        def index(axis: int) -> Value:
            axis %= rank
            if axis == rank - 1:
                if last_index == "0":
                    return Value(i="splat<I>(0)")
                return Value(i=f"(iota<I>() + splat<I>({last_index}))")
            outer = self.at[axis + shift] if axis + shift >= 0 else "0"
            return Value(i=f"splat<I>({outer})")

        scalars: dict[str, Value] = {}
        for name, kind in leaf.spec.scalars:
            if kind == "int":
                scalars[name] = Value(i=f"splat<I>({identifier(name)})")
            else:
                scalars[name] = Value(constant=float(kind))
        # An operand of this map is a tensor, a scalar of the leaf, or a number given in place.
        for name, target in prim.named:
            if target in leaf.params:
                scalars.pop(name, None)
            elif target in scalars:
                scalars[name] = scalars[target]
        for name, number in prim.attrs:
            if name != "expr" and isinstance(number, int | float):
                scalars[name] = Value(constant=number)
        assert callable(operand)
        translator = MapExpression(
            operand=operand, index=index, scalars=scalars, double=leaf.double
        )
        return translator.translate(str(prim.attr("expr")))

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
                    self._once(name)
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
                self.once.pop(row.prim.out, None)
                continue
            out = row.prim.out
            op, acc = _OPS[str(row.prim.attr("op"))], reductions[out]
            text = f"total<{op}>({acc})"
            if row.prim.name == "reduce_acc":
                text = f"{op}::of({self._once_float(out)}, {text})"
            self._keep_once(out, text)

    def _step(
        self, loop: tuple[RowPrim, ...], j: str, rest: str | None, acc: Mapping[str, str]
    ) -> None:
        """Print the work on one vector of elements at position `j`."""
        leaf = self.leaf
        values: dict[str, str] = {}
        taken = set(leaf._taken)

        def value(name: str) -> Value:
            if leaf.params[name].shape[-1] == 1:
                return self._value_once(name)
            if name not in values:
                values[name] = leaf.fresh(f"{name}_v")
                kind = "I" if self._is_int(name) else "F"
                leaf.line(f"const {kind} {values[name]} = {self._load(kind, name, j, rest)};")
            return Value(i=values[name]) if self._is_int(name) else Value(f=values[name])

        def as_float(v: Value) -> str:
            return v.f or f"convert<F>({v.i})"

        for row in loop:
            prim = row.prim
            if row.reduces:
                op = f"{_OPS[str(prim.attr('op'))]}"
                text = as_float(value(prim.ins[0]))
                if rest is not None:
                    text = f"keep({text}, {rest}, unit<{op}, F>())"
                leaf.line(f"{acc[prim.out]} = {op}::of({acc[prim.out]}, {text});")
                continue
            if prim.name == "fill":
                text = f"splat<F>({leaf.literal(prim.attr('value'))})"
            elif prim.name == "copy":
                text = as_float(value(prim.ins[0]))
            else:
                named = dict(prim.named)
                text = self._expression(prim, lambda o, n=named: value(n[o]), last_index=j)
            var = leaf.fresh(f"{prim.out}_v")
            leaf.line(f"const F {var} = {text};")
            leaf.line(self._store(prim.out, var, j, rest))
            values.pop(prim.out, None)
            if leaf.params[prim.out].dtype == ("float64" if leaf.double else "float32"):
                values[prim.out] = var
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
