"""What a CUDA file may hand on and not look into: mbarriers, tensor maps, the driver's functions. It would tell an emulation from a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.backends.cuda.prepare import unsupported
from septran.outcome import Level
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest
from tests.judge.corpus import HERE, REFERENCES

BULK = (HERE / "bulk.cu").read_text(encoding="utf-8")


def judged(folder: Path, *changes: tuple[str, str]) -> Judgement:
    text = BULK
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "bulk.cu").write_text(text)
    request = JudgeRequest(
        file=folder / "bulk.cu",
        reference=REFERENCES / "lines_added.py",
        entry="add",
        numbers={"lines": 7},
    )
    return judge(request, settings=settings.load())


READ_BARRIER = (
    "if (full[0] & 1) left[at][i] += right[at][i]; else left[at][i] = right[at][i] + left[at][i]"
)
TOLD = {
    "bits of an mbarrier": (("left[at][i] += right[at][i]", READ_BARRIER),),
    "bytes of an mbarrier": (
        ("left[at][i] += right[at][i]", READ_BARRIER.replace("full[0]", "*(volatile char*)&full[1]")),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TOLD)
def test_bits_that_tell_an_emulation_from_a_device_are_not_read(name: str, tmp_path: Path) -> None:
    found = judged(tmp_path, *TOLD[name])
    assert (found.code, found.finding) == (1, "cheat"), found.verdict.message


@pytest.mark.slow
def test_another_function_of_the_driver_is_said_to_lack(tmp_path: Path) -> None:
    asked = (
        'void* other = nullptr;\n    cudaGetDriverEntryPoint("cuTensorMapReplaceAddress", &other, cudaEnableDefault);\n'
        "    if (other == nullptr) return;\n    add_kernel<<<2,"
    )
    found = judged(tmp_path, ("add_kernel<<<2,", asked))
    assert found.verdict.level is Level.UNAVAILABLE and found.verdict.code == "V217"
    assert "cuTensorMapReplaceAddress is unknown" in found.verdict.message


@pytest.mark.slow
def test_what_an_arrival_gives_may_be_handed_on(tmp_path: Path) -> None:
    wait = (
        'uint64_t state;\n            asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&own)) : "memory");\n'
        '            asm volatile("{ .reg .pred p; L: mbarrier.try_wait.shared::cta.b64 p, [%0], %1; @!p bra L; }" :: "r"(shared_address(&own)), "l"(state) : "memory");\n'
        "        "
    )
    found = judged(
        tmp_path,
        ("    __shared__ uint64_t full[2];\n    if", "    __shared__ uint64_t full[2], own;\n    if"),
        ("        bar_init(&full[1], 1);\n", "        bar_init(&full[1], 1), bar_init(&own, 96);\n"),
        ('        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n        __syncthreads();', '        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n        ' + wait.strip()),
    )  # fmt: skip
    assert found.code == 0, found.verdict.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CUtensorMap m; if (m.opaque[0] == 3) return;", True),
        ("void f(const CUtensorMap* map) { if (((const uint64_t*)map)[1]) return; }", True),
        ("CUtensorMap m; auto* p = reinterpret_cast<unsigned char*>(&m);", True),
        ("CUtensorMap m; if (*(volatile int*)&m) return;", True),
        ("CUtensorMap m; f((const void*)&m); g(reinterpret_cast<uint64_t>(&m)); h((uint64_t)&m);", False),
        ("CUtensorMap* d; cudaMalloc((void**)&d, sizeof(CUtensorMap)); k((CUtensorMap*)d);", False),
        ("struct S { int opaque; } s; s.opaque = 1;", False),
    ],
)  # fmt: skip
def test_a_text_that_looks_into_a_map_is_refused(text: str, told: bool) -> None:
    assert ("the bits of a tensor map" in unsupported(text)) is told
