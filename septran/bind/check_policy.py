"""Check a policy's words against its machine: processors, memories and leaf kernels."""

from __future__ import annotations

from collections.abc import Iterator

from septran.bind.check_mapping import RESERVED_KERNELS
from septran.errors import Diagnostic, MappingError, closest
from septran.machine import Machine
from septran.mapping.schema import Policy


def check_policy(policy: Policy, machine: Machine) -> None:
    """Raise MappingError with all of M005, M010 and M050: words that the machine does not know."""
    problems = [
        *_grid(policy, machine),
        *_memories(policy, machine),
        *_kernels(policy, machine),
    ]
    if problems:
        raise MappingError(sorted(problems, key=lambda d: d.place))


def _grid(policy: Policy, machine: Machine) -> Iterator[Diagnostic]:
    if policy.grid not in machine.procs:
        yield Diagnostic(
            code="M005",
            message=f"target {machine.name} has no processor {policy.grid!r}; "
            f"it has {list(machine.procs)}{closest(policy.grid, machine.procs)}",
            span=policy.grid_span,
        )


def _memories(policy: Policy, machine: Machine) -> Iterator[Diagnostic]:
    known = [n for m in machine.memories.values() for n in (m.name, *m.aliases)]
    asked: list[tuple[tuple[str | int, ...], str]] = [(("halo",), policy.halo or known[0])]
    asked += [(("locals", use), mem) for use, mem in policy.locals.items()]
    for i, rule in enumerate(policy.rules):
        asked += [(("rules", i, "mems", role), mem) for role, mem in rule.mems.items()]
    for path, mem in asked:
        if mem not in known:
            yield Diagnostic(
                code="M010",
                message=f"{'.'.join(map(str, path))}: {machine.name} has no memory {mem!r}; it has "
                f"{known}{closest(mem, known)}",
                span=policy.spans.get(path),
            )


def _kernels(policy: Policy, machine: Machine) -> Iterator[Diagnostic]:
    known = (*machine.leaf_kernels, *RESERVED_KERNELS)
    for i, rule in enumerate(policy.rules):
        if isinstance(rule.kernel, str) and rule.kernel not in known:
            yield Diagnostic(
                code="M050",
                message=f"rule {i + 1}: {rule.kernel!r} is no leaf kernel of {machine.name}; "
                f"it has {sorted(known)}{closest(rule.kernel, known)}",
                span=policy.spans.get(("rules", i, "kernel")),
            )
