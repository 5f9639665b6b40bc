"""The sizes that a factory makes a judged kernel for: what the user gave, the reference's shapes, the file's own call."""

from __future__ import annotations

from pathlib import Path

from septran.backends.base import HostCall, Maker, Passed
from septran.errors import ConfigError, Span
from septran.plan.wanted import Wanted
from septran.run.host_call import Numbers


def sized_with(
    call: HostCall, maker: Maker, wanted: Wanted, numbers: Numbers, file: Path
) -> tuple[Passed, ...]:
    """Return the factory's arguments, by keyword.

    A value comes from `numbers`, else from the tensor whose extent has the parameter's name, else from the
    call of the factory that the file itself holds; a parameter with a default may do without.

    Raises:
        ConfigError: C172, two extents of one name differ, or nobody says a value.
    """
    shapes = {p.name: p.shape for p in wanted.problem.params}
    given = [a.param for a in call.args if a.param]
    if call.returns:
        given += [p.name for p in wanted.problem.outputs]
    sizes: dict[str, int] = {}
    for name, dims in zip(given, maker.dims, strict=False):
        for dim, extent in zip(dims, shapes[name], strict=False):
            if dim and sizes.setdefault(dim, extent) != extent:
                raise ConfigError.of(
                    "C172",
                    f"{file}: {call.host.name} has one {dim} for extents {sizes[dim]} and {extent} of the reference",
                    Span(str(file), call.host.line),
                )
    known: dict[str, object] = {**dict(maker.shown), **sizes, **numbers}
    needed = [p.name for p in maker.params if not p.default and p.name not in known]
    if needed:
        raise ConfigError.of(
            "C172",
            f"{file}: {call.host.name} wants {', '.join(needed)}, whose value neither the reference nor the file says",
            Span(str(file), call.host.line),
            help=" ".join(f"--number {name}=..." for name in needed),
        )
    names = {p.name for p in maker.params}
    optional = {p.name for p in maker.params if p.default}
    from_call = {n for n, _ in maker.shown} - sizes.keys() - numbers.keys()
    return tuple(
        Passed(value=value, keyword=name)
        for name, value in known.items()
        if name in names and not (name in optional and name in from_call)
    )
