"""Prints one row group of a leaf: the loops over outer dims, then its inner loops of vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from septran.backends.cpp.across import across, close_blocks, open_blocks, row_of
from septran.backends.cpp.ahead import asked_for
from septran.backends.cpp.at_once import at_once
from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.rows import RowGroup, RowPrim, reads
from septran.backends.cpp.spelling import REDUCTIONS, SPELLING
from septran.backends.cpp.stores import Traffic
from septran.backends.text.cstyle import C_TYPES, identifier
from septran.backends.text.spell import argument
from septran.ir.nodes import Prim
from septran.ir.scalar import Index, Name, Node, Op, walk

_EVEN, _OVER = "even ", "over "
"""What an operand's name begins with where it stands for the factors of a hoisted division."""


class RowLoop:
    """Prints the loops. `number`: the group's place in the leaf."""

    def __init__(self, leaf: LeafLines, group: RowGroup, number: int) -> None:
        self.leaf = leaf
        self.group = group
        self.number = number
        self.rank = len(leaf.params[group.first.space].shape)
        self.loop = 0
        """which inner loop is printed"""
        self.turned: Mapping[str, str] = {}
        """parameter -> its row in a block of turned rows"""

    def emit(self) -> None:
        """Print the group."""
        leaf, space = self.leaf, self.group.first.space
        shape = leaf.params[space].shape
        walked = [d for d in range(self.rank - 1) if shape[d] != 1]
        at = ["0"] * (self.rank - 1)
        for d in walked:
            at[d] = leaf.fresh(f"i{d}")
            if d != walked[-1]:
                self._open_rows(at[d], space, d)
        if not walked:
            leaf.line("{")
            leaf.depth += 1
            self._rows([at])
        elif names := across(leaf, self.group, walked[-1]):
            blocks = open_blocks(leaf, names, space, at, walked[-1])
            self.turned = row_of(blocks, at[walked[-1]])
            self._rows([at])
            close_blocks(leaf, blocks)
        elif (count := at_once(leaf, self.group)) > 1:
            self._several(at, space, walked[-1], count)
        else:
            self._open_rows(at[walked[-1]], space, walked[-1])
            self._rows([at])
        for _ in walked or (0,):
            leaf.close()

    def _open_rows(self, var: str, space: str, d: int) -> None:
        self.leaf.open(f"for (long {var} = 0; {var} < {identifier(space)}.n[{d}]; ++{var})")

    def _several(self, at: list[str], space: str, d: int, count: int) -> None:
        """Print the loop over rows twice: `count` at once, then those that are left."""
        leaf, var, end = self.leaf, at[d], f"{identifier(space)}.n[{d}]"
        while leaf.depth == 1 and var in leaf.declared:
            at[d] = var = leaf.fresh(var)
        leaf.declared.add(var)
        leaf.line(f"long {var} = 0;")
        leaf.open(f"for (; {var} + {count} <= {end}; {var} += {count})")
        taken, mark = set(leaf.taken), leaf.traffic.mark()
        self._rows([[*at[:d], f"({var} + {r})" if r else var, *at[d + 1 :]] for r in range(count)])
        leaf.taken = taken
        leaf.traffic.rewind(mark)
        leaf.close()
        leaf.open(f"for (; {var} < {end}; ++{var})")
        self._rows([at])

    def _rows(self, places: list[list[str]]) -> None:
        """Print the work on the rows at `places` (an index per outer dim), loop by loop."""
        leaf = self.leaf
        # what one row loads and stores, all of them do, each its own
        rows = [_Row(self, at, Traffic() if r else leaf.traffic) for r, at in enumerate(places)]
        for row in rows:
            for prim in (p.prim for loop in self.group.loops for p in loop):
                for name in (*reads(prim, leaf.params), prim.out):
                    row.pointer(name)
        for number, loop in enumerate(self.group.loops):
            self.loop = number
            if loop[0].inner is None:
                for row in rows:
                    row.single(loop[0])
            else:
                loops = self.group.loops
                self._inner(loop, rows, asked_for(leaf, loops, loop, rows[0], self.rank))

    def _inner(self, loop: tuple[RowPrim, ...], rows: list[_Row], asked: tuple[str, ...]) -> None:
        """Print one loop over the elements of `rows`."""
        leaf = self.leaf
        space = loop[0].space
        length = leaf.fresh("n")
        leaf.line(
            f"const long {length} = {identifier(space)}.n[{len(leaf.params[space].shape) - 1}];"
        )
        for row in rows:
            row.begin(loop)
        j = leaf.fresh("j")
        leaf.line(f"long {j} = 0;")
        mark = leaf.traffic.mark()
        if any(p.reduces for p in loop):
            u, q = leaf.fresh("u"), leaf.fresh("q")
            pairs = self._in_pairs(loop, rows[0])
            by = 2 if pairs else 1
            if all(p.reduces for p in loop):
                # g++ would write out a row of known length and read it in two sweeps, as each sum has one use: memory is slower then.
                leaf.line("#pragma GCC unroll 1")
            leaf.open(f"for (; {j} + 4 * L <= {length}; {j} += 4 * L)")
            leaf.line("#pragma GCC unroll 4")
            leaf.open(f"for (long {u} = 0, {q} = {j}; {u} < 4; {u} += {by}, {q} += {by} * L)")
            if pairs:
                self._vector(loop, rows, q, None, {"even": u, "odd": f"{u} + 1"}, asked)
            else:
                self._vector(loop, rows, q, None, {"": u}, asked)
            leaf.close()
            leaf.close()
        else:
            leaf.open(f"for (; {j} + L <= {length}; {j} += L)")
            self._vector(loop, rows, j, None, {"": "0"}, asked)
            leaf.close()
        leaf.traffic.rewind(mark)
        rest = leaf.fresh("rest")
        leaf.open(f"for (; {j} < {length}; {j} += L)")
        leaf.line(f"const long {rest} = {length} - {j};")
        self._vector(loop, rows, j, rest, {"": "0"}, ())
        leaf.close()
        for row in rows:
            row.end(loop)

    def _vector(
        self,
        loop: tuple[RowPrim, ...],
        rows: list[_Row],
        j: str,
        rest: str | None,
        parts: Mapping[str, str],
        asked: tuple[str, ...],
    ) -> None:
        """Print the work at position `j`. parts: which elements ("": all, else even or odd) -> the sum that takes them."""
        taken = set(self.leaf.taken)
        for address in asked:
            self.leaf.line(f"{address} + {j});")
        for half, part in parts.items():
            for row in rows:
                row.step(loop, j, rest, part, half)
        self.leaf.taken = taken

    def _in_pairs(self, loop: tuple[RowPrim, ...], row: _Row) -> bool:
        """Return whether a loop may take even elements apart from odd ones: all are bfloat16, and no place of theirs matters.

        A word of two is one load and one instruction for each of them; elements in order take twice that.
        """
        leaf = self.leaf
        if leaf.double or any(not p.reduces and p.at not in leaf.dropped for p in loop):
            return False
        made = {p.prim.out for p in loop}
        read = {n for p in loop for n in reads(p.prim, leaf.params)} - made
        whole = [n for n in read if leaf.params[n].shape[-1] != 1]
        trees = [leaf.spec.expression(p.prim) for p in loop if p.prim.name == "map"]
        placed = any(isinstance(node, Index) for tree in trees for node in walk(tree))
        return (
            bool(whole)
            and not placed
            and all(leaf.params[n].dtype == "bfloat16" and row.unit(n) for n in whole)
        )


