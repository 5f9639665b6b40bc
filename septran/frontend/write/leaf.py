"""The primitives of a leaf: maps with single-use producers written into their expressions, reductions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from septran.frontend.canon import WIDE, Op
from septran.frontend.simplify import REPEATED, occurrences
from septran.frontend.table.build import substitute
from septran.frontend.write.frame import Frame, Tile


@dataclass(slots=True)
class Leaf:
    """A leaf task being written. params: in order; temps: locals its caller makes, value -> name."""

    name: str
    params: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    scalars: dict[str, str] = field(default_factory=dict)
    """parameter -> what the caller passes"""

    def use(self, param: str) -> str:
        """Return `param`, made a parameter of the leaf."""
        if param not in self.params:
            self.params.append(param)
        return param

    def text(self) -> list[str]:
        """Return the lines of the task."""
        head = f"def {self.name}({', '.join([*self.params, *self.scalars])}):"
        return ["@task.define(leaf=True)", head, *(f"    {line}" for line in self.body), ""]

    def call(self, names: Mapping[str, str], *, inside: bool = False) -> str:
        """Return the launch of this leaf; names: parameter -> what is passed, default itself.

        inside: the caller is a task that got the scalars as parameters of the same names.
        """
        scalars = self.scalars if inside else self.scalars.values()
        given = [*(names.get(p, p) for p in self.params), *scalars]
        return f"task.launch({self.name}, {', '.join(given)})"


@dataclass(slots=True)
class Values:
    """Where the values of a group live inside its kernel. held: value -> tensor name (output or temp)."""

    frame: Frame
    tiles: Sequence[Tile]
    index: Mapping[int, str]
    held: dict[str, str]
    temps: dict[str, frozenset[int]] = field(default_factory=dict)
    """local tensor -> the dims that have size 1 in it and more in the space"""
    whole: dict[str, str] = field(default_factory=dict)
    """local tensor of whole numbers that a float32 may not hold -> its dtype; the others have the dtype that sums have"""
    _written: dict[str, bool] = field(default_factory=dict)
    _lengths: dict[str, int] = field(default_factory=dict)

    def readers(self, name: str) -> int:
        """Return how many nodes of the group read a value."""
        return sum(v.source == name for o in self.frame.group.ops for v in o.ins.values())

    def inlines(self, op: Op) -> bool:
        """Return whether a map is written into the expression of its only reader, a map; a condition into those of all."""
        if op.kind != "map" or op.name in self.held:
            return False
        if op.name not in self._written:
            self._written[op.name] = self._inlines(op)
        return self._written[op.name]

    def _inlines(self, op: Op) -> bool:
        readers = [o for o in self.frame.group.ops for v in o.ins.values() if v.source == op.name]
        if not all(r.kind == "map" for r in readers):
            return False
        if op.dtype != "bool" and not (len(readers) == 1 and self._same(op, readers[0])):
            return False
        if op.attrs.get("rounds") and any(r.dtype in WIDE for r in readers):
            return False  # a sum of whole numbers would become one of floats
        times = sum(
            occurrences(key, str(o.attrs["expr"]))
            for o in self.frame.group.ops
            if o.kind == "map"
            for key, v in o.ins.items()
            if v.source == op.name
        )
        return times <= 1 or self._length(op) <= REPEATED

    def _length(self, op: Op) -> int:
        """Return the characters of a map's expression with what is written into it."""
        if op.name not in self._lengths:
            by_name = {o.name: o for o in self.frame.group.ops}
            text = str(op.attrs["expr"])
            found = len(text)
            for key, view in op.ins.items():
                source = by_name.get(view.source)
                if source is not None and self.inlines(source):
                    found += occurrences(key, text) * self._length(source)
            self._lengths[op.name] = found
        return self._lengths[op.name]

    def _same(self, op: Op, reader: Op) -> bool:
        # a reduced-size value is computed once a row, not once an element
        return self.frame.ones[op.name] == self.frame.ones[reader.name]

    def place(self, op: Op) -> str:
        """Return the tensor that holds a value, a new temp when there is none."""
        if op.name not in self.held:
            self.held[op.name] = self.frame.names.fresh(op.name)
            self.temps[self.held[op.name]] = self.frame.ones[op.name]
            if op.kind == "map" and op.dtype in WIDE:
                self.whole[self.held[op.name]] = op.dtype
        return self.held[op.name]

    def expression(self, op: Op, leaf: Leaf) -> tuple[str, dict[str, str]]:
        """Return the expression of a map and its operands: name in the expression -> tensor."""
        text, operands = self._text(op, leaf)
        return text, {leaf_name: leaf_name for leaf_name in operands}

    def _text(self, op: Op, leaf: Leaf) -> tuple[str, list[str]]:
        by_name = {o.name: o for o in self.frame.group.ops}
        text = self._positions(str(op.attrs["expr"]), leaf)
        used: list[str] = []
        for key in op.ins:  # keys may be the names of other operands
            text = re.sub(rf"\b{key}\b(?!\()", f"\0{key}\0", text)
        for key, view in op.ins.items():
            source = by_name.get(view.source)
            if source is not None and self.inlines(source):
                inner, names = self._text(source, leaf)
                text = substitute(text.replace(f"\0{key}\0", "__x"), "__x", inner)
                used += names
                continue
            name = self.held[view.source] if source is not None else self.frame.keys[(op.name, key)]
            condition = source is not None and source.dtype == "bool" and name in self.temps
            text = text.replace(f"\0{key}\0", f"({name} != 0)" if condition else name)
            used.append(name)
        return text, list(dict.fromkeys(used))

    def _positions(self, text: str, leaf: Leaf) -> str:
        """Return the expression with `at(d)` as the position in the tile plus that of the tile."""

        def one(match: re.Match[str]) -> str:
            d = self.frame.where[int(match[1])]
            tile = self.tiles[d]
            if tile.whole or d not in self.index:
                return f"index({d})"
            scalar = f"first_{LETTER(d)}"
            at = self.index[d]
            leaf.scalars[scalar] = at if tile.size == "1" else f"{at} * {tile.size}"
            return f"(index({d}) + {scalar})"

        return re.sub(r"\bat\((\d+)\)", one, text)

    def map(self, op: Op, leaf: Leaf) -> None:
        """Write a map into the leaf."""
        text, names = self._text(op, leaf)
        self._write(text, leaf.use(self.place(op)), names, leaf)

    def write(self, expr: str, target: str, read: Mapping[str, str], leaf: Leaf) -> None:
        """Write an expression of no node into the leaf. read: name in it -> tensor."""
        text = self._positions(expr, leaf)
        for key in read:
            text = re.sub(rf"\b{key}\b(?!\()", f"\0{key}\0", text)
        for key, name in read.items():
            text = text.replace(f"\0{key}\0", name)
        self._write(text, target, list(dict.fromkeys(read.values())), leaf)

    def _write(self, text: str, target: str, names: Sequence[str], leaf: Leaf) -> None:
        operands = "".join(f", {n}={leaf.use(n)}" for n in names)
        operands += "".join(f", {n}={n}" for n in leaf.scalars if re.search(rf"\b{n}\b", text))
        leaf.body.append(f'task.call_primitive("map", {target}, expr="{text}"{operands})')


def LETTER(d: int) -> str:
    """Return the letter of a dim."""
    return "ijklnopq"[d]
