"""Kernels and planted bugs in JAX's simulation of a TPU, and the gate that reads products."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from septran import assets, backends
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import place_of
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.backends.operators import all_operators
from tests.backends.pallas.installed import simulated
from tests.backends.pallas.test_emit import kernel
from tests.leafgate import consistency

__all__ = ["simulated"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("simulated")]
GEMM = {"M": 40, "N": 50, "K": 1200}
ROWS = {"M": 40, "N": 60}


def judged(
    folder: Path,
    op: str,
    dims: dict[str, int],
    dtype: str = "float32",
    *,
    old: str = "",
    new: str = "",
) -> Verdict:
    """The verdict on the shipped kernel, or on one with a piece of its text replaced."""
    made = kernel(op, dtype, **dims)
    if old:
        assert old in made.source, made.source
        made = made.with_files({made.main: made.source.replace(old, new)})
    plan = resolve(GenRequest(op=op, backend="pallas_tpu", dtype=dtype, dims=dims))
    problem = problem_of(plan, lower_plan(plan).program, plan.dims)
    place = place_of(backends.get("pallas_tpu"), "v5e", "emulated", 2)
    build = folder / "build"
    build.mkdir()
    return verify(
        made,
        place.build(made, build),
        problem,
        run_dir=folder,
        request=Request(
            where="emulated", language="pallas", sessions=replace(place.sessions, budget_s=8.0)
        ),
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", sorted(set(all_operators()) - {"cross_entropy", "gemm_seed"}))
def test_every_operator_is_accurate_at_its_odd_dims(op: str, dtype: str, tmp_path: Path) -> None:
    operator = all_operators()[op][0]
    if dtype not in operator.dtypes:
        pytest.skip(f"{op} is not defined for {dtype}")
    verdict = judged(tmp_path, op, dict(operator.odd_dims[0]), dtype)
    assert verdict.passed, verdict.message


class Planted(NamedTuple):
    """old -> new in the kernel of `op`."""

    title: str
    op: str
    dims: dict[str, int]
    old: str
    new: str


PLANTED = [
    Planted("accumulator not cleared", "gemm", GEMM, "@pl.when(k0 == 0)", "@pl.when(k0 == 7)"),
    Planted("stored a step early", "gemm", GEMM, "@pl.when(k0 == 2)", "@pl.when(k0 == 1)"),
    Planted("ragged k not masked", "gemm", GEMM, "< n_A_1", "< 512"),
    Planted("always the first block of B", "gemm", GEMM, "lambda k0: (k0, 0)", "lambda k0: (0, 0)"),
    Planted("a step fewer", "gemm", GEMM, "grid=(3,)", "grid=(2,)"),
    Planted("steps of a sum on two cores", "gemm", GEMM, '"arbitrary"', '"parallel"'),
    Planted(
        "a read beyond a block", "gemm", GEMM, "acc[...], A[...]", "acc[...], A[pl.ds(8, 40), :]"
    ),
    Planted(
        "two steps store one block",
        "softmax",
        ROWS,
        "out_specs=(pl.BlockSpec((16, 60), lambda i0: (i0, 0)),)",
        "out_specs=(pl.BlockSpec((16, 60), lambda i0: (0, 0)),)",
    ),
    Planted("reduced over the wrong axis", "softmax", ROWS, "axis=1", "axis=0"),
]


@pytest.mark.parametrize("planted", PLANTED, ids=[p.title for p in PLANTED])
def test_a_planted_bug_is_caught(planted: Planted, tmp_path: Path) -> None:
    verdict = judged(tmp_path, planted.op, planted.dims, old=planted.old, new=planted.new)
    assert not verdict.passed
    assert verdict.status.value not in ("unavailable", "timeout"), verdict.message


def test_a_product_that_a_tpu_would_round_is_refused_before_it_runs(tmp_path: Path) -> None:
    verdict = judged(
        tmp_path, "gemm", GEMM, old="lax.Precision.HIGHEST if", new="lax.Precision.DEFAULT if"
    )
    assert verdict.code == "V201"
    assert "would round its operands to bfloat16" in verdict.message + verdict.log


@pytest.fixture
def libtpu(simulated: Path) -> None:
    if not list((simulated / "environments" / "pallas_tpu").glob("libtpu-*.dist-info")):
        pytest.skip("libtpu is not installed (septran doctor --install pallas_tpu+libtpu)")


@pytest.mark.usefixtures("libtpu")
@pytest.mark.parametrize("arch", backends.get("pallas_tpu").arches)
@pytest.mark.parametrize("op", ["attention", "gemm", "softmax"])
def test_machine_code_of_every_generation(op: str, arch: str, tmp_path: Path) -> None:
    built = backends.get("pallas_tpu").build(kernel(op, arch=arch), tmp_path)
    assert built.ok, built.log
    assert not any("libtpu" in text for text in built.not_checked)
    facts = dict(built.facts)
    assert facts["bundles"] > 50 and facts["spill_bundles"] >= 0


NOT_COMPILED = {
    ("conv2d", "bfloat16"): "cannot statically prove that index in dimension 2 is a multiple of 8",
    ("conv2d_stride2", "bfloat16"): "Strided load with non 32-bit data",
}
"""What libtpu 0.0.42.1 says to windows of 16-bit tensors."""


@pytest.mark.usefixtures("libtpu")
@pytest.mark.parametrize("op", sorted(set(all_operators()) - {"cross_entropy"}))
def test_every_operator_compiles_or_says_why_not(op: str, tmp_path: Path) -> None:
    """At its sample sizes, in each type that both have."""
    pallas = backends.get("pallas_tpu")
    for dtype in set(all_operators()[op][0].dtypes) & set(pallas.dtypes):
        folder = tmp_path / dtype
        folder.mkdir()
        built = pallas.build(kernel(op, dtype), folder)
        assert built.ok == ((op, dtype) not in NOT_COMPILED), built.log
        assert NOT_COMPILED.get((op, dtype), "") in built.log


TWICE = """
import os, sys, time
sys.path.append(os.environ["SEPTRAN_PACKAGES"])
import numpy as np
import jax
{compile_once}
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
mode = pltpu.InterpretParams(detect_races=True, num_cores_or_threads=2)
def double(x, y): y[...] = x[...] + x[...]
block = pl.BlockSpec((8, 128), lambda i: (i, 0))
shape = jax.ShapeDtypeStruct((32, 128), jnp.float32)
call = jax.jit(pl.pallas_call(double, grid=(4,), in_specs=(block,), out_specs=block, out_shape=shape, interpret=mode))
_compile_once()
spent = []
for value in range(3):
    begun = time.process_time()
    assert (np.asarray(call(jnp.full((32, 128), value, jnp.float32))) == 2 * value).all()
    spent.append(time.process_time() - begun)
