"""Rows of pointwise operators."""

from __future__ import annotations

from typing import Any

from septran.aten.graph import Dtype, Node
from septran.frontend.table import integers
from septran.frontend.table.bits import bits
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row
from septran.frontend.view import View
from septran.ir.dtypes import DTYPES, FLOATS

SIGMOID = "sigmoid(x)"


def log1p(z: str) -> str:
    """Return text of log(1 + z) that does not cancel, for 0 <= z <= 1 or so (Kahan's correction)."""
    return f"select(1 + {z} == 1, {z}, log(1 + {z}) * ({z} / ((1 + {z}) - 1)))"


def expm1(x: str) -> str:
    """Return text of exp(x) - 1 that does not cancel."""
    return f"tanh({x} * 0.5) * (exp({x}) + 1)"


def _below(x: str) -> str:
    """Return text of whether `x` has a minus sign, zero's too."""
    return f"select({x} < 0, 1, select(1 / {x} < 0, 1, 0)) > 0"


_GELU = "0.5 * x * (1 + erf(x * 0.7071067811865476))"
_GELU_TANH = "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"
_MISH_E = "exp(min(x, 20))"

UNARY: dict[str, str] = {
    "relu": "max(x, 0)",
    "sigmoid": SIGMOID,
    "tanh": "tanh(x)",
    "exp": "exp(x)",
    "exp2": "exp2(x)",
    "expm1": "expm1(x)",
    "sin": "sin(x)",
    "cos": "cos(x)",
    "tan": "sin(x) / cos(x)",
    "atan": "atan(x)",
    "floor": "floor(x)",
    "ceil": "ceil(x)",
    "trunc": "trunc(x)",
    "frac": "x - trunc(x)",
    "log1p": "log1p(x)",
    "log": "log(x)",
    "log2": "log(x) * 1.4426950408889634",
    "log10": "log(x) * 0.4342944819032518",
    "sqrt": "sqrt(x)",
    "rsqrt": "rsqrt(x)",
    "erf": "erf(x)",
    "abs": "abs(x)",
    "neg": "-x",
    "reciprocal": "1 / x",
    "square": "x * x",
    "silu": "x * sigmoid(x)",
    "mish": f"x * ({_MISH_E} * ({_MISH_E} + 2)) / ({_MISH_E} * ({_MISH_E} + 2) + 2)",
    "hardswish": "x * min(max(x + 3, 0), 6) / 6",
    "hardsigmoid": "min(max(x + 3, 0), 6) / 6",
    "softsign": "x / (1 + abs(x))",
    "relu6": "min(max(x, 0), 6)",
    "selu": "1.0507009873554805 * select(x > 0, x, 1.6732632423543772 * ("
    + expm1("min(x, 0)")
    + "))",
    "log_sigmoid": f"min(x, 0) - {log1p('exp(-abs(x))')}",
    "sign": "select(x > 0, 1, select(x < 0, -1, 0))",
    "signbit": _below("x"),
    "isnan": "x != x",
    "isinf": "abs(x) == (1 / 0.0)",
    "sgn": "select(x > 0, 1, select(x < 0, -1, 0))",
    "relu_": "max(x, 0)",
    "sinh": f"0.5 * ({expm1('x')} - {expm1('-x')})",
    "cosh": "0.5 * (exp(x) + exp(-x))",
    "asin": "atan(x / sqrt((1 - x) * (1 + x)))",
    "acos": "2 * atan(sqrt((1 - x) / (1 + x)))",
    # beyond 1e9 the square may overflow, and what the logarithm leaves out is below float64's last place
    "asinh": "select(x < 0, -1, 1) * select(abs(x) > 1e9, log(abs(x)) + 0.6931471805599453, "
    "log1p(abs(x) + x * x / (1 + sqrt(x * x + 1))))",
    "acosh": "select(x > 1e9, log(x) + 0.6931471805599453, log1p((x - 1) + sqrt(x - 1) * sqrt(x + 1)))",
    "atanh": "select(x < 0, -0.5, 0.5) * log1p(2 * abs(x) / (1 - abs(x)))",
}
"""ATen operator of one tensor -> its map expression over x."""

_LARGE, _SMALL = "max(abs(x), abs(y))", "min(abs(x), abs(y))"
_INF = "(1 / 0.0)"


def _angle() -> str:
    """Return text of atan2(x, y): the angle in the first octant, turned into its own."""
    ratio = f"select({_LARGE} == 0, 0, select({_SMALL} == {_INF}, 1, {_SMALL} / {_LARGE}))"
    octant = f"atan({ratio})"
    quarter = f"select(abs(x) > abs(y), 1.5707963267948966 - {octant}, {octant})"
    half = f"select({_below('y')}, 3.141592653589793 - {quarter}, {quarter})"
    return f"select({_below('x')}, -({half}), {half})"


