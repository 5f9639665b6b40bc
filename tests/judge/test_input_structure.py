"""What a reference's own inputs are besides numbers in a range: places that are written once, tables whose halves are one."""

from __future__ import annotations

import pytest

from septran.cli.main import main
from septran.plan.wanted import load_wanted
from septran.verify.cases import draw, plan

CACHE = """import torch
import triton
import triton.language as tl

@triton.jit
def store_kernel(key, cache, slots, D: tl.constexpr, BLOCK: tl.constexpr):
    slot = tl.load(slots + tl.program_id(0))
    at = tl.arange(0, BLOCK)
    row = tl.load(key + tl.program_id(0) * D + at, mask=at < D)
    tl.store(cache + slot * D + at, row, mask=at < D)

def store(key, cache, slots):
    store_kernel[(key.shape[0],)](key, cache, slots, key.shape[1], triton.next_power_of_2(key.shape[1]))
"""
SLOTS = """import torch
def reference(key, cache, slots): return cache.index_copy(0, slots, key)
def get_inputs(): return [torch.randn(5, 12), torch.randn(9, 12), torch.tensor([3, 8, 1, 0, 6])]
"""


def sets_of(tmp_path, text):
    (tmp_path / "ref.py").write_text(text)
    problem = load_wanted(tmp_path / "ref.py").problem
    return [draw(problem, case) for case in plan(problem, 7)]


def test_a_cache_is_written_at_places_of_its_own(tmp_path, capsys):
    """Where two rows go to one slot torch does not say which stays; it was a race of the programs."""
    (tmp_path / "cache.py").write_text(CACHE)
    (tmp_path / "ref.py").write_text(SLOTS)
    words = ["--reference", str(tmp_path / "ref.py"), "--in-place", "cache", "--where", "emulated"]
    assert main(["judge", str(tmp_path / "cache.py"), *words]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "inputs", "distinct"),
    [
        ("c.index_copy(0, s, k)", "torch.tensor([3, 8, 1, 0, 6])", True),
        ("c.scatter(0, s[:, None].expand(5, 12), k)", "torch.tensor([3, 8, 1, 0, 6])", True),
        ("c.index_put((s,), k)", "torch.tensor([3, 8, 1, 0, 6])", True),
        ("c.index_put((s,), k, accumulate=True)", "torch.tensor([3, 8, 1, 0, 6])", False),
        ("c.index_add(0, s, k)", "torch.tensor([3, 8, 1, 0, 6])", False),
        ("c[s] + k", "torch.tensor([3, 8, 1, 0, 6])", False),
        ("c.index_copy(0, s, k)", "torch.tensor([3, 3, 1, 0, 8])", False),
    ],
)
def test_only_places_that_are_written_over_are_apart(tmp_path, said, inputs, distinct):
    text = f"import torch\ndef reference(k, c, s): return {said}\ndef get_inputs(): return [torch.randn(5, 12), torch.randn(9, 12), {inputs}]\n"
    drawn = sets_of(tmp_path, text)
    assert all(len(set(one["s"].tolist())) == 5 for one in drawn) == distinct
    assert all(one["s"].min() >= 0 and one["s"].max() < 9 for one in drawn)
    assert len({tuple(one["s"].tolist()) for one in drawn}) > len(drawn) // 2


@pytest.mark.parametrize(
    ("made", "repeats"),
    [
        ("torch.cat([t, t], -1).cos()", "halves"),
        ("t.repeat_interleave(2, -1).sin()", "neighbours"),
        ("torch.cat([t, t + 1], -1)", ""),
        ("torch.ones(11, 12)", ""),
    ],
)
def test_a_rotary_table_repeats_in_each_call(tmp_path, made, repeats):
    """A kernel that reads the table's first half only is right for every table that its users have."""
    text = (
        "import torch\ndef reference(x, c): return x * c\n"
        f"def get_inputs():\n    t = torch.randn(11, 6)\n    return [torch.randn(11, 12), {made}]\n"
    )
    tables = [one["c"] for one in sets_of(tmp_path, text)]
    halves = [(t[:, :6] == t[:, 6:]).all() for t in tables]
    neighbours = [(t[:, ::2] == t[:, 1::2]).all() for t in tables]
    assert all(halves) == (repeats == "halves")
    assert all(neighbours) == (repeats == "neighbours")
    assert len({t.tobytes() for t in tables}) > len(tables) // 2


FLAGS = """import torch
import triton
import triton.language as tl

@triton.jit
def twice_kernel(x, out, done, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    if tl.atomic_cas(done + tl.program_id(0), 0, 1) != 1:
        tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def twice(x):
    out = torch.empty_like(x)
    done = torch.zeros(triton.cdiv(x.numel(), 64), dtype=torch.int32, device=x.device)
    twice_kernel[(triton.cdiv(x.numel(), 64),)](x, out, done, x.numel(), B=64)
    return out
"""
DOUBLED = (
    "import torch\ndef reference(x): return 2 * x\ndef get_inputs(): return [torch.randn(100)]\n"
)


@pytest.mark.few(1)
@pytest.mark.parametrize(("made", "status"), [("torch.empty(", 1), ("torch.zeros(", 0)])
def test_a_flag_that_nobody_cleared_may_be_set(tmp_path, made, status, capsys):
    """Integers that nobody wrote were 77 or 0, never 1: locks and flags in torch.empty looked open."""
    (tmp_path / "own.py").write_text(FLAGS.replace("torch.zeros(", made))
    (tmp_path / "ref.py").write_text(DOUBLED)
    words = ["--reference", str(tmp_path / "ref.py"), "--where", "emulated"]
    assert main(["judge", str(tmp_path / "own.py"), *words]) == status, capsys.readouterr().out
