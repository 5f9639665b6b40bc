"""The code in README.md and docs/*.md runs.

A fenced block says what it is on its first line: ```python run, ```bash run and ```console run are executed (in
order, one empty folder per page; `slow` also marks a page's block as slow); ```python file=NAME writes a file
there; `norun` after the language says that a block is not meant to run here. Other languages are free.
In a console block, lines after "$ " are commands; "# exit N" after a command names its exit code.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packaging.sources import ROOT

EXECUTABLE = ("python", "bash", "sh", "console", "shell")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^(\s*)```+(.*)$")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path, text: str | None = None) -> list[Block]:
    found = []
    start: tuple[int, list[str]] | None = None
    lines: list[str] = []
    content = text if text is not None else page.read_text(encoding="utf-8")
    for number, line in enumerate(content.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and start is None:
            start, lines = (number, fence[2].split()), []
        elif fence and start is not None and not fence[2].strip():
            language, *words = start[1] or [""]
            found.append(Block(page, start[0], language, tuple(words), "\n".join(lines) + "\n"))
            start = None
        elif start is not None:
            lines.append(line)
    assert start is None, f"{page.name}:{start[0] if start else 0}: the block is not closed"
    return found


def problem(block: Block) -> str:
    if not block.language:
        return "a block names its language (text, if it has none)"
    if block.language not in EXECUTABLE:
        return ""
    known = {"run", "norun", "slow"}
    if not known & set(block.words) and not any(w.startswith("file=") for w in block.words):
        return f"a {block.language} block says run, norun or file=NAME"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_blocks_say_whether_they_run(page):
    assert [f"{b.name} {problem(b)}" for b in blocks(page) if problem(b)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```\nx\n```\n", True),
        ("```python\nx\n```\n", True),
        ("```python norun\nx\n```\n", False),
        ("```yaml\nx\n```\n", False),
    ],
)
def test_an_unmarked_block_is_found(text, found):
    (block,) = blocks(Path("x.md"), text)
    assert bool(problem(block)) is found


def _runs(page: Path, *, slow: bool) -> bool:
    return any("run" in b.words and ("slow" in b.words) == slow for b in blocks(page))


QUICK = [page for page in PAGES if _runs(page, slow=False)]
SLOW = [page for page in PAGES if _runs(page, slow=True)]


@pytest.mark.few(4)
@pytest.mark.parametrize("page", QUICK, ids=lambda p: p.name)
def test_quick_blocks_run(page, tmp_path):
    play(page, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=lambda p: p.name)
def test_all_blocks_run(page, tmp_path):
    play(page, tmp_path, slow=True)


def play(page: Path, folder: Path, *, slow: bool) -> None:
    """Run the page's blocks in order in `folder`; quick ones only unless `slow`."""
    env = environment(folder)
    work = folder / "work"
    work.mkdir()
    for block in blocks(page):
        for word in block.words:
            if word.startswith("file="):
                (work / word.removeprefix("file=")).parent.mkdir(parents=True, exist_ok=True)
                (work / word.removeprefix("file=")).write_text(block.text)
        if "run" in block.words and (slow or "slow" not in block.words):
            run(block, work, env)


def environment(folder: Path) -> dict[str, str]:
    """Return an environment in which `septran` and `python` are this checkout's."""
    bin_ = folder / "bin"
    bin_.mkdir()
    for name, words in (("septran", "-m septran"), ("python", "")):
        script = bin_ / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IEXEC)
    return {
        **os.environ,
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
    }


def run(block: Block, work: Path, env: dict[str, str]) -> None:
    if block.language == "python":
        commands = [([sys.executable, "-c", block.text], 0)]
    elif block.language in ("console", "shell"):
        commands = [(["bash", "-c", line], code) for line, code in session(block.text)]
    else:
        commands = [(["bash", "-euo", "pipefail", "-c", block.text], 0)]
    for command, code in commands:
        done = subprocess.run(
            command, cwd=work, env=env, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == code, (
            f"{block.name}: {command[-1]!r} exits {done.returncode}, not {code}\n"
            f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )


def session(text: str) -> list[tuple[str, int]]:
    """Return the commands of a console block with the exit codes it promises."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            command, _, code = line[2:].partition("# exit ")
            found.append((command.strip(), int(code) if code else 0))
    return found


def test_a_failing_block_fails(tmp_path):
    page = tmp_path / "x.md"
    page.write_text("```bash run\nfalse\n```\n")
    with pytest.raises(AssertionError, match=r"x.md:1: 'false\\n' exits 1"):
        play(page, tmp_path, slow=False)


def test_files_and_exit_codes_of_a_page(tmp_path):
    page = tmp_path / "x.md"
    page.write_text(
        "```python file=a/b.py\nx = 3\n```\n"
        "```console run\n$ grep 3 a/b.py\nx = 3\n$ septran explain C999 # exit 2\n```\n"
        "```python run\nimport septran, pathlib\nassert pathlib.Path('a/b.py').is_file()\n```\n"
        "```bash run slow\nfalse\n```\n"
    )
    play(page, tmp_path, slow=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
