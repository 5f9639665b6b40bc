"""What the names of a host function's numbers say of the reference's sizes, where nobody gives them.

`matmul(a, b, c, M, N, K)`, `softmax(x, y, rows, cols)` and `attention(q, k, v, o, B, H, S, D)` are called by their authors with the extents of their
tensors. Where authors disagree what a name means there are several candidates: of square matrices `n` is a count of elements or their side, and of `m, n, k`
the one that the operands share is the last for some and the middle one for others. A file that is right with one of them is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Shapes = Sequence[tuple[int, ...]]
Guess = tuple[tuple[str, int], ...]
"""Values of numbers, by name."""

_COUNTS = frozenset(
    """
    n size numel nelements numelements numelem nelem elements count total totalelements totalsize len length num
    arraysize vectorsize datasize
    """.split()
)
"""Names, in small letters and without `_`, of a parameter that says how many elements the tensors have, where all have as many."""
_ROWS = frozenset("rows row m height h batch batchsize b bs tokens".split())
_COLS = frozenset(
    "cols col columns width w dim d hidden hiddensize hiddendim features c classes vocab vocabsize v".split()
)
_BINS = ("bins", "nbins", "numbins")
_BATCH = frozenset("b bs batch batchsize batches".split())
_THREADS = frozenset("blocksize blockdim threadsperblock tpb".split())
_USUAL = 256
"""Threads of a block, where the author leaves their number to the caller; what is right with it need not be with another, so it is told."""
_IMAGE = (_BATCH | {"n"}, frozenset("c channels inchannels cin".split()), frozenset(("h", "height")), frozenset(("w", "width")))  # fmt: skip
_HEADS = (
    _BATCH,
    frozenset("h nh heads nhead".split()),
    frozenset("s t l n seq seqlen sequencelength len".split()),
    frozenset("d hd headdim dim dk headsize".split()),
)

_TOKENS = (
    _BATCH,
    _HEADS[2],
    _HEADS[3] | frozenset("c channels embd nembd hidden hiddensize dmodel".split()),
)


def guesses(
    names: Sequence[str],
    inputs: Mapping[str, tuple[int, ...]],
    outputs: Mapping[str, tuple[int, ...]],
) -> tuple[Guess, ...]:
    """Return what the numbers may be, the likeliest first; () where their names do not say.

    names: in the function's order. inputs, outputs: extents of its tensors, by their names in the function.
    """
    tensors = {**inputs, **outputs}
    own = {n: size for n in names if (size := _of_tensor(n, tensors, outputs)) is not None}
    own.update((n, _USUAL) for n in names if _word(n) in _THREADS)
    rest = [n for n in names if n not in own]
    found = _together(rest, [*inputs.values()], [*outputs.values()]) if rest else [{}]
    return tuple(dict.fromkeys(tuple((n, {**own, **one}[n]) for n in names) for one in found))


def _of_tensor(
    name: str, tensors: Mapping[str, tuple[int, ...]], outputs: Mapping[str, tuple[int, ...]]
) -> int | None:
    """Return what a number says of the tensor that it is named after: `kernel_size` beside `kernel`; of a histogram also its `num_bins`."""
    if _word(name) in _BINS and len(outputs) == 1:
        (out,) = outputs.values()
        return out[0] if len(out) == 1 else None
    for tensor in sorted(tensors, key=len, reverse=True):
        shape, rest = tensors[tensor], name.removeprefix(tensor)
        what = rest.lstrip("_").lower()
        if rest == name or not (rest[:1] == "_" or rest[:1].isupper()):
            continue
        if what in _COUNTS:
            return math.prod(shape)
        if what in ("rows", "height", "h") and len(shape) > 1:
            return math.prod(shape[:-1])
        if what in ("cols", "columns", "width", "w"):
            return shape[-1]
    return None


def _together(names: Sequence[str], inputs: Shapes, outputs: Shapes) -> list[dict[str, int]]:
    """Return what numbers may be that are named after no tensor."""
    words = {name: _word(name) for name in names}
    if len(set(words.values())) < len(names) or not inputs:
        return []
    found = _count(names, words, inputs, outputs) or _products(names, words, inputs, outputs)
    found = found or _attention(words, inputs)
    for family in (_IMAGE, _IMAGE[1:], _HEADS, _TOKENS):
        found = found or _by_dims(words, inputs, family)
    return found or _matrix(names, words, inputs)


def _word(name: str) -> str:
    """Return a name as the lists have it: `numRows`, `n_rows` and `rows` are one."""
    plain = name.lower().replace("_", "")
    for head in ("num", "n"):
        rest = plain.removeprefix(head)
        if rest != plain and rest in _ROWS | _COLS | _HEADS[1] and len(rest) > 1:
            return rest
    return plain


def _count(
    names: Sequence[str], words: Mapping[str, str], inputs: Shapes, outputs: Shapes
) -> list[dict[str, int]]:
    if len(names) != 1 or words[names[0]] not in _COUNTS:
        return []
    shapes = [*inputs, *outputs]
    sizes = {math.prod(s) for s in shapes}
    if all(len(s) == 1 for s in inputs):
        sizes = {s[0] for s in inputs}  # of vectors a count says the length, whatever comes out
    if len(sizes) != 1:
        return []
    sides = {n for s in shapes for n in s}
    square = sides if len(sides) == 1 and min(map(len, shapes)) > 1 else ()
    return [{names[0]: n} for n in (*sizes, *square)]


def _products(
    names: Sequence[str], words: Mapping[str, str], inputs: Shapes, outputs: Shapes
) -> list[dict[str, int]]:
    """Of (.., M, K) and (.., K, N), either of them maybe transposed, to (.., M, N)."""
    kept = [n for n in names if words[n] not in _BATCH]
    if {words[n] for n in kept} != {"m", "n", "k"} or len(inputs) < 2 or len(outputs) != 1:
        return []
    (out,), (a, b) = outputs, inputs[:2]
    if min(map(len, (a, b, out))) < 2:
        return []
    rows, cols = out[-2:]
    inner = next((k for m, k in (a[-2:], a[:-3:-1]) if m == rows and {k, cols} == {*b[-2:]}), None)
    if inner is None:
        return []
    batch = {n: math.prod(out[:-2]) for n in names if words[n] in _BATCH}
    named = {"m": rows, "n": cols, "k": inner}
    standard = {n: named[words[n]] for n in kept}
    placed = dict(zip(kept, (rows, inner, cols), strict=True))
    return [{**batch, **one} for one in (standard, placed)]


def _attention(words: Mapping[str, str], inputs: Shapes) -> list[dict[str, int]]:
    """Of (M, d) queries and (N, d) keys."""
    q, k = inputs[0], inputs[1] if len(inputs) > 1 else ()
    if len(words) != 3 or len(q) != 2 or len(k) != 2 or q[1] != k[1]:
        return []
    named = {"m": q[0], "n": k[0], **dict.fromkeys(_HEADS[3], q[1])}
    found = {n: named[w] for n, w in words.items() if w in named}
    return [found] if len(found) == 3 else []


def _by_dims(
    words: Mapping[str, str], inputs: Shapes, family: Sequence[frozenset[str]]
) -> list[dict[str, int]]:
    """Of tensors that have as many dims as the family has sets of names, and of some of them."""
    shape = max(inputs, key=len)
    if len(shape) != len(family) or len(words) < 3:
        return []
    found = {n: at for n, word in words.items() for at, known in enumerate(family) if word in known}
    if len(found) < len(words) or len(set(found.values())) < len(words):
        return []
    return [{n: shape[at] for n, at in found.items()}]


def _matrix(names: Sequence[str], words: Mapping[str, str], inputs: Shapes) -> list[dict[str, int]]:
    """Of rows, which dims before the last one make together."""
    shape = next((s for s in inputs if len(s) > 1), None)
    if shape is None or len(names) != 2:
        return []
    rows, cols = math.prod(shape[:-1]), shape[-1]
    first, second = (words[n] for n in names)
    if {first, second} == {"m", "n"}:
        return [dict(zip(names, (rows, cols), strict=True))]
    for row, col in ((first, second), (second, first)):
        if (row in _ROWS or (row == "n" and col in _COLS)) and (
            col in _COLS or (col in ("n", "k") and row in _ROWS)
        ):
            by = {row: rows, col: cols}
            return [{n: by[words[n]] for n in names}]
    return []
