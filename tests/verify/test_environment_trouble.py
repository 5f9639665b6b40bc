"""What breaks before a kernel's code runs is not the kernel's fault; what a kernel breaks always is."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from septran import assets, sandbox
from septran.backends.base import Built
from septran.errors import EnvironmentProblem
from septran.outcome import Level, Status
from septran.toolchain import confined as process
from septran.verify import session
from septran.verify.session import Sessions
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.verify import kernels

PY = "def entry(C, A, B):\n    for i in range(5):\n        C[i] = 0\n        for k in range(6):\n            C[i] = C[i] + A[i, k] * B[k]\n"


def judged_c(folder: Path, *, before: str = "", sessions: Sessions | None = None) -> Verdict:
    sessions = sessions or Sessions(call_timeout_s=3.0)
    return kernels.check(
        kernels.entry(kernels.GEMM, before=before), kernels.gemm(), folder, sessions=sessions
    )


def judged_python(folder: Path, source: str, *, loader: str = "python_dsl.py.j2") -> Verdict:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "kernel.py"
    path.write_text(source)
    problem = kernels.gemm(5, 4, 6)
    return verify(
        kernels.kernel_of(problem, source, main="kernel.py"),
        Built(ok=True, artifact=path),
        problem,
        run_dir=folder / "run",
        request=Request(gate=False, language="python", sessions=Sessions(loader=loader)),
    )


def overlay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str) -> None:
    """Let a project folder hide one of the verifier's templates."""
    project = tmp_path / "project"
    shutil.copytree(assets.bundled() / "verify_templates", project / "verify_templates")
    (project / "verify_templates" / name).write_text(text)
    (project / "septran.toml").write_text("")
    layer = assets.Layer(name="project", root=project)
    bundled = assets.Layer(name="bundled", root=assets.bundled())
    monkeypatch.setattr(assets, "layers", lambda *a, **k: (layer, bundled))


def is_environment(verdict: Verdict, word: str) -> None:
    assert verdict.level is Level.UNAVAILABLE, verdict.message
    assert verdict.status is Status.UNAVAILABLE
    assert verdict.code == "V214"
    assert word in verdict.message, verdict.message
    assert not verdict.passed


def test_a_loader_that_cannot_import_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = assets.read("verify_templates/loaders/python_dsl.py.j2")
    broken = text.replace("import importlib.util\n", "import a_package_that_is_gone\n")
    assert broken != text
    overlay(monkeypatch, tmp_path, "loaders/python_dsl.py.j2", broken)
    is_environment(judged_python(tmp_path / "k", PY), "a_package_that_is_gone")


def test_a_child_that_dies_before_the_kernel_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = assets.read("verify_templates/kernel_verify_template.j2")
    broken = text.replace("import numpy as np\n", "raise SystemExit('numpy is damaged')\n")
    assert broken != text
    overlay(monkeypatch, tmp_path, "kernel_verify_template.j2", broken)
    is_environment(judged_c(tmp_path / "k"), "numpy is damaged")


def test_a_missing_template(tmp_path: Path) -> None:
    is_environment(judged_python(tmp_path, PY, loader="no_such_loader.py.j2"), "no_such_loader")


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(session, "start_child", full)
    is_environment(judged_c(tmp_path), "No space left")


def test_a_machine_without_memory_for_the_tensors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("septran.verify.session.Arena", none_left)
    is_environment(judged_c(tmp_path), "Cannot allocate memory")


def test_a_sandbox_that_cannot_be_set_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sandbox.preloaded, "start", lambda *_, **__: None)
    broken = tmp_path / "launcher.py"
    broken.write_text("raise SystemExit('no forks left')\n")
    monkeypatch.setattr(sandbox, "_LAUNCHER", broken)
    is_environment(judged_c(tmp_path / "k"), "no forks left")
    with pytest.raises(EnvironmentProblem) as caught:
        process.run(["g++", "--version"], tmp_path, 20.0)
    assert caught.value.codes == ("V214",)


def test_a_compiler_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="No such file"):
        process.run(["/no/such/compiler"], tmp_path, 20.0)


