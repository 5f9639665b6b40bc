"""Proofs in `gen` and `septran prove`: the rules of one kernel's hierarchy, at its sizes or for all sizes of some dims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from septran.errors import InputError, SeptranError
from septran.ir.access import substituted
from septran.ir.expr import Const, free
from septran.ir.nodes import CORE_ID, CORE_NUM, For, Program, Stmt, When
from septran.ir.text import parse_expr, parse_program
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.plan.symbolic import Symbolic, lower_symbolic, symbolic
from septran.plan.unmapped import Reference, unmapped
from septran.prove import ASSUMPTIONS, RULES, Certificate, Dim, Finished, prove
from septran.run import store

LARGEST = 1 << 24
"""the highest value of a symbolic size that a certificate speaks of"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A certificate, and the pass after which the first refused rule no longer holds ("" when all hold)."""

    plan: Plan
    certificate: Certificate
    guilty: str = ""


def prove_request(request: GenRequest, names: Sequence[str] = ()) -> Proof:
    """Return the proof of a request's kernel; dims `names` stay symbolic.

    Raises:
        InputError: the user's mistakes, as in `resolve` and `lower_plan`; C110, no such dim.
    """
    plan = resolve(request)
    return prove_lowered(plan, lower_plan(plan), names)


def prove_lowered(
    plan: Plan, lowered: Lowered, names: Sequence[str] = (), *, within_s: float | None = None
) -> Proof:
    """Return the proof of a lowered plan. within_s: see `septran.prove.prove`."""
    what = symbolic(plan, names)
    mapping = lowered.bound.mapping
    passes = lower_symbolic(plan, mapping, what) if names else lowered.passes
    reference = unmapped(plan, mapping, passes[0].program, what)
    question = _Question(plan=plan, reference=reference, what=what, within_s=within_s)
    domain = _domain(question, passes[-1].program)
    finished = None if names or plan.backend.copies_ordered_by else finish(plan, lowered)
    certificate = question.ask(passes[-1].program, domain, finished)
    guilty = ""
    if not certificate.holds:
        guilty = next(
            (p.name for p in passes if _refuses(question.ask(p.program, domain), certificate)), ""
        )
    return Proof(plan=plan, certificate=certificate, guilty=guilty)


def _refuses(early: Certificate, last: Certificate) -> bool:
    """Whether a rule that the last Program breaks is broken already."""
    broken = {r.rule for r in last.rules if r.state == "refused"} - {"order"}
    return any(r.rule in broken and r.state == "refused" for r in early.rules)


MISSING = "V115"
WITHIN_S = 2.0
"""seconds of proofs that every `gen` affords"""


def prove_and_keep(plan: Plan, lowered: Lowered, run: store.Run) -> dict[str, Any]:
    """Return the part of the septran.gen/1 object that says what is proven; the certificate goes to the run.

    proved: rules that hold. proof: seconds, and the rules that are refused or were not asked, with reasons.
    """
    certificate = prove_lowered(plan, lowered, within_s=WITHIN_S).certificate
    run.write("certificate.json", json.dumps(certificate.to_json(), indent=1) + "\n")
    refused = {r.rule: str(r.findings[0]) for r in certificate.rules if r.state == "refused"}
    not_asked = {r.rule: r.why for r in certificate.rules if r.state == "not asked"}
    return {
        "proved": list(certificate.proved),
        "proof": {
            "seconds": round(certificate.seconds, 3),
            "refused": refused,
            "not_asked": not_asked,
        },
    }


def unproven(data: Mapping[str, Any]) -> str:
    """Return why a result does not fulfil `--require proved`, "" when it does.

    A rule that its target answers for (TileLang, Triton and the NPU compiler order copies) is not missing.
    """
    proof = data["proof"]
    for rule, finding in proof["refused"].items():
        return f"[{MISSING}] the rule {rule} is refused: {finding}"
    missing = [rule for rule in RULES if rule not in data["proved"] and rule != "order"]
    late = {r: w for r, w in proof["not_asked"].items() if r in missing or "orders" not in w}
    for rule, why in late.items():
        return f"[{MISSING}] the rule {rule} was not decided: {why}"
    return ""


