"""Python files beside a judged file: the names it imports from them are read with it, by the same rules, and nothing else of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.base import Merged, Unjudged
from septran.backends.judged.python_imports import merged
from septran.cli.main import main as septran
from septran.run.judge_includes import Beside, elsewhere, read_python
from tests.judge.corpus import HERE, REFERENCES


def with_imports(file: Path, text: str) -> Merged:
    return merged(file, text, Beside(read_python, elsewhere))


MAIN = """from __future__ import annotations
import torch
import triton
import triton.language as tl
from .tools import blocks_of as count
from sub.maths import (
    added,
)

@triton.jit
def add_kernel(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    m = at < n
    x, y = tl.load(x_ptr + at, mask=m), tl.load(y_ptr + at, mask=m)
    tl.store(o_ptr + at, added(x, y), mask=m)

def add(x, y):
    out = torch.empty_like(x)
    add_kernel[(count(x.numel(), 256),)](x, y, out, x.numel(), B=256)
    return out
"""
TOOLS = """import os
import triton

print("a demonstration")

def blocks_of(n, block):
    return triton.cdiv(n, block)

def other():
    return os.environ["HOME"]
"""
MATHS = "import triton\n\n@triton.jit\ndef added(a, b):\n    return a + b\n"


def laid(folder: Path, **changed: str) -> Path:
    texts = {"main.py": MAIN, "tools.py": TOOLS, "sub/maths.py": MATHS}
    texts |= {
        name.replace("_", "/", name.count("_")) + ".py": text for name, text in changed.items()
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "main.py"


def test_names_of_files_beside_it_are_read_with_it(tmp_path: Path, capsys) -> None:
    file = laid(tmp_path)
    code = septran(["judge", str(file), "--reference", str(REFERENCES / "vector_add.py")])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "proved       bounds, races" in out
    whole = with_imports(file, MAIN)
    assert whole.files == ("tools.py", "sub/maths.py")
    assert "environ" not in whole.text and "demonstration" not in whole.text
    assert whole.text.startswith("from __future__ import annotations\n")


def test_a_mistake_there_has_its_own_file_and_line(tmp_path: Path, capsys) -> None:
    file = laid(tmp_path, tools=TOOLS.replace("triton.cdiv(n, block)", "open(n)"))
    code = septran(["judge", str(file), "--reference", str(REFERENCES / "vector_add.py")])
    assert code == 1
    assert "tools.py:7 uses open" in capsys.readouterr().out
    file = laid(tmp_path, tools=TOOLS.replace("return triton", "return (triton"))
    code = septran(["judge", str(file), "--reference", str(REFERENCES / "vector_add.py")])
    assert code == 2
    assert (
        "C173" in (said := capsys.readouterr().err) and "tools.py:7: '(' was never closed" in said
    )


def test_everything_of_a_file_is_what_the_other_one_uses(tmp_path: Path) -> None:
    text = MAIN.replace("from .tools import blocks_of as count", "from .tools import *").replace(
        "count(", "blocks_of("
    )
    whole = with_imports(laid(tmp_path, main=text), text)
    assert "def blocks_of" in whole.text and "def other" not in whole.text


def test_files_of_a_package_may_import_from_each_other(tmp_path: Path) -> None:
    """By the package's own name, and in a circle."""
    folder = tmp_path / "pkg" / "ops"
    maths = "import triton\nfrom pkg.ops.more import half\n\n@triton.jit\ndef added(a, b):\n    return half(a + b)\n\ndef one():\n    return 1\n"
    more = "import triton\nfrom .maths import one\n\n@triton.jit\ndef half(a):\n    return a / 2\n\ndef two():\n    return one()\n"
    text = (
        MAIN.replace("sub.maths", "pkg.ops.maths")
        .replace("blocks_of as count", "blocks_of as count, two")
        .replace("    out =", "    two()\n    out =")
    )
    tools = TOOLS + "\nfrom pkg.ops.more import two\n"
    file = laid(folder, main=text, tools=tools)
    (folder / "maths.py").write_text(maths)
    (folder / "more.py").write_text(more)
    whole = with_imports(file, text)
    assert sorted(whole.files) == ["maths.py", "more.py", "tools.py"]
    assert (
        whole.text.index("def half") < whole.text.index("def added") < whole.text.index("def add(")
    )
    assert whole.text.count("def one") == whole.text.count("def two") == 1


def test_one_name_means_one_thing(tmp_path: Path) -> None:
    maths = (
        "import triton\nSIZE = 3\n\n@triton.jit\ndef added(a, b):\n    return a + b + SIZE - SIZE\n"
    )
    text = MAIN.replace("def add(x, y):", "SIZE = 256\n\ndef add(x, y):")
    file = laid(tmp_path, main=text, sub_maths=maths)
    with pytest.raises(Unjudged, match="SIZE means different things"):
        with_imports(file, text)


def test_a_misfit_is_told_at_the_line_of_the_users_file(tmp_path: Path, capsys) -> None:
    file = laid(tmp_path)
    code = septran(["judge", str(file), "--reference", str(REFERENCES / "attention_half.py")])
    line = MAIN.split("\n").index("def add(x, y):") + 1
    assert code == 2
    assert f"--> {file}:{line}:" in capsys.readouterr().err


def test_not_more_files_than_anybody_has(tmp_path: Path) -> None:
    text = MAIN
    for k in range(40):
        (tmp_path / f"part{k}.py").write_text(f"def part{k}():\n    return {k}\n")
        text = text.replace("import torch\n", f"import torch\nfrom part{k} import part{k}\n", 1)
    with pytest.raises(Unjudged, match="more than 32 files"):
        with_imports(laid(tmp_path, main=text), text)


def test_nothing_from_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "tools.py"
    outside.write_text(TOOLS)
    folder = tmp_path / "inner"
    file = laid(folder)
    (folder / "tools.py").unlink()
    text = MAIN.replace("from .tools", "from ..tools")
    assert with_imports(file, text).files == ("sub/maths.py",), "a folder above stays an import"
    (folder / "tools.py").symlink_to(outside)
    with pytest.raises(Unjudged, match="not a plain file in its own folder"):
        with_imports(file, MAIN)


def test_a_file_that_imports_nothing_beside_it_is_as_it_was() -> None:
    text = (HERE / "tutorial_add.py").read_text()
    assert with_imports(HERE / "tutorial_add.py", text).text == text


PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/utils.py": "import os\ndef blocks_of(n, block):\n    return (n + block - 1) // block\n",
    "pkg/ops/__init__.py": "from .deep import halved\n",
    "pkg/ops/deep.py": "def halved(n):\n    return n // 2\n",
    "outside.py": "def helper(): pass\n",
}


