"""House rules that a reader would otherwise have to check: lengths, names, public surface, data."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys

import pytest

import septran
from septran import assets, backends
from tests.packaging.sources import PACKAGE, ROOT, files, relative, statements, tree

LIMIT = 500
BANNED = re.compile(r"(Manager|Engine|Helper|Handler|Utils?|Wrapper|_v2)(?![a-z])")
BACKENDS = tuple(dict(backends.BUILTIN))


def test_no_file_is_too_long():
    long = {relative(p): n for p in files() if (n := len(p.read_text().splitlines())) > LIMIT}
    assert long == {}


def test_names_say_something():
    bad = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in files()
        for node in statements(tree(path))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and BANNED.search(node.name)
    ]
    bad += [relative(p) for p in files() if re.search(r"util|helper|misc", p.stem)]
    assert bad == []


def backend_names_in(text: str) -> list[tuple[int, str]]:
    """Constants (docstrings aside) that are a backend's name: the mark of a branch on a backend."""
    if not any(name in text for name in BACKENDS):
        return []
    tree = ast.parse(text)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in prose and node.value in BACKENDS
    ]


def test_backend_names_stay_in_the_backends():
    bad = [
        f"{relative(path)}:{line} {name}"
        for path in files()
        if "backends" not in path.relative_to(PACKAGE).parts
        for line, name in backend_names_in(path.read_text(encoding="utf-8"))
    ]
    assert bad == []


def test_a_branch_on_a_backend_is_found():
    assert backend_names_in('"""cpp"""\nif x == "cuda_c":\n    pass\n') == [(2, "cuda_c")]


def test_data_folders_hold_no_python():
    assert [p for f in assets.FOLDERS for p in (ROOT / f).rglob("*.py")] == []


def test_public_names_load():
    assert set(septran.__all__) == set(septran._HOME) | {"__version__"}
    assert dir(septran) == list(septran.__all__)
    for name in septran.__all__:
        assert getattr(septran, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = septran.nothing


@pytest.mark.parametrize("name", ["task_lang", "tasklang"])
def test_language_import_names(name):
    shim, language = importlib.import_module(name), importlib.import_module("septran.tasklang")
    assert shim.__all__ == language.__all__
    assert all(getattr(shim, each) is getattr(language, each) for each in language.__all__)


@pytest.mark.parametrize("name", ["septran_compiler", "tasklevel_compiler"])
def test_compiler_import_names(name):
    assert importlib.import_module(name).compile is septran.compile


def test_importing_septran_is_light():
    code = (
        "import sys, septran, septran.cli.main\n"
        "heavy = ['torch', 'numpy', 'yaml', 'jinja2', 'rich', 'openai', 'tilelang', 'triton', 'tvm']\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_machine_paths_or_left_overs():
    marks = re.compile(r"(?<![\w.])/(?:home|root|work)/\w|/tmp/v/|TODO|FIXME|XXX")
    bad = [
        f"{relative(path)}:{number}"
        for path in files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert bad == []


def test_hints_name_extras_that_exist():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    pages = [*files(), ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        f"{path.name}: {extra}"
        for path in pages
        for extra in re.findall(r"septran\[(\w+)\]", path.read_text(encoding="utf-8"))
        if extra not in extras
    }
    assert named == set()
