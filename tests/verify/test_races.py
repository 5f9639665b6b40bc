"""Threads that touch the same memory without an order are seen, even when every result was right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import settings
from septran.backends.cpp import foreign
from septran.outcome import Level, Status
from septran.run.judge import judge
from septran.run.judgement import JudgeRequest
from septran.toolchain.built import Built
from septran.verify import races
from septran.verify.verdict import CaseResult, Verdict
from tests.verify import kernels

LOOP = (
    "float* Y = (float*)args[0]; const float* X = (const float*)args[1]; const int n = 19 * 67;\n"
)
HONEST = f"""{LOOP} float sum = 0; int met = 0, last = 0;
#pragma omp parallel
{{
  #pragma omp for schedule(dynamic, 8)
  for (int i = 0; i < n; i++) Y[i] = -X[i];
  #pragma omp for schedule(static)
  for (int i = 0; i < n; i++) if (Y[i] < 0) Y[i] = X[i];
  #pragma omp single
  last = n;
  #pragma omp critical
  met += last;
  #pragma omp sections
  {{
    #pragma omp section
    Y[1] = X[1];
    #pragma omp section
    Y[2] = X[2];
  }}
}}
#pragma omp parallel for reduction(+ : sum) num_threads(3)
for (int i = 0; i < n; i++) sum += Y[i];
#pragma omp parallel for schedule(guided)
for (int i = 0; i < n; i++) Y[i] = X[i] > 0 || X[i] != X[i] ? X[i] : 0 * sum * met;"""
RACES = {
    # the value is put back at once: wrong once in a million calls
    "neighbour": f"""{LOOP}
#pragma omp parallel for schedule(static)
for (int i = 0; i < n; i++) {{
  if (i) {{ volatile float* p = Y + i - 1; float kept = *p; *p = kept; }}
  Y[i] = X[i];
}}""",
    "no barrier": f"""{LOOP}
#pragma omp parallel
{{
  #pragma omp for schedule(static) nowait
  for (int i = 0; i < n; i++) Y[i] = X[i];
  #pragma omp for schedule(static)
  for (int i = 0; i < n; i++) if (Y[n - 1 - i] != X[n - 1 - i]) Y[i] = X[i];
}}""",
    "for some values only": f"""{LOOP} int seen = 0;
#pragma omp parallel for schedule(dynamic)
for (int i = 0; i < n; i++) {{ if (X[i] > 1) seen = i; Y[i] = X[i] + (float)(seen < 0); }}""",
}


ACCURATE = Verdict(
    level=Level.ACCURATE, status=Status.PASSED, where="native", kernel="relu",
    kernel_sha="", backend="cpp", arch="", seed=7,
)  # fmt: skip
CASES = tuple(
    CaseResult(
        case=f"sorted{n}", family="sorted", seed=n, placement="end", max_error=0.01 * n, ratio=float(n),
        wrong=n, elements=99, seconds=0.0, exact=False,
    )
    for n in (1, 0, 0)
)  # fmt: skip
ROUNDED = ACCURATE.rejected(
    "V202", "Y[3] is 1, expected 2", "right on small integers: rounding", cases=CASES
)


def _watched(body: str, folder: Path, verdict: Verdict = ACCURATE, **options: int) -> Verdict:
    problem = kernels.relu()
    kernel = kernels.kernel_of(problem, kernels.entry(body))
    kernel = replace(kernel, options=tuple(options.items()))
    built = kernels.build(kernel.source, folder / "build", flags=("-O1", "-fopenmp"))
    return races.watch(verdict, kernel, built, problem, foreign.watched, folder / "watched")


@pytest.mark.parametrize(
    "name", [n if n == "neighbour" else pytest.param(n, marks=pytest.mark.slow) for n in RACES]
)
def test_a_race_is_refused(name: str, tmp_path: Path) -> None:
    verdict = _watched(RACES[name], tmp_path)
    assert verdict.code == "V219", (verdict.not_checked, verdict.enforced)
    assert "kernel.cpp:" in verdict.message


def test_honest_threads_pass(tmp_path: Path) -> None:
    verdict = _watched(HONEST, tmp_path)
    assert verdict.passed, verdict.message
    assert not verdict.not_checked
    assert "under ThreadSanitizer" in verdict.enforced[-1]


def test_a_race_that_looks_like_rounding_is_told(tmp_path: Path) -> None:
    verdict = _watched(RACES["neighbour"], tmp_path / "race", ROUNDED)
    assert verdict.code == "V219"
    assert verdict.message.endswith("; Y[3] is 1, expected 2")


def test_rounding_of_honest_threads_stays_rounding(tmp_path: Path) -> None:
    assert _watched(HONEST, tmp_path, ROUNDED) == ROUNDED


def test_what_is_wrong_for_another_reason_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "watched", None)
    wrong = ACCURATE.rejected("V205", "it ended", "by a signal")
    assert _watched(RACES["neighbour"], tmp_path, wrong) == wrong


@pytest.mark.slow
def test_what_is_not_watched_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = f"{LOOP}\n#pragma omp parallel\n{{\n#pragma omp task\nY[0] = X[0];\n}}"
    verdict = _watched(tasks, tmp_path / "tasks")
    assert verdict.passed
    assert verdict.not_checked == ("races of threads: GOMP_task is not watched",)
    early = _watched(HONEST.replace("last = n;", "__builtin_trap();"), tmp_path / "early")
    assert "the watched program ended early" in early.not_checked[0]
    alone = f"{LOOP} for (int i = 0; i < n; i++) Y[i] = X[i];"

    def never(*_: object) -> Built:
        raise AssertionError("a kernel without threads is not built again")

    monkeypatch.setattr(foreign, "watched", never)
    assert _watched(alone, tmp_path / "alone").not_checked == ()
    assert _watched(RACES["neighbour"], tmp_path / "one", threads=1).passed


@pytest.mark.wider
def test_a_judged_file_that_races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = RACES["neighbour"].replace(LOOP, "")
    Path("racing.cpp").write_text(f"void twice(const float* X, float* Y, int n) {{{body}}}")
    Path("wanted.py").write_text(
        "import torch\ndef reference(x): return x * 1\ndef get_inputs(): return [torch.randn(999)]\n"
    )
    request = JudgeRequest(
        file=Path("racing.cpp"), reference=Path("wanted.py"), numbers={"n": 999}, seed=3
    )
    found = judge(request, settings=settings.load(), work=Path("evidence"))
    assert (found.verdict.code, found.finding) == ("V219", "race"), found.verdict.message
    assert Path("evidence/verdict.json").read_text().count("V219") == 1
