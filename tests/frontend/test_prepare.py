"""`prepare=True`: what depends on a module's own tensors alone is computed once, batch norms are folded, all of it is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import septran
from septran.aten.evaluate import run_graph
from septran.aten.graph import Graph
from septran.call.once import Once
from septran.cli.main import main
from septran.errors import ArgumentError
from septran.frontend.draw import draw
from septran.frontend.prepare import prepare
from septran.plan.partitioned import run_part
from septran.plan.torch_module import imported
from tests.frontend.importing import graph_of
from tests.frontend.modules import Module

pytestmark = pytest.mark.filterwarnings("ignore")  # torch.export's own

RESNET = Module(
    name="resnet",
    init="self.c1 = nn.Conv2d(4, 8, 3, 2, 1, bias=False)\nself.b1 = nn.BatchNorm2d(8)\n"
    "self.c2 = nn.Conv2d(8, 8, 3, 1, 1)\nself.b2 = nn.BatchNorm2d(8)\n"
    "self.c3 = nn.Conv2d(4, 8, 1, 2, bias=False)\nself.b3 = nn.BatchNorm2d(8, affine=False)",
    body="y = torch.relu(self.b1(self.c1(x)))\n"
    "return torch.relu(self.b2(self.c2(y)) + self.b3(self.c3(x)))",
    inputs="torch.randn(2, 4, 6, 6)",
)
OTHERS = Module(
    name="others",
    init="self.t = nn.ConvTranspose2d(3, 4, 2, 2)\nself.b = nn.BatchNorm2d(4)\n"
    "self.g = nn.Conv2d(4, 6, 1, groups=2)\nself.n = nn.BatchNorm2d(6)\n"
    "self.l = nn.Linear(6, 5)\nself.m = nn.BatchNorm1d(5)",
    body="y = self.n(self.g(self.b(self.t(x))))\nreturn self.m(self.l(y.amax((2, 3))))",
    inputs="torch.randn(2, 3, 4, 4)",
)
LORA = Module(
    name="lora",
    init="self.w = nn.Parameter(torch.randn(6, 5))\nself.a = nn.Parameter(torch.randn(2, 5))\n"
    "self.z = nn.Parameter(torch.randn(6, 2))\nself.n = nn.utils.weight_norm(nn.Linear(6, 4))",
    body="return self.n(torch.relu(x @ (self.w + self.z @ self.a * 0.5).t()))",
    inputs="torch.randn(3, 5)",
)
TABLES = Module(
    name="tables",
    body="""
t = x.shape[1]
mask = torch.zeros(t, t)
mask[2:, :3] = -100.0
mask[:2, 3:] = 7.0
angles = torch.outer(torch.arange(t).float(), 10000 ** (torch.arange(0, 8, 2).float() / -8))
cos, sin = (angles.cos(), angles.sin() + 1).__iter__()
rows = torch.arange(t).reshape(2, -1).t().contiguous().roll(1, 0).sqrt().floor().long()
causal = torch.arange(t)[:, None] >= torch.arange(t)[None]
y = x[:, rows.flatten()].reshape(x.shape) * torch.cat([cos, sin], -1)
return (torch.where(causal, y @ y.mT, 0.0) + mask).softmax(-1)""",
    inputs="torch.randn(2, 6, 8)",
)
REFUSED = Module(
    name="refused",
    init="self.c = nn.Conv2d(3, 4, 1)\nself.b = nn.BatchNorm2d(4)\nself.first = nn.BatchNorm2d(3)\n"
    "self.t = nn.ConvTranspose2d(4, 4, 2, groups=2)\nself.d = nn.BatchNorm2d(4)",
    body="y = self.c(self.first(x))\nreturn self.d(self.t(self.b(y) + y))",
    inputs="torch.randn(2, 3, 4, 4)",
)


def drawn(graph: Graph) -> dict[str, torch.Tensor]:
    """Return other values than the file's own, variances positive, in float64."""
    generator = torch.Generator().manual_seed(3)
    found = {}
    for one in graph.inputs:
        value = torch.randn(one.meta.shape, generator=generator, dtype=torch.float64)
        found[one.name] = value.abs() + 0.1 if "var" in one.name else value
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("module", "kernels", "made"),
    [(RESNET, (3, 3), 6), (OTHERS, (6, 4), 6), (LORA, (3, 1), 2), (TABLES, (4, 3), 3)],
    ids=lambda v: getattr(v, "name", None),
)
def test_preparation_and_the_rest_are_the_module(
    module: Module, kernels: tuple[int, int], made: int, tmp_path: Path
) -> None:
    graph = graph_of(module.write(tmp_path))
    found = prepare(graph)
    assert found.part is not None and not found.kept
    values = drawn(graph)
    once = run_graph(found.part.graph, {i.name: values[i.name] for i in found.part.graph.inputs})
    names = [o.value.name for o in found.part.graph.outputs]
    assert len(names) == made
    given = {**values, **dict(zip(names, once, strict=True))}
    rest = run_graph(found.rest, {i.name: given[i.name] for i in found.rest.inputs})
    for mine, theirs in zip(rest, run_graph(graph, values), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11)
    before, after = (len(imported(g).written.grouping.groups) for g in (graph, found.rest))
    assert (before, after) == kernels


