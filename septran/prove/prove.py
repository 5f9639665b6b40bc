"""Decide the rules of one Program in the order in which each makes the next one sound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from septran.errors import Span
from septran.ir.expr import Expr, to_text
from septran.ir.nodes import Copy, Dim, LeafCall, Program, walk
from septran.ir.text import print_program
from septran.prove.bounds import bounds
from septran.prove.certificate import Certificate, Finding, RuleResult, State
from septran.prove.coverage import coverage
from septran.prove.dataflow import same_data
from septran.prove.indexed import RULES as INDEXED
from septran.prove.indexed import assumed
from septran.prove.ordering import ordering
from septran.prove.printed import Broken, Printed, Unread, Unreadable
from septran.prove.races import races
from septran.prove.rows import LEAVES, ROW_ORDER, row_order
from septran.prove.sets import Model, NotAffine, model
from septran.prove.sums import found_sums, sums
from septran.prove.text import same_text

RULES = ("bounds", "races", "coverage", "order", "data", "sums", "text")
ASSUMPTIONS = (
    "leaves are functions of their operands and write only their outputs",
    "layouts of staged tiles are bijections, and copies that widen a dtype are exact",
    "differently named parameters are different memory (E134)",
)
UNREAD = "the text is not read back"
"""why the rule `text` is not asked where a target, or kernels of a kind, have no reader"""
_MOST = 5
"""findings told per rule"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The Program that is printed, as one core runs it; dims: its free variables (the core's number)."""

    program: Program
    dims: tuple[Dim, ...] = ()


def prove(
    program: Program,
    reference: Program,
    *,
    dims: Sequence[Dim] = (),
    shapes: dict[str, tuple[Expr, ...]] | None = None,
    finished: Finished | None = None,
    unordered: str = "",
    printed: Callable[[], Printed] | None = None,
    unprinted: str = "",
    assumptions: tuple[str, ...] = (),
    source: Mapping[str, str] | None = None,
    within_s: float | None = None,
    rows: tuple[str, ...] = (),
) -> Certificate:
    """Return the certificate of `program` against `reference`, the same logic bound without memories.

    dims, shapes: symbolic sizes and the parameters' extents over them. finished: what is printed of `program`, of
    which the rules `order` and `text` are asked. unordered: why `order` is not asked, "" to ask it. printed: reads the text that was
    printed of `finished`; unprinted: why nobody does. assumptions: laws the reference was made with. source: what the certificate says of the source. within_s: rules that would start
    after this many seconds of the processor's are not asked. rows: those of `dims` that count rows, of which `row-order` is asked.
    """
    start = time.thread_time()
    results: list[RuleResult] = []
    mine: Model | None = None
    theirs: Model | None = None
    taken = assumed(program)
    for rule in (*RULES, *((ROW_ORDER,) if rows else ())):
        why = ""
        if rule == "order" and (unordered or finished is None):
            why = unordered or "it is asked of a finished Program"
        if rule == "text" and (printed is None or finished is None):
            why = unprinted or "it is asked of a printed kernel"
        if within_s is not None and time.thread_time() - start > within_s:
            why = why or f"the time for proofs ({within_s:g} s) is over"
        if why:
            results.append(RuleResult(rule=rule, state="not asked", why=why))
            continue
        begun = time.perf_counter()
        try:
            if rule != "text":
                mine = mine or model(program, dims, shapes, reference)
                theirs = theirs or model(reference, dims, shapes, program)
            checks: dict[str, Callable[[], Iterator[Finding]]] = {
                "bounds": lambda m=mine: bounds(m),  # type: ignore[misc]
                "races": lambda m=mine: races(m),  # type: ignore[misc]
                "coverage": lambda m=mine: coverage(m),  # type: ignore[misc]
                "order": lambda f=finished: ordering(model(f.program, f.dims)),  # type: ignore[misc]
                "data": lambda m=mine, r=theirs: same_data(m, r),  # type: ignore[misc]
                "sums": lambda m=mine: sums(m),  # type: ignore[misc]
                ROW_ORDER: lambda m=mine: row_order(m, rows),  # type: ignore[misc]
                "text": lambda f=finished, p=printed: _text(f, p()),  # type: ignore[misc]
            }
            found = _first(checks[rule]())
            state: State = "refused" if found else "proved"
        except NotAffine as e:
            found, state, why = (), "not asked", str(e)
        except Unread as e:
            found, state, why = (), "not asked", f"{UNREAD}: {e}"
        except Broken as e:
            text = f"the text means nothing in its language: {e.what}"
            found = (Finding(code="P070", text=text, places=(Span(e.file, e.line),)),)
            state = "refused"
        except Unreadable as e:
            found, state, why = (), "not asked", f"the text cannot be compared: {e}"
        results.append(
            RuleResult(
                rule=rule,
                state=state,
                findings=found,
                seconds=time.perf_counter() - begun,
                about=_about(rule, mine, finished, rows)
                if mine is not None or rule == "text"
                else "",
                why=why,
                assumes=taken if state == "proved" and rule in INDEXED else (),
            )
        )
    return Certificate(
        name=program.name,
        target=program.target,
        arch=program.arch,
        rules=tuple(results),
        domain={d.name: (d.low, d.high) for d in dims},
        shapes={name: tuple(to_text(e) for e in found) for name, found in (shapes or {}).items()},
        finished="" if finished is None else print_program(finished.program),
        cores={} if finished is None else {d.name: (d.low, d.high) for d in finished.dims},
        program=print_program(program),
        reference=print_program(reference),
        assumptions=tuple(
            dict.fromkeys((*ASSUMPTIONS, *((LEAVES,) if rows else ()), *assumptions, *taken))
        ),
        rows=rows,
        solver=_solver(),
        source=dict(source or {}),
    )


def _text(finished: Finished, printed: Printed) -> Iterator[Finding]:
    return same_text(model(finished.program, finished.dims), printed)


def _first(findings: Iterator[Finding]) -> tuple[Finding, ...]:
    return tuple(f for _, f in zip(range(_MOST), findings, strict=False))


def _about(rule: str, m: Model | None, finished: Finished | None, rows: tuple[str, ...]) -> str:
    if rule == "text" and finished is not None:
        parts = [x for x in walk(finished.program.body) if isinstance(x, Copy | LeafCall)]
        return f"{len(parts)} copies and leaf calls"
    if m is None:
        return ""
    match rule:
        case "bounds":
            return f"{sum(len(s.accesses) for s in m.statements)} regions"
        case "coverage":
            return ", ".join(p.buffer.name for p in m.program.params if "w" in p.privilege)
        case "races":
            loops = {id(s.loops[k]) for s in m.statements for k in s.parallel}
            return f"{len(loops)} parallel loops"
        case "order" if finished is not None:
            return _ordered_by(finished.program)
        case "row-order":
            return f"the same for every {' and '.join(rows)}"
        case "sums":
            return f"{len(found_sums(m))} products and reductions"
        case _:
            return f"{sum(s.kind == 'leaf' for s in m.statements)} leaf calls"


def _ordered_by(program: Program) -> str:
    kinds = [type(s).__name__.lower() for s in walk(program.body)]
    return ", ".join(f"{kinds.count(k)} {k}s" for k in ("sync", "post", "await"))


def _solver() -> str:
    from importlib import metadata

    return f"isl (islpy {metadata.version('islpy')})"
