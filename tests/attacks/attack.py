"""One attack, and what happens when it is tried."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from septran.backends.base import Built
from septran.kernel import Leaf, LeafSpec
from septran.verify.gate import gate
from septran.verify.session import Sessions
from septran.verify.verify import Request, verify
from tests.verify import kernels


@dataclass(frozen=True)
class Attack:
    """name, what it does, its text. static_only: the results are right, so only the static gate sees it."""

    name: str
    what: str
    body: str
    before: str = ""
    language: str = "cpp"
    honest: bool = False
    static_only: bool = False


@dataclass(frozen=True)
class Outcome:
    """What each layer said: "" = it let the kernel through."""

    dynamic: str
    static: str

    @property
    def rejected(self) -> bool:
        return bool(self.dynamic or self.static)


def run(attack: Attack, folder: Path) -> Outcome:
    """Try an attack against both layers separately."""
    folder.mkdir(parents=True, exist_ok=True)
    if attack.language == "python":
        problem, source = kernels.gemm(5, 4, 6), attack.body
        path = folder / "kernel.py"
        path.write_text(source)
        built = Built(ok=True, artifact=path)
        sessions = Sessions(loader="python_dsl.py.j2", call_timeout_s=1.0)
        main = "kernel.py"
    else:
        problem, source = kernels.gemm(), kernels.entry(attack.body, before=attack.before)
        built = kernels.build(source, folder, flags=("-O1",))
        assert built.ok, (attack.name, built.log)
        sessions, main = Sessions(call_timeout_s=1.0), "kernel.cpp"
    kernel = kernels.kernel_of(problem, source, main=main)
    assert built.artifact is not None
    report = gate(_with_leaf(kernel, attack), built.artifact, language=attack.language)
    verdict = verify(
        kernel,
        built,
        problem,
        run_dir=folder / "run",
        request=Request(gate=False, sessions=sessions, language=attack.language),
    )
    return Outcome(
        dynamic="" if verdict.passed else f"{verdict.code}",
        static=str(report.findings[0]) if report.findings else "",
    )


def _with_leaf(kernel, attack: Attack):
    from dataclasses import replace

    spec = LeafSpec(task="mma", backend="cpp", arch="", proc="", params=(), scalars=(), prims=())
    # the includes of the test's prelude are the wrapper's, not the leaf's
    source = attack.body if attack.language == "python" else f"{attack.before}\n{attack.body}\n"
    leaf = Leaf(spec=spec, writer="llm", name=attack.name, source=source)
    return replace(kernel, leaves=(leaf,))
