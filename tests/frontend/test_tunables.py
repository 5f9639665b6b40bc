"""What the mapping chooses for a kernel of a module is its own: no kernel gets the sizes that another one asks for."""

import re
from pathlib import Path

import pytest

from septran.plan.torch_module import load_imported
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

TWO = "return torch.relu(x @ x.transpose(0, 1)), x.mean(1, keepdim=True).mean(0)[:, None] * x"


def names(text: str) -> list[str]:
    return re.findall(r'task\.tunable\("(\w+)"', text)


def sizes(module: Module, folder: Path) -> dict[str, object]:
    _, lowered = planned(load_imported(imported(module.write(folder))), "cpp")
    found: dict[str, object] = {}
    for instance in lowered.bound.mapping.instances.values():
        found |= instance.tunables
    return found


def test_each_kernel_of_several_has_tunables_of_its_own(tmp_path: Path) -> None:
    found = imported(Module(name="model", body=TWO).write(tmp_path))
    assert found.written.kernels > 1
    assert len(set(names(found.text))) == len(names(found.text)) > 2
    computes_the_module(found, tmp_path)


def test_one_kernel_has_plain_names(tmp_path: Path) -> None:
    found = imported(Module(name="model", body="return torch.relu(x) * 2").write(tmp_path))
    assert set(names(found.text)) <= {"rows", "cols"}


@pytest.mark.wider
def test_a_kernel_of_short_rows_takes_as_many_as_it_would_alone(tmp_path: Path) -> None:
    body = "return torch.softmax(x, 1), torch.softmax(x[:, :8], 1)"
    inputs = "torch.randn(256, 4096)"
    both = sizes(Module(name="model", body=body, inputs=inputs), tmp_path)
    alone = sizes(Module(name="model", body="torch.softmax(x[:, :8], 1)", inputs=inputs), tmp_path)
    assert len(both) == 2
    assert max(both.values()) == alone["rows"] > min(both.values())


def test_a_sum_over_long_rows_is_begun_and_continued_as_one_piece(tmp_path: Path) -> None:
    body = "return (x - x.amax(1, keepdim=True)).exp().sum(1)"  # it was E132 in the text that was written
    module = Module(name="model", body=body, inputs="torch.randn(3, 20001)")
    assert "block" in sizes(module, tmp_path)
    computes_the_module(imported(module.write(tmp_path)), tmp_path)
