"""Products by wgmma: what is emitted, that it is right in every operand order, and broken kernels."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from septran.backends.cuda.backend import CUDA_C
from septran.backends.cuda.passes.place_fragments import _leaving
from septran.backends.cuda.passes.wgmma import PANELS
from septran.backends.cuda.toolchain import compile_cubin, nvcc
from septran.ir.expr import Const
from septran.ir.nodes import (
    Alloc,
    Buffer,
    Copy,
    For,
    LeafArg,
    LeafCall,
    Prim,
    Program,
    Region,
    Stmt,
    allocated,
    walk,
)
from septran.kernel import Kernel, leaf_specs
from septran.passes import lower
from septran.plan.resolve import GenRequest
from septran.trial.leaf_case import leaf_cases
from tests.backends.cuda_c import cases
from tests.backends.cuda_c.raw import run_cuda
from tests.backends.cuda_c.running import from_bytes, kernel_of, run_kernel, to_bytes
from tests.backends.operators import ROOT, program_of

TENSOR = {"M": 256, "N": 128, "K": 320}
RAGGED = {"M": 200, "N": 136, "K": 344}
ODD = {"M": 130, "N": 129, "K": 205}


def gemm(dims: Mapping[str, int], dtype: str = "float16") -> Kernel:
    return cases.kernel("gemm", dtype, dims, "sm_90a")


def bound(name: str, dtype: str, dims: Mapping[str, int], arch: str = "sm_90a") -> Program:
    op, path = cases.operators()[name]
    return program_of(op, path, CUDA_C, arch, dtype, dims)  # type: ignore[arg-type]


def products(kernel: Kernel) -> list[str]:
    return [leaf.name for leaf in kernel.leaves if "gemm" in leaf.name]


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("cuda_c/gemm.float16.sm_90a.cu", gemm(RAGGED).source)


def test_only_where_the_mapping_and_the_shapes_allow_it() -> None:
    assert products(gemm(TENSOR)) == ["gemm_leaf_wgmma"]
    assert products(gemm(TENSOR, "float32")) == ["gemm_leaf_simt"]
    assert products(gemm({"M": 60, "N": 256, "K": 256})) == ["gemm_leaf_tensorcore"]
    assert products(cases.kernel("gemm", "float16", TENSOR, "sm_80")) == ["gemm_leaf_tensorcore"]
    program = bound("gemm", "float16", TENSOR)
    assert {s.buffer.layout for s in walk(program.body) if isinstance(s, Alloc)} >= {PANELS}


def test_one_size_for_rows_columns_and_depth_is_that_of_warpgroups() -> None:
    seed = cases.kernel("gemm_seed", "float16", {"M": 256, "N": 256, "K": 512}, "sm_90a")
    assert products(seed) == ["gemm_leaf_wgmma"] and "st::copy_bulk" in seed.source
    assert "3-stage ring" in seed.source


TUNED_N = (
    'n: !tune {type: choice, values: [16, 32, 64, 128, 256], default: "min(128, pow2_up(extent))"}'
)


def with_policy(folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    name = "cuda_c.sm_90a.mapping.yaml"
    text = (ROOT / "mappings" / name).read_text()
    assert old in text
    (folder / "mappings").mkdir()
    (folder / "mappings" / name).write_text(text.replace(old, new))
    monkeypatch.setattr("tests.backends.operators.ROOT", folder)


def whole(buffer: Buffer) -> Region:
    n = tuple(Const(size) for size in buffer.shape)
    zero, one, none = ((value,) * len(n) for value in (Const(0), 1, 0))
    return Region(
        buffer=buffer, offset=zero, extent=n, tile=buffer.shape, step=one, grid=none
    )  # fmt: skip


WIDE = {"M": 200, "N": 264, "K": 136}


@pytest.mark.wider
def test_wide_tiles_stay_in_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """128 x 256 sums are half of a thread's registers; the 16-bit tile that leaves takes theirs."""
    with_policy(tmp_path, monkeypatch, TUNED_N, 'n: "min(256, pow2_up(extent))"')
    kernel = gemm(WIDE)
    assert products(kernel) == ["gemm_leaf_wgmma"] and "128, 256> acc" in kernel.source
    given = cases.inputs("gemm", kernel, WIDE)
    ran = run_kernel(kernel, given, tmp_path)
    assert ran.code == 0, (ran.found, ran.stderr)
    assert cases.error("gemm", WIDE, given, ran.outputs) <= cases.TOLERANCE["float16"]
    if nvcc() is not None:
        (tmp_path / "cubin").mkdir()
        built = compile_cubin(kernel, tmp_path / "cubin")
        assert built is not None and built.ok and dict(built.facts)["spill_bytes"] == 0, built


