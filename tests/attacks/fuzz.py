"""Mutate honest emitted C++ kernels and see which mutants pass.  python -m tests.attacks.fuzz [COUNT] [SEED]

Attacks are written by hand by the authors of the checks; mutants are not. A mutant that survives is either a hole or
equivalent: those that compile to the same bytes are set aside, the others are printed for a person to read.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from septran.kernel import Kernel
from septran.run.build import judge_kernel, problem_of
from septran.run.leaves import library_leaves
from septran.run.plan import GenRequest, lower_plan, resolve
from septran.verify.problem import Problem

OPERATORS: dict[str, dict[str, int]] = {
    "gemm": {"M": 101, "N": 77, "K": 131},
    "softmax": {"M": 70, "N": 197},
    "relu": {"N": 20011},
    "layernorm": {"M": 33, "N": 131},
    "col_sum": {"M": 67, "N": 93},
    "transpose": {"M": 67, "N": 93},
}
# changes to these lines cannot change results: hints, sizes of scratch memory, comments, scheduling
_INERT = re.compile(r"prefetch|scratch<|^\s*//|#pragma|^static void|^extern|reinterpret_cast")
_CHOP = """
template <class V> static inline V fuzz_chop(V v) {
    typedef int I __attribute__((vector_size(sizeof(V))));
    return (V)((I)v & ~0x1fff);
}
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """A mistake: what is found in a line and what it becomes (None = the line goes)."""

    kind: str
    pattern: str
    change: Callable[[re.Match[str]], str] | None


def _shift(by: int) -> Callable[[re.Match[str]], str]:
    return lambda m: str(int(m[0]) + by)


