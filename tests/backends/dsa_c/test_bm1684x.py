"""Sophgo's BM1684X, BM1688 and BM1684X2: what is printed, what is refused, what their functional models say, planted bugs included."""

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
from septran.machine import load_machine
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import Place, place_of
from septran.verify.gate_binary import allowed_symbols
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.cli.conftest import Outcome
from tests.cli.conftest import septran as septran

DSA = backends.get("dsa_c")
ARCH = "bm1684x"
CHIPS = (ARCH, "bm1688", "bm1684x2")
SMALL = {
    "relu": {"N": 1003},
    "add": {"N": 1003},
    "gemm": {"M": 70, "N": 37, "K": 300},
    "softmax": {"M": 5, "N": 600},
    "layernorm": {"M": 67, "N": 70},
    "tanh": {"N": 1003},
    "transpose": {"M": 37, "N": 65},
    "attention_causal": {"Z": 2, "S": 77, "D": 33},
}
PRODUCTS = ("gemm", "attention_causal")


def made(op: str, dtype: str = "float32", arch: str = ARCH) -> tuple[Kernel, Problem]:
    plan = resolve(GenRequest(op=op, backend="dsa_c", arch=arch, dtype=dtype, dims=SMALL[op]))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves), problem_of(plan, lowered.program, plan.dims)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Place]:
    """Give where kernels of a chip run; skips where its model is not here."""
    there = Path(os.environ.get("SEPTRAN_TEST_ENVIRONMENTS", "/nowhere"))
    home = tmp_path / "home" / "environments"
    home.mkdir(parents=True)
    monkeypatch.setenv("SEPTRAN_HOME", str(home.parent))

    def model(arch: str) -> Place:
        folder = there / f"dsa_c-{arch}"
        if not folder.is_dir():
            pytest.skip(f"the model is not here: septran doctor --install dsa_c+{arch}")
        (home / folder.name).symlink_to(folder.resolve(), target_is_directory=True)
        place = place_of(DSA, arch, "auto", 2)
        place.require()
        return place

    return model


@pytest.fixture
def model(models: Callable[[str], Place]) -> Place:
    """Where kernels of the BM1684X run."""
    return models(ARCH)


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


def test_without_the_model_the_kernel_is_kept_and_the_verdict_says_what_brings_the_rest(
    septran: Callable[..., Outcome], fresh_home: Path
) -> None:
    """The run is one like any other: it is listed, and verified again where the model is here."""
    done = septran("gen", "--op", "softmax", "--backend", "dsa_c", "--arch", ARCH, "--json")
    found = done.json
    assert (done.code, found["level"], found["where"]) == (3, "unavailable", None)
    assert "[V110]" in found["reason"] and found["hint"].endswith("--install dsa_c+bm1684x")
    assert "sg_reduce" in Path(found["kernel"]).read_text() and found["max_error"] is None
    assert "bounds" in found["proved"]
    again = septran("verify", "latest")
    assert again.code == 3 and "V110" in again.err and "Errno" not in again.err


def test_a_build_without_the_model_says_what_brings_it(tmp_path: Path) -> None:
    built = DSA.build(made("relu")[0], tmp_path)
    assert not built.ok and "septran doctor --install dsa_c+bm1684x" in built.log


def with_leaf(body: str) -> Kernel:
    plan = resolve(GenRequest(op="relu", backend="dsa_c", arch=ARCH, dims=SMALL["relu"]))
    program = lower_plan(plan).program
    leaves = {
        spec.key: Leaf(
            spec=spec, writer="file", name="own", source=f"{DSA.signature(spec)} {{\n{body}}}\n"
        )
        for _, spec in leaf_specs(program)
    }
    return DSA.emit(program, leaves)


def test_a_leaf_that_is_a_function_in_c_is_refused() -> None:
    body = "if (X.n[0] > 1) { vendor_lib_vec_unary(VL_COPY, vl_matrix(Y), vl_matrix(X)); }\n"
    with pytest.raises(ConfigError, match="bm1684x has no leaves that are functions in C: relu"):
        with_leaf(body)


def test_a_leaf_that_is_a_plain_list_is_this_vendors_calls() -> None:
    """What a reply says in vendor_lib's words is printed as any operation is."""
    text = with_leaf("vendor_lib_vec_scalar(VL_MIN, vl_matrix(Y), vl_matrix(X), 2.0);\n").source
    kernel = text[text.index("static void kernel") :]
    assert "vendor_lib" not in kernel and re.search(r"sg_\w*min\w*\(|SG_MIN", kernel, re.I), kernel


