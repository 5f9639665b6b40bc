"""Every command that an error hint or an error's page names: it exists with these flags, and run, it does what is said.

An example of docs/errors/CODE.md shows how one meets CODE, so running it says CODE. A hint says what to do next, so
running it is no usage error. Words in capitals stand for what the reader has.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from septran.cli.main import _COMMANDS, cli, main
from septran.environment.service import held
from septran.toolchain import compilers
from tests.docs.shop import GEMM, RELU, SQUARES, begun, stocked
from tests.packaging.sources import ROOT, files, relative
from tests.support.homes import with_tools

PAGES = sorted((ROOT / "docs" / "errors").glob("*.md"))
_ANY = re.compile(rf"septran (?:{'|'.join(_COMMANDS)})\b[^`\"\n]*")
STANDS_FOR = {
    "RUN": "latest",
    "{run.id}": "latest",
    "{plan.run.id}": "latest",
    "{again}": "latest",
    "{store.reference(run)}": "latest",
    "{store.reference(plan.run)}": "latest",
    "{store.reference(search.run)}": "latest",
    "KERNEL": "kernel.py",
    "MODULE": "model.py",
    "OP": "relu",
    "TARGET": "cpp",
    "{target}": "cpp",
    "{self.backend.name}": "cpp",
    "{backend.name}": "cpp",
    "PASS": "insert_copies",
    "N": "5",
    "COMMAND [OPTIONS]": "ls",
    "COMMAND": "gen",
    "...": "--op relu --backend cpp",
    "FILE.py": "model.py",
}
FILES = {"batch": "smoke.yaml", "prove": "certificate.json"}


def filled(command: str) -> list[str]:
    """Return a command's words with something in place of what stands for it."""
    for name, value in STANDS_FOR.items():
        command = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w=])", value, command)
    words = shlex.split(command, comments=True)
    return [FILES.get(words[1], w) if w == "FILE" else w for w in words]


def hints() -> Iterator[tuple[str, str]]:
    """Yield (where, command) of each text of the code and each page; docstrings are no hints."""
    for path in files():
        source = path.read_text(encoding="utf-8")
        if "septran " not in source:
            continue
        nodes = list(ast.walk(ast.parse(source)))
        inner = {id(v) for n in nodes if isinstance(n, ast.JoinedStr) for v in n.values}
        inner |= {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
        for node in nodes:
            text = "" if id(node) in inner else _text(node)
            if "septran " not in text:
                continue
            found = re.findall(r"`(septran [^`]+)`", text) or _ANY.findall(text)[:1]
            yield from ((f"{relative(path)}:{node.lineno}", one) for one in found)  # type: ignore[attr-defined]
    for path in PAGES:
        page = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
        yield from ((path.name, one) for one in re.findall(r"`(septran [^`]+)`", page))


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    parts = (
        v.value if isinstance(v, ast.Constant) else f"{{{ast.unparse(v.value)}}}"  # type: ignore[attr-defined]
        for v in node.values
    )
    return "".join(map(str, parts))


HINTS = sorted({command: where for where, command in hints()}.items())
# a whole command; a command's bare name in a sentence is no call
CALLS = [c for c, _ in HINTS if len(c.split()) > 2 or c.split()[-1] in ("runs", "ls", "doctor")]
# run by tests/docs/test_installs.py against an index of packages
INSTALLED = [c for c in CALLS if "doctor --install" in c]
EXAMPLES = [
    (path.stem, line[2:])
    for path in PAGES
    for line in path.read_text(encoding="utf-8").splitlines()
    if line.startswith("$ ") and "septran " in line
]


def parsed(words: list[str]) -> dict[str, Any]:
    """Return the options that the command line reads from the words, and run nothing; raises click's errors."""
    group, rest = cli, words[1:]
    # as the command line makes it: a command keeps the help option of its first context
    context = click.Context(cli, info_name="septran", **cli.context_settings)
    while isinstance(group, click.Group) and rest:
        name, found, rest = group.resolve_command(context, rest)
        assert found is not None
        group = found  # type: ignore[assignment]
        if isinstance(found, click.Group) and rest:
            context = click.Context(found, info_name=name, parent=context)
    if not rest or "--help" in rest:
        return {}
    return group.make_context(words[1], list(rest), parent=context).params


def test_there_are_hints():
    assert len(HINTS) > 30 and len(EXAMPLES) > 25


@pytest.mark.parametrize(("command", "where"), HINTS, ids=[c for c, _ in HINTS])
def test_a_hint_names_a_command_and_flags_that_exist(command, where):
    # a sentence leaves out what it is not about
    with contextlib.suppress(click.MissingParameter, click.BadOptionUsage):
        parsed(filled(command))


@pytest.mark.parametrize("command", [c for c in CALLS if c not in INSTALLED])
def test_a_call_has_something_in_place_of_each_name(command):
    # without it the slow test below would run the name itself
    assert not re.search(r"\{[a-z_.]+\}", " ".join(filled(command)))


@pytest.mark.parametrize("wrong", ["septran tuna", "septran gen --opp relu", "septran runs shwo"])
def test_a_hint_that_lies_is_found(wrong):
    with pytest.raises(click.UsageError):
        parsed(filled(wrong))


# words of a hint -> the words that make it a call here; a new project, what a page's file has, a reader's kernel
CHANGED = {
    "septran init .": "septran init another_project",
    "septran assets eject": "septran assets eject mappings/cpp.mapping.yaml",
    "septran gen --task FILE --backend NAME --fallback torch": "septran gen --task spectrum.py --backend cpp --fallback torch",
    "septran gen --task FILE --backend NAME --prepare": "septran gen --task model.py --backend cpp --prepare",
    "septran judge FILE": "septran judge kernel.py --reference model.py",
    "septran tune --proposer": "septran tune --op relu --backend dsa_c --dim N=64 --trials 2 --proposer command:./ask.sh",
}
# ends as its own page says
CODES = {"septran batch --executor ray": "V120", "--logic part_of_tile.py": "V170"}


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in CALLS if c not in INSTALLED])
def test_a_hint_does_what_it_says(shop, capfd, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "ray", None)  # as on a machine without it
    words = filled(CHANGED.get(command, command))
    if words[1] == "batch" and "--resume" in words:
        assert main(("batch", "smoke.yaml", "--fresh")) == 0
    elif words[1] == "batch" and "smoke.yaml" not in words:
        words.append("smoke.yaml")
    elif words[1] == "tune" and "--resume" in words:
        assert (
            main(("tune", "--op", "relu", "--backend", "dsa_c", "--dim", "N=64", "--trials", "2"))
            == 0
        )
    elif words[1] == "gen" and "--resume" in words:
        assert main(("gen", *RELU)) == 0
    elif words[1] in ("gen", "show", "prove") and not {
        "--resume",
        "--logic",
        "--task",
        "--check",
    } & {*words}:
        given = dict(zip(RELU[::2], RELU[1::2], strict=True))
        words += [w for flag, value in given.items() if flag not in words for w in (flag, value)]
    code, err = main(words[1:]), capfd.readouterr().err
    wanted = next((CODES[c] for c in CODES if c in command), "")
    if wanted:
        assert code == 3 and wanted in err
    assert code in (0, 3, 5), (words, err[-600:])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, _session_home: Path) -> Iterator[Path]:
    """A project with the pages' files and two runs of a kernel that ended early."""
    folder = tmp_path_factory.mktemp("project")
    with_tools(folder / "home", _session_home)
    with pytest.MonkeyPatch.context() as patched:
        stocked(folder, patched)
        for _ in range(2):
            begun("gemm", "cpp")
        yield folder


