"""Prove bounds and races of a kernel that SepTran did not write, where its text can be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from septran.backends.base import Foreign, HostCall
from septran.kernel import KernelParam
from septran.outcome import Level, Status
from septran.prove.foreign.decide import prove_launches
from septran.prove.foreign.launch import RULES, NotRead, Proof
from septran.verify.verdict import Verdict


def prove(
    foreign: Foreign,
    text: str,
    file: str,
    call: HostCall,
    params: tuple[KernelParam, ...],
    run_dir: Path,
) -> Proof:
    """Return what the text says of the launches that were made; what cannot be read is a reason, not a mistake."""
    if foreign.launches is None:
        return Proof(not_proven=dict.fromkeys(RULES, "files for this target are not read"))
    try:
        return prove_launches(foreign.launches(text, file, call, params, run_dir))
    except NotRead as e:
        why = e.what if e.line == 0 else str(e)
        return Proof(not_proven=dict.fromkeys(RULES, why))
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        # the text is anybody's: what the readers did not foresee is no statement about it either
        why = f"its text is not read ({type(e).__name__})"
        return Proof(not_proven=dict.fromkeys(RULES, why))


_UNEXPLAINED = ("V202", "V208")


def unexplained(verdict: Verdict) -> bool:
    """Whether a verdict says that results differ and not why."""
    orders = verdict.code == "V209" and " differs at byte " in verdict.message
    return verdict.code in _UNEXPLAINED or orders


def with_proof(verdict: Verdict, proof: Proof) -> Verdict:
    """Return the verdict, rejected where the proof found what no input showed, and explained where one did."""
    if not proof.findings:
        return verdict
    first = proof.findings[0]
    shown = "no input showed it; the launch that was made has it"
    return replace(
        verdict,
        level=Level.REJECTED,
        status=Status.REJECTED,
        code=first.code,
        message=first.text,
        hint=shown if verdict.passed else f"seen as: {verdict.message}",
        diagnostics=tuple({"kind": "proof", **f.to_json()} for f in proof.findings),
    )
