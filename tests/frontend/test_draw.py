"""A module's graph before and after fusion, as `septran show --task FILE` prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.cli.main import cli
from septran.frontend.draw import draw
from tests.frontend.importing import imported
from tests.frontend.modules import Module

MODULE = Module(
    name="mlp",
    init="self.a = nn.Linear(37, 16)\nself.b = nn.Linear(16, 37)",
    body="h = torch.relu(self.a(x))\nreturn x + self.b(h), h",
)


def test_each_node_each_kernel_and_each_refusal_is_there(tmp_path: Path) -> None:
    found = imported(MODULE.write(tmp_path))
    text = draw(found.graph, found.written)
    assert all(f"{n.name} " in text and n.op in text for n in found.graph.nodes)
    assert "2 kernels, in the order of their launch" in text
    assert "reads x, a_weight, a_bias; writes relu (result)" in text
    assert "writes add (result)" in text
    assert "max(x, 0)  (x = linear_bias)" in text
    assert text.endswith("linear_1 into relu: a matmul starts a kernel of its own\n")


@pytest.mark.slow
def test_a_task_without_a_target_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(MODULE.write(tmp_path))
    for more in ([], ["--graph"]):
        cli.main(["show", "--task", path, *more], standalone_mode=False)
        assert "2 kernels" in capsys.readouterr().out


def test_only_a_module_has_a_graph(capsys: pytest.CaptureFixture[str]) -> None:
    from septran.errors import ConfigError

    with pytest.raises(ConfigError) as caught:
        cli.main(["show", "--graph", "--op", "gemm"], standalone_mode=False)
    assert caught.value.codes == ("C137",)
