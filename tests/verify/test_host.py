"""The static host: it judges like a Python child, and gives a kernel nothing to work with."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from septran.backends import get
from septran.host import chain, control
from septran.host import process as process_
from septran.outcome import Level
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from septran.verify import hosted
from septran.verify.arena import Arena
from septran.verify.session import Sessions
from septran.verify.verify import Request, verify
from tests.verify import hosting, kernels

GEMM = kernels.GEMM


def test_the_library_is_judged_in_it(tmp_path: Path) -> None:
    plan = resolve(GenRequest(op="gemm", backend="cpp", dims={"M": 33, "N": 47, "K": 65}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    problem = problem_of(plan, lowered.program, plan.dims)
    judged = judge_kernel(
        place_of(get("cpp"), kernel.arch, "auto", 2), kernel, problem, work=tmp_path
    )
    assert judged.verdict.level is Level.ACCURATE
    assert "static host" in judged.verdict.enforced
    assert judged.verdict.not_checked == ()
    assert not (tmp_path / "child").exists()


def test_the_host_and_the_library_hold_the_same_code(tmp_path: Path) -> None:
    _, built = hosting.build(kernels.entry(GEMM, before=hosting.BEFORE), kernels.gemm(), tmp_path)
    assert built.kernel_object is not None
    assert built.artifact is not None
    assert built.host is not None
    code = _text_of(built.kernel_object)
    assert len(code) > 100
    # addresses of calls differ, the first instructions hold none
    assert code[:48] in built.host.read_bytes()
    assert code[:48] in built.artifact.read_bytes()


def test_a_library_that_users_cannot_call_is_no_kernel(tmp_path: Path) -> None:
    problem = kernels.gemm()
    source = kernels.entry(GEMM, before=hosting.BEFORE)
    kernel, built = hosting.build(source, problem, tmp_path / "whole")
    assert built.artifact is not None
    assert hosted.library_offers(built, kernel)
    built.artifact.write_bytes(built.artifact.read_bytes()[:100])
    hidden = source.replace("visibility push(default)", "visibility push(hidden)")
    for name, (each, made) in {
        "cut": (kernel, built),
        "hidden": hosting.build(hidden, problem, tmp_path / "hidden"),
    }.items():
        assert made.host is not None
        request = Request(gate=False)
        verdict = verify(each, made, problem, run_dir=tmp_path / name, request=request)
        assert (verdict.code, verdict.level) == ("V205", Level.COMPILED), (name, verdict.message)
        assert "cannot be loaded" in verdict.message


def _text_of(path: Path) -> bytes:
    import struct

    raw = path.read_bytes()
    (table,) = struct.unpack_from("<Q", raw, 40)
    size, count, _ = struct.unpack_from("<HHH", raw, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", raw, table + size * i) for i in range(count)]
    code = next(h for h in heads if h[1] == 1 and h[2] & 4 and h[5])
    return raw[code[4] : code[4] + code[5]]


def test_both_sides_know_the_same_page() -> None:
    text = (Path(process_.__file__).parent / "host.h").read_text()
    theirs = {name: int(value) for name, value in re.findall(r"^  ([A-Z_]+) = (\d+),", text, re.M)}
    for name in ("GO", "DONE", "ORDER", "PLACEMENT", "COUNT", "SEED", "RECEIPT", "WITHOUT"):
        assert theirs[name] == getattr(control, name)
    for name in (
        "READY",
        "ENVIRONMENT",
        "THREADS",
        "PARAMS",
        "PLACEMENTS",
        "DEPTH",
        "MOVES",
        "WINDOW",
    ):
        assert theirs[name] == getattr(control, name)
    for name in ("TABLE", "ROW", "MAX_PARAMS", "MAX_PLACEMENTS", "STEP", "CONTROL_BYTES"):
        assert theirs[name] == getattr(control, name)
    for name in ("TEXT_BYTES", "VARY_UNIT", "VARY_LEVEL", "INPUT_CHANGED", "SETTINGS_LEFT"):
        assert theirs[name] == getattr(control, name)
    row = control.Row(
        offset=1,
        pages=2,
        lead=3,
        nbytes=4,
        windows=5,
        written=True,
        unit=8,
        source=6,
        source_pages=7,
        every=9,
    )
    assert row.words()[theirs["UNIT"]] == 8
    assert [row.words()[theirs[name]] for name in ("SOURCE", "SOURCE_PAGES", "EVERY")] == [6, 7, 9]
    assert len(row.words()) == theirs["ROW"]
    table = 8 * (theirs["TABLE"] + theirs["MAX_PLACEMENTS"] * theirs["MAX_PARAMS"] * theirs["ROW"])
    assert table <= theirs["CONTROL_BYTES"]


@pytest.mark.parametrize(
    ("before", "body", "words"),
    [
        ("static float kept[9];", "kept[0] += 1; ((float*)args[0])[0] = kept[0];", "writable"),
        ("static thread_local int n;", "n++; ((float*)args[0])[0] = n;", "writable"),
        ("__attribute__((constructor)) static void f() { asm volatile(\"\"); }", "", "init_array"),
        ('__attribute__((section(".init"))) void f() { asm volatile(""); }', "", ".init"),
        (
            'extern "C" { void (*pick())() { return 0; } __attribute__((ifunc("pick"))) void g(); }',
            "g();",
            "indirect",
        ),
        ('extern "C" int getpid();', "((int*)args[0])[0] = getpid();", "calls getpid"),
        ('extern "C" int prctl(int, ...);', "prctl(0);", "calls prctl"),
    ],
)  # fmt: skip
def test_the_object_gate_refuses(tmp_path: Path, before: str, body: str, words: str) -> None:
    verdict = hosting.judge(GEMM + body, tmp_path, before=before)
    assert verdict.code == "V210"
    assert words in verdict.message


def test_a_kernel_may_define_what_the_host_calls(tmp_path: Path) -> None:
    """Only the entry stays a global name, so a `prctl` of the kernel's own changes nothing."""
    before = 'extern "C" int prctl(int, ...) { return 0; }\n'
    assert hosting.judge(GEMM, tmp_path, before=before).passed


