"""A target in a package of its own: it brings all it needs, and its kernels are judged like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import assets, backends
from septran.agent.docs import load as load_docs
from septran.agent.frame import make_frame
from septran.cli.doctor import _examine
from septran.errors import ConfigError
from septran.kernel import Leaf, LeafSpec
from septran.plan import catalog
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.gen import gen
from septran.settings import load
from septran.trial.judge import distinct_specs
from septran.verify.gate import gate
from tests.targets.conftest import announced

pytestmark = pytest.mark.usefixtures("installed")


def test_it_brings_machine_policy_loader_documents_and_frame() -> None:
    backend = backends.get("numpy")
    assert backends.missing(backend) == ()
    for name in ("configs/machines/numpy.yaml", "verify_templates/loaders/numpy.py.j2"):
        assert assets.find(name).layer == "septran_numpy"
    assert "numpy" in [entry["name"] for entry in catalog.backends()]
    assert "numpy" in [entry["name"] for entry in catalog.machines()]
    plan = resolve(GenRequest(op="softmax", backend="numpy"))
    assert plan.mapping.file.endswith("septran_numpy/mappings/numpy.mapping.yaml")
    assert load_docs("dsl_docs/numpy").api
    spec = distinct_specs(lower_plan(plan).program)[0]
    frame = make_frame(spec, backend, "body")
    assert frame.fill("pass").startswith(f"def {spec.symbol}(") and "numpy" in frame.tags


@pytest.mark.parametrize("stronger", ["user", "project"])
def test_own_files_win_over_the_package(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stronger: str
) -> None:
    variable = {"user": "SEPTRAN_HOME", "project": "SEPTRAN_PROJECT"}[stronger]
    monkeypatch.setenv(variable, str(tmp_path / "own"))
    mine = tmp_path / "own" / "configs" / "machines" / "numpy.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text((installed / "septran_numpy/configs/machines/numpy.yaml").read_text())
    assert assets.find("configs/machines/numpy.yaml").layer == stronger


ODD = [
    ("relu", "float16", {"N": 1003}),
    ("gemm", "float32", {"M": 300, "N": 17, "K": 33}),
    ("cross_entropy", "float32", {"M": 9, "N": 33}),
    ("conv2d", "float32", {"B": 1, "H": 7, "W": 9, "C": 3, "F": 5}),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("op", "dtype", "dims"), ODD)
def test_its_kernels_are_accurate(
    tmp_path: Path, op: str, dtype: str, dims: dict[str, int]
) -> None:
    known = resolve(GenRequest(op=op, backend="numpy")).operator.dims
    request = GenRequest(
        op=op, backend="numpy", dtype=dtype, dims={k: v for k, v in dims.items() if k in known}
    )
    found = gen(
        request, settings=load(), progress=lambda text: None, into=tmp_path / "run", timed=False
    )
    assert (found.exit_code, found.data["level"], found.data["where"]) == (0, "accurate", "native")


def test_a_mistake_in_its_printer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = backends.get("numpy")

    def library(spec: LeafSpec) -> Leaf | None:
        leaf = honest.library(spec)
        assert leaf is not None
        return replace(leaf, source=leaf.source.replace("np.maximum", "np.minimum"))

    monkeypatch.setattr(
        "septran.plan.resolve.backends.get", lambda name: replace(honest, library=library)
    )
    request = GenRequest(op="relu", backend="numpy", dims={"N": 100})
    found = gen(
        request, settings=load(), progress=lambda text: None, into=tmp_path / "run", timed=False
    )
    assert found.exit_code == 1
    assert found.data["culprit"]["kind"] == "leaf"


def test_the_gate_knows_the_words_of_its_language(tmp_path: Path, installed: Path) -> None:
    """A stored kernel is read whole; without the package's list its import of numpy is refused."""
    plan = resolve(GenRequest(op="relu", backend="numpy", dims={"N": 8}))
    program = lower_plan(plan).program
    kernel = replace(backends.get("numpy").emit(program, {}), leaves=())
    assert gate(kernel, tmp_path, language="numpy").findings == ()
    (installed / "septran_numpy/configs/gates/numpy.yaml").unlink()
    whats = [f.what for f in gate(kernel, tmp_path, language="numpy").findings]
    assert "imports numpy" in whats


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("septran_gone.target:NUMPY", "No module named 'septran_gone'"),
        ("septran_numpy.target:NUMPI", "no attribute 'NUMPI'"),
        ("septran_numpy.target:build", "it is a function, not a Backend"),
        ("septran_numpy.target:NUMPY", "its manifest calls itself 'numpy'"),
    ],
)
def test_a_broken_package_is_named(site: Path, value: str, why: str) -> None:
    announced(site, value, name="other")
    with pytest.raises(ConfigError, match="C138") as caught:
        backends.get("other")
    assert why in str(caught.value)
    assert "numpy" in [entry["name"] for entry in catalog.backends()]  # the others still work
    broken = _examine("other")
    assert not broken["usable"] and why in broken["capabilities"]["emit"]["detail"]
