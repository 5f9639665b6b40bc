"""`septran tasks`: leaf tasks as data."""

from __future__ import annotations

import json
from pathlib import Path

import click

from septran.cli.files import OUTPUT
from septran.cli.options import backend_names, common, complete, op_names, terminal
from septran.cli.printed import TasksExported
from septran.cli.values import DTYPES, parse_dims


@click.group("tasks")
@common
def command() -> None:
    """Leaf tasks of operators x targets, as data for training and evaluation."""


@command.command("export")
@click.option(
    "--op",
    "ops",
    multiple=True,
    metavar="NAME",
    shell_complete=complete(op_names),
    help="Default: all.",
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME",
    shell_complete=complete(backend_names),
    help="Default: all.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    help="Size of a dim, of the operators that have it; repeat for several.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice([*DTYPES, "all"]),
    metavar="NAME",
    help="Repeat for several; all: those that operator and target share.  [default: the operator's first]",
)
@click.option(
    "--verify/--no-verify",
    default=True,
    help="Judge the library's leaves, and write their rewards.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the secret inputs."
)
@click.option("-o", "--output", type=OUTPUT, required=True, help="The JSONL file to write.")
@common
def export(
    *,
    ops: tuple[str, ...],
    backends: tuple[str, ...],
    dims: tuple[str, ...],
    dtypes: tuple[str, ...],
    verify: bool,
    seed: int,
    output: Path,
) -> int:
    r"""Write prompts, contracts, references and verified library leaves, one JSON object a line.

    \b
    septran tasks export --op gemm --op softmax --backend cpp -o tasks.jsonl
    septran tasks export --backend cuda_c --dtype all --dim M=64 -o tasks.jsonl
    """
    from septran import settings as settings_
    from septran.atomic import write_atomic
    from septran.environment.export import rows
    from septran.errors import NothingSelected

    term = terminal()
    lines = []
    for row in rows(
        ops,
        backends,
        settings=settings_.load(),
        verify=verify,
        seed=seed,
        dims=parse_dims(dims),
        dtypes=dtypes,
        skipped=lambda text: term.note(f"left out: {text}"),
    ):
        term.note(f"{row['task']}: {(row['reward'] or {}).get('rung', 'not judged')}")
        lines.append(json.dumps(row, sort_keys=True) + "\n")
    if not lines:
        raise NothingSelected.of("C066", "no operator and target of these names have leaf tasks")
    write_atomic(output, "".join(lines))
    term.show(
        TasksExported(file=str(output), tasks=len(lines)), f"{len(lines)} tasks in {output}\n"
    )
    return 0
