"""What a confined command cannot do, and that it can do its work."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from pathlib import Path

import pytest

from septran.preloaded import Preload
from septran.sandbox_launcher import LOCAL_SOCKETS
from septran.verify import sandbox
from septran.verify.sandbox import MIB, Confined, Limits, run

FULL = {"landlock", "seccomp", "namespaces"}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    return frozenset(run(["/bin/true"], rw_dir=tmp_path_factory.mktemp("probe")).enforced)


STARTED: dict[str, Preload | None] = {"afresh": None, "forked": Preload(("json", "wave"))}
"""how a Python child starts: what it cannot do must not depend on it"""


@pytest.fixture(params=list(STARTED), autouse=True)
def started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(STARTED, "now", STARTED[request.param])
    return str(request.param)


def python(code: str, folder: Path, **options: object) -> sandbox.SandboxResult:
    (folder / "script.py").write_text(code)
    command = [sys.executable, "-I", str(folder / "script.py")]
    return run(command, rw_dir=folder, preload=STARTED["now"], **options)  # type: ignore[arg-type]


def test_a_forked_child_has_the_modules(started: str, tmp_path: Path) -> None:
    result = python("import sys; print('wave' in sys.modules, sys.argv, __name__)", tmp_path)
    script = str(tmp_path / "script.py")
    assert result.stdout_tail == f"{started == 'forked'} [{script!r}] __main__\n"


def needs(parts: frozenset[str], name: str) -> None:
    if name not in parts:
        pytest.skip(f"this machine does not enforce {name}")


def test_it_says_what_it_enforces_and_what_not(tmp_path: Path) -> None:
    result = run(["/bin/true"], rw_dir=tmp_path)
    assert result.ok
    named = {n.partition(":")[0] for n in (*result.enforced, *result.not_enforced)}
    assert named >= FULL | {"limits", "no new privileges", "clean environment"}


def test_work_in_its_folder_is_kept(tmp_path: Path) -> None:
    assert python("open('x', 'w').write('kept')", tmp_path).ok
    assert (tmp_path / "x").read_text() == "kept"


def test_a_compiler_works_inside(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text(
        '#include <cmath>\nextern "C" float f(float x) { return std::exp(x); }\n'
    )
    result = run(["g++", "-O2", "-shared", "-fPIC", "-o", "a.so", "a.cpp"], rw_dir=tmp_path)
    assert result.ok, result.stdout_tail
    assert (tmp_path / "a.so").exists()


@pytest.mark.parametrize(
    "code",
    [
        "open('/tmp/septran-escape', 'w')",
        "import os; os.unlink(OUTSIDE)",
        "open(OUTSIDE).read()",
        "open('/etc/shadow').read()",
        "import os; os.listdir(os.path.dirname(OUTSIDE))",
    ],
)
def test_files_outside_are_out_of_reach(code: str, tmp_path: Path, parts: frozenset[str]) -> None:
    needs(parts, "landlock")
    outside = tmp_path / "outside" / "secret"
    outside.parent.mkdir()
    outside.write_text("secret")
    inside = tmp_path / "inside"
    inside.mkdir()
    result = python(f"OUTSIDE = {str(outside)!r}\n{code}", inside)
    assert result.rc != 0
    assert "Permission" in result.stdout_tail or "not permitted" in result.stdout_tail
    assert outside.read_text() == "secret"


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, 1, 0, 0) == -1)",
        "import os; os.setsid()",
    ],
)
def test_system_calls_that_no_kernel_needs(
    code: str, tmp_path: Path, parts: frozenset[str]
) -> None:
    needs(parts, "seccomp")
    assert python(code, tmp_path).rc != 0


def test_a_build_tool_gives_its_commands_groups_that_they_do_not_get(
    tmp_path: Path, parts: frozenset[str]
) -> None:
    """A real spawn with a group of its own, as ninja starts each command; the end of the run must still end it."""
    needs(parts, "seccomp")
    result = python(
        """import os, subprocess, sys
