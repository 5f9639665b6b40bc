"""`septran gen`: one operator, one target, one verified kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from septran.cli import card
from septran.cli.options import backend_names, common, complete, op_names, terminal
from septran.cli.values import DTYPES, exactly_one, parse_dims

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("gen")
@click.option("--op", metavar="NAME", shell_complete=complete(op_names), help="A known operator.")
@click.option("--task", "task_file", type=_FILE, help="A torch module file (KernelBench form).")
@click.option("--logic", type=_FILE, help="Your own logic file.")
@click.option("--backend", required=True, metavar="NAME", shell_complete=complete(backend_names))
@click.option("--arch", metavar="NAME", help="Architecture of the backend, e.g. sm_90a.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Repeat for each dim.")
@click.option("--dtype", type=click.Choice(DTYPES))
@click.option("--mapping", type=_FILE, help="An explicit mapping instead of the target's policy.")
@click.option("--writer", metavar="NAME", help="library, llm, replay:RUN or command:PROGRAM.")
@click.option("--attempts", type=click.IntRange(min=1), help="Model calls for one leaf.")
@click.option("--candidates", type=click.IntRange(min=1), help="Replies asked for at once.")
@click.option("--budget-tokens", type=click.IntRange(min=0))
@click.option("--budget-minutes", type=click.FloatRange(min=0))
@click.option("--search", type=click.Choice(["best-of", "evolve"]))
@click.option("--seed", type=click.IntRange(min=0), help="Of the secret inputs; default: random.")
@click.option("--config", type=_FILE, help="A model config instead of the backend's.")
@click.option("--base-url", help="OpenAI-compatible endpoint.  [env: SEPTRAN_BASE_URL]")
@click.option("--model", help="Model name.  [env: SEPTRAN_MODEL]")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of the kernel.")
@click.option("--stop-after", type=click.Choice(["parse", "bind", "lower", "emit", "compile"]))
@click.option(
    "--require",
    multiple=True,
    type=click.Choice(["compile", "device"]),
    help="What must have happened; otherwise exit 3.",
)
@click.option("--resume", metavar="RUN", help="Continue an interrupted run.")
@click.option("-o", "--output", type=_FILE, help="Also copy the kernel here.")
@common
def command(*, dims: tuple[str, ...], output: Path | None, **given: Any) -> int:
    r"""Generate one verified kernel.

    \b
    septran gen --op gemm --backend cpp
    septran gen --op softmax --backend cpp --dim N=1000 --dtype bfloat16 --json
    septran gen --logic my_op.py --backend cpp -o my_op.cpp
    """
    exactly_one(op=given["op"], task=given["task_file"], logic=given["logic"])
    sizes = parse_dims(dims)
    from septran import settings as settings_
    from septran.run.gen import GenRequest, gen

    settings = settings_.load(flags={name: given[name] for name in settings_.SCHEMA & given.keys()})
    request = GenRequest(
        op=given["op"],
        task_file=given["task_file"],
        logic=given["logic"],
        backend=given["backend"],
        arch=given["arch"],
        dims=sizes,
        dtype=given["dtype"],
        mapping=given["mapping"],
        writer=settings.writer,
        attempts=settings.attempts,
        candidates=settings.candidates,
        budget_tokens=settings.budget_tokens,
        budget_minutes=settings.budget_minutes,
        seed=settings.seed,
        stop_after=given["stop_after"],
        require=given["require"],
        config=given["config"],
        search=settings.search,
        resume=given["resume"],
    )
    term = terminal()
    result = gen(request, settings=settings, progress=term.note)
    found: dict[str, Any] = result.to_json()
    if output is not None and found.get("kernel"):
        from septran.run.store import write_atomic

        write_atomic(output, Path(found["kernel"]).read_bytes())
        term.note(f"kernel copied to {output}")
    if term.json:
        term.emit(found)
    else:
        card.show(found, term)
    code: int = result.exit_code
    return code
