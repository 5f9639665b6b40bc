"""`septran tune`: search the values that a mapping leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from septran.cli.deadline import TIMEOUT, within
from septran.cli.files import OUTPUT
from septran.cli.options import THREADS, WHERE, common, terminal
from septran.cli.recall import asked_before
from septran.cli.request import build, kernel_options
from septran.cli.steps import steps

_TRIALS = 30
_ALONE = (
    "op",
    "backend",
    "dims",
    "dtype",
    "arch",
    "mapping",
    "logic",
    "trials",
    "resume",
    "proposer",
    "deterministic",
)
"""What the rows of a suite say themselves, or not at all."""


@click.command("tune")
@kernel_options
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    help=f"Kernels to build and measure.  [default: {_TRIALS}]",
)
@click.option(
    "--seed", "tune_seed", type=click.IntRange(min=0), help="Of the search.  [default: 0]"
)
@click.option(
    "--resume", metavar="RUN", help="Go on with an interrupted search; flags may be left out."
)
@click.option(
    "--proposer",
    metavar="WHO",
    help="A model proposes values before the sampler does: llm (the configured endpoint) or command:PROGRAM.",
)
@click.option(
    "--suite",
    metavar="NAME",
    help="Make the searches of configs/searches/NAME.yaml, or of that file, one after another.",
)
@click.option(
    "--report",
    "reports",
    type=OUTPUT,
    multiple=True,
    help="Write a page that draws the search (.html); of a suite its table (.md) or rows (.json: the same command goes on where it was).",
)
@THREADS
@WHERE
@TIMEOUT
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    help="File of results; default: configs/tuned/BACKEND.yaml of the project or user, where gen looks.",
)
@common
def command(
    *, suite: str | None, reports: tuple[Path, ...], timeout: float | None, **given: Any
) -> int:
    r"""Search the values that a mapping leaves open (`!tune`), and keep what is better than the default.

    Where a simulator counts cycles, every kernel that is built is verified. Where kernels are timed, a call of each is judged and
    the winner is verified in full before it is measured against the default once more. Without a GPU a model predicts (`septran
    predict`, with the registers and spills of the device's compiler where it is installed), every kernel is verified emulated, and
    the result is called predicted. `septran gen` takes results by itself and says so.

    \b
    septran tune --op add --backend dsa_c
    septran tune --op gemm --backend cuda_c
    septran tune --op gemm --backend cpp --dim M=1024 --trials 40 --threads 1 --report tune.html
    septran tune --resume latest
    septran tune --suite cpu --threads 1 --report tune.json --report tune.md
    """
    from septran import settings as settings_
    from septran.run.tune import tune
    from septran.run.tune_outcome import TuneRequest

    term = terminal()
    if suite is not None:
        from septran.cli.tune_suite import run

        alone = [name for name in _ALONE if given[name]]
        if alone:
            raise click.UsageError(f"--suite and --{alone[0]} exclude each other")
        settings = settings_.load(flags={name: given.get(name) for name in settings_.SCHEMA})
        seed = given["tune_seed"] or 0
        with within(timeout):
            return run(suite, reports, seed=seed, output=given["output"], settings=settings)
    if given["resume"]:
        given = asked_before(given, command="tune")
    settings = settings_.load(flags={name: given.get(name) for name in settings_.SCHEMA})
    with within(timeout), steps(term) as progress:
        request = TuneRequest(
            kernel=build(given | {"output": None}, settings),
            trials=given["trials"] or _TRIALS,
            seed=given["tune_seed"] or 0,
            resume=given["resume"],
            output=given["output"],
            proposer=given["proposer"] or "",
        )
        found = tune(request, settings=settings, progress=progress).to_json()
    for report in reports:
        from septran.atomic import write_atomic
        from septran.report.tune import page

        write_atomic(report, page(found))
        term.note(f"page written to {report}")
    term.show(found, _text(found))
    return 0


def _text(found: Mapping[str, Any]) -> str:
    sizes = " ".join(f"{name}={size}" for name, size in found["dims"].items())
    done = found["measured"] + found["predicted"] - 1
    word = "verified and predicted" if found["how"] == "predicted" else "measured"
    counts = f"{found['proposed']} proposed: {done} {word}, {found['pruned']} pruned by the model, "
    counts += f"{found['refused']} do not map, {found['wrong']} wrong"
    if found["asked"] is not None:
        mine = [t for t in found["trials"] if t["by"] == "model"]
        tokens = found["asked"]["tokens"]
        counts += f"\n  model asked {found['asked']['calls']} times, {tokens} tokens: {len(mine)} of its proposals were tried"
    best, speed = found["best"], found["speedup"]
    lines = [f"{found['op']} on {found['backend']}, {sizes}, {found['dtype']}", f"  {counts}"]
    if found["how"] == "predicted":
        lines.append(
            f"  predicted  by the model of {found['facts_of']}, not measured: no device here"
        )
    lines.append(f"  default    {_values(found['default'], found['unit'])}")
    if found["better"]:
        lines.append(f"  better     {_values(best, found['unit'])}")
        interval = (
            "" if speed["low"] == speed["high"] else f" ({speed['low']:.3f} to {speed['high']:.3f})"
        )
        lines.append(f"  speed      {speed['middle']:.3f} x the default{interval}")
    else:
        lines.append("  nothing better was found: the default stays")
    if found["unit"] == "seconds" and found["within"] is not None:
        which = "no other choice" if found["whole"] else "nothing else that was measured"
        more = 100 * (found["within"] - 1)
        lines.append(f"  within     {which} is more than {more:.1f} % faster (95 % intervals)")
    if found["rank_correlation"] is not None:
        lines.append(
            f"  model      rank correlation {found['rank_correlation']:.2f} over what was measured"
        )
    lines += [f"  {name:10s} {found[name]}" for name in ("file", "run") if found[name]]
    return "\n".join(lines) + "\n"


def _values(one: Mapping[str, Any], unit: str) -> str:
    figure = f"{one['found']:,.0f} cycles" if unit == "cycles" else f"{1e6 * one['found']:,.2f} us"
    return f"{figure}: " + ", ".join(f"{name}={value}" for name, value in one["values"].items())
