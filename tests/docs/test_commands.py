"""Every command of README and docs is run, also one inside a sentence, in a block that no page runs, or in a help text.

Words in capitals stand for what the reader has; what a sentence leaves out, because it is not about it, is added.
Exit 0 is expected; of what needs something that is installed apart, or a GPU (LACKING), exit 3 that says so, too.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from septran.cli.main import main
from septran.cli.values import exactly_one
from tests.docs.shop import RELU, Shop, files, words_of
from tests.docs.test_blocks import blocks, session
from tests.docs.test_hints import filled, parsed
from tests.packaging.sources import ROOT

SKILL = ROOT / "skills" / "septran" / "SKILL.md"
PAGES = (ROOT / "README.md", ROOT / "README.zh-CN.md", SKILL, *sorted((ROOT / "docs").glob("*.md")))
ERRORS = sorted((ROOT / "docs" / "errors").glob("*.md"))
_OTHER = re.compile(r"(?:make|pip|python|pytest|curl|git|npm|bash|sh) .*")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)

STANDS_FOR = {
    "COUNT SEED [FAMILY ...]": "1 1 cpp",
    "--task FILE --backend NAME --prepare": "--task model.py --backend cpp --prepare",  # open sizes exclude it
    "--task FILE": "--task open.py",
    "COMMAND [OPTIONS]": "ls",
    "CODE": "E134",
    "REFERENCE.py": "model.py",
    "KERNEL --reference MODULE": "kernel.py --reference model.py",
    "--task module.py": "--task open.py",
    "FOLDER": "lessons",
    "FILES": "axpy.py",
    "PASS": "insert_copies",
    "--backend NAME": "--backend cpp",
    "NAME": "fake-coder",
    "06-29-46": "FIRST",
    "07-10-02": "SECOND",
    "MONDAY": "FIRST",
    "TUESDAY": "SECOND",
    # four leaves of a target and a file of all its tasks take minutes
    '--command "python scripts/scripted_model.py tasks.jsonl" --backend triton_hip': "--command ./ask.sh --backend cpp --leaf softmax",
    '--suite cpu --op "gemm,softmax"': "--suite cpu --op relu",  # the only row of the shop's suite
    "--backend cuda_c --dtype all --dim M=64": "--op row_sum --backend cuda_c --dtype all --dim M=64",
    "OP": "add",
    "BACKEND": "dsa_c",
    "--dim ..": "--dim N=4096",
    "--trials 36": "--trials 2",
    "--trials 40": "--trials 2",  # a number that only takes time, as the next
    "--dim M=1024 ": "--dim M=64 ",
}


def _plain(command: str) -> str:
    """Return a command without its comment."""
    return re.split(r"\s{2,}#|\s+# ", command)[0].strip()


def documented() -> Iterator[tuple[str, str]]:
    """Yield (where, command): in sentences, in norun blocks and in the help texts of docs/cli.md."""
    for path in (*PAGES, *ERRORS):
        text = path.read_text(encoding="utf-8")
        prose = re.findall(r"`([^`\n]+)`", _FENCED.sub("", text))
        if path in PAGES:
            yield from ((path.name, one) for one in prose if one.startswith("septran "))
        yield from ((path.name, one) for one in prose if _OTHER.fullmatch(one))
        for block in blocks(path, text) if path in PAGES else ():
            lines = block.text.replace("\\\n", " ").splitlines()
            if "norun" in block.words and block.language in ("console", "bash", "sh", "shell"):
                yield from ((block.name, line.removeprefix("$ ")) for line in lines)
            if path.name == "cli.md":
                yield from ((block.name, x.strip()) for x in lines if x.startswith("  septran "))


# what tests/docs/test_blocks.py runs already, in the same words
PLAYED = {
    command
    for page in PAGES
    for block in blocks(page)
    if "run" in block.words and block.language == "console"
    for command, _ in session(block.text)
}
COMMANDS = sorted({_plain(command): where for where, command in documented()}.items())
# what a bare name, or one with the flag that a sentence is about, needs besides
BARE = {
    "batch": ("smoke.yaml",),
    "check": ("axpy.py",),
    "eval": ("--backend", "cpp"),
    "export": ("latest", "-o", "bundle.json"),
    "import": ("mlp.py",),
    "init": ("another",),
    "judge": ("kernel.py", "--reference", "model.py"),
    "predict": ("--op", "softmax", "--backend", "cpp", "--threads", "1"),
    "tasks export": ("--op", "transpose", "--backend", "cpp", "-o", "transpose.jsonl"),
    "tune": ("--op", "add", "--backend", "dsa_c", "--trials", "2"),
    "verify": ("latest",),
}
FILE = {"batch": "smoke.yaml", "gen": "axpy.py", "judge": "kernel.py", "prove": "certificate.json"}
SUBJECTS = {"--op", "--logic", "--task", "--check", "--suite"}
# a command of these words alone has nothing to work on
LEFT_OUT = {"export", "--memory", "lessons", "--mode", "as-is", "--proposer", "llm"}
KERNEL = ("gen", "show", "prove", "map", "bench")
# the passes of these targets alone
ADDED = {
    "septran show --after check_tiles": ("--backend", "tilelang_npuir"),
    "septran show --after cut_windows": ("--backend", "tilelang_npuir"),
    "septran show --after drop_implied": ("--backend", "dsa_c"),
    "septran show --after place_leaves": ("--backend", "dsa_c"),
    "septran show --after place_barriers": ("--backend", "cuda_c"),
    "septran show --after plan_blocks": ("--backend", "pallas_tpu"),
    "septran show --after plan_rings": ("--backend", "pallas_tpu"),
}
# what exit 3 says of a machine that lacks something: how to get it, or that there is none
LACKING = {
    "septran bench --suite gpu --torch-compile -o gpu.json -o gpu.html --resume": "help: run on a machine with an NVIDIA GPU",
    "septran gen --op gemm --backend dsa_c --arch bm1684x": "septran doctor --install dsa_c+bm1684x",
}


def completed(command: str, shop: Shop) -> list[str]:
    """Return the words of a `septran` command with what stands for something, or is left out, put in."""
    added = ADDED.get(command, ())
    for name, value in STANDS_FOR.items():
        command = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w=])", value, command)
    runs = {
        "RUN": shop.verified,
        "FIRST": shop.first,
        "SECOND": shop.second,
        "N": "5",
        "URL": shop.model,
    }
    words = [runs.get(w, w) for w in (*words_of(command), *added)]
    verb = " ".join(words[1:3]) if words[1] == "tasks" else words[1]
    words = [FILE[verb] if w == "FILE" else w for w in words]
    words = [shop.model if re.match(r"http://\S+:8000/v1", w) else w for w in words]
    if words[-1] == "--leaf":
        words.append("relu_leaf")
    given = {w for w in words if w.startswith("-")}
    if verb in KERNEL and "--mapping" not in given:
        own = dict(zip(RELU[::2], RELU[1::2], strict=True))
        left = {"--backend"} if given & SUBJECTS else set(own)
        wanted = {"--check", "--suite"}.isdisjoint(given) and verb != "show"
        left = left if wanted or not given & SUBJECTS else set()
        words += [w for flag in own if flag in left - given for w in (flag, own[flag])]
    elif verb in BARE and set(words[2:]) <= LEFT_OUT:
        words += BARE[verb]
    return words


OWN = [
    c
    for c, _ in COMMANDS
    if c.startswith("septran ") and not re.match(r"septran (serve|mcp|doctor --install)\b", c)
]


def test_there_are_commands():
    assert len(OWN) > 80
    assert any("--help" in c for c in OWN)


@pytest.mark.parametrize("command", [c for c in OWN if c != "septran --help"])
def test_a_command_and_its_flags_exist(command):
    # a sentence leaves out what it is not about
    with contextlib.suppress(click.MissingParameter, click.BadOptionUsage):
        parsed(filled(command.split(" > ")[0]))


WRITTEN = {"-o", "--certificate", "--report"}
MADE = {"gemm.mapping.yaml", "logic.py"}  # by the shop, or by what test_a_command_runs does before
SUBJECT = {"op", "task_file", "logic"}
NO_SUBJECT = ("given", "suite", "resume")  # what these name is worked on instead
NOWHERE = Shop(Path(), "RUN", "FIRST", "SECOND", ("RUN",), "http://127.0.0.1/v1")


@pytest.mark.parametrize("command", [c for c in OWN if c not in PLAYED])
def test_a_file_that_a_command_reads_is_there(command):
    words = completed(command, NOWHERE)
    read = [w for before, w in itertools.pairwise(words) if before not in WRITTEN]
    named = [w for w in read if re.fullmatch(r"[\w./-]+\.(?:yaml|py|sh|cu|cpp|md|txt|jsonl)", w)]
    there = files().keys() | MADE
    missing = [w for w in named if w.removeprefix("./") not in there]
    assert [
        w for w in missing if not (w.startswith(("scripts/", "configs/")) and (ROOT / w).is_file())
    ] == []


@pytest.mark.parametrize("command", [c for c in OWN if c not in PLAYED and "--help" not in c])
def test_a_command_has_what_it_works_on(command):
    given = parsed(completed(command, NOWHERE))
    if given.keys() >= SUBJECT and not any(given.get(n) for n in NO_SUBJECT):
        exactly_one(**{name: given[name] for name in SUBJECT})


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in OWN if c not in PLAYED])
def test_a_command_runs(shop, capfd, command):
    words = completed(command, shop)
    if words[1:3] == ["tune", "--resume"]:
        assert main(("tune", *BARE["tune"])) == 0
    if "logic.py" in words and words[1] == "gen":  # what the lines above it in its block do
        assert main(("import", "spectrum.py", "-o", "logic.py")) == 0
        told = ("gen", "--task", "spectrum.py", "--backend", "cpp", "--writer", "llm")
        assert main((*told, "--leaf", "abs_1_leaf")) == 0
    code, said = main(words[1:]), capfd.readouterr()
    told = said.out + said.err
    if code == 3 and command in LACKING:
        assert LACKING[command] in told
    else:
        assert code == 0, (words, told[-900:])


@pytest.mark.slow
def test_a_command_that_does_not_do_it_is_found(shop):
    assert main(completed("septran check notes.txt", shop)[1:]) == 2