def test_only_a_tile_on_its_way_out_takes_the_registers_it_is_made_of() -> None:
    acc, half, out = (
        Buffer(name=name, shape=(128, 256), dtype=dtype, mem=mem)
        for name, dtype, mem in (
            ("acc", "float32", "REGISTER"),
            ("half", "float16", "REGISTER"),
            ("out", "float16", "GLOBAL"),
        )
    )
    made = LeafCall(
        task="t", impl="auto", prims=(Prim(name="copy", out="y", ins=("x",)),),
        args=(
            LeafArg(param="y", region=whole(half), privilege="w"),
            LeafArg(param="x", region=whole(acc), privilege="r"),
        ),
    )  # fmt: skip
    stored, other = (Copy(dst=whole(out), src=whole(b)) for b in (half, acc))

    def leaving(*body: Stmt) -> list[str]:
        loop = For(var="b", extent=Const(1), body=body)
        return list(_leaving({"acc": acc, "half": half}, loop))

    assert leaving(Alloc(buffer=acc), made, stored) == ["half"]
    assert leaving(Alloc(buffer=acc), made, stored, stored) == ["half"]  # as often as one likes
    assert leaving(Alloc(buffer=acc), made, stored, other) == []  # what it is made of lives on
    more = (Prim(name="map", out="x", named=(("x", "x"),), attrs=(("expr", "x + 1"),)), *made.prims)
    assert leaving(Alloc(buffer=acc), replace(made, prims=more), stored) == ["half"]
    first = (*made.prims, more[0])  # made before the last step: both live
    assert leaving(Alloc(buffer=acc), replace(made, prims=first), stored) == []
    turn = For(var="k", extent=Const(2), body=(made, stored))
    assert leaving(Alloc(buffer=acc), turn) == []  # ... into the next turn


def test_without_the_option_there_is_no_trace_of_it() -> None:
    text = kernel_of(bound("gemm", "float16", TENSOR, "sm_80"))
    assert "wgmma" not in text.source and "st_bulk.cuh" not in dict(text.files)


def test_tensor_copies_only_where_strides_are_multiples_of_16_bytes() -> None:
    assert "st::copy_bulk" in gemm(RAGGED).source
    odd = gemm(ODD)
    assert "st::copy_bulk" not in odd.source and products(odd) == ["gemm_leaf_wgmma"]
    assert "st::fence_for_wgmma" in odd.source


def test_a_leaf_writer_is_told_the_type_of_a_tile_in_panels() -> None:
    spec = next(s for _, s in leaf_specs(bound("gemm", "bfloat16", TENSOR)) if s.task == "mma")
    assert "st::Panels<const __nv_bfloat16, 64, 128> B" in CUDA_C.signature(spec)


