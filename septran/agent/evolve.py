"""Search by island evolution: several small populations of right leaves that exchange their best.

Method: islands with migration and an archive of all children, as in genetic programming with language models
(Romera-Paredes et al., "Mathematical discoveries from program search with large language models", 2023).
Every choice comes from a generator seeded with the leaf's key, so a resumed run takes the same course.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from septran.agent.figures import preferred
from septran.agent.session import Exhausted, Session
from septran.agent.writer import Attempt
from septran.outcome import LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One child in the archive. right: it was verified. speedup: of a timed right leaf. figures: without a clock, of a right one.

    fitness: its speed-up when it was timed; of a wrong leaf a tenth of how far it got; None of a right one that nobody timed.
    """

    id: int
    island: int
    generation: int
    parents: tuple[int, ...]
    sha: str
    level: str
    status: str
    speedup: float | None
    fitness: float | None
    right: bool
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Archive:
    """All children of one leaf's search, in order of birth."""

    spec: str
    nodes: list[Node] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the archive with its lineage (each node names its parents)."""
        return {
            "schema": "septran.archive/1",
            "spec": self.spec,
            "nodes": [asdict(n) for n in self.nodes],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Archive:
        """Return the archive that `to_json` wrote."""
        nodes = [Node(**{**n, "parents": tuple(n["parents"])}) for n in value["nodes"]]
        return cls(value["spec"], nodes)

    def survivors(self, island: int, count: int) -> list[Node]:
        """Return the best `count` different children of an island, the best first."""
        seen: set[str] = set()
        found: list[Node] = []
        for node in ranked([n for n in self.nodes if n.island == island and n.sha]):
            if node.sha not in seen:
                seen.add(node.sha)
                found.append(node)
        return found[:count]


def ranked(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes, the best first: timed leaves by speed-up, then right ones by figures, then how far the wrong ones got.

    A right leaf that nobody timed counts as no gain: it is before what is wrong and behind what has a time. Among such,
    one is before another that fewer of them are worse than, as `preferred` says; the earlier one is first of equals.
    """
    untimed = [n for n in nodes if n.right and n.speedup is None]
    wins = {n.id: sum(preferred(n.figures, o.figures) or 0 for o in untimed) for n in untimed}

    def place(node: Node) -> tuple[bool, bool, float, int]:
        worth = float(wins[node.id]) if node.id in wins else node.fitness or 0.0
        return (node.right, node.speedup is not None, worth, -node.id)

    return sorted(nodes, key=place, reverse=True)


def fitness(attempt: Attempt) -> float | None:
    """Return the speed-up of a verified leaf (None when it is not measured), else a tenth of how far it got."""
    verdict = attempt.verdict
    if verdict.verified:
        return verdict.speedup
    return LEVELS.index(verdict.level) / (10 * len(LEVELS))


def evolve(session: Session) -> str:
    """Run the generations; return the reason of the end. The archive is stored after every generation."""
    search = session.config.get("search")
    islands = int(search["islands"])
    rng = random.Random(session.spec.key)
    archive = Archive(session.spec.key)
    attempts: dict[int, Attempt] = {}
    try:
        for generation in range(int(search["generations"]) + 1):
            _generation(session, archive, attempts, generation, rng)
            if generation and generation % int(search["migrate_every"]) == 0:
                _migrate(archive, islands)
            session.record.write(f"archives/{session.spec.key}.json", archive.to_json())
            if "goal" in session.facts():
                return "verified and faster than the library leaf"
    except Exhausted as end:
        session.record.write(f"archives/{session.spec.key}.json", archive.to_json())
        return str(end)
    return f"{search['generations']} generations are done"


def _generation(
    session: Session,
    archive: Archive,
    attempts: dict[int, Attempt],
    generation: int,
    rng: random.Random,
) -> None:
    search = session.config.get("search")
    islands, population = int(search["islands"]), int(search["population"])
    jobs: list[tuple[int, tuple[Node, ...]]] = []
    for island in range(islands):
        jobs.extend(
            (island, _parents(archive, island, population, rng))
            for _ in range(max(1, session.budget.candidates))
        )
    prompts = []
    for _, parents in jobs:
        context = session.context()
        if not parents:
            prompts.append(("first", replace(context, last=None, best=None)))
            continue
        shown = [session.shown(attempts[p.id]) for p in parents]
        prompts.append(
            (
                "evolve",
                replace(
                    context,
                    last=None,
                    parent=shown[0],
                    inspiration=shown[1] if len(shown) > 1 else None,
                    log=attempts[parents[0].id].verdict.message,
                ),
            )
        )
    made = session.code(prompts, mode="evolve", temperature=1.0 if generation else None)
    for (island, parents), attempt in zip(jobs, made, strict=False):
        node = Node(
            id=len(archive.nodes) + 1,
            island=island,
            generation=generation,
            parents=tuple(p.id for p in parents),
            sha=attempt.leaf.sha if attempt.leaf else "",
            level=attempt.verdict.level,
            status=attempt.verdict.status,
            speedup=attempt.verdict.speedup,
            fitness=fitness(attempt),
            right=attempt.verdict.verified,
            figures=dict(attempt.verdict.figures) if attempt.verdict.verified else {},
        )
        archive.nodes.append(node)
        attempts[node.id] = attempt


def _parents(
    archive: Archive, island: int, population: int, rng: random.Random
) -> tuple[Node, ...]:
    """Return a parent, chosen by rank, and another right leaf for ideas, if there are any."""
    alive = archive.survivors(island, population)
    if not alive:
        return ()
    parent = rng.choices(alive, weights=[2.0**-i for i in range(len(alive))])[0]
    others = [n for n in alive if n.sha != parent.sha and n.right and (n.speedup or 1.0) >= 1.0]
    return (parent, rng.choice(others)) if others else (parent,)


def _migrate(archive: Archive, islands: int) -> None:
    """Copy each island's best to the next island, as a child of itself."""
    best = [archive.survivors(i, 1) for i in range(islands)]
    for island, found in enumerate(best):
        target = (island + 1) % islands
        if not found or target == island:
            continue
        node = found[0]
        if any(n.sha == node.sha for n in archive.nodes if n.island == target):
            continue
        archive.nodes.append(
            replace(node, id=len(archive.nodes) + 1, island=target, parents=(node.id,))
        )
