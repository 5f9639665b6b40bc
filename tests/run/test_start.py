"""What a person waits for before anything happens: the light commands do not import the heavy libraries."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from septran.plan import catalog
from septran.reference import Later
from septran.tasklang.load import load_logic

HEAVY = ("torch", "tilelang", "triton", "tvm", "numpy", "openai", "ray", "matplotlib", "optuna")
LISTED = """
import sys
from septran.cli.main import main
code = main(sys.argv[1:])
heavy = sorted(set({heavy!r}) & set(sys.modules))
assert code == 0, code
assert not heavy, f"septran {{' '.join(sys.argv[1:])}} imports {{heavy}}"
"""


def _reference(op):
    return load_logic(catalog.op_file(op)).operators[op].reference


@pytest.mark.parametrize(
    "args", [["--help"], ["ls", "ops"], ["ls", "backends"], ["ls", "mappings"], ["explain", "E134"]]
)
def test_listing_imports_no_heavy_library(args):
    done = subprocess.run(
        [sys.executable, "-c", LISTED.format(heavy=HEAVY), *args],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_reference_imports_torch_when_it_is_called():
    import torch

    reference = _reference("gelu")
    names = inspect.getclosurevars(reference.fn).nonlocals["function"].__globals__
    x = torch.linspace(-3, 3, 7)
    assert isinstance(names["F"], Later) and isinstance(names["torch"], Later)
    assert torch.equal(reference.fn(X=x), torch.nn.functional.gelu(x))
    assert reference.settled() is reference
    assert names["F"] is torch.nn.functional and names["torch"] is torch
    assert torch.equal(reference.fn(X=x), torch.nn.functional.gelu(x))


def test_an_attribute_that_is_not_there():
    with pytest.raises(AttributeError, match="gelus"):
        _ = Later("torch.nn.functional").gelus


def test_a_reference_is_one_graph_for_the_compiler():
    import torch

    explained = torch._dynamo.explain(_reference("log_softmax").fn)(X=torch.ones(2, 3))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
