"""Host functions that make their results of their inputs, where these lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from septran.backends.base import Host, Passed
from septran.errors import ConfigError, Span, closest
from septran.plan.wanted import Wanted


def check_in_place(host: Host, in_place: Sequence[str], file: Path) -> None:
    """Raise ConfigError C172 when a name is none of the host function's parameters."""
    names = [p.name for p in host.params]
    wrong = next((name for name in in_place if name not in names), None)
    if wrong is not None:
        raise ConfigError.of(
            "C172",
            f"{file}: {host.name} has no parameter {wrong!r}{closest(wrong, names)}",
            Span(str(file), host.line),
            help=f"--in-place names parameters that hold results: {', '.join(names)}",
        )


def with_results(
    host: Host, args: Sequence[Passed], changed: Sequence[bool], wanted: Wanted, file: Path
) -> list[Passed]:
    """Return the arguments, results in the place of the inputs that are `changed`, which begin with those inputs' values.

    Raises:
        ConfigError: C172, there are not as many results, or one is no tensor like its input.
    """
    params = {p.name: p for p in wanted.problem.params}
    results = [p.name for p in wanted.problem.outputs]
    inputs = [a.param for a, is_changed in zip(args, changed, strict=True) if is_changed]
    if len(inputs) != len(results) or not all(inputs):
        raise ConfigError.of(
            "C172",
            f"{file}: {host.name} makes results of {', '.join(filter(None, inputs)) or 'no tensor'} in place, the reference has {', '.join(results)}",
            Span(str(file), host.line),
            help="--in-place names as many tensors as the reference has results, in their order",
        )
    for one, other in zip(inputs, results, strict=True):
        a, b = params[one], params[other]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ConfigError.of(
                "C172",
                f"{file}: {host.name} makes {other}, {b.dtype}{list(b.shape)}, of {one}, {a.dtype}{list(a.shape)}, in place",
                Span(str(file), host.line),
            )
    left = iter(results)
    return [
        replace(a, param=next(left), begins=a.param) if is_changed else a
        for a, is_changed in zip(args, changed, strict=True)
    ]