@pytest.mark.wider
def test_what_kernels_compute_as_fast_as_they_read_it_is_no_table(tmp_path: Path) -> None:
    """A causal mask, and a table larger than the inputs are and 4 MiB."""
    body = "(x @ x.mT).masked_fill(torch.ones(5, 5).triu(1) == 1, 0) + torch.arange(5) * 2.0"
    assert prepare(graph_of(Module(name="m", body=body).write(tmp_path))).part is None
    for wide, made in ((1024, True), (1025, False)):
        body = f"x.sum() * torch.arange({wide} * 1024).sin()"
        found = prepare(graph_of(Module(name="m", body=body).write(tmp_path)))
        assert (found.part is not None) == made, wide


@pytest.mark.wider
def test_a_table_is_made_once_and_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Turned(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            angles = torch.outer(torch.arange(3).float(), torch.arange(4).sqrt())
            return x * angles.cos()

    module, x = Turned(), torch.randn(2, 3, 4)
    compiled = septran.compile(module, (x,), target="cpp", prepare=True, verify=False)
    assert compiled.prepared == ("cos",)
    torch.testing.assert_close(compiled(x), module(x))
    compiled.save(tmp_path / "turned")
    torch.testing.assert_close(septran.load(tmp_path / "turned")(x), module(x))
    assert compiled.verify().passed
    monkeypatch.setattr(
        "septran.trial.partitioned.run_part",
        lambda part, values: {n: t * 1.001 for n, t in run_part(part, values).items()},
    )
    assert compiled.verify().code == "V202"


def test_what_stays_says_why(tmp_path: Path) -> None:
    graph = graph_of(REFUSED.write(tmp_path))
    found = prepare(graph)
    assert found.part is None
    assert found.kept == (
        "first: no convolution or linear layer makes what it reads",
        "b: others read conv2d, too",
        "d: conv_transpose2d has groups, whose channels lie in two axes of its weight",
    )
    assert "not prepared\n  first: no convolution" in draw(graph, imported(graph).written)


@pytest.mark.slow
def test_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--task", str(RESNET.write(tmp_path))]) == 0
    shown = capsys.readouterr().out
    assert "computed once with --prepare\n  b1 into the weight and bias of c1" in shown


@pytest.mark.wider
def test_statistics_of_a_batch_are_not_prepared(tmp_path: Path) -> None:
    found = prepare(graph_of(RESNET.write(tmp_path), mode="as-is"))
    assert found.part is None


def test_halves_are_not_rounded_twice(tmp_path: Path) -> None:
    module = Module(
        name="halves",
        init="self.c = nn.Conv2d(3, 4, 1).half()\nself.b = nn.BatchNorm2d(4).half()",
        body="self.b(self.c(x))",
        inputs="torch.randn(2, 3, 4, 4).half()",
    )
    found = prepare(graph_of(module.write(tmp_path)))
    assert found.part is None and "would be rounded once more" in found.kept[0]


def test_a_change_of_a_weight_is_seen(tmp_path: Path) -> None:
    part = prepare(graph_of(LORA.write(tmp_path))).part
    assert part is not None
    once = Once(part.graph)
    own = {i.name: torch.randn(i.meta.shape) for i in part.graph.inputs}
    first = once.tensors(own)
    assert once.tensors(own) is first and once.times == 1

    def fresh() -> bool:
        wanted, got = run_part(part, own), once.tensors(own)
        return all(torch.equal(got[n], wanted[n]) for n in wanted)

    name = next(iter(own))
    own[name].mul_(2)
    assert fresh() and once.times == 2
    for _ in range(8):  # a new tensor could lie where the old one was
        shape = own.pop(name).shape
        own[name] = torch.randn(shape)
        assert fresh()
    assert once.times == 10
    own[name].data.add_(1)  # nobody counts this
    assert not fresh()
    once.forget()
    assert fresh()
    with torch.inference_mode():
        own[name] = torch.randn(own[name].shape)
    once.tensors(own)
    before = once.times
    once.tensors(own)
    assert once.times == before + 1


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, bias=False)
        self.b = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.b(self.c(x)))


