"""Flags of `septran serve` and `septran mcp`: what one submission may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def bounded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --elements, --seconds and --memory to a command; they come as `elements`, `seconds` and `memory_mib`."""
    for option in (
        click.option(
            "--memory",
            "memory_mib",
            type=click.IntRange(min=256),
            default=4096,
            show_default=True,
            metavar="MIB",
            help="Memory of the worker that judges a submission; a kernel's own process has a limit of its own.",
        ),
        click.option(
            "--seconds",
            type=click.FloatRange(min=1.0),
            default=900.0,
            show_default=True,
            help="Wall time of a try to judge a submission.",
        ),
        click.option(
            "--elements",
            type=click.IntRange(min=1),
            default=1 << 22,
            show_default=True,
            help="Elements that the tensors of a submission may have together.",
        ),
    ):
        command = option(command)
    return command
