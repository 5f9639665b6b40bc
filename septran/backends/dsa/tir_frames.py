"""Cut n-dimensional tile operations into loops around 2-D ones (rows, columns, row pitch).

Broadcasting follows numpy: operands are right-aligned and size-1 dimensions repeat. Leading
dimensions fold into the rows when every operand is evenly strided there, so that a [1, 8, 8, C] tile is one
2-D call and not eight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from septran.errors import InternalError
from septran.ir.expr import Const, Expr, Var, const, make
from septran.ir.nodes import Buffer, Region

Strides = Callable[[Buffer], tuple[int, ...]]
Fresh = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Operand2D:
    """One operand inside the loops: element index `at`, row pitch, and whether it is broadcast."""

    region: Region
    at: tuple[Expr, ...]
    pitch: int
    full_rows: bool
    full_cols: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """loops: (variable or the constant 0, extent) per leading dimension, outermost first."""

    loops: tuple[tuple[Expr, Expr], ...]
    rows: Expr
    cols: Expr
    operands: tuple[Operand2D, ...]


@dataclass(slots=True)
class _Dim:
    """One dimension of an operand aligned to the frame: the buffer's axis (or -1), stride, tile."""

    axis: int
    stride: int
    tile: int


def frames(
    extent: tuple[Expr, ...],
    regions: tuple[Region, ...],
    strides: Strides,
    fresh: Fresh,
    *,
    collapse: bool = True,
) -> Frame:
    """Return the 2-D frame of an operation over `extent` on `regions` (broadcast to it)."""
    rank = max(2, len(extent))
    full = (Const(1),) * (rank - len(extent)) + tuple(extent)
    dims = [_aligned(r, rank, strides) for r in regions]
    tiles = [max(d[i].tile for d in dims) for i in range(rank)]
    row = rank - 2
    rows: Expr = full[row]
    first_row = row  # dims first_row..row are folded into the rows
    if collapse:
        while first_row > 0 and _folds(dims, tiles, full, first_row, row):
            first_row -= 1
            rows = full[first_row] * rows
    # when one column is left everywhere and it is strided, turn columns into rows
    cols = full[rank - 1]
    loops: list[tuple[Expr, Expr]] = []
    for i in range(first_row):
        if tiles[i] == 1:
            loops.append((Const(0), Const(1)))
        else:
            loops.append((Var(fresh()), full[i]))
    strided = any(d[rank - 1].stride != 1 and d[rank - 1].tile > 1 for d in dims)
    turned = strided and rows == Const(1)
    if strided and not turned:
        if all(tiles[i] == 1 for i in range(first_row, row + 1)):
            turned = True
        else:
            if first_row != row:  # columns become rows only where rows are one dimension
                return frames(extent, regions, strides, fresh, collapse=False)
            loops.append((Var(fresh()), full[row]))
            turned = True
    operands = []
    for region, mine in zip(regions, dims, strict=True):
        at = list(region.offset)
        for i, (var, _) in enumerate(loops):
            d = mine[i]
            if d.axis >= 0 and d.tile > 1 and isinstance(var, Var):
                at[d.axis] = at[d.axis] + var * region.step[d.axis]
        if turned:
            c = mine[rank - 1]
            operands.append(Operand2D(region, tuple(at), max(1, c.stride), c.tile > 1, False))
            continue
        r = next((mine[i] for i in range(row, first_row - 1, -1) if mine[i].tile > 1), mine[row])
        lone = tiles[rank - 1] == 1
        operands.append(
            Operand2D(
                region,
                tuple(at),
                r.stride if r.tile > 1 else _row_pitch(region, strides),
                r.tile > 1 or all(tiles[i] == 1 for i in range(first_row, row + 1)),
                mine[rank - 1].tile > 1 or lone,
            )
        )
    if turned:
        return Frame(tuple(loops), cols, Const(1), tuple(operands))
    return Frame(tuple(loops), rows, cols, tuple(operands))


def _row_pitch(region: Region, strides: Strides) -> int:
    s = strides(region.buffer)
    return s[-2] if len(s) > 1 else max(1, region.buffer.shape[-1] if s else 1)


def _aligned(region: Region, rank: int, strides: Strides) -> list[_Dim]:
    lead = rank - region.rank
    if lead < 0:
        raise InternalError(f"operand {region.buffer.name} has more dimensions than the result")
    s = strides(region.buffer)
    out = [_Dim(-1, 0, 1) for _ in range(lead)]
    out += [_Dim(d, s[d] * region.step[d], region.tile[d]) for d in range(region.rank)]
    return out


def _folds(
    dims: list[list[_Dim]], tiles: list[int], full: tuple[Expr, ...], first: int, row: int
) -> bool:
    """Whether dimension first-1 continues dimension first for every operand."""
    inner, outer = full[first], full[first - 1]
    if tiles[first - 1] == 1:
        return outer == Const(1)
    if all(tiles[i] == 1 for i in range(first, row + 1)):
        return False  # the loop is the only real row dimension; keep strides simple
    if not isinstance(inner, Const) or inner.value != tiles[first]:
        return False
    for mine in dims:
        a, b = mine[first - 1], mine[first]
        if a.tile == 1 and all(mine[i].tile == 1 for i in range(first, row + 1)):
            continue
        if a.tile == 1 or b.tile == 1:
            return False
        if a.stride != b.stride * inner.value:
            return False
    return True


