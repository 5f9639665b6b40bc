"""Check logic and mapping files without a device, a compiler or a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from septran.errors import ConfigError, Diagnostic, MappingError, SeptranError, Span, closest


def check_files(paths: Sequence[Path]) -> tuple[Diagnostic, ...]:
    """Return every problem of the files, file by file, in source order; () when all is well.

    A .py file is loaded as logic, and each operator and fully annotated task in it is traced and
    checked. A .yaml file is read as a mapping; its target and a policy's words are looked up.
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
    for entry, ranks in entries:
        try:
            check_logic(entry, ranks)
        except SeptranError as e:
            found |= {(d.code, d.message, str(d.span)): d for d in e.diagnostics}
    return tuple(found.values())
