"""Compilers run confined: sources cannot read the user's files, and what is not enforced is said."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends.base import Built
from septran.sandbox import SandboxResult
from septran.sandbox import run as sandboxed
from septran.toolchain import compilers as toolchains
from septran.toolchain import confined as process
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.confined import Finished, child_result, plain, run, run_confined
from tests.support.shared import compile_shared


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> None:
    if "landlock" not in sandboxed(["/bin/true"], rw_dir=tmp_path_factory.mktemp("probe")).enforced:
        pytest.skip("this machine has no Landlock")


def compiled(text: str, folder: Path, runner: process.Run = run) -> Built:
    return compile_shared(text, folder, flags=("-shared", "-fPIC"), runner=runner)


@pytest.mark.usefixtures("confined")
@pytest.mark.parametrize(
    "line",
    [
        '#include "{secret}"',
        'asm(".incbin \\"{secret}\\"");',
        "static const char x[] = {{\n#if __has_include(<{secret}>)\n#include <{secret}>\n#endif\n}};\n#error unreadable",
    ],
)
def test_a_source_cannot_read_the_users_files(line: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text('static const char* key = "sk-verysecret";\n#error LEAKED sk-verysecret\n')
    built = compiled(line.format(secret=secret), tmp_path / "build")
    assert not built.ok
    assert "verysecret" not in built.log
    # the same line works without the sandbox, so the sandbox is what stops it
    plainly = compiled(line.format(secret=secret), tmp_path / "open", runner=_unconfined)
    assert plainly.ok or "verysecret" in plainly.log or "unreadable" in plainly.log


def _unconfined(command: Sequence[str], cwd: Path, timeout_s: float) -> Finished:
    import subprocess

    done = subprocess.run(
        list(command), cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    return Finished(code=done.returncode, output=done.stdout + done.stderr, seconds=0.0)


@pytest.mark.usefixtures("confined")
def test_a_kernel_that_runs_while_it_is_compiled_cannot_change_its_sources(tmp_path: Path) -> None:
    work = tmp_path / "compile"
    work.mkdir()
    source = tmp_path / "kernel.py"
    source.write_text("open(__file__, 'a').write('# other')")
    done = run_confined([sys.executable, str(source)], work, 20.0, reads=(tmp_path,))
    assert done.code != 0
    assert "Permission denied" in done.output
    assert source.read_text().endswith("'# other')")


def test_a_compiler_may_start_processes_and_use_include_folders(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "mine.h").write_text("#define MINE 3\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.cpp").write_text('#include "mine.h"\nint x = MINE;\n')
    done = run(["g++", f"-I{headers}", "-shared", "-fPIC", "a.cpp", "-o", "a.so"], work, 30.0)
    assert done.code == 0, done.output
    assert plain(work / "a.so")


def test_a_compiler_that_does_not_end_is_ended(tmp_path: Path) -> None:
    done = run([sys.executable, "-c", "while True: pass"], tmp_path, 0.5)
    assert done.code == 124
    assert "timeout limit" in done.output


def test_processes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_PROCESSES", 8)
    code = "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        import time; time.sleep(60)\n        os._exit(0)\ntime.sleep(60)"
    done = run([sys.executable, "-c", code], tmp_path, 60.0)
    assert "processes limit" in done.output
    assert done.seconds < 30


def test_what_is_not_enforced_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Weak(process.Confined):
        def wait(self) -> SandboxResult:
            return replace(super().wait(), not_enforced=("landlock: the kernel has no Landlock",))

    monkeypatch.setattr(process, "Confined", Weak)
    built = compiled('extern "C" int answer() { return 42; }', tmp_path)
    assert built.ok
    assert built.not_checked == ("compile sandbox: landlock: the kernel has no Landlock",)


def test_a_home_is_never_opened_for_a_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "g++"
    tool.touch()
    assert tmp_path not in process.toolchain_folders(str(tool), {})
    other = tmp_path / "opt" / "gcc" / "bin" / "g++"
    other.parent.mkdir(parents=True)
    other.touch()
    assert tmp_path / "opt" / "gcc" in process.toolchain_folders(str(other), {})


@pytest.mark.parametrize(
    "text", ["", "[]", '{"ok": true}', '{"ok": 1, "log": "", "facts": {"a": "x"}}']
)
def test_a_childs_answer_is_not_trusted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "compiled.json"
    path.write_text(text)
    assert child_result(path) is None
    link = tmp_path / "link.json"
    path.write_text(json.dumps({"ok": True, "log": "", "facts": {}}))
    link.symlink_to(path)
    assert child_result(link) is None
    assert child_result(path) == {"ok": True, "log": "", "facts": {}}


def test_version_probes_do_not_need_a_folder() -> None:
    toolchains.find.cache_clear()
    assert cpp_compiler("native") is not None
    assert process.probe(["/no/such/compiler", "--version"]).code == 127


def test_a_busy_machine_gives_a_compile_step_more_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = ["sh", "-c", "sleep 1; echo done"]
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    assert run_confined(command, tmp_path, 0.9).code == 124
    monkeypatch.setattr("os.getloadavg", lambda: (400.0, 0.0, 0.0))
    found = run_confined(command, tmp_path, 0.9)
    assert (found.code, found.output.strip()) == (0, "done")