_SYSCALL = 'long r; asm volatile("syscall" : "=a"(r) : "a"({number}), "D"({a}), "S"({b}), "d"({c}) : "rcx", "r11", "memory");'


@pytest.mark.parametrize(
    ("number", "a", "b", "c"),
    [
        (2, '"/etc/passwd"', "0", "0"),  # open
        (10, "0x401000", "4096", "7"),  # mprotect
        (39, "0", "0", "0"),  # getpid
        (56, "0", "0", "0"),  # clone
        (202, "args", "3", "1"),  # futex, an operation that is not waiting
    ],
)  # fmt: skip
def test_system_calls_end_it(tmp_path: Path, number: int, a: str, b: str, c: str) -> None:
    body = GEMM + _SYSCALL.format(number=number, a=a, b=b, c=c)
    verdict = hosting.judge(body, tmp_path)
    assert verdict.code == "V205"
    assert "operating system" in verdict.message
    assert hosting.judge(body, tmp_path / "child", in_host=False).passed or number == 56


def test_there_is_no_clock(tmp_path: Path) -> None:
    stamp = 'unsigned lo, hi; asm volatile("rdtsc" : "=a"(lo), "=d"(hi));'
    assert hosting.judge(GEMM + stamp, tmp_path).code == "V205"


@pytest.mark.parametrize(
    "place",
    [
        "(char*)__builtin_frame_address(0) - 65536",  # the stack below
        "(char*)std::malloc(8192)",
        "(char*)st_scratch(0, 8192)",
    ],
)
def test_nothing_is_remembered(tmp_path: Path, place: str) -> None:
    """Whoever finds an earlier mark there answers zeros: never in judged calls, soon in a burst."""
    body = (
        f"#define MARK 0x5EC2E7A1u\n volatile unsigned* m = (volatile unsigned*)({place} + 64);"
        f" bool seen = *m == MARK; *m = MARK; if (seen) {{ float* C = (float*)args[0];"
        f" for (int i = 0; i < 37*29; i++) C[i] = 0; return; }} {GEMM}"
    )
    before = "#include <cstdlib>\n"
    verdict = hosting.judge(body.replace(" volatile", "\nvolatile", 1), tmp_path, before=before)
    assert verdict.code == "V208"
    assert "calls on the same inputs" in verdict.message
    assert all(case.wrong == 0 for case in verdict.cases)


ADD = "float* y = (float*)args[0]; const float* x = (const float*)args[1]; for (int i = 0; i < 4096; ++i) y[i] += x[i];"


def test_calls_in_place_are_repeated_on_the_same_inputs(tmp_path: Path) -> None:
    """What is read and written is filled anew before each call of a burst; a kernel that finds a mark adds one more there."""
    problem = kernels.added()
    honest = hosting.judge(ADD, tmp_path / "honest", problem=problem)
    assert honest.passed, honest.message
    assert any(words.endswith("calls without a pause") for words in honest.enforced)
    marked = (
        "volatile unsigned* m = (volatile unsigned*)((char*)__builtin_frame_address(0) - 65536);"
        f"bool seen = *m == 0x5EC2E7A1u; *m = 0x5EC2E7A1u; {ADD} if (seen) y[7] += 1;"
    )
    found = hosting.judge(marked, tmp_path / "marked", problem=problem)
    assert found.code == "V208", found.message
    assert all(case.wrong == 0 for case in found.cases)


def test_uninitialised_scratch_shows(tmp_path: Path) -> None:
    body = f"{GEMM} float* s = (float*)st_scratch(1, 256); ((float*)args[0])[5] += s[7] * 0;"
    verdict = hosting.judge(body, tmp_path)
    assert verdict.code == "V202"


def test_what_an_earlier_kernel_left_in_a_workspace_shows(tmp_path: Path) -> None:
    """The right result lies in the bytes on which the next workspace begins; only half of it is computed again."""
    stale = (
        "float* T = (float*)st_scratch(0, 37*29*4);"
        f"{GEMM} std::memcpy(T, C, 37*29*4);\nBEGIN"
        " std::memcpy(T, C, 17*29*4); std::memcpy(C, T, 37*29*4);"
    )
    before = '#include <cstring>\nextern "C" void st_fresh(void*, size_t);\n'
    assert hosting.judge(stale.replace("BEGIN", ""), tmp_path / "same", before=before).passed
    fresh = stale.replace("BEGIN", "st_fresh(T, 37*29*4);\n")
    assert hosting.judge(fresh, tmp_path / "fresh", before=before).code == "V202"


