"""hip_c: cuda_c's emitter in HIP words, on wavefronts of 64: emulated, broken on purpose, and compiled by clang."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from septran import backends
from septran.backends.cuda.toolchain import compile_code_object, compile_emulated
from septran.backends.device import code_object
from septran.kernel import Kernel
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.backends.cuda_c import cases
from tests.backends.cuda_c.running import run_kernel
from tests.backends.operators import program_of
from tests.cli.conftest import septran as septran

HIP_C = backends.get("hip_c")
QUICK = {("gemm", "float16"), ("attention_causal", "bfloat16"), ("layernorm", "float32")}


def kernel(name: str, dtype: str, dims: Mapping[str, int], arch: str = "gfx942") -> Kernel:
    op, path = cases.operators()[name]
    return HIP_C.emit(program_of(op, path, HIP_C, arch, dtype, dims), {})


def error(k: Kernel, name: str, dims: Mapping[str, int], folder: Path) -> tuple[float, str]:
    """Return the largest relative error, and what the emulation said where it stopped the kernel."""
    given = cases.inputs(name, k, dims)
    ran = run_kernel(k, given, folder)
    if ran.code:
        return float("inf"), f"{ran.found} {ran.stderr}"
    return cases.error(name, dims, given, ran.outputs), ""


@pytest.mark.wider
def test_a_product_from_the_command_line_is_verified(septran) -> None:
    asked = ("--op", "gemm", "--backend", "hip_c", "--dtype", "float32")
    done = septran("gen", *asked, "--dim", "M=70", "--dim", "N=33", "--dim", "K=45")
    assert done.code == 0, done.out + done.err
    assert "gemm_leaf_mfma" in done.out
    assert re.search(r"verdict\s+accurate", done.out)
    assert re.search(r"proved .*text", done.out)


@pytest.mark.parametrize("name", ["conv2d_stride2", "attention"])
def test_a_sample_that_is_more_than_a_block_has_is_cut_smaller(name: str) -> None:
    """64 KiB a block: the policy's caps are tried in order until the tiles fit."""
    plan = resolve(GenRequest(op=name, backend="hip_c", dtype="float32"))
    assert lower_plan(plan).program.target == "hip_c"


def every() -> Iterator[object]:
    for name, (op, _) in cases.operators().items():
        for dtype in op.dtypes:
            for number, dims in enumerate((op.dims, *op.odd_dims)):
                quick = (name, dtype) in QUICK and number == 1
                marks = () if quick else pytest.mark.slow
                yield pytest.param(name, dtype, dims, id=f"{name}-{dtype}-{number}", marks=marks)


@pytest.mark.parametrize(("name", "dtype", "dims"), list(every()))
def test_accurate(name: str, dtype: str, dims: Mapping[str, int], tmp_path: Path) -> None:
    found, said = error(kernel(name, dtype, dims), name, dims, tmp_path)
    assert found <= cases.TOLERANCE[dtype], said


GEMM = ("gemm", "float16", (("M", 100), ("N", 72), ("K", 344)))
WIDE = ("gemm", "float32", (("M", 40), ("N", 36), ("K", 77)))
COLUMNS = ("col_sum", "float32", (("M", 301), ("N", 37)))
ROWS = ("softmax", "float32", (("M", 37), ("N", 100)))
ATTENTION = ("attention_causal", "float16", (("Z", 2), ("S", 136), ("D", 40)))


@dataclass(frozen=True, slots=True)
class Mutant:
    """`pattern` in file `where` ("" = the kernel itself) is replaced once."""

    kernel: tuple[str, str, tuple[tuple[str, int], ...]]
    pattern: str
    new: str
    where: str = ""


MUTANTS = {
    "wait dropped": Mutant(GEMM, r"st::cp_wait<0>\(\);", ";"),
    "barrier dropped": Mutant(GEMM, r"(st::cp_wait<0>\(\);\n)\s*__syncthreads\(\);\n", r"\1"),
    "accumulator not cleared": Mutant(GEMM, r"\n    leaf_zero_\w+\(acc\);", ""),
    "edge clipped": Mutant(GEMM, r"st::bound\(acc, 100, |st::bound\(C_r, ", r"st::bound(acc, 99, "),
    "last block skipped": Mutant(GEMM, r"k0 < 6; \+\+k0", "k0 < 5; ++k0"),
    "k tail dropped": Mutant(WIDE, r"if \(k >= K\) break;", "if (k + 16 > K) break;", "st_mfma.cuh"),
    "operands of the instruction swapped": Mutant(
        GEMM, r"mfma\(&C\.v\[i \* F::C \+ 4 \* j\], a\[i\], b\)", "mfma(&C.v[i * F::C + 4 * j], b, a[i])", "st_mfma.cuh"
    ),
    "lanes as a warp has them": Mutant(GEMM, r"LM == 16 \? 1 : wave / LM", "wave / LM", "st_device.cuh"),
    "k of the lane's group forgotten": Mutant(
        WIDE, r"l % 16, k \+ l / 16 \* 4, K\)", "l % 16, k, K)", "st_mfma.cuh"
    ),
    "half of the wavefront reduced": Mutant(
        ROWS, r"for \(int o = COUNT / 2; o > 0;", "for (int o = COUNT / 4; o > 0;", "st_reduce.cuh"
    ),
    "scratch barrier dropped": Mutant(
        COLUMNS, r"= acc\[c\];\n    \}\n    __syncthreads\(\);", "= acc[c];\n    }", "st_reduce.cuh"
    ),
    "one product's result misread by the next": Mutant(
        ATTENTION, r"const int c = k / 4 \+ q;", "const int c = k / 4 + 3 - q;", "st_mfma.cuh"
    ),
}  # fmt: skip
QUICK_MUTANTS = ("wait dropped", "lanes as a warp has them")


