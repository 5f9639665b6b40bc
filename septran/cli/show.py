"""`septran show`: what the compiler sees, at any step, without compiling or calling a model."""

from __future__ import annotations

from typing import Any

import click

from septran.cli.options import common, terminal
from septran.cli.printed import Shown
from septran.cli.request import NO_TUNED, build, kernel_options
from septran.cli.values import exactly_one


@click.command("show")
@kernel_options
@NO_TUNED
@click.option("--task-tree", "what", flag_value="task", help="The logic as it was traced.")
@click.option("--program", "what", flag_value="program", default=True, help="The IR (the default).")
@click.option(
    "--graph",
    "what",
    flag_value="graph",
    help="With --task: the module's graph, its kernels, and why no fewer (the default without a target).",
)
@click.option("--after", metavar="PASS", help="The IR after this pass; `bind` is the first.")
@click.option("--passes", "what", flag_value="passes", help="The names of the passes, in order.")
@click.option("--tir", "what", flag_value="tir", help="The TVM PrimFunc, as TVMScript.")
@click.option("--kernel", "what", flag_value="kernel", help="The emitted source.")
@click.option("--leafspec", "what", flag_value="leafspec", help="What a leaf writer is told.")
@click.option("--leaf", metavar="TASK", help="The library's leaf, as a reply could give it.")
@click.option("--prompt", "what", flag_value="prompt", help="The first prompt; costs nothing.")
@common
def command(*, what: str, after: str | None, leaf: str | None, **given: Any) -> None:
    r"""Show a module's graph, the task, the program after a pass, TIR, a prompt or a kernel.

    \b
    septran show --op gemm --backend cpp --after insert_copies
    septran show --op gemm --backend cpp --kernel
    septran show --op softmax --backend cpp --leaf softmax_leaf
    septran show --task model.py
    """
    from septran import settings as settings_
    from septran.run import inspect

    settings = settings_.load()
    what = "leaf" if leaf else what
    if what == "program" and after is None and _only_a_task(given):
        what = "graph"
    if what == "graph":
        exactly_one(op=given["op"], task=given["task_file"], logic=given["logic"])
        text = inspect.graph(given["task_file"])
    else:
        text = inspect.show(build(given, settings), what, after=after, settings=settings, leaf=leaf)
    terminal().show(Shown(what=what, after=after, text=text), text)


def _only_a_task(given: dict[str, Any]) -> bool:
    return given["task_file"] is not None and given["backend"] is None and given["mapping"] is None
