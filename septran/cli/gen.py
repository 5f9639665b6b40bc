"""`septran gen`: one operator, one target, one verified kernel."""

from __future__ import annotations

from typing import Any

import click

from septran.cli import card
from septran.cli.deadline import TIMEOUT, within
from septran.cli.files import INPUT, OUTPUT
from septran.cli.options import THREADS, WHERE, common, requires, terminal
from septran.cli.recall import asked_before
from septran.cli.request import NO_TUNED, build, kernel_options
from septran.cli.steps import steps
from septran.cli.values import Finite


@click.command("gen")
@kernel_options
@NO_TUNED
@click.option("--writer", metavar="NAME", help="library, llm, replay:RUN or command:PROGRAM.")
@click.option("--attempts", type=click.IntRange(min=1), help="Model calls for one leaf.")
@click.option("--candidates", type=click.IntRange(min=1), help="Replies asked for at once.")
@click.option(
    "--budget-tokens",
    type=click.IntRange(min=0),
    help="Tokens of a run at most, sent and received.",
)
@click.option("--budget-minutes", type=Finite(), help="No model is asked after so many minutes.")
@click.option(
    "--leaf",
    "leaves",
    multiple=True,
    metavar="TASK",
    help="Ask a model for this leaf only; repeat.",
)
@click.option(
    "--plan", is_flag=True, help="Show what a model would be asked and its worst cost; ask nobody."
)
@click.option(
    "--whole", is_flag=True, help="With --task: a model writes the whole module as one leaf."
)
@click.option(
    "--fallback",
    type=click.Choice(["torch"]),
    help="With --task: torch computes what cannot be a kernel, marked in every output.",
)
@click.option(
    "--prepare",
    is_flag=True,
    help="With --task: compute once what no input changes (weights, tables); fold batch norms.",
)
@click.option(
    "--search",
    type=click.Choice(["best-of", "evolve"]),
    help="How right leaves are bettered: the best one alone, or islands that are crossed.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Of the secret inputs; default: random.")
@click.option("--config", type=INPUT, help="A model config instead of the backend's.")
@click.option("--base-url", help="OpenAI-compatible endpoint.  [env: SEPTRAN_BASE_URL]")
@click.option("--model", help="Model name.  [env: SEPTRAN_MODEL]")
@THREADS
@click.option(
    "--stop-after",
    type=click.Choice(["parse", "bind", "lower", "emit", "compile"]),
    help="End after this step; nothing later is tried.",
)
@requires("compile", "device", "proved")
@WHERE
@click.option(
    "--resume", metavar="RUN", help="Go on with an interrupted run; flags may be left out."
)
@TIMEOUT
@click.option("-o", "--output", type=OUTPUT, help="Also copy the kernel here.")
@common
def command(*, plan: bool, timeout: float | None, **given: Any) -> int:
    r"""Generate one verified kernel.

    \b
    septran gen --op gemm --backend cpp
    septran gen --op softmax --backend cpp --dim N=1000 --dtype bfloat16 --json
    septran gen --op softmax --backend cpp --writer llm --plan
    septran gen --logic my_op.py --backend cpp -o my_op.cpp
    """
    from septran import settings as settings_

    term = terminal()
    if given["resume"]:
        given = asked_before(given)
    settings = settings_.load(flags={name: given.get(name) for name in settings_.SCHEMA})
    if plan:
        from septran.run.leaves import what_is_asked

        asked = what_is_asked(build(given, settings), settings=settings)
        term.show(asked.to_json(), asked.text())
        return 0
    with within(timeout), steps(term) as progress:
        request = build(given, settings)
        from septran.run.gen import gen

        result = gen(request, settings=settings, progress=progress)
    card.show(result.to_json(), term)
    return result.code
