"""Linear attention in 16 bits: a product of three factors, of which either pair may be multiplied first and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from septran.accuracy import load_policy
from septran.plan.wanted import load_wanted
from septran.verify import budget, judge
from septran.verify.problem import Problem

LENGTH, WIDTH, CHUNK = 256, 32, 32
HEAD = f"""
import torch
def get_inputs():
    return [torch.randn({LENGTH}, {WIDTH}).half() for _ in range(3)]
"""
SINGLE = """
def get_inputs():
    return [torch.randn(64, 32) for _ in range(3)]
"""
WHOLE = """
def get_inputs():
    return [torch.randint(0, 9, (8, 4), dtype=torch.int32) for _ in range(3)]
"""
WRITTEN = {
    "scores": "def reference(q, k, v):\n    return torch.tril(q @ k.mT) @ v",
    "scores by einsum": "def reference(q, k, v):\n    s = torch.tril(torch.einsum('id,jd->ij', q, k))\n    return torch.einsum('ij,je->ie', s, v)",
    "scores in float32": "def reference(q, k, v):\n    return (torch.tril(q.float() @ k.float().mT) @ v.float()).half()",
    "a running state": "def reference(q, k, v):\n    kv = torch.einsum('sd,se->sde', k.float(), v.float()).cumsum(0)\n    return torch.einsum('sd,sde->se', q.float(), kv).half()",
    "sums of products": "def reference(q, k, v):\n    kv = (k[:, :, None] * v[:, None, :]).cumsum(0)\n    return (q[:, :, None] * kv).sum(-2)",
}  # fmt: skip
SIGNED = ("random signs", "one sign", "a sum that vanishes")


def draw(kind: str, seed: int):
    import numpy as np

    rng = np.random.default_rng(seed)
    made = [rng.standard_normal((LENGTH, WIDTH)) for _ in range(3)]
    if kind != "random signs":
        made = [abs(one) for one in made]
    if (
        kind == "a sum that vanishes"
    ):  # as `sorted` inputs have it: positive scores, values of both signs
        made[2] = np.linspace(-1, 1, LENGTH)[:, None] * np.ones(WIDTH)
        made[2][1::2] *= -1
    return [one.astype(np.float16) for one in made]


def half(x):
    import numpy as np

    return x.astype(np.float16).astype(np.float64)


def chunked(q, k, v):
    """As the public kernels: float32 sums, scores and state rounded where they are operands."""
    import numpy as np

    state, rows = np.zeros((WIDTH, WIDTH)), []
    for at in range(0, LENGTH, CHUNK):
        a, b, c = (x[at : at + CHUNK] for x in (q, k, v))
        rows.append(np.tril(half(a @ b.T)) @ c + a @ half(state))
        state = state + b.T @ c
    return np.concatenate(rows)


def recurrent_in_16_bits(q, k, v):
    """The planted bug: the state is a float16 tensor that each step adds to."""
    import numpy as np

    state, rows = np.zeros((WIDTH, WIDTH)), []
    for a, b, c in zip(q, k, v, strict=True):
        state = half(state + half(np.outer(b, c)))
        rows.append(a @ state)
    return np.stack(rows)


def sums_in_16_bits(q, k, v):
    """The planted bug: results are summed in float16, key by key."""
    import numpy as np

    scores, out = half(np.tril(q @ k.T)), np.zeros((LENGTH, WIDTH))
    for j in range(LENGTH):
        out = half(out + scores[:, j, None] * v[j])
    return out


def in_bfloat16(q, k, v):
    """The planted bug: scores are rounded to bfloat16, where the operands are float16."""
    import numpy as np
    import torch

    scores = torch.from_numpy(np.tril(q @ k.T)).bfloat16().double().numpy()
    return scores @ v


def worst(problem: Problem, kernels: Sequence[Callable]) -> list[float]:
    """Return each kernel's largest error / budget over three kinds of inputs."""
    import numpy as np

    ratios = [0.0] * len(kernels)
    for kind in SIGNED:
        arrays = draw(kind, 7)
        given = {p.name: a for p, a in zip(problem.inputs, arrays, strict=True)}
        zero_mean = kind == "random signs"
        (known,) = budget.expected(
            problem, given, zero_mean=zero_mean, policy=load_policy(), seed=1
        )
        for number, kernel in enumerate(kernels):
            raw = kernel(*(a.astype(np.float64) for a in arrays)).astype(np.float16).tobytes()
            found = judge.compare(problem.outputs[0], known, raw).ratio
            ratios[number] = max(ratios[number], found)
    return ratios


def wanted(written: str, folder: Path) -> Problem:
    file = folder / "reference.py"
    file.write_text(f"{HEAD}{written}\n", encoding="utf-8")
    return load_wanted(file).problem


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == "scores by einsum" else pytest.mark.slow) for n in WRITTEN],
)
def test_an_honest_kernel_is_accepted_and_narrower_ones_are_not(name: str, tmp_path: Path) -> None:
    """However the reference is written."""
    problem = wanted(WRITTEN[name], tmp_path)
    assert problem.reference.storage_roundings == 1
    honest, *others = worst(problem, (chunked, recurrent_in_16_bits, sums_in_16_bits, in_bfloat16))
    assert honest < 0.9
    assert min(others) > 1.2, others


@pytest.mark.wider
def test_of_integers_alone_nothing_is_rounded(tmp_path: Path) -> None:
    counts = "def reference(q, k, v):\n    return (q + k * v).cumsum(0)"
    problem = wanted(f"{counts}\n{WHOLE}", tmp_path)
    assert problem.reference.storage_roundings == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "held"),
    [
        # of float32 inputs nothing is 16 bits wide
        ("def reference(q, k, v):\n    return torch.tril(q @ k.mT) @ v", 0),
        # a variance is no product of matrices
        ("def reference(q, k, v):\n    x = q.float() - q.float().mean(-1, keepdim=True)\n    return (x * x).sum(-1) + k[:, 0] + v[:, 0]", 0),
        # products one behind the other count each, those beside each other once
        ("def reference(q, k, v):\n    h = torch.relu(q @ k[:32])\n    return torch.relu(h @ v[:32]) @ k[:32]", 2),
        ("def reference(q, k, v):\n    return torch.relu(q @ k[:32]) @ v[:32] + torch.tanh(q @ v[:32]) @ k[:32]", 1),
        # what is added to a product is no operand of it
        ("def reference(q, k, v):\n    return torch.addmm(torch.tanh(q), q, k[:32]) + v", 0),
        # two convolutions: the line between is stored
        ("def reference(q, k, v):\n    w = k[:32, :, None]\n    return torch.conv1d(torch.relu(torch.conv1d(q.mT[None], w)), v[:32, :, None])", 1),
    ],
)  # fmt: skip
def test_what_may_be_rounded(written: str, held: int, tmp_path: Path) -> None:
    single = written == WRITTEN["scores"]
    problem = wanted(f"{written}\n" + (SINGLE if single else ""), tmp_path)
    assert problem.reference.storage_roundings == held
