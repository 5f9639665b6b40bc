"""`septran import`: a torch module as Task Lang text."""

from __future__ import annotations

from pathlib import Path

import click

from septran.cli.files import INPUT, OUTPUT
from septran.cli.options import common, terminal
from septran.cli.printed import Imported
from septran.cli.request import import_soon


@click.command("import")
@click.argument("file", type=INPUT)
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    help="The logic file to write; the graph goes beside it. Default: print the logic.",
)
@click.option(
    "--mode",
    type=click.Choice(["eval", "as-is"]),
    default="eval",
    help="as-is: norms use batch statistics and dropout is active, as the module is made.",
)
@click.option("--whole", is_flag=True, help="The whole module as one opaque leaf.")
@common
def command(file: Path, output: Path | None, mode: str, whole: bool) -> int:
    """Write the Model of a module FILE in Task Lang; nothing is built.

    What has no form becomes an opaque leaf, which a model writes (`septran gen --writer llm`).
    """
    import_soon()
    from septran.plan.task_file import import_module
    from septran.plan.torch_module import write_logic

    found = import_module(
        file,
        mode=mode,  # type: ignore[arg-type]
        opaque="whole" if whole else "nodes",
    )
    term = terminal()
    written = found.written
    if output is not None:
        write_logic(found, output)
    if term.json:
        term.emit(
            Imported(
                file=str(file),
                logic=None if output is None else str(output),
                text=found.text,
                entry=written.entry,
                nodes=len(found.graph.nodes),
                kernels=[g.name for g in written.grouping.groups],
                opaque_leaves=[
                    {"leaf": leaf, "operators": op.attrs["operators"], "line": op.line}
                    for leaf, op in found.opaque_leaves.items()
                ],
                not_fused=[
                    {"node": r.node, "kernel": r.group, "why": r.why}
                    for r in written.grouping.refusals
                ],
            )
        )
    elif output is None:
        term.result(found.text)
    nodes, kernels = len(found.graph.nodes), written.kernels
    term.note(
        f"{nodes} node{'s' if nodes != 1 else ''} in {kernels} kernel{'s' if kernels != 1 else ''}"
    )
    for leaf, op in found.opaque_leaves.items():
        where = f" (line {op.line})" if op.line else ""
        term.note(
            f"{leaf} is opaque: {op.attrs['operators']}{where} has no form, so a model writes it"
        )
    for refusal in written.grouping.refusals:
        term.note(f"{refusal.node} is not fused into {refusal.group}: {refusal.why}")
    return 0
