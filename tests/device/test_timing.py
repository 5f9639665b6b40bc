"""Time on a device is the device's: copies are left out, work on other streams is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import gpu
from septran.reference import Reference
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
        "gpu_slot_of",
        lambda problem, inputs, found: timing.torch_slots(problem, [inputs], processor_time=False)[
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
    assert not found.ok and "wrong in a timed call" in found.why


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


REMEMBERS = """
static float seen[19 * 67], kept[19 * 67];
if (!std::memcmp(seen, x, sizeof seen)) { std::memcpy(y, kept, sizeof kept); return nullptr; }
std::memcpy(seen, x, sizeof seen);
"""


def test_no_launch_is_on_inputs_that_were_seen_before(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    body = REMEMBERS + ASLEEP.format(ms=2) + RELU + "std::memcpy(kept, y, sizeof kept);"
    found = measured(body, tmp_path, plugged_in)
    assert found.ok, found.why
    assert found.kernel_s >= 0.002


@pytest.mark.few(1)
@pytest.mark.parametrize(("body", "ok"), [("y[i] += x[i];", True), ("if (i) y[i] += x[i];", False)])
def test_what_is_read_and_written_is_filled_before_each_launch(
    body: str, ok: bool, tmp_path: Path, plugged_in: gpu.Gpu
) -> None:
    problem = relu()
    params = (replace(problem.params[0], privilege="rw"), problem.params[1])
    reference = Reference(fn=lambda X, Y: Y + X, kind="elementwise")
    problem = replace(problem, params=params, reference=reference)
    source = source_of(f"for (long i = 0; i < 19 * 67; i++) {{ {body} }}")
    found = timing.measure(
        kernel_of(problem, source, backend="cuda_c"),
        built_of(source, tmp_path / "build", Path(plugged_in.library)),
        problem,
        run_dir=tmp_path,
        settings=sessions_of(plugged_in),
        budget_s=0.2,
    )
    assert found.ok == ok, found.why
