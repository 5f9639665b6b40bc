"""A call whose kernel is in the cache: nothing of the compiler is imported, and only what is known to be right is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from septran.call import asleep, call_entries, recorded, stamp
from tests.support.homes import with_tools

PROGRAM = """
import sys, torch, septran
x = torch.linspace(-3, 3, 12).reshape(3, 4)
kernel = {made}
found = kernel(x)
assert torch.allclose(found, {right}), found
loaded = [n for n in ("septran.call.kernel", "septran.backends", "septran.passes.run", "septran.tasklang.tree") if n in sys.modules]
{more}
print("compiled" if loaded else "cached")
"""
SOFTMAX = 'septran.compile(op="softmax")'
LOGIC = """
import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def step(Y, X):
    task.call_primitive("map", Y, expr="x + x", x=X)


@task.define
def entry(Y, X):
    n = task.tunable("block_elems")
    Yp = task.partition(Y, by="blocks", shape=(n,))
    Xp = task.partition(X, by="blocks", shape=(n,))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(step, Yp[i], Xp[i])


OPERATORS = (
    task.Operator(
        name="twice", about="twice", entry=entry, tensors={"Y": "N", "X": "N"}, outputs=("Y",), dims={"N": 8}, odd_dims=(),
        reference=Reference(fn=lambda X: X + X, kind="elementwise"), dtypes=("float32",),
    ),
)
"""


def run(home: Path, made: str = SOFTMAX, right: str = "x.softmax(-1)", more: str = "") -> str:
    """Return whether a fresh process compiled, or took what the cache had; its result is right."""
    program = PROGRAM.format(made=made, right=right, more=more)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SEPTRAN_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, _session_home: Path) -> Path:
    """A home in whose cache one call of softmax is."""
    home = with_tools(tmp_path_factory.mktemp("filled"), _session_home)
    time.sleep(max(0.0, 1.5 - (time.time() - home.stat().st_ctime)))
    assert run(home) == "compiled"
    return home


@pytest.fixture
def home(filled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The filled home for a test that spoils it: what lay there comes back."""
    kept = tmp_path / "kept"
    shutil.copytree(filled, kept, symlinks=True)
    monkeypatch.setenv("SEPTRAN_HOME", str(filled))
    return filled


@pytest.fixture(autouse=True)
def _restored(request: pytest.FixtureRequest, tmp_path: Path):
    yield
    if "home" in request.fixturenames:
        filled = request.getfixturevalue("filled")
        shutil.rmtree(filled)
        shutil.copytree(tmp_path / "kept", filled, symlinks=True)


def entry_of(home: Path) -> tuple[Path, Path]:
    texts = (home / "cache" / "calls").rglob("*.json")
    (text,) = (path for path in texts if "[3, 4]" in path.read_text())
    return text, text.with_suffix(".so")


def test_the_second_process_imports_no_compiler(filled):
    assert run(filled) == "cached"


@pytest.mark.wider
def test_what_the_cache_lacks_wakes_the_kernel(filled):
    more = """
assert not loaded and type(kernel).__name__ == "Asleep"
z = torch.randn(5, 6)
assert torch.allclose(kernel(z), z.softmax(-1)) and torch.equal(kernel(x), found)
assert kernel.operator.name == "softmax" and kernel(X=x).equal(found)
from septran.api import CompiledKernel
assert type(kernel) is CompiledKernel and kernel.source(x)
"""
    assert run(filled, more=more) == "cached"


@pytest.mark.wider
def test_a_sleeping_kernel_is_what_the_compiled_one_is(filled):
    more = """
import pickle
other = septran.compile(op="softmax")
from septran.api import CompiledKernel
assert isinstance(other, CompiledKernel) and type(other).__name__ == "Asleep"
assert torch.equal(pickle.loads(pickle.dumps(other))(x), found)
named = pickle.loads(pickle.dumps(kernel))
assert "softmax" in repr(kernel) and kernel.__name__ == "softmax" and "verify" in dir(kernel)
try:
    kernel(x.clone().requires_grad_())
except septran.InputError as e:
    assert e.codes == ("C142",)
else:
    raise AssertionError("a gradient was lost")
"""
    assert run(filled, more=more) == "cached"


@pytest.mark.wider
def test_torch_compile_keeps_a_sleeping_kernel_as_one_call(filled):
    more = """
seen = []
def backend(graph, example):
    seen.extend(str(n.target) for n in graph.graph.nodes if n.op == "call_function")
    return graph
traced = torch.compile(lambda t: kernel(t * 2) + 1, fullgraph=True, backend=backend)(x)
assert torch.allclose(traced, (x * 2).softmax(-1) + 1)
assert any("septran" in name for name in seen), seen
"""
    assert run(filled, more=more) == "cached"


@pytest.mark.wider
def test_a_mistake_is_said_when_it_is_made(filled):
    more = """
try:
    septran.compile(op="softmx")
except septran.ConfigError as e:
    assert e.codes == ("C044",)
else:
    raise AssertionError("no such operator")
"""
    assert run(filled, more=more) == "cached"


