"""The options that name a kernel (operator, target, sizes), and the request they make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from septran.cli.options import F, backend_names, complete, op_names
from septran.cli.values import DTYPES, exactly_one, parse_dims

if TYPE_CHECKING:
    from septran.plan.resolve import GenRequest
    from septran.settings import Settings

FILE = click.Path(dir_okay=False, path_type=Path)
FILES = ("task_file", "logic", "mapping", "config")
"""The options of a request that are files."""
_WHAT = ("op", "task_file", "logic")


def kernel_options(command: F) -> F:
    """Add --op, --task, --logic, --backend, --arch, --dim, --dtype and --mapping to a command."""
    for option in (
        click.option(
            "--mapping", type=FILE, help="An explicit mapping instead of the target's policy."
        ),
        click.option("--dtype", type=click.Choice(DTYPES)),
        click.option(
            "--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Repeat for each dim."
        ),
        click.option("--arch", metavar="NAME", help="Architecture of the backend, e.g. sm_90a."),
        click.option(
            "--backend",
            metavar="NAME",
            shell_complete=complete(backend_names),
            help="The target; a mapping that names its target may replace it.",
        ),
        click.option("--logic", type=FILE, help="Your own logic file."),
        click.option(
            "--task", "task_file", type=FILE, help="A torch module file (KernelBench form)."
        ),
        click.option(
            "--op", metavar="NAME", shell_complete=complete(op_names), help="A known operator."
        ),
    ):
        command = option(command)
    return command


def build(given: Mapping[str, Any], settings: Settings) -> GenRequest:
    """Return the request for the options `given`; what a command does not have takes its default.

    Raises:
        ConfigError: C007 a bad --dim, C008 not exactly one of --op, --task, --logic, C009 no target.
    """
    exactly_one(op=given["op"], task=given["task_file"], logic=given["logic"])
    backend = given["backend"] or _target_of(given["mapping"])
    from septran.plan.resolve import GenRequest

    return GenRequest(
        op=given["op"],
        task_file=given["task_file"],
        logic=given["logic"],
        backend=backend,
        arch=given["arch"],
        dims=parse_dims(given["dims"]),
        dtype=given["dtype"],
        mapping=given["mapping"],
        writer=given.get("writer") or settings.writer,
        attempts=settings.attempts,
        candidates=settings.candidates,
        budget_tokens=settings.budget_tokens,
        budget_minutes=settings.budget_minutes,
        seed=settings.seed,
        stop_after=given.get("stop_after"),
        require=tuple(given.get("require") or ()),
        config=given.get("config"),
        search=settings.search,
        leaves=tuple(given.get("leaves") or ()),
        resume=given.get("resume"),
        where=given.get("where") or "auto",
    )


def asked_before(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` with what the run to resume was asked for, where the flags say nothing.

    Raises:
        ConfigError: C030, C031, there is no such run; C136, it does not say what was asked for.
    """
    from septran import settings as settings_
    from septran.errors import ConfigError
    from septran.run import store

    run = store.find(str(given["resume"]), store.root(settings_.load()))
    try:
        found = {**_recorded(run.info()), "resume": str(run.dir)}
    except (KeyError, TypeError, AttributeError):
        raise ConfigError.of("C136", f"run {run.id} is damaged: run.json") from None
    if any(given[n] for n in _WHAT):
        found |= dict.fromkeys(_WHAT)
    silent = (None, (), "auto")
    return {n: found.get(n) if given[n] in silent else given[n] for n in given}


def _recorded(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that a run's record stands for; --threads travels in the environment."""
    asked = info["request"]
    found = {**asked} | {n: Path(asked[n]) for n in FILES if asked.get(n)}
    found["dims"] = tuple(f"{n}={size}" for n, size in asked["dims"].items())
    for name, one in info["settings"].items():
        if str(one["from"]).startswith("--"):
            found[name] = one["value"]
        elif one["from"] == "SEPTRAN_THREADS":
            os.environ.setdefault("SEPTRAN_THREADS", str(one["value"]))
    return found


def _target_of(mapping: Path | None) -> str:
    """Return the target a mapping names, so that --backend need not repeat it."""
    from septran.errors import ConfigError

    if mapping is not None:
        from septran.mapping.load import load_mapping

        if target := load_mapping(mapping).target:
            return str(target)
    raise ConfigError.of(
        "C009", "no target: give --backend", help="`septran ls backends` lists them"
    )
