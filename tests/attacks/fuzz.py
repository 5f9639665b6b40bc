"""Mutate honest emitted kernels and see which mutants pass.

    python -m tests.attacks.fuzz [COUNT] [SEED] [FAMILY ...] [--only N]

COUNT mutants per family (`mutators.FAMILIES`; all of them by default). Attacks are written by hand by the authors of
the checks; mutants are not. A mutant that survives is either a hole or equivalent: those whose binary, or whose text
without hints, is the honest kernel's are set aside, the others are printed for a person to read.
"""

from __future__ import annotations

import argparse
import ast
import functools
import os
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from septran.backends import get
from septran.backends.base import Built
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import place_of
from septran.verify.problem import Problem
from septran.verify.verify import Request, verify
from tests.attacks import families
from tests.attacks.mutators import FAMILIES, Family, Rule


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed kernel. line: 1-based, in `file`. diff: what a person reads."""

    family: str
    case: str
    kind: str
    file: str
    line: int
    diff: tuple[str, ...]
    kernel: Kernel


@functools.cache
def honest(family: str, case: str) -> tuple[Kernel, Problem]:
    """Return the emitted kernel of a case with library leaves and the family's prelude, and its problem."""
    found = FAMILIES[family]
    at = found.cases[case]
    plan = resolve(
        GenRequest(op=at.op, backend=found.backend, dims=at.dims, dtype=at.dtype, arch=at.arch)
    )
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    if found.prelude:
        text = re.sub(rf"(?m)^(?={found.first})", lambda _: found.prelude, kernel.source, count=1)
        kernel = kernel.with_files({**dict(kernel.files), kernel.main: text})
    return kernel, problem_of(plan, lowered.program, plan.dims)


def mutants(family: str, case: str) -> Iterator[Mutant]:
    """Yield every mutant of the kernel's own part: its leaves, its hierarchy, its headers' synchronisation."""
    found = FAMILIES[family]
    kernel = honest(family, case)[0]
    files = dict(kernel.files)
    places = [(kernel.main, found.rules)]
    places += [(name, found.header_rules) for name in found.cases[case].headers]
    for file, rules in places:
        lines = files[file].split("\n")
        for number in _own_lines(found, lines, whole=file != kernel.main):
            for rule in rules:
                for kept in _changes(found, rule, lines, number):
                    changed = kernel.with_files({**files, file: "\n".join(kept)})
                    diff = _diff(lines, kept)
                    yield Mutant(family, case, rule.kind, file, number + 1, diff, changed)


def _diff(before: list[str], after: list[str]) -> tuple[str, ...]:
    places = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    return (*(f"-{before[i]}" for i in places), *(f"+{after[i]}" for i in places))


def _own_lines(family: Family, lines: list[str], *, whole: bool) -> list[int]:
    first, last = 0, len(lines)
    if not whole:
        first = next(i for i, text in enumerate(lines) if re.match(family.first, text))
        ends = (i for i, text in enumerate(lines) if i > first and re.match(family.last, text))
        last = next(ends, last)
    return [
        i for i in range(first, last) if lines[i].strip() and not re.search(family.inert, lines[i])
    ]


def _changes(family: Family, rule: Rule, lines: list[str], number: int) -> Iterator[list[str]]:
    text = lines[number]
    comment = re.search(family.comment, text)
    for found in re.finditer(rule.pattern, text):
        if comment and found.start() >= comment.start():
            continue
        kept = list(lines)
        if rule.move:
            other = number + rule.move
            if re.search(rf"{family.inert}|^\s*$", lines[other]):
                continue
            kept[number], kept[other] = kept[other], kept[number]
        else:
            kept[number] = text[: found.start()] + rule.apply(found) + text[found.end() :]
        if kept != lines:
            yield kept


def choose(family: str, count: int, seed: int) -> list[Mutant]:
    """Return `count` mutants, as evenly over cases and kinds as there are any; more begin with fewer."""
    rng = random.Random(seed)
    groups: dict[tuple[str, str], list[Mutant]] = {}
    for case in FAMILIES[family].cases:
        for mutant in mutants(family, case):
            groups.setdefault((case, mutant.kind), []).append(mutant)
    for group in groups.values():
        rng.shuffle(group)
    order = list(groups.values())
    rng.shuffle(order)
    found: list[Mutant] = []
    while len(found) < count and any(order):
        for group in order:
            if group and len(found) < count:
                found.append(group.pop())
    return found