HOSTILE = """
#include <stdio.h>
__attribute__((constructor)) static void here(void) { fclose(fopen("MARK", "w")); }
void SYMBOL(void *const *args) { (void)args; }
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("sealed", [False, pytest.param(True, marks=pytest.mark.wider)])
def test_an_entry_that_somebody_wrote_is_not_run(home, tmp_path, sealed):
    """Once with its library alone replaced, once with the hash in its text, too."""
    text, library = entry_of(home)
    mark = tmp_path / "mark"
    data = json.loads(text.read_text())
    source = HOSTILE.replace("MARK", str(mark)).replace("SYMBOL", data["symbol"])
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-xc", "-", "-o", str(library)],
        input=source,
        text=True,
        check=True,
    )
    if sealed:
        data["library"] = sha256(library.read_bytes()).hexdigest()
        text.write_text(json.dumps(data))
    assert run(home) == "compiled"
    assert not mark.exists()
    assert run(home) == "cached", "it is made again"


SPOILED: dict[str, Callable[[Path, Path], object]] = {
    "library cut": lambda t, s: s.write_bytes(s.read_bytes()[:-100]),
    "library empty": lambda t, s: s.write_bytes(b""),
    "library gone": lambda t, s: s.unlink(),
    "a bit": lambda t, s: s.write_bytes(bytes([*s.read_bytes()[:-1], s.read_bytes()[-1] ^ 1])),
    "text cut": lambda t, s: t.write_text(t.read_text()[:-9]),
    "text no object": lambda t, s: t.write_text("[1]"),
    "text without a key": lambda t, s: t.write_text('{"schema": "septran.call/1"}'),
    "another symbol": lambda t, s: t.write_text(
        t.read_text().replace('"symbol": "', '"symbol": "x')
    ),
    "another call": lambda t, s: t.write_text(t.read_text().replace("[3, 4]", "[4, 3]")),
    "text of others": lambda t, s: t.chmod(0o666),
    "library of the group": lambda t, s: s.chmod(0o775),
    "folder of others": lambda t, s: t.parent.chmod(0o777),
    "all folders of others": lambda t, s: t.parent.parent.chmod(0o777),
    "a link": lambda t, s: (s.rename(s.with_suffix(".x")), s.symlink_to(s.with_suffix(".x"))),
    "a pipe": lambda t, s: (t.unlink(), os.mkfifo(t)),
    "no key": lambda t, s: (t.parents[3] / "calls.key").unlink(),
    "another key": lambda t, s: (t.parents[3] / "calls.key").write_bytes(b"k" * 32),
    "a key for all": lambda t, s: (t.parents[3] / "calls.key").chmod(0o666),
}


@pytest.mark.parametrize("how", SPOILED)
def test_what_is_not_whole_or_not_ours_is_none(home, how):
    text, library = entry_of(home)
    data = json.loads(text.read_text())
    assert call_entries.read_entry(data["asked"], data["call"]) is not None
    SPOILED[how](text, library)
    assert call_entries.read_entry(data["asked"], data["call"]) is None


def test_an_entry_under_another_name_is_none(home):
    """A folder that was renamed: it is for another compiler, policy or machine."""
    text, _ = entry_of(home)
    data = json.loads(text.read_text())
    text.parent.rename(text.parent.with_name("0" * 32))
    assert call_entries.read_entry("0" * 64, data["call"]) is None


@pytest.mark.parametrize("what", ["extension", "tools"])
def test_what_an_entry_was_made_with_must_be_the_same(home, tmp_path, what):
    text, _ = entry_of(home)
    data = json.loads(text.read_text())
    found = call_entries.read_entry(data["asked"], data["call"])
    assert found is not None and asleep._loaded(*found) is not None
    entry, library = found
    if what == "extension":
        path = Path(entry.extension[0])
        other = tmp_path / "other.so"
        other.write_bytes(path.read_bytes() + b"\0")
        other.replace(path)  # the first is mapped into this process
        assert asleep._loaded(entry, library) is None
        return
    for at, (path_text, state) in enumerate(entry.tools):
        other = (path_text, (state[0] + 1, *state[1:]))
        tools = (*entry.tools[:at], other, *entry.tools[at + 1 :])
        assert asleep._loaded(call_entries.replace(entry, tools=tools), library) is None
    assert any("cc1plus" in path for path, _ in entry.tools)


def test_all_that_decides_the_bits_is_in_the_name(monkeypatch, tmp_path, fresh_home):
    """Sources, data of each layer, project, packages, Python, torch, processor, cores, compiler, environment: each another name."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "a.py").write_text("one")
    project = tmp_path / "project"
    (project / "mappings").mkdir(parents=True)
    (project / "septran.toml").write_text("")
    monkeypatch.setattr(stamp, "_package", lambda: package)

    def name() -> str:
        stamp._sources.cache_clear()
        found = stamp.stamp()
        assert found is not None
        return found.digest

    seen = [name()]
    assert name() == seen[0]

    def differs(what: str) -> None:
        seen.append(name())
        assert len(set(seen)) == len(seen), what

    try:
        before = (package / "a.py").stat()
        (package / "a.py").write_text("two")
        os.utime(package / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
        differs("a source of the same size and date")
        (package / "b.h").write_text("")
        differs("another source")
        (fresh_home / "mappings").mkdir()
        (fresh_home / "mappings" / "x.mapping.yaml").write_text("")
        differs("a policy of the user's")
        monkeypatch.setenv("SEPTRAN_PROJECT", str(project))
        differs("a project")
        (project / "mappings" / "x.mapping.yaml").write_text("")
        differs("its policy")
        (project / "septran.toml").write_text("# settings")
        differs("its settings")
        installed = tmp_path / "site"
        (installed / "brings-1.0.dist-info").mkdir(parents=True)
        monkeypatch.syspath_prepend(str(installed))
        differs("an installed package")
        (installed / "brings-1.0.dist-info" / "entry_points.txt").write_text("[septran.backends]")
        differs("what it brings")
        (installed / "brings-1.0.dist-info").rename(installed / "brings-1.1.dist-info")
        differs("its version")
        monkeypatch.setenv("SEPTRAN_THREADS", "3")
        differs("threads")
        monkeypatch.setenv("CPATH", "/nowhere")
        differs("headers of the compiler")
        compiler = tmp_path / "g++"
        compiler.write_text("#!/bin/sh\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        differs("a compiler")
        compiler.write_text("#!/bin/bash\n")
        differs("a newer one")
        monkeypatch.setattr(stamp, "_features", lambda: ("flags : none",))
        differs("a processor")
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4, 5, 6})
        differs("cores")
        import torch

        monkeypatch.setattr(torch, "__version__", "0.1")
        differs("torch")
        monkeypatch.setattr(sys, "version", "3.0")
        differs("Python")
    finally:
        monkeypatch.undo()
        stamp._sources.cache_clear()


