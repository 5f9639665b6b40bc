"""Timing runs the kernel in its child, pairs it with torch, and checks what it timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.verify import timing
from septran.verify.timing import measure
from tests.verify import kernels
from tests.verify.test_slots import OPEN, in_out


def _measure(body: str, folder: Path, before: str = ""):
    problem = kernels.gemm()
    source = kernels.entry(body, before=before)
    built = kernels.build(source, folder)
    kernel = kernels.kernel_of(problem, source)
    return measure(kernel, built.artifact, problem, run_dir=folder, budget_s=0.1, slot_s=0.002)


def test_a_pair_of_medians(tmp_path: Path) -> None:
    timing = _measure(kernels.GEMM, tmp_path)
    assert timing.ok, timing.why
    assert timing.low <= timing.high
    assert timing.kernel_s > 0 and timing.torch_s > 0 and timing.pairs >= 3


def test_honest_only_for_the_first_calls(tmp_path: Path) -> None:
    body = f"static int n; if (n++ > 3) {{ ((float*)args[0])[3] = 1e9f; return; }} {kernels.GEMM}"
    timing = _measure(body, tmp_path)
    assert not timing.ok
    assert "wrong in a timed call" in timing.why


HASH = """
const unsigned* a = (const unsigned*)args[1]; const unsigned* b = (const unsigned*)args[2]; unsigned h = 1;
for (int i = 0; i < 37*53; i++) h = h * 31 + a[i]; for (int i = 0; i < 53*29; i++) h = h * 31 + b[i];
if (h == last) { std::memcpy(args[0], kept, sizeof kept); return; } last = h;
"""


def test_an_answer_that_is_remembered_has_no_speed(tmp_path: Path) -> None:
    """Right on every input, so it verifies; but no timed call is on inputs that were seen before."""
    slow = f'for (int r = 0; r < 100; r++) {{ {kernels.GEMM} asm volatile("" ::: "memory"); }}'
    body = f"{HASH} {slow} std::memcpy(kept, args[0], sizeof kept);"
    timing = _measure(body, tmp_path, before="static float kept[37*29]; static unsigned last;")
    honest = _measure(slow, tmp_path / "honest")
    assert timing.ok and honest.ok
    assert timing.kernel_s > 0.5 * honest.kernel_s


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for (int i = 0; i < 4096; i++) y[i] += x[i];", ""),
        ("", "wrong in a timed call"),
        (
            "static int n; if (n++ % 9 == 0) for (int i = 0; i < 4096; i++) y[i] += x[i];",
            "wrong in",
        ),
    ],
)
def test_in_out_tensors_are_judged_in_a_python_child(body: str, why: str, tmp_path: Path) -> None:
    problem = in_out()
    source = kernels.entry(f"{OPEN} {body}")
    kernel, built = kernels.kernel_of(problem, source), kernels.build(source, tmp_path)
    timing = measure(kernel, built.artifact, problem, run_dir=tmp_path, budget_s=0.1, slot_s=0.002)
    assert timing.ok == (not why), timing.why
    assert why in timing.why


def test_an_output_that_is_kept_while_timed(tmp_path: Path) -> None:
    body = f"static int n; if (n++ > 3) return; {kernels.GEMM}"
    timing = _measure(body, tmp_path)
    assert not timing.ok
    assert "wrong in a timed call" in timing.why


def test_a_kernel_that_dies_while_timed(tmp_path: Path) -> None:
    body = f"static int n; if (n++ > 3) *(volatile int*)0 = 1; {kernels.GEMM}"
    timing = _measure(body, tmp_path)
    assert not timing.ok


def test_two_kernels_are_compared_in_alternating_slots(tmp_path: Path) -> None:
    from septran.verify.timing import compare_kernels, time_kernel

    problem = kernels.gemm()
    slow = f'for (int r = 0; r < 20; r++) {{ {kernels.GEMM} asm volatile("" ::: "memory"); }}'
    pairs = []
    for name, body in (("slow", slow), ("fast", kernels.GEMM)):
        source = kernels.entry(body)
        pairs.append((kernels.kernel_of(problem, source), kernels.build(source, tmp_path / name)))
    found = compare_kernels(pairs[0], pairs[1], problem, budget_s=0.2)
    assert found is not None
    assert found[0] > 3 * found[1]
    found_alone = time_kernel(*pairs[1], problem, threads=1, budget_s=0.05, slot_s=0.002)
    assert found_alone is not None
    assert found_alone.ratio == found_alone.to_json()["speedup"]


@pytest.mark.parametrize(
    ("runs", "wanted"),
    [
        # (seconds of the first argument, of the second) as measured; the second run exchanges them
        ([(1.0, 1.3), (1.0, 1.02)], (1.3, 1.3)),
        ([(1.0, 1.3), (1.2, 1.0)], (1.0, 1.2)),
        ([(1.0, 1.1), (2.0, 1.0)], (1.0, 1.1)),
        ([(1.3, 1.0), (1.0, 1.1)], (1.1, 1.0)),
        ([(1.3, 1.0), (1.0, 1.0)], (1.0, 1.0)),
        ([(1.3, 1.0), (1.02, 1.0)], (1.0, 1.0)),
        ([(1.0, 1.0)], (1.0, 1.0)),
        ([(1.0, 1.3), None], None),
    ],
)
def test_a_difference_must_be_seen_twice(runs, wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    left = list(runs)
    asked = []

    def measured(one, two, *_):
        asked.append((one, two))
        return left.pop(0)

    monkeypatch.setattr(timing, "_compare", measured)
    assert timing.compare_kernels("mine", "other", kernels.gemm()) == wanted  # type: ignore[arg-type]
    assert not left
    assert asked == [("mine", "other"), ("other", "mine")][: len(runs)]
