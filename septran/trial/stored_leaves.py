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
from septran.trial.judge import Judged, distinct_specs, judge_kernel
from septran.trial.place import Place
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict, write_evidence

_SECTION = re.compile(r"^// ---- leaves\n(.*?)(?=^// ---- )", re.M | re.S)
_HEADLINE = re.compile(r"^(?=// \w+: [\w, ]+ \(\w+ [^\n]*\)$)", re.M)
_UNREAD = "leaves' text: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a stored kernel's leaves are. refused: why one is none, with its name; unread: why they were not told apart."""

    refused: tuple[str, ...] = ()
    unread: str = ""


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
    if not found.refused:
        judged = judge_kernel(place, kernel, problem, work=work, seed=seed, suspect=True)
        if not found.unread:
            return judged
        verdict = judged.verdict.without(found.unread)
        write_evidence(verdict, work, files={})
        return replace(judged, verdict=verdict)
    verdict = Verdict.of(kernel, where=place.where, dims=problem.dims, seed=seed).rejected(
        "V210",
        "; ".join(found.refused[:5]),
        "docs/leaf-language.md says what a leaf may hold; nothing of this kernel was compiled",
    )
    write_evidence(verdict, work, files={})
    return Judged(kernel=kernel, built=Built(ok=False, artifact=None), verdict=verdict)


def read_leaves(backend: Backend, lowered: Lowered, kernel: Kernel) -> Read:
    """Return which of the leaves that stand in a kernel's text are neither the library's nor what the gate prints.

    A kernel whose text has no leaves of their own (Python, which is read whole; calls of a vendor) has nothing to refuse.
    """
    floor = library_leaves(backend, lowered.program, lowered.bound.mapping, opaque=True)
    section = _SECTION.search(kernel.source)
    if section is None:
        if any(spec.opaque for spec in distinct_specs(lowered.program)):
            return Read(unread=f"{_UNREAD}the kernel has no place for them")
        printed = _SECTION.search(backend.emit(lowered.program, floor).source)
        return Read(unread=f"{_UNREAD}the kernel has no place for them") if printed else Read()
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
        return Read(unread=f"{_UNREAD}it is not that of this version's leaves for this request")
    if other:
        return Read(refused=(f"among the leaves stands what is none: {other}",))
    return Read(unread=_rest(backend, lowered, leaves, kernel))


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


def _rest(backend: Backend, lowered: Lowered, leaves: Mapping[str, Leaf], kernel: Kernel) -> str:
    """Return what is unread of a kernel whose text around these leaves is not what is printed here, "" when it is."""
    try:
        again = dict(backend.emit(lowered.program, dict(leaves)).files)
    except SeptranError as error:
        return f"{_UNREAD}it cannot be printed here: {error.codes[0] if error.codes else error}"
    wrong = [n for n, t in kernel.files if _plain(again.get(n, "")) != _plain(t)]
    return (
        f"the text around the leaves: {', '.join(wrong)} is not what is printed here"
        if wrong
        else ""
    )


def _plain(text: str) -> str:
    """The text without the comment lines that name versions and writers; one that takes the next line with it stays."""
    lines = text.splitlines()
    return "\n".join(one for one in lines if not one.startswith("// ") or one.endswith("\\"))
