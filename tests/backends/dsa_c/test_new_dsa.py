"""docs/new_dsa.md, executed: a machine added by data files alone verifies three operators."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    page = (ROOT / "docs" / "new_dsa.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml file=(\S+)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    for name, text in blocks:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "septran.toml").write_text("", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("op", "dims"),
    [
        pytest.param("gemm", ("M=100", "N=77", "K=45"), marks=pytest.mark.wider),
        pytest.param("softmax", ("M=37", "N=1001"), marks=pytest.mark.wider),
        ("relu", ("N=1001",)),
        pytest.param("layernorm", ("M=37", "N=1001"), marks=pytest.mark.wider),
    ],
)
def test_the_toy_machine_runs(project: Path, op: str, dims: tuple[str, ...]) -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; from septran.cli.main import main; sys.exit(main())",
        *("gen", "--op", op, "--backend", "dsa_c", "--arch", "toy", "--json"),
        *(part for d in dims for part in ("--dim", d)),
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SEPTRAN_HOME": str(project / "home")}
    done = subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    found = json.loads(done.stdout)
    assert (found["level"], found["where"]) == ("accurate", "emulated"), done.stderr + done.stdout
    assert "toy_move(" in Path(found["kernel"]).read_text(encoding="utf-8")
    assert found["cycles"]["cores"] == 2 and found["cycles"]["total"] > 0