BINARY: dict[str, str] = {
    "mul": "x * y",
    "maximum": "max(x, y)",
    "minimum": "min(x, y)",
    "fmax": "select(x != x, y, select(y != y, x, max(x, y)))",
    "fmin": "select(x != x, y, select(y != y, x, min(x, y)))",
    "copysign": f"select({_below('y')}, -abs(x), abs(x))",
    # scaled by the larger one, so that no square overflows or vanishes
    "hypot": f"select(abs(x) == {_INF}, {_INF}, select(abs(y) == {_INF}, {_INF}, select({_LARGE} == 0, 0, "
    f"{_LARGE} * sqrt(1 + ({_SMALL} / {_LARGE}) * ({_SMALL} / {_LARGE})))))",
    "atan2": _angle(),
    "xlogy": "select(y != y, y, select(x == 0, 0, x * log(y)))",
    "special_xlog1py": "select(y != y, y, select(x == 0, 0, x * log1p(y)))",
    "ldexp": "x * exp2(y)",
}
"""ATen operator of two operands -> its map expression over x and y."""
PLAIN: dict[str, tuple[str, dict[str, str]]] = {
    "where": ("select(c, x, y)", {"c": "condition", "x": "self", "y": "other"}),
    "masked_fill": ("select(c, y, x)", {"c": "mask", "x": "self", "y": "value"}),
    "leaky_relu": ("select(x > 0, x, k * x)", {"x": "self", "k": "negative_slope"}),
    "hardshrink": ("select(abs(x) <= k, 0, x)", {"x": "self", "k": "lambd"}),
    "softshrink": (
        "select(x > k, x - k, select(x < -k, x + k, x * 0))",
        {"x": "self", "k": "lambd"},
    ),
    "threshold": ("select(x <= k, v, x)", {"x": "self", "k": "threshold", "v": "value"}),
}
"""ATen operator -> its map expression, and which argument each name in it is."""
_LOGIC = {
    "and": ("select(x, select(y, 1, 0), 0) > 0", "k"),
    "xor": ("select(x, 1, 0) != select(y, 1, 0)", "x + m - 2 * k"),
    "or": ("select(x, 1, select(y, 1, 0)) > 0", "x + m - k"),
}
"""logic -> its map expression on bools, and on integers in words of `bits.bits`"""


def _unary(b: Builder, node: Node, a: Args) -> Value:
    expr = UNARY[node.op.split(".")[1]]
    return b.map(expr, {"x": a.view("self")})


for _name in UNARY:
    row(_name)(_unary)


def other(a: Args) -> Value:
    """Return the second operand of a binary operator, tensor or number."""
    return a.first("other", "tensor2", "exponent")


@row(*BINARY)
def _binary(b: Builder, node: Node, a: Args) -> Value:
    expr = BINARY[node.op.split(".")[1]]
    return b.map(expr, {"x": a["self"], "y": other(a)})


@row("div", "true_divide")
def _div(b: Builder, node: Node, a: Args) -> Value:
    if a["rounding_mode"] is not None:
        return _rounded(b, node, a["self"], other(a), a["rounding_mode"])
    return b.map("x / y", {"x": a["self"], "y": other(a)})


@row("floor_divide")
def _floor_divide(b: Builder, node: Node, a: Args) -> Value:
    return _rounded(b, node, a["self"], other(a), "floor")


def _rounded(b: Builder, node: Node, x: Value, y: Value, how: str) -> Value:
    if node.meta.dtype in FLOATS:
        if how != "floor":
            return b.map(f"{how}(x / y)", {"x": x, "y": y})
        # by the remainder, as torch: a quotient just below an integer rounds up to it
        r = b.map("fmod(x, y)", {"x": x, "y": y}, name="rest")
        below = "select(r != 0 and (r < 0) != (y < 0), 1.0, 0.0)"
        exact = f"round((x - r) / y) - {below}"
        return b.map(f"select(y == 0, x / y, {exact})", {"x": x, "y": y, "r": r})
    if isinstance(y, View):
        return integers.quotient(b, x, y, node.meta.dtype, how)
    if not isinstance(y, int) or y == 0:
        raise NoForm("a rounded division of integers by anything but integers")
    x = x if y > 0 else b.map("-x", {"x": x}, name="turned")
    k = abs(y)
    expr = f"x // {k}" if how == "floor" else f"select(x < 0, -((-x) // {k}), x // {k})"
    return b.map(expr, {"x": x})