def test_all_that_was_asked_is_in_the_name(tmp_path, fresh_home):
    logic, mapping = tmp_path / "logic.py", tmp_path / "mapping.yaml"
    logic.write_text(LOGIC)
    mapping.write_text("target: cpp\n")
    words = ("logic_file", "mapping_file", "target", "op", "arch", "entry", "verify")
    asked = dict.fromkeys((*words, "deterministic"))
    names = {asleep.asked_key(asked)}
    for more in (
        {"op": "softmax"},
        {"op": "relu"},
        {"target": "cpp"},
        {"arch": "generic"},
        {"entry": "e"},
        {"verify": True},
        {"verify": False},
        {"deterministic": "batch-invariant"},
        {"logic_file": str(logic)},
        {"logic_file": str(logic), "mapping_file": str(mapping)},
    ):
        names.add(asleep.asked_key({**asked, **more}))
    logic.write_text(LOGIC + "# more\n")
    names.add(asleep.asked_key({**asked, "logic_file": str(logic)}))
    mapping.write_text("target: dsa_c\n")
    names.add(asleep.asked_key({**asked, "logic_file": str(logic), "mapping_file": str(mapping)}))
    assert len(names) == 13 and None not in names
    assert asleep.asked_key({**asked, "logic_file": str(tmp_path / "none.py")}) is None
    (tmp_path / "math.py").write_text("")
    assert asleep.asked_key({**asked, "logic_file": str(logic)}) is None, "it may import that"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (LOGIC, True),
        ("import beside\n", False),
        ("from . import beside\n", False),
        ("import os\n", False),
        ("text = open('sizes.txt').read()\n", False),
        ("import torch\nw = torch.load('w.pt')\n", False),
        ("x = __import__('beside')\n", False),
        ("def f(:\n", False),
    ],
)
def test_a_logic_file_that_reads_others_is_not_kept(tmp_path, text, plain):
    path = tmp_path / "logic.py"
    path.write_text(text)
    assert recorded._plain(path) is plain


@pytest.mark.wider
def test_a_users_file_is_cached_by_its_text(tmp_path, fresh_home):
    home, path = fresh_home, tmp_path / "logic.py"
    path.write_text(LOGIC)
    made = f"septran.compile({str(path)!r}, target='cpp')"
    assert [run(home, made, "x + x") for _ in range(2)] == ["compiled", "cached"]
    path.write_text(LOGIC.replace("X + X", "X * X").replace("x + x", "x * x"))
    assert run(home, made, "x * x") == "compiled"


def test_files_that_changed_while_the_process_ran_are_not_written_down(home, monkeypatch):
    """What was imported may be older than what lies there now."""
    asked = {"op": "softmax", "logic_file": None, "mapping_file": None, "backward": None}
    asked |= {"dynamic": (), "target": None, "arch": None, "entry": None, "verify": True}
    policy: object = None
    here = stamp.stamp()
    assert here is not None
    monkeypatch.setattr(recorded, "STARTED_NS", here.newest_ns + 2 * recorded._MARGIN_NS)
    assert recorded.recorder(asked, "key", policy, None) is not None  # type: ignore[arg-type]
    monkeypatch.setattr(recorded, "STARTED_NS", here.newest_ns + recorded._MARGIN_NS // 2)
    assert recorded.recorder(asked, "key", policy, None) is None  # type: ignore[arg-type]
