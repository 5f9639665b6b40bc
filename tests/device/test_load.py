"""Kernels called from Python: on a device tensors go in and out, without one nothing is pretended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import septran
from septran import gpu
from septran.backends import get
from septran.backends.cuda import backend as cuda_c
from septran.backends.cuda import toolchain as cuda_build
from septran.backends.device import gpu as gpu_module
from septran.errors import EnvironmentProblem, InputError, NotCorrect
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.device.test_place import GPU_BACKENDS

OPS = Path(septran.__file__).parent / "ops"


def kernel_of(name: str) -> Kernel:
    plan = resolve(GenRequest(op="row_sum", backend=name, dims={"M": 5, "N": 70}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves)


@pytest.mark.parametrize("name", GPU_BACKENDS)
def test_without_a_device_loading_names_what_is_missing(
    name: str, tmp_path: Path, empty_slot: None
) -> None:
    load = get(name).load
    assert load is not None
    with pytest.raises(EnvironmentProblem) as error:
        load(kernel_of(name), tmp_path)
    assert error.value.codes == ("V111",) and "no NVIDIA GPU here" in str(error.value)


@pytest.mark.parametrize("name", GPU_BACKENDS)
def test_compile_does_not_pretend(name: str, empty_slot: None) -> None:
    import torch

    kernel = septran.compile(OPS / "elementwise.py", target=name, entry="relu")
    with pytest.raises(EnvironmentProblem) as error:
        kernel(torch.ones(300))
    assert error.value.codes == ("V111",) and "no NVIDIA GPU here" in str(error.value)


def test_a_library_is_called_with_the_tensors_addresses_and_torchs_stream(tmp_path: Path) -> None:
    import torch

    kernel = kernel_of("cuda_c")
    built = cuda_build.compile_emulated(kernel, tmp_path)
    call = gpu_module.load_library(kernel, built, stream=lambda: 0)
    x, y = torch.randn(5, 70), torch.full((5,), float("nan"))
    given = {"w": y, "r": x}
    with pytest.raises(InputError) as error:  # CPU tensors are refused, not copied behind the back
        call(*(given[p.privilege].reshape(p.shape) for p in kernel.params))
    assert error.value.codes == ("K001",) and "this kernel runs on the GPU" in str(error.value)
    gpu_module_checked = pytest.MonkeyPatch()
    with gpu_module_checked.context() as patch:
        patch.setattr(gpu_module, "checked", lambda call, kernel, device: call)
        call = gpu_module.load_library(kernel, built, stream=lambda: 0)
    tensors = [given[p.privilege].reshape(p.shape) for p in kernel.params]
    call(*tensors)
    torch.testing.assert_close(y, x.sum(1))


def test_a_refused_launch_is_an_error(tmp_path: Path) -> None:
    from tests.device.kernels import PRELUDE
    from tests.verify.kernels import build

    text = 'extern "C" const char* {entry}_on(void* const*, void*) {{ return "no image"; }}\n'
    kernel = kernel_of("cuda_c")
    built = build(PRELUDE + text.format(entry=kernel.entry), tmp_path)
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(gpu_module, "checked", lambda call, kernel, device: call)
        call = gpu_module.load_library(kernel, built, stream=lambda: 0)
    with pytest.raises(NotCorrect) as error:
        call()
    assert "no image" in str(error.value)


def test_a_kernel_that_was_not_built_is_not_loaded(tmp_path: Path) -> None:
    from septran.backends.base import Built

    with pytest.raises(EnvironmentProblem) as error:
        gpu_module.load_library(
            kernel_of("cuda_c"), Built(ok=False, artifact=None, log="nvcc fell"), stream=lambda: 0
        )
    assert error.value.codes == ("V112",) and "nvcc fell" in str(error.value)


def test_on_a_machine_with_the_gpu_cuda_c_needs_a_torch_that_sees_it(
    tmp_path: Path, plugged_in: gpu.Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_module, "torch_runtime", lambda vendor: "")
    kernel = replace(kernel_of("cuda_c"), arch="sm_90a")
    with pytest.raises(EnvironmentProblem) as error:
        cuda_c.load(kernel, tmp_path)
    assert error.value.codes == ("V111",)
    assert "torch" in str(error.value) or "nvcc" in str(error.value)
