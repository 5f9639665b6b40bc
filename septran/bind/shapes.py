"""Check that the operands of a leaf's primitives fit together (E112)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from septran.bind.layout import Bound
from septran.errors import TaskLangError
from septran.ir.nodes import Prim
from septran.tasklang.extern import metas
from septran.tasklang.tree import Launch, arg_text


def check_shapes(launch: Launch, args: Mapping[str, Bound], prims: Iterable[Prim]) -> None:
    """Raise TaskLangError E112 when an index letter has two sizes, or a broadcast does not fit. prims: as the file has them."""
    texts = {p: arg_text(a) for p, a in zip(launch.task.params, launch.args, strict=True)}
    for prim in prims:
        problem = _problem(prim, {p: b.region.tile for p, b in args.items()}, texts)
        if problem:
            raise TaskLangError.of(
                "E112", f"{launch.task.name}: primitive {prim.name} {problem}", launch.span
            )


def _problem(
    prim: Prim, tiles: Mapping[str, tuple[int, ...]], texts: Mapping[str, str]
) -> str | None:
    for name in (prim.out, *prim.ins):
        if name not in tiles:
            return f"needs a tensor for {name}, got the scalar {texts.get(name, name)}"
    y = tiles[prim.out]
    match prim.name:
        case "gemm" | "gemm_acc":
            return _gemm(prim, tiles, texts)
        case "copy":
            return _equal(prim.out, y, prim.ins[0], tiles[prim.ins[0]], texts)
        case "transpose":
            perm = prim.attr("perm")
            x = tiles[prim.ins[0]]
            if not isinstance(perm, tuple) or sorted(perm) != list(range(len(x))):
                return f"needs perm= a permutation of 0..{len(x) - 1}, got {perm!r}"
            return _equal(prim.out, y, prim.ins[0], tuple(x[p] for p in perm), texts)
        case "reduce" | "reduce_acc":
            x = tiles[prim.ins[0]]
            if not isinstance(prim.attr("axis"), tuple) and (wrong := _no_axis(prim, len(x))):
                return wrong
            return _reduced(prim, y, x, texts)
        case "scan":
            return _axis(prim, len(y)) or _equal(
                prim.out, y, prim.ins[0], tiles[prim.ins[0]], texts
            )
        case "argreduce":
            x = tiles[prim.ins[0]]
            return _axis(prim, len(x)) or _reduced(prim, y, x, texts)
        case "gather" | "scatter_acc":
            return _moved(prim, tiles, texts)
        case "extern":
            return _extern(prim, tiles, texts)
        case "map":
            for key, name in prim.named:
                if name in tiles and not _broadcasts(tiles[name], y):
                    return (
                        f"operand {key} = {texts[name]} of shape {tiles[name]} does not broadcast "
                        f"to {prim.out} = {texts[prim.out]} of shape {y}"
                    )
    return None


def _reduced(
    prim: Prim, y: tuple[int, ...], x: tuple[int, ...], texts: Mapping[str, str]
) -> str | None:
    axes = prim.axes(len(x))
    kept = tuple(1 if d in axes else n for d, n in enumerate(x))
    what = "axis" if len(axes) == 1 else "axes"
    return _equal(prim.out, y, prim.ins[0], kept, texts, f"keeps the reduced {what} as 1: ")


_OPS = {
    "scan": ("sum", "max", "min", "prod"),
    "argreduce": ("max", "min"),
    "scatter_acc": ("sum", "max", "min", "prod", "last"),
}


def _axis(prim: Prim, rank: int) -> str | None:
    """Return what is wrong with op= or axis=."""
    op = prim.attr("op")
    if wrong := _no_axis(prim, rank):
        return wrong
    if prim.name in _OPS and op not in _OPS[prim.name]:
        return f"needs op= one of {', '.join(_OPS[prim.name])}, got {op!r}"
    return None


def _no_axis(prim: Prim, rank: int) -> str | None:
    axis = prim.attr("axis")
    if isinstance(axis, int) and -rank <= axis < rank:
        return None
    return f"needs axis= in {-rank}..{rank - 1}, got {axis!r}"


def _moved(
    prim: Prim, tiles: Mapping[str, tuple[int, ...]], texts: Mapping[str, str]
) -> str | None:
    """Return what is wrong with the shapes of a gather or scatter: they agree in all dims but the axis."""
    y, x, i = (tiles[n] for n in (prim.out, *prim.ins))
    found = _axis(prim, len(y))
    if found:
        return found
    if not len(y) == len(x) == len(i):
        return f"needs tensors of one rank, got {y}, {x} and {i}"
    axis = prim.axis(len(y))
    whole, many = (x, y) if prim.name == "gather" else (y, x)
    for d, n in enumerate(many):
        fits = whole[d] == n or (whole[d] == 1 and prim.name == "gather")
        if (d != axis and not fits) or i[d] not in (1, n):
            return (
                f"dim {d} does not fit: {prim.out} = {texts[prim.out]} has {y}, "
                f"{prim.ins[0]} = {texts[prim.ins[0]]} {x}, {prim.ins[1]} = {texts[prim.ins[1]]} {i}"
            )
    return None


def _extern(
    prim: Prim, tiles: Mapping[str, tuple[int, ...]], texts: Mapping[str, str]
) -> str | None:
    """Return which operand has not the shape that its graph says."""
    made, read = metas(dict(prim.attrs))
    for name, meta in zip((prim.out, *prim.ins), (made, *read), strict=True):
        if tiles[name] != meta.shape:
            return f"takes whole tensors: {name} = {texts[name]} has shape {tiles[name]}, its graph says {meta.shape}"
    return None


def _broadcasts(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    if len(x) > len(y):
        return False
    return all(a in (1, b) for a, b in zip(reversed(x), reversed(y), strict=False))


def _equal(
    y_name: str,
    y: tuple[int, ...],
    x_name: str,
    wanted: tuple[int, ...],
    texts: Mapping[str, str],
    why: str = "",
) -> str | None:
    if y == wanted:
        return None
    return (
        f"{why}{y_name} = {texts[y_name]} has shape {y}, but {x_name} = {texts[x_name]} "
        f"gives {wanted}"
    )


def _gemm(prim: Prim, tiles: Mapping[str, tuple[int, ...]], texts: Mapping[str, str]) -> str | None:
    c_name, (a_name, b_name) = prim.out, prim.ins
    c, a, b = tiles[c_name], tiles[a_name], tiles[b_name]
    form = "needs C[.., m, n] A[.., m, k] B[k, n]"
    if len(c) < 2 or len(a) < 2 or len(b) < 2 or any(n != 1 for n in b[:-2]):
        return f"{form}; got C{c} A{a} B{b}"
    if prim.attr("trans_a"):
        a = (*a[:-2], a[-1], a[-2])
    if prim.attr("trans_b"):
        b = (*b[:-2], b[-1], b[-2])

    def told(letter: str, first: str, one: int, second: str, two: int) -> str:
        return (
            f"{form}; {letter} is {one} ({first} = {texts[first]}) but {two} "
            f"({second} = {texts[second]})"
        )

    if a[-1] != b[-2]:
        return told("k", a_name, a[-1], b_name, b[-2])
    if c[-1] != b[-1]:
        return told("n", c_name, c[-1], b_name, b[-1])
    rows_c, rows_a = [n for n in c[:-1] if n != 1], [n for n in a[:-1] if n != 1]
    if rows_c != rows_a:
        return told("m", c_name, c[-2], a_name, a[-2])
    return None
