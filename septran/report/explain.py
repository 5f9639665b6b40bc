"""A stored verdict in words: which element, which budget, which inputs, and how to see it again."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from septran.document import Document, plain_text
from septran.errors import ConfigError, SeptranError
from septran.run import store
from septran.verify.warp_accesses import told

FAMILIES: Mapping[str, str] = {
    "points": "values at the numbers that the kernel's text holds, beside and between them",
    "large_points": "the same at its large numbers",
    "integers": "small whole numbers, sums are exact: a wrong index, tail or count",
    "normal": "normal numbers: low-precision arithmetic",
    "normal_2": "other normal numbers at the same addresses: a remembered answer",
    "near_duplicate": "the inputs before, one element changed: an element that is not read",
    "uniform": "numbers of one sign: long sums that grow",
    "heavy": "one element dominates: a reduction that leaves elements out",
    "mixed": "huge and small numbers together: lost small terms",
    "wide": "the whole exponent range: intermediates that overflow or vanish",
    "outliers": "finite masks and huge single values: branches, and masks taken for -inf",
    "beside": "sums beyond 1e15, one tiny element in each row",
    "small": "small numbers: absolute cut-offs",
    "threshold": "numbers a hair off 0.5, 1, 3, 6, 20: comparisons and saturation",
    "cancel": "sums that vanish: an order of sums without care",
    "equal": "all the same: variances of constants, ties",
    "zeros": "zeros of both signs",
    "denormal": "numbers below the normal range: flushing to zero",
    "nan": "one NaN: it must go through as in torch",
    "inf": "one infinity: it must go through as in torch",
    "neg_inf_led": "rows that start with -inf: running maxima",
}
BUDGETS: Mapping[str, str] = {
    "exact": "the correctly rounded value, nothing else",
    "gemm": "8 u sum|a||b| (zero-mean inputs), max(8, 2 sqrt K) u sum|a||b| otherwise",
    "reduction": "8 u sum|a| (zero-mean inputs), max(8, 2 sqrt N) u sum|a| otherwise",
    "softmax": "(16 + 4 |x - max| + 2 sqrt N) u |result|",
    "elementwise": "8 last places + 8 x the effect of input changes of u + 8 x torch's own error",
    "chain": "(8 + 2 sqrt n) x the effect of input changes of u + 8 x torch's own error + last places",
}

_NEEDED = frozenset(
    "kernel level status where code message hint budget_ratio cases diagnostics".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Document):
    """What a verdict says and why. element: the worst one, None where none was compared.

    budget: kind, rule and the share of it that was used. cases: each with what its inputs show. reproduce: the command.
    """

    SCHEMA: ClassVar[str] = "septran.explain_verdict/1"
    run: str
    kernel: str
    level: str
    status: str
    where: str
    code: str
    message: str
    hint: str
    element: Mapping[str, Any] | None
    budget: Mapping[str, Any]
    cases: Sequence[Mapping[str, Any]]
    diagnostics: Sequence[Mapping[str, Any]]
    cycles: Mapping[str, Any]
    accesses: Mapping[str, Any]
    enforced: Sequence[str]
    not_checked: Sequence[str]
    seed: int | None
    reproduce: str
    evidence: str
    edited: bool


def explain_verdict(run: store.Run) -> Explanation:
    """Return the run's newest verdict, explained.

    Raises:
        ConfigError: C136, the run was not verified.
    """
    paths = sorted(run.dir.glob("verify*/verdict.json"), key=lambda p: p.stat().st_mtime)
    if not paths:
        raise ConfigError.of(
            "C136", f"run {run.id} holds no verdict", help="`septran runs ls` lists the runs"
        )
    try:
        verdict = json.loads(plain_text(paths[-1]))
        if not isinstance(verdict, dict) or not verdict.keys() >= _NEEDED:
            raise ValueError("not a verdict")
    except (OSError, ValueError, RecursionError):
        raise ConfigError.of("C136", f"{paths[-1]} is damaged") from None
    worst = verdict.get("worst")
    kind = _kind(run)
    return Explanation(
        run=run.id,
        kernel=verdict["kernel"],
        level=verdict["level"],
        status=verdict["status"],
        where=verdict["where"],
        code=verdict["code"],
        message=verdict["message"],
        hint=verdict["hint"],
        element=worst,
        budget={"kind": kind, "rule": BUDGETS.get(kind, ""), "used": verdict["budget_ratio"]},
        cases=[
            {k: c[k] for k in ("case", "family", "seed", "wrong", "elements", "ratio")}
            | {"shows": _shows(c)}
            for c in verdict["cases"]
        ],
        diagnostics=verdict["diagnostics"],
        cycles=verdict.get("cycles") or {},
        accesses=verdict.get("accesses") or {},
        enforced=verdict["enforced"],
        not_checked=verdict["not_checked"],
        seed=verdict["seed"],
        reproduce=shlex.join(("septran", "verify", str(run.dir), "--seed", str(verdict["seed"]))),
        evidence=str(paths[-1]),
        edited=not run.is_sealed(paths[-1].relative_to(run.dir).as_posix()),
    )


def _shows(case: Mapping[str, Any]) -> str:
    """Return what a case's inputs are meant to show; near-duplicates are numbered by input."""
    name = "near_duplicate" if case["case"].startswith("near_duplicate") else case["case"]
    return FAMILIES.get(name) or FAMILIES.get(case["family"], "")


def _kind(run: store.Run) -> str:
    from septran.plan.resolve import resolve
    from septran.run.stored import stored_kernel

    with contextlib.suppress(SeptranError):
        request, _, _ = stored_kernel(run)
        return resolve(request).operator.reference.kind
    return ""


def lines(found: Explanation) -> list[tuple[str, str]]:
    """Return the object as (name, text) rows for a person."""
    code = f" [{found.code}]" if found.code else ""
    rows = [("verdict", f"{found.level} ({found.where}): {found.status}{code}")]
    if found.edited:
        rows.append(
            ("edited", "not as this SEPTRAN_HOME wrote it; `septran verify` runs the kernel again")
        )
    if found.code:
        rows.append(("because", str(found.message)))
        rows += [("hint", str(found.hint))] if found.hint else []
    if (worst := found.element) is not None:
        place = ", ".join(map(str, worst["index"]))
        rows += [
            ("worst at", f"{worst['output']}[{place}]"),
            ("got", f"{worst['got']}, expected {worst['expected']}"),
            ("budget", _budget(worst, found.budget)),
            ("inputs", f"{worst['case']}: {_shows(worst) or worst['family']}"),
            ("their seed", str(worst["seed"])),
        ]
    # a case may have been run more than once
    rows += [
        ("wrong on", text) for text in dict.fromkeys(_case(c) for c in found.cases if c["wrong"])
    ]
    rows += [(str(d.get("kind", "found")), str(d.get("message"))) for d in found.diagnostics[:5]]
    rows += told(found.accesses)
    rows += [("not checked", item) for item in found.not_checked]
    return [*rows, ("again", found.reproduce), ("evidence", found.evidence)]


def _budget(worst: Mapping[str, Any], budget: Mapping[str, Any]) -> str:
    used = float(budget["used"])
    share = "outside any budget" if used == float("inf") else f"{100 * used:.3g} % used"
    rule = f"; rule {budget['kind']}: {budget['rule']}" if budget["kind"] else ""
    return f"{worst['budget']} ({share}{rule})"


def _case(case: Mapping[str, Any]) -> str:
    return f"{case['case']}: {case['wrong']} of {case['elements']} elements ({case['shows']})"
