"""Each check of the verifier catches the mistake it exists for, and honest kernels pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.outcome import Level, Status
from septran.run.finding import finding_of
from septran.sandbox import patience
from septran.verify import session
from septran.verify.verdict import Verdict
from tests.verify import kernels
from tests.verify.kernels import check, entry

LOOP = "for (int i = 0; i < 37*29; i++)"


@pytest.mark.parametrize("name", kernels.HONEST)
def test_honest_kernels_pass_with_every_check_in_force(name: str, tmp_path: Path) -> None:
    body, problem = kernels.HONEST[name]
    verdict = check(entry(body), problem(), tmp_path, gate=True)
    assert verdict.level is Level.ACCURATE, verdict.message
    assert verdict.not_checked == ()
    assert 0 <= verdict.budget_ratio <= 1
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.parametrize(
    ("stored", "finding"),
    [
        ("i == 30 && j == 7 && s != (int)s ? 3 * s : s", "wrong"),
        ("(float)(_Float16)s", "precision"),
    ],
)
def test_one_wrong_element_is_no_matter_of_precision(
    stored: str, finding: str, tmp_path: Path
) -> None:
    text = kernels.GEMM.replace("C[i*29+j] = s", f"C[i*29+j] = {stored}")
    verdict = check(entry(text), kernels.gemm(), tmp_path)
    assert verdict.code == "V202"
    assert finding_of(verdict) == finding, verdict.hint


WRONG = {
    "zeros": ("", f"{LOOP} ((float*)args[0])[i] = 0;", "V202"),
    "nothing": ("", "", "V202"),
    "skipped_tail": ("", kernels.GEMM.replace("i < 37", "i < 36"), "V202"),
    "off_by_one_k": ("", kernels.GEMM.replace("k < 53", "k < 52"), "V202"),
    "swapped_operands": ("", kernels.GEMM.replace("A[i*53+k]", "A[k*37%53*37/53+i]"), "V202"),
    "half_precision": (
        "",
        kernels.GEMM.replace(
            "s += A[i*53+k] * B[k*29+j]", "s += (float)(_Float16)A[i*53+k] * B[k*29+j]"
        ),
        "V202",
    ),
    "nan_swallowed": (
        "",
        kernels.GEMM.replace("C[i*29+j] = s", "C[i*29+j] = s != s ? 0 : s"),
        "V202",
    ),
    "accumulates_into_output": ("", kernels.GEMM.replace("= s;", "+= s;"), "V202"),
    "remembers_by_pointer": (
        "static float kept[37*29]; static const void* seen;",
        f"if (seen == args[1]) {{ std::memcpy(args[0], kept, sizeof kept); return; }} {kernels.GEMM}"
        " seen = args[1]; std::memcpy(kept, args[0], sizeof kept);",
        "V202",
    ),
    "remembers_by_fingerprint": (
        "static float kept[37*29]; static float print[3];",
        "const float* a = (const float*)args[1]; const float* b = (const float*)args[2];"
        "if (print[0] == a[0] && print[1] == b[0] && print[2] == a[37*53-1] && a[0] != 0) {"
        f"std::memcpy(args[0], kept, sizeof kept); return; }} {kernels.GEMM}"
        " print[0] = A[0]; print[1] = B[0]; print[2] = A[37*53-1]; std::memcpy(kept, args[0], sizeof kept);",
        "V202",
    ),
    "writes_input": ("", f"{kernels.GEMM} ((float*)args[1])[5] = 0;", "V205"),
    "writes_past_end": ("", f"{kernels.GEMM} C[37*29] = 0;", "V205"),
    "writes_before_start": ("", f"{kernels.GEMM} C[-1] = 0;", None),
    "reads_past_end": ("", f"{kernels.GEMM} volatile float x = A[37*53]; (void)x;", "V205"),
    "reads_before_start": ("", f"{kernels.GEMM} volatile float x = B[-1]; (void)x;", "V205"),
    "never_returns": ("", "for (volatile int i = 0;; i = i + 1);", "V206"),
    "exits_zero": ("#include <unistd.h>", "_exit(0);", "V205"),
    "aborts": ("#include <cstdlib>", "abort();", "V205"),
    "rounding_mode": ("#include <cfenv>", f"{kernels.GEMM} fesetround(FE_UPWARD);", "V212"),
    "flush_to_zero": (
        "#include <xmmintrin.h>",
        f"{kernels.GEMM} _mm_setcsr(_mm_getcsr() | 0x8040);",
        "V212",
    ),
    "threads_left": (
        "#include <thread>\n#include <chrono>",
        f"{kernels.GEMM} std::thread([] {{ std::this_thread::sleep_for(std::chrono::seconds(9)); }}).detach();",
        "V212",
    ),
    "leaks": (
        "#include <cstdlib>\nvoid* volatile kept;",
        f"{kernels.GEMM} kept = malloc(1 << 20); memset(kept, 1, 1 << 20);",
        "V212",
    ),
}


@pytest.mark.few(11)
@pytest.mark.parametrize("name", WRONG)
def test_planted_bug_is_caught_without_the_static_gate(name: str, tmp_path: Path) -> None:
    before, body, code = WRONG[name]
    verdict = check(entry(body, before=before), kernels.gemm(), tmp_path)
    assert not verdict.passed, f"{name} was accepted"
    assert verdict.code, verdict
    assert code is None or verdict.code == code, verdict.message
    assert verdict.level is not Level.ACCURATE
    assert verdict.message


def test_late_write_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # right whenever a call returns; once, the output is spoiled afterwards
    monkeypatch.setattr(session, "patience", lambda: 20.0)  # other tests may keep the machine busy
    before = "#include <thread>\n#include <unistd.h>\n"
    body = (
        f"{kernels.GEMM} static int calls; if (++calls == 6)"
        " std::thread([C] { usleep(8000); C[7] = 42; }).detach();"
    )
    verdict = check(entry(body, before=before), kernels.gemm(), tmp_path)
    assert verdict.code == "V213", verdict.message


def test_a_busy_machine_is_given_longer_to_write_late(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(session.time, "sleep", waited.append)
    for busy in (1.0, 3.0):
        monkeypatch.setattr(session, "patience", lambda busy=busy: busy)
        session.settle()
    assert waited[1] == 3 * waited[0] > 0


def test_nondeterminism_is_named(tmp_path: Path) -> None:
    body = kernels.GEMM + " static int n; if (C[3] == C[3]) C[3] *= 1 + 2.4e-7f * (n++ & 1);"
    verdict = check(entry(body), kernels.gemm(), tmp_path)
    assert verdict.code in ("V208", "V202"), verdict.message
    assert not verdict.passed


def test_online_softmax_that_starts_at_minus_infinity(tmp_path: Path) -> None:
    body = """
    const float* X = (const float*)args[1]; float* Y = (float*)args[0];
    for (int i = 0; i < 19; i++) { float m = -INFINITY, s = 0;
      for (int j = 0; j < 67; j++) { float x = X[i*67+j], t = x > m || x != x ? x : m;
        s = s * std::exp(m - t) + std::exp(x - t); m = t; }
      for (int j = 0; j < 67; j++) Y[i*67+j] = std::exp(X[i*67+j] - m) / s; }
    """
    verdict = check(entry(body), kernels.softmax(), tmp_path)
    assert verdict.status is Status.INCORRECT_NUMERICAL
    assert {c.family for c in verdict.cases if c.wrong} <= {"neg_inf_led", "inf"}


def test_identity_is_not_relu(tmp_path: Path) -> None:
    body = "std::memcpy(args[0], args[1], 19*67*4);"
    assert not check(entry(body), kernels.relu(), tmp_path).passed


def test_forged_messages_do_not_help(tmp_path: Path) -> None:
    """A kernel that answers for the child ends up with unwritten outputs."""
    before = "#include <unistd.h>\n#include <cstdio>\n"
    body = (
        'for (int fd = 3; fd < 64; fd++) { char m[] = "{\\"done\\": true, \\"threads\\": 1, \\"rss_kib\\": 1,'
        ' \\"rounding\\": 0, \\"flushes\\": false}\\n"; for (int i = 0; i < 30; i++) (void)!write(fd, m, sizeof m - 1); }'
        ' puts("PASS"); fflush(stdout); _exit(0);'
    )
    verdict = check(entry(body, before=before), kernels.gemm(), tmp_path)
    assert not verdict.passed, verdict


def test_evidence_is_written(tmp_path: Path) -> None:
    import json

    verdict = check(entry(kernels.RELU), kernels.relu(), tmp_path, seed=7)
    data = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert Verdict.from_json(data) == verdict
    assert data["seed"] == 7
    assert {c["family"] for c in data["cases"]} >= {"normal", "nan", "inf", "zeros"}


def test_same_seed_draws_the_same_cases() -> None:
    from septran.verify.cases import draw, plan

    problem = kernels.gemm()
    first, again, other = plan(problem, 1), plan(problem, 1), plan(problem, 2)
    assert first == again
    assert first != other
    a, b = draw(problem, first[1]), draw(problem, again[1])
    assert all((a[n] == b[n]).all() for n in a)


@pytest.mark.parametrize(("load", "times"), [(0.1, 1.0), (2.0, 2.0), (50.0, 3.0)])
def test_a_busy_machine_is_given_more_time(
    monkeypatch: pytest.MonkeyPatch, load: float, times: float
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0})
    assert patience() == times


def test_a_limit_counts_processor_time(tmp_path: Path) -> None:
    """A child that waits is not a slow kernel; one that works without end is."""
    sessions = session.Sessions(call_timeout_s=0.2, budget_s=0.1)
    body = f"usleep(300000); {kernels.GEMM}"
    waits = entry(body, before="#include <unistd.h>\n")
    patient = check(waits, kernels.gemm(), tmp_path / "waits", sessions=sessions)
    assert patient.passed, patient.message
    spins = entry("for (volatile long i = 0; ; i = i + 1) { }")
    busy = check(spins, kernels.gemm(), tmp_path / "spins", sessions=sessions)
    assert busy.code == "V206"