@pytest.mark.parametrize("dims", [TENSOR, RAGGED, ODD], ids=str)
def test_the_leaf_alone_has_the_spec_it_has_in_the_kernel(dims: Mapping[str, int]) -> None:
    spec = next(s for _, s in leaf_specs(bound("gemm", "float16", dims)) if s.task == "mma")
    for case in leaf_cases(spec, machine="cuda_c.sm_90a"):
        program = lower(case.program, CUDA_C.passes)
        assert spec.key in {s.key for _, s in leaf_specs(program)}, case.label


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "dtype", "dims"),
    [
        ("gemm", "float16", RAGGED),
        ("gemm", "bfloat16", ODD),
        ("batched_gemm", "float16", {"S": 2, "M": 128, "N": 72, "K": 136}),
        pytest.param("attention", "float16", {"Z": 1, "S": 136, "D": 64}, marks=pytest.mark.slow),
        pytest.param(
            "attention_causal", "bfloat16", {"Z": 1, "S": 300, "D": 64}, marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_accurate(name: str, dtype: str, dims: Mapping[str, int], tmp_path: Path) -> None:
    kernel = cases.kernel(name, dtype, dims, "sm_90a")
    given = cases.inputs(name, kernel, dims)
    ran = run_kernel(kernel, given, tmp_path)
    assert ran.code == 0, (ran.found, ran.stderr)
    assert cases.error(name, dims, given, ran.outputs) <= cases.TOLERANCE[dtype]


@pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
def test_the_real_compiler_makes_tensor_copies_and_wgmma_of_it(tmp_path: Path) -> None:
    kernel = gemm(TENSOR)
    assert "3-stage ring" in kernel.source and "st::Slots<3>" in kernel.source
    built = compile_cubin(kernel, tmp_path)
    assert built is not None and built.ok, built
    facts = dict(built.facts)
    assert facts["shared_bytes"] == 3 * (128 * 64 + 64 * 128) * 2 + 48
    assert facts["spill_bytes"] == 0 and int(str(facts["registers"])) <= 128, facts
    for name, text in kernel.files:
        (tmp_path / name).write_text(text)
    compiler = nvcc()
    assert compiler is not None
    command = [compiler.path, "-ptx", "-std=c++17", "-gencode=arch=compute_90a,code=compute_90a"]
    done = subprocess.run(
        [*command, "--diag-suppress=177", kernel.main, "-o", "kernel.ptx"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ptx = (tmp_path / "kernel.ptx").read_text()
    assert len(re.findall(r"wgmma\.mma_async\S+m64n128k16\.f32\.f16\.f16", ptx)) == 4  # K / 16
    for word in (
        "cp.async.bulk.tensor.2d",
        "mbarrier.try_wait.parity",
        "mbarrier.arrive.expect_tx",
        "fence.mbarrier_init",
        "wgmma.fence",
        "wgmma.commit_group",
        "wgmma.wait_group",
    ):
        assert word in ptx, word
    order = [ptx.rindex(w) for w in ("wgmma.fence", "wgmma.mma", "wgmma.commit", "wgmma.wait")]
    assert order == sorted(order)


def test_attention_keeps_its_weights_in_registers_between_two_products_of_warpgroups() -> None:
    kernel = cases.kernel("attention", "float16", {"Z": 2, "S": 512, "D": 128}, "sm_90a")
    assert products(kernel) == ["gemm_leaf_wgmma", "gemm_leaf_wgmma"]
    assert "st::gemm_wgmma<false, false>(acc, P, V);" in kernel.source
    assert "const st::Frag<__half, st::Grid<8, 1, 8, 2>, 128, 64>& P" in kernel.source
    assert "2-stage ring: tensor copies" in kernel.source


@pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
def test_the_real_compiler_takes_an_operand_from_registers(tmp_path: Path) -> None:
    kernel = cases.kernel("attention", "float16", {"Z": 2, "S": 512, "D": 128}, "sm_90a")
    built = compile_cubin(kernel, tmp_path)
    assert built is not None and built.ok, built
    facts = dict(built.facts)
    assert facts["spill_bytes"] == 0 and int(str(facts["registers"])) <= 200, facts


# ---- operand orders, by hand
HAND = """
#define SEPTRAN_THREADS 256
#include "st_wgmma.cuh"
template <bool TA, bool TB, class T, int N> __global__ void product(const T* a, const T* b, float* c) {
  constexpr int M = 128, K = 128, AR = TA ? K : M, AC = TA ? M : K, BR = TB ? N : K, BC = TB ? K : N;
  ST_DYNAMIC_SHARED(smem);
  st::Panels<T, AR, AC> A{(T*)smem};
  st::Panels<T, BR, BC> B{(T*)(smem + M * K * 2)};
  st::copy_async<st::Tile<AR, AC>>(A, st::View<const T, 2>{a, {AR, AC}, {AC, 1}});
  st::copy_async<st::Tile<BR, BC>>(B, st::View<const T, 2>{b, {BR, BC}, {BC, 1}});
  st::cp_commit();
  st::cp_wait<0>();
  st::fence_for_wgmma();
  __syncthreads();
  st::Frag<float, st::Grid<8, 1, 8, 2>, M, N> C;
  st::bound(C, M, N);
  st::zero(C);
  st::gemm_wgmma<TA, TB>(C, st::Panels<const T, AR, AC>(A), st::Panels<const T, BR, BC>(B));
  st::copy(st::View<float, 2>{c, {M, N}, {N, 1}}, C);
}
"""


@pytest.mark.few(2)
@pytest.mark.parametrize(("kind", "dtype"), [("__half", "float16"), ("__nv_bfloat16", "bfloat16")])
@pytest.mark.parametrize("n", [64, 256])
def test_every_order_of_operands(kind: str, dtype: str, n: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((128, 128)), rng.standard_normal((128, n))
    body, args, want = "", [], from_bytes(to_bytes(a, dtype).reshape(-1), dtype).reshape(a.shape)
    want = want @ from_bytes(to_bytes(b, dtype).reshape(-1), dtype).reshape(b.shape)
    body = f"cudaFuncSetAttribute(0, cudaFuncAttributeMaxDynamicSharedMemorySize, {32768 + 256 * n});\n"
    for ta in (0, 1):
        for tb in (0, 1):
            at = len(args)
            left, right = (x.T if t else x for x, t in ((a, ta), (b, tb)))
            args += [to_bytes(np.ascontiguousarray(x), dtype) for x in (left, right)]
            args.append(np.zeros((128, n), np.float32))
            body += (
                f"ST_LAUNCH((product<{ta}, {tb}, {kind}, {n}>), dim3(1), dim3(256), {32768 + 256 * n}, 0, "
                f"(const {kind}*)args[{at}], (const {kind}*)args[{at + 1}], (float*)args[{at + 2}]);\n"
            )
    run = 'extern "C" __attribute__((visibility("default"))) void run(void* const* args) {\n'
    ran = run_cuda(HAND + run + body + "}\n", args, tmp_path)
    assert ran.code == 0, ran.stderr
    for got in ran.outputs[2::3]:
        np.testing.assert_allclose(got, want, atol=1e-3)


# ---- broken kernels
@dataclass(frozen=True, slots=True)
class Mutant:
    pattern: str
    new: str
    where: str = ""
    dims: tuple[tuple[str, int], ...] = tuple(TENSOR.items())


CP_ASYNC = tuple(ODD.items())
LONG = (("M", 128), ("N", 128), ("K", 640))
"""Long enough to fill a slot three times."""
BULK, WGMMA = "st_bulk.cuh", "st_wgmma.cuh"
MUTANTS = {
    "slot read before it landed": Mutant(r"\n\s*slots_k0\.wait\(k0 % 3\);", ""),
    "slot never released": Mutant(r"\n\s*slots_k0\.release\(k0 % 3\);", ""),
    "slot released before it is read": Mutant(
        r"(\n\s*leaf_mma_\w+\(acc,[^;]*;)(\n\s*if \(k0 \+ 3 < 5\) \{\n\s*slots_k0\.release\(k0 % 3\);\n\s*\})",
        r"\2\1",
    ),
    "other slot released": Mutant(r"release\(k0 % 3\)", "release((k0 + 1) % 3)"),
    "other slot read": Mutant(r"(leaf_mma_\w+\(acc,\s*[^;]*A_s \+ \()k0 % 3", r"\1(k0 + 1) % 3"),
    "all slots are one": Mutant(
        r"(st::Panels<__half, 64, 128>\{B_s \+ \(\(k0 \+ 2\)) % 3", r"\1 % 1"
    ),
    "copies too far ahead": Mutant(r"\(k0 \+ 2\) \* 64\}", "(k0 + 3) * 64}"),
    "last block skipped": Mutant(r"k0 < 5; \+\+k0", "k0 < 4; ++k0"),
    "fewer bytes expected": Mutant(
        r"expect\(\(k0 \+ 2\) % 3, 32768\)", "expect((k0 + 2) % 3, 16384)"
    ),
    "more bytes expected": Mutant(
        r"expect\(\(k0 \+ 2\) % 3, 32768\)", "expect((k0 + 2) % 3, 32784)"
    ),
    "coordinates swapped": Mutant(
        r"landed, \{\(k0 \+ 2\) \* 64, i1 \* 128\}", "landed, {i1 * 128, (k0 + 2) * 64}"
    ),
    "coordinate shifted": Mutant(
        r"\{i0 \* 128, \(k0 \+ 2\) \* 64\}", "{i0 * 128 + 1, (k0 + 2) * 64}"
    ),
    "two threads fill": Mutant(r"if \(threadIdx\.x == 0\) \{", "if (threadIdx.x < 2) {"),
    "box too small": Mutant(r"\{128, 64\}\)\) return", "{64, 64})) return"),
    "extents swapped": Mutant(r"A, \{256, 320\}", "A, {320, 256}"),
    "reuse not waited for": Mutant(r"\n\s*barrier_wait\(empty \+ slot[^\n]*", "", BULK),
    "phase of landing not counted": Mutant(r"\n\s*landed \^= 1u << slot;", "", BULK),
    "phase of reuse not counted": Mutant(r"\n\s*released \^= 1u << slot;", "", BULK, LONG),
    "one warp's release is enough": Mutant(r"threads / 32\);", "1);", BULK),
    "barriers not shown to the copy engine": Mutant(r"\n\s*barrier_fence_init\(\);", "", BULK),
    "barriers used before they exist": Mutant(
        r"(barrier_fence_init\(\);\n\s*\}\n)\s*__syncthreads\(\);", r"\1", BULK
    ),
    "panels not swizzled": Mutant(
        r"\(\(col % 64 / 8\) \^ \(row & 7\)\)", "(col % 64 / 8)", BULK, CP_ASYNC
    ),
    "plain writes not fenced": Mutant(r"\n\s*st::fence_for_wgmma\(\);", "", "", CP_ASYNC),
    "tail of K not zero": Mutant(
        r"return left < 0 \? 0 : left > 8 \? 8 : left;", "return in ? 8 : 0;", BULK, CP_ASYNC
    ),
    "no fence before wgmma": Mutant(r"pin\(C\);\n\s*wgmma_fence\(\);", "pin(C);", WGMMA),
    "not committed": Mutant(r"\n\s*wgmma_commit\(\);\n", "\n", WGMMA),
    "not waited for": Mutant(r"\n\s*wgmma_wait<0>\(\);\n", "\n", WGMMA),
    "waits for all but one group": Mutant(r"wgmma_wait<0>\(\);", "wgmma_wait<1>();", WGMMA),
    "no swizzle in the descriptor": Mutant(r" \| 1ull << 62", "", WGMMA),
    "stride of the first operand": Mutant(
        r"TRANS_A \? A\.panel \* 2 : 16, 1024", "TRANS_A ? A.panel * 2 : 16, 512", WGMMA
    ),
    "distance of panels": Mutant(r"16 : B\.panel \* 2", "16 : B.panel", WGMMA),
    "step along K": Mutant(r"B\.p \+ k \* 64", "B.p + k * 32", WGMMA),
    "rows of the second warpgroup": Mutant(r"group \* 64 \* 64", "0", WGMMA),
    "major of the second operand": Mutant(
        r"run<TRANS_A, !TRANS_B>", "run<TRANS_A, TRANS_B>", WGMMA
    ),
}
QUICK = ("slot read before it landed", "slot released before it is read", "plain writes not fenced")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MUTANTS]
)
def test_mutant_is_rejected(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    dims = dict(mutant.dims)
    kernel = gemm(dims)
    files = dict(kernel.files)
    target = mutant.where or kernel.main
    changed, count = re.subn(mutant.pattern, mutant.new, files[target], count=1)
    assert count == 1, f"{mutant.pattern} is not in {target}:\n{files[target]}"
    given = cases.inputs("gemm", kernel, dims)
    ran = run_kernel(kernel.with_files({**files, target: changed}), given, tmp_path)
    accurate = (
        ran.code == 0
        and cases.error("gemm", dims, given, ran.outputs) <= cases.TOLERANCE["float16"]
    )
    assert not accurate


def test_math_mma_keeps_mma_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_policy(tmp_path, monkeypatch, "math: wgmma", "math: mma")
    assert products(gemm(TENSOR)) == ["gemm_leaf_tensorcore"]


@pytest.mark.slow
def test_a_kernel_with_tensor_copies_passes_the_verifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its secret placements once broke the 16 bytes that tensor copies need, and every such kernel was rejected."""
    from septran import settings
    from septran.run.gen import gen

    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path))
    dims = {"M": 128, "N": 128, "K": 256}
    request = GenRequest(op="gemm", backend="cuda_c", arch="sm_90a", dtype="float16", dims=dims)
    found = gen(request, settings=settings.load(), progress=lambda _: None)
    assert found.data["level"] == "accurate", found.data


def test_a_block_of_128_rows_gets_two_warpgroups_where_a_rule_asks_for_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One size for rows, columns and depth: a rule for 256 rows, of which 256 columns do not fit."""
    text = (ROOT / "mappings" / "cuda_c.sm_90a.mapping.yaml").read_text()
    start = text.index("      tiles:", text.index('"m >= 4096", "n >= 4096"'))
    two = text[start : text.index("      math:", start)]
    assert "default: 256" in two and "threads: 256" in two
    four = "      tiles: {m: 256, n: 128, k: 64, block: 128, lead: 1}\n      threads: 512\n      pipeline: 3\n"
    with_policy(tmp_path, monkeypatch, two, four)
    threads, rows = {}, {}
    for op in ("gemm", "gemm_seed"):
        program = lower(bound(op, "float16", {"M": 4096, "N": 4096, "K": 4096}), CUDA_C.passes)
        threads[op] = program.option("threads")
        tiles = [b.shape for b in allocated(program.body) if b.mem == "REGISTER"]
        rows[op] = max(shape[0] for shape in tiles)
        assert any(b.layout == PANELS for b in allocated(program.body))
    assert threads == {"gemm": 512, "gemm_seed": 256} and rows == {"gemm": 256, "gemm_seed": 128}


# ---- products that end a turn later
FLYING = {"M": 128, "N": 256, "K": 448}
LANDINGS = {
    "": Mutant("$^", ""),
    "slot released a turn early": Mutant(r"release\(\(k0 \+ 2\) % 3\)", "release(k0 % 3)"),
    "none waited for in the loop": Mutant(r"\n\s*st::all_but_one_landed\(\);", ""),
    "filled before the last reader is done": Mutant(
        r"(\n\s*slots_k0\.wait\(k0 % 3\);.*?st::all_but_one_landed\(\);)(.*?\n        \}\n)(\s*if \(k0 \+ 2 < 7\) \{\n\s*if \(threadIdx.*?\n        \}\n)",
        r"\3\1\2",
    ),
    "sums read while products run": Mutant(r"\n\s*st::landed\(acc\);", ""),
}


@pytest.mark.parametrize(
    "name", [n if n in ("", "slot released a turn early") else pytest.param(n, marks=pytest.mark.slow) for n in LANDINGS],
)  # fmt: skip
def test_products_overlap_from_turn_to_turn(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_policy(tmp_path, monkeypatch, TUNED_N, 'n: "min(256, pow2_up(extent))"')
    kernel, mutant = gemm(FLYING), LANDINGS[name]
    assert "st::fly(acc);" in kernel.source and "st::landed(acc);" in kernel.source
    text, count = re.subn(mutant.pattern, mutant.new, kernel.source, count=1, flags=re.S)
    assert count == bool(name), kernel.source
    files = {**dict(kernel.files), kernel.main: text}
    given = cases.inputs("gemm", kernel, FLYING)
    ran = run_kernel(kernel.with_files(files), given, tmp_path)
    accurate = (
        ran.code == 0
        and cases.error("gemm", FLYING, given, ran.outputs) <= cases.TOLERANCE["float16"]
    )
    assert accurate == (not name), (ran.found, ran.stderr)


def test_a_leaf_of_a_model_does_not_fly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may read its sums before it returns."""
    with_policy(tmp_path, monkeypatch, TUNED_N, 'n: "min(256, pow2_up(extent))"')
    program = bound("gemm", "float16", FLYING)
    specs = [s for _, s in leaf_specs(lower(program, CUDA_C.passes))]
    own = {s.key: leaf for s in specs if (leaf := CUDA_C.library(s))}
    assert "st::fly(" in CUDA_C.emit(program, own).source
    text = CUDA_C.emit(program, {k: replace(leaf, writer="llm") for k, leaf in own.items()}).source
    assert "st::fly(" not in text and "st::all_but_one_landed" not in text
