"""What the pages install or build, against an index of empty packages and a Python that makes no real environment.

`git clone` clones this checkout; `make` finds a `python3` whose environments lead back to the Python of the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from septran import backends
from septran.cli.main import main
from tests.cli.test_eval import library_bodies
from tests.docs.shop import index
from tests.docs.test_blocks import blocks, session
from tests.docs.test_commands import COMMANDS, ERRORS
from tests.docs.test_hints import HINTS
from tests.packaging.sources import ROOT
from tests.support.openai_double import Answer, ChatDouble

PIPS = [c for c, _ in COMMANDS if c.startswith("pip ")]
_EXTRA = re.compile(r"septran\[(\w+)\]")
PYTHON3 = f"""\
#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    printf '#!/bin/sh\\nexec "{sys.executable}" -m septran "$@"\\n' > "$3/bin/septran"
    chmod +x "$3/bin/septran"
    echo 'PATH="$PWD/.venv/bin:$PATH"' > "$3/bin/activate"
    exit 0
fi
case "$1 $2 $*" in
    "-m pip "*--editable*) exit 0 ;;
    "-m pip "*) exit 1 ;;
esac
exec "{sys.executable}" "$@"
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip finds everything in that the pages name, and nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    targets = [backends.get(name) for name in dict(backends.BUILTIN)]
    own = [p for t in targets for p in (*t.packages, *(w for _, part in t.extras for w in part))]
    for name, value in index(folder, [*own, "ascendnpu-ir"]).items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", PIPS)
def test_pip_knows_what_is_installed(command, packages, tmp_path):
    place = {"PIP_TARGET": str(tmp_path / "there"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        ["bash", "-c", command.replace("pip ", f'"{sys.executable}" -m pip ', 1)],
        env={**os.environ, **place},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "does not provide the extra" not in done.stderr
    installed = {p.name.split("-")[0] for p in (tmp_path / "there").glob("*.dist-info")}
    assert len(installed) > (1 if _EXTRA.search(command) else 0), installed


INSTALLS = {
    c.replace("{target}", "pallas_tpu").replace("{extra}", "libtpu")
    for c, _ in (*COMMANDS, *HINTS)
    if "--install" in c
}


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(INSTALLS))
def test_a_target_gets_its_packages(command, packages, fresh_home, capfd):
    target, _, extra = command.split()[-1].partition("+")
    code = main(command.split()[1:])
    wheel = backends.get(target).parts().get(extra)
    if wheel is not None:  # held against its hash: no stand-in passes
        assert code == 3 and f"{wheel.requirement} could not be brought" in capfd.readouterr().err
        return
    assert code == 0, capfd.readouterr().err
    found = {
        p.name.split("-")[0].replace("_", "-")
        for p in (fresh_home / "environments" / target).glob("*.dist-info")
    }
    backend = backends.get(target)
    asked = (*backend.packages, *dict(backend.extras).get(extra, ()))
    assert found == {p.split("==")[0] for p in asked}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """What `git clone ... && cd septran` of the pages leaves, and the environment that `make` runs in."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("clone")
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").write_text(PYTHON3)
    (folder / "bin" / "python3").chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder / "septran"),
        "SEPTRAN_HOME": str(folder / "home"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{ROOT}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/AII-SDU/septran",
    }
    (line,) = (c for c, _ in COMMANDS if c.startswith("git clone"))
    told(f"{line} && pwd", folder, env)
    return folder / "septran", env


def told(command: str, folder: Path, env: dict[str, str], code: int = 0) -> str:
    """Run a command line, check its exit code and return all that it prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == code, f"{command}: exit {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_a_clone_makes_a_verified_kernel(clone):
    """`make demo`, then the environment that it made, as README says it."""
    folder, env = clone
    (block,) = (b for b in blocks(ROOT / "README.md") if "make demo" in b.text)
    first, *rest = (command for command, _ in session(block.text))
    assert first.startswith("git clone")
    assert "accurate" in told("\n".join(["set -e", *rest, "command -v septran"]), folder, env)


@pytest.mark.slow
def test_make_test_runs_the_tests(clone):
    folder, env = clone
    assert "make test" in dict(COMMANDS)
    assert " passed" in told("make test", folder, {**env, "ARGS": "-q tests/errors/test_errors.py"})


@pytest.mark.slow
def test_a_local_model_that_cannot_be_had_is_skipped(clone):
    folder, env = clone
    assert "make llm-local" in dict(COMMANDS)
    assert "SKIPPED" in told("make llm-local", folder, {**env, "PIP_NO_INDEX": "1"})


@pytest.mark.slow
def test_any_endpoint_is_measured(clone):
    (line,) = (c for c, _ in COMMANDS if "scripts.llm_local --base-url" in c)
    folder, env = clone
    bodies = "".join(library_bodies("relu").values())
    with ChatDouble(lambda body: Answer(f"```cpp\n{bodies}```\n")) as double:
        line = line.replace("URL", double.base_url).replace("NAME", "fake-coder")
        found = told(f"{line} --seeds 1 --ops relu", folder, {**env, "PATH": _with_python(env)})
    assert re.search(r"\| fake-coder \| relu[^|]*\| 1/1 \| 1/1 \| 1 \|", found), found


def _with_python(env: dict[str, str]) -> str:
    """Return a PATH on which `python` is the one of the tests."""
    folder = Path(env["PATH"].split(":")[0])
    if not (folder / "python").exists():
        shutil.copy(folder / "python3", folder / "python")
    return env["PATH"]


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in ERRORS if "BASE_URL/models" in p.read_text()], ids=str)
def test_the_models_of_an_endpoint_are_listed(page, tmp_path):
    with ChatDouble([]) as double:
        env = {**os.environ, "BASE_URL": double.base_url}
        assert '"data"' in told("curl -s $BASE_URL/models", tmp_path, env)


