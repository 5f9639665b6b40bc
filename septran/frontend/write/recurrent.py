"""The steps of a recurrent layer: two kernels in a loop of the program, on a state that stays in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.frontend.canon import Op
from septran.frontend.kernel_group import Group
from septran.frontend.view import View
from septran.frontend.write.frame import view_text
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.product import write_product

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Cell -> how many rows of its weights belong to one hidden unit."""

_STEPS = {
    "lstm": (
        ("c", "sigmoid(x1 + g1) * c + sigmoid(x0 + g0) * tanh(x2 + g2)"),
        ("h", "sigmoid(x3 + g3) * tanh(c)"),
    ),
    "gru": (
        (
            "h",
            "(1 - sigmoid(x1 + g1)) * tanh(x2 + sigmoid(x0 + g0) * g2) + sigmoid(x1 + g1) * h",
        ),
    ),
    "rnn_tanh": (("h", "tanh(x0 + g0)"),),
    "rnn_relu": (("h", "max(x0 + g0, 0)"),),
}
"""Cell -> what a step writes in place, from the input's part x and the state's part g of each gate."""


@dataclass(slots=True)
class Steps:
    """Text of a recurrent layer: its tasks, and what the program says to run them."""

    hidden: Kernel
    lines: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)

    def text(self) -> list[str]:
        """Return the lines of all tasks."""
        return [*self.hidden.text(), *self.lines]

    def launches(self) -> list[str]:
        """Return the lines of the program."""
        return self.program


def write_recurrent(group: Group, stored: Mapping[str, View]) -> Steps:
    """Return the text of a recurrent layer.

    The input's part of the gates is there for all steps [T, B, G H]; a step multiplies the state with its
    weights and writes state and result. Torch's order of gates: lstm i f g o, gru r z n.
    """
    op = group.ops[0]
    steps, batch, width = op.shape
    count = GATES[op.attrs["cell"]]
    gates = f"{op.name}_gates"
    hidden = _hidden(op, gates, batch, count * width)
    states = [k for k in ("h", "c") if k in op.ins]
    kernel = Steps(hidden=hidden, lines=_step(op, states, count))
    step = f"{op.name}_t"
    at = f"{steps - 1} - {step}" if op.attrs["back"] else step
    own = op.ins["x"]
    parts = [own.slice((0, 0, g * width), (steps, batch, width)) for g in range(count)]
    program = [
        f'{gates} = task.tensor("{gates}", ({batch}, {count * width}), dtype="{op.dtype}")',
        f"{op.name}_y = {_by_step(stored[op.name])}",
        *(f"{op.name}_x{g} = {_by_step(part)}" for g, part in enumerate(parts)),
        f"for {step} in task.sequential_range({op.name}_y.shape[0]):",
    ]
    launch = ", ".join(view_text(view) for _, view in hidden.arguments())
    program.append(f"    task.launch({hidden.name}_kernel, {launch})")
    whole = View.of(gates, (batch, count * width))
    given = [f"{op.name}_y[{at}, 0, 0]"]
    given += [view_text(_flat(op.ins[k], batch, width)) for k in states]
    given += [f"{op.name}_x{g}[{at}, 0, 0]" for g in range(count)]
    given += [
        view_text(_flat(whole.slice((0, g * width), (batch, width)), batch, width))
        for g in range(count)
    ]
    program.append(f"    task.launch({op.name}_step_kernel, {', '.join(given)})")
    kernel.program = program
    return kernel


def _by_step(view: View) -> str:
    return f'task.partition({view_text(view)}, by="blocks", shape=(1, None, None))'


def _flat(view: View, batch: int, width: int) -> View:
    """Return a [B, H] view with a dim of one step in front."""
    return view.shaped((1, batch, width))


def _hidden(op: Op, gates: str, batch: int, width: int) -> Kernel:
    """Return the product of the state with its weights."""
    product = Op(
        name=f"{op.name}_product",
        kind="matmul",
        shape=(batch, width),
        dtype=op.dtype,
        ins={"a": op.ins["h"], "b": op.ins["w"].permute((1, 0))},
    )
    ops, last = [product], product
    if "b" in op.ins:
        last = Op(
            name=f"{op.name}_biased",
            kind="map",
            shape=(batch, width),
            dtype=op.dtype,
            ins={
                "c": View.of(product.name, product.shape),
                "b": op.ins["b"].expand((batch, width)),
            },
            attrs={"expr": "c + b"},
        )
        ops.append(last)
    group = Group(name=f"{op.name}_hidden", ops=ops, space=(batch, width))
    return write_product(group, {last.name: View.of(gates, (batch, width))})


def _step(op: Op, states: list[str], count: int) -> list[str]:
    names = ["y", *states, *(f"x{g}" for g in range(count)), *(f"g{g}" for g in range(count))]
    params = ", ".join(names)
    leaf = [
        "@task.define(leaf=True)",
        f"def {op.name}_step({params}):",
    ]
    for out, expr in _STEPS[op.attrs["cell"]]:
        said = set(re.findall(r"\w+", expr))
        used = [n for n in names if n in said]
        operands = "".join(f", {n}={n}" for n in used)
        leaf.append(f'    task.call_primitive("map", {out}, expr="{expr}"{operands})')
    leaf.append('    task.call_primitive("copy", y, h)')
    body = [
        'rows = task.tunable("rows", 4)',
        f'cols = task.tunable("cols", {min(op.shape[2], 1024)})',
        *(f'{n}p = task.partition({n}, by="blocks", shape=(None, rows, cols))' for n in names),
        "for i, j in task.parallel_range(yp.shape[1], yp.shape[2]):",
        f"    task.launch({op.name}_step, {', '.join(f'{n}p[0, i, j]' for n in names)})",
    ]
    head = ["@task.define", f"def {op.name}_step_kernel({params}):"]
    return [*leaf, "", "", *head, *(f"    {line}" for line in body), "", ""]
