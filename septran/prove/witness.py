"""An instance that breaks a rule, as numbers a person can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.prove.certificate import Finding
from septran.prove.sets import Model, Statement

if TYPE_CHECKING:
    import islpy as isl

At = tuple[tuple[str, int], ...]


def sample(found: isl.Set | isl.Map, names: tuple[str, ...]) -> At:
    """Return one member as (name, value); `names` name its tuple dimensions from the left, then sizes follow."""
    import islpy as isl

    flat = found.wrap() if isinstance(found, isl.Map) else found
    point = flat.lexmin().sample_point()
    space = point.get_space()
    values: list[tuple[str, int]] = []
    for k in range(space.dim(isl.dim_type.param)):
        name = space.get_dim_name(isl.dim_type.param, k)
        values.append((name, _value(point, isl.dim_type.param, k)))
    count = min(len(names), space.dim(isl.dim_type.set))
    values += [(names[k], _value(point, isl.dim_type.set, k)) for k in range(count)]
    return tuple(values)


def _value(point: isl.Point, kind: isl.dim_type, at: int) -> int:
    return int(point.get_coordinate_val(kind, at).to_python())


def finding(
    model: Model,
    code: str,
    text: str,
    broken: isl.Set | isl.Map,
    *who: Statement,
    extra: tuple[str, ...] = (),
) -> Finding:
    """Return the finding whose witness is a member of `broken`.

    who: the statements whose instances span the tuples of `broken`. extra: names of dimensions after theirs.
    """
    names: list[str] = []
    for n, s in enumerate(who):
        names += [v + "'" * n for v in s.vars]
    return Finding(
        code=code,
        text=text,
        statements=tuple(describe(s) for s in who),
        at=sample(broken, (*names, *extra)),
        places=tuple(s.span for s in who if s.span is not None),
    )


def describe(s: Statement) -> str:
    """Return a statement as people read it: its label without the call's number, and its loops."""
    label = s.label.split("_", 1)[1] if s.kind == "leaf" else s.label
    return f"{label}[{', '.join(s.vars)}]" if s.vars else label
