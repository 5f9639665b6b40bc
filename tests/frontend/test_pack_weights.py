"""`prepare=True` on a target whose products read panels: weights are laid out once, and products bring no copy of them in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import septran
from septran import backends
from septran.aten.evaluate import run_graph
from septran.backends.cpp.leaves import COLS
from septran.call.large_pages import in_large_pages
from septran.cli.main import main
from septran.frontend.draw import draw
from septran.frontend.prepare import prepare
from septran.ir.nodes import Alloc, Copy, Program, walk
from septran.plan.partitioned import run_part
from septran.plan.resolve import GenRequest, lower_plan, resolve_operator
from septran.plan.torch_module import imported, load_imported
from tests.frontend.importing import graph_of
from tests.frontend.modules import Module

pytestmark = pytest.mark.filterwarnings("ignore")  # torch.export's own

PRODUCTS = Module(
    name="products",
    init="self.a = nn.Linear(40, 64)\nself.b = nn.Linear(64, 33)\nself.n = nn.BatchNorm1d(96)\n"
    "self.l = nn.Linear(33, 96, bias=False)\nself.w = nn.Parameter(torch.randn(96, 64))",
    body="y = torch.relu(self.n(self.l(self.b(torch.relu(self.a(x))))))\n"
    "z = y @ self.w\nreturn torch.addmm(z, x, self.w[:40]) + nn.functional.linear(z[:, :40], self.a.weight)",
    inputs="torch.randn(3, 40)",
)
LINEAR = Module(
    name="linear",
    init="self.l = nn.Linear(1100, 96)",
    body="return nn.functional.gelu(self.l(x))",
    inputs="torch.randn(13, 1100)",
)
HEADS = Module(
    name="heads",
    init="self.q = nn.Linear(48, 64)",
    body="return self.q(x).view(2, 5, 4, 16).transpose(1, 2) * 2",
    inputs="torch.randn(2, 5, 48)",
)


def lowered(module: Module, tmp_path: Path, columns: int) -> Program:
    """Return the Program of a module's kernels with its weights prepared, on cpp."""
    found = prepare(graph_of(module.write(tmp_path)), columns)
    rest = imported(found.rest)
    operator, logic = load_imported(rest)
    request = GenRequest(op="", backend="cpp", arch="x86_64_v3", dims={})
    return lower_plan(resolve_operator(request, operator, logic)).program


def copied(program: Program) -> set[str]:
    return {s.src.buffer.name for s in walk(program.body) if isinstance(s, Copy)}


def test_a_linear_layer_is_packed_once():
    module, x = nn.Linear(64, 96).eval(), torch.randn(5, 64)
    compiled = septran.compile(module, (x,), target="cpp", prepare=True, verify=False)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x))
        assert compiled.prepared == ("weight_panels",)
        assert len(compiled.kernels) == 1
        module.weight.mul_(2)
        torch.testing.assert_close(compiled(x), module(x))


