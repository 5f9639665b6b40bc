"""`septran eval`: how well a model writes leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from septran.cli.files import INPUT, OUTPUT_FOLDER
from septran.cli.options import backend_names, common, complete, terminal
from septran.cli.steps import steps


@click.command("eval")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    required=True,
    shell_complete=complete(backend_names),
    help="A target; repeat for several.",
)
@click.option("--base-url", help="OpenAI-compatible endpoint.  [env: SEPTRAN_BASE_URL]")
@click.option("--model", help="Model name.  [env: SEPTRAN_MODEL]")
@click.option("--command", metavar="PROGRAM", help="Ask a program instead: prompt in, reply out.")
@click.option("--config", type=INPUT, help="A model config instead of the backend's.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How often each leaf is asked for, with a seed of its own.",
)
@click.option(
    "--attempts",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Calls for a leaf.",
)
@click.option(
    "--leaf",
    "leaves",
    multiple=True,
    metavar="OP[:LEAF]",
    help="Of the list; repeat. Default: all.",
)
@click.option(
    "--list", "file", type=INPUT, help="Another list instead of configs/eval/leaves.yaml."
)
@click.option(
    "--memory",
    type=OUTPUT_FOLDER,
    help="Folder of lessons to show and to add to; default: no memory.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=OUTPUT_FOLDER,
    default=Path("septran-eval"),
    show_default=True,
    help="Folder of the results; the same command goes on where it was.",
)
@common
def command(*, base_url: str | None, model: str | None, **given: Any) -> int:
    r"""Measure how well a model writes leaves: a fixed list, every answer judged.

    \b
    septran eval --base-url http://127.0.0.1:8000/v1 --backend cpp --seeds 3
    septran eval --command ./ask.sh --backend dsa_c --leaf softmax -o mine
    """
    from septran import settings as settings_
    from septran.run.evaluate import EvalRequest, evaluate

    term = terminal()
    settings = settings_.load(flags={"base_url": base_url, "model": model})
    with steps(term) as progress:
        done = evaluate(EvalRequest(**given), settings=settings, progress=progress)
    term.emit(done.to_json()) if term.json else term.result(done.table())
    return 0
