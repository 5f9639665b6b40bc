"""Execute the TensorIR of a dsa_c kernel with numpy: a second opinion on CodeGenDSA and its simulator.

It reads TVM statements and the `dsa.*` calls in them, and shares nothing with the C path: no C, no
vendor table, no addresses (every allocation is an array of its own), no queues (calls take effect in
order). Values are float64, rounded to the type of the buffer they are written to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_erf = np.vectorize(math.erf, otypes=[np.float64])

UNARY: dict[str, Callable[[Array], Array]] = {
    "copy": lambda a: a,
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "tanh": np.tanh,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "erf": _erf,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
REDUCE: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
}


def rounded(values: Any, dtype: str) -> Array:
    """Return `values` as the nearest numbers of `dtype`, in float64."""
    x = np.asarray(values, np.float64)
    if dtype == "float64":
        return x
    if dtype == "bool":
        return (x != 0).astype(np.float64)
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        whole: Array = np.clip(np.trunc(x), info.min, info.max)
        return whole
    single = x.astype(np.float32)
    if dtype == "float16":
        return single.astype(np.float16).astype(np.float64)
    if dtype == "bfloat16":
        bits = single.view(np.uint32)
        near = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return np.where(np.isnan(single), single, near.view(np.float32)).astype(np.float64)
    return single.astype(np.float64)


class Tile:
    """A two-dimensional view of a buffer, which rounds what is written."""

    def __init__(self, flat: Array, dtype: str, at: int, ld: int, rows: int, cols: int) -> None:
        last = at + (rows - 1) * ld + cols
        assert rows > 0 and cols > 0 and at >= 0 and last <= flat.size, "outside its buffer"
        step = flat.itemsize
        self.view = np.lib.stride_tricks.as_strided(flat[at:], (rows, cols), (ld * step, step))
        self.dtype = dtype

    def put(self, values: Any) -> None:
        self.view[...] = rounded(values, self.dtype)


def run(func: Any, tensors: dict[str, Array], cores: int) -> None:
    """Execute `func` on `cores` cores; float64 `tensors` by buffer name are changed in place."""
    running = [_Core(func, tensors, number, cores).run() for number in range(cores)]
    while running:  # each yield is a barrier, which all cores reach
        running = [core for core in running if next(core, "end") != "end"]


class _Core:
    def __init__(self, func: Any, tensors: dict[str, Array], number: int, count: int) -> None:
        self.func = func
        self.memory = {name: t.reshape(-1) for name, t in tensors.items()}
        self.env: dict[Any, int] = {}
        self.known = {"dsa.core_id": number, "dsa.core_num": count}

    def run(self) -> Iterator[str]:
        with np.errstate(all="ignore"):
            yield from self.stmt(self.func.body)

    def stmt(self, node: Any) -> Iterator[str]:
        match type(node).__name__:
            case "SeqStmt":
                for one in node.seq:
                    yield from self.stmt(one)
            case "AllocBuffer":
                size = math.prod(int(d) for d in node.buffer.shape)
                self.memory[str(node.buffer.name)] = np.full(size, np.nan)
            case "For":
                start, count = self.value(node.min), self.value(node.extent)
                for number in range(start, start + count):
                    self.env[node.loop_var] = number
                    yield from self.stmt(node.body)
            case "IfThenElse":
                if self.value(node.condition):
                    yield from self.stmt(node.then_case)
                elif node.else_case is not None:
                    yield from self.stmt(node.else_case)
            case "Evaluate":
                if type(node.value).__name__ == "Call":
                    name, *args = node.value.args
                    if name.value == "dsa.barrier":
                        yield "barrier"
                    self.operation(str(name.value), args)
            case kind:
                raise AssertionError(f"no rule for {kind}")

    def value(self, node: Any) -> Any:
        match type(node).__name__:
            case "int" | "float":
                return node
            case "IntImm":
                return int(node.value)
            case "FloatImm":
                return float(node.value)
            case "Var":
                return self.env[node]
            case "Call":
                return self.known[node.args[0].value]
            case kind:
                a, b = self.value(node.a), self.value(node.b)
                return {
                    "Add": lambda: a + b,
                    "Sub": lambda: a - b,
                    "Mul": lambda: a * b,
                    "FloorDiv": lambda: a // b,
                    "FloorMod": lambda: a % b,
                    "Min": lambda: min(a, b),
                    "Max": lambda: max(a, b),
                    "LT": lambda: a < b,
                    "LE": lambda: a <= b,
                    "GT": lambda: a > b,
                    "GE": lambda: a >= b,
                    "EQ": lambda: a == b,
                    "NE": lambda: a != b,
                    "And": lambda: a and b,
                    "Or": lambda: a or b,
                }[kind]()

    def tile(self, pointer: Any, ld: Any, rows: int, cols: int) -> Tile:
        load = pointer.args[0]
        at = 0
        for size, index in zip(load.buffer.shape, load.indices, strict=True):
            at = at * int(size) + self.value(index)
        flat = self.memory[str(load.buffer.name)]
        return Tile(flat, str(load.buffer.dtype), at, self.value(ld), rows, cols)

    def operation(self, name: str, a: Sequence[Any]) -> None:
        short = name.removeprefix("dsa.")
        if short in ("sync", "barrier", "set", "wait"):
            return
        pointers = [i for i, x in enumerate(a) if hasattr(x, "op")]
        numbers = {i: self.value(x) for i, x in enumerate(a) if i not in pointers and not _word(x)}

        def tile(at: int, rows: int, cols: int) -> Tile:
            return self.tile(a[at], a[at + 1], rows, cols)

        match short:
            case "dma_copy" | "dma_cast":
                rows, cols = numbers[4], numbers[5]
                tile(0, rows, cols).put(tile(2, rows, cols).view)
            case "fill" | "dma_fill":
                tile(0, numbers[2], numbers[3]).put(numbers[4])
            case "vec_transpose":
                rows, cols = numbers[4], numbers[5]
                tile(0, rows, cols).put(tile(2, cols, rows).view.T)
            case "vec_index":
                rows, cols, base, by_row, by_col = (numbers[i] for i in range(2, 7))
                at = np.arange(rows)[:, None] * by_row + np.arange(cols) * by_col
                tile(0, rows, cols).put(base + at)
            case "mma":
                self.mma(tile, *(numbers[i] for i in range(6, 10)))
            case reduce if reduce.startswith("vec_reduce_"):
                rows, cols, across = (numbers[i] for i in range(4, 7))
                source = tile(2, rows, cols).view
                how = REDUCE[reduce.removeprefix("vec_reduce_")]
                into = tile(0, *((rows, 1) if across else (1, cols)))
                into.put(how(source, axis=1 if across else 0, keepdims=True))
            case vector:
                self.vector(vector.removeprefix("vec_"), tile, len(pointers) - 1, numbers)

    def mma(self, tile: Callable[..., Tile], m: int, n: int, k: int, flags: int) -> None:
        a = tile(2, *((k, m) if flags & 2 else (m, k))).view
        b = tile(4, *((n, k) if flags & 4 else (k, n))).view
        a, b = (a.T if flags & 2 else a), (b.T if flags & 4 else b)
        c = tile(0, m, n)
        found = np.zeros((m, n), np.float32) if flags & 1 else c.view.astype(np.float32)
        for step in range(k):
            found += np.outer(a[:, step].astype(np.float32), b[step].astype(np.float32))
        c.put(found)

    def vector(
        self, name: str, tile: Callable[..., Tile], count: int, numbers: dict[int, Any]
    ) -> None:
        rows, cols = numbers[2 + 4 * count], numbers[3 + 4 * count]
        ins = [tile(2 + 4 * i, numbers[4 + 4 * i], numbers[5 + 4 * i]).view for i in range(count)]
        scalar = numbers.get(4 + 4 * count)
        if name == "select":
            found = np.where(ins[0] != 0, ins[1], ins[2])
        elif count == 1 and scalar is None:
            found = UNARY[name](ins[0])
        elif count == 2:
            found = BINARY[name](*ins)
        elif name[0] == "r" and name[1:-1] in BINARY:
            found = BINARY[name[1:-1]](scalar, ins[0])
        else:
            found = BINARY[name.removesuffix("s")](ins[0], scalar)
        tile(0, rows, cols).put(np.broadcast_to(found, (rows, cols)))


def _word(x: Any) -> bool:
    return type(x).__name__ == "StringImm"
