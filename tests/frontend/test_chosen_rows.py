"""Rows that values choose: mixtures of experts as people write them, and masks; what has no such form is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import septran
from benchmarks.module_targets import outcome
from septran.errors import ConfigError
from septran.frontend.child import capture as child
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module

pytestmark = pytest.mark.filterwarnings("ignore")

INIT = """self.gate = nn.Linear(6, 4, bias=False)
self.w1, self.w2 = nn.Parameter(torch.randn(4, 10, 6)), nn.Parameter(torch.randn(4, 6, 5))
self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 9), nn.SiLU(), nn.Linear(9, 6)) for _ in range(4))
self.norm = nn.LayerNorm(6)"""
ROUTE = """shape, x = x.shape, x.reshape(-1, 6)
p = self.gate(x).softmax(-1)
w, sel = torch.topk(p, 2, dim=-1)
w = w / w.sum(-1, keepdim=True)
out = torch.zeros_like(x)
mask = F.one_hot(sel, num_classes=4).permute(2, 1, 0)
"""
LOOP = "for i, expert in enumerate(self.experts):\n"
BODIES = {
    "pairs": LOOP
    + """    nth, at = torch.where(mask[i])
    rows = x[None, at].reshape(-1, 6)
    out.index_add_(0, at, (expert(rows) * w[at, nth, None]).to(x.dtype))""",
    "added in place": LOOP
    + """    at, nth = torch.where(sel == i)
    out[at] += w[at, nth, None] * expert(x[at])""",
    "asked whether any": LOOP
    + """    m = (sel == i).any(-1)
    if m.any():
        out[m] += expert(x[m]) * (w * (sel == i)).sum(-1)[m].unsqueeze(-1)""",
    "asked how many": LOOP
    + """    nth, at = torch.where(mask[i])
    if at.shape[0] == 0 or not at.numel() > 0:
        continue
    out = out.index_add(0, at, expert(self.norm(x.index_select(0, at))) * w[at, nth].unsqueeze(1))""",
    "counted": """counts = torch.bincount(sel.flatten(), minlength=4).tolist()
for i in range(4):
    if counts[i] == 0:
        continue
    at, nth = torch.where(sel == i)
    out[at] += self.experts[i](x[at]) * w[at, nth, None]""",
    "hit ones": """hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
for e in hit:
    nth, at = torch.where(mask[e].squeeze(0))
    a, b = F.linear(x[at], self.w1[e.item()]).chunk(2, dim=-1)
    rows = F.linear(F.silu(a) * b, self.w2[e.item()]) * w[at, nth, None]
    out.index_add_(0, at, rows)
hit = (mask.sum((1, 2)) > 0).nonzero()
for e in hit:
    e = e[0]
    nth, at = torch.where(mask[e])
    out.index_add_(0, at, self.experts[e](x[at]) * w[at, nth, None])""",
    "one expert": """best = p.argmax(-1)
for i, expert in enumerate(self.experts):
    at = (best == i).nonzero(as_tuple=True)[0]
    out[at] = expert(x[at]) * p[at, i, None]
    other = (best == i).nonzero().squeeze(-1)
    if (best == i).sum() == 0:
        continue
    rows = x[other]
    rows *= 2
    out.index_copy_(0, other, out[other] - rows / 3)""",
    "hit ones in a list": """routed = mask.sum(1).t().reshape(*shape[:2], 4).bool()
some = torch.nonzero(routed.reshape(-1, 4).sum(0), as_tuple=True)[0].tolist()
found = torch.zeros(shape)
for e in some:
    found[routed[:, :, e]] = self.experts[e](x.reshape(shape)[routed[:, :, e]])
out = found.reshape(-1, 6)""",
    "gated by every second": """hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
for e in hit[:]:
    e = e[0]
    _, at = torch.where(mask[e])
    both = x[at] @ self.w1[e].t() + self.w1[e, :, 0]
    gate, up = both[..., ::2].clamp(max=0.9), both[..., 1::2].clamp(-0.9, 0.9)
    rows = ((up + 1) * (gate * torch.sigmoid(gate * 1.7))) @ self.w2[e].t()
    best = torch.max(rows, rows.max(-1, keepdim=True)[0] - rows.norm(2, -1, keepdim=True))
    out.index_add_(0, at, best * p[at, e, None])""",
    "places among all choices": """flat = sel.reshape(-1)
for i, expert in enumerate(self.experts):
    at = (flat == i).nonzero().squeeze()
    token = at // 2
    rows = expert(x[token]) * w.reshape(-1)[at].unsqueeze(-1)
    out.index_add_(0, token, rows)""",
    "a line for each choice": """flat, lines = sel.view(-1), x.repeat_interleave(2, dim=0)
