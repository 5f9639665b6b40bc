"""Arrays seen in another layout, and memory between kernels, in the text of targets that index arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.tilesim import SimError, load_file
from septran.backends.tilesim.gpu import gpu_dialect
from septran.plan.floor import library_leaves
from septran.plan.torch_module import load_imported
from tests.frontend.importing import imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

LAID = Module(
    name="laid",
    body="return torch.softmax(x.transpose(0, 1), 1).reshape(10, 4)[:, 1:3] * 2",
    inputs="torch.randn(8, 5)",
    args="x",
    init="pass",
    kernels=2,
)
"""A permuted operand, and a workspace that is read in another shape from an offset on."""


def _text(target: str, folder: Path) -> str:
    plan, lowered = planned(load_imported(imported(LAID.write(folder))), target)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves).source


def test_dsa_c_counts_elements_and_asks_for_workspaces(tmp_path: Path) -> None:
    text = _text("dsa_c", tmp_path)
    assert 'vendor_lib_workspace("softmax", 160u)' in text
    assert "VL_G(x + " in text


def test_tilelang_names_other_shapes_and_allocates_workspaces(tmp_path: Path) -> None:
    text = _text("tilelang_cuda", tmp_path)
    assert 'softmax = T.alloc_global((5, 8), "float32")' in text
    assert "x_40 = T.reshape(x, (40,))" in text


def test_npuir_hands_arrays_to_its_kernels_in_the_shape_of_the_view(tmp_path: Path) -> None:
    text = _text("tilelang_npuir", tmp_path)
    assert "softmax = torch.empty((5, 8), dtype=torch.float32, device=" in text
    assert "kernels[1](softmax.reshape((10, 4))" in text
    # the permuted operand: one dim after the other
    assert "for at in T.serial(0, 8):" in text or "for at in T.serial(0, 5):" in text


KERNEL = """import tilelang.language as T


@T.prim_func
def main(x: T.Tensor((4, 2), "float32"), y: T.Tensor((8,), "float32")):
    w = T.alloc_global((8,), "float32")
    rows = T.reshape(w, (4, 2))
    with T.Kernel(4, threads=32) as bx:
        for j in T.Parallel(2):
            rows[bx, j] = x[bx, j] + 1.0
    with T.Kernel(2, threads=32) as bx:
        for j in T.Parallel(4):
            {second}
"""


def _run(folder: Path, second: str) -> np.ndarray:
    path = folder / "kernel.py"
    path.write_text(KERNEL.format(second=second))
    module, _ = load_file(path, gpu_dialect("sm_90a"))
    x, y = np.arange(8, dtype=np.float32).reshape(4, 2), np.zeros(8, np.float32)
    module.main(x, y)
    return y


def test_the_simulator_shares_memory_between_shapes_and_launches(tmp_path: Path) -> None:
    wanted = np.arange(8) + 1
    np.testing.assert_array_equal(_run(tmp_path, "y[bx * 4 + j] = w[bx * 4 + j]"), wanted)
    # another block of a later launch may write what an earlier launch wrote
    again = "w[bx * 4 + j] = 3.0; y[bx * 4 + j] = w[bx * 4 + j]".split("; ")
    np.testing.assert_array_equal(_run(tmp_path, "\n            ".join(again)), np.full(8, 3.0))


def test_the_simulator_finds_two_blocks_of_one_launch_in_one_element(tmp_path: Path) -> None:
    with pytest.raises(SimError, match="two blocks write the same element"):
        _run(tmp_path, "w[j] = 3.0")


def test_a_reshape_keeps_the_number_of_elements(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.format(second="y[j] = 0.0").replace("(w, (4, 2))", "(w, (4, 3))"))
    module, _ = load_file(path, gpu_dialect("sm_90a"))
    with pytest.raises(SimError, match="shape check failed"):
        module.main(np.zeros((4, 2), np.float32), np.zeros(8, np.float32))
