"""What pip installs finds its data, from any directory: wheel, sdist and editable."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from septran import assets
from septran.errors import EnvironmentProblem
from tests.packaging.sources import ROOT

SHIMS = ("task_lang.py", "tasklang.py", "septran_compiler.py", "tasklevel_compiler.py")


def _tracked() -> list[str]:
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if out.returncode:
        pytest.skip("not a git checkout")
    return [line for line in out.stdout.splitlines() if (ROOT / line).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build sdist and wheel from a clean copy of the tracked files."""
    base = tmp_path_factory.mktemp("build")
    copy = base / "src"
    for name in _tracked():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(base / "dist")],
        cwd=copy,
        check=True,
        capture_output=True,
    )
    (wheel,) = (base / "dist").glob("*.whl")
    (sdist,) = (base / "dist").glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist, "base": base}


def _site(base: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(base), "SEPTRAN_HOME": str(base / "home")}


@pytest.mark.slow
def test_wheel_holds_every_tracked_file(built):
    with zipfile.ZipFile(built["wheel"]) as archive:
        names = set(archive.namelist())
    missing = []
    for name in _tracked():
        top = name.split("/", 1)[0]
        if top in assets.FOLDERS or name.startswith("docs/errors/"):
            missing += [name] if f"septran/_data/{name}" not in names else []
        elif top == "septran" or name in SHIMS:
            missing += [name] if name not in names else []
    assert missing == []
    assert not [n for n in names if "__pycache__" in n or n.startswith("tests/")]


@pytest.mark.slow
def test_sdist_holds_everything_but_the_machinery(built):
    with tarfile.open(built["sdist"]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = [n for n in _tracked() if not n.startswith(".")]
    assert [n for n in wanted if n not in names] == []


@pytest.mark.slow
def test_wheel_works_from_any_directory(built, tmp_path):
    site = tmp_path / "site"
    with zipfile.ZipFile(built["wheel"]) as archive:
        archive.extractall(site)
    out = subprocess.run(
        [sys.executable, "-m", "septran", "assets", "ls", "--json"],
        cwd="/",
        env=_site(site),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(out.stdout)["assets"]
    wanted = {n for n in _tracked() if n.split("/", 1)[0] in assets.FOLDERS}
    wanted = {n for n in wanted if not any(p.startswith((".", "__")) for p in n.split("/"))}
    assert {entry["name"] for entry in found} == wanted
    assert all(entry["path"].startswith(str(site)) for entry in found)
    names = "import task_lang, tasklang, septran.tasklang; print(task_lang.define.__module__)"
    subprocess.run([sys.executable, "-c", names], cwd="/", env=_site(site), check=True)


def test_lost_data_is_an_environment_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(assets, "__file__", str(tmp_path / "septran" / "assets.py"))
    with pytest.raises(EnvironmentProblem) as caught:
        assets.bundled()
    assert caught.value.codes == ("V001",)
    assert caught.value.exit_code == 3