@pytest.mark.parametrize(
    "name", [n if n in QUICK_MUTANTS else pytest.param(n, marks=pytest.mark.slow) for n in MUTANTS]
)
def test_mutant_is_rejected(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    op, dtype, dims = mutant.kernel
    base = kernel(op, dtype, dict(dims))
    files = dict(base.files)
    target = mutant.where or base.main
    changed, count = re.subn(mutant.pattern, mutant.new, files[target], count=1)
    assert count == 1, f"{mutant.pattern} is not in {target}:\n{files[target]}"
    broken = base.with_files({**files, target: changed})
    assert error(broken, op, dict(dims), tmp_path)[0] > cases.TOLERANCE[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted({m.kernel for m in MUTANTS.values()}), ids=str)
def test_unbroken_kernel_passes(
    case: tuple[str, str, tuple[tuple[str, int], ...]], tmp_path: Path
) -> None:
    op, dtype, dims = case
    found, said = error(kernel(op, dtype, dict(dims)), op, dict(dims), tmp_path)
    assert found <= cases.TOLERANCE[dtype], said


def test_a_code_object_is_made_or_what_is_missing_is_said(tmp_path: Path) -> None:
    built = compile_code_object(kernel("gemm", "bfloat16", {"M": 70, "N": 50, "K": 40}), tmp_path)
    if isinstance(code_object.tools("gfx942"), str):
        assert isinstance(built, str) and code_object.INSTALL in built
        return
    assert not isinstance(built, str) and built.ok, built
    facts = dict(built.facts)
    assert facts["registers"] > 16
    assert facts["spill_bytes"] == 0
    code = (tmp_path / "compile" / "kernel.co").read_bytes()
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == 224  # EM_AMDGPU


@pytest.mark.slow
@pytest.mark.parametrize("arch", HIP_C.arches)
@pytest.mark.parametrize("name", list(cases.operators()))
def test_compiles_without_spills(name: str, arch: str, tmp_path: Path) -> None:
    if isinstance(missing := code_object.tools(arch), str):
        pytest.skip(missing)
    op = cases.operators()[name][0]
    for dtype in op.dtypes:
        folder = tmp_path / dtype
        folder.mkdir()
        built = compile_code_object(kernel(name, dtype, op.dims, arch), folder)
        assert not isinstance(built, str) and built.ok, built
        assert dict(built.facts)["spill_bytes"] == 0, built.facts


def test_a_chip_that_this_clang_does_not_know_asks_for_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_19(name: str) -> str | None:
        return f"/usr/bin/{name}" if name.endswith("-19") else None

    monkeypatch.setattr(code_object.shutil, "which", only_19)
    said = compile_code_object(
        kernel("gemm", "float16", {"M": 70, "N": 50, "K": 40}, "gfx950"), tmp_path
    )
    assert isinstance(said, str) and "clang-22" in said and "from 20 on" in said


def test_a_kernel_that_clang_refuses_is_refused(tmp_path: Path) -> None:
    if isinstance(missing := code_object.tools("gfx942"), str):
        pytest.skip(missing)
    base = kernel("add", "float32", {"N": 5})
    broken = base.with_files(
        {**dict(base.files), base.main: base.source.replace("st::", "no::", 1)}
    )
    built = HIP_C.build(broken, tmp_path)
    assert not built.ok and "no" in built.log


def test_the_emulation_has_wavefronts(tmp_path: Path) -> None:
    """A header that exchanges within 32 lanes does not fit a machine of 64."""
    base = kernel("row_sum", "float32", {"M": 3, "N": 700})
    files = dict(base.files)
    files["st_device.cuh"] = files["st_device.cuh"].replace("wave = 64", "wave = 32")
    built = compile_emulated(base.with_files(files), tmp_path)
    assert not built.ok and "run in step" in built.log