def gemm_frames(
    c: Region,
    a: Region,
    b: Region,
    trans_a: bool,
    trans_b: bool,
    strides: Strides,
    fresh: Fresh,
) -> tuple[Frame, Expr, Expr, Expr]:
    """Return the frame of C[.., n] (+)= A[.., k] B[k, n] with m, n, k of one 2-D call."""
    sb = strides(b.buffer)
    if b.rank == 1:
        nb, kb, ldb = (Const(1), b.extent[0], 1) if not trans_b else (b.extent[0], Const(1), 1)
    else:
        rows_b, cols_b = b.extent[-2], b.extent[-1]
        kb, nb = (cols_b, rows_b) if trans_b else (rows_b, cols_b)
        ldb = sb[-2] * b.step[-2]
    rest = Operand2D(b, b.offset, ldb, True, True)
    lead_c = [d for d in range(c.rank - 1) if c.tile[d] > 1]
    if trans_a:
        lead_a = [a.rank - 1]
        k = a.extent[-2]
    else:
        lead_a = [d for d in range(a.rank - 1) if a.tile[d] > 1]
        k = a.extent[-1]
    del kb
    sc, sa = strides(c.buffer), strides(a.buffer)
    cs = [(sc[d] * c.step[d], c.extent[d], d) for d in lead_c]
    as_ = [(sa[d] * a.step[d], a.extent[d], d) for d in lead_a]
    if trans_a:
        ldc = cs[-1][0] if cs else _row_pitch(c, strides)
        m = a.extent[-1]
        first = Operand2D(a, a.offset, sa[-2] * a.step[-2], True, True)
        frame = Frame((), m, nb, (Operand2D(c, c.offset, ldc, True, True), first, rest))
        return frame, m, nb, k
    if len(cs) == len(as_):
        both_c, both_a = _fold_rows(cs), _fold_rows(as_)
        if len(both_c) == len(both_a) == 1:
            cs, as_ = both_c, both_a
    else:
        cs, as_ = _fold_rows(cs), _fold_rows(as_)
    at_c, at_a = list(c.offset), list(a.offset)
    loops: list[tuple[Expr, Expr]] = []
    while max(len(cs), len(as_)) > 1:
        if len(cs) == len(as_):
            (_, ext, dc), (_, _, da) = cs.pop(0), as_.pop(0)
            var = Var(fresh())
            loops.append((var, ext))
            at_c[dc] = at_c[dc] + var * c.step[dc]
            at_a[da] = at_a[da] + var * a.step[da]
        elif len(as_) > len(cs) == 1:
            _, ext, da = as_.pop(0)
            inner = as_[0][1]
            for _, more, _ in as_[1:]:
                inner = inner * more
            var = Var(fresh())
            loops.append((var, ext))
            at_a[da] = at_a[da] + var * a.step[da]
            dc = cs[0][2]
            at_c[dc] = at_c[dc] + make("*", var, inner) * c.step[dc]
            if len(as_) == 1:
                cs = [(cs[0][0], as_[0][1], dc)]
        else:
            raise InternalError(
                f"gemm: rows of {c.buffer.name} and {a.buffer.name} are cut differently"
            )
    m = as_[0][1] if as_ else cs[0][1] if cs else const(1)
    ldc = cs[0][0] if cs else _row_pitch(c, strides)
    lda = as_[0][0] if as_ else _row_pitch(a, strides)
    frame = Frame(
        tuple(loops),
        m,
        nb,
        (
            Operand2D(c, tuple(at_c), ldc, True, True),
            Operand2D(a, tuple(at_a), lda, True, True),
            rest,
        ),
    )
    return frame, m, nb, k


def _fold_rows(dims: list[tuple[int, Expr, int]]) -> list[tuple[int, Expr, int]]:
    """Fold neighbouring evenly strided row dimensions into one (outermost first)."""
    out: list[tuple[int, Expr, int]] = []
    for stride, extent, axis in reversed(dims):
        if out:
            s, e, inner = out[0]
            if isinstance(e, Const) and stride == s * e.value:
                out[0] = (s, extent * e, inner)
                continue
        out.insert(0, (stride, extent, axis))
    return out


def transpose_frame(
    out: Region, src: Region, perm: tuple[int, ...], strides: Strides, fresh: Fresh
) -> tuple[Frame, bool]:
    """Return the frame of Y.shape[d] = X.shape[perm[d]] and whether the 2-D call transposes."""
    rank = out.rank
    so, ss = strides(out.buffer), strides(src.buffer)
    where = perm.index(rank - 1)  # the result's dimension along which the source is contiguous
    keeps = where == rank - 1
    row = rank - 2 if keeps else where
    at_o, at_s = list(out.offset), list(src.offset)
    loops: list[tuple[Expr, Expr]] = []
    for d in range(rank):
        if d in (row, rank - 1) or out.tile[d] == 1:
            continue
        var = Var(fresh())
        loops.append((var, out.extent[d]))
        at_o[d] = at_o[d] + var * out.step[d]
        at_s[perm[d]] = at_s[perm[d]] + var * src.step[perm[d]]
    if rank == 1:
        row_extent: Expr = Const(1)
        ldo = lds = out.tile[0]
    else:
        row_extent = out.extent[row]
        ldo = so[row] * out.step[row]
        lds = ss[perm[row]] if keeps else ss[perm[rank - 1]]
        lds *= src.step[perm[row] if keeps else perm[rank - 1]]
    frame = Frame(
        tuple(loops),
        row_extent,
        out.extent[rank - 1],
        (
            Operand2D(out, tuple(at_o), ldo, True, True),
            Operand2D(src, tuple(at_s), lds, True, True),
        ),
    )
    return frame, not keeps
