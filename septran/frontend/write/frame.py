"""What a kernel's text is made of: its tensors in the kernel's own dims, their tiles, names and loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from septran.frontend.canon import Canon, Op
from septran.frontend.kernel_group import Group
from septran.frontend.view import View
from septran.ir.strides import reshaped

LETTERS = ("i", "j", "k", "l", "n", "o", "p", "q")


@dataclass(frozen=True, slots=True)
class Tile:
    """How a dim is cut. size: text of the tile's extent; "" = the dim stays whole. tunable: its name."""

    size: str = ""
    tunable: str = ""
    default: int = 0

    @property
    def whole(self) -> bool:
        """Whether the dim is not cut."""
        return not self.size


WHOLE = Tile()
ONE = Tile(size="1")

TUNABLES = frozenset(
    ("rows", "cols", "block", "tile_H", "tile_W", "block_size_M", "block_size_N", "block_size_K")
) | {"panels"}
"""Names that kernels give to what the mapping chooses; no tensor of theirs has one."""


def tunable(name: str, default: int) -> Tile:
    """Return a tile whose extent the mapping chooses. name: one of TUNABLES."""
    assert name in TUNABLES, name
    return Tile(size=name, tunable=name, default=default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor of the kernel, seen in the kernel's dims. name: the parameter. view: what the program passes.

    value: of an output, the node it holds.
    """

    name: str
    view: View
    value: str = ""

    @property
    def dims(self) -> tuple[int, ...]:
        """Extents; 1 where it is broadcast."""
        return self.view.shape


_MADE = ("p", "k", "n", "_t", "_tp")
"""What templates put behind a tensor's name for its pieces."""

LOCALS = TUNABLES | {"task", "acc", "accn", "tap", *(f"first_{n}" for n in LETTERS)}
"""Names that templates give to something else in a kernel's tasks."""


@dataclass(slots=True)
class Names:
    """Hands out identifiers once each; those of a tensor's pieces are the tensor's, too."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, name: str) -> str:
        """Return `name`, with a number behind it when it is taken."""
        found, number = name, 1
        while self._clashes(found):
            number += 1
            found = f"{name}_{number}"
        self.taken.add(found)
        return found

    def _clashes(self, name: str) -> bool:
        roots = {name.removesuffix(end) for end in _MADE}
        return not self.taken.isdisjoint(roots | {name + end for end in _MADE})

    def loops(self, wanted: Sequence[str], count: int) -> list[str]:
        """Return loop variables, `wanted` first, none of which hides a tensor or a tensor's pieces."""
        found = [n for n in wanted if not self._clashes(n)]
        number = 1
        while len(found) < count:
            number += 1
            found += [m for m in (f"{n}_{number}" for n in wanted) if not self._clashes(m)]
        return found[:count]


@dataclass(slots=True)
class Frame:
    """A group seen in the kernel's dims.

    space: extents of the dims. reduced: which of them are reduced. where: dim of the nodes' own shape ->
    dim here (for `at`). full: values of the whole space (the others have reduced dims of size 1).
    """

    group: Group
    space: tuple[int, ...]
    reduced: frozenset[int]
    where: Mapping[int, int]
    inputs: list[Operand]
    outputs: list[Operand]
    names: Names
    full: frozenset[str]
    ones: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """value of the group -> the dims in which it has size 1 and the space has not"""
    runs: list[list[int]] = field(default_factory=list)
    """which dims of the transformed space each dim here is made of"""
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    """(node, operand key) -> parameter or value it reads"""

    def walked(self, op: Op) -> frozenset[int]:
        """Return the dims of more than one element that a reduction of the group reduces."""
        found = {self.where[a] for a in op.axes if self.group.space[a] > 1}
        return frozenset(d for d in found if self.space[d] > 1)


Transform = Callable[[View], View]


def make_frame(
    group: Group,
    stored: Mapping[str, View],
    transform: Transform,
    where: Mapping[int, int],
    *,
    merge: bool = True,
    solid: Iterable[int] = (),
    also: Sequence[View] = (),
    names: Names | None = None,
) -> Frame:
    """Return the frame of a group.

    stored: value that has to be in memory -> where it is written. transform: takes a view expanded to the group's space to the kernel's dims before merging. where: dim
    of the space -> dim after `transform`. solid: dims (after `transform`) that may not be merged.
    also: further views of the transformed space that have to allow a merge. names: those taken already.
    """
    names = names or Names(set(LOCALS))
    home = {o.name for o in group.ops}
    wanted = [o for o in group.ops if o.name in stored]
    wide_out = {o.name: transform(stored[o.name].expand(group.space)) for o in wanted}
    wide_in: dict[tuple[str, str], View] = {}
    for op in group.ops:
        if op is group.anchor:
            continue
        for key, view in op.ins.items():
            if view.source not in home:
                wide_in[(op.name, key)] = transform(view.expand(group.space))
    used = {where[int(d)] for o in group.ops for d in _at_dims(o)}
    reduced = frozenset(where[a] for a in group.axes)
    ones = {
        o.name: frozenset(where[d] for d, n in enumerate(o.shape) if n != group.space[d])
        for o in group.ops
        if group.anchor is None
    }
    sample = transform(View.of("", group.space))
    runs = _runs(
        sample.shape,
        [*wide_out.values(), *wide_in.values(), sample, *also],
        reduced,
        set(solid) | used,
        set(ones.values()),
        merge=merge,
    )
    place = {d: at for at, run in enumerate(runs) for d in run}
    space = tuple(_product(sample.shape[d] for d in run) for run in runs)

    def final(view: View) -> View:
        found = view.reshape(space)
        assert found is not None, (view, space)
        return found.narrow()

    frame = Frame(
        group=group,
        space=space,
        reduced=frozenset(place[d] for d in reduced),
        where={d: place[at] for d, at in where.items() if at in place},
        inputs=[],
        outputs=[],
        names=names,
        runs=runs,
        full=frozenset(o.name for o in group.ops if o.shape == group.space),
        ones={o.name: frozenset(place[d] for d in ones.get(o.name, ())) for o in group.ops},
    )
    for name, view in wide_out.items():
        frame.outputs.append(Operand(name=names.fresh(name), view=final(view), value=name))
    known: dict[tuple[str, tuple[int, ...], tuple[int, ...], int], str] = {}
    for pair, view in wide_in.items():
        narrow = final(view)
        same = (narrow.source, narrow.shape, narrow.strides, narrow.offset)
        if same not in known:
            operand = Operand(name=names.fresh(narrow.source), view=narrow)
            known[same] = operand.name
            frame.inputs.append(operand)
        frame.keys[pair] = known[same]
    return frame


def _product(sizes: Iterable[int]) -> int:
    found = 1
    for n in sizes:
        found *= n
    return found


def _at_dims(op: Op) -> list[str]:
    return re.findall(r"\bat\((\d+)\)", str(op.attrs.get("expr", "")))


def _runs(
    shape: Sequence[int],
    views: Sequence[View],
    reduced: frozenset[int],
    solid: set[int],
    ones: Iterable[frozenset[int]],
    *,
    merge: bool,
) -> list[list[int]]:
    """Return runs of dims that every view can merge, and every value that is reduced; dims of size 1 join a neighbour."""
    runs: list[list[int]] = []
    for d in range(len(shape)):
        if (
            merge
            and runs
            and d not in solid
            and runs[-1][-1] not in solid
            and (
                (d in reduced) == (runs[-1][-1] in reduced)
                or 1 in (shape[d], _product(shape[e] for e in runs[-1]))
            )
            and not (shape[d] == 1 and d in reduced and not _any_reduced(runs[-1], reduced))
            and not (_any_reduced(runs[-1], reduced) != (d in reduced) and shape[d] != 1)
            and all(_mergeable(v, runs[-1], d) for v in views)
            and all(
                (d in s) == (e in s)
                for s in ones
                for e in runs[-1]
                if 1 not in (shape[d], shape[e])
            )
        ):
            runs[-1].append(d)
        else:
            runs.append([d])
    return runs


def _any_reduced(run: list[int], reduced: frozenset[int]) -> bool:
    return any(d in reduced for d in run)


def _mergeable(view: View, run: list[int], d: int) -> bool:
    dims = [*run, d]
    sizes, steps = [view.shape[e] for e in dims], [view.strides[e] for e in dims]
    # a dim that is broadcast stays apart from one that is not
    if any(n > 1 and s == 0 for n, s in zip(sizes, steps, strict=True)) and any(
        n > 1 and s != 0 for n, s in zip(sizes, steps, strict=True)
    ):
        return False
    return reshaped(sizes, steps, (_product(sizes),)) is not None


def view_text(view: View) -> str:
    """Return a view as calls of Task Lang's layout operators."""
    text = view.source
    for kind, values in view.steps:
        if kind == "slice":
            n = len(values) // 3
            offset, shape, step = values[:n], values[n : 2 * n], values[2 * n :]
            more = "" if set(step) <= {1} else f", step={_tuple(step)}"
            text = f"task.slice({text}, {_tuple(offset)}, {_tuple(shape)}{more})"
        else:
            text = f"task.{kind}({text}, {_tuple(values)})"
    return text


def tuple_text(items: Sequence[str]) -> str:
    """Return Python text of a tuple of texts."""
    return f"({', '.join(items)},)" if len(items) == 1 else f"({', '.join(items)})"


def _tuple(values: Sequence[int]) -> str:
    return tuple_text([str(v) for v in values])


def partition_text(operand: Operand, tiles: Sequence[Tile]) -> str:
    """Return the `task.partition` of an operand: broadcast dims stay whole."""
    shape = [
        "None" if t.whole or n == 1 else t.size for n, t in zip(operand.dims, tiles, strict=True)
    ]
    return f'task.partition({operand.name}, by="blocks", shape={tuple_text(shape)})'


def piece_text(operand: Operand, tiles: Sequence[Tile], index: Mapping[int, str]) -> str:
    """Return the piece of an operand at a grid position."""
    found = [
        index[d] if not t.whole and n > 1 and d in index else "0"
        for d, (n, t) in enumerate(zip(operand.dims, tiles, strict=True))
    ]
    return f"{operand.name}p[{', '.join(found)}]"


def file_name(path: str) -> str:
    """Return a file's name with nothing in it that could end a comment or a string."""
    return re.sub(r"[^\w. -]", "_", path.rsplit("/", 1)[-1])


def comment(canon: Canon, group: Group, source: Sequence[str]) -> list[str]:
    """Return comments with the user's own lines that a kernel computes."""
    lines = sorted({o.line for o in group.ops if o.line})
    file = file_name(canon.file)
    found = []
    for line in lines[:6]:
        text = source[line - 1].strip() if line <= len(source) else ""
        found.append(f"# {file}:{line}  {text}"[:110].rstrip())
    return found
