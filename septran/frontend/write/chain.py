"""Kernels of two products one after another: a block keeps its rows of the first and multiplies them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from septran.frontend.chain import ONE_BLOCK
from septran.frontend.kernel_group import Group
from septran.frontend.view import View
from septran.frontend.write.body import temp_lines
from septran.frontend.write.epilogue import finish_leaf
from septran.frontend.write.frame import (
    LOCALS,
    WHOLE,
    Frame,
    Names,
    Operand,
    Tile,
    make_frame,
    partition_text,
    piece_text,
    tunable,
)
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.product import stepped, turned, turns
from septran.frontend.write.rows import write_rows

_ROWS = tunable("block_size_M", 64)
_COLUMNS = tunable("block_size_N", 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """One product of a chain. right: its weight, as it is stored; swapped: that is [n, k]."""

    group: Group
    frame: Frame
    right: Operand
    swapped: bool

    @property
    def option(self) -> str:
        """What a call of a primitive says of the weight."""
        return ", trans_b=True" if self.swapped else ""


def write_chain(group: Group, stored: Mapping[str, View]) -> Kernel:
    """Return the text of D[m, n] = f(A[m, k] B[k, l]) C[l, n] with maps behind each product.

    The rows of f(A B) are a local tensor of a block; the columns of D are made block by block.
    """
    names = Names(set(LOCALS) | {"acc_2"})
    one, two = group.ops[: group.first], group.ops[group.first :]
    two, numbers = two[: len(two) - group.numbers], two[len(two) - group.numbers :]
    kept = one[-1]
    second = _product(replace(group, ops=two, first=0, numbers=0), stored, names)
    inner = Group(name=kept.name, ops=one, space=kept.shape)
    first = _product(inner, {kept.name: View.of(kept.name, kept.shape)}, names)
    a = one[0].ins["a"]
    left = Operand(name=names.fresh(a.source), view=a.narrow())
    extra = [left, first.right, *first.frame.inputs, second.right]
    kernel = Kernel(name=group.name, frame=second.frame, extra=extra)
    lines = [*_step(kernel, first, left), *_blocks(kernel, first, second)]
    params = ", ".join(o.name for o in kernel.operands)
    kernel.before = [
        *stepped(inner.name, f"{inner.name}_mma(C, A, B)", [_call("gemm_acc", first)], (), ())[:-5],
        "@task.define(leaf=True)",
        f"def {group.name}_mma(C, A, B):",
        f"    {_call('gemm', second)}",
        "",
        "",
        "@task.define",
        f"def {group.name}_tile({params}):",
        *(f"    {line}" for line in lines),
        "",
        "",
    ]
    _grid(kernel, left, first)
    if numbers:
        own = Group(name=numbers[-1].name, ops=numbers, space=numbers[-1].shape)
        _beside(kernel, write_rows(own, stored, names))
    return kernel


def _beside(kernel: Kernel, numbers: Kernel) -> None:
    """Let a kernel of one block make the numbers of another, which has no loop either."""
    assert not kernel.depth and not numbers.depth
    kernel.body += numbers.body
    kernel.leaves += numbers.leaves
    kernel.extra += numbers.operands


def _product(group: Group, stored: Mapping[str, View], names: Names) -> _Product:
    b = group.ops[0].ins["b"]
    frame = make_frame(group, stored, lambda v: v, {0: 0, 1: 1}, merge=False, names=names)
    right = Operand(name=names.fresh(b.source), view=turned(b))
    return _Product(group=group, frame=frame, right=right, swapped=turns(b))


def _call(primitive: str, one: _Product) -> str:
    return f'task.call_primitive("{primitive}", C, A, B{one.option})'


def _step(kernel: Kernel, first: _Product, left: Operand) -> list[str]:
    """Return the lines that make a block's rows of the first product."""
    name, right, (k,) = first.group.name, first.right.name, first.frame.names.loops(("k",), 1)
    (rows,) = first.frame.outputs
    leaf, values = finish_leaf(first.frame, [WHOLE, WHOLE], {})
    kernel.leaves.append(leaf)
    pieces = {o.name: o.name for o in (*first.frame.outputs, *first.frame.inputs)}
    out = kernel.frame.outputs[0].name
    cut = "(None, block_size_K)" if first.swapped else "(block_size_K, None)"
    at = f"0, {k}" if first.swapped else f"{k}, 0"
    return [
        'block_size_K = task.tunable("block_size_K", 128)',
        f'{rows.name} = task.tensor("{rows.name}", ({out}.shape[0], {rows.dims[1]}))',
        f'acc = task.tensor("acc", {rows.name}.shape)',
        f'{left.name}k = task.partition({left.name}, by="blocks", shape=(None, block_size_K))',
        f'{right}k = task.partition({right}, by="blocks", shape={cut})',
        f"task.launch({name}_zero, acc)",
        f"for {k} in task.sequential_range({left.name}k.shape[1]):",
        f"    task.launch({name}_mma, acc, {left.name}k[0, {k}], {right}k[{at}])",
        *temp_lines(values, first.frame, [*first.frame.outputs, *first.frame.inputs], pieces),
        leaf.call(pieces),
    ]


