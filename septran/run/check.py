"""Check logic and mapping files without a device, a compiler or a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from septran.errors import ConfigError, Diagnostic, MappingError, SeptranError, Span, closest

if TYPE_CHECKING:
    from septran.tasklang.tree import Task


def check_files(paths: Sequence[Path]) -> tuple[Diagnostic, ...]:
    """Return every problem of the files, file by file, in source order; () when all is well.

    A .py file is loaded as logic, and each operator and fully annotated task in it is traced and
    checked; of a task whose tensors' dims nobody says, what is wrong with any number of them. A .yaml file is read as a mapping; its target and a policy's words are looked up.
    """
    return tuple(problem for path in paths for problem in _check(path))


def _check(path: Path) -> tuple[Diagnostic, ...]:
    try:
        if path.suffix == ".py":
            return _check_logic(path)
        if path.suffix in (".yaml", ".yml"):
            _check_mapping(path)
            return ()
        raise ConfigError.of(
            "C045",
            f"{path}: neither logic (.py) nor a mapping (.yaml)",
            help="check takes logic files and mapping files",
        )
    except SeptranError as e:
        return e.diagnostics


def _check_mapping(path: Path) -> None:
    from septran import backends
    from septran.bind.check_policy import check_policy
    from septran.machine import load_machine
    from septran.mapping.load import load_mapping
    from septran.mapping.schema import Policy

    mapping = load_mapping(path)
    if not mapping.target:
        return
    _known("target", mapping.target, backends.names(), mapping.target_span)
    backend = backends.get(mapping.target)
    if mapping.arch:
        _known("arch", mapping.arch, backend.arches, mapping.target_span)
    if isinstance(mapping, Policy):
        arch = backends.resolve_arch(backend, mapping.arch)
        check_policy(mapping, load_machine(backend.machine(arch)))


def _known(what: str, word: str, words: Sequence[str], span: Span | None) -> None:
    if word not in words:
        raise MappingError.of(
            "M017",
            f"{what}: {word!r} is unknown; known: {', '.join(words)}{closest(word, words)}",
            span,
        )


def _check_logic(path: Path) -> tuple[Diagnostic, ...]:
    from septran.tasklang.check import check_logic
    from septran.tasklang.load import load_logic

    logic = load_logic(path)
    entries = [
        (o.entry, {p: len(t.dims) for p, t in o.types().items()}) for o in logic.operators.values()
    ]
    known = {entry.name for entry, _ in entries}
    entries += [
        (task, dict(task.ranks))
        for task in logic.tasks.values()
        if task.name not in known and not task.leaf and set(task.ranks) == set(task.params)
    ]
    found: dict[tuple[str, str, str], Diagnostic] = {}
    reached: set[str] = set()
    for entry, ranks in entries:
        try:
            reached |= {name for name, _ in check_logic(entry, ranks).found}
        except SeptranError as e:
            reached |= logic.tasks.keys()
            found |= {(d.code, d.message, str(d.span)): d for d in e.diagnostics}
    known |= {entry.name for entry, _ in entries} | reached
    for task in logic.tasks.values():
        if task.name not in known and not task.leaf:
            found |= _of_any_rank(task)
    return tuple(found.values())


_WHATEVER_THE_RANKS = {
    *("E102", "E104", "E105", "E106", "E107", "E108", "E110", "E114"),
    *("E120", "E121", "E122", "E123", "E126", "E143"),
}
"""codes of mistakes that no shape of the parameters mends"""


def _of_any_rank(task: Task) -> dict[tuple[str, str, str], Diagnostic]:
    """Return the mistakes that a task makes with parameters of 1, 2, 3 and 4 dims; it has no operator that gives them."""
    from septran.tasklang.check import check_logic

    common: dict[tuple[str, str, str], Diagnostic] | None = None
    for rank in (2, 1, 3, 4):
        ranks = {p: task.ranks.get(p, rank) for p in task.params if p not in task.scalars}
        found = {}
        try:
            check_logic(task, ranks)
        except SeptranError as e:
            for d in e.diagnostics:
                if d.code in _WHATEVER_THE_RANKS:
                    found[d.code, d.message, str(d.span)] = d
        common = found if common is None else {k: d for k, d in common.items() if k in found}
    return common or {}
