"""The parameter list and the statements of a leaf in languages whose leaves are functions of tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from septran.backends.text.names import Names
from septran.ir.nodes import Prim
from septran.kernel import Leaf, LeafParam, LeafSpec


@dataclass(frozen=True, slots=True)
class LeafShape:
    """The parameter list of a leaf: what `signature` prints and the emitter passes.

    tiles: parameters passed in; extents: (param, axis) of ragged axes; outs: parameters returned.
    names: parameter or scalar -> Python identifier.
    """

    tiles: tuple[LeafParam, ...]
    extents: tuple[tuple[str, int], ...]
    outs: tuple[LeafParam, ...]
    names: tuple[tuple[str, str], ...]

    def name(self, param: str) -> str:
        """Return the identifier of a parameter or scalar."""
        return dict(self.names)[param]

    def arguments(self, spec: LeafSpec) -> list[str]:
        """Return the identifiers of tiles, extents and scalars, in the order in which they are passed."""
        found = [self.name(p.name) for p in self.tiles]
        found += [self.extent(p, d) for p, d in self.extents]
        return found + [self.name(s) for s, _ in spec.scalars]

    def extent(self, param: str, axis: int) -> str:
        """Return the identifier of a run-time extent; axis: of the parameter."""
        return f"n_{self.name(param)}_{axis}"


def leaf_shape(spec: LeafSpec, names: Names) -> LeafShape:
    """Return the parameter list of the leaf for `spec`; its identifiers are taken from `names`."""
    mapped = [(p.name, names.fresh(p.name)) for p in spec.params]
    mapped += [(s, names.fresh(s)) for s, _ in spec.scalars]
    return LeafShape(
        tiles=tuple(p for p in spec.params if p.privilege != "w"),
        extents=spec.ragged,
        outs=tuple(p for p in spec.params if p.privilege != "r"),
        names=tuple(mapped),
    )


@dataclass(slots=True)
class StraightLine:
    """A leaf's statements; a language adds a method `prim_<name>` for each primitive it has a form for.

    nothing: parameter -> text of a tile that nobody has written. values: parameter -> the variable that holds it.
    """

    spec: LeafSpec
    shape: LeafShape
    nothing: Callable[[LeafParam], str]
    lines: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {p.name: self.shape.name(p.name) for p in self.shape.tiles}

    def param(self, name: str) -> LeafParam:
        """Return the parameter called `name`."""
        return self.spec.param(name)

    def read(self, name: str) -> str:
        """Return the variable that holds a parameter; one that was never written shows by its NaN."""
        if name not in self.values:
            self.assign(name, self.nothing(self.param(name)))
        return self.values[name]

    def assign(self, name: str, text: str) -> None:
        """Give a parameter the value `text`."""
        variable = self.shape.name(name)
        self.lines.append(f"{variable} = {text}")
        self.values[name] = variable

    def leaf(self, head: str, *, gemm: str, other: str) -> Leaf | None:
        """Return the leaf that starts with `head`, None when a primitive has no form. gemm, other: names of those with products and without."""
        for prim in self.spec.prims:
            emit: Callable[[Prim], None] | None = getattr(self, f"prim_{prim.name}", None)
            if emit is None:
                return None
            emit(prim)
        outs = ", ".join(self.read(p.name) for p in self.shape.outs)
        lines = [*head.splitlines(), *(f"    {line}" for line in self.lines)]
        source = "\n".join([*lines, f"    return {outs}"]) + "\n"
        name = gemm if any(p.name.startswith("gemm") for p in self.spec.prims) else other
        return Leaf(spec=self.spec, writer="library", name=name, source=source)
