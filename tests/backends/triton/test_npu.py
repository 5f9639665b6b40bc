"""triton_npu: the Triton text of the other targets for Ascend 910B; its gate is BiShengIR, up to the step that CANN has."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from septran import backends
from septran.backends.triton import ascend
from septran.kernel import Kernel
from septran.toolchain import environment
from tests.backends.operators import all_operators, program_of
from tests.cli.conftest import septran as septran
from tests.prove.test_text import changed, printed, refused

NPU = backends.get("triton_npu")


def kernel(name: str, dtype: str, **dims: int) -> Kernel:
    op, path = all_operators()[name]
    return NPU.emit(program_of(op, path, NPU, "910b", dtype, {**op.dims, **dims}), {})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the developer's own environment of triton_npu; skips where there is none."""
    there = Path(os.environ["SEPTRAN_TEST_ENVIRONMENTS"]) / "triton_npu"
    if not list(there.glob("triton_ascend-*.dist-info")):
        pytest.skip("triton-ascend is not installed (septran doctor --install triton_npu)")
    home = tmp_path / "home"
    (home / "environments").mkdir(parents=True)
    (home / "environments" / "triton_npu").symlink_to(there.resolve(), target_is_directory=True)
    monkeypatch.setenv("SEPTRAN_HOME", str(home))
    return home


def test_without_the_compiler_it_is_emulated_and_says_what_is_missing(septran, fresh_home):
    done = septran("gen", "--op", "softmax", "--backend", "triton_npu", "--dim", "M=5")
    assert done.code == 0, done.out + done.err
    assert re.search(r"verdict\s+accurate \(emulated\)", done.out)
    assert "septran doctor --install triton_npu" in " ".join(done.out.split())
    told = septran("doctor", "triton_npu")
    assert "triton-ascend is not installed" in told.out


def test_more_programs_than_an_npu_runs_are_refused(tmp_path: Path):
    base = kernel("add", "float32")
    many = base.with_files({base.main: re.sub(r"\[\(\d+,\)\]\(", "[(65536,)](", base.source)})
    built = ascend.build(many, tmp_path)
    assert not built.ok and "65535" in built.log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype", "units"),
    [("softmax", "float32", "aiv"), ("gemm", "float16", "mix"), ("attention", "float16", "mix")],
)
def test_the_units_of_a_launch_are_told(installed: Path, tmp_path: Path, name, dtype, units):
    built = NPU.build(kernel(name, dtype), tmp_path)
    assert built.ok, built.log
    assert {n for n, count in built.facts if count} == {units}
    assert any("hivmc" in text for text in built.not_checked)


@pytest.mark.slow
def test_a_row_that_does_not_fit_the_unified_buffer_is_refused(installed: Path, tmp_path: Path):
    base = kernel("softmax", "float32", M=2, N=65536)
    built = NPU.build(base, tmp_path)
    assert not built.ok
    assert re.search(r"overflow", built.log, re.IGNORECASE), built.log


@pytest.mark.slow
@pytest.mark.parametrize("odd", [False, True], ids=["sample", "odd"])
@pytest.mark.parametrize("name", list(all_operators()))
def test_every_operator_passes(installed: Path, tmp_path: Path, name: str, odd: bool):
    op = all_operators()[name][0]
    for at, dims in enumerate(op.odd_dims if odd else (op.dims,)):
        for dtype in op.dtypes:
            if dtype not in NPU.dtypes:
                continue
            folder = tmp_path / f"{dtype}-{at}"
            folder.mkdir()
            built = NPU.build(kernel(name, dtype, **dims), folder)
            assert built.ok, built.log


def test_no_branch_is_printed_around_the_mask_of_a_product():
    """BiShengIR 1.2 takes no branch in a kernel for both kinds of core; other Triton targets skip such masks."""
    mask = re.compile(r"^ +if .*:\n +S = tl\.", re.MULTILINE)
    assert not mask.search(kernel("attention_causal", "float16").source)
    assert mask.search(printed("attention_causal", "triton_cuda")[2].source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("* 6144", "* 6143"),
        ("W_3[None, :]), (1, 1, 32, 64))", "W_3[None, :]), (1, 1, 64, 32))"),
        ("[:, None] * 64 + W_3[None, :]", "[None, :] * 64 + W_3[:, None]"),
        ("(X_1 >= 0) & ", ""),
    ],
)
def test_operands_are_loaded_as_tiles_of_two_dims_and_read_back(old: str, new: str):
    """BiShengIR 1.2 takes no others; the dims of one position are put back around them."""
    plan, lowered, found = printed("conv2d", "triton_npu")
    assert "tl.reshape(tl.load(W + W_0 * 6144 + " in found.source
    text = changed(found, old, new) if old else found
    assert bool(refused(plan, lowered, text)) == bool(old)


def test_the_compiler_has_an_environment_of_its_own():
    assert NPU.packages == ascend.PACKAGES
    assert environment.command("triton_npu") == "septran doctor --install triton_npu"