own = os.getpgrp()
child = os.posix_spawn(sys.executable, [sys.executable, "-c", f"import os, sys; sys.exit(os.getpgrp() != {own})"], {}, setpgroup=0)
print("spawned:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.setpgid(0, 0)
print("moved:", os.getpgrp() != own)
""",
        tmp_path,
    )
    assert result.stdout_tail == "spawned: 0\nmoved: False\n"


@pytest.mark.skipif(not shutil.which("ninja"), reason="no ninja on this machine")
def test_ninja_builds(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text("rule copy\n  command = cp $in $out\nbuild b: copy a\n")
    (tmp_path / "a").write_text("built")
    result = run([str(shutil.which("ninja")), "-C", str(tmp_path)], rw_dir=tmp_path)
    assert result.ok, result
    assert (tmp_path / "b").read_text() == "built"


@pytest.mark.parametrize(
    ("code", "fine"),
    [
        ("s = socket.socket(socket.AF_UNIX); s.bind('mine')", True),
        ("socket.socket(socket.AF_UNIX).connect(THEIRS)", False),
        ("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', THEIRS)", False),
        ("socket.socket(socket.AF_INET)", False),
        ("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", False),
    ],
)
def test_a_local_socket_reaches_nobody(
    code: str, fine: bool, tmp_path: Path, parts: frozenset[str]
) -> None:
    """A GPU's driver makes and binds one when it starts."""
    needs(parts, "seccomp")
    theirs = tmp_path / "theirs"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(theirs))
        server.listen()
        (tmp_path / "in").mkdir()
        code = f"import socket\nTHEIRS = {str(theirs)!r}\n{code}"
        child = Confined(
            [sys.executable, "-I", "-S", "-c", code],
            rw_dir=tmp_path / "in",
            rw_paths=(theirs,),
            limits=Limits(calls=(LOCAL_SOCKETS,)),
        )
        result = child.wait()
    assert result.ok == fine, result.stdout_tail
    assert fine or "not permitted" in result.stdout_tail


def test_forks_only_where_allowed(tmp_path: Path, parts: frozenset[str]) -> None:
    needs(parts, "seccomp")
    assert python("import os; os._exit(0 if os.fork() else 0)", tmp_path).ok
    assert python("import os; os.fork()", tmp_path, forks=False).rc != 0
    threads = "import threading; t = threading.Thread(target=int); t.start(); t.join()"
    assert python(threads, tmp_path, forks=False).ok


def test_the_parent_is_out_of_sight(tmp_path: Path, parts: frozenset[str]) -> None:
    needs(parts, "private /proc")
    assert python(f"import os; os.kill({os.getpid()}, 0)", tmp_path).rc != 0
    shown = python(
        "import os; print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))", tmp_path
    )
    assert len(eval(shown.stdout_tail)) <= 3


def test_no_secret_is_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    result = python("import os; print(dict(os.environ))", tmp_path)
    assert "sk-secret" not in result.stdout_tail
    assert python("import os; os.environ['OPENAI_API_KEY']", tmp_path).rc != 0


def test_limits_name_what_they_ended(tmp_path: Path) -> None:
    assert python("import time; time.sleep(30)", tmp_path, timeout_s=0.3).why == "timeout"
    assert python("while True: pass", tmp_path, cpu_s=1, timeout_s=20).why == "cpu"
    grow = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    assert python(grow, tmp_path, memory_bytes=200 * MIB).rc != 0
    found = python(grow, tmp_path, memory_bytes=200 * MIB, address_space=False)
    assert found.why == "memory"
    flood = python("while True: print('x' * 1000)", tmp_path, output_cap=4096, timeout_s=30)
    assert flood.why == "output"
    assert len(flood.stdout_tail) <= 4096


def test_nothing_survives(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    time.sleep(1.0)\n"
        "    open('survivor', 'w').write('x')\n"
    )
    assert python(code, tmp_path).ok
    threading.Event().wait(1.3)
    assert not (tmp_path / "survivor").exists()


def test_a_signal_is_reported_as_one(tmp_path: Path) -> None:
    assert python("import os; os.kill(os.getpid(), 11)", tmp_path).rc == -11
    assert python("raise SystemExit(3)", tmp_path).rc == 3
    assert run(["/no/such/program"], rw_dir=tmp_path).rc == 127


def test_many_at_once_from_threads(tmp_path: Path) -> None:
    results: list[sandbox.SandboxResult] = []

    def one(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        results.append(run(["sh", "-c", f"echo {number} > out"], rw_dir=folder))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(r.ok for r in results)
    assert [(tmp_path / str(n) / "out").read_text().strip() for n in range(8)] == list("01234567")