def content(family: str, kernel: Kernel, built: Built) -> bytes:
    """Return what equals the honest kernel's only if nothing can differ: machine code, or normal text.

    Normal text has no hints, and calls without the arguments that the called function does not use.
    """
    if get(FAMILIES[family].backend).language != "python":
        assert built.artifact is not None
        return built.artifact.read_bytes()
    text = re.sub(FAMILIES[family].hints, "0", kernel.source)
    try:
        return ast.unparse(_without_unused(ast.parse(text))).encode()
    except SyntaxError:
        return text.encode()


def _without_unused(tree: ast.Module) -> ast.Module:
    used: dict[str, list[bool]] = {}
    for function in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        names = {n.id for step in function.body for n in ast.walk(step) if isinstance(n, ast.Name)}
        used[function.name] = [a.arg in names for a in function.args.args]
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        taken = used.get(call.func.id, []) if isinstance(call.func, ast.Name) else []
        if taken and len(taken) == len(call.args):
            kept = zip(call.args, taken, strict=True)
            call.args = [arg for arg, is_used in kept if is_used]
    return tree


def judge(
    family: str, kernel: Kernel, problem: Problem, same: bytes, folder: Path, seed: int
) -> str:
    """Return invalid (does not compile), equivalent, a code, or survived."""
    backend = get(FAMILIES[family].backend)
    built = families.build(FAMILIES[family].builds, kernel, folder / "build")
    if not built.ok or built.artifact is None:
        return "invalid"
    if content(family, kernel, built) == same:
        return "equivalent"
    request = Request(
        where=backend.where,
        language=backend.language,
        seed=seed,
        sessions=replace(place_of(backend, "", "emulated", 2).sessions, call_timeout_s=20.0),
        figures=backend.figures,
    )
    verdict = verify(kernel, built, problem, run_dir=folder, request=request)
    return "survived" if verdict.passed else verdict.code


def run(family: str, count: int, seed: int, only: int | None = None) -> list[tuple[Mutant, str]]:
    """Judge `count` mutants, or only the one of that number, and return each with its outcome."""
    found, known = [], {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "kernel"  # always the same: binaries name their sources
        for number, mutant in enumerate(choose(family, count, seed)):
            if only not in (None, number):
                continue
            case = mutant.case
            kernel, problem = honest(family, case)
            shutil.rmtree(place, ignore_errors=True)
            if case not in known:
                outcome = judge(family, kernel, problem, b"", place, seed)
                assert outcome == "survived", (family, case, outcome)
                shutil.rmtree(place)
                built = families.build(FAMILIES[family].builds, kernel, place / "build")
                known[case] = content(family, kernel, built)
                shutil.rmtree(place)
            outcome = judge(family, mutant.kernel, problem, known[case], place, seed)
            found.append((mutant, outcome))
    return found


def table(family: str, found: list[tuple[Mutant, str]]) -> str:
    """Return the catch table by kind."""
    rows = [f"{family:16} {'tried':>5} {'rejected':>8} {'equivalent':>10} {'survived':>8}"]
    for kind in (*dict.fromkeys(rule.kind for rule in FAMILIES[family].rules), "all"):
        here = [o for m, o in found if kind in (m.kind, "all") and o != "invalid"]
        same, alive = here.count("equivalent"), here.count("survived")
        rows.append(f"{kind:16} {len(here):5} {len(here) - same - alive:8} {same:10} {alive:8}")
    return "\n".join(rows)


def survivors(found: list[tuple[Mutant, str]], count: int, seed: int, only: int | None) -> str:
    """Return each survivor's place, change and the command that repeats it."""
    rows = []
    for number, (mutant, outcome) in enumerate(found):
        if outcome == "survived":
            index = number if only is None else only
            again = f"python -m tests.attacks.fuzz {count} {seed} {mutant.family} --only {index}"
            rows.append(f"survived: {mutant.case}, {mutant.file}:{mutant.line}, {mutant.kind}")
            rows += [f"  {text}" for text in (*mutant.diff, again)]
    return "\n".join(rows)


def main() -> None:
    """Run the families asked for and print what became of their mutants."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.fuzz", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=24)
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("family", nargs="*", help=", ".join(FAMILIES))
    parser.add_argument("--only", type=int)
    asked = parser.parse_args()
    os.environ["SEPTRAN_HOME"] = tempfile.mkdtemp(prefix="septran-fuzz-")  # its compiler cache
    for family in asked.family or FAMILIES:
        found = run(family, asked.count, asked.seed, asked.only)
        print(table(family, found), flush=True)
        print(survivors(found, asked.count, asked.seed, asked.only), flush=True)


if __name__ == "__main__":
    main()
