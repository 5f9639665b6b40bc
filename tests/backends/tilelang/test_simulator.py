"""What the simulator must refuse, per dialect, and what it must let pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.tilesim import SimError, dialect, run_file

GPU = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
    with T.Kernel(2, threads=128) as bx:
        a = T.alloc_fragment((32, 64), "float32")
        b = T.alloc_fragment((32, 64), "float32")
        v = T.alloc_fragment((32,), "float32")
        T.copy(A[bx * 32, 0], a)
{body}
        T.copy(b, B[bx * 32, 0])
"""
NPU = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((64, 64), "{dtype}"), B: T.Tensor((64, 64), "{out}")):
    with T.Kernel(1, is_npu=True) as (cid, sub):
{body}
"""


def run(
    tmp_path: Path, text: str, arch: str = "sm_80", dtype: str = "float32", out: str = "float32"
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    a = np.random.default_rng(0).standard_normal((64, 64)).astype(dtype)
    b = np.full((64, 64), np.nan, out)
    path = tmp_path / "kernel.py"
    path.write_text(text, encoding="utf-8")
    return a, b, run_file(path, "main", [a, b], dialect(arch))


def indented(body: str) -> str:
    return "\n".join("        " + line for line in body.strip("\n").split("\n"))


def test_parallel_body_with_branch_is_masked(tmp_path: Path) -> None:
    body = """
for i, j in T.Parallel(32, 64):
    if j < 10:
        b[i, j] = a[i, j] * 2.0
    else:
        b[i, j] = T.if_then_else(j < 20, T.max(a[i, j], 0.0), -1.0)