y = torch.empty_like(lines)
for i, expert in enumerate(self.experts):
    y[flat == i] = expert(lines[flat == i])
out = (y.view(*w.shape, -1) * w.unsqueeze(-1)).sum(dim=1)""",
    "masks of two dims": """seq = x.reshape(shape)
best = self.gate(seq).argmax(-1)
found = torch.zeros_like(seq)
for i, expert in enumerate(self.experts):
    m = best == i
    found[m] = expert(seq[m])
out = found.reshape(-1, 6)""",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_mixture_of_experts_computes_the_module(name: str, tmp_path: Path) -> None:
    body = f"{ROUTE}{BODIES[name]}\nreturn out.reshape(shape)"
    module = Module(name="m", init=INIT, body=body, inputs="torch.randn(2, 7, 6)")
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "m = (x[:, 0] > 0)\nreturn x[m].mean(0), x[m].sum(), x[m, 1:3].mean(), (x[m] ** 2).sum(0, keepdim=True)",
        "m = x[:, 0] > 0\nr = x[m] + 1\nm.logical_not_()\ny = x.clone()\ny[m] = x[m] * 3\nreturn y, r.sum()",
        "m = x[:, 0] > 0\nr = x[m]\ny = x.clone()\ny[0] = 1\ny[m] = r + 1\nz = x.clone()\nz[m] = 2 * r\nreturn y, z",
        "y = x.clone()\ny[y > 0] = 2 * y[y > 0]\ny[y > 0] += y[y > 0]\nreturn y",
        "m = x > 0.2\ny = x.clone()\ny[m] = y[m] * 2 + 1\nreturn y, x[m].mean()",
        "at = (x[:, 0] > 0).nonzero(as_tuple=True)[0]\ny = x.clone()\ny[at, 2] = 7\ny[at, 3:5] = x[at, :2]\nreturn y",
        "at = torch.where(x[:, 0] > 0)[0]\ny = torch.zeros(40, 37)\nreturn y.index_add_(0, at * 2, x[at]).index_add(1, torch.arange(37), y)",
        "at = torch.argwhere(x[:, 0] > 0)[:, 0]\nh = x[at].view(-1, 1, 37).transpose(1, 2).flatten(1)\ny = x.clone()\ny[at] = h.softmax(-1)\nreturn y",
    ],
)  # fmt: skip
def test_masks_of_rows_compute_the_module(body: str, tmp_path: Path) -> None:
    module = Module(name="m", body=body)
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


REFUSED = {
    "x[x[:, 0] > 0]": "depends on values",
    "x[x > 0].cumsum(0)": "`cumsum`",
    "torch.cat([x[x[:, 0] > 0], x])": "`cat`",
    "x[x[:, 0] > 0].T @ x[x[:, 0] > 0]": "`T`",
    "torch.where(x[:, 0] > 0)[0].sum() + x[x[:, 0] > 0].shape[0]": "how many rows are chosen",
    "x[x[:, 0] > 0][1:].sum()": "rows of the chosen rows",
    "x[x[:, 0] > 0] + x[x[:, 1] > 0]": "two choices",
    "x[x[:, 0] > 0].max() + x[0, 0]": "`max`",
    "x[x[:, 0] > 0].norm(2) + x[0, 0]": "`norm`",
    "F.mse_loss(x[x[:, 0] > 0], x[x[:, 0] > 0] * 2)": "`mse_loss`",
    "x[x[:, 0] > 0].mean() * x[x[:, 1] > 0].amax()": "`amax`",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_mixes_rows_is_told_with_its_line(body: str, tmp_path: Path) -> None:
    path = Module(name="m", body=f"y = {body}\nreturn y").write(tmp_path)
    config = {"mode": "eval", "values_bytes": 1 << 24, "known": []}
    with pytest.raises(child.Refused, match="depends on values") as caught:
        child._capture(path, tmp_path, config)
    assert REFUSED[body] in caught.value.message
    assert "y = " in path.read_text().splitlines()[caught.value.line - 1]


@pytest.mark.parametrize(
    "body",
    [
        "m = x[:, 0] > 0\nif m.any():\n    x = x + 1\nreturn x",
        "m = x[:, 0] > 0\nif m.sum() == 0:\n    return x * 2\nreturn x",
        "y = x.clone()\nfor e in ((x > 0).sum(1) > 0).nonzero():\n    y[e[0]] = 3\nreturn y",
    ],
)
def test_a_branch_that_comes_to_something_where_no_row_is_chosen_is_no_function_of_all_rows(
    body: str, tmp_path: Path
) -> None:
    """On the file's own inputs it does what the graph does."""
    path = Module(name="m", body=body, inputs="torch.rand(4, 37) + 0.1").write(tmp_path)
    config = {"mode": "eval", "values_bytes": 1 << 24, "known": []}
    with pytest.raises(child.Refused, match="where all rows are alike") as caught:
        child._capture(path, tmp_path, config)
    assert caught.value.what == "differs"


