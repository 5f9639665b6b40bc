"""Children forked from a Python that has imported what they need: as those started afresh, and none can find another."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from septran import preloaded, sandbox
from septran.preloaded import Preload
from septran.sandbox import Confined, Limits, SandboxResult

PRELOAD = Preload(("json", "wave", "random", "tempfile"))


def python(code: str, folder: Path, preload: Preload = PRELOAD, **options: object) -> SandboxResult:
    script = folder / "script.py"
    script.write_text(code)
    return sandbox.run([sys.executable, "-I", str(script), "one"], rw_dir=folder, preload=preload, **options)  # type: ignore[arg-type]  # fmt: skip


def server() -> int:
    """The number of the Python that forks."""
    return preloaded._SERVERS[PRELOAD]._process.pid


def test_a_child_has_its_own_environment_folder_and_random_numbers(tmp_path: Path) -> None:
    code = (
        "import os, random, sys, tempfile\n"
        "print(os.environ['SAID'], os.getcwd(), tempfile.gettempdir(), len(os.environ), sys.argv[1:])\n"
        "print(random.random())\n"
    )
    first = python(code, tmp_path, env={"SAID": "this"}).stdout_tail.splitlines()
    second = python(code, tmp_path, env={"SAID": "that"}).stdout_tail.splitlines()
    assert first[0] == f"this {tmp_path} {tmp_path} 7 ['one']"
    assert second[0].startswith("that ")
    assert first[1] != second[1]


def test_an_error_shows_the_lines_of_the_script_alone(tmp_path: Path) -> None:
    result = python("def f():\n    return 1 / 0\n\n\nf()\n", tmp_path)
    assert result.rc == 1
    assert "sandbox_warm" not in result.stdout_tail
    assert 'script.py", line 5' in result.stdout_tail
    assert result.stdout_tail.rstrip().endswith("ZeroDivisionError: division by zero")
    assert python("import sys; sys.exit('words')", tmp_path).stdout_tail == "words\n"


def test_what_a_child_leaves_is_not_seen_by_the_next(tmp_path: Path) -> None:
    leave = "import json, os, builtins\njson.left = builtins.left = 1\nos.environ['LEFT'] = '1'\n"
    assert python(leave, tmp_path).ok
    look = "import json, os, builtins\nprint(hasattr(json, 'left'), hasattr(builtins, 'left'), 'LEFT' in os.environ)"
    assert python(look, tmp_path).stdout_tail == "False False False\n"


def test_a_request_is_not_in_the_memory_of_a_later_child(tmp_path: Path) -> None:
    """What is asked of one child, paths of its run among it, is read by that child and not by the Python that forks."""
    assert python("pass", tmp_path, env={"SECRET": "zebra" + "crossing"}).ok
    search = (
        "word = b'zebra' + b'crossing'\n"
        "for line in open('/proc/self/maps'):\n"
        "    place, rights = line.split()[:2]\n"
        "    low, high = (int(n, 16) for n in place.split('-'))\n"
        "    if rights[:2] == 'rw' and high - low < 1 << 28:\n"
        "        with open('/proc/self/mem', 'rb') as memory:\n"
        "            memory.seek(low)\n"
        "            data = memory.read(high - low)\n"
        "        at = data.find(word)\n"
        "        while at >= 0:\n"
        "            if data[at - 9 : at].find(b'SECRET') >= 0: print('found')\n"
        "            at = data.find(word, at + 1)\n"
    )
    assert python(search, tmp_path).stdout_tail == ""
    # the search finds what is there
    assert "found" in python(search, tmp_path, env={"SECRET": "zebra" + "crossing"}).stdout_tail


@pytest.mark.parametrize(("open_files", "preload"), [(0, PRELOAD), (90, Preload(("wave", "csv")))])
def test_only_what_it_was_given_is_open(open_files: int, preload: Preload, tmp_path: Path) -> None:
    """The server's own descriptors have the numbers of the process that started it, high ones in a large one."""
    others = [os.dup(0) for _ in range(open_files)]
    assert sandbox.run([sys.executable, "-I", "-c", "0"], rw_dir=tmp_path).ok
    python("pass", tmp_path, preload)
    for fd in others:
        os.close(fd)
    read, written = os.pipe()
    script = tmp_path / "script.py"
    script.write_text(
        f"import os\nos.write({written}, b'word')\n"
        "print(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))\n"
    )
    child = Confined(
        [sys.executable, "-I", str(script)],
        rw_dir=tmp_path,
        limits=Limits(forks=False),
        pass_fds=(written,),
        preload=preload,
    )
    os.close(written)
    result = child.wait()
    assert os.read(read, 10) == b"word"
    os.close(read)
    assert result.stdout_tail == f"[0, 1, 2, {written}]\n"


