"""The leaves of a stored kernel of the C family, read again: what somebody put there passes the source gate before a compiler runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from septran.backends.base import Backend, Built
from septran.errors import SeptranError
from septran.kernel import Kernel, Leaf, LeafSpec
from septran.leafgate import Refusal
from septran.plan.fit import Lowered
from septran.plan.floor import admitted, library_leaves
from septran.toolchain.machine_asked import machine_asked
from septran.trial.judge import Judged, distinct_specs, judge_kernel
from septran.trial.place import Place
from septran.trial.stored_frame import not_printed_here, plain
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict, write_evidence

_SECTION = re.compile(r"^// ---- leaves\n(.*?)(?=^// ---- )", re.M | re.S)
_HEADLINE = re.compile(r"^(?=// \w+: [\w, ]+ \(\w+ [^\n]*\)$)", re.M)
_UNREAD = "leaves' text: "
_HINT = "the SepTran that made it may judge it, and `septran judge` a file that somebody wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a stored kernel's leaves are. refused: why one is none, with its name; unread: why they were not told apart.

    strange: what else decides what the judge reads, and is not what is printed here.
    """

    refused: tuple[str, ...] = ()
    unread: str = ""
    strange: str = ""


def judge_stored(
    place: Place,
    lowered: Lowered,
    kernel: Kernel,
    problem: Problem,
    *,
    work: Path,
    seed: int | None,
) -> Judged:
    """Return `judge_kernel` of a kernel that anybody may have edited; a leaf that the gate refuses is never compiled.

    Raises:
        EnvironmentProblem: as `judge_kernel`.
    """
    found = read_leaves(place.backend, lowered, kernel)
    base = Verdict.of(kernel, where=place.where, dims=problem.dims, seed=seed)
    if found.refused:
        hint = (
            "docs/leaf-language.md says what a leaf may hold; nothing of this kernel was compiled"
        )
        verdict = base.rejected("V210", "; ".join(found.refused[:5]), hint)
    elif found.strange:
        verdict = base.unavailable(
            "V217", f"{found.strange}; what it does elsewhere is not seen here", _HINT
        )
    else:
        judged = judge_kernel(place, kernel, problem, work=work, seed=seed, suspect=True)
        if not found.unread:
            return judged
        verdict = judged.verdict.without(found.unread)
        if verdict.passed and (asked := machine_asked(judged.built, kernel.entry)):
            what = f"it asks for {', '.join(asked)}, so it may do something else where the answer is another"
            verdict = verdict.unavailable("V217", what, _HINT)
        write_evidence(verdict, work, files={})
        return replace(judged, verdict=verdict)
    write_evidence(verdict, work, files={})
    return Judged(kernel=kernel, built=Built(ok=False, artifact=None), verdict=verdict)


def read_leaves(backend: Backend, lowered: Lowered, kernel: Kernel) -> Read:
    """Return which of the leaves that stand in a kernel's text are neither the library's nor what the gate prints.

    A kernel whose text has no leaves of their own (Python, which is read whole; calls of a vendor) has nothing to refuse.
    """
    floor = library_leaves(backend, lowered.program, lowered.bound.mapping, opaque=True)
    section = _SECTION.search(kernel.source)
    if section is None:
        unread = ""
        if any(spec.opaque for spec in distinct_specs(lowered.program)) or _SECTION.search(
            backend.emit(lowered.program, dict(floor)).source
        ):
            unread = f"{_UNREAD}the kernel has no place for them"
        return Read(unread=unread, strange=_strange(backend, lowered, kernel, floor))
    specs = {spec.key: spec for spec in distinct_specs(lowered.program)}
    texts, other = _told_apart(backend, specs, section[1])
    leaves, refused = {}, []
    for key, text in texts.items():
        leaf = Leaf(spec=specs[key], writer="stored", name=specs[key].symbol, source=text)
        own = floor.get(key)
        leaves[key] = own if own is not None and own.source.strip() == text else leaf
        if leaves[key] is leaf and (why := _refusal(leaf, backend)):
            refused.append(why)
    if refused:
        return Read(refused=tuple(refused))
    if len(texts) < len(specs):
        unread = f"{_UNREAD}it is not that of this version's leaves for this request"
        return Read(unread=unread, strange=_strange(backend, lowered, kernel, floor))
    if other:
        return Read(refused=(f"among the leaves stands what is none: {other}",))
    return _rest(backend, lowered, leaves, kernel)


def _told_apart(
    backend: Backend, specs: Mapping[str, LeafSpec], section: str
) -> tuple[dict[str, str], str]:
    """Return spec -> text of the leaf that begins as its signature says, and the first line of what is no leaf."""
    signatures = {backend.signature(spec): key for key, spec in specs.items()}
    texts: dict[str, str] = {}
    other = ""
    for part in _HEADLINE.split(section):
        body = part.partition("\n")[2] if _HEADLINE.match(part) else part
        body = body.strip()
        key = next((k for signature, k in signatures.items() if body.startswith(signature)), "")
        if key and key not in texts:
            texts[key] = body
        elif body:
            other = other or body.partition("\n")[0][:80]
    return texts, other


def _refusal(leaf: Leaf, backend: Backend) -> str:
    try:
        again = admitted(leaf, backend)
    except Refusal as why:
        return f"{leaf.name}:{why.line} {why.sentence}"
    same = again.source.strip() == leaf.source.strip()
    return "" if same else f"{leaf.name} is not the text that the gate prints"


def _rest(backend: Backend, lowered: Lowered, leaves: Mapping[str, Leaf], kernel: Kernel) -> Read:
    """Return what is unread, and what is strange, of a kernel whose text around these leaves is not what is printed here."""
    try:
        again = dict(backend.emit(lowered.program, dict(leaves)).files)
    except SeptranError as error:
        why = f"{_UNREAD}it cannot be printed here: {error.codes[0] if error.codes else error}"
        return Read(unread=why, strange=not_printed_here(kernel, {}))
    wrong = [n for n, t in kernel.files if plain(again.get(n, "")) != plain(t)]
    changed = f"the text around the leaves: {', '.join(wrong)} is not what is printed here"
    return Read(unread=changed if wrong else "", strange=not_printed_here(kernel, again))


def _strange(backend: Backend, lowered: Lowered, kernel: Kernel, floor: Mapping[str, Leaf]) -> str:
    """Return the same of a kernel whose leaves were not told apart, or that has none of their own: beside the library's."""
    try:
        again = dict(backend.emit(lowered.program, dict(floor)).files)
    except (SeptranError, KeyError):  # an opaque leaf, which no library has
        again = {kernel.main: kernel.source} if kernel.main.endswith(".py") else {}
    return not_printed_here(kernel, again)
