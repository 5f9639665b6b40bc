"""The NPUIR dialect's operations in terms of tilelang's own `ascend` dialect (Ascend 950).

`T` has all of tilelang.ascend.language, and on top of it the names that NPUIR source uses: an
operation on tiles becomes a loop of vector code over all elements, L1 and L0C keep their calls.
Only for lowering to Ascend C text off hardware; nothing here is fast.
"""

import types
from collections.abc import Callable
from typing import Any

import tilelang.ascend.language as A

macro: Callable[[Callable[..., None]], Any] = A.macro
THREADS = 128
INFINITY = 3.0e38
_START = {"sum": 0.0, "prod": 1.0, "max": -INFINITY, "min": INFINITY}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": A.max,
    "min": A.min,
}


def at(x: Any, index: tuple[Any, ...]) -> Any:
    """Return an operand's element: extents of 1 are broadcast, numbers are themselves."""
    if not hasattr(x, "shape"):
        return x
    return x[tuple(0 if int(n) == 1 else i for n, i in zip(x.shape, index, strict=True))]


def each(rank: int, fn: Callable[..., Any]) -> Any:
    """Return a macro that stores fn(index) at every index of its first argument."""
    if rank == 3:

        @macro
        def three(dst: Any) -> None:
            with A.SimtVF(threads=THREADS):
                for i, j, k in A.Parallel(dst.shape[0], dst.shape[1], dst.shape[2]):
                    dst[i, j, k] = fn((i, j, k))

        return three

    @macro
    def two(dst: Any) -> None:
        with A.SimtVF(threads=THREADS):
            for i, j in A.Parallel(dst.shape[0], dst.shape[1]):
                dst[i, j] = fn((i, j))

    return two


def store(dst: Any, fn: Callable[[tuple[Any, ...]], Any]) -> None:
    """Store fn(index), cast to the destination's type, everywhere in `dst`."""
    each(len(dst.shape), lambda index: A.cast(fn(index), dst.dtype))(dst)


def elementwise(fn: Callable[..., Any]) -> Callable[..., None]:
    """Return the operation `T.vop(sources..., dst)`."""

    def op(*operands: Any) -> None:
        *sources, dst = operands
        store(dst, lambda index: fn(*(at(x, index) for x in sources)))

    return op


def alloc_ub(shape: Any, dtype: str) -> Any:
    """T.alloc_ub; this target's vector code has no packed booleans."""
    return A.alloc_shared(shape, "int32" if dtype == "bool" else dtype)


def cast(src: Any, dst: Any, round_mode: str = "rint") -> None:
    """T.vcast."""
    del round_mode
    store(dst, lambda index: at(src, index))


def compare(a: Any, b: Any, dst: Any, mode: str) -> None:
    """T.vcmp."""
    store(dst, lambda index: _COMPARE[mode](at(a, index), at(b, index)))


def fill(dst: Any, value: Any = 0) -> None:
    """T.fill and T.clear; the cube's memories are cleared by the first product."""
    if hasattr(dst, "shape") and dst.scope().startswith("shared"):
        store(dst, lambda _: value)


def arange(dst: Any, strides: Any, offset: Any = 0) -> None:
    """T.arange."""
    store(dst, lambda index: sum(i * s for i, s in zip(index, strides, strict=True)) + offset)


def transpose(src: Any, dst: Any, permutation: Any) -> None:
    """T.transpose."""
    where = [list(permutation).index(d) for d in range(len(permutation))]
    store(dst, lambda index: src[tuple(index[w] for w in where)])


def reduce(src: Any, dst: Any, dims: Any, reduce_mode: str = "sum") -> None:
    """T.reduce: one loop along the axis per element of the result."""
    (axis,) = dims
    start, merge, rank = _START[reduce_mode], _MERGE[reduce_mode], len(dst.shape)

    def element(index: tuple[Any, ...], k: Any) -> Any:
        return src[tuple(k if d == axis else i for d, i in enumerate(index))]

    if rank == 3:

        @macro
        def three(dst: Any) -> None:
            with A.SimtVF(threads=THREADS):
                for i, j, m in A.Parallel(dst.shape[0], dst.shape[1], dst.shape[2]):
                    dst[i, j, m] = start
                    for k in A.serial(src.shape[axis]):
                        dst[i, j, m] = merge(dst[i, j, m], element((i, j, m), k))

        three(dst)
        return

    @macro
    def two(dst: Any) -> None:
        with A.SimtVF(threads=THREADS):
            for i, j in A.Parallel(dst.shape[0], dst.shape[1]):
                dst[i, j] = start
                for k in A.serial(src.shape[axis]):
                    dst[i, j] = merge(dst[i, j], element((i, j), k))

    two(dst)


def gemm(
    a: Any,
    b: Any,
    c: Any,
    size: Any = None,
    initC: Any = False,
    a_transpose: bool = False,
    b_transpose: bool = False,
) -> None:
    """T.gemm on whole tiles; `size` cuts the tails, which the 950's call cannot."""
    if size is not None:
        (m, n), k = (int(x) for x in c.shape), int(a.shape[0 if a_transpose else 1])
        if [m, k, n] != [int(x) if isinstance(x, int) else None for x in size]:
            raise ValueError("T.gemm cannot cut the tail of a tile at run time (size=)")
    A.gemm(a, b, c, transpose_A=a_transpose, transpose_B=b_transpose, clear_accum=initC)


def store_fixpipe(src: Any, dst: Any, enable_nz2nd: bool = False, **_: Any) -> None:
    """T.store_fixpipe."""
    del enable_nz2nd
    A.copy(src, dst)


def namespace() -> types.SimpleNamespace:
    """Return `T`."""
    names = {n: getattr(A, n) for n in dir(A) if not n.startswith("__")}
    unary = {
        "vexp": A.exp,
        "vln": A.log,
        "vsqrt": A.sqrt,
        "vabs": A.abs,
        "vtanh": A.tanh,
        "verf": A.erf,
        "vrelu": lambda x: A.max(x, 0),
    }
    binary = {
        "vadd": lambda a, b: a + b,
        "vsub": lambda a, b: a - b,
        "vmul": lambda a, b: a * b,
        "vdiv": lambda a, b: a / b,
        "vmax": A.max,
        "vmin": A.min,
    }
    names |= {name: elementwise(fn) for name, fn in (unary | binary).items()}
    names["vselect"] = elementwise(lambda c, a, b: A.if_then_else(c != 0, a, b))
    names["vbrc"] = cast
    names |= {"vcast": cast, "vcmp": compare, "arange": arange, "transpose": transpose}
    names |= {"reduce": reduce, "fill": fill, "clear": fill, "gemm": gemm}
    names |= {"store_fixpipe": store_fixpipe, "load_nd2nz": A.copy}
    names |= {"alloc_ub": alloc_ub, "alloc_L1": A.alloc_l1, "alloc_L0C": A.alloc_l0c}
    names["infinity"] = lambda _: INFINITY
    return types.SimpleNamespace(**names)


T = namespace()
