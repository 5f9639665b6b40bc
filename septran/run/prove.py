"""Proofs in `gen` and `septran prove`: the rules of one kernel's hierarchy, at its sizes or for all sizes of some dims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from septran import backends
from septran.atomic import write_atomic
from septran.backends.base import Backend
from septran.document import plain_text
from septran.errors import InputError, SeptranError, Span
from septran.ir.access import names_engines, substituted
from septran.ir.expr import Const, free
from septran.ir.nodes import CORE_ID, CORE_NUM, For, Program, Stmt, When
from septran.ir.text import parse_expr, parse_program
from septran.kernel import Kernel, Leaf, LeafSpec, leaf_specs
from septran.mapping.schema import Policy
from septran.plan.batch_invariant import MOST_ROWS, refused
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.plan.rows import row_dims
from septran.plan.symbolic import Symbolic, domain, lower_symbolic, symbolic, widened
from septran.plan.unmapped import Reference, unmapped
from septran.prove import ASSUMPTIONS, Certificate, Dim, Finding, Finished, prove
from septran.prove.prove import UNREAD
from septran.prove.rows import LEAVES, ROW_ORDER
from septran.run import store


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
    lowered = lower_plan(plan)
    if isinstance(plan.mapping, Policy) and plan.mapping.deterministic and not names:
        return prove_rows(plan, lowered)
    return prove_lowered(plan, lowered, names)


def prove_rows(plan: Plan, lowered: Lowered) -> Proof:
    """Return the proof of a plan under `deterministic: batch-invariant`, for every number of rows.

    It is the certificate of all its kernels: they have these tiles and leaves, whatever the number of rows.

    Raises:
        MappingError: M092, the rule row-order does not hold.
    """
    rows = row_dims(plan.operator)
    every = replace(plan, dims={**plan.dims, **dict.fromkeys(rows, MOST_ROWS)})
    proof = prove_lowered(every, lowered, rows)
    certificate = proof.certificate
    for rule in certificate.rules:
        if rule.rule == ROW_ORDER and rule.state != "proved":
            raise refused(str(rule.findings[0]) if rule.findings else rule.why)
    ours, theirs = (
        [spec for _, spec in leaf_specs(p)]
        for p in (lowered.program, parse_program(certificate.program))
    )
    if [(s.task, s.params) for s in ours] != [(s.task, s.params) for s in theirs]:
        raise refused("its leaves are others than those that are proven for every number of rows")
    return proof


def prove_lowered(
    plan: Plan,
    lowered: Lowered,
    names: Sequence[str] = (),
    *,
    kernel: Kernel | None = None,
    within_s: float | None = None,
) -> Proof:
    """Return the proof of a lowered plan.

    names: dims that stay symbolic, besides those that the plan leaves open. kernel: what was printed of it, None = as the library's leaves give it. within_s: see
    `septran.prove.prove`.
    """
    mapping = lowered.bound.mapping
    if plan.dynamic and set(names) <= set(plan.dynamic):
        return _prove_dynamic(plan, lowered, kernel, within_s)
    what = widened(plan, mapping, symbolic(plan, names))
    passes = lower_symbolic(plan, mapping, what) if names else lowered.passes
    reference = unmapped(plan, mapping, passes[0].program, what)
    question = _Question(plan=plan, reference=reference, what=what, within_s=within_s)
    sizes = domain(what, passes[-1].program)
    last = passes[-1].program
    if names and not plan.backend.copies_ordered_by:
        finished, unordered = _finished_family(plan, last, sizes)
        certificate = question.ask(last, sizes, finished=finished, unordered=unordered)
    else:
        unwritten = kernel is None and any(s.opaque for _, s in leaf_specs(lowered.program))
        printed = None if names or unwritten else _print(plan, lowered, kernel)
        certificate = question.ask(last, sizes, printed)
    guilty = ""
    if not certificate.holds:
        guilty = next(
            (p.name for p in passes if _refuses(question.ask(p.program, sizes), certificate)), ""
        )
    return Proof(plan=plan, certificate=certificate, guilty=guilty)


def _prove_dynamic(
    plan: Plan, lowered: Lowered, kernel: Kernel | None, within_s: float | None
) -> Proof:
    """Return the proof of a kernel with open dims: of the Program that is printed, for every size it is for."""
    what = symbolic(plan, plan.dynamic)
    passes = lowered.passes
    what = replace(what, sizes={d.name: d.high for d in lowered.program.dims})
    reference = unmapped(plan, lowered.bound.mapping, passes[0].program, what)
    question = _Question(plan=plan, reference=reference, what=what, within_s=within_s)
    printed = _print(plan, lowered, kernel)
    dims = lowered.program.dims
    printed = replace(printed, finished=replace(printed.finished, dims=dims))
    return Proof(plan=plan, certificate=question.ask(lowered.program, dims, printed))


def _refuses(early: Certificate, last: Certificate) -> bool:
    """Whether a rule that the last Program breaks is broken already."""
    broken = {r.rule for r in last.rules if r.state == "refused"} - {"order", "text"}
    return any(r.rule in broken and r.state == "refused" for r in early.rules)


MISSING = "V115"
WITHIN_S = 2.0
"""seconds of the processor's for proofs that every `gen` affords; a busy machine proves no less"""