def in_package(folder: Path, imports: str) -> Path:
    for name, text in PACKAGE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "pkg/ops/main.py").write_text(f"{imports}\n")
    return folder / "pkg/ops/main.py"


@pytest.mark.parametrize(
    ("imports", "kept", "file"),
    [
        ("from ..utils import blocks_of", "def blocks_of", "../utils.py"),
        ("from pkg.utils import blocks_of", "def blocks_of", "../utils.py"),
        ("from pkg.ops.deep import halved", "def halved", "deep.py"),
        ("from pkg.ops import halved", "def halved", "deep.py"),
    ],
)
def test_the_files_of_its_package_are_read_with_it(
    tmp_path: Path, imports: str, kept: str, file: str
) -> None:
    found = with_imports(in_package(tmp_path, imports), f"{imports}\n")
    row = next(k for k, line in enumerate(found.text.split("\n")) if line.startswith(kept))
    assert found.lines[row][0] == file
    assert "import os" not in found.text and imports not in found.text


@pytest.mark.parametrize(
    "imports",
    [
        *("from ...outside import helper", "from outside import helper", "from ....x import y"),
        *("from .. import utils", "from torch import utils"),
    ],
)
def test_what_is_outside_of_its_package_stays_an_import(tmp_path: Path, imports: str) -> None:
    found = with_imports(in_package(tmp_path, imports), f"{imports}\n")
    assert found == Merged(f"{imports}\n")


def test_a_link_in_its_package_is_refused(tmp_path: Path) -> None:
    file = in_package(tmp_path, "")
    (tmp_path / "pkg/linked.py").symlink_to(tmp_path / "outside.py")
    with pytest.raises(Unjudged, match="not a plain file in its own folder or package"):
        with_imports(file, "from ..linked import helper\n")
