"""`septran bench`: how fast a verified kernel is against torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from septran.cli.options import common, set_threads, terminal
from septran.cli.request import build, kernel_options
from septran.cli.values import parse_dims


@click.command("bench")
@kernel_options
@click.option("--writer", metavar="NAME", help="library, llm, replay:RUN or command:PROGRAM.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=SIZE,...",
    help="One more size set to measure; repeat for several.",
)
@click.option("--torch-compile", is_flag=True, help="Also against torch.compile.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    expose_value=False,
    callback=set_threads,
    help="Threads of the kernel.  [env: SEPTRAN_THREADS]",
)
@common
def command(*, sizes: tuple[str, ...], torch_compile: bool, **given: Any) -> int:
    r"""Measure a kernel against torch, after verifying it.

    \b
    septran bench --op gemm --backend cpp --size M=256,N=256,K=256 --size M=1024,N=1024,K=1024
    septran bench --op softmax --backend cpp --threads 1 --json
    """
    from septran import settings as settings_
    from septran.run.bench import BenchRequest, bench

    settings = settings_.load(flags={"writer": given.pop("writer")})
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
