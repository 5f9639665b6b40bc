"""What the run to resume was asked for, so that no flag has to be given again: flags, project, variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from septran.run.store import Run

FILES = ("task_file", "logic", "mapping", "config", "output")
"""The options of a request that are files."""
_WHAT = ("op", "task_file", "logic")


def asked_before(given: Mapping[str, Any], command: str = "") -> dict[str, Any]:
    """Return `given` with what the run to resume was asked for, where the flags say nothing.

    command: that the run must be of, "" for `septran gen`.

    Raises:
        ConfigError: C030, C031, there is no such run; C136, it does not say what was asked for; C139, it is of another command; C146, it was edited.
    """
    from septran import settings as settings_
    from septran.run import store

    run = store.find(str(given["resume"]), store.root(settings_.load()))
    with _readable(run):
        run.info()["request"]  # damaged is said before edited
    store.require_sealed(run, "run.json")
    with _readable(run):
        request = run.info()["request"]
        other = "batch" if "batch" in request else request.get("command", "")
    if other != command:
        from septran.errors import ConfigError

        told = f"run {run.id} is of septran {other or 'gen'}"
        raise ConfigError.of("C139", told, help=f"septran {other or 'gen'} --resume {run.id}")
    surround(run)
    with _readable(run):
        found = {**_flags(run.info()), "resume": str(run.dir)}
    if any(given[n] for n in _WHAT):
        found |= dict.fromkeys(_WHAT)
    silent = (None, (), "auto")
    return {n: found.get(n) if given[n] in silent else given[n] for n in given}


def surround(run: Run) -> None:
    """Set the run's project and SEPTRAN_* variables where nothing is set now; worker processes see them, too.

    Raises:
        ConfigError: C005, its project is gone; C136, its record is damaged; C146, it was edited.
    """
    from septran.run import store

    with _readable(run):
        run.info()["settings"]
    store.require_sealed(run, "run.json")
    with _readable(run):
        recorded = run.info()["settings"]
        project = recorded["project"]["value"]
        variables = {str(one["from"]): str(one["value"]) for one in recorded.values()}
    if project and not os.environ.get("SEPTRAN_PROJECT"):
        if not Path(project).is_dir():
            from septran.errors import ConfigError

            raise ConfigError.of(
                "C005", f"the project of run {run.id} is gone: {project}", help="give --project"
            )
        os.environ["SEPTRAN_PROJECT"] = project
    for name, value in variables.items():
        if name.startswith("SEPTRAN_") and name not in ("SEPTRAN_HOME", "SEPTRAN_PROJECT"):
            os.environ[name] = os.environ.get(name) or value


@contextmanager
def _readable(run: Run) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError):
        from septran.errors import ConfigError

        raise ConfigError.of("C136", f"run {run.id} is damaged: run.json") from None


def _flags(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that a run's record stands for."""
    asked = info["request"]
    found = {**asked} | {n: Path(asked[n]) for n in FILES if asked.get(n)}
    found["dims"] = tuple(f"{n}={size}" for n, size in asked["dims"].items())
    flags = {n: one for n, one in info["settings"].items() if str(one["from"]).startswith("--")}
    return found | {name: one["value"] for name, one in flags.items()}
