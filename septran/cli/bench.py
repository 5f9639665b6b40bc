"""`septran bench`: how fast a verified kernel is against torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from septran.cli.files import OUTPUT
from septran.cli.options import THREADS, common, terminal
from septran.cli.request import NO_TUNED, build, kernel_options
from septran.cli.values import parse_dims

_ALONE = (
    "backend",
    "arch",
    "dims",
    "dtype",
    "mapping",
    "logic",
    "task_file",
    "deterministic",
    "math",
    "writer",
    "no_tuned",
)
"""What the rows of a suite say themselves, or not at all."""


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
    "-o",
    "--output",
    "outputs",
    type=OUTPUT,
    multiple=True,
    help="Write the suite's page (.md, .html) or figures (.json, row by row); repeat for several.",
)
@click.option(
    "--resume", is_flag=True, help="Keep the rows that the .json file of --output has figures for."
)
@click.option(
    "--against",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compare with the suite's figures in FILE (.json), a release's for instance.",
)
@click.option(
    "--torch-compile",
    is_flag=True,
    help="Also against torch.compile; a suite's modules with max-autotune.",
)
@click.option("--long", is_flag=True, help="Also the rows of a suite that take long.")
@THREADS
@common
def command(
    *,
    sizes: tuple[str, ...],
    torch_compile: bool,
    long: bool,
    suite: str | None,
    outputs: tuple[Path, ...],
    resume: bool,
    against: Path | None,
    **given: Any,
) -> int:
    r"""Measure a kernel against torch, after verifying it; or all rows of a suite.

    \b
    septran bench --op gemm --backend cpp --size M=256,N=256,K=256 --size M=1024,N=1024,K=1024 --threads 1 --json
    septran bench --op softmax --backend cpp --threads 1 --json
    septran bench --suite cpu --threads 1 -o cpu.json -o cpu.html --resume
    septran bench --suite cpu --op "gemm,softmax" --threads 1
    septran bench --suite dsa -o dsa.json -o dsa.html --against release.json
    septran bench --suite gpu --torch-compile -o gpu.json -o gpu.html --resume
    """
    from septran import settings as settings_
    from septran.run.bench import BenchRequest, bench

    if suite is not None:
        from septran.cli.bench_suite import run

        alone = [name for name in _ALONE if given[name]] + ["size"] * bool(sizes)
        if alone:
            flag = {"dims": "dim", "task_file": "task"}.get(alone[0], alone[0]).replace("_", "-")
            raise click.UsageError(f"--suite and --{flag} exclude each other; --op chooses rows")
        return run(
            suite,
            [word for word in (given["op"] or "").split(",") if word],
            outputs,
            settings=settings_.load(),
            resume=resume,
            against=against,
            torch_compile=torch_compile,
            long=long,
        )
    settings = settings_.load(flags={"writer": given.pop("writer")})
    if outputs or resume or long or against is not None:
        raise click.UsageError(
            "--output, --resume, --long and --against are for --suite; figures of one kernel go to --json"
        )
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
