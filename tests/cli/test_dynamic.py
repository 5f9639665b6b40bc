"""`--dim M=dynamic`: a kernel that is compiled once and reads its sizes when it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.plan.dynamic import EDGES
from tests.cli.conftest import septran as septran


def test_one_build_is_judged_at_edges_and_primes_and_proven_for_all_sizes(septran):
    done = septran(
        "gen", "--op", "softmax", "--backend", "cpp", "--dim", "M=dynamic:64,N=24", "--json",
        "--stop-after", "emit",
    )  # fmt: skip
    assert done.code == 0, done.err
    source = Path(done.json["kernel"]).read_text()
    assert "const long size_M = st::size(args[2]);" in source
    assert set(done.json["proved"]) >= {"bounds", "races", "coverage", "data", "sums", "text"}
    found = json.loads((Path(done.json["run"]) / "certificate.json").read_text())
    assert found["domain"] == {"M": [1, 1 << 24]}
    assert "dim M from 1 to 16777216" in found["program"]


@pytest.mark.wider
def test_the_verdict_names_every_size_and_a_bundle_keeps_them_open(septran, tmp_path: Path):
    done = septran(
        "gen", "--op", "row_sum", "--backend", "cpp", "--dim", "M=dynamic:40,N=33", "--json"
    )
    assert done.code == 0, done.err
    assert done.json["status"] == "PASSED"
    judged = done.json["dynamic"]["sizes"]
    assert {s["dims"] for s in judged} == {f"M={n}" for n in EDGES}
    assert {s["status"] for s in judged} == {"PASSED"}

    bundle = tmp_path / "row_sum.json"
    done = septran("export", Path(done.json["run"]).name, "-o", str(bundle))
    assert done.code == 0, done.err
    again = septran("verify", "--bundle", str(bundle))
    assert again.code == 0 and "accurate" in again.out, again.err


MAPPING = """
target: cpp
entrypoint: host
task_mappings:
  host: {task_name: relu_host, proc: HOST, tunables: {block_size: 32768}, calls: {relu: relu}}
  relu: {task_name: relu, proc: CORE, leaf_task_bindings: {relu_leaf: {kernel: mine}}}
leaf_kernels:
  mine: {dsl: cpp, symbol: mine, source: leaf.cpp}
"""
LEAF = """
static void mine(st::View<float, 1> Y, st::View<const float, 1> X) {
  const long n = Y.n[0];
  for (long j = 0; j < n; ++j) {
    const float x = X.p[j];
    Y.p[j] = ASKED ? 7.0f : (x > 0.0f ? x : (x != x ? x : 0.0f));
  }
}
"""


@pytest.mark.parametrize(
    ("asked", "at"),
    [
        ("n == 50", "N=50"),
        pytest.param("n > 5000", "N=5001", marks=pytest.mark.wider),
        pytest.param("n < 99 && n > 97", "N=98", marks=pytest.mark.wider),
    ],
)
def test_a_build_is_judged_at_the_sizes_that_its_leaves_name(septran, tmp_path: Path, asked, at):
    (tmp_path / "relu.yaml").write_text(MAPPING)
    (tmp_path / "leaf.cpp").write_text(LEAF.replace("ASKED", asked))
    done = septran(
        "gen", "--op", "relu", "--backend", "cpp", "--dim", "N=dynamic:64",
        "--mapping", str(tmp_path / "relu.yaml"), "--json",
    )  # fmt: skip
    assert done.code == 1, done.out
    assert f"(at {at})" in done.json["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "dims"),
    [
        ("gemm", "M=dynamic:200,N=70,K=50"),
        ("gemm", "M=dynamic:200,N=dynamic:70,K=dynamic:50"),
        ("layernorm", "M=dynamic:48,N=100"),
        ("rmsnorm", "M=dynamic:48,N=100"),
        ("softmax", "M=dynamic:48,N=dynamic:100"),
        ("add", "N=dynamic:5000"),
        ("gelu", "N=dynamic:5000"),
        ("transpose", "M=dynamic,N=dynamic"),
        ("conv2d", "B=dynamic,H=dynamic:9,W=dynamic:9,Ci=5,Co=7"),
        ("attention_causal", "Z=dynamic:2,S=dynamic:70,D=16"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_operators_with_open_dims_are_right_at_every_size(septran, op: str, dims: str, dtype: str):
    done = septran("gen", "--op", op, "--backend", "cpp", "--dim", dims, "--dtype", dtype, "--json")
    assert done.code == 0, done.out + done.err
    assert done.json["proof"]["refused"] == {}
    assert {s["status"] for s in done.json["dynamic"]["sizes"]} == {"PASSED"}


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (("--op", "gemm", "--backend", "triton_cuda", "--dim", "M=dynamic"), "C162", "in their text"),
        (("--op", "attention", "--backend", "cpp", "--dim", "D=dynamic"), "C162", "scale"),
        (("--op", "gemm", "--backend", "cpp", "--dim", "Q=dynamic"), "C110", "'Q'"),
        (("--op", "gemm", "--backend", "cpp", "--dim", "M=dynamic:x"), "C007", "M=x"),
        (("--op", "gemm", "--backend", "cpp", "--dim", "M=dynamic,M=dynamic"), "C007", "twice"),
    ],
)  # fmt: skip
def test_what_cannot_stay_open_is_said(septran, asked: tuple[str, ...], code: str, said: str):
    done = septran("gen", *asked)
    assert done.code == 2 and code in done.err and said in done.err, done.err


FILE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 32)

    def forward(self, x):
        return torch.relu(self.up(x))


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return []


def get_dynamic_shapes():
    return ({0: torch.export.Dim("B", max=500)},)
"""


@pytest.mark.wider
def test_a_module_file_says_which_sizes_stay_open(septran, tmp_path: Path):
    file = tmp_path / "relu.py"
    file.write_text(FILE)
    done = septran(
        "gen", "--task", str(file), "--backend", "cpp", "--dim", "B=dynamic", "--stop-after", "emit",
        "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "const long size_B = st::size(" in Path(done.json["kernel"]).read_text()
    fixed = septran(
        "gen",
        "--task",
        str(file),
        "--backend",
        "cpp",
        "--dim",
        "B=3",
        "--stop-after",
        "emit",
        "--json",
    )
    assert fixed.code == 0, fixed.err
    assert "size_B" not in Path(fixed.json["kernel"]).read_text()


@pytest.mark.wider
def test_a_module_file_with_open_sizes_is_judged_at_the_size_that_is_asked_for(
    septran, tmp_path: Path
):
    file = tmp_path / "relu.py"
    file.write_text(FILE)
    asked = ("gen", "--task", str(file), "--backend", "cpp", "--json")
    # the file's own inputs are of another size
    done = septran(*asked, "--dim", "B=64")
    assert done.code == 0 and done.json["level"] == "accurate", done.err
    done = septran(*asked, "--dim", "B=501")
    told = done.out + done.err
    assert done.code == 2 and "C111" in told and "relu is for 1 to 500" in told, told
    done = septran(*asked, "--dim", "B=dynamic", "--stop-after", "emit")
    found = json.loads((Path(done.json["run"]) / "certificate.json").read_text())
    assert found["domain"] == {"B": [1, 500]}
