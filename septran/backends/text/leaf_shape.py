"""The parameter list of a leaf in languages whose leaves are functions of tiles."""

from __future__ import annotations

from dataclasses import dataclass

from septran.backends.text.names import Names
from septran.kernel import LeafParam, LeafSpec


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