@row("remainder", "fmod")
def _remainder(b: Builder, node: Node, a: Args) -> Value:
    x, y = a["self"], other(a)
    if node.meta.dtype in FLOATS:
        if "fmod" in node.op:
            return b.map("fmod(x, y)", {"x": x, "y": y})
        r = b.map("fmod(x, y)", {"x": x, "y": y}, name="rest")
        return b.map("select(r != 0 and (r < 0) != (y < 0), r + y, r)", {"r": r, "y": y})
    if isinstance(y, View):
        how = "floor" if "remainder" in node.op else "trunc"
        return integers.remainder(b, x, y, node.meta.dtype, how)
    if not isinstance(y, int) or isinstance(y, bool) or y == 0:
        raise NoForm("a remainder of integers by anything but integers")
    up = f"x % {abs(y)}"  # from 0 on; below 0 it is one divisor less
    down = f"select({up} == 0, 0, {up} - {abs(y)})"
    if "remainder" in node.op:
        return b.map(up if y > 0 else down, {"x": x})
    return b.map(f"select(x < 0, {down}, {up})", {"x": x})


@row("lerp")
def _lerp(b: Builder, node: Node, a: Args) -> Value:
    """From the nearer end, as torch: only so an infinity at the other one stays what it is."""
    operands, w = {"x": a["self"], "y": a["end"], "w": a["weight"]}, a["weight"]
    near, far = "x + w * (y - x)", "y - (y - x) * (1 - w)"
    if isinstance(w, int | float):
        return b.map(near if abs(w) < 0.5 else far, operands)
    return b.map(f"select(abs(w) < 0.5, {near}, {far})", operands)


@row("angle")
def _angle_of_reals(b: Builder, node: Node, a: Args) -> Value:
    return b.map("select(x < 0, 3.141592653589793, select(x != x, x, 0.0))", {"x": a["self"]})


@row("round")
def _round(b: Builder, node: Node, a: Args) -> Value:
    if not a["decimals"]:
        return b.map("round(x)", {"x": a["self"]})
    by = number(float(10 ** abs(a["decimals"])))
    return b.map(
        f"round(x * {by}) / {by}" if a["decimals"] > 0 else f"round(x / {by}) * {by}",
        {"x": a["self"]},
    )


@row("add", "sub", "rsub")
def _add(b: Builder, node: Node, a: Args) -> Value:
    name = node.op.split(".")[1]
    alpha = a["alpha"]
    x, y = a["self"], other(a)
    if name == "rsub":
        x, y = y, x
    sign = "+" if name == "add" else "-"
    term = "y" if alpha in (None, 1) else f"{number(alpha)} * y"
    if name == "rsub" and alpha not in (None, 1):
        raise NoForm("rsub with alpha")
    return b.map(f"x {sign} {term}", {"x": x, "y": y})


@row("pow")
def _pow(b: Builder, node: Node, a: Args) -> Value:
    x, e = a["self"], other(a)
    if isinstance(e, int | float):
        known = {
            1: "x",
            2: "x * x",
            3: "x * x * x",
            4: "(x * x) * (x * x)",
            0.5: "sqrt(x)",
            -1: "1 / x",
            -0.5: "rsqrt(x)",
            -2: "1 / (x * x)",
        }
        if e in known:
            return b.map(known[e], {"x": x})
    return b.map("x ** y", {"x": x, "y": e})


@row("logical_not", "bitwise_not")
def _not(b: Builder, node: Node, a: Args) -> Value:
    if node.meta.dtype != "bool":
        return b.map("-x - 1", {"x": a["self"]})
    return b.map("select(x, 0, 1) > 0", {"x": a["self"]})


@row(*PLAIN)
def _plain(b: Builder, node: Node, a: Args) -> Value:
    expr, operands = PLAIN[node.op.split(".")[1]]
    return b.map(expr, {name: a[argument] for name, argument in operands.items()})


@row(*(form.format(name) for name in _LOGIC for form in ("logical_{}", "bitwise_{}", "__{}__")))
def _logic(b: Builder, node: Node, a: Args) -> Value:
    truth, rest = _LOGIC[node.op.split(".")[1].strip("_").rpartition("_")[2]]
    if node.meta.dtype != "bool":
        return bits(b, node, a, rest)
    return b.map(truth, {"x": a["self"], "y": other(a)})


@row("nan_to_num")
def _nan_to_num(b: Builder, node: Node, a: Args) -> Value:
    nan, high, low = (a[k] for k in ("nan", "posinf", "neginf"))
    most = DTYPES[node.meta.dtype].largest if node.meta.dtype in FLOATS else 0.0
    high, low = most if high is None else high, -most if low is None else low
    inf = "(1 / 0.0)"
    return b.map(
        f"select(x != x, {number(nan or 0.0)}, select(x == {inf}, {number(high)}, "
        f"select(x == -{inf}, {number(low)}, x)))",
        {"x": a["self"]},
    )