def test_a_compiled_module_follows_its_weights() -> None:
    module, x = Normed().eval(), torch.randn(2, 3, 6, 6)
    compiled = septran.compile(module, (x,), target="cpp", prepare=True, verify=False)
    assert compiled.prepared == ("b_folded_weight", "b_folded_bias")
    assert compiled.host_leaves == ()

    def right() -> bool:
        with torch.no_grad():
            return torch.allclose(compiled(x), module(x), rtol=1e-4, atol=1e-5)

    assert right()
    with torch.no_grad():
        module.c.weight.mul_(2.0)
    assert right()
    other = Normed()
    other.b.running_mean.normal_()
    other.b.running_var.uniform_(0.5, 2.0)
    module.load_state_dict(other.state_dict())
    assert right()
    module.c.weight = nn.Parameter(torch.randn_like(module.c.weight))
    assert right()
    module.b.weight.data.add_(1.0)
    assert not right()
    compiled.prepare_again()
    assert right()


def test_a_norm_whose_name_is_a_number_is_folded() -> None:
    module, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(), torch.randn(2, 3, 6, 6)
    compiled = septran.compile(module, (x,), target="cpp", prepare=True, verify=False)
    assert compiled.prepared == ("m_1_folded_weight", "m_1_folded_bias")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)


def test_open_sizes_are_refused() -> None:
    with pytest.raises(ArgumentError) as refused:
        septran.compile(Normed(), (torch.randn(2, 3, 6, 6),), dynamic={"x": {0: "B"}}, prepare=True)
    assert refused.value.codes == ("C140",)


def test_the_flag_is_for_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(RESNET.write(tmp_path))
    for more in (["--op", "relu"], ["--task", path, "--whole"], ["--task", path, "-o", "x.cpp"]):
        assert main(["gen", *more, "--backend", "cpp", "--prepare"]) == 2
        assert "C008" in capsys.readouterr().err


@pytest.mark.wider
def test_the_flag_and_open_sizes_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = RESNET.write(tmp_path)
    path.write_text(
        path.read_text()
        + "\n\ndef get_dynamic_shapes():\n    return ({0: torch.export.Dim('B', max=50)},)\n"
    )
    assert main(["gen", "--task", str(path), "--backend", "cpp", "--prepare"]) == 2
    said = capsys.readouterr().err
    assert "C008" in said and "get_dynamic_shapes" in said


@pytest.mark.slow
def test_the_preparation_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Normed().eval(), torch.randn(2, 3, 6, 6)
    compiled = septran.compile(module, (x,), target="cpp", prepare=True)
    verdict = compiled.verify()
    assert verdict.passed and "judged with what torch prepares once" in verdict.message
    monkeypatch.setattr(
        "septran.trial.partitioned.run_part",
        lambda part, values: {n: t * 1.001 for n, t in run_part(part, values).items()},
    )
    assert compiled.verify().code == "V202"


@pytest.mark.slow
@pytest.mark.parametrize("module", [RESNET, OTHERS, LORA], ids=lambda m: m.name)
def test_gen(module: Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(module.write(tmp_path))
    assert main(["gen", "--task", path, "--backend", "cpp", "--prepare", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["level"] == "accurate"
    assert told["host_leaves"][0]["why"].startswith("prepared once")
    assert "# step 1, once: " in Path(told["kernel"]).read_text()
    assert main(["verify", told["run"]]) == 2
    assert "V220" in capsys.readouterr().err