RULES = (
    Rule("index +1", r"(?<![\w.<])\d+(?![\w.>])", _shift(1)),
    Rule("index -1", r"(?<![\w.<])[1-9]\d*(?![\w.>])", _shift(-1)),
    Rule("tail short", r"\brest\w* = n\w* - j\w*(?=;)", lambda m: f"{m[0]} - 1"),
    Rule("tail dropped", r"for \(; (j\w*) < (n\w*);", lambda m: f"for (; {m[1]} + L <= {m[2]};"),
    Rule("tail too long", r"store_n\((.*), rest\w*\);", lambda m: f"store({m[1]});"),
    Rule("extent", r"st::least\((\d+), [^)]*\)", lambda m: m[1]),
    Rule("dropped copy", r"^\s*(st::(pack|copy|transpose)\w*<?.*|store(_n)?\(.*);$", None),
    Rule("dropped leaf", r"^\s*leaf_\w+\(.*\);$", None),
    Rule("constant", r"\d+\.\d+f?\b", lambda m: f"({m[0]} + 0.01f)"),
    Rule("sign", r"(?<=\w) - (?=\w+\))", lambda m: " + "),
    Rule("operation", r"\bMax\b", lambda m: "Min"),
    Rule("operation", r"\bvmax\(", lambda m: "vmin("),
    Rule("operation", r"(?<=\w) / (?=\w)", lambda m: " * "),
    Rule("tf32", r"\bload(_n)?<F>\([^()]*\)", lambda m: f"fuzz_chop({m[0]})"),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed kernel. line: 1-based, in the kernel file."""

    operator: str
    kind: str
    line: int
    before: str
    after: str
    kernel: Kernel


def honest(operator: str) -> tuple[Kernel, Problem]:
    """Return the emitted kernel of an operator with library leaves, and its problem."""
    plan = resolve(GenRequest(op=operator, backend="cpp", dims=OPERATORS[operator]))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    return kernel, problem_of(plan, lowered.program, plan.dims)


def mutants(operator: str, kernel: Kernel) -> Iterator[Mutant]:
    """Yield every mutant of the kernel's own part: its leaves and its hierarchy."""
    lines = kernel.source.split("\n")
    first = next(i for i, text in enumerate(lines) if text.startswith("// ---- leaves"))
    last = next(i for i, text in enumerate(lines) if text.startswith("// ---- Python module"))
    for number in range(first, last):
        text = lines[number]
        if not text.strip() or _INERT.search(text):
            continue
        for rule in RULES:
            for found in re.finditer(rule.pattern, text):
                new = "" if rule.change is None else rule.change(found)
                after = text[: found.start()] + new + text[found.end() :]
                changed = [*lines[:first], _CHOP, *lines[first:number], after, *lines[number + 1 :]]
                source = "\n".join(changed)
                files = tuple((n, source if n == kernel.main else t) for n, t in kernel.files)
                yield Mutant(
                    operator, rule.kind, number + 1, text, after, replace(kernel, files=files)
                )


def choose(count: int, seed: int) -> list[Mutant]:
    """Return `count` mutants, as evenly over operators and kinds as there are any."""
    rng = random.Random(seed)
    groups: dict[tuple[str, str], list[Mutant]] = {}
    for operator in OPERATORS:
        for mutant in mutants(operator, honest(operator)[0]):
            groups.setdefault((operator, mutant.kind), []).append(mutant)
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


def judge(mutant: Mutant, problem: Problem, same: bytes, folder: Path) -> str:
    """Return invalid (does not compile), equivalent (the same machine code), a code, or survived."""
    from septran.backends import get

    judged = judge_kernel(get("cpp"), mutant.kernel, problem, work=folder, threads=2)
    if not judged.built.ok or judged.built.artifact is None:
        return "invalid"
    if not judged.verdict.passed:
        return judged.verdict.code
    return "equivalent" if judged.built.artifact.read_bytes() == same else "survived"


def reference_build(kernel: Kernel, folder: Path) -> bytes:
    """Return the library the unchanged kernel compiles to, beside the mutants' helper."""
    from septran.backends import get

    source = kernel.source.replace("// ---- leaves", f"{_CHOP}\n// ---- leaves", 1)
    files = tuple((n, source if n == kernel.main else t) for n, t in kernel.files)
    folder.mkdir(parents=True, exist_ok=True)
    built = get("cpp").build(replace(kernel, files=files), folder)
    assert built.ok and built.artifact is not None, built.log
    return built.artifact.read_bytes()


def run(count: int, seed: int) -> list[tuple[Mutant, str]]:
    """Judge `count` mutants and return each with its outcome."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        known = {}
        for name in OPERATORS:
            kernel, problem = honest(name)
            known[name] = (problem, reference_build(kernel, Path(folder) / f"honest_{name}"))
        for number, mutant in enumerate(choose(count, seed)):
            problem, same = known[mutant.operator]
            outcome = judge(mutant, problem, same, Path(folder) / str(number))
            found.append((mutant, outcome))
    return found


def table(found: list[tuple[Mutant, str]]) -> str:
    """Return the catch table by kind, and the survivors' lines."""
    rows = [f"{'kind':14} {'tried':>5} {'caught':>6} {'same code':>9} {'survived':>8}"]
    for kind in (*dict.fromkeys(rule.kind for rule in RULES), "all"):
        here = [o for m, o in found if kind in (m.kind, "all") and o != "invalid"]
        same, alive = here.count("equivalent"), here.count("survived")
        rows.append(f"{kind:14} {len(here):5} {len(here) - same - alive:6} {same:9} {alive:8}")
    for mutant, outcome in found:
        if outcome == "survived":
            rows.append(f"survived: {mutant.operator} line {mutant.line}, {mutant.kind}")
            rows += [f"  - {mutant.before.strip()}", f"  + {mutant.after.strip()}"]
    return "\n".join(rows)


if __name__ == "__main__":
    os.environ["SEPTRAN_HOME"] = tempfile.mkdtemp(prefix="septran-fuzz-")  # its compiler cache
    print(table(run(int((sys.argv[1:] or ["60"])[0]), int((sys.argv[2:] or ["1"])[0]))))