# command -> what is put for its words in capitals, its exit code, and a word of what it prints
SCRIPTS = {
    "python scripts/leaf_tokens.py cpp": ("", 0, "distinct"),
    "python benchmarks/gpu.py": ("", 3, "no NVIDIA GPU here"),
    "python benchmarks/judged_gpu.py": ("", 3, "no NVIDIA GPU here"),
    "python -m tests.attacks NAME": ("S01", 0, "S01 ok"),
    "python -m tests.attacks.fuzz COUNT SEED [FAMILY ...]": ("1 1 cpp", 0, "all"),
    "python benchmarks/cpp_call.py": ("", 0, "add 1000"),
    "python benchmarks/leaf_order.py --op relu --no-clock": ("", 0, "| relu | library |"),
    "python benchmarks/verdicts.py": ("", 0, "septran.verdicts/1"),
    "python benchmarks/verify_cells.py TARGET ...": (
        "cpp --operators gelu",
        0,
        "septran.verify_cells/1",
    ),
}
_MINUTES = "minutes to hours of measuring; it writes a page, which a test compares with the code"
_TESTS = "these are tests, which CI runs as such"
NOT_RUN = {
    'for run in learns knows; do septran eval --command "python scripts/scripted_model.py tasks.jsonl" --backend triton_hip --memory lessons -o $run; done': _MINUTES,
    "python -m benchmarks.first_call --against FOLDER": "it needs an older checkout",
    "python -m benchmarks.module_targets --results FILE.json": _MINUTES,
    "python -m benchmarks.modules": _MINUTES,
    "python -m benchmarks.open_dims": _MINUTES,
    "python -m tests.attacks.table": "15 minutes; CI runs it as a step of its own",
    "python -m tests.frontend.figures": _MINUTES,
    "python -m tests.leafgate.consistency": _MINUTES,
    "python -m tests.prove.module_table": _MINUTES,
    "python -m tests.prove.symbolic_table": _MINUTES,
    "python -m tests.prove.table": _MINUTES,
    "python -m tests.verify.alarms": _MINUTES,
    "python -m tests.verify.draws": _MINUTES,
    "python -m tests.verify.honest SEEDS": _MINUTES,
    "python benchmarks/dsa_cycles.py --write": _MINUTES,
    "python benchmarks/leaf_order.py": _MINUTES,
    "python benchmarks/serve_verdicts.py": _MINUTES,
    "python benchmarks/predicted.py BACKEND --write": _MINUTES,
    "python benchmarks/matrix.py RUN ...": "it reads batch runs of hours",
    "python benchmarks/predicted.py gpu --write": "tests/predict holds the page against what it gives",
    "pytest --slow tests/conformance -k bm1684x": _TESTS,
    "pytest --slow tests/leafgate": _TESTS,
    "pytest --slow tests/backends/dsa_c/test_bm1684x.py -k other_chips": _TESTS,
    "pytest --slow tests/targets/test_planted.py": _TESTS,
    "pytest tests/dsl_docs": _TESTS,
    "pytest tests/targets/test_contract.py": _TESTS,
}
ELSEWHERE = re.compile(
    r"septran |pip |make |git |curl |source |export |http:|python -m scripts\.llm_local"
)


def test_what_is_not_run_stands_in_one_list():
    others = {c for c, _ in COMMANDS if not ELSEWHERE.match(c)}
    assert others == SCRIPTS.keys() | NOT_RUN.keys()


@pytest.mark.slow
@pytest.mark.parametrize("command", SCRIPTS)
def test_a_script_runs(command, clone):
    if "gpu" in command and Path("/dev/nvidiactl").exists():
        pytest.skip("measures for an hour on a GPU")
    folder, env = clone
    given, code, word = SCRIPTS[command]
    line = (
        re.sub(r" (NAME|TARGET \.\.\.|COUNT SEED.*)$", f" {given}", command) if given else command
    )
    assert word in told(line, folder, {**env, "PATH": _with_python(env)}, code)
