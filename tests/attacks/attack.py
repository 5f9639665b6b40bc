"""One attack, and what happens when it is tried."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from septran import settings
from septran.backends import get
from septran.backends.base import Built
from septran.errors import ConfigError, EnvironmentProblem
from septran.leafgate import Refusal, printed
from septran.run.judge import judge
from septran.run.judgement import JudgeRequest
from septran.verify.gate import gate, scan_leaf
from septran.verify.moved import SHRUNK
from septran.verify.noted import with_noted_accesses
from septran.verify.session import Sessions
from septran.verify.verify import Request, verify
from tests.attacks import carried, families, replied
from tests.verify import hosting, kernels


@dataclass(frozen=True)
class Attack:
    """name, what it does, its text. static_only: the results are right, so only the static gate sees it.

    language: cpp, host (judged in the static host) and python are hand-written entries (tests/verify/kernels.py); the others change the row_sum that
    SepTran emits for that backend: `body` stands for the leaf's step, `before` is put before the leaves, `edits`
    are (old, new) texts of the file, `source` replaces the kernel. tries: of an attack that the clock decides. through: the commit that it was shown to
    get through, whole (gate, build and verification).
    of: "backend op leaf" that a reply is for, where it is not relu's of its family's target.
    beside: (name, text) of files that lie beside a bundle's kernel, or a mapping's; fields: a JSON text that is merged into a bundle before it is signed.
    """

    name: str
    what: str
    body: str = ""
    before: str = ""
    language: str = "cpp"
    honest: bool = False
    static_only: bool = False
    edits: tuple[tuple[str, str], ...] = ()
    source: str = ""
    tries: int = 1
    through: str = ""
    beside: tuple[tuple[str, str], ...] = ()
    fields: str = "{}"
    of: str = ""

    @property
    def family(self) -> str:
        titles = {**families.TITLES, **carried.TITLES, **replied.TITLES}
        return titles[self.language]


@dataclass(frozen=True)
class Outcome:
    """What each layer said: "" = it let the kernel through."""

    dynamic: str
    static: str

    @property
    def rejected(self) -> bool:
        return bool(self.dynamic or self.static)

    @property
    def code(self) -> str:
        """The code a user would see: the static gate speaks first, the compiler before it."""
        if self.dynamic == "V201":
            return "V201"
        if named := re.search(r"\((?!V210)([A-Z]\d{3})\)$", self.static):
            return named[1]
        return "V210" if self.static else self.dynamic


def missing(attack: Attack) -> str:
    """Return what this machine lacks for the attack's family, "" when nothing."""
    if attack.language in replied.TITLES and not attack.static_only:
        return replied.missing(attack)
    return families.missing(attack.language)


def run(attack: Attack, folder: Path) -> Outcome:
    """Try an attack against both layers separately."""
    outcome = _try(attack, folder)
    for _ in range(attack.tries - 1):
        if outcome.dynamic:
            break
        outcome = _try(attack, folder)
    return outcome


def _try(attack: Attack, folder: Path) -> Outcome:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    if attack.language in families.FILES:
        return _judged(attack, folder)
    if attack.language in carried.TITLES:
        return Outcome(*carried.tried(attack, folder))
    if attack.language in replied.TITLES:
        return Outcome(*replied.tried(attack, folder))
    if attack.language == "python":
        problem, source = kernels.gemm(5, 4, 6), attack.body
        path = folder / "kernel.py"
        path.write_text(source)
        built = Built(ok=True, artifact=path)
        sessions = Sessions(loader="python_dsl.py.j2", call_timeout_s=1.0)
        kernel = kernels.kernel_of(problem, source, main="kernel.py")
        gated, where = "python", "native"
    elif attack.language in ("cpp", "leaf"):
        problem, source = kernels.gemm(), kernels.entry(attack.body, before=attack.before)
        if attack.language == "leaf":
            source = families.around_leaf(attack.body, honest=attack.honest)
        built = kernels.build(source, folder, flags=("-O1", "-fopenmp"))
        assert built.ok, (attack.name, built.log)
        sessions = Sessions(call_timeout_s=1.0)
        kernel = kernels.kernel_of(problem, source)
        gated, where = "cpp", "native"
    elif attack.language == "host":
        problem = kernels.gemm()
        source = kernels.entry(attack.body, before=f"{hosting.BEFORE}{attack.before}")
        kernel, built = hosting.build(source, problem, folder / "build")
        assert built.ok and built.host, (attack.name, built.log, built.not_checked)
        sessions = Sessions(call_timeout_s=2.0)
        gated, where = "cpp", "native"
    else:
        try:
            made = families.make(
                attack.language,
                folder,
                body=attack.body,
                before=attack.before,
                edits=attack.edits,
                source=attack.source,
            )
        except EnvironmentProblem as error:
            raise AssertionError(f"{attack.name}: {error}") from error
        kernel, built, problem, sessions, gated, where = made
    static = leaf_refusal(attack)
    if not static and built.ok and built.artifact is not None:
        report = gate(
            replace(kernel, leaves=()),
            built.artifact,
            language=gated,
            emulated=where == "emulated",
        )
        static = str(report.findings[0]) if report.findings else ""
    verdict = verify(
        kernel,
        built,
        problem,
        run_dir=folder / "run",
        request=Request(gate=False, sessions=sessions, language=gated, where=where),
    )
    assert verdict.code != "V214", (attack.name, verdict.message)
    noted = get(kernel.backend).noted if attack.language in ("cuda", "hip") else None
    if noted is not None:
        # what the attack changes is in the text; the leaves of the kernel are those that it was emitted with
        theirs = replace(kernel, leaves=())
        verdict = with_noted_accesses(verdict, theirs, problem, noted, folder / "noted", sessions)
    return Outcome(dynamic="" if verdict.passed else f"{verdict.code}", static=static)


def _judged(attack: Attack, folder: Path) -> Outcome:
    """Try a whole file as a user would: what a text or an object says is the gate's, what calls show is not.

    A call that ends early (V217), as it may on a busy machine, is a call.
    """
    file, reference = folder / f"kernel{families.FILES[attack.language]}", folder / "wanted.py"
    file.write_text(attack.source)
    reference.write_text(families.DOUBLED)
    numbers = {} if file.suffix == ".py" else {"n": 300}
    request = JudgeRequest(file=file, reference=reference, entry="scale", numbers=numbers)
    try:
        found = judge(request, settings=settings.load())
    except ConfigError as error:
        return Outcome(dynamic="", static=f"{error} ({error.codes[0]})")
    code = found.verdict.code if found.code else ""
    if code == "V210" or (code == "V217" and found.verdict.message != SHRUNK):
        return Outcome(dynamic="", static=f"{found.verdict.message} ({code})")
    return Outcome(dynamic=code, static="")


def leaf_refusal(attack: Attack) -> str:
    """Return why the gate refuses the attack's text as a leaf, "" when it does not or the text is no leaf."""
    leaf = families.foreign_leaf(attack.language, attack.body, attack.before)
    if leaf is None:
        return ""
    backend = get(leaf.spec.backend)
    try:
        made = printed(leaf, signature=backend.signature(leaf.spec), subset=backend.subset)
    except Refusal as why:
        return f"{why} (subset)"
    return "; ".join(map(str, scan_leaf(made)))