def prove_and_keep(plan: Plan, lowered: Lowered, kernel: Kernel, run: store.Run) -> dict[str, Any]:
    """Return the part of the septran.gen/1 object that says what is proven; the certificate goes to the run.

    proved: rules that hold. proof: seconds, what is taken for granted of indices that are read from memory, and the rules that are refused or
    were not asked, with reasons.
    """
    certificate = prove_lowered(plan, lowered, kernel=kernel, within_s=WITHIN_S).certificate
    run.write("certificate.json", json.dumps(certificate.to_json(), indent=1) + "\n")
    refused = {r.rule: str(r.findings[0]) for r in certificate.rules if r.state == "refused"}
    not_asked = {r.rule: r.why for r in certificate.rules if r.state == "not asked"}
    return {
        "proved": list(certificate.proved),
        "proof": {
            "seconds": round(certificate.seconds, 3),
            "assumes": {rule: list(found) for rule, found in certificate.assumed.items()},
            "refused": refused,
            "not_asked": not_asked,
        },
    }


def unproven(data: Mapping[str, Any]) -> str:
    """Return why a result does not fulfil `--require proved`, "" when it does.

    A rule that its target answers for (TileLang, Triton and the NPU compiler order copies) is not missing, nor is `text`
    where nobody reads the target's language.
    """
    proof = data["proof"]
    for rule, finding in proof["refused"].items():
        return f"[{MISSING}] the rule {rule} is refused: {finding}"
    late = {
        r: w
        for r, w in proof["not_asked"].items()
        if "orders" not in w and not w.startswith(UNREAD)
    }
    for rule, why in late.items():
        return f"[{MISSING}] the rule {rule} was not decided: {why}"
    return ""


def _finished_family(
    plan: Plan, program: Program, domain: Sequence[Dim]
) -> tuple[Finished | None, str]:
    """Return what is printed of a Program whose sizes are symbolic, or why nobody knows it without numbers."""
    try:
        found = plan.backend.finished(program, {}, check=False)
    except KeyError as e:
        return None, f"a pass that orders copies needs the value of {e.args[0]}"
    core = distributed(found, int(plan.machine.limits.get("cores", 1)))
    return replace(core, dims=(*core.dims, *domain)), ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A kernel, the Program it was printed of, and what the certificate says of its source."""

    finished: Finished
    kernel: Kernel
    source: Mapping[str, str]


def _print(plan: Plan, lowered: Lowered, kernel: Kernel | None) -> Printed:
    leaves = library_leaves(
        plan.backend, lowered.program, lowered.bound.mapping, opaque=kernel is not None
    )
    if kernel is None:
        kernel = plan.backend.emit(lowered.program, leaves)
    leaves |= {leaf.spec.key: leaf for leaf in kernel.leaves}
    for _, spec in leaf_specs(lowered.program):
        leaf = leaves.get(spec.key)
        # a stored kernel holds its leaves as text, and one that stands there is not the library's that is put in place
        if leaf is None or (leaf.inline and f" {spec.symbol}(" in kernel.source):
            leaves[spec.key] = _stored(plan.backend, kernel, spec)
    return Printed(
        finished=_finished(plan, lowered, leaves),
        kernel=kernel,
        source={**about(kernel), "logic": plan.logic.sha},
    )


def _stored(backend: Backend, kernel: Kernel, spec: LeafSpec) -> Leaf:
    """Return a leaf as a kernel's text holds it: put in place, or a function, of which nothing else matters here."""
    placed = backend.in_place.held(kernel.source, spec.symbol) if backend.in_place else ""
    source = placed or f"{backend.signature(spec)} {{\n}}\n"
    return Leaf(spec=spec, writer="stored", name=spec.symbol, source=source)


def about(kernel: Kernel) -> dict[str, str]:
    """Return what a certificate says of a kernel's source."""
    return {
        "sha": kernel.sha,
        "main": kernel.main,
        "entry": kernel.entry,
        "text": kernel.source,
    }


def finish(plan: Plan, lowered: Lowered) -> Finished:
    """Return what is printed of a lowered plan, with the library's leaves."""
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return _finished(plan, lowered, leaves)


