"""`septran predict`: how long a kernel would take and what limits it, without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from septran.cli.options import THREADS, common, terminal
from septran.cli.request import NO_TUNED, build, kernel_options


@click.command("predict")
@kernel_options
@NO_TUNED
@THREADS
@common
def command(**given: Any) -> int:
    r"""Predict how long a kernel takes and what limits it, from its Program and the machine's file.

    Nothing is compiled or run. Exit 3 where the machine's file lacks a figure.

    \b
    septran predict --op gemm --backend dsa_c
    septran predict --op softmax --backend cpp --dim N=4096 --threads 1 --json
    """
    from septran import settings as settings_
    from septran.run.predict import predicted

    term = terminal()
    found = predicted(build(given, settings_.load())).to_json()
    term.show(found, _text(found))
    return 3 if found["unknown"] else 0


def _text(found: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{name}={size}" for name, size in found["dims"].items())
    lines = [f"{found['op']} on {found['machine']} ({sizes}; {found['dtype']})"]
    if found["unknown"]:
        lines.append(f"unknown bound: {found['unknown']}")
        return "\n".join(lines) + "\n"
    ticks = f"{found['ticks']:,} cycles"
    if found["seconds"] is not None:
        ticks = f"{1e6 * found['seconds']:,.1f} us ({ticks}, threads: {found['threads']})"
    lines.append(f"predicted  {ticks}, bound by {found['bound']}")
    for name, part in sorted(found["parts"].items(), key=lambda item: -item[1]):
        if part:
            lines.append(f"  {name:12s} {part:>14,} {part / found['ticks']:6.0%}")
    lines += [f"why        {sentence}" for sentence in found["why"]]
    moved = ", ".join(f"{size / 1e6:.2f} MB {name}" for name, size in found["traffic"].items())
    lines.append(f"touches    {moved}")
    if found["flops"]:
        lines.append(f"products   {found['flops'] / 1e9:.3f} Gflop")
    lines.append(f"facts of   {found['facts_of']}")
    return "\n".join(lines) + "\n"
