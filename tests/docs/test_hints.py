"""Every command that an error hint or an error's page names: it exists with these flags, and run, it does what is said.

An example of docs/errors/CODE.md shows how one meets CODE, so running it says CODE. A hint says what to do next, so
running it is no usage error. Words in capitals stand for what the reader has.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from septran import settings
from septran.cli.main import _COMMANDS, cli, main
from septran.run import store
from tests.docs.test_blocks import blocks
from tests.packaging.sources import ROOT, files, relative

PAGES = sorted((ROOT / "docs" / "errors").glob("*.md"))
_ANY = re.compile(rf"septran (?:{'|'.join(_COMMANDS)})\b[^`\"\n]*")
STANDS_FOR = {
    "RUN": "latest",
    "{run.id}": "latest",
    "{plan.run.id}": "latest",
    "{again}": "latest",
    "{store.reference(run)}": "latest",
    "{store.reference(plan.run)}": "latest",
    "OP": "relu",
    "TARGET": "cpp",
    "{target}": "cpp",
    "{self.backend.name}": "cpp",
    "PASS": "insert_copies",
    "N": "5",
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
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
        inner |= {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            text = "" if id(node) in inner else _text(node)
            found = re.findall(r"`(septran [^`]+)`", text) or _ANY.findall(text)[:1]
            yield from ((f"{relative(path)}:{node.lineno}", one) for one in found)  # type: ignore[attr-defined]
    for path in PAGES:
        page = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
        yield from ((path.name, one) for one in re.findall(r"`(septran [^`]+)`", page))


def documented() -> Iterator[tuple[str, str]]:
    """Yield (where, command) of README and docs that no test runs: in a sentence, or in a norun block."""
    for path in (
        ROOT / "README.md",
        ROOT / "README.zh-CN.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ):
        text = path.read_text(encoding="utf-8")
        for block in blocks(path, text):
            if "norun" in block.words and block.language != "python":
                lines = block.text.replace("\\\n", " ").splitlines()
                found = (re.search(r"(?:^|\s)(septran .*)", line.split(" #")[0]) for line in lines)
                yield from ((block.name, one[1].split(" > ")[0]) for one in found if one)
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
        yield from ((path.name, one) for one in re.findall(r"`(septran [^`]+)`", prose))


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
EXAMPLES = [
    (path.stem, line[2:])
    for path in PAGES
    for line in path.read_text(encoding="utf-8").splitlines()
    if line.startswith("$ ") and "septran " in line
]


def parsed(words: list[str]) -> None:
    """Read the words as the command line does, and run nothing; raises click's errors."""
    group, rest = cli, words[1:]
    # as the command line makes it: a command keeps the help option of its first context
    context = click.Context(cli, info_name="septran", **cli.context_settings)
    while isinstance(group, click.Group) and rest:
        name, found, rest = group.resolve_command(context, rest)
        assert found is not None
        group = found  # type: ignore[assignment]
        if isinstance(found, click.Group) and rest:
            context = click.Context(found, info_name=name, parent=context)
    if rest and "--help" not in rest:
        group.make_context(words[1], list(rest), parent=context)


def test_there_are_hints():
    assert len(HINTS) > 30 and len(EXAMPLES) > 25


@pytest.mark.parametrize(("command", "where"), HINTS, ids=[c for c, _ in HINTS])
def test_a_hint_names_a_command_and_flags_that_exist(command, where):
    # a sentence leaves out what it is not about
    with contextlib.suppress(click.MissingParameter, click.BadOptionUsage):
        parsed(filled(command))


FORMS = ("septran --help", "septran COMMAND [OPTIONS]")  # of any command
DOCUMENTED = sorted({c: where for where, c in documented() if c not in FORMS}.items())


def test_documents_name_commands():
    assert len(DOCUMENTED) > 40


@pytest.mark.parametrize(("command", "where"), DOCUMENTED, ids=[c for c, _ in DOCUMENTED])
def test_a_document_names_a_command_and_flags_that_exist(command, where):
    with contextlib.suppress(click.MissingParameter, click.BadOptionUsage):
        parsed(filled(command))


@pytest.mark.parametrize("wrong", ["septran tuna", "septran gen --opp relu", "septran runs shwo"])
def test_a_hint_that_lies_is_found(wrong):
    with pytest.raises(click.UsageError):
        parsed(filled(wrong))


BATCH = "ops: [relu]\nbackends: [cpp]\ndims: [{N: 65}]\ndtypes: [float32]\ntime: false\n"
MODEL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(9)]


def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with the files that commands name, a finished batch and a finished run."""
    folder = tmp_path_factory.mktemp("hints")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SEPTRAN_HOME", str(folder / "home"))
        patched.chdir(folder)
        assert main(("init", ".")) == 0
        (folder / "smoke.yaml").write_text(BATCH)
        (folder / "model.py").write_text(MODEL)
        (folder / "notes.txt").write_text("notes")
        assert main(("batch", "smoke.yaml")) == 0
        relu = ("--op", "relu", "--backend", "cpp", "--dim", "N=9")
        assert main(("prove", *relu, "--certificate", "certificate.json")) == 0
        for _ in range(2):  # killed early
            store.create({}, label=("gemm", "cpp"), settings=settings.load())
        assert main(("gen", *relu)) == 0
        yield folder


@pytest.fixture
def inside(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shop as home and working folder of one test."""
    monkeypatch.setenv("SEPTRAN_HOME", str(shop / "home"))
    monkeypatch.chdir(shop)
    return shop


# a whole command; a command's bare name in a sentence is no call
CALLS = [c for c, _ in HINTS if len(c.split()) > 2 or c.split()[-1] in ("runs", "ls", "doctor")]
# once more, another library, a file of the reader, words that the reader has to add, packages that are fetched
NEW = ("init", "--executor ray", "two_steps.py", "assets eject", "judge FILE", "doctor --install")


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in CALLS if not any(n in c for n in NEW)])
def test_a_hint_does_what_it_says(inside, capfd, command):
    words = filled(command)
    if words[1] == "batch" and "--resume" in words:
        assert main(("batch", "smoke.yaml", "--fresh")) == 0
    elif words[1] == "gen" and "--resume" in words:
        assert main(("gen", "--op", "relu", "--backend", "cpp", "--dim", "N=9")) == 0
    elif words[1] in ("gen", "show", "prove") and not {"--resume", "--logic", "--check"} & {*words}:
        given = {"--op": "relu", "--backend": "cpp", "--dim": "N=9"}
        words += [w for flag, value in given.items() if flag not in words for w in (flag, value)]
    code = main(words[1:])
    assert code in (0, 3, 5), (words, capfd.readouterr().err[-600:])


# what one page's example needs and a shop does not have: another process, no compiler, no ray, no disk, no project
ELSEWHERE = ("C067", "V110", "V120", "V002", "C005")


@pytest.mark.slow
@pytest.mark.parametrize(("code", "line"), [e for e in EXAMPLES if e[0] not in ELSEWHERE])
def test_an_example_shows_its_code(inside, capfd, code, line):
    early = next(run.id for run in store.listing(inside / "home" / "runs") if "--gemm--" in run.id)
    line = re.sub(r"2026-11-21\S*", early, line)
    capfd.readouterr()
    assert main((*shlex.split(line, comments=True)[1:], "--json")) in (1, 2, 3, 5)
    assert code in [e["code"] for e in json.loads(capfd.readouterr().out)["errors"]]