"""
    a, b, _ = run(tmp_path, GPU.format(body=indented(body)))
    want = np.where(np.arange(64) < 10, a * 2, np.where(np.arange(64) < 20, np.maximum(a, 0), -1))
    np.testing.assert_array_equal(b, want.astype(np.float32))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("race", "for i, j in T.Parallel(32, 64):\n    v[i] = a[i, j]"),
        ("race", "for i, j in T.Parallel(32, 64):\n    a[i, j] = a[31 - i, j] + 1.0"),
        ("bounds", "for i, j in T.Parallel(32, 64):\n    b[i, j] = a[i, j + 1]"),
        ("bounds", "T.copy(a[0:32, 1:65], b)"),
        ("shape", "T.reduce_sum(a, b, dim=1)"),
        ("shape", "T.copy(a[0:16, 0:64], b)"),
        ("parallel", "for i in T.Parallel(32):\n    T.clear(b)"),
        (
            "parallel",
            "for i in T.Parallel(32):\n    for j in T.Parallel(64):\n        b[i, j] = 0.0",
        ),
        ("rebind", "k = 1\nfor i in T.serial(4):\n    k = k + 1\nT.clear(b)"),
        ("name", "for i in T.serial(4):\n    k = i\nb[0, 0] = k * 1.0"),
        ("memory", "T.gemm(A, a, b)"),
        ("capacity", 'w = T.alloc_shared((256, 256), "float32")\nT.clear(b)'),
        ("type", "T.gemm_v2(a, a, b)"),
    ],
)
def test_gpu_defects_are_errors(kind: str, body: str, tmp_path: Path) -> None:
    with pytest.raises((SimError, AttributeError)) as found:
        run(tmp_path, GPU.format(body=indented(body)))
    if isinstance(found.value, SimError):
        assert found.value.kind == kind, found.value
        assert found.value.line > 10


def test_two_blocks_writing_one_element_is_a_race(tmp_path: Path) -> None:
    text = GPU.format(body=indented("T.copy(a, b)")).replace("B[bx * 32, 0]", "B[bx * 16, 0]")
    with pytest.raises(SimError, match="two blocks"):
        run(tmp_path, text)


def test_uninitialised_gpu_memory_is_nan_and_noted(tmp_path: Path) -> None:
    _, b, notes = run(tmp_path, GPU.format(body=indented("pass")))
    assert np.isnan(b).all()
    assert any("uninitialised" in note for note in notes)


def test_max_drops_nan_as_the_gpu_does(tmp_path: Path) -> None:
    body = 'for i, j in T.Parallel(32, 64):\n    b[i, j] = T.max(a[i, j] * T.infinity("float32") * 0.0, 1.0)'
    _, b, _ = run(tmp_path, GPU.format(body=indented(body)))
    assert (b == 1).all()


CUBE = """
x = T.alloc_L1([64, 64], "float16")
c = T.alloc_L0C([64, 64], "float32")
T.load_nd2nz(A[0, 0], x, [64, 64])
T.gemm(x, x, c, initC=True, size=[64, 64, 64])
T.store_fixpipe(c, B[0, 0], size=[64, 64], enable_nz2nd=True)
"""


def npu(body: str, dtype: str = "float32", out: str = "float32") -> str:
    return NPU.format(body=indented(body), dtype=dtype, out=out)


def test_cube_product(tmp_path: Path) -> None:
    a, b, _ = run(tmp_path, npu(CUBE, "float16"), "ascend910b", "float16")
    wide = a.astype(np.float32)
    np.testing.assert_allclose(b, wide @ wide, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("uninitialised", "initC=True", "initC=False"),
        ("layout", ", enable_nz2nd=True", ""),
        ("bounds", "A[0, 0]", "A[8, 0]"),
        ("memory", "T.alloc_L1", "T.alloc_ub"),
        ("capacity", '[64, 64], "float16")', '[1024, 512], "float16")'),
        ("dtype", 'T.alloc_L0C([64, 64], "float32")', 'T.alloc_L0C([64, 64], "float16")'),
        ("launch", "is_npu=True", "is_npu=False"),
    ],
)
def test_npu_cube_defects_are_errors(kind: str, old: str, new: str, tmp_path: Path) -> None:
    text = npu(CUBE, "float16")
    assert old in text
    with pytest.raises(SimError) as found:
        run(tmp_path, text.replace(old, new, 1), "ascend910b", "float16")
    assert found.value.kind == kind, found.value


VECTOR = """
x = T.alloc_ub([64, 64], "float32")
s = T.alloc_ub([64, 1], "float32")
T.copy(A, x)
T.reduce(x, s, dims=[1], reduce_mode="sum")
T.vdiv(x, s, x)
T.copy(x, B)
"""


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("uninitialised", "T.copy(A, x)", "pass"),
        ("shape", "[64, 1]", "[64]"),
        ("capacity", "[64, 64]", "[1024, 64]"),
        ("type", "T.vdiv(x, s, x)", "T.vdiv(1.0, s, x)"),
        ("memory", "T.copy(x, B)", "T.copy(A, B)"),
        (
            "deadlock",
            "T.copy(x, B)",
            'with T.rs("PIPE_MTE3"):\n            T.wait_flag("PIPE_V", 0)',
        ),
        ("flags", "T.copy(x, B)", 'with T.rs("PIPE_V"):\n            T.set_flag("PIPE_MTE3", 0)'),
    ],
)
def test_npu_vector_defects_are_errors(kind: str, old: str, new: str, tmp_path: Path) -> None:
    a, b, _ = run(tmp_path, npu(VECTOR), "ascend910b")
    np.testing.assert_allclose(b, a / a.sum(1, keepdims=True), rtol=1e-4)
    with pytest.raises(SimError) as found:
        run(tmp_path, npu(VECTOR).replace(old, new, 1), "ascend910b")
    assert found.value.kind == kind, found.value


CORES = """
with T.Scope("Cube"):
    x = T.alloc_L1([64, 64], "float32")
    c = T.alloc_L0C([64, 64], "float32")
    T.load_nd2nz(A[0, 0], x, [64, 64])
    T.gemm(x, x, c, initC=True, size=[64, 64, 64])
    T.store_fixpipe(c, B[0, 0], size=[64, 64], enable_nz2nd=True)
    T.sync_block_set(0)
with T.Scope("Vector"):
    u = T.alloc_ub([32, 64], "float32")
    T.sync_block_wait(0)
    T.copy(B[sub * 32, 0], u)
    T.vrelu(u, u)
    T.copy(u, B[sub * 32, 0])
"""


def test_cube_and_vector_cores_meet_through_flags(tmp_path: Path) -> None:
    a, b, _ = run(tmp_path, npu(CORES), "ascend910b")
    np.testing.assert_allclose(b, np.maximum(a @ a, 0), rtol=1e-4, atol=1e-4)
    with pytest.raises(SimError, match="deadlock"):
        run(tmp_path, npu(CORES.replace("T.sync_block_set(0)", "pass")), "ascend910b")