def test_a_child_that_is_too_slow_to_start_is_a_slow_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox.preloaded, "start", lambda *_, **__: None)
    sessions = Sessions(load_timeout_s=0.001)
    is_environment(judged_c(tmp_path, sessions=sessions), "timeout before the kernel began")


KILLED = (
    "#include <signal.h>\n#include <unistd.h>\n"
    "__attribute__((constructor)) static void early() { kill(getpid(), 9); }"
)


def test_a_machine_out_of_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system counts whom it ended; a kernel that ends itself is not among them."""
    verdict = judged_c(tmp_path / "itself", before=KILLED)
    assert verdict.code == "V205", verdict.message
    counts = iter(range(100))
    monkeypatch.setattr(sandbox, "oom_kills", lambda: next(counts))
    is_environment(judged_c(tmp_path / "k", before=KILLED), "out of memory")


FAKES = {
    "a constructor that ends the child": "#include <unistd.h>\n"
    "__attribute__((constructor)) static void early() { _exit(127); }",
    "a constructor that speaks as the launcher": "#include <unistd.h>\n"
    "__attribute__((constructor)) static void early() {"
    ' const char m[] = "\\n\\"cannot start python: No such file\\"";'
    " for (int f = 0; f < 64; f++) (void)!write(f, m, sizeof m - 1); _exit(127); }",
    "a constructor that says what a broken harness says": "#include <unistd.h>\n"
    "__attribute__((constructor)) static void early() {"
    ' const char m[] = "{\\"error\\": \\"load: ImportError: numpy\\"}\\n";'
    " for (int f = 0; f < 64; f++) (void)!write(f, m, sizeof m - 1); _exit(1); }",
}


@pytest.mark.parametrize("name", FAKES)
def test_a_c_kernel_cannot_blame_the_environment(name: str, tmp_path: Path) -> None:
    verdict = judged_c(tmp_path, before=FAKES[name])
    assert verdict.status is not Status.UNAVAILABLE, verdict.message
    assert verdict.code in ("V205", "V211"), verdict.message


PY_FAKES = (
    "raise ImportError('numpy')\n" + PY,
    "import os\nos._exit(127)\n" + PY,
    "import a_package_that_is_gone\n" + PY,
    "raise MemoryError('Cannot allocate memory')\n" + PY,
    "raise OSError(28, 'No space left on device')\n" + PY,
    "import __main__\n__main__._BEGUN.clear()\n__main__._say({'error': 'harness'})\nraise SystemExit\n"
    + PY,
    "import os\nos.kill(os.getpid(), 9)\n" + PY,
)


@pytest.mark.few(3)
@pytest.mark.parametrize("number", range(len(PY_FAKES)))
def test_a_python_kernel_cannot_blame_the_environment(number: int, tmp_path: Path) -> None:
    verdict = judged_python(tmp_path, PY_FAKES[number])
    assert verdict.status is not Status.UNAVAILABLE, verdict.message
    assert verdict.code in ("V205", "V211"), verdict.message


def test_the_honest_ones_pass(tmp_path: Path) -> None:
    assert judged_c(tmp_path / "c").passed
    assert judged_python(tmp_path / "p", PY).passed


def test_a_file_beside_the_kernel_is_not_pythons(tmp_path: Path) -> None:
    """A bundle may name its files as it likes: none of them runs in place of a module the harness needs."""
    from septran.backends.device.simulated import write_simulated

    problem = kernels.gemm(5, 4, 6)
    kernel = kernels.kernel_of(problem, "def entry(C, A, B): pass\n", main="kernel.py")
    names = ("ast.py", "dataclasses.py", "inspect.py", "pathlib.py", "json.py")
    traps = tuple((name, "raise SystemExit('a trap')\n") for name in names)
    kernel = replace(kernel, files=(*kernel.files, *traps), arch="sm_80")
    main = write_simulated(kernel, tmp_path)
    verdict = verify(
        kernel,
        Built(ok=True, artifact=main),
        problem,
        run_dir=tmp_path / "run",
        request=Request(
            gate=False,
            language="python",
            where="emulated",
            sessions=Sessions(loader="tilesim.py.j2", address_space=False),
        ),
    )
    assert "a trap" not in verdict.message + verdict.log
