"""Races and bounds that no run shows: refused from the text and the launches that were made."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.backends.triton.accesses import launch_of
from septran.prove.foreign.decide import prove_launches
from septran.prove.foreign.launch import Proof
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest
from tests.judge.corpus import REFERENCES

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n"
CLEARED_BY_ONE = (
    HEAD
    + """
@triton.jit
def _total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(out_ptr, 0.0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0))


def total(x):
    out = torch.empty(1, device=x.device, dtype=x.dtype)
    _total[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out.reshape(())
"""
)


def judged(
    text: str, folder: Path, reference: str, name: str = "kernel.py", **numbers: int
) -> Judgement:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    request = JudgeRequest(file=file, reference=REFERENCES / reference, numbers=numbers)
    return judge(request, settings=settings.load())


@pytest.mark.slow
def test_a_race_that_the_emulation_accepts_is_refused(tmp_path):
    """Programs run one after the other there, so the one that clears the sum comes first."""
    found = judged(CLEARED_BY_ONE, tmp_path, "total.py")
    assert (found.code, found.finding, found.verdict.code) == (1, "race", "P130")
    assert "program 0 stores element 0" in found.verdict.message
    assert "line 9" in found.verdict.message and "line 11" in found.verdict.message
    assert found.to_json()["proved"] == ["bounds"]
    witness = found.verdict.diagnostics[0]
    assert witness["at"] == {"p0": 0, "p0'": 1}


MANY_LAUNCHES = (
    HEAD
    + """
@triton.jit
def _part(x_ptr, out_ptr, n, start, BLOCK: tl.constexpr):
    at = start + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0))


def total(x):
    out = torch.zeros(1, device=x.device, dtype=x.dtype)
    step = triton.next_power_of_2(triton.cdiv(x.numel(), 30))
    for start in range(0, 30 * step, step):
        _part[(1,)](x, out, x.numel(), start, BLOCK=step)
    return out.reshape(())
