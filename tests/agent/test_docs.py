"""Documentation files: form, blocks, rows; and the published token table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from septran.agent.docs import load, parse
from septran.errors import ConfigError

FRONT = """---
dsl: x
file: api
version: {a: "1"}
targets: [t]
verified: {date: 2026-11-21, how: run, machine: m}
tokens_max: 100
---
"""


def test_blocks_and_sections() -> None:
    doc = parse(
        FRONT + "# T\n## 1 One\n```cpp {test=run case=a}\nint x;\n```\n## 2 Two\ntext\n", "f"
    )
    assert [s.title for s in doc.sections] == ["1 One", "2 Two"]
    block = doc.blocks[0]
    assert (block.lang, block.test, block.attrs["case"], block.code) == (
        "cpp",
        "run",
        "a",
        "int x;\n",
    )
    assert (block.section, block.line) == ("1 One", 11)
    assert "{test" not in doc.body
    assert "```cpp\n" in doc.body


@pytest.mark.parametrize(
    "text",
    [
        "# no front matter\n",
        FRONT.replace("dsl: x\n", "") + "# T\n",
        FRONT.replace("dsl:", "dls:") + "# T\n",
        FRONT + "```cpp {test=run}\nint x;\n",
    ],
)
def test_malformed(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    assert caught.value.codes == ("C050",)


def test_cpp_docs_load() -> None:
    docs = load("dsl_docs/cpp")
    assert len(docs.api) == len(docs.basic_docs) == len(docs.suggestion) == 1


def test_missing_folder() -> None:
    with pytest.raises(ConfigError):
        load("dsl_docs/no_such_dsl")


@pytest.mark.slow
def test_the_published_token_table_is_current() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "scripts/leaf_tokens.py", "cpp", "--check"],
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