print(*spent)
"""


def test_a_kernel_is_compiled_once_for_all_calls(simulated: Path, tmp_path: Path) -> None:
    text = assets.read("verify_templates/loaders/pallas_sim.py.j2")
    found = text[text.index("def _compile_once") : text.index("def load(")]
    packages = simulated / "environments" / "pallas_tpu"
    done = subprocess.run(
        [sys.executable, "-c", TWICE.format(compile_once=found)],
        env={"JAX_PLATFORMS": "cpu", "SEPTRAN_PACKAGES": str(packages), "HOME": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, *later = map(float, done.stdout.split())
    assert max(later) < first / 4, done.stdout


def test_a_leaf_that_adds_to_a_ragged_tile_is_judged_alone(tmp_path: Path) -> None:
    """JAX 0.10 gives a tensor that is read and written back with the padding of its last block."""
    found = consistency.leaves("pallas_tpu", "row_sum", "float32")
    (leaf,) = (leaf for leaf in found if leaf.spec.task == "row_sum_step")
    verdict = consistency.sent_back(leaf, "row_sum", "float32", tmp_path)
    assert verdict.verified, verdict.message


def test_a_folder_named_from_here_is_compiled_in(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child that lowers has a working directory of its own; it found no kernel there."""
    plan = resolve(GenRequest(op="relu", backend="pallas_tpu"))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    built = plan.backend.build(plan.backend.emit(lowered.program, leaves), Path("here"))
    assert built.ok, built.log
