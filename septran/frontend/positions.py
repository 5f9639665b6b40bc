"""Values that are made of positions and numbers alone, said as one map each, however many operators made them.

A mask that is written part by part is a join of constants, its windows are a permuted view of it, and a table that is read
at places is a gather: each would be a kernel. All of them are functions of the position that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from septran.frontend.canon import Canon, Op
from septran.frontend.simplify import aligned, occurrences, steps, worth_storing
from septran.frontend.table.build import substitute
from septran.frontend.view import View
from septran.ir.strides import row_major

LONGEST = 600
"""Characters of an expression; what would be longer is stored, and read from memory."""
STORED = 1500
"""Characters of what is written part by part, which is stored where it is longer than those."""
_DTYPES = ("float32", "float64", "int32", "int64", "bool")
"""Those whose numbers are the same whether they are stored or not; 2049 is none of float16."""
_AT = re.compile(r"\bat\((\d+)\)")
_SHIFTED = re.compile(r"\(\((at\(\d+\)) ([+-] \d+)\) ([+-] \d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A function of a position. cases: conditions and values, of which the first that holds counts; else `other`."""

    op: Op
    cases: tuple[tuple[str, str], ...] = ()
    other: str

    @property
    def text(self) -> str:
        """The function as an expression."""
        found = self.other
        for condition, value in reversed(self.cases):
            found = f"select({condition}, {value}, {found})"
        return found

    def read(self, places: Sequence[str] | None) -> _Made | None:
        """Return it at other places: of each of its dims one, said by the reader's positions; None where nobody can say them."""
        if places is None:
            return None

        def moved(text: str) -> str:
            return _SHIFTED.sub(_once, _AT.sub(lambda m: places[int(m[1])], text))

        cases = tuple((moved(c), moved(v)) for c, v in self.cases)
        return replace(self, cases=cases, other=moved(self.other))


def _once(shifted: re.Match[str]) -> str:
    """Return a position that is moved twice, there and back, as moved once."""
    by = sum(int(shifted[k].replace(" ", "")) for k in (2, 3))
    return f"({shifted[1]} {'+' if by > 0 else '-'} {abs(by)})" if by else shifted[1]


def fold_positions(canon: Canon) -> Canon:
    """Return the canonical form with each value of positions alone as one map, where its expression is short enough."""
    made: dict[str, _Made] = {}
    ops: list[Op] = []
    for op in canon.ops:
        found = _of_positions(op, made) if op.dtype in _DTYPES else None
        computes = op.kind == "map" and op.attrs["expr"] != "x"
        if found is not None and len(found.text) <= (LONGEST if computes else STORED):
            op = replace(op, kind="map", ins={}, attrs={"expr": found.text})
            made[op.name] = replace(found, op=op)
        elif op.kind == "map":
            op = _read_here(op, made)
        elif op.kind == "join":
            parts, op = _written_here(op, made, {o.name for o in canon.ops})
            ops += parts
        ops.append(op)
    return replace(canon, ops=tuple(ops))


def _of_positions(op: Op, made: Mapping[str, _Made]) -> _Made | None:
    """Return what an operator makes, where all that it reads is of positions; None otherwise."""
    sources = [made.get(v.source) for v in op.ins.values()]
    if op.kind not in ("map", "join", "gather") or None in sources or op.attrs.get("rounds"):
        return None
    if op.kind == "join":
        return _joined(op, made)
    if op.kind == "gather":
        return _taken(op, made)
    text = str(op.attrs["expr"])
    if not op.ins:
        return None if steps(op) else _Made(op=op, other=text)
    if len(op.ins) == 1 and text == "x":
        return made[op.ins["x"].source].read(_places(op.ins["x"], made))
    for key, view in op.ins.items():
        read = made[view.source].read(_places(view, made))
        if read is None:
            return None
        text = _with(text, key, read.text)
    found = _Made(op=op, other=text)
    return None if steps(replace(op, attrs={"expr": text})) else found


def _with(text: str, key: str, value: str) -> str:
    """Return an expression with an operand replaced; much too long where it would be repeated."""
    if len(value) * occurrences(key, text) > LONGEST:
        return " " * (LONGEST + 1)
    return substitute(text, key, value)


def _read_here(op: Op, made: Mapping[str, _Made]) -> Op:
    """Return a map with what it reads of positions through another layout computed at the places that are read."""
    ins, text = dict(op.ins), str(op.attrs["expr"])
    for key, view in op.ins.items():
        source = made.get(view.source)
        if source is None or aligned(view, source.op.shape) or worth_storing(source.op, op):
            continue
        read = source.read(_places(view, made))
        longer = "" if read is None else _with(text, key, read.text)
        if longer and len(longer) <= LONGEST:
            text = longer
            del ins[key]
    return replace(op, ins=ins, attrs={**op.attrs, "expr": text}) if ins else op


