"""Choose a leaf for each spec of a program: the library's, the store's, a model's, or the user's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from septran.agent import config as agent_config
from septran.agent.library import AutoWriter, LibraryWriter
from septran.agent.llm import command_writer, llm_writer, replay_writer, with_flags
from septran.agent.memory import Memory
from septran.agent.store import LeafStore
from septran.agent.writer import Budget, LeafWriter, Usage, Written
from septran.backends.base import Backend
from septran.errors import ConfigError
from septran.ir.nodes import Program
from septran.kernel import Leaf, leaf_specs
from septran.mapping.schema import ExplicitMapping
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.worth import AskPlan, ask_plan, candidates
from septran.settings import Settings
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import Place
from septran.verify.problem import Problem

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenLeaves:
    """The leaves of a program by spec key, and what choosing them cost."""

    leaves: Mapping[str, Leaf]
    written: tuple[Written, ...]
    usage: Usage = field(default_factory=Usage)


def choose(
    request: GenRequest,
    place: Place,
    program: Program,
    mapping: ExplicitMapping,
    problem: Problem,
    *,
    folder: Path,
    settings: Settings,
    progress: Progress,
) -> ChosenLeaves:
    """Return the leaves the request's writer delivers; the floor is always there.

    folder: the run's directory; the agent's record goes to its agent/ folder.

    Raises:
        ConfigError: C135 unknown writer. EnvironmentProblem: L5xx, the model cannot be used.
    """
    backend = place.backend
    kind, _, detail = request.writer.partition(":")
    floor = library_leaves(backend, program, mapping, opaque=kind != "library")
    if kind == "library":
        writer: LeafWriter = LibraryWriter(backend.floor)
        if not _wants_agent(program):
            return ChosenLeaves(leaves=floor, written=())
    store = LeafStore(settings.home / "leaves")
    budget = _budget(request, backend, settings)
    writer = _writer(kind, detail, request, backend, folder, settings, store)
    if kind == "auto":
        bound = {k for k, leaf in floor.items() if leaf.writer != "library"}
        specs = [spec for _, spec in leaf_specs(program) if spec.key not in bound]
        asked = {s.key: s for s in sorted(specs, key=lambda s: not s.opaque)}
    else:
        plan = _ask_plan(request, backend, program, floor, budget, settings)
        asked = {c.work.spec.key: c.work.spec for c in plan.asked}
        progress(plan.line())
    leaves = dict(floor)
    written: list[Written] = []
    usage = Usage()
    for number, (key, spec) in enumerate(asked.items(), 1):
        progress(f"leaf {number}/{len(asked)}: {spec.task}")
        judge = LeafJudge(place, program, problem, leaves, work=folder / "leaves" / key)
        result = writer.write(spec, judge, budget)
        written.append(result)
        usage = usage + result.usage
        leaves[key] = result.leaf
        progress(f"leaf {number}/{len(asked)}: {spec.task}: {result.leaf.name} ({result.reason})")
    return ChosenLeaves(leaves=leaves, written=tuple(written), usage=usage)


def what_is_asked(request: GenRequest, *, settings: Settings) -> AskPlan:
    """Return what `request` would ask a model for, in which order, and the most it can cost; asks nobody.

    Raises:
        ConfigError: C137 a --leaf that the kernel does not have.
    """
    plan = resolve(request)
    lowered = lower_plan(plan)
    opaque = request.writer != "library"
    floor = library_leaves(plan.backend, lowered.program, lowered.bound.mapping, opaque=opaque)
    budget = _budget(request, plan.backend, settings)
    return _ask_plan(request, plan.backend, lowered.program, floor, budget, settings)


def _ask_plan(
    request: GenRequest,
    backend: Backend,
    program: Program,
    floor: Mapping[str, Leaf],
    budget: Budget,
    settings: Settings,
) -> AskPlan:
    config = _config(request, backend, settings)
    found = candidates(program, floor, backend, config, request.leaves)
    if request.writer == "library":  # only what the mapping gives to an agent
        agents = {spec.key for call, spec in leaf_specs(program) if call.impl == "agent"}
        found = tuple(c for c in found if c.work.spec.key in agents)
    return ask_plan(found, backend, config, budget)


def _wants_agent(program: Program) -> bool:
    return any(call.impl == "agent" for call, _ in leaf_specs(program))


def _config(request: GenRequest, backend: Backend, settings: Settings) -> agent_config.AgentConfig:
    over = {}
    if settings.base_url:
        over["base_url"] = settings.base_url
    if settings.model:
        over["model"] = settings.model
    sources = [agent_config.override("settings", over)] if over else []
    if request.search:
        kind = request.search
        sources.append(agent_config.override("--search", {"search": {"kind": kind}}))
    return agent_config.load(backend.docs, file=request.config, over=sources, among=settings.layers)


def _budget(request: GenRequest, backend: Backend, settings: Settings) -> Budget:
    base = _config(request, backend, settings).budget
    return with_flags(
        base,
        attempts=request.attempts,
        candidates=request.candidates,
        tokens=request.budget_tokens,
        minutes=request.budget_minutes,
    )


def _writer(
    kind: str,
    detail: str,
    request: GenRequest,
    backend: Backend,
    folder: Path,
    settings: Settings,
    store: LeafStore,
) -> LeafWriter:
    config = _config(request, backend, settings)
    shared = [Path(str(folder)).expanduser() for folder in config.get("memory", "folders")]
    memory = Memory((settings.home / "memory", *shared))
    match kind:
        case "auto":
            return AutoWriter(backend.floor, store)
        case "library" | "llm":
            return llm_writer(backend, config, folder / "agent", store=store, memory=memory)
        case "command" if detail:
            return command_writer(
                backend, config, folder / "agent", detail, store=store, memory=memory
            )
        case "replay" if detail:
            from septran.run import store as runs

            recorded = runs.find(detail, runs.root(settings)).dir / "agent"
            return replay_writer(backend, config, folder / "agent", recorded)
    raise ConfigError.of(
        "C135",
        f"writer {request.writer!r} is unknown",
        help="use library, auto, llm, replay:RUN or command:PROGRAM",
    )
