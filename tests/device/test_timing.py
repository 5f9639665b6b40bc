"""Time on a device is the device's: copies are left out, work on other streams is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import gpu
from septran.verify import timing
from tests.device.kernels import RELU, built_of, sessions_of, source_of
from tests.device.test_checks import ASLEEP, LATER
from tests.verify.kernels import kernel_of, relu


def measured(body: str, folder: Path, found: gpu.Gpu) -> timing.Timing:
    source = source_of(body)
    built = built_of(source, folder / "build", Path(found.library))
    assert built.artifact is not None
    return timing.measure(
        kernel_of(relu(), source, backend="cuda_c"),
        built.artifact,
        relu(),
        run_dir=folder,
        settings=sessions_of(found),
        budget_s=0.2,
    )


@pytest.fixture(autouse=True)
def torch_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake GPU is none for torch: its side is timed on the CPU."""
    monkeypatch.setattr(
        timing,
        "_gpu_slot",
        lambda problem, inputs, found: timing._torch_slots(problem, [inputs], processor_time=False)[
            "fn"
        ],
    )


def test_the_kernels_own_time_is_the_figure(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    found = measured(ASLEEP.format(ms=2) + RELU, tmp_path, plugged_in)
    assert found.ok, found.why
    assert 0.002 <= found.kernel_s < 0.02


def test_work_on_a_stream_of_its_own_is_not_hidden(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    found = measured(LATER.format(work=ASLEEP.format(ms=4) + RELU), tmp_path, plugged_in)
    assert found.ok, found.why
    # launches of the check sleep side by side, so each has a part of the device's time; hidden, it would be torch's
    assert found.kernel_s > 8 * found.torch_s


def test_a_kernel_that_stops_working_when_it_is_timed(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    body = RELU + "static int n = 0; if (n++ > 3) for (int i = 0; i < 9; i++) y[i] += 1;"
    found = measured(body, tmp_path, plugged_in)
    assert not found.ok and "wrong after the timed calls" in found.why


def test_a_launch_that_fails_while_it_is_timed(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    found = measured(
        RELU + 'static int n = 0; if (n++ > 3) return "out of resources";', tmp_path, plugged_in
    )
    assert not found.ok and "out of resources" in found.why


def test_torch_that_does_not_see_the_gpu_gives_no_ratio(
    tmp_path: Path, plugged_in: gpu.Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.undo()
    monkeypatch.setattr(gpu, "find", lambda vendor: plugged_in)
    if torch.cuda.is_available():
        pytest.skip("this torch sees a GPU")
    found = measured(RELU, tmp_path, plugged_in)
    assert not found.ok and "does not see the GPU" in found.why
