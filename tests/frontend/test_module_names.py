"""Names of module files and of their tensors that the written logic could not use as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.frontend.translate import module_name
from septran.frontend.write.frame import Names
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module


@pytest.mark.parametrize(
    ("file", "name"),
    [("task.py", "m_task"), ("class.py", "m_class"), ("2d.py", "m_2d"), ("a-b.py", "a_b"), ("torch.py", "m_torch")],
)  # fmt: skip
def test_a_name_that_means_something_else_is_changed(file: str, name: str) -> None:
    assert module_name(f"/somewhere/{file}") == name


IMAGE = "torch.randn(2, 4, 8, 8)"


def _rows(count: int, n: int) -> str:
    return ", ".join(f"torch.randn({n})" for _ in range(count))


def _channels(count: int, n: int) -> str:
    return ", ".join(f"torch.randn({n}, 1, 1)" for _ in range(count))


HIDDEN = (
    Module(  # r, s and t are a convolution's loops over its taps
        name="conv_taps",
        init="self.conv = nn.Conv2d(4, 6, 3)\nself.r, self.s = (nn.Parameter(torch.randn(6, 1, 1)) for _ in 'rs')",
        args="x, t",
        body="torch.tanh(self.conv(x) * self.r + self.s) * t",
        inputs=f"{IMAGE}, {_channels(1, 6)}",
    ),
    Module(
        name="conv_locals",
        init="self.conv = nn.Conv2d(4, 6, 3)",
        args="xp, acc, tap, i, k, n",
        body="self.conv(xp) * acc + tap * i - k * n",
        inputs=f"{IMAGE}, {_channels(5, 6)}",
    ),
    Module(  # pieces of x are xp and xk
        name="product_locals",
        args="x, w, xp, xk, wk, C, k, n, acc",
        body="(x @ w + xp) * xk + C * k - n * acc + wk",
        inputs=f"torch.randn(9, 40), torch.randn(40, 24), {_rows(7, 24)}",
    ),
    Module(
        name="rows_locals",
        args="i, ip, j, rows, acc",
        body="F.layer_norm(i * j + ip, (40,)) * rows + torch.softmax(acc, -1)",
        inputs=", ".join(["torch.randn(9, 40)"] * 5),
    ),
    Module(
        name="rows_in_blocks",
        args="b, c, d, e",
        body="torch.softmax(b * c + d, -1) * e",
        inputs=", ".join(["torch.randn(2, 17000)"] * 4),
    ),
    Module(
        name="window_locals",
        args="x, r, s, t, acc",
        body="F.max_pool2d(x, 3, 1) * r + s * t + F.avg_pool2d(acc, 3, 1)",
        inputs=f"{IMAGE}, {_channels(3, 4)}, {IMAGE}",
    ),
    Module(  # t counts a recurrent layer's steps, gru_y are the parts of its result
        name="recurrent_program",
        init="self.gru = nn.GRU(5, 6)\nself.gru_y = nn.Parameter(torch.randn(6))",
        args="x, t, task",
        body="(self.gru(x)[0] + self.gru_y) * t + task",
        inputs=f"torch.randn(4, 3, 5), {_rows(2, 6)}",
    ),
)


@pytest.mark.few(1)
@pytest.mark.parametrize("module", HIDDEN, ids=lambda m: m.name)
def test_tensors_may_have_the_names_of_what_templates_write(tmp_path: Path, module: Module) -> None:
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


def test_loops_and_pieces_hide_no_tensor() -> None:
    names = Names({"k"})
    assert names.fresh("x") == "x"
    assert names.fresh("xp") == "xp_2"  # x's pieces
    assert names.fresh("kk") == "kk_2"
    assert names.loops(("k", "l"), 2) == ["l", "k_2"]
