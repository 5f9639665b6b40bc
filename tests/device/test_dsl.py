"""The device loaders of Triton and TileLang, on a torch whose "cuda" is the fake driver's memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import gpu
from septran.backends import get
from septran.backends.base import Availability
from septran.backends.device import gpu as gpu_module
from septran.backends.tilelang import toolchain as tilelang_build
from septran.backends.triton import toolchain as triton_toolchain
from septran.outcome import Level
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import place_of
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify

FAKE_TORCH = '''{# capabilities: device, announces #}
import torch


def _as_tensor(thing, device=None):
    """What torch does on a device: a tensor on the very memory that the interface names."""
    assert device == "cuda"
    about = thing.__cuda_array_interface__
    kind = np.dtype(about["typestr"])
    count = int(np.prod(about["shape"])) * kind.itemsize
    raw = (ctypes.c_uint8 * count).from_address(about["data"][0])
    return torch.from_numpy(np.frombuffer(raw, kind).reshape(about["shape"]))


torch.as_tensor = _as_tensor
torch.cuda.is_available = lambda: True
torch.cuda.init = lambda: None
'''
TRITON = (
    FAKE_TORCH
    + """os.environ["TRITON_INTERPRET"] = "1"
{% include "loaders/triton_device.py.j2" %}
"""
)
TILELANG = (
    FAKE_TORCH
    + """import types

_fake = types.ModuleType("tilelang")
_fake.compile = lambda function, target: lambda *tensors: function(*[t.numpy() for t in tensors])
sys.modules["tilelang"] = _fake
{% include "loaders/tilelang_device.py.j2" %}


def module_of(artifact):
    import pathlib
    from septran.backends import tilesim

    return tilesim.load_file(pathlib.Path(artifact), tilesim.dialect(PLAN["meta"]["arch"]))[0]
"""
)


@pytest.fixture
def loaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose loaders are the real ones behind the fake torch."""
    project = tmp_path / "project"
    folder = project / "verify_templates" / "loaders"
    folder.mkdir(parents=True)
    (project / "septran.toml").write_text("")
    (folder / "fake_triton.py.j2").write_text(TRITON)
    (folder / "fake_tilelang.py.j2").write_text(TILELANG)
    monkeypatch.setenv("SEPTRAN_PROJECT", str(project))
    return project


def on_device(name: str, loader: str, folder: Path, change: tuple[str, str] | None) -> Verdict:
    plan = resolve(GenRequest(op="row_sum", backend=name, dims={"M": 5, "N": 70}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    if change is not None:
        assert change[0] in kernel.source, kernel.source
        kernel = kernel.with_files(
            {
                name: text.replace(*change) if name == kernel.main else text
                for name, text in kernel.files
            }
        )
    place = place_of(plan.backend, plan.arch, "device", 2)
    assert place.where == "device"
    (folder / "build").mkdir()
    return verify(
        kernel,
        place.build(kernel, folder / "build"),
        problem_of(plan, lowered.program, plan.dims),
        run_dir=folder / "run",
        request=Request(
            where="device",
            language="python",
            sessions=replace(place.sessions, loader=loader, budget_s=10.0),
        ),
    )


@pytest.fixture
def torch_with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed torch says it was built for CUDA."""
    monkeypatch.setattr(gpu_module, "torch_runtime", lambda vendor: "13.0")


@pytest.mark.few(1)
@pytest.mark.skipif(not triton_toolchain.found(), reason="needs triton")
@pytest.mark.parametrize(("change", "code"), [(None, ""), (("tl.store(", "tl.store(100 + "), "V2")])
def test_triton_on_the_device(
    tmp_path: Path,
    plugged_in: gpu.Gpu,
    torch_with_cuda: None,
    loaders: Path,
    change: tuple[str, str] | None,
    code: str,
) -> None:
    verdict = on_device("triton_cuda", "fake_triton.py.j2", tmp_path, change)
    assert verdict.where == "device"
    assert verdict.passed == (change is None), (verdict.message, verdict.log)
    assert verdict.code.startswith(code)


@pytest.mark.wider
def test_tilelang_on_the_device(
    tmp_path: Path,
    plugged_in: gpu.Gpu,
    torch_with_cuda: None,
    loaders: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = Availability(ok=True, detail="")
    monkeypatch.setattr(tilelang_build, "_compiler", lambda device: ready)
    verdict = on_device("tilelang_cuda", "fake_tilelang.py.j2", tmp_path, None)
    assert verdict.level is Level.ACCURATE, (verdict.message, verdict.log)
    assert verdict.where == "device"


def test_a_real_loader_says_that_torch_sees_no_gpu(
    tmp_path: Path, plugged_in: gpu.Gpu, torch_with_cuda: None
) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this torch sees a GPU")
    verdict = on_device("triton_cuda", get("triton_cuda").device.loader, tmp_path, None)  # type: ignore[union-attr]
    assert verdict.level is Level.UNAVAILABLE and "does not see the GPU" in verdict.message