def test_products_read_panels(tmp_path: Path):
    graph = graph_of(PRODUCTS.write(tmp_path))
    found = prepare(graph, COLS)
    assert found.part is not None
    shapes = {n.name: n.meta.shape for n in found.part.graph.nodes if n.name in made(found)}
    panels = {name: shape for name, shape in shapes.items() if len(shape) == 3}
    # the weight of `a` is packed once for both of its products; 33 columns fill no panels
    assert sorted(panels.values()) == [(2, 40, 32), (2, 40, 32), (2, 96, 32), (3, 33, 32)]
    values = {i.name: torch.randn(i.meta.shape, dtype=torch.float64).abs() for i in graph.inputs}
    once = run_graph(found.part.graph, {i.name: values[i.name] for i in found.part.graph.inputs})
    given = values | dict(zip(made(found), once, strict=True))
    rest = run_graph(found.rest, {i.name: given[i.name] for i in found.rest.inputs})
    for mine, theirs in zip(rest, run_graph(graph, values), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    kernels = imported(found.rest).written.grouping.groups
    reading = [o.attrs.get("panels", False) for g in kernels for o in g.ops if o.kind == "matmul"]
    assert sorted(reading) == [False, True, True, True, True, True]
    assert len(kernels) == len(reading), "each kernel is a product: nothing copies a panel"


def made(found) -> list[str]:
    return [o.value.name for o in found.part.graph.outputs]


def test_no_kernel_copies_a_panel(tmp_path: Path):
    assert copied(lowered(LINEAR, tmp_path, COLS)) == {"x"}
    assert copied(lowered(LINEAR, tmp_path, 48)) == {"x", "l_weight_panels"}, (
        "no panel of the target"
    )


def test_half_precision_and_other_targets_keep_their_weights(tmp_path: Path):
    half = Module(
        name="half", init="self.l = nn.Linear(32, 64).half()", body="return self.l(x)",
        inputs="torch.randn(3, 32).half()",
    )  # fmt: skip
    assert prepare(graph_of(half.write(tmp_path)), COLS).part is None
    assert prepare(graph_of(LINEAR.write(tmp_path))).part is None
    packing = {name for name in dict(backends.BUILTIN) if backends.get(name).columns}
    assert packing == {"cpp"}


def test_what_is_packed_is_told(tmp_path: Path):
    found = prepare(graph_of(LINEAR.write(tmp_path)), COLS)
    assert found.done == ("p_l_weight in panels of 32 columns, for l",)
    rest = imported(found.rest)
    assert "gelu_mma, accn[0, n], x, l_weight_panelsn[n, 0, 0]" in rest.text
    assert "(a = x, b = l_weight_panels)" in draw(found.rest, rest.written)


@pytest.mark.slow
def test_panels_are_judged(monkeypatch: pytest.MonkeyPatch):
    module, x = nn.Linear(64, 96).eval(), torch.randn(5, 64)
    compiled = septran.compile(module, (x,), target="cpp", prepare=True)
    assert compiled.verify().passed

    def exchanged(part, values):
        return {n: t.roll(1, 0) for n, t in run_part(part, values).items()}

    monkeypatch.setattr("septran.trial.partitioned.run_part", exchanged)
    assert compiled.verify().code == "V202"


@pytest.mark.slow
@pytest.mark.parametrize("module", [PRODUCTS, LINEAR, HEADS], ids=lambda m: m.name)
def test_modules_with_panels_are_accurate(module: Module, tmp_path: Path):
    file = module.write(tmp_path)
    assert main(["gen", "--task", str(file), "--backend", "cpp", "--prepare"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 12, 13, 70])
def test_sums_are_in_the_order_of_unpacked_weights(rows: int):
    module, x = nn.Sequential(nn.Linear(1100, 160), nn.ReLU()).eval(), torch.randn(rows, 1100)
    plain, packed = (
        septran.compile(module, (x,), target="cpp", prepare=p, verify=False) for p in (False, True)
    )
    assert torch.equal(plain(x), packed(x))


def test_large_tensors_lie_in_large_pages():
    small, large = torch.randn(100), torch.randn(3, 1 << 20)
    assert in_large_pages(small) is small
    moved = in_large_pages(large)
    assert torch.equal(moved, large) and moved.is_contiguous()
    if moved is not large:
        assert moved.data_ptr() % (2 << 20) == 0 and moved.data_ptr() != large.data_ptr()


@pytest.mark.wider
def test_tiles_of_panels_are_those_of_the_policy(tmp_path: Path):
    wide = Module(
        name="wide", init="self.l = nn.Linear(40, 2048)", body="return self.l(x)",
        inputs="torch.randn(200, 40)",
    )  # fmt: skip
    program = lowered(wide, tmp_path, COLS)
    (acc,) = [
        s.buffer for s in walk(program.body) if isinstance(s, Alloc) and s.buffer.name == "acc"
    ]
    # the policy's widest tile of a product
    assert acc.shape[1] % COLS == 0 and acc.shape[1] <= 1024
