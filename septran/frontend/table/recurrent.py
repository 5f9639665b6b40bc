"""Rows of recurrent layers and cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row
from septran.frontend.table.layout import cut, join
from septran.frontend.table.products import product
from septran.frontend.view import View
from septran.ir.dtypes import DTYPES


@row("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(b: Builder, node: Node, a: Args) -> Value:
    kind = node.op.split(".")[1]
    if a["data"] is not None or a.view("input").rank != 3:
        raise NoForm("a recurrent layer over packed sequences")
    if a["train"] and a["dropout"]:
        raise NoForm("dropout between layers draws random numbers: no defined result to judge")
    states = tuple(a["hx"]) if kind == "lstm" else (a["hx"],)
    return _unrounded(
        b, (a.view("input"), *states, *a["params"]), partial(_layers, b, kind, a, len(states))
    )


def _layers(b: Builder, kind: str, a: Args, count: int, x: View, *given: View) -> tuple[View, ...]:
    """Return (results [T, B, H], batch first where `a` says so, and the last of each state [layers, B, H]).

    given: `count` states, then the weights, as torch orders them.
    """
    states, weights = given[:count], given[count:]
    ways, layers = 2 if a["bidirectional"] else 1, a["num_layers"]
    x = x.permute((1, 0, 2)) if a["batch_first"] else x
    each = len(weights) // (layers * ways)
    walk = _walk if each in (2, 4) else _walk_projected
    last: list[list[View]] = [[] for _ in states]
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            at = layer * ways + way
            mine = weights[at * each : (at + 1) * each]
            start = [b.reshape(cut(s, 0, at, 1), s.shape[1:]) for s in states]
            steps, final = walk(b, x, start, mine, kind, back=way == 1)
            outputs.append(steps)
            for found, value in zip(last, final, strict=True):
                found.append(b.reshape(value, (1, *value.shape)))
        x = join(b, outputs, 2)
    result = x.permute((1, 0, 2)) if a["batch_first"] else x
    return (result, *(join(b, found, 0) for found in last))


def _unrounded(
    b: Builder, given: Sequence[View], compute: Callable[..., Sequence[View]]
) -> tuple[View, ...]:
    """Return compute(*given), which float32 holds inside where the tensors have 16 bits.

    A state that is rounded at each step is another one after a few.
    """
    dtype = b.dtypes[given[0].source]
    inner = "float32" if DTYPES[dtype].nbytes < DTYPES["float32"].nbytes else ""
    with b.computing(inner):
        found = compute(*(_as(b, v, inner or dtype) for v in given))
    return tuple(_as(b, v, dtype) for v in found)


def _as(b: Builder, v: View, dtype: str) -> View:
    return v if b.dtypes[v.source] == dtype else b.map("x", {"x": v}, name="cast", dtype=dtype)


_BESIDE = ("y", "t", "gates", "x0", "x1", "x2", "x3")
"""What the program calls the pieces of a recurrent layer, behind its name."""


def _walk(
    b: Builder, x: View, state: list[View], weights: tuple[View, ...], kind: str, *, back: bool
) -> tuple[View, list[View]]:
    """Return (results in the order of x [T, B, H], the last states [B, H])."""
    w_in, w_hidden, *bias = weights
    inside = _linear(b, x, w_in, bias[:1], "from_input")
    return _steps(b, inside, state, w_hidden, bias[1:], kind, back=back)


def _walk_projected(
    b: Builder, x: View, state: list[View], weights: tuple[View, ...], kind: str, *, back: bool
) -> tuple[View, list[View]]:
    """Return what `_walk` does of an LSTM whose state is projected, h = W u.

    From its second step on the layer is one without projections on u, of weights w W; the first reads h as it is given.
    """
    w_in, w_hidden, *bias, w = weights
    inside = _linear(b, x, w_in, bias[:1], "from_input")
    count, first = x.shape[0], x.shape[0] - 1 if back else 0
    own = b.reshape(cut(inside, 0, first, 1), inside.shape[1:])
    hidden = _linear(b, state[0], w_hidden, bias[1:], "from_state")
    state = _lstm_step(b, own, hidden, state)
    found = b.reshape(state[0], (1, *state[0].shape))
    if count > 1:
        both = product(b, w_hidden, w, name="both_weights")
        rest = cut(inside, 0, 0 if back else 1, count - 1)
        later, state = _steps(b, rest, state, both, bias[1:], kind, back=back)
        found = join(b, [later, found] if back else [found, later], 0)
    steps = product(b, found, w.permute((1, 0)), name="projected")
    end = cut(steps, 0, 0 if back else count - 1, 1)
    return steps, [b.reshape(end, steps.shape[1:]), *state[1:]]


def _linear(b: Builder, x: View, w: View, bias: list[View], name: str) -> View:
    found = product(b, x, w.permute((1, 0)), name=name)
    return b.map("c + b", {"c": found, "b": bias[0]}, name=name) if bias else found


def _steps(
    b: Builder, x: View, state: list[View], w: View, bias: list[View], kind: str, *, back: bool
) -> tuple[View, list[View]]:
    """Return what `_walk` does; x: the input's part of the gates [T, B, G H]. w: the state's weights."""
    held = [b.add("state", s.shape, {"x": s}, name=f"{kind}_state", expr="x") for s in state]
    ins = {"x": x, "w": w, **dict(zip("hc", held, strict=False))}
    if bias:
        ins["b"] = bias[0]
    shape = (x.shape[0], *state[0].shape)
    name, number = kind, 1
    while not b.taken.keys().isdisjoint(names := {name, *(f"{name}_{end}" for end in _BESIDE)}):
        number += 1
        name = f"{kind}_{number}"
    steps = b.add("recurrent", shape, ins, name=name, cell=kind, back=back)
    for taken in names - {name}:
        b.fresh(taken)
    end = cut(steps, 0, 0 if back else shape[0] - 1, 1)
    return steps, [b.reshape(end, shape[1:]), *held[1:]]


def _parts(v: View, count: int) -> list[View]:
    n = v.shape[1] // count
    return [cut(v, 1, i * n, n) for i in range(count)]


def _lstm_step(b: Builder, own: View, hidden: View, state: list[View]) -> list[View]:
    gates = b.map("x + h", {"x": own, "h": hidden}, name="gates")
    i, f, g, o = _parts(gates, 4)
    c = b.map(
        "sigmoid(f) * c + sigmoid(i) * tanh(g)",
        {"f": f, "c": state[1], "i": i, "g": g},
        name="cell",
    )
    return [b.map("sigmoid(o) * tanh(c)", {"o": o, "c": c}, name="hidden"), c]


def _gru_step(b: Builder, own: View, hidden: View, state: list[View]) -> list[View]:
    (xr, xz, xn), (hr, hz, hn) = _parts(own, 3), _parts(hidden, 3)
    z = b.map("sigmoid(x + h)", {"x": xz, "h": hz}, name="update")
    n = b.map(
        "tanh(x + sigmoid(r + s) * h)", {"x": xn, "r": xr, "s": hr, "h": hn}, name="candidate"
    )
    return [b.map("(1 - z) * n + z * h", {"z": z, "n": n, "h": state[0]}, name="hidden")]


def _tanh_step(b: Builder, own: View, hidden: View, state: list[View]) -> list[View]:
    return [b.map("tanh(x + h)", {"x": own, "h": hidden}, name="hidden")]


def _relu_step(b: Builder, own: View, hidden: View, state: list[View]) -> list[View]:
    return [b.map("max(x + h, 0)", {"x": own, "h": hidden}, name="hidden")]


_STEPS = {"lstm": _lstm_step, "gru": _gru_step, "rnn_tanh": _tanh_step, "rnn_relu": _relu_step}


@row("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(b: Builder, node: Node, a: Args) -> Value:
    kind = node.op.split(".")[1].removesuffix("_cell")
    x, hx = a.view("input"), a["hx"]
    states = list(hx) if kind == "lstm" else [hx]
    if x.rank != 2:
        raise NoForm("a recurrent cell without a batch")
    bias = [] if a["b_ih"] is None else [a["b_ih"], a["b_hh"]]

    def step(x: View, w: View, w_hidden: View, *rest: View) -> list[View]:
        state, bias = list(rest[: len(states)]), list(rest[len(states) :])
        own = _linear(b, x, w, bias[:1], "from_input")
        hidden = _linear(b, state[0], w_hidden, bias[1:], "from_state")
        return _STEPS[kind](b, own, hidden, state)

    found = _unrounded(b, (x, a.view("w_ih"), a.view("w_hh"), *states, *bias), step)
    return found if kind == "lstm" else found[0]