def _written_here(op: Op, made: Mapping[str, _Made], taken: set[str]) -> tuple[list[Op], Op]:
    """Return parts of a join that are of positions, each as a map of its own, and the join of these."""
    found, ins = [], dict(op.ins)
    for key, view in op.ins.items():
        source, name = made.get(view.source), f"{op.name}_{key}"
        if source is None or name in taken:
            continue
        if view.shape == source.op.shape and view.contiguous:
            continue
        read = source.read(_places(view, made))
        if read is not None and len(read.text) <= LONGEST:
            attrs = {"expr": read.text}
            found.append(replace(op, name=name, kind="map", shape=view.shape, ins={}, attrs=attrs))
            ins[key] = View.of(name, view.shape)
    return found, replace(op, ins=ins)


def _joined(op: Op, made: Mapping[str, _Made]) -> _Made | None:
    axis, start = op.attrs["axis"], 0
    parts: list[tuple[int, int, _Made]] = []
    for view in op.ins.values():
        end = start + view.shape[axis]
        part = made[view.source].read(_places(view, made, {axis: start}))
        if part is None:
            return None
        parts.append((start, end, part))
        start = end
    cases, last = _around(axis, parts)
    return _Made(op=op, cases=cases, other=last)


def _around(
    axis: int, parts: Sequence[tuple[int, int, _Made]]
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the cases of parts side by side. What a slice was written into stands at the end, once, for the parts beside it."""
    alike = [(p.cases, p.other) for _, _, p in parts]
    most = max(parts, key=lambda p: (len(p[2].cases), alike.count((p[2].cases, p[2].other)), p[1]))
    rest = next((p for _, _, p in parts if all(_ends(q, p) for _, _, q in parts)), most[2])
    total = parts[-1][1]
    found: list[tuple[str, str]] = []
    for start, end, part in parts:
        if (part.cases, part.other) == (rest.cases, rest.other):
            continue
        bounds = [f"at({axis}) >= {start}"] if start else []
        bounds += [f"at({axis}) < {end}"] if end < total else []
        own = len(part.cases) - len(rest.cases)
        cases = part.cases[:own] if _ends(part, rest) else (*part.cases, ("", part.other))
        found += [(" and ".join([*bounds, *([c] if c else [])]), value) for c, value in cases]
    return (*found, *rest.cases), rest.other


def _ends(one: _Made, rest: _Made) -> bool:
    """Return whether a function is another but for cases of its own."""
    own = len(one.cases) - len(rest.cases)
    return own >= 0 and one.other == rest.other and one.cases[own:] == rest.cases


def _taken(op: Op, made: Mapping[str, _Made]) -> _Made | None:
    """Return a gather's result: what is read at the place that the index has."""
    x, i, axis = op.ins["x"], op.ins["i"], op.attrs["axis"]
    index, read = made[i.source].read(_places(i, made)), _places(x, made)
    if index is None or read is None:
        return None
    text = f"({index.text})"
    places = [_AT.sub(lambda m: text if int(m[1]) == axis else m[0], place) for place in read]
    return made[x.source].read(places)


def _places(
    view: View, made: Mapping[str, _Made], behind: Mapping[int, int] | None = None
) -> list[str] | None:
    """Return for each dim of a view's source the place that is read there, said by the view's own positions.

    None where one dim of the view walks through several of the source: places would be quotients and remainders, which
    not every target has.
    behind: axis -> number that its positions are counted from.
    """
    shape = made[view.source].op.shape
    rows, before = row_major(shape), behind or {}
    walked = [
        (k, s) for k, (n, s) in enumerate(zip(view.shape, view.strides, strict=True)) if n > 1 and s
    ]
    of_dim: list[list[tuple[int, int]]] = [[] for _ in shape]
    left = view.offset
    starts = []
    for row in rows:
        starts.append(left // row)
        left %= row
    for k, stride in walked:
        d = next((d for d, row in enumerate(rows) if shape[d] > 1 and row <= stride), -1)
        of_dim[d].append((stride // rows[d], k))
        if stride % rows[d]:
            return None
    for d, terms in enumerate(of_dim):
        if starts[d] + sum(c * (view.shape[k] - 1) for c, k in terms) >= shape[d]:
            return None
    return [_sum(terms, first, before) for terms, first in zip(of_dim, starts, strict=True)]


def _sum(terms: Sequence[tuple[int, int]], first: int, before: Mapping[int, int]) -> str:
    """Return `first + sum of c * at(k)` as text that may stand in any expression."""
    first -= sum(c * before.get(k, 0) for c, k in terms)
    text = " + ".join(f"at({k})" if c == 1 else f"at({k}) * {c}" for c, k in terms)
    if not text:
        return str(first) if first >= 0 else f"({first})"
    if first:
        text += f" + {first}" if first > 0 else f" - {-first}"
    return text if len(terms) == 1 and not first and terms[0][0] == 1 else f"({text})"
