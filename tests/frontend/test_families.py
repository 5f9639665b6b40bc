"""Operator families and blocks of networks, imported whole: their logic computes what the module computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from septran.cli.main import main
from septran.plan.torch_module import operator_of
from septran.tasklang.load import execute_logic
from tests.frontend.families import FAMILIES
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module

QUICK = (
    "scan_sum_middle",
    "scan_reverse",
    "arg_max_pair",
    "arg_topk",
    "gather_embedding",
    "gather_along",
    "gather_reflect",
    "scatter_add",
    "map_bools",
    "map_scalar_result",
    "reduce_count",
    "loss_cross_entropy_smooth",
    "loss_triplet",
    "loss_cosine",
    "matmul_three",
    "matmul_sum",
    "window_max_ceil",
    "window_adaptive_odd",
    "convolve_same",
    "block_segment_sum",
    "block_moe",
    "block_gru_cell",
)
"""One for each form of text; the others run with the slow tests."""


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "module",
    [
        pytest.param(m, id=m.name, marks=() if m.name in QUICK else (pytest.mark.slow,))
        for m in FAMILIES
    ],
)
def test_the_written_logic_is_the_module(tmp_path: Path, module: Module) -> None:
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


def test_two_parts_of_one_tensor_are_written_by_two_kernels(tmp_path: Path) -> None:
    body = "y = torch.exp(x)\nreturn torch.cat((y, y * 2), 1)"
    found = imported(Module(name="two_parts", body=body).write(tmp_path))
    told = [r.why for r in found.written.grouping.refusals]
    assert found.written.kernels == 2 and any("is another part of cat" in why for why in told)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = torch.exp(x)\nreturn y, torch.cat((y, x), 1)", "torch.randn(3, 4)"),
        ("y = x @ x.T\nreturn torch.cat((y, x), 1), y", "torch.randn(3, 4)"),
        ("y = x.cumsum(0)\nreturn y, F.pad(y, (1, 0))", "torch.randint(0, 4, (5,))"),
    ],
)
def test_what_is_returned_beside_a_concat_of_it_is_written_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, inputs: str
) -> None:
    path = Module(name="beside", body=body, inputs=inputs).write(tmp_path)
    assert main(["gen", "--task", str(path), "--backend", "cpp", "--stop-after", "compile"]) == 0, (
        capsys.readouterr().err
    )
    computes_the_module(imported(path), tmp_path)


def test_a_concat_is_read_after_the_last_of_its_parts(tmp_path: Path) -> None:
    body = "y = torch.exp(x)\nz = torch.cat((torch.sigmoid(x @ self.w), torch.cos(x[:, :7])), 1)\nreturn y * z"
    init = "self.w = nn.Parameter(torch.randn(37, 30))"
    module = Module(name="late_parts", body=body, init=init)
    found = imported(module.write(tmp_path))
    computes_the_module(found, tmp_path)
    order = [g.name for g in found.written.grouping.groups]
    assert order.index("sigmoid") < order.index("mul") == len(order) - 1


def test_numbers_that_become_integers_stay_in_their_range(tmp_path: Path) -> None:
    module = Module(name="to_int8", body="(x * 2).to(torch.int8)")
    found = imported(module.write(tmp_path))
    path = tmp_path / "logic.py"
    path.write_text(found.text)
    domain = operator_of(found, execute_logic(path)).domains["x"]
    assert not domain.specials and domain.high is not None and domain.high * 2 < 128


@pytest.mark.parametrize("steps", [3, 200])
def test_a_long_sequence_needs_no_more_kernels(tmp_path: Path, steps: int) -> None:
    module = Module(
        name="long_rnn",
        init="self.m = nn.GRU(4, 3, batch_first=True)",
        body="self.m(x)[0]",
        inputs=f"torch.randn(2, {steps}, 4)",
    )
    found = imported(module.write(tmp_path))
    assert found.written.kernels == 5
    assert "task.sequential_range(gru_y.shape[0])" in found.text


@pytest.mark.wider
def test_small_variances_do_not_take_a_deep_network_out_of_its_dtype(tmp_path: Path) -> None:
    """Half of the judge's wide variances are the smallest, which amplify: the range of weights allows for it."""
    init = "self.n = nn.Sequential(*(m for _ in range(24) for m in (nn.Linear(16, 16), nn.BatchNorm1d(16))))"
    found = imported(Module(name="deep_norms", body="self.n(x)", init=init, inputs="torch.randn(4, 16)").write(tmp_path))  # fmt: skip
    path = tmp_path / "logic.py"
    path.write_text(found.text)
    operator = operator_of(found, execute_logic(path))
    generator = torch.Generator().manual_seed(3)
    values = {}
    for name, domain in operator.domains.items():
        signs = torch.randint(0, 2, operator.shape(name, {}), generator=generator) * 2.0 - 1
        small = domain.kind == "positive"
        values[name] = (signs.abs() * domain.low if small else signs * domain.high).double()
    assert sum(d.kind == "positive" for d in operator.domains.values()) == 24
    result = operator.reference.fn(**values)
    assert 0 < float(result.abs().max()) < 1e37


@pytest.mark.wider
def test_values_of_one_sign_stay_in_a_deep_network_s_dtype(tmp_path: Path) -> None:
    """No sum of them cancels, so that each layer multiplies by its terms: they get a bound of their own."""
    init = "self.n = nn.Sequential(*(m for _ in range(40) for m in (nn.Linear(64, 64), nn.ReLU())))"
    found = imported(Module(name="deep", body="self.n(x)", init=init, inputs="torch.randn(4, 64)").write(tmp_path))  # fmt: skip
    path = tmp_path / "logic.py"
    path.write_text(found.text)
    operator = operator_of(found, execute_logic(path))
    bounds = {(d.high, d.one_sign) for d in operator.domains.values()}
    assert len(bounds) == 1
    ((high, one_sign),) = bounds
    assert one_sign is not None and isinstance(high, float) and one_sign < high
    for bound, stays in ((high, False), (one_sign, True)):
        values = {
            name: torch.full(operator.shape(name, {}), bound, dtype=torch.float64)
            for name in operator.domains
        }
        assert (float(operator.reference.fn(**values).abs().max()) < 1e37) is stays
