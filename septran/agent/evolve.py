"""Search by island evolution: several small populations of right leaves that exchange their best.

Method: islands with migration and an archive of all children, as in genetic programming with language models
(Romera-Paredes et al., "Mathematical discoveries from program search with large language models", 2023).
Every choice comes from a generator seeded with the leaf's key, so a resumed run takes the same course.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from septran.agent.session import Exhausted, Session
from septran.agent.writer import Attempt
from septran.outcome import LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One child in the archive. fitness: speed-up when verified, else below 1 by how far it got, / 10."""

    id: int
    island: int
    generation: int
    parents: tuple[int, ...]
    sha: str
    level: str
    status: str
    speedup: float | None
    fitness: float


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
        for node in sorted(self.nodes, key=lambda n: (-n.fitness, n.id)):
            if node.island == island and node.sha and node.sha not in seen:
                seen.add(node.sha)
                found.append(node)
        return found[:count]


def fitness(attempt: Attempt) -> float:
    """Return the speed-up of a verified leaf (1 when it is not measured), else a tenth of how far it got."""
    verdict = attempt.verdict
    if verdict.verified:
        return verdict.speedup if verdict.speedup is not None else 1.0
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
    others = [n for n in alive if n.sha != parent.sha and n.fitness >= 1.0]
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
