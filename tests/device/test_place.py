"""A GPU that fits is used without being asked for; without one the missing piece is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends, gpu
from septran.backends import get
from septran.backends.base import Backend
from septran.errors import EnvironmentProblem
from septran.plan.resolve import GenRequest
from septran.run import gen as gen_module
from septran.run.result import Result
from septran.run.stored import verify_again
from septran.sandbox_launcher import LOCAL_SOCKETS
from septran.settings import load
from septran.trial.place import place_of

GPU_BACKENDS = ("cuda_c", "tilelang_cuda", "tilelang_hip", "triton_cuda", "triton_hip")


def run(request: GenRequest, folder: Path) -> Result:
    return gen_module.gen(request, settings=load(), progress=lambda text: None, into=folder)


def test_gen_takes_the_gpu_by_itself(tmp_path: Path, device_cuda_c: Backend) -> None:
    request = GenRequest(op="row_sum", backend="cuda_c", dims={"M": 5, "N": 130})
    result = run(replace(request, require=("device",)), tmp_path)
    data = result.to_json()
    assert (data["level"], data["where"], result.exit_code) == ("accurate", "device", 0), data
    assert data["arch"] == "sm_90a"  # what the GPU runs, not the first in the list
    assert not any("emulated" in text for text in data["not_checked"])


def test_emulated_on_request_though_there_is_a_gpu(tmp_path: Path, device_cuda_c: Backend) -> None:
    request = GenRequest(op="relu", backend="cuda_c", dims={"N": 300}, where="emulated")
    result = run(replace(request, require=("device",)), tmp_path)
    data = result.to_json()
    assert (data["where"], result.exit_code) == ("emulated", 3)
    assert "was not used" in data["reason"]


def test_verify_again_on_the_device(tmp_path: Path, device_cuda_c: Backend) -> None:
    from septran.run import store

    request = GenRequest(op="relu", backend="cuda_c", dims={"N": 300}, where="emulated")
    found = run(request, tmp_path).to_json()
    again = verify_again(
        store.find(found["run"], store.root(load())),
        settings=load(),
        require=("device",),
        progress=lambda text: None,
    )
    assert again.exit_code == 0 and again.to_json()["where"] == "device"


@pytest.mark.parametrize("name", GPU_BACKENDS)
def test_no_gpu_is_said_by_every_backend(name: str, empty_slot: None) -> None:
    with pytest.raises(EnvironmentProblem) as error:
        place_of(get(name), get(name).arches[0], "device", 1).require()
    assert error.value.codes == ("V113",) and error.value.exit_code == 3
    assert "no NVIDIA GPU here" in str(error.value) and "plug one in" in str(error.value)
    assert place_of(get(name), get(name).arches[0], "auto", 1).where == "emulated"


def test_require_device_names_the_missing_piece(tmp_path: Path, empty_slot: None) -> None:
    request = GenRequest(op="relu", backend="cuda_c", dims={"N": 300}, require=("device",))
    result = run(request, tmp_path)
    assert result.exit_code == 3
    assert result.data["level"] == "accurate" and result.data["where"] == "emulated"
    assert "no NVIDIA GPU here" in result.data["reason"] and result.data["hint"] == "plug one in"


def test_another_architecture_is_not_run(plugged_in: gpu.Gpu) -> None:
    with pytest.raises(EnvironmentProblem) as error:
        place_of(get("cuda_c"), "sm_80", "device", 1).require()
    assert "does not run sm_80" in str(error.value) and "--arch sm_90a" in str(error.value)
    assert place_of(get("cuda_c"), "sm_80", "auto", 1).where == "emulated"
    assert backends.resolve_arch(get("cuda_c"), None) == "sm_90a"
    assert backends.resolve_arch(get("cuda_c"), "sm_80") == "sm_80"


def test_torch_without_a_gpu_runtime_is_named(plugged_in: gpu.Gpu) -> None:
    from septran.backends.device import gpu as gpu_module

    if gpu_module.torch_runtime("nvidia"):
        pytest.skip("this torch has CUDA")
    for name in ("triton_cuda", "tilelang_cuda"):
        with pytest.raises(EnvironmentProblem) as error:
            place_of(get(name), get(name).arches[0], "device", 1).require()
        assert "has no GPU runtime" in str(error.value) and "pytorch.org" in str(error.value)


def test_a_device_child_gets_the_devices_files_and_nothing_else_does(plugged_in: gpu.Gpu) -> None:
    device = place_of(get("cuda_c"), "sm_90a", "auto", 1).sessions
    emulated = place_of(get("cuda_c"), "sm_90a", "emulated", 1).sessions
    assert device.rw_paths == gpu.nodes("nvidia") and device.gpu is plugged_in
    assert Path("/proc/self/task") in device.rw_paths  # the driver names its threads
    assert device.calls == (LOCAL_SOCKETS,) and emulated.calls == ()
    assert Path(plugged_in.library).parent in device.ro_paths
    assert not device.address_space and device.guard > 0
    assert emulated.rw_paths == () and emulated.gpu is None and emulated.guard == 0


def test_doctor_says_what_runs_and_names_what_is_missing(
    device_cuda_c: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    from click.testing import CliRunner

    from septran.backends.device import gpu as gpu_module
    from septran.cli.main import cli

    monkeypatch.setattr(gpu_module, "torch_runtime", lambda vendor: "")
    names = ["cuda_c", "triton_cuda", "triton_hip"]
    done = CliRunner().invoke(cli, ["doctor", "--json", *names])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["machine"]["gpu"] == "Fake GPU (sm_90), driver 0"
    device = {entry["name"]: entry["capabilities"]["device"] for entry in data["backends"]}
    if device["cuda_c"]["ok"]:
        assert device["cuda_c"]["detail"].endswith("driver 0: sm_90a")
    else:
        assert "septran[cuda]" in device["cuda_c"]["install"]  # no nvcc on the test machine
    assert not device["triton_cuda"]["ok"]
    assert "torch" in device["triton_cuda"]["detail"] and device["triton_cuda"]["install"]
    assert device["triton_hip"]["detail"] == "no AMD GPU here"


def test_the_evidence_names_the_gpu(tmp_path: Path, device_cuda_c: Backend) -> None:
    import json

    request = GenRequest(op="relu", backend="cuda_c", dims={"N": 300})
    data = run(request, tmp_path).to_json()
    verdict = json.loads((Path(data["run"]) / "verify" / "verdict.json").read_text())
    assert verdict["environment"]["gpu"] == "Fake GPU (sm_90), driver 0"
    assert verdict["where"] == "device"