@contextmanager
def circumstances(code: str, project: Path, patched: pytest.MonkeyPatch) -> Iterator[None]:
    """Give what an example needs besides its words: another process, no compiler, no library, no project."""
    patched.setitem(sys.modules, "ray", None)
    if code == "C005":
        (project.parent / "no_project").mkdir(exist_ok=True)
        patched.chdir(project.parent / "no_project")
    elif code == "V110":
        patched.setattr(compilers, "find", lambda _: None)
    elif code == "C134":
        (project / "my_model.py").write_text("class Model: pass\n")
    elif code in ("C170", "C173"):
        (project / "kernels.py").write_text("x = 1\n")
        (project / "reference.py").write_text(SQUARES)
        (project / "gemm.py").write_text(SQUARES)
        asm = 'asm volatile("barrier.cluster.arrive;");'
        (project / "gemm.cu").write_text(GEMM.replace("    float sum", f"    {asm}\n    float sum"))
    if code == "C182":
        with held(project / "runs" / "env"):
            yield
        return
    if code != "C067":
        yield
        return
    assert main(("batch", "smoke.yaml")) == 0
    (batch,) = (project / "home" / "runs").glob("*--batch--*")
    with (batch / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize(("code", "line"), EXAMPLES)
def test_an_example_shows_its_code(project, capfd, monkeypatch, code, line):
    monkeypatch.setenv("SEPTRAN_HOME", str(project / "home"))
    monkeypatch.chdir(project)
    kernel = next((project / "home" / "runs").glob("*--gemm--cpp--*"))
    words = shlex.split(re.sub(r"2026-11-21\S*", kernel.name, line), comments=True)
    while "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    with circumstances(code, project, monkeypatch):
        capfd.readouterr()
        assert main((*words[1:], "--json")) in (1, 2, 3, 5)
    found = json.loads(capfd.readouterr().out)
    if "errors" in found:
        codes = [e["code"] for e in found["errors"]]
    elif "verdict" in found:
        codes = [found["verdict"]["code"]]
    else:  # of a kernel that could not be run here
        codes = re.findall(r"^\[(\w+)\]", found["reason"])
    assert code in codes
