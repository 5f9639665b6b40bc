"""Prints one row group of a leaf: the loops over outer dims, then its inner loops of vectors."""

from __future__ import annotations

from collections.abc import Mapping

from septran.backends.cpp.across import across, close_blocks, open_blocks, row_of
from septran.backends.cpp.ahead import asked_for
from septran.backends.cpp.at_once import at_once
from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.online import one_pass, online
from septran.backends.cpp.picked import split
from septran.backends.cpp.row import Row
from septran.backends.cpp.rows import RowGroup, RowPrim, reads
from septran.backends.cpp.stores import Traffic
from septran.backends.text.cstyle import identifier
from septran.ir.scalar import Index, walk


class RowLoop:
    """Prints the loops. `number`: the group's place in the leaf."""

    def __init__(self, leaf: LeafLines, group: RowGroup, number: int) -> None:
        self.leaf = leaf
        self.group = group
        self.number = number
        self.rank = len(leaf.params[group.first.space].shape)
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
        rows = [self._row(at, Traffic() if r else leaf.traffic) for r, at in enumerate(places)]
        for row in rows:
            for prim in (p.prim for loop in self.group.loops for p in loop):
                for name in (*reads(prim, leaf.params), prim.out):
                    row.pointer(name)
        loops = list(enumerate(self.group.loops))
        while loops:
            number, loop = loops.pop(0)
            for row in rows:
                row.loop = number
            if loop[0].inner is None:
                for row in rows:
                    row.single(loop[0])
            elif not (loops and len(rows) == 1 and self._online(loop, loops[0][1], rows[0])):
                self._inner(loop, rows)
            else:
                loops.pop(0)

    def _row(self, at: list[str], traffic: Traffic) -> Row:
        return Row(self.leaf, at, traffic, group=self.number, rank=self.rank, turned=self.turned)

    def _online(self, loop: tuple[RowPrim, ...], following: tuple[RowPrim, ...], row: Row) -> bool:
        """Print two loops as one pass, if they can be."""
        walked, picks = split(self.leaf, following)
        found = online(self.leaf, loop, walked)
        if found is None:
            return False
        length = self._length(loop)
        one_pass(
            self.leaf,
            row,
            found,
            length,
            lambda part, at, end: self._walk(part, [row], (), at, end),
        )
        for pick in picks:
            row.pick(pick, length)
        return True

    def _inner(self, loop: tuple[RowPrim, ...], rows: list[Row]) -> None:
        """Print one loop over the elements of `rows`, and the sums of one element, which need none."""
        length = self._length(loop)
        walked, picks = split(self.leaf, loop)
        if walked:
            for row in rows:
                row.begin(walked)
            asked = asked_for(self.leaf, self.group.loops, loop, rows[0])
            self._walk(walked, rows, asked, "0", length)
            for row in rows:
                row.end(walked)
        for row in rows:
            for pick in picks:
                row.pick(pick, length)

    def _length(self, loop: tuple[RowPrim, ...]) -> str:
        """Print and return the variable that has the number of a row's elements."""
        leaf, space = self.leaf, loop[0].space
        length = leaf.fresh("n")
        last = len(leaf.params[space].shape) - 1
        leaf.line(f"const long {length} = {identifier(space)}.n[{last}];")
        return length

    def _walk(
        self,
        loop: tuple[RowPrim, ...],
        rows: list[Row],
        asked: tuple[str, ...],
        start: str,
        end: str,
    ) -> None:
        """Print a loop over the elements from `start` to `end`: four vectors at once where something is reduced, then one, then the rest."""
        leaf = self.leaf
        j = leaf.fresh("j")
        leaf.line(f"long {j} = {start};")
        mark = leaf.traffic.mark()
        if any(p.reduces for p in loop):
            u, q = leaf.fresh("u"), leaf.fresh("q")
            pairs = self._in_pairs(loop, rows[0])
            by = 2 if pairs else 1
            if all(p.reduces for p in loop):
                # g++ would write out a row of known length and read it in two sweeps, as each sum has one use: memory is slower then.
                leaf.line("#pragma GCC unroll 1")
            leaf.open(f"for (; {j} + 4 * L <= {end}; {j} += 4 * L)")
            leaf.line("#pragma GCC unroll 4")
            leaf.open(f"for (long {u} = 0, {q} = {j}; {u} < 4; {u} += {by}, {q} += {by} * L)")
            if pairs:
                self._vector(loop, rows, q, None, {"even": u, "odd": f"{u} + 1"}, asked)
            else:
                self._vector(loop, rows, q, None, {"": u}, asked)
            leaf.close()
            leaf.close()
        else:
            pairs = self._in_pairs(loop, rows[0])
            step = "2 * L" if pairs else "L"
            leaf.open(f"for (; {j} + {step} <= {end}; {j} += {step})")
            halves = {"even": "0", "odd": "0"} if pairs else {"": "0"}
            self._vector(loop, rows, j, None, halves, asked)
            leaf.close()
        leaf.traffic.rewind(mark)
        rest = leaf.fresh("rest")
        leaf.open(f"for (; {j} < {end}; {j} += L)")
        leaf.line(f"const long {rest} = {end} - {j};")
        self._vector(loop, rows, j, rest, {"": "0"}, ())
        leaf.close()

    def _vector(
        self,
        loop: tuple[RowPrim, ...],
        rows: list[Row],
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

    def _in_pairs(self, loop: tuple[RowPrim, ...], row: Row) -> bool:
        """Return whether a loop may take even elements apart from odd ones: all are bfloat16, and no place of theirs matters.

        A word of two is one load and one instruction for each of them, and two results are one store; elements in order take twice that.
        """
        leaf = self.leaf
        stored = {p.prim.out for p in loop if not p.reduces and p.at not in leaf.dropped}
        read = {n for p in loop for n in reads(p.prim, leaf.params)}
        # a pair is stored when both are made, so nothing of it may be read before
        if leaf.double or stored & read or (stored and any(p.reduces for p in loop)):
            return False
        made = {p.prim.out for p in loop}
        whole = [n for n in (read - made) | stored if leaf.params[n].shape[-1] != 1]
        trees = [leaf.spec.expression(p.prim) for p in loop if p.prim.name == "map"]
        placed = any(isinstance(node, Index) for tree in trees for node in walk(tree))
        return (
            len(whole) > len(stored)
            and not placed
            and all(leaf.params[n].dtype == "bfloat16" and row.unit(n) for n in whole)
        )