def test_a_child_that_writes_everywhere_says_nothing_of_its_end(tmp_path: Path) -> None:
    others = [os.dup(0) for _ in range(90)]
    forge = (
        "import os\nword = f'{os.getpid()} 0 0.0\\n2 0 0.0\\n'.encode()\n"
        "for fd in range(3, 1024):\n    try: os.write(fd, word)\n    except OSError: pass\nos._exit(9)\n"
    )
    preload = Preload(("wave", "json", "random"))
    for _ in range(3):
        assert python(forge, tmp_path, preload).rc == 9
    for fd in others:
        os.close(fd)
    assert preloaded._SERVERS[preload].usable


def test_many_at_once(tmp_path: Path) -> None:
    found: dict[int, SandboxResult] = {}

    def one(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        found[number] = python(f"print({number}); raise SystemExit({number})", folder)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(found[n].rc, found[n].stdout_tail) for n in range(12)] == [(n, f"{n}\n") for n in range(12)]  # fmt: skip


def test_a_server_that_died_takes_its_children_with_it_and_is_replaced(tmp_path: Path) -> None:
    assert python("pass", tmp_path).ok
    first = server()
    script = tmp_path / "sleep.py"
    script.write_text("import time\ntime.sleep(60)\n")
    child = Confined(
        [sys.executable, "-I", str(script)], rw_dir=tmp_path, limits=Limits(), preload=PRELOAD
    )
    time.sleep(0.2)
    os.kill(first, signal.SIGKILL)
    begun = time.monotonic()
    result = child.wait()
    assert (result.rc, result.why) == (-9, "machine memory")  # never the kernel's crash
    assert time.monotonic() - begun < 30  # the child would sleep for 60
    assert python("import sys; print('wave' in sys.modules)", tmp_path).stdout_tail == "True\n"
    assert server() != first


def test_a_child_that_comes_late_does_not_run_beside_its_substitute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    preload = Preload(("wave", "random"))
    count = "with open('count', 'a') as f: f.write('x')"
    assert python(count, tmp_path, preload).ok
    monkeypatch.setattr(preloaded, "_ANSWER_S", 0.0)
    assert python(count, tmp_path, preload).ok
    time.sleep(0.3)
    assert (tmp_path / "count").read_text() == "xx"


def test_seconds_only_grow(tmp_path: Path) -> None:
    spent = [preloaded.seconds()]
    for name in ("csv", "wave", "random", "json", "shelve"):  # more than are kept
        assert python("pass", tmp_path, Preload((name, "string"))).ok
        spent.append(preloaded.seconds())
    assert spent == sorted(spent)


def test_what_cannot_be_imported_starts_afresh(tmp_path: Path) -> None:
    preload = Preload(("no_such_module_anywhere",))
    for _ in range(2):
        assert python("print('ran')", tmp_path, preload).stdout_tail == "ran\n"
    assert preload in preloaded._HOPELESS


def test_a_fork_that_cannot_confine_itself_never_runs_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "septran"
    package.mkdir()
    shutil.copyfile(preloaded._WARM, package / "sandbox_warm.py")
    (package / "sandbox_launcher.py").write_text(
        "def die_with_parent():\n    pass\n\n\ndef confine(config):\n    raise OSError('no forks left')\n"
    )
    monkeypatch.setattr(preloaded, "_WARM", package / "sandbox_warm.py")
    folder = tmp_path / "work"
    folder.mkdir()
    result = python("open('ran', 'w')", folder, Preload(("wave", "json", "csv")))
    assert "no forks left" in result.broken
    assert result.rc != 0
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_no_server_whose_memory_a_child_could_write(kind: str, tmp_path: Path) -> None:
    """A package that maps shared memory while it is imported would let a child change what the next one runs."""
    preload = Preload((f"tests.verify.mapping:{kind}",))
    for _ in range(2):  # functions are called before the second
        assert python("print('ran')", tmp_path, preload).stdout_tail == "ran\n"
    assert preloaded._SERVERS[preload].gone == (kind == "shared")