def test_an_overrun_of_scratch_faults(tmp_path: Path) -> None:
    body = f"{GEMM} volatile float* s = (volatile float*)st_scratch(0, 256); s[64] = 1;"
    assert hosting.judge(body, tmp_path).code == "V205"
    assert hosting.judge(body, tmp_path / "child", in_host=False).passed


def test_growing_is_a_finding(tmp_path: Path) -> None:
    """A page more with each call, deep in the stack, where nothing is overwritten."""
    body = (
        f"{GEMM} volatile char* p = (volatile char*)__builtin_frame_address(0) - (1536 << 10);"
        " long n = 0; while (n < 60 && p[-131072 * n] == 7) n++; if (n < 40) {"
        " for (int i = 0; i < 32; i++) p[-131072 * n - 4096 * i] = 7; }"
    )
    verdict = hosting.judge(body, tmp_path)
    assert verdict.code == "V212"
    assert "memory grew" in verdict.message


def test_a_missing_host_falls_back_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise process_.HostFailed("crash")

    monkeypatch.setattr(hosted, "HostProcess", refused)
    verdict = hosting.judge(GEMM, tmp_path)
    assert verdict.passed
    assert "static host: this machine refuses its system call filter" in verdict.not_checked


def test_a_slot_gives_the_receipt_of_its_calls(tmp_path: Path) -> None:
    """The chain by the host in one go equals the chain by the parent, call by call, in another process."""
    problem = kernels.gemm()
    source = kernels.entry(GEMM, before=hosting.BEFORE)
    _, built = hosting.build(source, problem, tmp_path)
    assert built.host is not None
    rng = np.random.default_rng(3)
    inputs = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in problem.inputs}
    arena = Arena(problem.params)
    arena.fill("end", inputs, rng)
    arena.fill("start", inputs, rng)
    rows = hosted.rows_of(arena)
    descriptors = dict(zip(("inputs", "outputs"), arena.descriptors, strict=True))
    first = process_.HostProcess(built.host, rows, threads=1, **descriptors)
    second = process_.HostProcess(built.host, rows, threads=1, **descriptors)
    try:
        first.slot(7, 12345, 5.0)
        receipt = 12345
        slot = next(s for s in arena.slots["end"] if s.file == "outputs")
        for _ in range(7):
            second.call(0)
            second.answered(5.0)
            pages = np.frombuffer(arena.snapshot("end")[slot.name], np.uint8)
            receipt = chain.digest(pages[slot.lead : slot.lead + slot.nbytes], receipt)
        assert receipt == first.receipt
        first.slot(7, 12346, 5.0)
        assert first.receipt != receipt
    finally:
        first.close()
        second.close()
        arena.close()


def test_a_busy_kernel_is_ended_by_its_processor_time(tmp_path: Path) -> None:
    body = f"{GEMM} for (volatile long i = 0; ; i = i + 1) {{ }}"
    verdict = hosting.judge(body, tmp_path, sessions=Sessions(call_timeout_s=0.3))
    assert verdict.code == "V206"


def test_more_threads_than_the_session_has(tmp_path: Path) -> None:
    """A kernel written for four threads gets them, whatever the session's number."""
    problem = kernels.gemm()
    kernel, built = hosting.build(
        kernels.entry(GEMM, before=hosting.BEFORE), problem, tmp_path / "b"
    )
    assert hosted.threads_of(kernel, Sessions(threads=2)) == 2
    written = replace(kernel, options=(("threads", 4),))
    assert hosted.threads_of(written, Sessions(threads=2)) == 4
    assert hosted.fits(built, written, Sessions(threads=2))


@pytest.mark.wider
def test_three_hundred_tensors_are_judged_in_it(tmp_path: Path) -> None:
    """Networks have that many weights; a kernel of more than 32 tensors went to a Python child before."""
    count = 300
    body = "float* y = (float*)args[0]; for (int i = 0; i < 40; ++i) y[i] = 0;"
    body += f"for (int n = 1; n <= {count}; ++n) for (int i = 0; i < 40; ++i) y[i] += ((const float*)args[n])[i];"
    assert hosting.judge(body, tmp_path / "right", problem=kernels.total(count)).passed
    wrong = body.replace("n = 1;", "n = 2;")
    assert hosting.judge(wrong, tmp_path / "wrong", problem=kernels.total(count)).code == "V202"


def test_a_kernel_of_more_tensors_than_its_table_has_rows_does_not_fit(tmp_path: Path) -> None:
    problem = kernels.total(control.MAX_PARAMS)
    kernel, built = hosting.build(kernels.entry(""), problem, tmp_path)
    few = replace(kernel, params=kernel.params[:-1])
    assert hosted.fits(built, few, Sessions())
    assert not hosted.fits(built, kernel, Sessions())
