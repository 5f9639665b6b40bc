"""Slices that are written are choices, windows that do not overlap are views, and a copy into another layout is written there."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.frontend.whole_domains import rows_of, whole_numbers
from tests.frontend.importing import computes_the_module, graph_of, imported
from tests.frontend.modules import Module

GPT = """b, t, c = x.shape
q, k, v = self.qkv(x).split(c, dim=2)
q, k, v = (one.view(b, t, 3, c // 3).transpose(1, 2) for one in (q, k, v))
s = (q @ k.transpose(-2, -1)) * 0.25
s = s.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
y = torch.softmax(s, -1) @ v
return self.out(y.transpose(1, 2).contiguous().view(b, t, c))"""

MODULES = [
    Module(name="a_number", body="y = x.clone()\ny[:, 3:7] = 0\nreturn y"),
    Module(name="of_an_input", body="x[:, 3] = 1.5\nreturn x * 2"),
    Module(name="a_corner", body="y = x.clone()\ny[1:3, 3:7] = 2\ny[-1, -1] = 3\nreturn y"),
    Module(
        name="of_itself",
        body="y = x * 2\ny[:, 3:30] = y[:, 3:30] + 1\ny[:, 5] += 3\ny[2:, :9] *= y[2:, :9]\nreturn y",
    ),
    Module(
        name="by_position",
        body="y = x.clone()\ny[1:, 3:30] = torch.tril(y[1:, 3:30], 2)\ny[1] = torch.where(torch.arange(37) > 5, y[1], 0)\nreturn y",
    ),
    Module(
        name="a_line",
        args="x, t",
        body="y = x.clone()\ny[:, 3:9] = t.unsqueeze(1)\ny[2] = 7\nreturn y",
        inputs="torch.randn(5, 37), torch.randn(5)",
    ),
    Module(
        name="half",
        body="y = x * 1.5\ny[:, 2:5] = 0.1\ny[:, 7:] *= 0.3\nreturn y",
        inputs="torch.randn(5, 37).half()",
    ),
    Module(
        name="whole_numbers",  # what divides is computed in the slice alone
        body="y = x.clone()\ny[:, 2:5] = y[:, 2:5] // 3\ny[1:, 0] = -1\nreturn y",
        inputs="torch.randint(0, 90, (5, 37))",
        kernels=4,
    ),
    Module(
        name="dear_in_few",  # exp of four columns is not computed for all
        body="y = x.clone()\ny[:, :4] = torch.exp(y[:, :4])\nreturn y",
        kernels=2,
    ),
    Module(name="another_slice", body="y = x.clone()\ny[:, :4] = y[:, 4:8]\nreturn y", kernels=2),
    Module(
        name="boxes",
        body="y = x.clone()\ny[:, 0] = x[:, 0] - x[:, 2] / 2\ny[:, 2] = x[:, 0] + x[:, 2] / 2\nreturn y",
        kernels=2,
    ),
    Module(name="windows", body="return x.unfold(1, 5, 6).amax(-1)"),
    Module(name="windows_that_end_early", body="return x.unfold(1, 4, 6) * 2", kernels=1),
    Module(name="overlapping", body="return x.unfold(1, 3, 2) * 2", kernels=4),
    Module(
        name="patches",
        init="self.proj = nn.Linear(48, 11)",
        body="return self.proj(F.unfold(x, 4, stride=4).transpose(1, 2))",
        inputs="torch.randn(2, 3, 12, 14)",
        kernels=2,
    ),
    Module(
        name="patches_by_view",
        init="self.proj = nn.Linear(48, 11)",
        body="p = x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5)\nreturn self.proj(p.reshape(2, -1, 48))",
        inputs="torch.randn(2, 3, 12, 14)",
        kernels=2,
    ),
    Module(
        name="apart",
        body="return F.unfold(x, (2, 3), stride=(2, 4))",
        inputs="torch.randn(2, 3, 9, 16)",
    ),
    Module(
        name="turned_both_ways",
        body="return torch.flip(x, [-1, 1]) + x, x.flip(0, 2)",
        inputs="torch.randn(3, 5, 7)",
        kernels=3,
    ),
    Module(
        name="tables_of_a_stack",
        init="self.a, self.b = nn.Embedding(9, 11), nn.Embedding(7, 11)",
        body="return torch.stack([self.a(x[:, 0]), self.b(x[:, 1])], 1).sum(2)",
        inputs="torch.randint(0, 7, (5, 2))",
        kernels=3,
    ),
    Module(
        name="heads_of_gpt",
        init='self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)\nself.register_buffer("bias", torch.tril(torch.ones(1, 1, 9, 9)))',
        body=GPT,
        inputs="torch.randn(2, 7, 12)",
        kernels=3,
    ),
    Module(
        name="a_turned_product",
        args="x, w",
        body="return torch.softmax((x @ w).transpose(1, 2).contiguous().view(2, -1), -1)",
        inputs="torch.randn(2, 5, 7), torch.randn(7, 9)",
        kernels=2,
    ),
]


QUICK = (
    "a_corner",
    "of_itself",
    "by_position",
    "whole_numbers",
    "patches",
    "turned_both_ways",
    "tables_of_a_stack",
    "heads_of_gpt",
)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "module",
    [
        pytest.param(m, id=m.name, marks=() if m.name in QUICK else pytest.mark.wider)
        for m in MODULES
    ],
)
def test_it_takes_few_kernels_and_is_the_module(tmp_path: Path, module: Module) -> None:
    found = imported(module.write(tmp_path))
    assert len(found.written.grouping.groups) == module.kernels, found.text
    computes_the_module(found, tmp_path)


def test_a_corner_is_one_choice(tmp_path: Path) -> None:
    """What was there before stands once in it: the text does not double with each slice that is written."""
    body = "y = x.clone()\nfor i in range(4):\n    y[i : i + 2, 3 * i : 3 * i + 4] = i\nreturn y"
    found = imported(Module(name="corners", body=body).write(tmp_path))
    assert found.written.text.count("select(") <= 4


def test_columns_are_positions_in_tables_of_several_lengths(tmp_path: Path) -> None:
    """What is drawn for the judge is a position in the shortest table, or torch refuses it."""
    module = Module(
        name="columns",
        init="self.a, self.b = nn.Embedding(9, 3), nn.Embedding(4, 3)",
        body="return self.a(x[:, 0]) + self.b(x[:, 1])",
        inputs="torch.tensor([[8, 0], [0, 3]])",
    )
    graph = graph_of(module.write(tmp_path))
    assert rows_of(graph) == {"x": 4, "select": 9, "select_1": 4}
    (one,) = (i for i in graph.inputs if i.kind == "user_input")
    assert whole_numbers(graph, one, frozenset(), 4).high == 4
    assert whole_numbers(graph, one, frozenset()).high == 9
