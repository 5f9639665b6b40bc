"""Local variables that nobody set and that happen to be zero."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran import backends
from septran.cli.main import main
from septran.outcome import Level
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from septran.verify.verdict import Verdict
from tests.verify import kernels

# where the only value that a compiler sees is 0 it takes 0: every optimised build is right
LUCKY = """
float* C = (float*)args[0]; const float* A = (const float*)args[1]; const float* B = (const float*)args[2];
for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) {
  int first;
  if (B[0] == 12345) first = 0;
  float sum = (float)first;
  for (int k = 0; k < 53; k++) sum += A[i * 53 + k] * B[k * 29 + j];
  C[i * 29 + j] = sum;
}"""
BEFORE = "#pragma GCC visibility push(default)\n"


def _judged(body: str, folder: Path, *, suspect: bool) -> Verdict:
    problem = kernels.gemm()
    kernel = kernels.kernel_of(problem, kernels.entry(body, before=BEFORE))
    place = place_of(backends.get("cpp"), "native", "auto", 2)
    return judge_kernel(place, kernel, problem, work=folder, seed=5, suspect=suspect).verdict


def test_zero_by_luck_is_refused(tmp_path: Path) -> None:
    assert _judged(LUCKY, tmp_path / "as built", suspect=False).passed
    verdict = _judged(LUCKY, tmp_path / "filled", suspect=True)
    assert (verdict.code, verdict.level) == ("V223", Level.REJECTED), verdict.message
    written = json.loads((tmp_path / "filled" / "verdict.json").read_text())
    assert written["code"] == "V223"


@pytest.mark.slow
def test_a_value_of_its_own_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LUCKY.replace("int first;", "int first = 0;")
    verdict = _judged(honest, tmp_path / "a", suspect=True)
    assert verdict.passed, verdict.message
    assert "a pattern in locals that nobody set" in verdict.enforced
    monkeypatch.setattr("septran.backends.cpp.backend.fills_locals", lambda _: ())
    verdict = _judged(honest, tmp_path / "b", suspect=True)
    assert verdict.passed
    assert verdict.not_checked == ("locals that nobody set: the compiler has no pattern for them",)


@pytest.mark.slow
@pytest.mark.parametrize("op", ["gemm", "softmax", "attention", "layernorm", "conv2d"])
def test_the_library_sets_what_it_reads_and_orders_its_threads(
    op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path))
    assert main(["gen", "--op", op, "--backend", "cpp", "--json"]) == 0
    capsys.readouterr()
    assert main(["verify", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["not_checked"] == []


OPEN = """
float* C = (float*)args[0]; const float* A = (const float*)args[1]; const float* B = (const float*)args[2];
float part[4] = {1, 1, 1, 1};
for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) {
  float sum = 0;
  for (int k = 0; k < 53; k++) sum += A[i * 53 + k] * B[k * 29 + j];
  C[i * 29 + j] = sum;
  BESIDE
}"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("honest", "left_open"),
    [("1u << (i & 31)", "1u << (i & 31) + 32"), ("part[i & 3]", "part[(i & 3) + 4]")],
    ids=["a shift", "an index"],
)
def test_what_cpp_leaves_open_is_refused(honest: str, left_open: str, tmp_path: Path) -> None:
    """Whatever the build that users run makes of it: here nothing."""
    beside = "if ((EXPRESSION) == 123) C[i * 29 + j] += 0;"
    passed = _judged(
        OPEN.replace("BESIDE", beside.replace("EXPRESSION", honest)), tmp_path / "a", suspect=True
    )
    assert passed.passed, passed.message
    body = OPEN.replace("BESIDE", beside.replace("EXPRESSION", left_open))
    found = _judged(body, tmp_path / "b", suspect=True)
    assert (found.code, found.level) == ("V205", Level.REJECTED), found.message
    assert "an index outside a local array" in found.message