@row("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(b: Builder, node: Node, a: Args) -> Value:
    low, high = a.first("min", "min_val"), a.first("max", "max_val")
    expr, operands = "x", {"x": a["self"]}
    if low is not None:
        expr, operands = f"max({expr}, low)", operands | {"low": low}
    if high is not None:
        expr, operands = f"min({expr}, high)", operands | {"high": high}
    return b.map(expr, operands)


@row("gelu")
def _gelu(b: Builder, node: Node, a: Args) -> Value:
    return b.map(_GELU_TANH if a["approximate"] == "tanh" else _GELU, {"x": a["self"]})


@row("rrelu")
def _rrelu(b: Builder, node: Node, a: Args) -> Value:
    if a["training"]:
        raise NoForm("rrelu in training mode draws random numbers: no defined result to judge")
    slope = number((a["lower"] + a["upper"]) / 2)
    return b.map(f"select(x > 0, x, {slope} * x)", {"x": a["self"]})


@row("prelu")
def _prelu(b: Builder, node: Node, a: Args) -> Value:
    x, w = a.view("self"), a.view("weight")
    if w.elements > 1 and x.rank > 2:
        w = b.reshape(w, (w.elements, *(1,) * (x.rank - 2)))
    return b.map("select(x > 0, x, w * x)", {"x": x, "w": w}, x.shape)


@row("elu", "celu")
def _elu(b: Builder, node: Node, a: Args) -> Value:
    alpha = a["alpha"] if a["alpha"] is not None else 1.0
    if node.op.split(".")[1] == "celu":
        inner = expm1(f"(min(x, 0) / {number(alpha)})")
        return b.map(f"select(x > 0, x, {number(alpha)} * ({inner}))", {"x": a["self"]})
    if a["scale"] not in (None, 1) or a["input_scale"] not in (None, 1):
        raise NoForm("elu with scale or input_scale")
    inner = expm1("min(x, 0)")
    return b.map(f"select(x > 0, x, {number(alpha)} * ({inner}))", {"x": a["self"]})


@row("softplus")
def _softplus(b: Builder, node: Node, a: Args) -> Value:
    beta, threshold = a["beta"], a["threshold"]
    x = "x" if beta == 1 else f"(x * {number(beta)})"
    inner = f"max({x}, 0) + {log1p(f'exp(-abs({x}))')}"
    tail = "" if beta == 1 else f" / {number(beta)}"
    return b.map(f"select({x} > {number(threshold)}, x, ({inner}){tail})", {"x": a["self"]})


@row("addcmul", "addcdiv")
def _addc(b: Builder, node: Node, a: Args) -> Value:
    sign = "*" if node.op.split(".")[1] == "addcmul" else "/"
    value = a["value"] if a["value"] is not None else 1
    # the factor first, as torch: a quotient may overflow where its multiple does not
    expr = f"x + {number(value)} * y {sign} z"
    return b.map(expr, {"x": a["self"], "y": a["tensor1"], "z": a["tensor2"]})


@row("glu")
def _glu(b: Builder, node: Node, a: Args) -> Value:
    x: View = a.view("self")
    axis = a["dim"] % x.rank
    half = x.shape[axis] // 2
    shape = tuple(half if d == axis else n for d, n in enumerate(x.shape))
    at = tuple(half if d == axis else 0 for d in range(x.rank))
    left, right = x.slice((0,) * x.rank, shape), x.slice(at, shape)
    return b.map("x * sigmoid(y)", {"x": left, "y": right})


@row("_to_copy", "to", "type_as", "float", "half", "double")
def _cast(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    source, wanted = b.dtypes[x.source], node.meta.dtype
    if source == wanted:
        return x
    if wanted == "bool":
        return b.map("x != 0", {"x": x})
    if source == "bool":
        return b.map("select(x, 1, 0)", {"x": x})
    if wanted.startswith(("int", "uint")) and source in FLOATS:
        if source == "float64" and not has_wide(b) and _from_inputs(b, x.source):
            raise NoForm("a whole number of a float64 value in a module without a float64 tensor")
        return b.map("trunc(x)", {"x": x})
    return b.map("x", {"x": x})


def has_wide(b: Builder) -> bool:
    """Return whether a float64 tensor is given: kernels without one compute in float32, where other whole numbers come out."""
    made = {op.name for op in b.ops}
    return any(dtype == "float64" and name not in made for name, dtype in b.dtypes.items())


def _from_inputs(b: Builder, name: str) -> bool:
    """Return whether a tensor depends on one that is given; places that a module counts out (a triangle's) do not, and are small."""
    made, waiting, seen = {op.name: op for op in b.ops}, [name], set[str]()
    while waiting:
        at = waiting.pop()
        if at not in made:
            return True
        seen.add(at)
        waiting += [view.source for view in made[at].ins.values() if view.source not in seen]
    return False


def dtype_of(value: Any) -> str | None:
    """Return the name of a dtype argument."""
    return value.name if isinstance(value, Dtype) else None
