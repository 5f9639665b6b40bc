"""Sophgo's BM1684X: what is printed, what is refused, and what its functional model says, planted bugs included."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.backends.dsa.machine import storage
from septran.backends.dsa.vendor import load_vendor
from septran.errors import ConfigError, EnvironmentProblem
from septran.ir.nodes import Buffer
from septran.kernel import Kernel, Leaf, leaf_specs
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import Place, place_of
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify

DSA = backends.get("dsa_c")
ARCH = "bm1684x"
SMALL = {
    "relu": {"N": 1003},
    "add": {"N": 1003},
    "gemm": {"M": 70, "N": 37, "K": 300},
    "softmax": {"M": 5, "N": 600},
    "layernorm": {"M": 67, "N": 70},
}


def made(op: str, dtype: str = "float32") -> tuple[Kernel, Problem]:
    plan = resolve(GenRequest(op=op, backend="dsa_c", arch=ARCH, dtype=dtype, dims=SMALL[op]))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves), problem_of(plan, lowered.program, plan.dims)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where kernels run when the vendor's model is here."""
    there = Path(os.environ.get("SEPTRAN_TEST_ENVIRONMENTS", "/nowhere")) / "dsa_c-bm1684x"
    if not there.is_dir():
        pytest.skip("the BM1684X's model is not here: septran doctor --install dsa_c+bm1684x")
    home = tmp_path / "home"
    (home / "environments").mkdir(parents=True)
    (home / "environments" / there.name).symlink_to(there.resolve(), target_is_directory=True)
    monkeypatch.setenv("SEPTRAN_HOME", str(home))
    place = place_of(DSA, ARCH, "auto", 2)
    place.require()
    return place


def judged(kernel: Kernel, problem: Problem, place: Place, folder: Path) -> Verdict:
    built = place.build(kernel, folder / "build")
    assert built.ok, built.log
    request = Request(where=place.where, language="c", sessions=place.sessions)
    return verify(kernel, built, problem, run_dir=folder / "run", request=request)


def edited(kernel: Kernel, pattern: str, new: str) -> Kernel:
    """Return `kernel` with a change in the first of its files that it fits."""
    for file, text in kernel.files:
        wrong, times = re.subn(pattern, new, text, flags=re.MULTILINE)
        if times:
            files = tuple((name, wrong if name == file else old) for name, old in kernel.files)
            return replace(kernel, files=files)
    raise AssertionError(kernel.source)


@pytest.mark.parametrize(("op", "dtype"), [("gemm", "bfloat16"), ("softmax", "float32")])
def test_what_is_printed(golden: Callable[[str, str], None], op: str, dtype: str) -> None:
    golden(f"dsa_c/bm1684x.{op}.{dtype}.c.txt", made(op, dtype)[0].source)


def test_rows_lie_on_lanes() -> None:
    rules = storage("dsa_c.bm1684x")
    tile = Buffer(name="t", shape=(3, 70, 40), dtype="float32", mem="SHARED")
    assert rules.stored(tile) == (3, 128, 64)
    assert rules.nbytes(tile) == 3 * 2 * 64 * 4  # of one lane
    assert rules.stored(replace(tile, mem="GLOBAL")) == (3, 70, 40)


def test_without_the_model_it_is_unavailable() -> None:
    place = place_of(DSA, ARCH, "auto", 2)
    with pytest.raises(EnvironmentProblem, match=r"libcmodel_bm1684x\.so") as told:
        place.require()
    assert told.value.codes == ("V110",)
    assert "septran doctor --install dsa_c+bm1684x" in str(told.value.diagnostics[0].help)


def test_a_build_without_the_model_says_what_brings_it(tmp_path: Path) -> None:
    built = DSA.build(made("relu")[0], tmp_path)
    assert not built.ok and "septran doctor --install dsa_c+bm1684x" in built.log


def test_a_leaf_in_c_is_refused() -> None:
    plan = resolve(GenRequest(op="relu", backend="dsa_c", arch=ARCH, dims=SMALL["relu"]))
    program = lower_plan(plan).program
    leaves = {
        spec.key: Leaf(spec=spec, writer="file", name="own", source=f"{DSA.signature(spec)} {{}}\n")
        for _, spec in leaf_specs(program)
    }
    with pytest.raises(ConfigError, match="bm1684x has no leaves that are functions in C: relu"):
        DSA.emit(program, leaves)


def test_a_type_that_the_lanes_do_not_have_is_refused() -> None:
    plan = resolve(GenRequest(op="cross_entropy", backend="dsa_c", arch=ARCH))
    lowered = lower_plan(plan)
    with pytest.raises(ConfigError, match="bm1684x has no int64, which this kernel needs"):
        DSA.emit(lowered.program, library_leaves(DSA, lowered.program, lowered.bound.mapping))


def test_the_vendor_s_table_names_its_wheel() -> None:
    library = load_vendor(ARCH).library
    assert library is not None
    assert DSA.parts() == {"bm1684x": library.wheel}
    assert library.wheel.requirement == "tpu-mlir==1.30.2" and len(library.wheel.sha256) == 64


def test_the_model_agrees_on_relu(model: Place, tmp_path: Path) -> None:
    verdict = judged(*made("relu"), model, tmp_path)
    assert verdict.passed, verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *((op, "float32") for op in SMALL if op != "relu"),
        ("gemm", "bfloat16"),
        ("gemm", "float16"),
        ("softmax", "bfloat16"),
    ],
)
def test_the_model_agrees(model: Place, op: str, dtype: str, tmp_path: Path) -> None:
    verdict = judged(*made(op, dtype), model, tmp_path)
    assert verdict.passed, verdict.message


BUGS = {
    "an accumulator that is not cleared": ("gemm", r"(?m)^\s*sg_fill\(.*\n", "\n"),
    "an accumulator that is begun anew": ("gemm", r"(sg_mma\(.*), 0\);", r"\1, 1);"),
    "a load into another tile": ("gemm", r"enum \{ B_s = \d+ \}", "enum { B_s = 0 }"),
    "a window without its end": (
        "gemm",
        r"^    if \(window\) tpu_parallel_end\(\);\n",
        "",
    ),
    "one place for operands of two steps": (
        "gemm",
        r"const int other = i % 2",
        "const int other = 0",
    ),
    "a row too many": (
        "gemm",
        r"(sg_dma\(SG_TILE\(SG_G\(C.*, )70(, 37, \d+, DT_\w+\)\);)",
        r"\g<1>71\2",
    ),
    "a column too few": (
        "gemm",
        r"(sg_dma\(SG_TILE\(SG_G\(C.*, 70, )37(, \d+, DT_\w+\)\);)",
        r"\g<1>36\2",
    ),
    "rows of another pitch": (
        "layernorm",
        r"(sg_dma\(SG_TILE\(SG_L\(X_s, 0\)), \d+, ",
        r"\1, 32, ",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_the_model_tells_planted_bugs(model: Place, bug: str, tmp_path: Path) -> None:
    op, pattern, new = BUGS[bug]
    kernel, problem = made(op)
    verdict = judged(edited(kernel, pattern, new), problem, model, tmp_path)
    assert not verdict.passed, bug
