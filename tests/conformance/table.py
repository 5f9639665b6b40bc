"""What every target must do: primitive x dtype x edge x special values, one row each.

A row's reference is torch on float64 (integers as they are) and knows nothing of the expression language,
so that a mistake in the language's one typing rule shows, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from septran.domain import Domain
from septran.reference import ReferenceKind
from tests.conformance.rows import EDGES, Row, Tensor

INF = math.inf
X = Tensor(dims="MN")
COL, ROW = Tensor(dims="M1"), Tensor(dims="N")


def ints(dims: str, low: int, high: int, dtype: str = "int32") -> Tensor:
    """Integers in [low, high)."""
    return Tensor(dims=dims, dtype=dtype, values=Domain(kind="index", low=low, high=high))


def near(center: int, dims: str = "MN", dtype: str = "int32", reach: int = 6) -> Tensor:
    """Integers around `center`."""
    return ints(dims, center - reach, center + reach, dtype)


def mapped(
    expr: str,
    want: Callable[..., Any],
    ins: Mapping[str, Tensor] | None = None,
    out: Tensor = X,
    **more: Any,
) -> Row:
    """A map row; named after its expression."""
    given = {"x": X} if ins is None else ins
    kinds = sorted({t.dtype for t in (out, *given.values())} - {"float32"})
    name = " ".join([expr, *kinds, *([more["edge"]] if "edge" in more else [])])
    more.setdefault("name", name)
    return Row(prim="map", out=out, ins=given, attrs={"expr": expr}, want=want, **more)


def _where(cond: Any, a: Any, b: Any) -> Any:
    return torch.where(cond, torch.as_tensor(a).double(), torch.as_tensor(b).double())


def _at(x: Any, axis: int) -> Any:
    shape = [1] * x.ndim
    shape[axis] = -1
    return torch.arange(x.shape[axis]).reshape(shape)


def _tiled(x: Any, axis: int, tile: int) -> Any:
    return _at(x, axis) % tile


def _ranges(x: Any) -> Any:
    return _where(((x > 0) & ~(x > 1)) | (x < -1), 1.0, 0.0)


def _taken(x: Any, i: Any) -> Any:
    inside = (i >= 0) & (i < x.shape[1])
    return torch.where(inside, x.gather(1, torch.where(inside, i, 0)), 0.0)


def _scattered(x: Any, i: Any, op: str) -> Any:
    """Return what a scatter along axis 1 makes of 1.5 everywhere."""
    y = torch.full_like(x, 1.5)
    for row in range(x.shape[0]):
        for value, at in zip(x[row], i[row].tolist(), strict=True):
            if 0 <= at < x.shape[1]:
                old = y[row, at]
                y[row, at] = {"sum": old + value, "max": torch.maximum(old, value), "last": value}[
                    op
                ]
    return y


FUNCTIONS = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "atan": torch.atan,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
}
STEPS = {"floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc}
"""Exact: the value is one of the whole numbers beside the argument."""
TWO = {"x": X, "z": X}
MAPS: tuple[Row, ...] = (
    *(
        mapped(f"{n}(x)", lambda x, f=f: f(x), kind="elementwise", name=n)
        for n, f in FUNCTIONS.items()
    ),
    *(mapped(f"{n}(x)", lambda x, f=f: f(x), name=n) for n, f in STEPS.items()),
    mapped("fmod(x, 0.75)", lambda x: torch.fmod(x, 0.75), name="fmod"),
    *(
        mapped(
            f"{n}(max(min(x, 30), -30))",
            lambda x, f=f: f(x.clamp(-30, 30)),
            kind="elementwise",
            magnitude=lambda x: torch.ones_like(x),
            name=n,
        )
        for n, f in {"sin": torch.sin, "cos": torch.cos}.items()
    ),
    mapped("select(x > 0 and not x > 1 or x < -1, 1, 0)", _ranges),
    mapped("abs(x)", lambda x: x.abs()),
    mapped("-x", lambda x: -x),
    mapped("+x", lambda x: x),
    mapped("max(x, z)", lambda x, z: torch.maximum(x, z), TWO),
    mapped("min(x, z)", lambda x, z: torch.minimum(x, z), TWO),
    mapped("max(x, 0)", lambda x: torch.maximum(x, torch.zeros(()).double())),
    mapped("min(max(x, -0.5), 0.5)", lambda x: x.clamp(-0.5, 0.5)),
    mapped(
        "x + z * 2 - 1",
        lambda x, z: x + z * 2 - 1,
        TWO,
        kind="elementwise",
        magnitude=lambda x, z: x.abs() + z.abs() * 2 + 1,
    ),
    mapped("x / z", lambda x, z: x / z, TWO, kind="elementwise"),
    mapped("1 / x", lambda x: 1 / x, kind="elementwise"),
    mapped("x / 3", lambda x: x / 3, kind="elementwise"),
    mapped("x / (2 - x / 4)", lambda x: x / (2 - x / 4), kind="elementwise"),
    mapped("x / sigmoid(z)", lambda x, z: x / torch.sigmoid(z), TWO, kind="elementwise"),
    mapped(
        "x - (z - 1)",
        lambda x, z: x - (z - 1),
        TWO,
        kind="elementwise",
        magnitude=lambda x, z: x.abs() + z.abs() + 1,
    ),
    mapped("x ** 2", lambda x: x**2, kind="elementwise"),
    mapped("x ** 3", lambda x: x**3, kind="elementwise"),
    mapped("(x * x + 1) ** -2", lambda x: (x * x + 1) ** -2.0, kind="elementwise"),
    mapped("(x * x) ** 0.5", lambda x: x.abs(), kind="elementwise"),
    mapped("(x * x + 1) ** -0.5", lambda x: torch.rsqrt(x * x + 1), kind="elementwise"),
    mapped("(abs(x) + 1) ** 1.5", lambda x: (x.abs() + 1) ** 1.5, kind="elementwise", ulps=32.0),
    mapped("2 ** min(max(x, -9), 9)", lambda x: 2 ** x.clamp(-9, 9), kind="elementwise", ulps=32.0),
    mapped("select(x > z, x, z + 0)", lambda x, z: _where(x > z, x, z), TWO),
    mapped("select(x == x, x, 0)", lambda x: _where(x == x, x, 0.0)),
    mapped("select(x, 1, 2)", lambda x: _where(x != 0, 1.0, 2.0)),
    mapped("select(0 < x, 1, -1e30)", lambda x: _where(x > 0, 1.0, -1e30)),
    mapped(
        "(x < z) + 2 * (x <= z) + 4 * (x > z) + 8 * (x >= z) + 16 * (x == z) + 32 * (x != z)",
        lambda x, z: (
            (x < z) + 2.0 * (x <= z) + 4 * (x > z) + 8 * (x >= z) + 16 * (x == z) + 32 * (x != z)
        ),
        TWO,
        name="comparisons",
    ),
    mapped("(x > 0) + (z > 0)", lambda x, z: (x > 0) + (z > 0).double(), TWO),
    mapped("(x > 0) * 2 - (x <= 0)", lambda x: (x > 0) * 2.0 - (x <= 0).double()),
    mapped("-(x > 0)", lambda x: -(x > 0).double()),
    mapped(
        "x * r + c",
        lambda x, r, c: x * r + c,
        {"x": X, "r": ROW, "c": COL},
        kind="elementwise",
        magnitude=lambda x, r, c: (x * r).abs() + c.abs(),
    ),
    mapped("exp(c)", lambda c: torch.exp(c).expand(5, 20), {"c": COL}, kind="elementwise"),
    mapped("1 + 2 * 3", lambda: torch.full((5, 20), 7.0), {}),
    mapped("(1 / 4) ** 0.5 + max(1, 2.5)", lambda: torch.full((5, 20), 3.0), {}),
    mapped(
        "select(x > 1 / 0, 1, 0) - 1 / 0",
        lambda x: torch.full((5, 20), -INF),
        name="infinite constant",
    ),
    mapped(
        "x + index(0) * 100 + index(1)",
        lambda x: x + _tiled(x, 0, 8) * 100 + _tiled(x, 1, 16),
        kind="elementwise",
        magnitude=lambda x: x.abs() + 900,
    ),
    mapped(
        "select(index(0) >= index(1), x, -1)",
        lambda x: _where(_tiled(x, 0, 8) >= _tiled(x, 1, 16), x, -1.0),
    ),
    mapped(
        "select(index(0) + i * 8 == index(1), x, n)",
        lambda x: _where(_at(x, 0) == _tiled(x, 1, 16), x, 20.0),
        scalars={"i": "i", "n": 20},
        edge="ragged",
    ),
    mapped("x / n * s", lambda x: x / 20 * 0.3, scalars={"n": 20, "s": 0.3}, kind="elementwise"),
    mapped("index(0)", lambda: (torch.arange(5) % 8).double().reshape(5, 1).expand(5, 20), {}),
    *(
        mapped(
            "x * z + 1",
            lambda x, z: x * z + 1,
            {"x": Tensor(dims="MN", dtype=d), "z": Tensor(dims="MN", dtype=d)},
            Tensor(dims="MN", dtype=d),
            kind="elementwise",
            magnitude=lambda x, z: (x * z).abs() + 1,
        )
        for d in ("float16", "bfloat16", "float64")
    ),
    mapped(
        "x * h",
        lambda x, h: x * h,
        {"x": X, "h": Tensor(dims="MN", dtype="float16")},
        kind="elementwise",
    ),
    mapped(
        "max(x, 0.1)",
        lambda x: x.clamp(min=0.1),
        {"x": Tensor(dims="MN", dtype="float64")},
        Tensor(dims="MN", dtype="float64"),
    ),
)

ABC = {"a": near(2**25), "b": near(2**25), "c": near(2**26)}
INTEGERS: tuple[Row, ...] = (
    mapped("select(a + b > c, 1, 0)", lambda a, b, c: _where(a.long() + b > c, 1.0, 0.0), ABC),
    mapped(
        "select(a + b == c, x, 0)",
        lambda a, b, c, x: _where(a.long() + b == c, x, 0.0),
        {**ABC, "x": X},
    ),
    mapped(
        "select(a - b >= 1, 1, 0)",
        lambda a, b: _where(a.long() - b >= 1, 1.0, 0.0),
        {"a": near(2**26), "b": near(2**26)},
    ),
    mapped(
        "select(a * b != c, 1, 0)",
        lambda a, b, c: _where(a.long() * b != c, 1.0, 0.0),
        {"a": near(2**13, reach=2), "b": near(2**13, reach=2), "c": near(2**26, reach=3)},
    ),
    mapped(
        "select(a + b > c, 1, 0)",
        lambda a, b, c: _where(a.long() + b > c, 1.0, 0.0),
        {"a": near(2**30), "b": near(2**30), "c": near(2**31, dtype="int64")},
        name="sum past 2**31",
    ),
    mapped(
        "select(a < b, 1, 2)",
        lambda a, b: _where(a < b, 1.0, 2.0),
        {"a": near(2**24), "b": near(2**24)},
        name="near 2**24",
    ),
    mapped(
        "select(a == b, 1, 2)",
        lambda a, b: _where(a == b, 1.0, 2.0),
        {"a": ints("MN", 2**31 - 9, 2**31 - 1), "b": ints("MN", 2**31 - 9, 2**31 - 1)},
        name="near 2**31",
    ),
    mapped(
        "select(a == 67108865, 1, 2)", lambda a: _where(a == 67108865, 1.0, 2.0), {"a": near(2**26)}
    ),
    mapped(
        "select(a == b, 1, 2)",
        lambda a, b: _where(a == b, 1.0, 2.0),
        {"a": near(2**40, dtype="int64"), "b": near(2**40, dtype="int64")},
        name="int64",
    ),
    mapped(
        "select(a < b, 1, 2)",
        lambda a, b: _where(a < b, 1.0, 2.0),
        {"a": near(2**53, dtype="int64"), "b": near(2**53, dtype="int64")},
        name="int64 near 2**53",
    ),
    mapped(
        "select(t < 1099511627776, 1, 0)",
        lambda t: _where(t < 2**40, 1.0, 0.0),
        {"t": near(2**40, dtype="int64")},
    ),
    mapped(
        "select(t == 16777217, x, 0)",
        lambda t, x: _where(t == 16777217, x, 0.0),
        {"t": near(2**24, "M1", "int64"), "x": X},
    ),
    mapped(
        "select(index(1) == t, x, 0)",
        lambda t, x: _where(_tiled(x, 1, 16) == t, x, 0.0),
        {"t": ints("M1", 0, 16, "int64"), "x": X},
    ),
    mapped(
        "select(index(1) == t, x, 0)",
        lambda t, x: _where(_tiled(x, 1, 16) == t, x, 0.0),
        {"t": near(2**40, "M1", "int64"), "x": X},
        name="label far away",
    ),
    mapped("x * a", lambda x, a: x * a, {"x": X, "a": ints("MN", -9, 9)}, kind="elementwise"),
    mapped(
        "a - b",
        lambda a, b: (a.long() - b).double(),
        {"a": near(2**26), "b": near(2**26)},
        name="difference near 2**26",
    ),
    mapped(
        "a + b",
        lambda a, b: (a + b).double(),
        {"a": ints("MN", -128, 128, "int8"), "b": ints("MN", 0, 256, "uint8")},
    ),
    mapped(
        "select(m, x, -1)",
        lambda m, x: _where(m, x, -1.0),
        {"m": Tensor(dims="MN", dtype="bool"), "x": X},
    ),
    mapped(
        "a + b",
        lambda a, b: a.long() + b,
        {"a": near(2**25), "b": near(2**25)},
        Tensor(dims="MN", dtype="int32"),
        name="int32 result",
    ),
    mapped(
        "max(a, b)",
        lambda a, b: torch.maximum(a, b),
        {"a": near(2**26), "b": near(2**26)},
        Tensor(dims="MN", dtype="int32"),
        name="int32 maximum",
    ),
    mapped("x > 0", lambda x: x > 0, out=Tensor(dims="MN", dtype="bool"), name="bool result"),
)


def _plain(
    prim: str,
    want: Callable[..., Any],
    ins: Mapping[str, Tensor],
    out: Tensor,
    *,
    name: str = "",
    edge: str = "row",
    kind: ReferenceKind = "exact",
    terms: str = "",
    **attrs: object,
) -> Row:
    kinds = sorted({t.dtype for t in (out, *ins.values())} - {"float32"})
    words = [prim, *(f"{k}={v}" for k, v in attrs.items()), *kinds, edge]
    return Row(
        name=name or " ".join(words),
        prim=prim,
        out=out,
        ins=ins,
        attrs=attrs,
        want=want,
        edge=edge,
        kind=kind,
        terms=terms,
    )


def _reduced(op: str, axis: int) -> Callable[[Any], Any]:
    by = {"sum": torch.sum, "prod": torch.prod, "max": torch.amax, "min": torch.amin}[op]
    return lambda x: by(x, axis, keepdim=True)


def _reductions() -> tuple[Row, ...]:
    found = []
    for op in ("sum", "prod", "max", "min"):
        kind: ReferenceKind = (
            "exact" if op in ("max", "min") else "reduction" if op == "sum" else "chain"
        )
        for axis, out, terms in ((0, "1N", "K"), (1, "M1", "K")):
            source = "KN" if axis == 0 else "MK"
            found.append(
                _plain(
                    "reduce",
                    _reduced(op, axis),
                    {"x": Tensor(dims=source)},
                    Tensor(dims=out),
                    kind=kind,
                    terms=terms,
                    edge="ragged",
                    op=op,
                    axis=axis,
                )
            )
    return tuple(found)


def _several(
    op: str, source: str, axes: tuple[int, ...], *, edge: str = "ragged", dtype: str = "float32"
) -> Row:
    """A reduction over several axes at once: rounded once, whatever lies between its steps."""
    by = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}.get(op, _product_over)
    gone = {a % len(source) for a in axes}
    out = "".join("1" if d in gone else c for d, c in enumerate(source))
    kinds: Mapping[str, ReferenceKind] = {"sum": "reduction", "prod": "chain"}
    return _plain(
        "reduce",
        lambda x: by(x, axes, keepdim=True),
        {"x": Tensor(dims=source, dtype=dtype)},
        Tensor(dims=out, dtype=dtype),
        name=f"reduce {op} of {source} over {axes} {dtype} {edge}",
        edge=edge,
        kind=kinds.get(op, "exact"),
        terms="".join(source[d] for d in sorted(gone)),
        op=op,
        axis=axes,
    )


def _product_over(x: Any, axes: tuple[int, ...], *, keepdim: bool) -> Any:
    for axis in axes:
        x = x.prod(axis, keepdim=keepdim)
    return x


SEVERAL = (
    _several("sum", "MKN", (1, 2)),
    _several("sum", "LMK", (0, -1)),
    _several("sum", "MMN", (0, 1), edge="row"),
    _several("max", "LMKN", (3, 0, 2)),
    _several("min", "KLN", (0, 1)),
    _several("prod", "MLL", (1, 2)),
    _several("sum", "MKN", (1, 2), dtype="bfloat16"),
    _several("sum", "LNK", (-1, -3), dtype="float16"),
    _plain(
        "reduce_acc",
        lambda x: x.sum((1, 2), keepdim=True) + 1.5,
        {"x": Tensor(dims="MLK")},
        Tensor(dims="M11"),
        edge="ragged",
        kind="reduction",
        terms="LK",
        op="sum",
        axis=(1, 2),
    ),
)


def _products() -> tuple[Row, ...]:
    found = []
    for ta, tb in ((False, False), (True, False), (False, True), (True, True)):
        for edge in ("ragged", "multiple") if not ta and not tb else ("ragged",):
            found.append(_product(ta, tb, edge, "float32", "float32"))
    for edge in ("odd tile", "one", "last of one"):
        found.append(_product(False, False, edge, "float32", "float32"))
    for dtype in ("float16", "bfloat16"):
        found.append(_product(False, False, "ragged", dtype, "float32"))
    found.append(_product(False, True, "multiple", "float16", "float32"))
    found.append(_product(False, False, "ragged", "float64", "float64"))
    return tuple(found)


def _product(ta: bool, tb: bool, edge: str, dtype: str, out: str) -> Row:
    def want(a: Any, b: Any) -> Any:
        return (a.mT if ta else a) @ (b.mT if tb else b)

    flags = {k: True for k, v in (("trans_a", ta), ("trans_b", tb)) if v}
    ins = {
        "a": Tensor(dims="KM" if ta else "MK", dtype=dtype),
        "b": Tensor(dims="NK" if tb else "KN", dtype=dtype),
    }
    return _plain(
        "gemm", want, ins, Tensor(dims="MN", dtype=out), edge=edge, kind="gemm", terms="K", **flags
    )


def _typed(dims: str, dtype: str) -> Tensor:
    return Tensor(dims=dims, dtype=dtype)


PLAIN: tuple[Row, ...] = (
    _plain("fill", lambda: torch.full((5, 20), 2.5), {}, X, value=2.5),
    _plain("fill", lambda: torch.full((5, 20), -INF), {}, X, value=-INF),
    _plain("fill", lambda: torch.full((5, 20), 7), {}, _typed("MN", "int32"), value=7),
    *(_plain("copy", lambda x: x, {"x": X}, X, edge=edge) for edge in EDGES),
    _plain("copy", lambda x: x, {"x": X}, _typed("MN", "float16")),
    _plain("copy", lambda x: x, {"x": X}, _typed("MN", "bfloat16")),
    _plain("copy", lambda x: x, {"x": _typed("MN", "bfloat16")}, X, name="copy from bfloat16"),
    _plain("copy", lambda x: x, {"x": near(2**26)}, _typed("MN", "int32")),
    _plain("copy", lambda x: x, {"x": near(2**40, dtype="int64")}, _typed("MN", "int64")),
    _plain("copy", lambda x: x.double(), {"x": ints("MN", -9, 9)}, X, name="copy from int32"),
    *(
        _plain("transpose", lambda x: x.mT, {"x": Tensor(dims="NM")}, X, edge=e, perm=(1, 0))
        for e in ("ragged", "multiple", "one", "odd tile")
    ),
    _plain(
        "transpose",
        lambda x: x.permute(2, 0, 1),
        {"x": Tensor(dims="MNL")},
        Tensor(dims="LMN"),
        edge="ragged",
        perm=(2, 0, 1),
    ),
    *_reductions(),
    *SEVERAL,
    _plain(
        "reduce",
        _reduced("sum", 1),
        {"x": Tensor(dims="LKN")},
        Tensor(dims="L1N"),
        name="reduce middle axis",
        edge="ragged",
        kind="reduction",
        terms="K",
        op="sum",
        axis=1,
    ),
    _plain(
        "reduce",
        _reduced("max", 1),
        {"x": _typed("MK", "bfloat16")},
        _typed("M1", "bfloat16"),
        edge="ragged",
        op="max",
        axis=1,
    ),
    *(
        _plain(
            "reduce",
            _reduced("sum", 1),
            {"x": Tensor(dims="MK")},
            Tensor(dims="M1"),
            edge=e,
            kind="reduction",
            terms="K",
            op="sum",
            axis=1,
        )
        for e in ("one", "whole", "last of one")
    ),
    *_products(),
    *(
        mapped(
            "x * r + c",
            lambda x, r, c: x * r + c,
            {"x": X, "r": ROW, "c": COL},
            edge=e,
            kind="elementwise",
            magnitude=lambda x, r, c: (x * r).abs() + c.abs(),
        )
        for e in ("one", "odd tile", "multiple", "last of one", "whole")
    ),
)

DIVISIONS = (
    mapped(
        "i // 7 + i % 5 * 1000",
        lambda i: i // 7 + i % 5 * 1000,
        {"i": ints("MN", -(2**20), 2**20)},
        Tensor(dims="MN", dtype="int32"),
        name="// and %",
    ),
)
MOVEMENT = (
    _plain(
        "scan",
        lambda x: torch.cumsum(x, 1),
        {"x": Tensor(dims="MK")},
        Tensor(dims="MK"),
        edge="ragged",
        kind="reduction",
        terms="K",
        op="sum",
        axis=1,
    ),
    _plain(
        "scan",
        lambda x: torch.cummax(x.flip(0), 0)[0].flip(0),
        {"x": Tensor(dims="KN")},
        Tensor(dims="KN"),
        edge="ragged",
        op="max",
        axis=0,
        reverse=True,
    ),
    _plain(
        "scan",
        lambda x: torch.cumprod(x, 1),
        {"x": Tensor(dims="MK")},
        Tensor(dims="MK"),
        edge="ragged",
        kind="reduction",
        terms="K",
        op="prod",
        axis=1,
    ),
    _plain(
        "argreduce",
        lambda x: x.argmax(0, keepdim=True),
        {"x": Tensor(dims="KN")},
        _typed("1N", "int32"),
        edge="ragged",
        op="max",
        axis=0,
    ),
    _plain(
        "argreduce",
        lambda x: x.argmin(1, keepdim=True),
        {"x": Tensor(dims="MK")},
        _typed("M1", "int64"),
        edge="ragged",
        op="min",
        axis=1,
    ),
    _plain(
        "gather",
        lambda x, i: _taken(x, i),
        {"x": Tensor(dims="MK"), "i": ints("MN", -3, 40, "int64")},
        X,
        edge="ragged",
        axis=1,
    ),
    *(
        _plain(
            "scatter_acc",
            lambda x, i, op=op: _scattered(x, i, op),
            {"x": Tensor(dims="MK"), "i": ints("MK", -3, 40, "int64")},
            Tensor(dims="MK"),
            edge="ragged",
            kind="reduction",
            terms="K",
            op=op,
            axis=1,
        )
        for op in ("sum", "max", "last")
    ),
)
ROWS: tuple[Row, ...] = (*MAPS, *MOVEMENT, *DIVISIONS, *INTEGERS, *PLAIN)

_NO_FLOAT64 = {row.name: "dtype" for row in ROWS if "float64" in row.name}
_SUMS = (
    "select(a + b > c, 1, 0) int32",
    "select(a + b == c, x, 0) int32",
    "select(a - b >= 1, 1, 0) int32",
    "select(a * b != c, 1, 0) int32",
    "sum past 2**31",
    "difference near 2**26",
)
_MOVED = dict.fromkeys((row.name for row in MOVEMENT), "M173")
_NO_DIVISION = {"// and %": "M173"}
_NO_RARE = {**dict.fromkeys(("sin", "cos", "atan", "fmod"), "M173"), **_NO_DIVISION}
_NO_ATAN = {"atan": "M173", "fmod": "M173", **_NO_DIVISION}
"""Its remainder of floats is x - trunc(x / y) y on a device, wrong for large quotients."""
_DSA = {
    **_NO_RARE,
    **_NO_FLOAT64,
    **dict.fromkeys(_SUMS, "M172"),  # an operation rounds to its destination's dtype, at most int32
}
_LANES = {
    row.name: "C122"
    for row in ROWS
    if any("int" in t.dtype or t.dtype == "bool" for t in (row.out, *row.ins.values()))
    or row.name in ("exp2", "x ** 3", "(x * x + 1) ** -2", "(abs(x) + 1) ** 1.5")
    or row.name.startswith("2 ** ")
}
"""The lanes of Sophgo's chips have floats alone, and the vendor no exp2 and no pow."""
_FIRST_GONE = {
    row.name: "L520"
    for row in SEVERAL
    if row.out.dims.startswith("1") and not next(iter(row.ins.values())).dims.startswith("1")
}
"""A tile of three dims whose first has size 1 lies in two, and a reduction keeps the rank of its operand."""
REFUSED: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("triton_cuda", "triton_hip"), _NO_ATAN),
    **dict.fromkeys(("tilelang_cuda", "tilelang_hip"), _NO_DIVISION),
    "triton_npu": {**_NO_ATAN, **_NO_FLOAT64},
    "dsa_c": _DSA,
    "dsa_c bm1684x": {**_LANES, **_DSA},
    "tilelang_npuir": {
        **_NO_RARE,
        **_NO_FLOAT64,
        **dict.fromkeys(_SUMS, "M172"),  # its vector unit adds 32 bits
        "a + b int8 uint8": "L520",  # no uint8
        **_FIRST_GONE,
    },
    "pallas_tpu": {
        **_NO_FLOAT64,
        **dict.fromkeys(_SUMS, "M172"),  # its vector unit adds 32 bits
        **{
            row.name: "M172"
            for row in ROWS
            if {"int64", "float16"} & {t.dtype for t in (row.out, *row.ins.values())}
        },
        **_MOVED,
    },
}
"""Target -> row -> the code with which it is refused; "dtype": the manifest does not have it."""
