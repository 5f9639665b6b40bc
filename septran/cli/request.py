"""The options that name a kernel (operator, target, sizes), and the request they make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from septran.cli.files import INPUT
from septran.cli.options import F, backend_names, complete, op_names
from septran.cli.values import DTYPES, exactly_one, parse_dims, parse_open

if TYPE_CHECKING:
    from septran.plan.resolve import GenRequest
    from septran.settings import Settings


def kernel_options(command: F) -> F:
    """Add --op, --task, --logic, --backend, --arch, --dim, --dtype and --mapping to a command."""
    for option in (
        click.option(
            "--mapping", type=INPUT, help="An explicit mapping instead of the target's policy."
        ),
        click.option(
            "--deterministic",
            type=click.Choice(("batch-invariant",)),
            help="A row's bits depend neither on the number of rows nor on threads.",
        ),
        click.option(
            "--math",
            type=click.Choice(("winograd",)),
            help="3x3 convolutions by Winograd's algorithm: faster, with a larger error that is declared.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(DTYPES),
            help="Of the tensors; default: the operator's first that the backend has.",
        ),
        click.option(
            "--dim",
            "dims",
            multiple=True,
            metavar="NAME=SIZE",
            help="Repeat for each dim. NAME=dynamic: the kernel reads the size when it runs.",
        ),
        click.option("--arch", metavar="NAME", help="Architecture of the backend, e.g. sm_90a."),
        click.option(
            "--backend",
            metavar="NAME",
            shell_complete=complete(backend_names),
            help="The target; a mapping that names its target may replace it.",
        ),
        click.option("--logic", type=INPUT, help="Your own logic file."),
        click.option(
            "--task", "task_file", type=INPUT, help="A torch module file (KernelBench form)."
        ),
        click.option(
            "--op", metavar="NAME", shell_complete=complete(op_names), help="A known operator."
        ),
    ):
        command = option(command)
    return command


NO_TUNED = click.option("--no-tuned", is_flag=True, help="Leave results of `septran tune` out.")
"""Of commands that take such results by themselves."""


def import_soon() -> None:
    """Let the Python that imports module files load torch while this one loads what it does with them."""
    from septran import preloaded
    from septran.frontend.child.warm import PRELOAD

    preloaded.begin(PRELOAD)


def build(given: Mapping[str, Any], settings: Settings) -> GenRequest:
    """Return the request for the options `given`; what a command does not have takes its default.

    Raises:
        ConfigError: C007 a bad --dim, C008 not exactly one of --op, --task, --logic, C009 no target.
    """
    exactly_one(op=given["op"], task=given["task_file"], logic=given["logic"])
    backend = given["backend"] or _target_of(given["mapping"])
    writer = given.get("writer") or settings.writer
    sized, dynamic = parse_open(given["dims"])
    if given["task_file"]:
        import_soon()
    from septran.plan.resolve import GenRequest

    return GenRequest(
        op=given["op"],
        task_file=given["task_file"],
        logic=given["logic"],
        backend=backend,
        arch=given["arch"],
        dims=parse_dims(sized),
        dynamic=dynamic,
        dtype=given["dtype"],
        mapping=given["mapping"],
        deterministic=given.get("deterministic") or "",
        math=given.get("math") or "",
        writer=writer,
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
        tuned=not given.get("no_tuned"),
        output=given.get("output"),
        opaque=_opaque(given, writer),
        fallback=str(
            _of_module(
                given, "fallback", help="septran gen --task FILE --backend NAME --fallback torch"
            )
            or ""
        ),
        prepare=bool(
            _of_module(given, "prepare", help="septran gen --task FILE --backend NAME --prepare")
        ),
    )


def _of_module(given: Mapping[str, Any], name: str, *, help: str) -> Any:
    """Return an option that only a module has; raises ConfigError C008 where it is not asked of one."""
    from septran.errors import ConfigError

    found = given.get(name)
    other = next((f"--{n}" for n in ("whole", "output") if given.get(n)), "")
    if found and (given["task_file"] is None or other):
        told = f"and {other} exclude each other" if other else "is for a module, --task"
        raise ConfigError.of("C008", f"--{name} {told}", help=help)
    return found


def _opaque(given: Mapping[str, Any], writer: str) -> str:
    """Return what of a module becomes an opaque leaf: what was asked for, or what a model can write."""
    if given.get("whole"):
        return "whole"
    if given.get("fallback"):
        return ""
    return "" if writer == "library" else "nodes"


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
