"""A TileLang leaf's body under construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from septran.backends.text.pystyle import Lines, safe_name
from septran.backends.tilelang.shapes import groups, is_aligned, logical_index
from septran.ir import dtypes
from septran.ir.dtypes import HALVES, is_float
from septran.kernel import LeafParam, LeafSpec

INDICES = ("i", "j")
_OWN = frozenset(("T", "tilelang", *INDICES, "k", "r"))
"""Names that a leaf's text uses itself."""


def leaf_name(name: str) -> str:
    """Return the identifier of a leaf's parameter or scalar."""
    return safe_name(name, _OWN)


def cast(text: str, dtype: str) -> str:
    """Return `text` converted to `dtype`."""
    return f'T.Cast("{dtype}", {text})'


def compute_dtype(spec: LeafSpec, names: Sequence[str]) -> str:
    """Return float64 when any of the tensors is float64, else float32."""
    return dtypes.compute_dtype({p.dtype for p in spec.params if p.name in names})


@dataclass(slots=True)
class LeafText:
    """A leaf body under construction."""

    spec: LeafSpec
    lines: Lines = field(default_factory=Lines)
    temps: int = 0
    again: tuple[tuple[str, str], ...] = ()
    """Rows that get a NaN again at the end, each with the rows that have it."""

    def param(self, name: str) -> LeafParam:
        """Return a parameter by name."""
        return self.spec.param(name)

    def temp(self, like: str, dtype: str, where: str = "fragment") -> str:
        """Allocate a scratch buffer of the shape of `like`; returns its name."""
        self.temps += 1
        name = f"t{self.temps}"
        self.lines.add(f'{name} = T.alloc_{where}({like}.shape, "{dtype}")')
        return name

    def valid(self, p: LeafParam, skip: frozenset[int] = frozenset()) -> str:
        """Return the condition that TileLang index (i, j) is data of `p`, "" when it always is."""
        names = INDICES[: len(groups(p.shape))]
        logical = logical_index(p.shape, names)
        terms = []
        for name, group in zip(names, groups(p.shape), strict=True):
            wide = [d for d in group.dims if p.shape[d] > 1]
            ragged = [d for d in wide if p.ragged[d] and d not in skip]
            alone = len(wide) == 1 and bool(ragged)
            if not alone and not is_aligned(group.extent):
                terms.append(f"{name} < {group.extent}")
            terms += [f"{logical[d]} < {p.name}_{d}" for d in ragged]
        return " & ".join(f"({t})" for t in terms) if len(terms) > 1 else "".join(terms)

    def loop(self, p: LeafParam) -> str:
        """Return the head of the parallel loop over all of `p`, padding included."""
        return loop_head(leaf_name(p.name), len(groups(p.shape)))

    def store(self, p: LeafParam, text: str) -> None:
        """Emit `p[i, j] = text` with padding kept zero."""
        names = INDICES[: len(groups(p.shape))]
        test = self.valid(p)
        if p.dtype == "bool":
            text = f"{text}" if not test else f"({text}) & ({test})"
        elif test:
            wide = is_float(p.dtype) and p.dtype not in HALVES
            zero = "0.0" if wide else f"T.{p.dtype}(0)"
            text = f"T.if_then_else({test}, {text}, {zero})"
        self.lines.add(f"{leaf_name(p.name)}[{', '.join(names)}] = {text}")


def loop_head(buffer: str, rank: int) -> str:
    """Return `for i, j in T.Parallel(...)` over the whole of a scratch buffer."""
    names = ", ".join(INDICES[:rank])
    extents = ", ".join(f"{buffer}.shape[{d}]" for d in range(rank))
    return f"for {names} in T.Parallel({extents}):"
