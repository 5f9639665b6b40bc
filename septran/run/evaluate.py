"""`septran eval`: how well a model writes leaves, over a fixed list of leaves, targets and seeds; resumable.

A cell is one leaf on one target with one seed: the model is asked until a reply is verified or the calls are used. A cell's
result is written whole when it ends, and its calls as they are paid for, so that a killed evaluation goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from septran import assets, backends, spanyaml
from septran.agent import config as agent_config
from septran.agent.llm import SearchWriter, command_writer, llm_writer
from septran.agent.memory import Memory
from septran.agent.record import write_whole
from septran.agent.writer import Budget, Judge, Written
from septran.backends.base import Backend
from septran.document import plain_text
from septran.errors import ConfigError, closest
from septran.kernel import Leaf, LeafSpec, content_hash
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.settings import Settings
from septran.trial.judge import distinct_specs
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_in

SCHEMA = "septran.eval/1"
Progress = Callable[[str], None]
_STEPS = [
    {"when": "verified", "stop": "verified"},
    {"when": "unavailable", "stop": "leaves cannot be judged here"},
    {"when": "start", "ask": ["coder"], "mode": "first"},
    {"when": "cut", "ask": ["coder"], "mode": "shorter"},
    {"when": "repeated", "ask": ["coder"], "mode": "redesign", "temperature": 1.0},
    {"when": "failed", "ask": ["coder"], "mode": "repair"},
]
"""The workflow of a cell: until verified; speed is measured, not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRequest:
    """The flags of `septran eval`. leaves: "op" or "op:leaf" of the list, () = all. command: instead of an endpoint."""

    backends: tuple[str, ...]
    folder: Path
    seeds: int = 1
    attempts: int = 3
    leaves: tuple[str, ...] = ()
    file: Path | None = None
    config: Path | None = None
    command: str | None = None
    memory: Path | None = None
    """folder of lessons that prompts show and that verified leaves add to; None = every leaf starts without"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What became of one leaf, target and seed.

    status: verified, failed, or unavailable (it cannot be judged here; counts for nothing). first: call that gave the
    verified leaf, None when none did. speedup: over the library's leaf, None where times are not measured.
    """

    op: str
    leaf: str
    backend: str
    seed: int
    key: str
    status: str
    model: str = ""
    first: int | None = None
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    estimated: bool = False
    speedup: float | None = None
    statuses: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The cell's file name, without ending."""
        return f"{self.backend}-{self.op}-{self.leaf}-{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All cells of one target. passed: k -> share of cells verified within k calls. to_verified: calls until one was, on average.

    faster: share of the measured ones that beat the library's leaf by `min_gain`. leaves, seeds: what was asked for.
    """

    model: str
    backend: str
    leaves: int
    seeds: int
    cells: int
    unavailable: int
    passed: dict[int, float]
    to_verified: float | None
    measured: int
    faster: float | None
    calls: int
    tokens: int
    cost: float
    estimated: bool

    def text(self, currency: str) -> str:
        """Return the Markdown row of docs/agents.md."""
        share = [f"{100 * self.passed[k]:.0f} %" for k in sorted(self.passed)]
        faster = "-" if self.faster is None else f"{100 * self.faster:.0f} %"
        tokens = f"{self.tokens}{' (estimated)' if self.estimated else ''}"
        cost = f"{self.cost:.2f} {currency}" if self.cost else "-"
        asked = f"{self.leaves} x {self.seeds}"
        shown = [
            self.model,
            self.backend,
            asked if not self.unavailable else f"{self.cells} of {asked}",
            *share,
            "-" if self.to_verified is None else f"{self.to_verified:.2f}",
            faster,
            str(self.calls),
            tokens,
            cost,
        ]
        return f"| {' | '.join(shown)} |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A finished evaluation."""

    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    version: int
    attempts: int
    seeds: int
    currency: str
    reused: int = field(default=0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the septran.eval/1 object."""
        return {
            "schema": SCHEMA,
            "list": self.version,
            "attempts": self.attempts,
            "seeds": self.seeds,
            "currency": self.currency,
            "rows": [
                {**asdict(r), "passed": {str(k): v for k, v in r.passed.items()}} for r in self.rows
            ],
            "cells": [asdict(c) for c in self.cells],
        }

    def table(self) -> str:
        """Return the Markdown table of docs/agents.md."""
        ks = sorted(self.rows[0].passed) if self.rows else [1, 3]
        heads = [
            "model",
            "target",
            "leaves x seeds",
            *(f"pass@{k}" for k in ks),
            "calls to verified",
            "faster",
            "calls",
            "tokens",
            "cost",
        ]
        lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        return "\n".join([*lines, *(r.text(self.currency) for r in self.rows)]) + "\n"


def evaluate(request: EvalRequest, *, settings: Settings, progress: Progress) -> Evaluation:
    """Run every cell that has no result yet; everything is below `request.folder`.

    Raises:
        ConfigError: C143 a list or a name in it that cannot be used. EnvironmentProblem: L5xx, the model
            cannot be used; what is done stays, the same command goes on.
    """
    request = replace(
        request, folder=request.folder.absolute()
    )  # children have folders of their own
    version, listed = _listed(request)
    cells: list[Cell] = []
    reused = 0
    jobs = [
        (b, op, leaf, s)
        for b in request.backends
        for op, leaf in listed
        for s in range(request.seeds)
    ]
    currency, gains = "USD", dict[str, float]()
    for number, (backend_name, op, leaf, seed) in enumerate(jobs, 1):
        backend = backends.get(backend_name)
        config = _config(request, backend, settings, seed)
        currency = str(config.get("prices", "currency"))
        gains[backend_name] = float(config.get("min_gain"))
        key = content_hash(
            [
                version,
                request.attempts,
                request.command or "",
                request.memory is not None,
                {k: v["value"] for k, v in config.to_json().items()},
            ]
        )
        path = request.folder / "cells" / f"{backend_name}-{op}-{leaf}-{seed}.json"
        cell = _kept(path, key)
        reused += cell is not None
        if cell is None:
            progress(f"{number}/{len(jobs)}: {backend_name} {op}:{leaf}, seed {seed}")
            cell = _run(request, backend, op, leaf, seed, key, config, settings)
            write_whole(path, json.dumps(asdict(cell), indent=1, sort_keys=True) + "\n")
            progress(
                f"{number}/{len(jobs)}: {cell.status} ({', '.join(cell.statuses) or 'no call'})"
            )
        cells.append(cell)
    done = Evaluation(
        rows=tuple(
            _row([c for c in cells if c.backend == b], request, gains[b]) for b in request.backends
        ),
        cells=tuple(cells),
        version=version,
        attempts=request.attempts,
        seeds=request.seeds,
        currency=currency,
        reused=reused,
    )
    write_whole(request.folder / "eval.json", json.dumps(done.to_json(), indent=1) + "\n")
    return done


def _listed(request: EvalRequest) -> tuple[int, tuple[tuple[str, str], ...]]:
    path = request.file or assets.find("configs/eval/leaves.yaml").path
    document = spanyaml.load(path)
    value = document.value if isinstance(document.value, dict) else {}
    version, entries = value.get("version"), value.get("leaves")
    if not isinstance(version, int) or not isinstance(entries, list) or not entries:
        raise ConfigError.of(
            "C143",
            f"{path}: an evaluation is {{version: N, leaves: [{{op: ..., leaf: ...}}, ...]}}",
        )
    found: list[tuple[str, str]] = []
    for i, each in enumerate(entries):
        if (
            not isinstance(each, dict)
            or {*each} != {"op", "leaf"}
            or not all(isinstance(v, str) for v in each.values())
        ):
            raise ConfigError.of(
                "C143", "an entry is {op: NAME, leaf: TASK}", document.key_span("leaves", i)
            )
        found.append((each["op"], each["leaf"]))
    names = [*(op for op, _ in found), *(f"{op}:{leaf}" for op, leaf in found)]
    for name in request.leaves:
        if name not in names:
            raise ConfigError.of("C143", f"{name!r} is not in the list{closest(name, names)}")
    chosen = [
        (op, leaf)
        for op, leaf in found
        if not request.leaves or op in request.leaves or f"{op}:{leaf}" in request.leaves
    ]
    return version, tuple(chosen)


def _config(
    request: EvalRequest, backend: Backend, settings: Settings, seed: int
) -> agent_config.AgentConfig:
    over: dict[str, Any] = {"workflow": _STEPS, "accept": "verified", "on_unreachable": "fail"}
    over["request"] = {"seed": 1000 * seed}
    sources = [agent_config.override("septran eval", over)]
    flags = {"base_url": settings.base_url, "model": settings.model}
    sources.append(agent_config.override("settings", flags))
    return agent_config.load(backend.docs, file=request.config, over=sources, among=settings.layers)


def _kept(path: Path, key: str) -> Cell | None:
    try:
        value = json.loads(plain_text(path))
        cell = Cell(**{**value, "statuses": tuple(value["statuses"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return cell if cell.key == key else None


def _run(
    request: EvalRequest,
    backend: Backend,
    op: str,
    leaf: str,
    seed: int,
    key: str,
    config: agent_config.AgentConfig,
    settings: Settings,
) -> Cell:
    blank = Cell(op=op, leaf=leaf, backend=backend.name, seed=seed, key=key, status="unavailable")
    work = request.folder / "work" / f"{blank.name}-{key}"
    spec, judge = judge_of(backend, op, leaf, settings, work / "judge")
    writer = _writer(request, backend, config, work / "agent")
    written = writer.write(spec, judge, Budget(attempts=request.attempts))
    return _cell(blank, written)


def judge_of(
    backend: Backend, op: str, task: str, settings: Settings, work: Path
) -> tuple[LeafSpec, Judge]:
    """Return a leaf of an operator at its sample dims and the judge of it. Raises ConfigError C143."""
    plan = resolve(GenRequest(op=op, backend=backend.name))
    lowered = lower_plan(plan)
    specs = distinct_specs(lowered.program)
    spec = next((s for s in specs if s.task == task), None)
    if spec is None:
        known = sorted({s.task for s in specs})
        raise ConfigError.of(
            "C143", f"{op} has no leaf {task!r} on {backend.name}{closest(task, known)}"
        )
    floor: dict[str, Leaf] = library_leaves(backend, lowered.program, lowered.bound.mapping)
    problem = problem_of(plan, lowered.program, plan.dims)
    place = place_in(settings, plan.backend, plan.arch, "auto")
    return spec, LeafJudge(place, lowered.program, problem, floor, work=work)


def _writer(
    request: EvalRequest, backend: Backend, config: agent_config.AgentConfig, folder: Path
) -> SearchWriter:
    memory = Memory((request.memory,)) if request.memory is not None else None
    if request.command:
        return command_writer(backend, config, folder, request.command, memory=memory)
    return llm_writer(backend, config, folder, memory=memory)


def _cell(blank: Cell, written: Written) -> Cell:
    history = written.history
    good = [a for a in history if a.verdict.verified]
    gains = [a.verdict.speedup for a in good if a.verdict.speedup is not None]
    # one reply may be refused before anybody sees that the next cannot be judged
    lost = not good and any(a.verdict.status == "unavailable" for a in history)
    return Cell(
        op=blank.op,
        leaf=blank.leaf,
        backend=blank.backend,
        seed=blank.seed,
        key=blank.key,
        status="unavailable" if lost else "verified" if good else "failed",
        model=next((a.model for a in history if a.model), ""),
        first=good[0].number if good else None,
        calls=written.usage.calls,
        prompt_tokens=written.usage.prompt_tokens,
        completion_tokens=written.usage.completion_tokens,
        cost=written.usage.cost,
        estimated=written.usage.estimated,
        speedup=max(gains) if gains else None,
        statuses=tuple(a.verdict.status for a in history),
    )


def _row(cells: Sequence[Cell], request: EvalRequest, gain: float) -> Row:
    """Return the row of one target; there is at least one cell. gain: speed-up that counts as faster."""
    attempts = request.attempts
    counted = [c for c in cells if c.status != "unavailable"]
    timed = [c.speedup for c in counted if c.speedup is not None]
    firsts = [c.first for c in counted if c.first is not None]
    many = len(counted) or 1

    def within(k: int) -> float:
        return sum(c.first is not None and c.first <= k for c in counted) / many

    return Row(
        model=", ".join(sorted({c.model for c in cells if c.model})) or "-",
        backend=cells[0].backend,
        leaves=len({(c.op, c.leaf) for c in cells}),
        seeds=request.seeds,
        cells=len(counted),
        unavailable=len(cells) - len(counted),
        passed={k: within(k) for k in sorted({1, min(3, attempts), attempts})},
        to_verified=sum(firsts) / len(firsts) if firsts else None,
        measured=len(timed),
        faster=sum(s >= gain for s in timed) / len(timed) if timed else None,
        calls=sum(c.calls for c in cells),
        tokens=sum(c.prompt_tokens + c.completion_tokens for c in cells),
        cost=sum(c.cost for c in cells),
        estimated=any(c.estimated for c in cells),
    )
