"""Check logic and mapping files without a device, a compiler or a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from septran.errors import ConfigError, Diagnostic, SeptranError


def check_files(paths: Sequence[Path]) -> tuple[Diagnostic, ...]:
    """Return every problem of the files, file by file, in source order; () when all is well.

    A .py file is loaded as logic, and each operator and fully annotated task in it is traced and
    checked. A .yaml file is read as a mapping.
    """
    return tuple(problem for path in paths for problem in _check(path))


def _check(path: Path) -> tuple[Diagnostic, ...]:
    try:
        if path.suffix == ".py":
            return _check_logic(path)
        if path.suffix in (".yaml", ".yml"):
            from septran.mapping.load import load_mapping

            load_mapping(path)
            return ()
        raise ConfigError.of(
            "C045",
            f"{path}: neither logic (.py) nor a mapping (.yaml)",
            help="check takes logic files and mapping files",
        )
    except SeptranError as e:
        return e.diagnostics


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
