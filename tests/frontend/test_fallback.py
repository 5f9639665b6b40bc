"""`fallback="torch"`: what cannot be a kernel stays torch's inside the program; everything around it is kernels, and all of it is judged."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import septran
from septran.aten.evaluate import run_graph
from septran.aten.graph import Graph, Ref
from septran.cli.main import main
from septran.errors import ConfigError, NotCorrect
from septran.frontend.partition import HostPart, Kernels, partition
from septran.frontend.translate import forms
from septran.plan.partitioned import partitioned, run_part
from septran.plan.planned import lower_sized
from septran.plan.resolve import GenRequest, resolve_operator
from septran.plan.torch_module import Imported, load_imported
from tests.frontend.importing import graph_of
from tests.frontend.modules import Module
from tests.frontend.opaque_modules import BY_NAME, MODULES

WITHOUT = ("logcumsumexp",)
"""Operators that have no form in these tests."""

MIXED = Module(
    name="mixed",
    body="y = x @ x.mT + 4.0 * torch.eye(4)\nz = torch.linalg.inv(y)\n"
    "return torch.softmax(z.mT * 2.0, -1), y, z.mT, torch.logcumsumexp(torch.relu(z), 1) - 1.0",
    inputs="torch.randn(2, 4, 4)",
)
SUMS = Module(
    name="sums", body="return torch.cumsum(torch.relu(x), 1) * 2.0", inputs="torch.randn(4, 8)"
)
LOGS = Module(
    name="logs",
    body="return torch.softmax(torch.log1p(torch.softmax(x, 1)), 1)",
    inputs="torch.randn(4, 8)",
)


class Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.up(x))
        return torch.abs(torch.fft.ihfft(y, dim=1)) * 0.5 + 1.0


def given(graph: Graph) -> dict[str, torch.Tensor]:
    """Return the file's own inputs and weights."""
    return {
        i.name: torch.frombuffer(
            bytearray(graph.values[i.name]), dtype=getattr(torch, i.meta.dtype)
        ).reshape(i.meta.shape)
        for i in graph.inputs
    }


def steps_of(graph: Graph) -> tuple[Kernels | HostPart, ...]:
    known = forms(graph)
    return partition(graph, known, known.missing)


@pytest.mark.wider
@pytest.mark.parametrize(
    "module",
    [MIXED, *(pytest.param(m.module, marks=pytest.mark.slow) for m in MODULES)],
    ids=lambda m: m.name,
)
def test_the_steps_one_behind_the_other_compute_the_module(module: Module, tmp_path: Path) -> None:
    graph = graph_of(module.write(tmp_path))
    values = given(graph)
    for step in steps_of(graph):
        read = {i.name: values[i.name] for i in step.graph.inputs}
        if isinstance(step, HostPart):
            assert (
                forms(graph).missing.keys() & {n.name for n in step.graph.nodes}
                or "view" in step.why
            )
            values |= run_part(step, read)
        else:
            assert not forms(step.graph).missing
            names = [o.value.name for o in step.graph.outputs]
            values |= dict(zip(names, run_graph(step.graph, read, own=True), strict=True))
    wanted = run_graph(graph, given(graph), own=True)
    for output, one in zip(graph.outputs, wanted, strict=True):
        assert isinstance(output.value, Ref)
        torch.testing.assert_close(values[output.value.name], one)


def test_kernels_stand_before_and_behind_and_views_move_nothing(tmp_path: Path) -> None:
    steps = steps_of(graph_of(MIXED.write(tmp_path)))
    told = [s.operators if isinstance(s, HostPart) else "kernels" for s in steps]
    assert told == ["kernels", "linalg_inv", "transpose", "kernels", "logcumsumexp", "kernels"]
    softmax = steps[3].graph  # the view of torch's result is read as a view
    assert [i.name for i in softmax.inputs] == ["linalg_inv"]


@pytest.mark.wider
def test_compile_keeps_kernels_around_what_torch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Spectrum(), torch.randn(3, 6)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")  # torch.export has its own
        compiled = septran.compile(module, (x,), target="cpp", fallback="torch")
    left = [str(w.message) for w in said if "septran" in str(w.message)]
    assert len(left) == 1
    assert left[0].startswith("septran leaves a part of Spectrum to torch: fft_ihfft, clone, abs")
    assert compiled.kernels == ("relu", "add")
    (left,) = compiled.host_leaves
    assert (
        left.startswith("fft_ihfft, clone, abs (test_fallback.py:") and "no Task Lang form" in left
    )
    drawn = compiled.graph()
    assert "# step 2, torch: fft_ihfft, clone, abs_1" in drawn
    assert "# step 3, kernels" in drawn
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x))
        module.up.weight.mul_(2.0)  # the module's own weights are read at each call
        torch.testing.assert_close(compiled(x), module(x))
    verdict = compiled.verify()
    assert verdict.level == "accurate"
    assert "torch computes fft_ihfft, clone, abs" in verdict.message
    assert any(n.startswith("computed by torch, no kernel: fft_ihfft") for n in verdict.not_checked)
    with pytest.raises(septran.errors.InputError) as refused:
        compiled.save("nowhere")
    assert refused.value.codes == ("V220",)
    # the whole is judged, not only its kernels: a part that computes something else is found
    monkeypatch.setattr(
        "septran.trial.partitioned.run_part",
        lambda part, values: {n: t * 1.001 for n, t in run_part(part, values).items()},
    )
    assert compiled.verify().code == "V202"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = septran.compile(Spectrum(), (torch.randn(4, 6),), target="cpp", fallback="torch")
    with pytest.raises(NotCorrect):
        fresh(torch.randn(4, 6))


