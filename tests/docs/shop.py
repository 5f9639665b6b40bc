"""A project with what the commands of the pages name: files, finished runs, a model, an index of packages."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from septran import settings
from septran.cli.main import main
from septran.run import store
from tests.agent.leaves import fenced
from tests.cli.test_eval import library_bodies
from tests.docs.test_blocks import blocks
from tests.frontend.opaque_modules import BY_NAME as OPAQUE
from tests.frontend.opaque_modules import SPECTRUM
from tests.packaging.sources import ROOT
from tests.support.openai_double import Answer, ChatDouble

BATCH = "ops: [relu]\nbackends: [cpp]\ndims: [{N: 65}]\ndtypes: [float32]\ntime: false\n"
SOFTMAX = BATCH.replace("relu", "softmax").replace("{N: 65}", "{M: 3, N: 65}")
RELU = ("--op", "relu", "--backend", "cpp", "--dim", "N=9")
MODEL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, {given}):
        return {result}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
ADD = MODEL.format(given="x, y", result="x + y", inputs="torch.randn(5000), torch.randn(5000)")
SQUARES = MODEL.format(given="a, b", result="a @ b", inputs=", ".join(["torch.randn(64, 64)"] * 2))
GEMM = """\
__global__ void product(const float* a, const float* b, float* c, int M) {
    const int row = blockIdx.x, col = threadIdx.x;
    float sum = 0.0f;
    for (int p = 0; p < M; p++) sum += a[row * M + p] * b[p * M + col];
    c[row * M + col] = sum;
}

void gemm(const float* a, const float* b, float* c, int M) { product<<<M, M>>>(a, b, c, M); }
"""
PART_OF_TILE = """\
import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def double(Y, X):
    task.call_primitive("map", Y, expr="x + x", x=X)


@task.define
def tile(Z, X):
    T = task.tensor("T", X.shape)
    task.launch(double, T, X)
    Tp = task.partition(T, by="blocks", shape=(1, None))
    Zp = task.partition(Z, by="blocks", shape=(1, None))
    for i in task.sequential_range(Zp.shape[0]):
        task.launch(double, Zp[i, 0], Tp[i, 0])


@task.define
def part_of_tile(Z, X):
    n = task.tunable("block_size")
    Zp = task.partition(Z, by="blocks", shape=(n, None))
    Xp = task.partition(X, by="blocks", shape=(n, None))
    for i in task.parallel_range(Zp.shape[0]):
        task.launch(tile, Zp[i, 0], Xp[i, 0])


OPERATORS = (
    task.Operator(
        name="part_of_tile",
        about="Z = 4 X, a row of the doubled tile at a time",
        entry=part_of_tile,
        tensors={"Z": "N 16", "X": "N 16"},
        outputs=("Z",),
        dims={"N": 99},
        odd_dims=({"N": 7},),
        reference=Reference(fn=lambda X: 4 * X, kind="elementwise"),
    ),
)
"""
OPEN = (
    MODEL.format(given="x", result="torch.relu(x) + 1", inputs="torch.randn(6, 9)")
    + """

def get_dynamic_shapes():
    return {"x": {0: torch.export.Dim("B")}}
"""
)
WHOLE_SPECTRUM = (
    SPECTRUM.replace("double(relu(i, t))", "(x(i, t) > 0.0f ? double(x(i, t)) : x(i, t) * 0.0)")
    .replace("relu.n", "x.n")
    .replace("abs_1", "add")
    .replace("/ double(x.n[1]));", "/ double(x.n[1]) * 0.5 + 1.0);")
)
ASK = "#!/bin/sh\ncat > /dev/null\ncat reply.md\n"
# as the shipped files of these names, with fewer rows
LEAVES = "version: 1\nleaves:\n  - {op: softmax, leaf: softmax_leaf}\n"
SEARCHES = "backend: dsa_c\nrows:\n  - {op: add, dims: {N: 20000}, trials: 1}\n"
SUITE = "backend: cpp\nrows:\n  - {op: relu, dims: {N: 4096}, gate: 0.001}\n"


@dataclass(frozen=True)
class Shop:
    """The folder of the project; verified, first, second and killed: names of runs."""

    folder: Path
    verified: str
    first: str
    second: str
    killed: tuple[str, ...]
    """Runs that ended before they had a result; what a test removes is one of them."""
    model: str
    """The address of a model that answers with the library's leaves."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def newest(self, name: str) -> None:
        """Make a run the latest one."""
        link = self.home / "runs" / "latest"
        link.unlink(missing_ok=True)
        link.symlink_to(name)


