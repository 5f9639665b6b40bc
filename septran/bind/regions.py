"""Check on the bound Program, where sizes are known, that every piece a leaf gets is a proper one.

E135: in an iteration that is reached, a piece is empty or reaches outside its tensor.
E134: a leaf gets shared memory under two names and writes it. `septran.tasklang.alias` refuses what
is wrong for every size; here pieces that only arithmetic tells apart (`Cp[i]` and `Cp[i + 1]`,
`Cp[k]` and `Cp[n - 1]`) are decided too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from septran.errors import Span, TaskLangError
from septran.ir.access import touches
from septran.ir.expr import evaluate
from septran.ir.iterate import Loops, iterations, needed, variables
from septran.ir.nodes import Copy, For, LeafArg, LeafCall, Program, Region, Stmt
from septran.tasklang.alias import HELP

_EXACT = 20_000
_WHOLE = 256
"""Iterations looked at one by one, for shared memory and for bounds."""


def check_regions(program: Program) -> None:
    """Raise TaskLangError E134 or E135 at the launch."""
    _body(program.body, ())


def _body(body: tuple[Stmt, ...], loops: Loops) -> None:
    for stmt in body:
        match stmt:
            case For():
                _body(stmt.body, (*loops, (stmt.var, stmt.extent)))
            case Copy():
                for region, _ in touches(stmt):
                    _inside(region, f"the copy of {region.buffer.name}", stmt.span, loops)
            case LeafCall():
                for arg in stmt.args:
                    _inside(arg.region, f"{stmt.task}: {arg.param}", stmt.span, loops)
                for a, b in itertools.combinations(stmt.args, 2):
                    one, two = (a, b) if "w" in a.privilege else (b, a)
                    if a.region.buffer.name == b.region.buffer.name and "w" in one.privilege:
                        _apart(stmt, one, two, loops)
            case _:
                pass


def _inside(region: Region, who: str, span: Span | None, loops: Loops) -> None:
    for env in iterations(needed(loops, variables(region)), exact=_WHOLE):
        rows = zip(region.offset, region.extent, region.step, region.buffer.shape, strict=True)
        for d, (offset, extent, step, size) in enumerate(rows):
            first, count = evaluate(offset, env), evaluate(extent, env)
            last = first + (count - 1) * step
            if count < 1:
                problem = f"is empty (size {count})"
            elif not region.guard and (first < 0 or last >= size):
                problem = f"reaches from {first} to {last}, outside 0 to {size - 1}"
            else:
                continue
            raise TaskLangError.of(
                "E135",
                f"{who} is a piece of {region.buffer.name} {list(region.buffer.shape)} that "
                f"{problem} along dim {d}{_when(env)}",
                span,
                help="loop over the partition's own shape, or over fewer iterations; pad a read "
                'with by="halo"',
            )


def _apart(call: LeafCall, written: LeafArg, other: LeafArg, loops: Loops) -> None:
    used = variables(written.region, other.region)
    for env in iterations(needed(loops, used), exact=_EXACT):
        if _shared(written.region, other.region, env):
            raise TaskLangError.of(
                "E134",
                f"{call.task} writes {written.param}, and {other.param} is partly the same memory "
                f"of {written.region.buffer.name}{_when(env)}",
                call.span,
                help=HELP,
            )


def _when(env: Mapping[str, int]) -> str:
    return " when " + ", ".join(f"{k} = {v}" for k, v in env.items()) if env else ""


def _shared(a: Region, b: Region, env: Mapping[str, int]) -> bool:
    if (a.buffer.shape, a.buffer.steps, a.buffer.start) != (
        b.buffer.shape,
        b.buffer.steps,
        b.buffer.start,
    ):
        return _meet(_reach(a, env), _reach(b, env))
    rows = zip(a.offset, a.extent, a.step, b.offset, b.extent, b.step, strict=True)
    return all(
        _meet(
            range(x := evaluate(o, env), x + evaluate(e, env) * s, s),
            range(y := evaluate(p, env), y + evaluate(f, env) * t, t),
        )
        for o, e, s, p, f, t in rows
    )


def _reach(r: Region, env: Mapping[str, int]) -> range:
    """Return the elements of the array from the first to the last of a region."""
    first = last = r.buffer.start
    for offset, extent, step, stride in zip(
        r.offset, r.extent, r.step, r.buffer.steps, strict=True
    ):
        at = evaluate(offset, env)
        first += at * stride
        last += (at + (evaluate(extent, env) - 1) * step) * stride
    return range(first, last + 1)


def _meet(a: range, b: range) -> bool:
    if not a or not b or a[-1] < b[0] or b[-1] < a[0]:
        return False
    return any(value in b for value in a)