@pytest.mark.wider
def test_gen_says_it_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = BY_NAME["blocks"].module.write(tmp_path)
    asked = ["gen", "--task", str(path), "--backend", "cpp", "--fallback", "torch"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["level"] == "accurate"
    (leaf,) = told["host_leaves"]
    assert leaf["operators"] == "logcumsumexp" and leaf["nodes"] == ["logcumsumexp"]
    assert path.read_text().splitlines()[leaf["line"] - 1].strip().startswith("return")
    assert len(told["parts"]) == 1 and Path(told["parts"][0]).is_file()
    program = Path(told["kernel"]).read_text()
    assert "# step 1, torch: logcumsumexp" in program and "# step 2, kernels" in program
    assert main(["verify", told["run"]]) == 2  # only what is a kernel altogether is evidence
    assert "V220" in capsys.readouterr().err
    from septran.cli.card import rows

    card = dict(rows(told))
    assert card["verdict"] == "accurate (native), with parts that torch computes"
    assert card["torch"].startswith("logcumsumexp (line ")


def test_where_it_makes_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(BY_NAME["blocks"].module.write(tmp_path))
    for more in (["--op", "relu"], ["--task", path, "--whole"], ["--task", path, "-o", "x.cpp"]):
        assert main(["gen", *more, "--backend", "cpp", "--fallback", "torch"]) == 2
        assert "C008" in capsys.readouterr().err


def test_what_nobody_can_judge_is_refused_all_the_same(tmp_path: Path) -> None:
    noisy = Module(
        name="noisy", body="return torch.relu(x) + torch.rand_like(x)", inputs="torch.randn(2, 3)"
    )
    with pytest.raises(ConfigError) as caught:
        partitioned(graph_of(noisy.write(tmp_path)), lambda found: found)
    assert caught.value.codes == ("C152",)


@pytest.mark.parametrize("target", ["cuda_c", pytest.param("triton_cuda", marks=pytest.mark.slow)])
def test_what_the_target_refuses_stays_torchs(target: str, tmp_path: Path) -> None:
    steps = partitioned(graph_of(SUMS.write(tmp_path)), planner(target, movement=()))
    host = [s for s in steps if isinstance(s, HostPart)]
    assert [s.operators for s in host] == ["cumsum"]
    assert f"{target} has no leaf for the primitive scan" in host[0].why
    assert len(steps) == 3


def planner(target: str, **lacks: object) -> Callable[[Imported], object]:
    """Return what lowers a part for a target. lacks: the target's own words for what it is said not to have."""

    def make(found: Imported) -> object:
        request = GenRequest(op=None, backend=target)
        plan = resolve_operator(request, *load_imported(found))
        return lower_sized(replace(plan, backend=replace(plan.backend, **lacks)))

    return make


def test_a_layout_that_the_target_refuses_is_moved_by_torch(tmp_path: Path) -> None:
    turned = Module(
        name="turned",
        body="return torch.softmax(x.transpose(0, 1), -1)",
        inputs="torch.randn(8, 16)",
    )
    steps = partitioned(graph_of(turned.write(tmp_path)), planner("tilelang_cuda", views=False))
    told = [s.operators if isinstance(s, HostPart) else "kernels" for s in steps]
    assert told == ["transpose", "kernels"]
    assert isinstance(steps[0], HostPart) and "another layout" in steps[0].why


@pytest.mark.slow
def test_gen_on_a_target_that_refuses_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = LOGS.write(tmp_path)
    asked = [
        "gen",
        "--task",
        str(path),
        "--backend",
        "triton_cuda",
        "--where",
        "emulated",
        "--json",
    ]
    assert main(asked) == 2
    capsys.readouterr()
    assert main([*asked, "--fallback", "torch"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["level"], told["where"]) == ("accurate", "emulated")
    assert "triton_cuda has no log1p" in told["host_leaves"][0]["why"]
    assert len(told["parts"]) == 2


@pytest.mark.slow
def test_a_batch_names_it_in_its_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    BY_NAME["blocks"].module.write(folder)
    batch = tmp_path / "all.yaml"
    batch.write_text("tasks: [models]\nbackends: [cpp]\nfallback: torch\ntime: false\n")
    assert main(["batch", str(batch), "--json"]) == 0
    told = capsys.readouterr().out
    assert '"with_torch": 1' in told.replace('"with_torch":1', '"with_torch": 1')