def _blocks(kernel: Kernel, first: _Product, second: _Product) -> list[str]:
    """Return the lines that multiply a block's rows by the second weight, columns by columns."""
    frame, right, (j,) = second.frame, second.right, second.frame.names.loops(("j", "n"), 1)
    tiles, index = [WHOLE, _COLUMNS], {1: j}
    leaf, values = finish_leaf(frame, tiles, index)
    kernel.leaves.append(leaf)
    operands = [*frame.outputs, *frame.inputs]
    of_b = [_COLUMNS, WHOLE] if second.swapped else [WHOLE, _COLUMNS]
    at_b = f"{j}, 0" if second.swapped else f"0, {j}"
    out = frame.outputs[0].name
    pieces = {o.name: f"{o.name}_t" for o in operands}
    inner = [
        *(f"{pieces[o.name]} = {piece_text(o, tiles, index)}" for o in operands),
        f'acc_2 = task.tensor("acc_2", {pieces[out]}.shape)',
        f"task.launch({second.group.name}_mma, acc_2, {first.frame.outputs[0].name}, "
        f"{right.name}p[{at_b}])",
        *temp_lines(values, frame, operands, pieces),
        leaf.call({**pieces, "acc": "acc_2"}),
    ]
    return [
        f'block_size_N = task.tunable("block_size_N", {_COLUMNS.default})',
        *(f"{o.name}p = {partition_text(o, tiles)}" for o in operands),
        f"{right.name}p = {partition_text(right, of_b)}",
        f"for {j} in task.sequential_range({out}p.shape[1]):",
        *(f"    {line}" for line in inner),
    ]


def _grid(kernel: Kernel, left: Operand, first: _Product) -> None:
    """Write the loop over blocks of rows, each of which has all columns."""
    weights = [o.name for o in kernel.extra if o is not left and o not in first.frame.inputs]
    cut = [o for o in kernel.operands if o.name not in weights and o.dims[0] > 1]
    if kernel.frame.space[0] <= ONE_BLOCK:
        cut = []
    pieces = {}
    (i,) = kernel.frame.names.loops(("i",), 1)
    if cut:
        kernel.add(f'block_size_M = task.tunable("block_size_M", {_ROWS.default})')
        for o in cut:
            tiles: Sequence[Tile] = [_ROWS, WHOLE]
            kernel.add(f"{o.name}p = {partition_text(o, tiles)}")
            pieces[o.name] = piece_text(o, tiles, {0: i})
        kernel.add(f"for {i} in task.parallel_range({kernel.frame.outputs[0].name}p.shape[0]):")
        kernel.depth = 1
    given = ", ".join(pieces.get(o.name, o.name) for o in kernel.operands)
    kernel.add(f"task.launch({kernel.name}_tile, {given})")
