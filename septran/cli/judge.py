"""`septran judge`: a kernel that SepTran did not write, against a torch reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click

from septran.cli.console import Terminal
from septran.cli.files import INPUT, OUTPUT_FOLDER
from septran.cli.options import backend_names, common, complete, terminal
from septran.cli.steps import steps
from septran.cli.values import parse_numbers
from septran.verify.warp_accesses import told


@click.command("judge")
@click.argument("file", type=INPUT)
@click.option(
    "--reference",
    type=INPUT,
    required=True,
    metavar="MODULE.py",
    help="What it should compute: `Model` or a function `reference`, and `get_inputs`.",
)
@click.option(
    "--entry", default="", metavar="NAME", help="The host function; default: the only one."
)
@click.option(
    "--backend",
    default="",
    metavar="NAME",
    shell_complete=complete(backend_names),
    help="What FILE is written for; default: told from FILE.",
)
@click.option(
    "--number", "numbers", multiple=True, metavar="NAME=VALUE", help="Value of a number parameter."
)
@click.option(
    "--allow-torch",
    "allow_torch",
    multiple=True,
    metavar="NAMES",
    help="Operators that torch may compute beside the kernels (matmul,conv2d or all); the verdict names them.",
)
@click.option(
    "--in-place",
    "in_place",
    multiple=True,
    metavar="NAME",
    help="A parameter whose tensor the function changes into a result; of several in the order of the results.",
)
@click.option(
    "--sizes",
    type=click.Choice(["any", "given"]),
    default="any",
    show_default=True,
    help="Whether it is also called at other sizes where it compares sizes with numbers, or at those of the reference alone.",
)
@click.option("--specials", is_flag=True, help="Also NaN, infinities, denormals and signed zeros.")
@click.option(
    "--where",
    type=click.Choice(["auto", "device", "emulated"]),
    default="auto",
    show_default=True,
    help="Whether it also runs on a GPU, after the emulation: where one is here, always, or never.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Of the secret inputs; default: random.")
@click.option(
    "--evidence",
    type=OUTPUT_FOLDER,
    help="Keep verdict, log and what was run in this folder.",
)
@common
def command(
    *,
    file: Path,
    reference: Path,
    entry: str,
    backend: str,
    numbers: tuple[str, ...],
    allow_torch: tuple[str, ...],
    in_place: tuple[str, ...],
    sizes: Literal["any", "given"],
    specials: bool,
    where: Literal["auto", "device", "emulated"],
    seed: int | None,
    evidence: Path | None,
) -> int:
    r"""Judge the kernel in FILE: accuracy, races, bounds, uninitialised reads, precision, cheating.

    \b
    septran judge softmax.py --reference softmax_reference.py
    septran judge gemm.cu --reference gemm_reference.py --number M=64
    """
    from septran import settings as settings_
    from septran.run.judge import judge
    from septran.run.judgement import JudgeRequest

    request = JudgeRequest(
        file=file,
        reference=reference,
        entry=entry,
        backend=backend,
        numbers=parse_numbers(numbers),
        specials=specials,
        allow_torch=allow_torch,
        in_place=in_place,
        sizes=sizes,
        where=where,
        seed=seed,
    )
    term = terminal()
    with steps(term) as progress:
        found = judge(request, settings=settings_.load(), work=evidence, progress=progress)
    shown = found.to_json()
    if term.json:
        term.emit(shown)
    else:
        show(shown, term)
    return found.code


def show(result: Mapping[str, Any], term: Terminal) -> None:
    """Write the card of a septran.judge/1 object."""
    head = f"{result['entry']} of {Path(result['file']).name} on {result['backend']} ({result['where']})"
    lines = [("verdict", result["level"] + (f": {result['finding']}" if result["finding"] else ""))]
    if result["reason"]:
        lines.append(("because", result["reason"]))
    if result["hint"]:
        lines.append(("hint", result["hint"]))
    if result["ok"]:
        used = 100 * float(result["budget_ratio"])
        lines.append(
            ("errors", f"{used:.0f} % of what is allowed; largest {float(result['max_error']):.3g}")
        )
    if result["device"]["calls"] and result["ok"]:
        lines.append(("on the GPU", _on_gpu(result["device"])))
    if result["compiler"]:
        lines.append(("compiler", result["compiler"]))
    if result["proved"]:
        lines.append(("proved", ", ".join(result["proved"])))
    lines += [("not proven", f"{rule}: {why}") for rule, why in result["not_proven"].items()]
    if result["taken"]:
        lines.append(("taken", ", ".join(f"{n} = {v}" for n, v in result["taken"].items())))
    if result["by_torch"]:
        lines.append(("by torch", ", ".join(result["by_torch"])))
    lines += told(result["verdict"].get("accesses") or {})
    lines += [("left out", text) for text in result["left_out"]]
    lines += [("not checked", text) for text in result["not_checked"]]
    lines.append(("seed", str(result["seed"])))
    width = max(len(name) for name, _ in lines)
    term.result(head + "\n" + "".join(f"  {n.ljust(width)}  {t}\n" for n, t in lines))


def _on_gpu(found: Mapping[str, Any]) -> str:
    told = f"{found['gpu']}: right in {found['calls']} calls"
    if not found["seconds"]:
        return told
    own, torch = float(found["seconds"]), float(found["torch_seconds"])
    return f"{told}; {1e6 * own:.1f} us a call, torch's operators {1e6 * torch:.1f} us ({torch / own:.2f} x)"
