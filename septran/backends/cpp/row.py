"""Prints the work on one row of a row group: its values, its sums and one vector of its elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.picked import Pick
from septran.backends.cpp.rows import RowPrim, reads
from septran.backends.cpp.spelling import REDUCTIONS, SPELLING
from septran.backends.cpp.stores import Traffic
from septran.backends.text.cstyle import C_TYPES, identifier
from septran.backends.text.spell import argument
from septran.ir.nodes import Prim
from septran.ir.scalar import Index, Name, Node, Op, walk

_EVEN, _OVER = "even ", "over "
"""What an operand's name begins with where it stands for the factors of a hoisted division."""


class Row:
    """One row of a group. at: its index per outer dim. rank: of what the group walks over. turned: parameter -> its row in a block of turned rows.

    start: parameter -> pointer to its row. traffic: where its accesses are noted. loop: which inner loop is printed.
    """

    def __init__(
        self,
        leaf: LeafLines,
        at: list[str],
        traffic: Traffic,
        *,
        group: int,
        rank: int,
        turned: Mapping[str, str],
    ) -> None:
        self.leaf = leaf
        self.traffic = traffic
        self.at = at
        self.rank = rank
        self.loop = 0
        self._group = group
        self._turned = turned
        self.start: dict[str, str] = {}
        self.once: dict[tuple[str, str], str] = {}
        """(parameter with one value per row, F or I) -> variable of that type that holds it."""
        self.sums: dict[str, str] = {}
        """result of the loop -> the array of its parts"""
        self._even: dict[str, str] = {}
        """what is stored in pairs -> the variable of its even elements"""

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
        place = self._turned.get(name) or f"{identifier(name)}.p{self._outer_terms(name)}"
        self.leaf.line(f"{kind}* const {var} = {place};")

    def _outer_terms(self, name: str) -> str:
        shape = self.leaf.params[name].shape
        shift = self.rank - len(shape)
        terms = ""
        for d in range(len(shape) - 1):
            if shape[d] != 1 and self.at[d + shift] != "0":
                terms += f" + {self.at[d + shift]} * {identifier(name)}.s[{d}]"
        return terms

    def unit(self, name: str) -> bool:
        """Return whether a row's elements are neighbours."""
        return name in self._turned or self.leaf.params[name].step[-1] == 1

    def _last(self, name: str) -> str:
        return f"{identifier(name)}.s[{len(self.leaf.params[name].shape) - 1}]"

    def _when(self, at: int) -> tuple[int, int, int]:
        return self._group, self.loop, at

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

        kind = "F" if tree.kind == "float" else "I"
        return kind, argument(tree, SPELLING, operand, leaf.dtype)

    # ---- whole rows
    def begin(self, loop: tuple[RowPrim, ...]) -> None:
        """Print what a loop over the row's elements needs before it starts."""
        leaf = self.leaf
        self._values_of(loop)
        self.sums = {row.prim.out: leaf.fresh(f"{row.prim.out}_acc") for row in loop if row.reduces}
        for row in loop:
            if row.reduces:
                acc = self.sums[row.prim.out]
                leaf.line(f"F {acc}[4];")
                leaf.line(f"clear<{REDUCTIONS[str(row.prim.attr('op'))]}>({acc});")

    def _values_of(self, loop: tuple[RowPrim, ...]) -> None:
        """Print the row values that a loop reads, each once."""
        for row in loop:
            for name in reads(row.prim, self.leaf.params):
                if self.leaf.params[name].shape[-1] == 1:
                    for kind in self._read_as(row.prim, name):
                        self._once(name, kind, row.at)
        for name in dict.fromkeys(n for row in loop for n in self._divisors(row)):
            self._reciprocal(name)

    def pick(self, pick: Pick, length: str) -> None:
        """Print a sum of which one element is not zero: what stands at its place, zero where the row has no such place."""
        leaf, prim = self.leaf, pick.chosen.prim
        self._values_of((pick.chosen,))
        place, found = leaf.fresh(f"{pick.where.name}_at"), leaf.fresh(f"{prim.out}_at")
        leaf.line(f"const long {place} = {self._once(pick.where.name, 'I', pick.chosen.at)}[0];")
        leaf.line(f"F {found} = splat<F>(0);")
        leaf.open(f"if ({place} >= 0 && {place} < {length})")
        taken = set(leaf.taken)
        value = self._reader({}, pick.chosen.at, place, "1", "")
        _, text = self._expression(prim, self._hoisted(pick.tree), value, last_index=place)
        var = leaf.fresh(f"{prim.out}_v")
        leaf.line(f"const F {var} = {text};")
        leaf.line(f"{found} = splat<F>({var}[0]);")
        leaf.taken = taken
        leaf.close()
        self.result(pick.total, found)

    def combined(self, row: RowPrim) -> str:
        """Return the value of a reduction's parts, after its loop."""
        return f"total<{REDUCTIONS[str(row.prim.attr('op'))]}>({self.sums[row.prim.out]})"

    def result(self, row: RowPrim, text: str) -> None:
        """Print the result of a reduction: `text`, with what was there before where it is kept."""
        if row.prim.name == "reduce_acc":
            op = REDUCTIONS[str(row.prim.attr("op"))]
            text = f"{op}::of({self._once(row.prim.out, 'F', row.at)}, {text})"
        self._keep_once(row, "F", text)

    def end(self, loop: tuple[RowPrim, ...]) -> None:
        """Print what follows the loop: the reductions' results."""
        for row in loop:
            if not row.reduces:
                self._forget(row.prim.out)
                continue
            self.result(row, self.combined(row))

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

        for row in loop:
            prim, kind = row.prim, "F"
            value = self._reader(values, row.at, j, rest, half)
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
                self._put(prim.out, var, j, rest, half)
            for known in ("F", "I"):
                values.pop((prim.out, known), None)
            if leaf.params[prim.out].dtype == leaf.dtype:
                values[prim.out, kind] = var

    def _reader(
        self, values: dict[tuple[str, str], str], at: int, j: str, rest: str | None, half: str
    ) -> Callable[[str, str], str]:
        """Return what finds the variable of (parameter, F or I), and prints it where `values` has none. The rest is as in `step`."""

        def value(name: str, kind: str) -> str:
            if (name, kind) in self.once or self.leaf.params[name].shape[-1] == 1:
                return self._once(name, kind, at)
            if (name, kind) not in values:
                self.traffic.load(name, self._when(at))
                values[name, kind] = self.leaf.fresh(f"{name}_v")
                text = self._load(kind, name, j, rest, half)
                self.leaf.line(f"const {kind} {values[name, kind]} = {text};")
            return values[name, kind]

        return value

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

    def _put(self, name: str, var: str, j: str, rest: str | None, half: str) -> None:
        """Print the store of a vector; the even half of a pair waits for the odd one."""
        if half == "even":
            self._even[name] = var
        elif half:
            pair = f"{self._even.pop(name)}, {var}"
            self.leaf.line(f"store_pairs({self.start[name]} + {j}, {pair});")
        else:
            self.leaf.line(self._store(name, var, j, rest))

    def _store(self, name: str, var: str, j: str, rest: str | None) -> str:
        row = self.start[name]
        if not self.unit(name):
            step = self._last(name)
            return f"scatter({row} + {j} * {step}, {step}, {var}, {rest or 'L'});"
        if rest is None:
            return f"store({row} + {j}, {var});"
        return f"store_n({row} + {j}, {var}, {rest});"