class _Row:
    """One row of a group. at: its index per outer dim. start: parameter -> pointer to its row. traffic: where its accesses are noted."""

    def __init__(self, group: RowLoop, at: list[str], traffic: Traffic) -> None:
        self.group = group
        self.leaf = group.leaf
        self.at = at
        self.traffic = traffic
        self.start: dict[str, str] = {}
        self.once: dict[tuple[str, str], str] = {}
        """(parameter with one value per row, F or I) -> variable of that type that holds it."""
        self.sums: dict[str, str] = {}
        """result of the loop -> the array of its parts"""

    # ---- where things are
    def pointer(self, name: str) -> None:
        """Print the pointer to the row of a parameter, once."""
        if name in self.start or self.leaf.kept_in_registers(name):
            return
        home = self.leaf.homes.get(name, name)
        if home != name:
            self.pointer(home)
            self.start[name] = self.start[home]
            return
        param = self.leaf.params[name]
        var = self.leaf.fresh(f"{name}_row")
        self.start[name] = var
        kind = C_TYPES[param.dtype] if param.privilege != "r" else f"const {C_TYPES[param.dtype]}"
        place = self.group.turned.get(name) or f"{identifier(name)}.p{self._outer_terms(name)}"
        self.leaf.line(f"{kind}* const {var} = {place};")

    def _outer_terms(self, name: str) -> str:
        shape = self.leaf.params[name].shape
        shift = self.group.rank - len(shape)
        terms = ""
        for d in range(len(shape) - 1):
            if shape[d] != 1 and self.at[d + shift] != "0":
                terms += f" + {self.at[d + shift]} * {identifier(name)}.s[{d}]"
        return terms

    def unit(self, name: str) -> bool:
        """Return whether a row's elements are neighbours."""
        return name in self.group.turned or self.leaf.params[name].step[-1] == 1

    def _last(self, name: str) -> str:
        return f"{identifier(name)}.s[{len(self.leaf.params[name].shape) - 1}]"

    def _when(self, at: int) -> tuple[int, int, int]:
        return self.group.number, self.group.loop, at

    # ---- one value per row
    def _once(self, name: str, kind: str, at: int) -> str:
        """Return a variable of type F or I (`kind`) with the row's value in every lane."""
        if (name, kind) not in self.once:
            self.traffic.load(name, self._when(at))
            var = self.leaf.fresh(f"{name}_1")
            self.leaf.line(
                f"const {kind} {var} = splat<{kind}>(to_lane<lane<{kind}>>({self.start[name]}[0]));"
            )
            self.once[name, kind] = var
        return self.once[name, kind]

    def _forget(self, name: str) -> None:
        for known in (name, _EVEN + name, _OVER + name):
            for kind in ("F", "I"):
                self.once.pop((known, kind), None)

    def _keep_once(self, row: RowPrim, kind: str, text: str) -> None:
        leaf, name = self.leaf, row.prim.out
        dtype = leaf.params[name].dtype
        var = leaf.fresh(f"{name}_1")
        leaf.line(f"const {kind} {var} = {text};")
        self.traffic.store(name, self._when(row.at))
        if row.at not in leaf.dropped:
            leaf.line(f"{self.start[name]}[0] = cast<{C_TYPES[dtype]}>(lane<{kind}>({var}[0]));")
        self._forget(name)
        if dtype == leaf.dtype:
            self.once[name, kind] = var

    def single(self, row: RowPrim) -> None:
        """Print a primitive that makes one value of the row."""
        leaf, prim, kind = self.leaf, row.prim, "F"

        def value(name: str, kind: str) -> str:
            return self._once(name, kind, row.at)

        if row.reduces:
            text = value(prim.ins[0], "F")
            if prim.name == "reduce_acc":
                op = REDUCTIONS[str(prim.attr("op"))]
                text = f"{op}::of({value(prim.out, 'F')}, {text})"
        elif prim.name == "fill":
            text = f"splat<F>({leaf.literal(prim.attr('value'))})"
        elif prim.name == "copy":
            text = value(prim.ins[0], "F")
        else:
            kind, text = self._expression(prim, leaf.spec.expression(prim), value, last_index="0")
        self._keep_once(row, kind, text)

    def _expression(
        self, prim: Prim, tree: Node, value: Callable[[str, str], str], *, last_index: str
    ) -> tuple[str, str]:
        """Return the type (F or I) and the text of a map. value: (parameter, F or I) -> variable."""
        leaf = self.leaf
        rank = len(leaf.params[prim.out].shape)
        shift = self.group.rank - rank

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

        kind = "F" if tree.kind == "float" else "I"
        return kind, argument(tree, SPELLING, operand, leaf.dtype)

    # ---- whole rows
    def begin(self, loop: tuple[RowPrim, ...]) -> None:
        """Print what a loop over the row's elements needs before it starts."""
        leaf = self.leaf
        for row in loop:
            for name in reads(row.prim, leaf.params):
                if leaf.params[name].shape[-1] == 1:
                    for kind in self._read_as(row.prim, name):
                        self._once(name, kind, row.at)
        for name in dict.fromkeys(n for row in loop for n in self._divisors(row)):
            self._reciprocal(name)
        self.sums = {row.prim.out: leaf.fresh(f"{row.prim.out}_acc") for row in loop if row.reduces}
        for row in loop:
            if row.reduces:
                acc = self.sums[row.prim.out]
                leaf.line(f"F {acc}[4];")
                leaf.line(f"clear<{REDUCTIONS[str(row.prim.attr('op'))]}>({acc});")

    def end(self, loop: tuple[RowPrim, ...]) -> None:
        """Print what follows the loop: the reductions' results."""
        for row in loop:
            if not row.reduces:
                self._forget(row.prim.out)
                continue
            out = row.prim.out
            op = REDUCTIONS[str(row.prim.attr("op"))]
            text = f"total<{op}>({self.sums[out]})"
            if row.prim.name == "reduce_acc":
                text = f"{op}::of({self._once(out, 'F', row.at)}, {text})"
            self._keep_once(row, "F", text)

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

    # ---- divisions by one value of the row
    def _divisors(self, row: RowPrim) -> tuple[str, ...]:
        """Return the row values that elements are divided by; doubles are divided as they are."""
        if row.prim.name != "map" or self.leaf.double:
            return ()
        nodes = walk(self.leaf.spec.expression(row.prim))
        return tuple(by.name for by in map(self._row_value_below, nodes) if by is not None)

    def _row_value_below(self, node: Node) -> Name | None:
        """Return the row value that `node` divides by, None when it does not."""
        if not isinstance(node, Op) or node.op != "/" or not isinstance(node.args[1], Name):
            return None
        by = node.args[1]
        one = by.tile and by.kind == "float" and self.leaf.params[by.name].shape[-1] == 1
        return by if one else None

    def _reciprocal(self, name: str) -> None:
        """Print 1 / value, kept in the range of normal numbers by a power of two (runtime: even)."""
        leaf, value = self.leaf, self.once[name, "F"]
        if (_OVER + name, "F") in self.once:
            return
        even, over = leaf.fresh(f"{name}_even"), leaf.fresh(f"{name}_over")
        leaf.line(f"const F {even} = st::even({value});")
        leaf.line(f"const F {over} = 1.0f / ({value} * {even});")
        self.once[_EVEN + name, "F"], self.once[_OVER + name, "F"] = even, over

    def _hoisted(self, tree: Node) -> Node:
        """Return `tree` with x / value written as (x * even) * over: within 1.5 units in the last place."""
        if not isinstance(tree, Op):
            return tree
        args = tuple(map(self._hoisted, tree.args))
        by = None if self.leaf.double else self._row_value_below(tree)
        if by is None:
            return replace(tree, args=args)
        even, over = replace(by, name=_EVEN + by.name), replace(by, name=_OVER + by.name)
        return Op("*", (Op("*", (args[0], even), "float"), over), "float")

    # ---- one vector of elements
    def step(
        self, loop: tuple[RowPrim, ...], j: str, rest: str | None, part: str, half: str
    ) -> None:
        """Print the work on one vector of elements at position `j`.

        rest: how many there are, None = all lanes. part: the sum they go to. half: "even" or "odd" ones of twice as many.
        """
        leaf = self.leaf
        values: dict[tuple[str, str], str] = {}

        def reader(at: int) -> Callable[[str, str], str]:
            def value(name: str, kind: str) -> str:
                if (name, kind) in self.once or leaf.params[name].shape[-1] == 1:
                    return self._once(name, kind, at)
                if (name, kind) not in values:
                    self.traffic.load(name, self._when(at))
                    values[name, kind] = leaf.fresh(f"{name}_v")
                    text = self._load(kind, name, j, rest, half)
                    leaf.line(f"const {kind} {values[name, kind]} = {text};")
                return values[name, kind]

            return value

        for row in loop:
            prim, kind, value = row.prim, "F", reader(row.at)
            if row.reduces:
                op = REDUCTIONS[str(prim.attr("op"))]
                text = value(prim.ins[0], "F")
                if rest is not None:
                    text = f"keep({text}, {rest}, unit<{op}, F>())"
                acc = f"{self.sums[prim.out]}[{part}]"
                leaf.line(f"{acc} = {op}::of({acc}, {text});")
                continue
            if prim.name == "fill":
                text = f"splat<F>({leaf.literal(prim.attr('value'))})"
            elif prim.name == "copy":
                text = value(prim.ins[0], "F")
            else:
                tree = self._hoisted(leaf.spec.expression(prim))
                kind, text = self._expression(prim, tree, value, last_index=j)
            var = leaf.fresh(f"{prim.out}_v")
            leaf.line(f"const {kind} {var} = {text};")
            self.traffic.store(prim.out, self._when(row.at))
            if row.at not in leaf.dropped:
                leaf.line(self._store(prim.out, var, j, rest))
            for known in ("F", "I"):
                values.pop((prim.out, known), None)
            if leaf.params[prim.out].dtype == leaf.dtype:
                values[prim.out, kind] = var

    def _load(self, kind: str, name: str, j: str, rest: str | None, half: str) -> str:
        row = self.start[name]
        if half:
            return f"load_{half}({row} + {j})"
        if not self.unit(name):
            step = self._last(name)
            return f"gather<{kind}>({row} + {j} * {step}, {step}, {rest or 'L'})"
        if rest is None:
            return f"load<{kind}>({row} + {j})"
        return f"load_n<{kind}>({row} + {j}, {rest})"

    def _store(self, name: str, var: str, j: str, rest: str | None) -> str:
        row = self.start[name]
        if not self.unit(name):
            step = self._last(name)
            return f"scatter({row} + {j} * {step}, {step}, {var}, {rest or 'L'});"
        if rest is None:
            return f"store({row} + {j}, {var});"
        return f"store_n({row} + {j}, {var}, {rest});"