"""
)


@pytest.mark.slow
def test_launches_that_were_not_written_down_are_not_called_proven(tmp_path):
    found = judged(MANY_LAUNCHES, tmp_path, "total.py").to_json()
    assert found["proved"] == []
    assert "more than 24 different ones" in found["not_proven"]["bounds"]


def memory(name: str, size: int) -> dict[str, object]:
    return {"memory": name, "size": size, "start": 0}


def proof(body: str, grid: int = 4, **args: object) -> Proof:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    text = f"@triton.jit\ndef k({', '.join(args)}):\n{lines}"
    given = {n: memory(n, v[0]) if isinstance(v, list) else v for n, v in args.items()}
    return prove_launches([launch_of(text, "k.py", {"kernel": "k", "grid": [grid], "args": given})])


I = "i = tl.program_id(0) * 64 + tl.arange(0, 64)\n"  # noqa: E741


@pytest.mark.parametrize(
    ("body", "sizes", "proved"),
    [
        ("tl.store(y + i, tl.load(x + i))", 256, "bounds races"),
        ("tl.store(y + i, tl.load(x + i, mask=i < 200), mask=i < 200)", 200, "bounds races"),
        ("for j in range(0, 64, 16):\n    y += 0\n    tl.store(y + i, 1.0, mask=i < 256)", 256, "bounds races"),
        ("p = x + i\nfor j in range(5):\n    tl.load(p)\n    p += 0\ntl.store(y + i, 0.0)", 256, "bounds races"),
        ("tl.atomic_add(y + i % 7, 1.0)", 256, "bounds races"),
        ("if tl.program_id(0) < 3:\n    tl.store(y + i, 0.0)", 192, "bounds races"),
        ("tl.store(y + i, tl.interleave(*tl.split(tl.reshape(tl.load(x + i), (32, 2)))))", 256, "bounds races"),
        ("tl.store(y + i, tl.ravel(tl.join(tl.topk(tl.load(x + i), 32), 0.0)))", 256, "bounds races"),
        ("_, h = tl.associative_scan((tl.load(x + i), tl.load(x + i)), 0, f)\ntl.store(y + i, h)", 256, "bounds races"),
        ("tl.atomic_add(y + tl.arange(0, 16), tl.histogram(tl.load(x + i), 16, mask=i < 200))", 256, "bounds races"),
        ("v, k = tl.max(tl.load(x + i), axis=0, return_indices=True)\ntl.store(y + tl.program_id(0), v)", 256, "bounds races"),
        ("tl.store(y + i, tl.gather(tl.cat(tl.load(x + i), tl.load(x + i)), tl.arange(0, 64), 0))", 256, "bounds races"),
        ("if i_am_no_number:\n    pass\ntl.store(y + (i // 64) * 64 + i % 64, 0.0)", 256, "bounds races"),
    ],
)  # fmt: skip
def test_an_honest_kernel_is_proven(body, sizes, proved):
    found = proof(I + body, x=[sizes], y=[sizes])
    assert (found.findings, found.not_proven) == ((), {})
    assert found.proved == tuple(proved.split())


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("tl.store(y + i, tl.load(x + i + 1))", "P110", "program 3 loads element 256 of x with 256 elements"),
        ("tl.store(y + i - 1, 0.0)", "P110", "element -1 of y"),
        ("if tl.program_id(0) == 3:\n    tl.load(x + i * 2)", "P110", "program 3 loads element 384"),
        ("for j in range(9):\n    tl.load(x + i)\n    x += 64", "P110", "of x"),
        ("tl.store(y + i // 2, tl.load(x + i))", "P130", "which is kept is not said"),
        ("tl.store(y + tl.arange(0, 64), tl.load(x + i))", "P130", "nothing orders programs"),
        ("tl.store(y + i, 0.0)\ntl.atomic_add(y + 64, 1.0)", "P130", "adds to"),
        ("tl.store(y + i, 1.0)\ntl.load(y + (i + 64) % 256)", "P130", "loads"),
        ("a, b = tl.split(tl.reshape(tl.load(x + i), (32, 2)))\ntl.store(y + tl.program_id(0) * 16 + tl.arange(0, 32), a)", "P130", "nothing orders programs"),
        ("tl.store(y + tl.program_id(0) * 80 + tl.arange(0, 32), tl.topk(tl.load(x + i), 32))", "P110", "element 256 of y"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_place(body, code, says):
    found = proof(I + body, x=[256], y=[256])
    assert [f.code for f in found.findings] == [code], found
    assert says in found.findings[0].text
    assert found.findings[0].at


def test_a_tensor_descriptor_of_the_host_is_read_and_no_access_leaves_it():
    given = {
        "descriptor": memory("y", 250),
        "shape": [10, 25],
        "strides": [25, 1],
        "block_shape": [4, 32],
    }
    text = "@triton.jit\ndef k(d):\n    d.store([tl.program_id(0) * STEP, 0], tl.zeros((4, 32), tl.float32))\n"
    record = {"kernel": "k", "grid": [3], "args": {"d": given}}
    found = prove_launches([launch_of(text.replace("STEP", "4"), "k.py", record)])
    assert found.proved == ("bounds", "races") and not found.findings
    found = prove_launches([launch_of(text.replace("STEP", "3"), "k.py", record)])
    assert [f.code for f in found.findings] == ["P130"]
    given["strides"] = [26, 1]
    found = prove_launches([launch_of(text.replace("STEP", "4"), "k.py", record)])
    assert [f.code for f in found.findings] == ["P110"]


def test_what_a_program_stored_is_read_back_by_other_threads():
    """Triton's compiler puts no barrier between accesses of global memory (triton-lang/triton#1097, #10924)."""
    turned = "tl.store(y + i, tl.load(x + i))\n{}tl.load(y + i // 64 * 64 + 63 - i % 64)\n"
    found = proof(I + turned.format(""), x=[256], y=[256])
    assert [f.code for f in found.findings] == ["P130"]
    assert "lane 0 of program 0" in found.findings[0].text
    assert "no barrier is between" in found.findings[0].text
    assert not proof(I + turned.format("tl.debug_barrier()\n"), x=[256], y=[256]).findings
    same = "tl.store(y + i, tl.load(x + i))\ntl.load(y + i)\n"
    assert not proof(I + same, x=[256], y=[256]).findings


@pytest.mark.parametrize(
    ("body", "missing", "why"),
    [
        ("tl.store(y + i, tl.load(x + tl.load(x + i).to(tl.int32)))", ("bounds",), "its address depends on data"),
        ("tl.store(y, 1.0, mask=tl.load(x) > 0)\ntl.atomic_add(y, 1.0)", ("races",), "its mask depends on data"),
        ("while tl.load(x) > 0:\n    pass", ("bounds", "races"), "a while loop"),
        ("tl.store(y + i, tl.inline_asm_elementwise('', '', [x], tl.float32, True, 1))", ("bounds", "races"), "is not read"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_reason_and_no_mistake(body, missing, why):
    found = proof(I + body, x=[256], y=[256])
    assert found.findings == ()
    assert tuple(found.not_proven) == missing
    assert all(why in text for text in found.not_proven.values())
