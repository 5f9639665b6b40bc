"""On a device (a fake one here) the verifier's checks hold: planted bugs are rejected, honest work is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import gpu
from septran.outcome import Level
from tests.device.kernels import RELU, built_of, check, sessions_of, source_of
from tests.verify.kernels import kernel_of, relu

LATER = "fake_begin(); std::thread([=] {{ {work} fake_end(); }}).detach();"
ASLEEP = "std::this_thread::sleep_for(std::chrono::milliseconds({ms}));"


def test_an_honest_kernel_is_accurate_on_the_device(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    verdict = check(RELU, relu(), tmp_path, plugged_in)
    assert verdict.level is Level.ACCURATE, (verdict.message, verdict.log)
    assert verdict.where == "device"
    assert "guard regions on the device" in verdict.enforced
    assert any("guard pages" in text for text in verdict.not_checked)


def test_work_on_another_stream_is_waited_for(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    body = LATER.format(work=ASLEEP.format(ms=5) + RELU)
    assert check(body, relu(), tmp_path, plugged_in).level is Level.ACCURATE


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("bug", "code"),
    [
        ("y[19 * 67] = 1;", "V207"),
        ("y[-1] = 1;", "V207"),
        ("y[19 * 67 + 60000] = 1;", "V207"),
        ("x[19 * 67 + 3] = 0;", "V207"),
        ("x[5] = 0;", "V215"),
        ("{ float t = x[7]; x[7] = t + 1; static int n = 0; if (n++ % 2) x[7] = t; }", "V215"),
        ("y[3] = y[3] + 0 * x[19 * 67];", "V202"),  # a read beside the tensor is NaN
        ("static float kept = x[0]; y[0] = kept > 0 ? kept : 0;", "V202"),
        ("static int n = 0; if (n++ == 2) for (int i = 0; i < 99; i++) y[i] += y[i] > 1;", "V202"),
        ("return \"invalid configuration\";", "V205"),
        ("*(volatile int*)16 = 1;", "V205"),
        ("for (volatile int i = 1; i;) {}", "V206"),
    ],
)  # fmt: skip
def test_planted_bugs_are_rejected(
    tmp_path: Path, plugged_in: gpu.Gpu, bug: str, code: str
) -> None:
    verdict = check(RELU + bug, relu(), tmp_path, plugged_in)
    assert not verdict.passed
    assert verdict.code.startswith(code), (verdict.code, verdict.message)


def test_a_write_after_the_return_is_late(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    # nobody announced it to the device, so waiting for the device does not wait for it
    body = RELU + "std::thread([=] { " + ASLEEP.format(ms=8) + " y[11] = 7; }).detach();"
    verdict = check(body, relu(), tmp_path, plugged_in)
    assert verdict.code in ("V213", "V202"), verdict.message
    assert not verdict.passed


def test_a_late_write_of_an_input_is_late(tmp_path: Path, plugged_in: gpu.Gpu) -> None:
    body = RELU + (
        "static int n = 0; if (n++ == 5) std::thread([=] { "
        + ASLEEP.format(ms=8)
        + " x[11] = 7; }).detach();"
    )
    verdict = check(body, relu(), tmp_path, plugged_in)
    assert verdict.code == "V213", (verdict.code, verdict.message)


def test_a_driver_that_is_gone_says_nothing_about_the_kernel(
    tmp_path: Path, plugged_in: gpu.Gpu
) -> None:
    from dataclasses import replace

    from septran.verify.verify import Request, verify

    source = source_of(RELU)
    built = built_of(source, tmp_path / "build", Path(plugged_in.library))
    gone = replace(plugged_in, library=str(tmp_path / "libgone.so.1"))
    sessions = replace(sessions_of(plugged_in), gpu=gone)
    verdict = verify(
        kernel_of(relu(), source, backend="cuda_c"),
        built,
        relu(),
        run_dir=tmp_path / "run",
        request=Request(where="device", gate=False, sessions=sessions),
    )
    assert verdict.level is Level.UNAVAILABLE and verdict.code == "V214", verdict.message


def test_nvccs_own_library_is_loaded_and_its_refusal_is_told(
    tmp_path: Path, plugged_in: gpu.Gpu
) -> None:
    """The real build for the device, up to the launch, which needs a device."""
    from septran.backends import get
    from septran.backends.cuda import toolchain as cuda_build
    from septran.plan.floor import library_leaves
    from septran.plan.problem import problem_of
    from septran.plan.resolve import GenRequest, lower_plan, resolve
    from septran.verify.verify import Request, verify

    if cuda_build.nvcc() is None or gpu.nodes("nvidia"):
        pytest.skip("needs nvcc, and no GPU")
    plan = resolve(GenRequest(op="relu", backend="cuda_c", arch="sm_90a", dims={"N": 300}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    device = get("cuda_c").device
    assert device is not None
    built = device.build(kernel, tmp_path / "build")
    assert built.ok, built.log
    verdict = verify(
        kernel,
        built,
        problem_of(plan, lowered.program, plan.dims),
        run_dir=tmp_path / "run",
        request=Request(where="device", language="cuda", sessions=sessions_of(plugged_in)),
    )
    assert verdict.code == "V205" and "CUDA driver version is insufficient" in verdict.message
    assert any("compiled symbols" in text for text in verdict.not_checked)


def test_a_leafs_source_is_gated_on_the_device_too(tmp_path: Path) -> None:
    from dataclasses import replace

    from septran.kernel import Leaf, LeafSpec
    from septran.verify.gate import gate

    spec = LeafSpec(
        task="t", backend="cuda_c", arch="", proc="BLOCK", params=(), scalars=(), prims=()
    )
    leaf = Leaf(spec=spec, writer="llm", name="t", source='void t() { asm("nop"); }')
    kernel = replace(kernel_of(relu(), "", backend="cuda_c"), leaves=(leaf,))
    report = gate(kernel, tmp_path / "device.so", language="cuda", device=True)
    assert report.findings and report.not_checked
