"""`septran bench`: how fast a verified kernel is against torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from septran.cli.files import OUTPUT
from septran.cli.options import THREADS, common, terminal
from septran.cli.request import NO_TUNED, build, kernel_options
from septran.cli.values import parse_dims

if TYPE_CHECKING:
    from septran.settings import Settings


@click.command("bench")
@kernel_options
@NO_TUNED
@click.option("--writer", metavar="NAME", help="library, llm, replay:RUN or command:PROGRAM.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=SIZE,...",
    help="One more size set to measure; repeat for several.",
)
@click.option(
    "--suite", metavar="NAME", help="Measure configs/suites/NAME.yaml, or that file, in one call."
)
@click.option(
    "-o", "--output", type=OUTPUT, help="Write the suite's page (.md) or figures (.json)."
)
@click.option("--torch-compile", is_flag=True, help="Also against torch.compile.")
@THREADS
@common
def command(
    *,
    sizes: tuple[str, ...],
    torch_compile: bool,
    suite: str | None,
    output: Path | None,
    **given: Any,
) -> int:
    r"""Measure a kernel against torch, after verifying it; or all rows of a suite.

    \b
    septran bench --op gemm --backend cpp --size M=256,N=256,K=256 --size M=1024,N=1024,K=1024 --threads 1 --json
    septran bench --op softmax --backend cpp --threads 1 --json
    septran bench --suite cpu --threads 1 -o cpu.md
    """
    from septran import settings as settings_
    from septran.run.bench import BenchRequest, bench

    settings = settings_.load(flags={"writer": given.pop("writer")})
    if suite is not None:
        return _suite(suite, output, settings)
    if output is not None:
        raise click.UsageError("--output is for --suite; figures of one kernel go to --json")
    kernel = replace(build(given, settings), require=())
    dims = [parse_dims((size,)) for size in sizes] or [{}]
    term = terminal()
    request = BenchRequest(kernel=kernel, dims=dims, torch_compile=torch_compile)
    rows, code, counted = [], 0, False
    for found in bench(request, settings=settings, progress=term.detail):
        figure = found.to_json()
        code = max(code, int(figure.pop("exit_code") or 0))
        if term.json:
            term.emit(figure)
        else:
            term.note(f"measured {_sizes(figure)}: {figure['reason'] or figure['level']}")
            counted = counted or bool(figure["cycles"])
            rows.append(_cycles_row(figure) if figure["cycles"] else _row(figure))
    if not term.json:
        head = (
            "dims",
            "type",
            "threads",
            "us",
            "x torch",
            "x reused",
            "x compiled",
            "GFLOP/s",
            "GB/s",
            "of limit",
        )
        term.table(_CYCLES_HEAD if counted else head, rows)
    return code


def _suite(name: str, output: Path | None, settings: Settings) -> int:
    """Measure every row; exit 1 when one cannot be measured or misses its gate."""
    from septran.atomic import write_atomic
    from septran.run import suite as suites
    from septran.verify.environment import environment_facts

    term = terminal()
    wanted = suites.load_suite(name)
    found = []
    for each in suites.measure(wanted, settings=settings, progress=term.detail):
        found.append(each)
        term.note(f"{each.row.label}: {each.speedup or each.reason} (gate {each.row.gate})")
    data = {
        "schema": "septran.suite/1",
        "suite": wanted.name,
        "backend": wanted.backend,
        "machine": dict(environment_facts()),
        "rows": [each.to_json() for each in found],
    }
    facts = (
        f"{environment_facts().get('cpu', 'this machine')}, {settings.threads or 'all'} thread(s)."
    )
    text = suites.page(wanted, tuple(found), facts)
    if output is not None:
        as_json = output.suffix == ".json"
        write_atomic(output, json.dumps(data, indent=1) + "\n" if as_json else text)
    if term.json:
        term.emit(data)
    else:
        term.result(text)
    return 0 if all(each.held is not False and each.figure for each in found) else 1


_CYCLES_HEAD = ("dims", "type", "cores", "cycles", "limit", "use", "matrix", "overlap", "MB moved")


def _cycles_row(figure: dict[str, Any]) -> list[str]:
    """One line of a kernel in a simulator with a cycle model: what binds it, and how much it is used."""
    cycles = figure["cycles"]
    return [
        _sizes(figure),
        str(figure["dtype"]),
        str(cycles["cores"]),
        str(cycles["total"]),
        str(figure["limited_by"]),
        f"{100 * figure['limit_share']:.0f} %",
        f"{100 * cycles['mma_bound_share']:.0f} %" if cycles["macs"] else "-",
        f"{cycles['overlap']:.2f}",
        f"{cycles['bytes_moved'] / 1e6:.3g}",
    ]


def _row(figure: dict[str, Any]) -> list[str]:
    speed = figure["speedup"]
    return [
        _sizes(figure),
        str(figure["dtype"]),
        str(figure["threads"]),
        *(
            "-" if value is None else f"{value:.4g}"
            for value in (
                figure["kernel_us"],
                speed["torch_eager"],
                figure["reused"],
                speed["torch_compile"],
                figure["gflops"],
                figure["gbytes_per_s"],
            )
        ),
        "-" if figure["limit_share"] is None else f"{100 * figure['limit_share']:.0f} %",
    ]


def _sizes(figure: dict[str, Any]) -> str:
    return " ".join(f"{name}={size}" for name, size in figure["dims"].items())