def test_a_type_that_the_lanes_do_not_have_is_refused() -> None:
    plan = resolve(GenRequest(op="cross_entropy", backend="dsa_c", arch=ARCH))
    lowered = lower_plan(plan)
    with pytest.raises(ConfigError, match="bm1684x has no int64, which this kernel needs"):
        DSA.emit(lowered.program, library_leaves(DSA, lowered.program, lowered.bound.mapping))


@pytest.mark.wider
def test_positions_are_floats_where_the_lanes_have_no_int32() -> None:
    """Floats are exact up to 2^24; the machine that has int32 keeps it, and larger positions are refused."""
    assert "DT_INT32" not in made("attention_causal")[0].source
    assert "int32" in made("attention_causal", arch="generic")[0].source.lower()
    dims = {"Z": 1, "S": 2**25, "D": 8}
    plan = resolve(GenRequest(op="attention_causal", backend="dsa_c", arch=ARCH, dims=dims))
    lowered = lower_plan(plan)
    with pytest.raises(ConfigError, match="bm1684x has no int32, which this kernel needs"):
        DSA.emit(lowered.program, library_leaves(DSA, lowered.program, lowered.bound.mapping))


def test_the_vendor_s_tables_name_their_wheel() -> None:
    """One wheel has the models of all three."""
    libraries = [load_vendor(arch).library for arch in CHIPS]
    wheels = {library.part: library.wheel for library in libraries if library is not None}
    assert dict(DSA.parts()) == wheels and tuple(wheels) == CHIPS
    for wheel in wheels.values():
        assert wheel.requirement == "tpu-mlir==1.30.2" and len(wheel.sha256) == 64


@pytest.mark.parametrize("arch", CHIPS)
def test_a_chip_is_its_data(arch: str) -> None:
    """The lanes that a vendor table defines are those of the machine, and all calls are the BM1684X's."""
    vendor, machine = load_vendor(arch), load_machine(f"dsa_c.{arch}")
    assert dict(vendor.calls) == dict(load_vendor(ARCH).calls)
    assert vendor.library is not None
    told = dict(define.partition("=")[::2] for define in vendor.library.defines)
    lanes = int(told.get("SG_CHIP_LANES", 64))
    assert machine.limits["lanes"] == lanes
    lane = int(told.get("SG_CHIP_LANE", 262144))
    assert machine.capacity("SHARED") == lane // 2 and machine.capacity("REGISTER") == lane // 4
    assert allowed_symbols("c", f"dsa_c.{arch}") == allowed_symbols("c", f"dsa_c.{ARCH}")


def test_a_product_that_the_engine_has_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bm1684x2 has no product of float32.*of bfloat16 only"):
        made("gemm", arch="bm1684x2")
    assert "sg_mma" in made("gemm", "bfloat16", "bm1684x2")[0].source


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "op", "dtype"),
    [
        *(("bm1688", op, "float32") for op in SMALL),
        *((arch, "gemm", "bfloat16") for arch in CHIPS[1:]),
        ("bm1688", "gemm", "float16"),
        *(("bm1684x2", op, "float32") for op in SMALL if op not in PRODUCTS),
    ],
)
def test_the_models_of_the_other_chips_agree(
    models: Callable[[str], Place], arch: str, op: str, dtype: str, tmp_path: Path
) -> None:
    verdict = judged(*made(op, dtype, arch), models(arch), tmp_path)
    assert verdict.passed, verdict.message


STORE = r"(sg_dma\(SG_TILE\(SG_G\(C[^;]*?\), 37, ROWS, COLS, 37, DT_\w+\), SG_TILE\(SG_L\(C_s, 0\), \d+, ROWS, COLS, \d+, DT_\w+\)\);)"
"""the store of the product: its copy takes rows and columns from both tiles"""
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
        STORE.replace("ROWS", ")70(").replace("COLS", "37"),
        r"\g<1>71\g<2>71\3",
    ),
    "a column too few": (
        "gemm",
        STORE.replace("ROWS", "70").replace("COLS", ")37("),
        r"\g<1>36\g<2>36\3",
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