def test_no_server_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preload = Preload(("wave", "textwrap"))  # of this test alone: none of it is there yet
    monkeypatch.setattr(preloaded, "_free_bytes", lambda: 1 << 30)
    assert (
        python("import sys; print('wave' in sys.modules)", tmp_path, preload).stdout_tail
        == "False\n"
    )
    monkeypatch.undo()
    assert (
        python("import sys; print('wave' in sys.modules)", tmp_path, preload).stdout_tail
        == "True\n"
    )


@pytest.mark.parametrize("end", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_no_server_outlives_its_user(end: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\ntime.sleep(60)\n")
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from septran import preloaded, sandbox\nfrom septran.preloaded import Preload\n"
        "from septran.sandbox import Confined, Limits\n"
        f"command = [sys.executable, '-I', {str(tmp_path / 'script.py')!r}]\n"
        f"child = Confined(command, rw_dir=Path({str(tmp_path)!r}), limits=Limits(), preload=Preload(('wave',)))\n"
        "print(preloaded._SERVERS[Preload(('wave',))]._process.pid, child.pid, flush=True)\n"
    )
    made = subprocess.run([sys.executable, "-c", code + end], capture_output=True, text=True)
    pids = [int(word) for word in made.stdout.split()]
    assert len(pids) == 2, made.stderr
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in pids if _alive(pid)] == []


def _alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def test_processor_seconds_of_forked_children_are_counted(tmp_path: Path) -> None:
    assert python("pass", tmp_path).ok
    before = preloaded.seconds()
    assert python("import time\nwhile time.process_time() < 0.3: pass", tmp_path).ok
    deadline = time.monotonic() + 20
    while preloaded.seconds() - before < 0.2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert 0.2 < preloaded.seconds() - before < 1.0


def test_functions_are_called_before_the_second_child(tmp_path: Path) -> None:
    """Most commands have one child, and many of these fail before they need what a function remembers."""
    named = Preload(("json", "mimetypes:init", "mimetypes:gone_in_this_version"))
    look = "import mimetypes, sys\nprint('json' in sys.modules, mimetypes.inited)"
    assert python(look, tmp_path, named).stdout_tail == "True False\n"
    assert python(look, tmp_path, named).stdout_tail == "True True\n"
    assert python(look, tmp_path, named).stdout_tail == "True True\n"


def test_one_that_was_begun_is_the_one_that_is_used(tmp_path: Path) -> None:
    begun = Preload(("json", "csv", "decimal"))
    preloaded.begin(begun)
    process = preloaded._SERVERS[begun]._process
    preloaded.begin(begun)
    assert python("print(5)", tmp_path, begun).stdout_tail == "5\n"
    assert preloaded._SERVERS[begun]._process is process


def test_one_that_was_begun_for_nothing_ends_with_its_command(tmp_path: Path) -> None:
    script = tmp_path / "begin.py"
    script.write_text(
        "from septran import preloaded\nasked = preloaded.Preload(('json',))\npreloaded.begin(asked)\n"
        "print(preloaded._SERVERS[asked]._process.pid)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    end = time.monotonic() + 20
    while Path(f"/proc/{int(done.stdout)}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{int(done.stdout)}").exists()


@pytest.mark.parametrize("end", ["retired", "killed"])
def test_one_that_ended_leaves_nothing_open(end: str, tmp_path: Path) -> None:
    """An open socket of an object that nobody has is a warning at some later time, in whoever is at work then."""
    preload = Preload(("json", "calendar"))
    asked = threading.Thread(
        target=python, args=("import time; time.sleep(0.5)", tmp_path, preload)
    )
    asked.start()
    while preload not in preloaded._SERVERS or not preloaded._SERVERS[preload]._running:
        time.sleep(0.01)
    ending = preloaded._SERVERS.pop(preload)
    if end == "retired":
        ending.retire()
    else:
        os.kill(ending._process.pid, signal.SIGKILL)
    asked.join()
    until = time.monotonic() + 20
    while ending._control.fileno() >= 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert ending._control.fileno() < 0
    assert not Path(f"/proc/{ending._process.pid}").exists()
