"""Races in shared memory that no order of threads shows: told of leaves and files that somebody else wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.backends.cuda.toolchain import compile_emulated
from septran.cli.main import main
from septran.outcome import Level, Status
from septran.toolchain.built import Built
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from septran.verify import noted
from septran.verify.session import Transcript
from septran.verify.verdict import Verdict
from tests.attacks import families
from tests.attacks.corpus_cuda import TREE, row

FILE = """#include <cuda_runtime.h>
__global__ void twice(const float* x, float* y, int n) {
  volatile extern __shared__ float own[];
  const int i = blockIdx.x * 64 + threadIdx.x;
  own[PLACE] = i < n ? x[i] : 0.f;
  const float mine = own[PLACE];
  if (i < n) y[i] = mine * 2;
}
void scale(const float* x, float* y, int n) { twice<<<(n + 63) / 64, 64, 256>>>(x, y, n); }
""".replace("volatile extern __shared__ float own[];", "extern __shared__ volatile float own[];")
BACK = (
    "  volatile float* own = s;\n  own[0] = (float)t;\n  if (own[0] != (float)t) v = 0;\n  __syncthreads();\n"
    + TREE
)
FACT = "who stores and loads each byte of shared memory: 4 calls"


def judged(body: str, folder: Path, *, before: str = "", suspect: bool = True) -> Verdict:
    kernel, problem = families.emitted("cuda")
    text = row(body, before=before)
    files = tuple((n, text if n == kernel.main else t) for n, t in kernel.files)
    kernel = replace(kernel, files=files, leaves=())
    place = place_of(backends.get("cuda_c"), "sm_80", "emulated", 2)
    place = replace(place, build=compile_emulated)  # a text for the emulation alone
    return judge_kernel(place, kernel, problem, work=folder, seed=5, suspect=suspect).verdict


@pytest.mark.slow
@pytest.mark.parametrize(("place", "code"), [("0", 1), ("threadIdx.x", 0)])
def test_a_file_whose_threads_share_one_place(
    place: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, reference = tmp_path / "twice.cu", tmp_path / "twice.py"
    file.write_text(FILE.replace("PLACE", place))
    reference.write_text(families.DOUBLED)
    given = ["--reference", str(reference), "--number", "n=300", "--json"]
    assert main(["judge", str(file), *given]) == code
    found = json.loads(capsys.readouterr().out)
    if code:
        assert found["finding"] == "race"
        assert "of the block's dynamic shared memory, which thread 0 stores" in found["reason"]
    else:
        assert FACT in found["verdict"]["enforced"]


def test_a_leaf_that_reads_its_own_store_back(tmp_path: Path) -> None:
    assert judged(BACK, tmp_path / "a", suspect=False).passed
    verdict = judged(BACK, tmp_path / "b")
    assert (verdict.code, verdict.level) == ("V209", Level.REJECTED), verdict.message
    assert verdict.message.startswith("race: thread 1 changes byte ")
    assert "of the __shared__ array s, which thread 0 stores" in verdict.message
    written = json.loads((tmp_path / "b" / "verdict.json").read_text())
    assert written["code"] == "V209"


@pytest.mark.slow
def test_an_honest_leaf_passes(tmp_path: Path) -> None:
    verdict = judged(TREE, tmp_path)
    assert verdict.passed, verdict.message
    assert FACT in verdict.enforced


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "why"),
    [
        (
            "#define GLUED(a, b) a##b\n"
            'extern "C" __attribute__((weak, visibility("hidden"))) void GLUED(__ts, an_write4)(void*) {}',
            "functions in place of those that note",
        ),
        ("__attribute__((no_sanitize_thread)) static void unused_one() {}", "speaks of sanitizers"),
    ],
)
def test_a_kernel_that_would_not_be_noted_says_so(before: str, why: str, tmp_path: Path) -> None:
    found = judged(TREE, tmp_path, before=before)
    assert found.code == "V210" or any(why in line for line in found.not_checked), found


@pytest.mark.slow
def test_atomic_launches_are_left_out(tmp_path: Path) -> None:
    body = "  if (t == 99) atomicAdd(&Y[r], 0.f);\n"
    verdict = judged(body + TREE, tmp_path)
    assert verdict.passed, verdict.message
    left = "who stores and loads each byte of shared memory: launches with atomic operations"
    assert left in verdict.not_checked


@pytest.mark.parametrize(
    ("transcript", "why"),
    [
        (Transcript(failure="timeout", message="call"), "a call takes more than 15 s"),
        (Transcript(failure="crash", message="call"), "the noted build ended early"),
        (Transcript(), "the noted build ended early"),
    ],
)
def test_what_does_not_return_is_not_checked(
    transcript: Transcript, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, problem = families.emitted("cuda")
    kernel = replace(kernel, leaves=())
    passed = replace(
        Verdict.of(kernel, where="emulated", dims=problem.dims, seed=5),
        level=Level.ACCURATE,
        status=Status.PASSED,
    )
    monkeypatch.setattr(noted, "called", lambda *args, **more: transcript)
    sessions = place_of(backends.get("cuda_c"), "sm_80", "emulated", 2).sessions

    def built(kernel: object, folder: Path) -> Built:
        return Built(ok=True, artifact=folder / "kernel.so")

    found = noted.with_noted_accesses(passed, kernel, problem, built, tmp_path, sessions)
    assert found.level is Level.ACCURATE
    assert any(why in line for line in found.not_checked), found.not_checked