def files() -> dict[str, str]:
    """Return name -> text of what the pages write, and of what their commands name besides."""
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs" / f"{n}.md" for n in ("import", "judge", "new_dsa")),
    ]
    found = {
        word.removeprefix("file="): block.text
        for page in pages
        for block in blocks(page)
        for word in block.words
        if word.startswith("file=")
    }
    kernels = ROOT / "tests" / "judge" / "kernels"
    return {
        **found,
        "kernel.py": (kernels / "tutorial_add.py").read_text(),
        "model.py": ADD,
        "softmax.py": (kernels / "tutorial_softmax.py").read_text(),
        "softmax_reference.py": MODEL.format(
            given="x", result="torch.softmax(x, dim=-1)", inputs="torch.randn(5, 70)"
        ),
        "gemm.cu": GEMM,
        "gemm_reference.py": SQUARES,
        "axpy.py": found["axpy.py"].replace("100_000", "999"),
        "my_op.py": found["axpy.py"].replace("100_000", "999"),
        "part_of_tile.py": PART_OF_TILE,
        "smoke.yaml": BATCH,
        "configs/batches/smoke.yaml": BATCH,
        "configs/batches/all-ops-all-backends.yaml": SOFTMAX,
        "configs/batches/all-ops-all-archs.yaml": SOFTMAX,
        "nightly.yaml": SOFTMAX,
        "configs/eval/leaves.yaml": LEAVES,
        "configs/searches/cpu.yaml": SEARCHES,
        "configs/searches/dsa.yaml": SEARCHES,
        "configs/suites/cpu.yaml": SUITE,
        "release.json": json.dumps({"schema": "septran.suite/1", "rows": []}),
        "notes.txt": "notes",
        "ask.sh": ASK,
        "spectrum.py": OPAQUE["spectrum"].module.text(),
        "open.py": OPEN,
    }


def _made(*words: str) -> str:
    assert main(words) == 0, words
    (folder,) = (Path(os.environ["SEPTRAN_HOME"]) / "runs").glob("latest")
    return folder.resolve().name


def stocked(folder: Path, patched: pytest.MonkeyPatch) -> None:
    """Make a project with the pages' files in `folder`, which becomes the working directory; nothing has run."""
    patched.setenv("SEPTRAN_HOME", str(folder / "home"))
    patched.chdir(folder)
    assert main(("init", ".")) == 0
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "ask.sh").chmod(0o755)


def begun(*label: str) -> str:
    """Return the name of a run that ended before it had a result."""
    return store.create({}, label=label, settings=settings.load()).id


@contextmanager
def opened(folder: Path, patched: pytest.MonkeyPatch) -> Iterator[Shop]:
    """Make the shop in `folder`, which becomes the working directory."""
    stocked(folder, patched)
    (folder / "scripts").symlink_to(ROOT / "scripts")  # a reader of these lines has the checkout
    first, second = _made("batch", "smoke.yaml"), _made("batch", "smoke.yaml", "--fresh")
    assert main(("prove", *RELU, "--certificate", "certificate.json")) == 0
    killed = (begun("gemm", "cpp"), begun("gemm", "cpp"))
    verified = _made("gen", *RELU)
    bodies = library_bodies("softmax")
    reply = f"```cpp\n{''.join(bodies.values())}```\n"
    (folder / "reply.md").write_text(reply)
    assert main(("map", "--op", "gemm", "--backend", "cpp", "-o", "gemm.mapping.yaml")) == 0
    with ChatDouble(lambda body: Answer(_opaque(json.dumps(body)) or reply)) as double:
        patched.setenv("SEPTRAN_BASE_URL", double.base_url)
        yield Shop(folder, verified, first, second, killed, double.base_url)


def _opaque(asked: str) -> str:
    """Return the leaf of spectrum.py that a prompt asks for, its own or that of the whole module; "" for any other."""
    if "task add_leaf" in asked:
        return fenced(WHOLE_SPECTRUM)
    return fenced(SPECTRUM) if "task abs_1_leaf" in asked else ""


def index(folder: Path, requirements: Sequence[str]) -> dict[str, str]:
    """Write empty wheels that satisfy `requirements` and SepTran's own; return pip's variables for this index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    own = [f'{r}; extra == "{extra}"' for extra in extras for r in extras[extra]]
    wheel(folder, "septran", "9.9", own, tuple(extras))
    for one in [*requirements, *(r for each in extras.values() for r in each)]:
        name = one.split(";")[0]
        for sign in "<>=!":
            name = name.split(sign)[0]
        exact = one.partition("==")[2]
        lowest = one.partition(">=")[2].split(",")[0]
        wheel(folder, name, exact or lowest or "1.0")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_NO_CACHE_DIR": "1"}


def wheel(
    folder: Path, name: str, version: str, needs: Sequence[str] = (), extras: Sequence[str] = ()
) -> None:
    """Write a wheel without modules."""
    flat = name.replace("-", "_")
    info = f"{flat}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in needs]
    lines += [f"Provides-Extra: {one}" for one in extras]
    with zipfile.ZipFile(folder / f"{flat}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")


def words_of(command: str) -> list[str]:
    """Return a command's words; a comment after it and where its output goes are left out."""
    return shlex.split(command.split(" > ")[0], comments=True)