def _finished(plan: Plan, lowered: Lowered, leaves: Mapping[str, Leaf]) -> Finished:
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
    write_atomic(path, json.dumps(certificate.to_json(), indent=1) + "\n")


def check_certificate(path: Path) -> Certificate:
    """Return the certificate in `path`, or in a bundle, with every rule decided again from its Programs and its text.

    The source beside it (that of the bundle, or of the run's folder it lies in) has to be the one it is about: P071.

    Raises:
        InputError: C160, it is no certificate.
    """
    try:
        found = json.loads(plain_text(path))
        certificate = decide_again(found.get("certificate", found))
        beside = _kernel_of(found["kernel"]) if "certificate" in found else _kernel_in(path.parent)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        SeptranError,
    ) as e:
        raise InputError.of(
            "C160",
            f"{path} is no certificate: {e}",
            help="`septran prove --certificate FILE` writes one",
        ) from e
    if beside is None or not certificate.source:
        return certificate
    told, here = certificate.source, about(beside)
    if all(told.get(key) == here[key] for key in here):
        return certificate
    other = Finding(
        code="P071",
        text=f"{beside.main} is not the source the certificate is about",
        places=(Span(beside.main, 1),),
    )
    return certificate.with_finding("text", other)


def _kernel_in(folder: Path) -> Kernel | None:
    """Return the kernel of a run's folder, None when the folder is no run's."""
    file = folder / "kernel.json"
    if not file.is_file():
        return None
    found = json.loads(plain_text(file))
    texts = {name: plain_text(folder / Path(name).name) for name in found["files"]}
    return _kernel_of({**found, "files": texts})


def _kernel_of(found: Mapping[str, Any]) -> Kernel:
    return Kernel(
        name=str(found["name"]),
        backend=str(found["backend"]),
        arch=str(found["arch"]),
        entry=str(found["entry"]),
        params=(),
        main=str(found["main"]),
        files=tuple(dict(found["files"]).items()),
        leaves=(),
    )


def decide_again(found: Mapping[str, Any]) -> Certificate:
    """Return the certificate of a septran.certificate/1 object, decided from the Programs and the text it carries.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    program, reference = parse_program(found["program"]), parse_program(found["reference"])
    dims = [Dim(name, int(low), int(high)) for name, (low, high) in found["domain"].items()]
    shapes = {
        name: tuple(parse_expr(e) for e in extents) for name, extents in found["shapes"].items()
    }
    rules = found["rules"]
    finished = None
    if found["finished"]:
        finished = Finished(
            program=parse_program(found["finished"]),
            dims=tuple(Dim(n, int(a), int(b)) for n, (a, b) in found["cores"].items()),
        )
    source = {str(k): str(v) for k, v in found.get("source", {}).items()}
    backend = backends.get(str(found["target"]))
    printed = None
    if backend.read_back is not None and finished is not None and source:
        kernel = _kernel_of(
            {**found, **source, "backend": backend.name, "files": {source["main"]: source["text"]}}
        )
        printed = partial(backend.read_back, kernel, finished.program)
    laws = tuple(a for a in map(str, found["assumptions"]) if a not in (*ASSUMPTIONS, LEAVES))
    return prove(
        program,
        reference,
        dims=dims,
        shapes=shapes,
        finished=finished,
        unordered=str(rules["order"].get("why", "")),
        printed=printed,
        unprinted=str(rules.get("text", {}).get("why", "")),
        source=source,
        assumptions=laws,
        rows=tuple(map(str, found.get("rows", ()))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    plan: Plan
    reference: Reference
    what: Symbolic
    within_s: float | None

    def ask(
        self,
        program: Program,
        domain: Sequence[Dim],
        printed: Printed | None = None,
        *,
        finished: Finished | None = None,
        unordered: str = "",
    ) -> Certificate:
        finished = finished if printed is None else printed.finished
        if finished is None or not names_engines(finished.program):
            unordered = self.plan.backend.copies_ordered_by or unordered
        read, unprinted = None, UNREAD
        if self.what.sizes and printed is None:
            unprinted = "a printed kernel has sizes"
        elif printed is not None and self.plan.backend.read_back is not None:
            read = partial(self.plan.backend.read_back, printed.kernel, printed.finished.program)
        reference = self.reference.like(program)
        return prove(
            program,
            reference.program,
            dims=domain,
            shapes=self.what.shapes,
            finished=finished,
            printed=read,
            unprinted=unprinted,
            source=None if printed is None else printed.source,
            unordered=unordered,
            assumptions=reference.assumptions,
            within_s=self.within_s,
            rows=tuple(n for n in row_dims(self.plan.operator) if n in self.what.sizes),
        )