def test_a_branch_that_is_always_taken_is_refused(tmp_path: Path) -> None:
    """Whether the rest comes to nothing where it is not taken cannot be tried."""
    body = "m = x[:, 0] * 0 == 0\ny = x.clone()\nif m.any():\n    y[m] = x[m] + 1\nreturn y"
    path = Module(name="m", body=body).write(tmp_path)
    config = {"mode": "eval", "values_bytes": 1 << 24, "known": []}
    with pytest.raises(child.Refused, match="no inputs were found for which none is"):
        child._capture(path, tmp_path, config)


def test_a_branch_beside_random_numbers_is_refused(tmp_path: Path) -> None:
    """Two calls differ anyway, so nothing shows what the branch does."""
    body = "m = x[:, 0] > 0\nif m.any():\n    x = x + 1\nreturn x + torch.rand_like(x)"
    path = Module(name="m", body=body).write(tmp_path)
    config = {"mode": "eval", "values_bytes": 1 << 24, "known": []}
    with pytest.raises(child.Refused, match="no inputs were found for which none is"):
        child._capture(path, tmp_path, config)


def test_rows_are_taken_where_the_module_cannot_be_called_with_rows_that_are_alike(
    tmp_path: Path,
) -> None:
    """Nothing was assumed, so there is nothing that has to be tried."""
    body = "if not torch.compiler.is_exporting() and bool((x == x[:1]).all()):\n    raise ValueError('alike')\ny = x.clone()\nm = x[:, 0] > 0\ny[m] = x[m] * 2\nreturn y, x[m].sum()"
    path = Module(name="m", body=body).write(tmp_path)
    config = {"mode": "eval", "values_bytes": 1 << 24, "known": []}
    assert child._capture(path, tmp_path, config)["nodes"]


def test_a_branch_that_cannot_be_tried_is_refused(tmp_path: Path) -> None:
    body = "m = x[:, 0] > 0\nif m.any():\n    x = x + 1\nreturn x"
    path = Module(name="m", body=body, inputs="torch.randn(5000, 5000)").write(tmp_path)
    config = {"mode": "eval", "values_bytes": 1 << 20, "known": []}
    with pytest.raises(child.Refused, match="too large to be called here"):
        child._capture(path, tmp_path, config)


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best, out = self.gate(x).argmax(-1), torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            m = best == i
            if m.any():
                out[m] = expert(x[m]).relu()
        return out


@pytest.mark.parametrize("rows", [1, 5])
def test_a_compiled_mixture_of_experts(rows: int) -> None:
    torch.manual_seed(1)
    module, x = Mixture().eval(), torch.randn(rows, 8)
    with torch.no_grad():
        compiled = septran.compile(module, (x,), target="cpp")
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-5)


def test_a_compiled_branch_that_comes_to_something_is_refused() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if (x > 0).any() else x

    with pytest.raises(ConfigError, match=r"C151.*where all rows are alike"):
        septran.compile(Branch(), (torch.rand(3, 4),), target="cpp")


GATED = """self.gate = nn.Linear(32, 4, bias=False)
self.up = nn.ModuleList(nn.Linear(32, 64, bias=False) for _ in range(4))
self.by = nn.ModuleList(nn.Linear(32, 64, bias=False) for _ in range(4))
self.down = nn.ModuleList(nn.Linear(64, 32, bias=False) for _ in range(4))"""
GATED_BODY = """shape, x = x.shape, x.reshape(-1, 32)
w, sel = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
mask, out = F.one_hot(sel, num_classes=4).permute(2, 1, 0), torch.zeros_like(x)
for i in range(4):
    nth, at = torch.where(mask[i])
    rows = self.down[i](F.silu(self.up[i](x[at])) * self.by[i](x[at]))
    out.index_add_(0, at, rows * w[at, nth, None])
return out.reshape(shape)"""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cuda_c", "dsa_c"])
def test_a_mixture_of_experts_on_other_targets(target: str, tmp_path: Path) -> None:
    """On dsa_c its commands take more of the simulator's memory in one order than in another, which was called the kernel's."""
    module = Module(name="m", init=GATED, body=GATED_BODY, inputs="torch.randn(2, 8, 32)")
    assert outcome(imported(module.write(tmp_path)), target, tmp_path) == ("accurate", "")
