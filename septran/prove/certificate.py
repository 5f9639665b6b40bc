"""What a proof leaves behind: the rules, what refused them, and what was taken for granted.

A certificate is re-checkable, not a proof term: it carries the texts of both Programs, and anyone who has
the checker decides the rules again from them. Its trusted base is the checker, isl and the binding of the
logic without memories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from septran.errors import Span

SCHEMA = "septran.certificate/1"
State = Literal["proved", "refused", "not asked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What a statement touches of one buffer at the witness, in elements: the picture of a finding.

    statement: as people read it, with its loops' values. does: "reads" or "writes". shape: of the buffer. step: between elements.
    """

    statement: str
    does: str
    buffer: str
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    extent: tuple[int, ...]
    step: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One reason for which a rule does not hold.

    code: P0xx, see docs/errors. statements: what takes part, as people read it. at: loop variables (and
    symbolic sizes) of an instance that breaks the rule; primed names belong to the second statement.
    tiles: what the statements touch there. element: the element of `tiles` that it is about, () = none.
    """

    code: str
    text: str
    statements: tuple[str, ...] = ()
    at: tuple[tuple[str, int], ...] = ()
    places: tuple[Span, ...] = ()
    tiles: tuple[Tile, ...] = ()
    element: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = ", ".join(f"{name} = {value}" for name, value in self.at)
        return f"{self.code} {self.text}" + (f" ({where})" if where else "")

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        return {
            "code": self.code,
            "text": self.text,
            "statements": list(self.statements),
            "at": dict(self.at),
            "places": [str(p) for p in self.places],
            "tiles": [asdict(t) for t in self.tiles],
            "element": list(self.element),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """How one rule came out. why: the reason a rule was not asked. assumes: what a proof takes for granted of this kernel's indices."""

    rule: str
    state: State
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    about: str = ""
    why: str = ""
    assumes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        found: dict[str, Any] = {"state": self.state, "seconds": round(self.seconds, 3)}
        if self.about:
            found["about"] = self.about
        if self.why:
            found["why"] = self.why
        if self.assumes:
            found["assumes"] = list(self.assumes)
        if self.findings:
            found["findings"] = [f.to_json() for f in self.findings]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The rules decided for one Program.

    domain: symbolic size -> its lowest and highest value. shapes: parameter -> its extents over them.
    program, finished, reference: texts of the three. cores: ranges of the free names in `finished`: a core's number, symbolic sizes. solver: name and version of what decided.
    rows: sizes that count rows, where `row-order` was asked. source: what was printed: logic (hash), main (file name), entry, sha (of all the kernel's files), text (of `main`).
    """

    name: str
    target: str
    arch: str
    rules: tuple[RuleResult, ...]
    domain: Mapping[str, tuple[int, int]]
    shapes: Mapping[str, tuple[str, ...]]
    program: str
    finished: str
    cores: Mapping[str, tuple[int, int]]
    reference: str
    assumptions: tuple[str, ...]
    solver: str
    source: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()

    @property
    def proved(self) -> tuple[str, ...]:
        """The rules that hold."""
        return tuple(r.rule for r in self.rules if r.state == "proved")

    @property
    def assumed(self) -> dict[str, tuple[str, ...]]:
        """What rules that hold take for granted of indices that are read from memory: rule -> assumptions."""
        return {r.rule: r.assumes for r in self.rules if r.assumes}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that refused a rule."""
        return tuple(f for r in self.rules for f in r.findings)

    @property
    def holds(self) -> bool:
        """Whether no rule is refused."""
        return all(r.state != "refused" for r in self.rules)

    @property
    def seconds(self) -> float:
        """Wall time of all rules."""
        return sum(r.seconds for r in self.rules)

    def with_finding(self, rule: str, finding: Finding) -> Certificate:
        """Return the certificate with `rule` refused by one more finding."""
        rules = (
            replace(r, state="refused", why="", findings=(finding, *r.findings))
            if r.rule == rule
            else r
            for r in self.rules
        )
        return replace(self, rules=tuple(rules))

    def to_json(self) -> dict[str, Any]:
        """Return the septran.certificate/1 object."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "target": self.target,
            "arch": self.arch,
            "domain": {k: list(v) for k, v in self.domain.items()},
            "shapes": {k: list(v) for k, v in self.shapes.items()},
            "rules": {r.rule: r.to_json() for r in self.rules},
            "assumptions": list(self.assumptions),
            "solver": self.solver,
            "program": self.program,
            "finished": self.finished,
            "cores": {k: list(v) for k, v in self.cores.items()},
            "reference": self.reference,
            "source": dict(self.source),
            "rows": list(self.rows),
        }
