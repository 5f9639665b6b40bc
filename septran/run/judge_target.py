"""Which target a judged file is for, and which of its functions is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from septran import backends
from septran.backends.base import Backend, Foreign, Host
from septran.errors import ConfigError, Span, closest

_ELSEWHERE = (
    ("cpp_extension", "it loads its kernels from other files; judge the .cu file"),
)  # fmt: skip
"""marks of files that are not judged, and why"""


def target_of(file: Path, backend: str, text: str) -> tuple[Backend, Foreign]:
    """Return the target that a file is for: the one asked for, or the first whose marks it has; raises ConfigError C170, C173."""
    known = {n: b.foreigns for n in backends.names() if (b := backends.get(n)).foreigns}
    if backend:
        found = backends.get(backend)
        if not found.foreigns:
            raise ConfigError.of(
                "C170",
                f"files for {found.name} are not judged",
                help=f"targets whose files are: {', '.join(known)}",
            )
        fitting = [f for f in found.foreigns if file.suffix in f.suffixes]
        return found, next((f for f in fitting if f.claims(text)), (*fitting, found.foreigns[0])[0])
    for name, foreigns in known.items():
        for foreign in foreigns:
            marked = not foreign.marks or any(mark in text for mark in foreign.marks)
            if file.suffix in foreign.suffixes and marked and foreign.claims(text):
                return backends.get(name), foreign
    for mark, what in _ELSEWHERE:
        if mark in text:
            raise ConfigError.of("C173", f"{file}: {what}", Span(str(file), 1))
    raise ConfigError.of(
        "C170",
        f"{file}: which target it is for cannot be told from the file",
        Span(str(file), 1),
        help=f"give --backend: {', '.join(known)}",
    )


def candidates(file: Path, entry: str, foreign: Foreign, text: str) -> tuple[Host, ...]:
    """Return the host function that was asked for, or those that may be meant; raises ConfigError C170 when there is none."""
    try:
        if entry:
            found = foreign.host(text, entry)
            names = [h.name for h in foreign.hosts(text)]
            if found is not None:
                return (found,)
            raise ConfigError.of(
                "C170",
                f"{file} has no function {entry!r}{closest(entry, names)}",
                Span(str(file), 1),
            )
        hosts = foreign.hosts(text)
    except SyntaxError as e:
        line = e.lineno or 1
        raise ConfigError.of("C170", f"{file}: {e.msg}", Span(str(file), line)) from e
    if not hosts and (why := foreign.unlaunched(text)) is not None:
        line, what, help_ = why
        raise ConfigError.of("C170", f"{file}: {what}", Span(str(file), line), help=help_)
    if not hosts:
        raise ConfigError.of(
            "C170",
            f"{file}: no function launches a kernel",
            Span(str(file), 1),
            help="a host function allocates the result, launches the kernel and returns the result",
        )
    return hosts


def entry_of(file: Path, hosts: Sequence[Host], fits: Callable[[Host], bool]) -> Host:
    """Return the host function: the only one, or the only one that fits the reference, of the likeliest kind that has one.

    Raises:
        ConfigError: C170, there are several.
    """
    tiers = [[h for h in hosts if h.tier == tier] for tier in sorted({h.tier for h in hosts})]
    fitting = ([h for h in tier if fits(h)] for tier in tiers if len(hosts) > 1)
    hosts = next((some for some in fitting if some), tiers[0])
    if len(hosts) == 1:
        return hosts[0]
    raise ConfigError.of(
        "C170",
        f"{file}: {len(hosts)} functions launch kernels: {', '.join(h.name for h in hosts)}",
        Span(str(file), hosts[0].line),
        help="name the one to judge with --entry",
    )
