"""What `septran map` and `septran show` print: any step of the straight line, as text."""

from __future__ import annotations

import textwrap
from pathlib import Path

from septran.errors import ConfigError, closest
from septran.ir.nodes import Program
from septran.ir.text import print_program
from septran.kernel import Leaf
from septran.mapping import text as mapping_file
from septran.passes.run import PassRun
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.settings import Settings


def mapping_text(request: GenRequest, *, settings: Settings) -> str:
    """Return the explicit mapping of a request as YAML in the seeds' form."""
    plan = resolve(request)
    lowered = lower_plan(plan)
    return mapping_file.mapping_text(
        lowered.bound.mapping,
        comment=f"{plan.operator.name} on {plan.backend.name}"
        + (f" ({plan.arch})" if plan.arch else "")
        + f", made from {_source(plan, request)}\n"
        + "dims: "
        + ", ".join(f"{k}={v}" for k, v in plan.dims.items())
        + f"; dtype: {plan.dtype}",
    )


def _source(plan: Plan, request: GenRequest) -> str:
    """Return the mapping's name: the path the user gave, or the data file's name below the root."""
    return str(request.mapping or Path("mappings", Path(plan.mapping.file).name))


def show(
    request: GenRequest,
    what: str,
    *,
    after: str | None,
    settings: Settings,
    leaf: str | None = None,
) -> str:
    """Return the text of one step.

    what: task, program, passes, tir, kernel, leafspec, leaf or prompt. after: a pass's name, for program (default: the
    last, so that the program is what is printed) and tir (default: the last before leaves are chosen). leaf: a task's
    name, for leaf.

    Raises:
        ConfigError: C137 unknown pass, step or task.
    """
    plan = resolve(request)
    if what == "task":
        return _task(plan)
    lowered = lower_plan(plan)
    match what:
        case "program":
            last = after or _outcomes(plan, lowered)[-1].name
            return print_program(_program_after(plan, lowered, last))
        case "passes":
            return "".join(
                f"{p.name:20s} {'changed' if p.changed else 'unchanged':10s} {p.ms:6.1f} ms\n"
                for p in _outcomes(plan, lowered)
            )
        case "tir":
            from septran.backends import tensor_ir

            return tensor_ir(_program_after(plan, lowered, after))
        case "kernel":
            leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
            return plan.backend.emit(lowered.program, leaves).source
        case "leafspec":
            return _leafspecs(plan, lowered)
        case "leaf":
            return _leaf_bodies(plan, lowered, leaf or "")
        case "prompt":
            return _prompts(plan, lowered, settings)
    raise ConfigError.of("C137", f"nothing called {what!r} can be shown")


def graph(task_file: Path | None) -> str:
    """Return a torch module's graph before and after fusion.

    Raises:
        ConfigError: C137 no module file; C134, C150, C151, C152 as `septran import` raises them.
    """
    from septran.frontend.draw import draw
    from septran.plan.task_file import import_module

    if task_file is None:
        raise ConfigError.of("C137", "only a torch module has a graph", help="give --task FILE")
    found = import_module(task_file)
    return draw(found.graph, found.written)


def _task(plan: Plan) -> str:
    from septran.plan.resolve import arguments
    from septran.tasklang.check import check_logic
    from septran.tasklang.tree import tree_text

    types = arguments(plan, plan.dims)
    ranks = {p: len(t.shape) for p, t in types.items() if hasattr(t, "shape")}
    traces = check_logic(plan.operator.entry, ranks)
    return "\n\n".join(tree_text(t) for t in traces.found.values()) + "\n"


def _outcomes(plan: Plan, lowered: Lowered) -> tuple[PassRun, ...]:
    """Return what every pass made of the program, those that follow the choice of library leaves included."""
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    finish: list[PassRun] = []
    plan.backend.finished(lowered.program, leaves, after=finish.append)
    return (*lowered.passes, *finish)


def _program_after(plan: Plan, lowered: Lowered, after: str | None) -> Program:
    if after is None:
        return lowered.program
    outcomes = lowered.passes
    if after not in (p.name for p in outcomes):
        outcomes = _outcomes(plan, lowered)
    names = [p.name for p in outcomes]
    if after not in names:
        raise ConfigError.of(
            "C137",
            f"no pass {after!r}{closest(after, names)}",
            help=f"the passes are {', '.join(names)}",
        )
    return next(p.program for p in outcomes if p.name == after)


def _leaf_bodies(plan: Plan, lowered: Lowered, task: str) -> str:
    """Return the bodies of the library's leaves of a task as a reply could give them."""
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    known = {leaf.spec.task for leaf in leaves.values()}
    found = [leaf for leaf in leaves.values() if leaf.spec.task == task]
    if not found:
        raise ConfigError.of(
            "C137",
            f"{plan.operator.name} has no leaf {task!r}{closest(task, known)}",
            help=f"its leaves are {', '.join(sorted(known))}",
        )
    listed = next((leaf for leaf in found if leaf.listed), None)
    if listed is not None:
        raise ConfigError.of(
            "C137",
            f"the library's leaf {task} of {plan.backend.name} has no text: its operations are put where it is called",
            notes=listed.source.splitlines(),
        )
    return "\n".join(leaf_body(leaf, plan.backend.signature(leaf.spec)) for leaf in found)


def leaf_body(leaf: Leaf, signature: str) -> str:
    """Return what stands below a leaf's signature, not indented: what replaces YOUR CODE."""
    rest = leaf.source.strip("\n").removeprefix(signature.strip("\n"))
    text = rest.strip()
    if text.startswith("{"):
        text = text[1:].rstrip().removesuffix("}")
        return textwrap.dedent(text.strip("\n")).rstrip() + "\n"
    return textwrap.dedent(rest.strip("\n")).rstrip() + "\n"


def _leafspecs(plan: Plan, lowered: Lowered) -> str:
    from septran.agent.contract import render_leafspec
    from septran.trial.judge import distinct_specs

    return "\n\n".join(
        f"# {spec.symbol}  key {spec.key}\n{render_leafspec(spec, plan.backend)}"
        for spec in distinct_specs(lowered.program)
    )


def _prompts(plan: Plan, lowered: Lowered, settings: Settings) -> str:
    from septran.agent import config as agent_config
    from septran.agent.chat import messages_tokens
    from septran.agent.prompt import render_prompt
    from septran.trial.judge import distinct_specs

    config = agent_config.load(plan.backend.docs, among=settings.layers)
    parts = []
    for spec in distinct_specs(lowered.program):
        messages = render_prompt(spec, plan.backend, config)
        parts.append(f"===== {spec.symbol}: about {messages_tokens(messages)} tokens =====")
        parts += [f"----- {m.role} -----\n{m.text}" for m in messages]
    return "\n".join(parts) + "\n"