_SIZES = "the passes that order copies need sizes"


def finish(plan: Plan, lowered: Lowered) -> Finished:
    """Return what is printed of a lowered plan, with the library's leaves."""
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    program = plan.backend.finished(lowered.program, leaves)
    return distributed(program, int(plan.machine.limits.get("cores", 1)))


def distributed(program: Program, cores: int) -> Finished:
    """Return a finished Program as one of `cores` cores runs it, and that core's number as a dim.

    A processor loop that was turned into this core's share is sequential there. A Program without such loops
    comes back as it is.
    """
    used = False

    def one(stmt: Stmt) -> Stmt:
        nonlocal used
        new = substituted(stmt, {CORE_NUM: Const(cores)})
        shared = new != stmt
        used = used or shared
        match new:
            case For():
                share = CORE_ID in free(new.extent)
                body = tuple(one(s) for s in new.body)
                return replace(new, body=body, parallel=new.parallel and not share)
            case When():
                return replace(new, body=tuple(one(s) for s in new.body))
        return new

    body = tuple(one(s) for s in program.body)
    if not used:
        return Finished(program=program)
    return Finished(program=replace(program, body=body), dims=(Dim(CORE_ID, 0, cores - 1),))


def write_certificate(certificate: Certificate, path: Path) -> None:
    """Write the septran.certificate/1 object."""
    store.write_atomic(path, json.dumps(certificate.to_json(), indent=1) + "\n")


def check_certificate(path: Path) -> Certificate:
    """Return the certificate in `path`, or in a bundle, with every rule decided again from its Programs.

    Raises:
        InputError: C160, it is no certificate.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return decide_again(found.get("certificate", found))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SeptranError) as e:
        raise InputError.of(
            "C160",
            f"{path} is no certificate: {e}",
            help="`septran prove --certificate FILE` writes one",
        ) from e


def decide_again(found: Mapping[str, Any]) -> Certificate:
    """Return the certificate of a septran.certificate/1 object, decided from the Programs it carries.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    program, reference = parse_program(found["program"]), parse_program(found["reference"])
    dims = [Dim(name, int(low), int(high)) for name, (low, high) in found["domain"].items()]
    shapes = {
        name: tuple(parse_expr(e) for e in extents) for name, extents in found["shapes"].items()
    }
    unordered = str(found["rules"]["order"].get("why", ""))
    finished = None
    if found["finished"]:
        finished = Finished(
            program=parse_program(found["finished"]),
            dims=tuple(Dim(n, int(a), int(b)) for n, (a, b) in found["cores"].items()),
        )
    laws = tuple(a for a in map(str, found["assumptions"]) if a not in ASSUMPTIONS)
    return prove(
        program,
        reference,
        dims=dims,
        shapes=shapes,
        finished=finished,
        unordered=unordered,
        assumptions=laws,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    plan: Plan
    reference: Reference
    what: Symbolic
    within_s: float | None

    def ask(
        self, program: Program, domain: Sequence[Dim], finished: Finished | None = None
    ) -> Certificate:
        return prove(
            program,
            self.reference.program,
            dims=domain,
            shapes=self.what.shapes,
            finished=finished,
            unordered=self.plan.backend.copies_ordered_by or (_SIZES if self.what.sizes else ""),
            assumptions=self.reference.assumptions,
            within_s=self.within_s,
        )


def _domain(question: _Question, program: Program) -> tuple[Dim, ...]:
    """Return the widest sizes for which regions fit their tiles.

    A dim that one tile holds whole (the rows of a softmax) ends at the size its tile was made for.
    """
    from septran.prove.bounds import bounds
    from septran.prove.sets import model

    sizes = question.what.sizes
    dims = [Dim(name, 1, size) for name, size in sizes.items()]
    for at in range(len(dims)):
        wider = [*dims]
        wider[at] = replace(dims[at], high=LARGEST)
        if next(bounds(model(program, wider, question.what.shapes)), None) is None:
            dims = wider
    return tuple(dims)
