"""benchmarks/gpu.py up to the launch: cells, variants, rows that survive a kill, the page, and a fake device."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu as script
from benchmarks import gpu_cells, gpu_torch
from benchmarks.gpu_report import COMMAND, Rows, fastest, page
from septran import assets, gpu
from septran.backends import get
from septran.backends.base import Backend
from septran.backends.cuda import toolchain as cuda_build
from septran.verify import timing

ABOUT = {
    "gpu": "Test GPU", "op": "gemm", "backend": "cuda_c", "arch": "sm_90a", "dtype": "float16",
    "dims": {"M": 4096, "N": 4096, "K": 4096}, "date": "2026-01-01",
}  # fmt: skip


def recorded(path: Path) -> Rows:
    rows = Rows(path)
    rows.add(
        "machine", "Test GPU", gpu="Test GPU", arch="sm_90", driver="CUDA 13.0", date="2026-01-01",
        versions={"torch": "2.13"}, left_out=["tilelang_cuda: tilelang is not installed"],
    )  # fmt: skip
    rows.add("limit", "l1", gpu="Test GPU", what="copy", value=4000.0, unit="GB/s")
    rows.add("torch", "t", **ABOUT, eager_ms=0.21, compile_ms=None, library_ms=0.19)
    plain = {**ABOUT, "torch": "t", "tflops": 600.0, "share": 0.8}
    rows.add("speed", "a", **plain, candidate="", ms=0.23, facts={"registers": 168})
    rows.add("speed", "b", **plain, candidate="128x256", ms=0.2)
    rows.add("speed", "c", **ABOUT, candidate="256x128", note="not compiled: too | much\nmemory")
    checks = {**ABOUT, "level": "accurate", "where": "device", "exit_code": 0}
    rows.add("check", "d", **checks)
    rows.add(
        "check",
        "e",
        **{**checks, "op": "softmax", "level": "rejected", "exit_code": 1, "reason": "V207"},
    )
    return rows


def test_the_page_without_a_gpu_says_so_and_how() -> None:
    text = page(Rows(Path("/nonexistent/rows.jsonl")))
    assert "No GPU has been measured yet" in text and COMMAND in text and "|" not in text


def test_the_page_from_recorded_rows(tmp_path: Path) -> None:
    text = page(recorded(tmp_path / "rows.jsonl"))
    assert "copy 4000 GB/s" in text and "2026-01-01; sm_90, driver CUDA 13.0; torch 2.13" in text
    best = next(line for line in text.splitlines() if line.startswith("| gemm | cuda_c sm_90a"))
    # the fastest variant, and torch's times over it: eager, compile (which failed), cuBLAS
    assert best.endswith("| 0.2 | 600.0 |  | 0.80 | 1.05 |  | 0.95 | 128x256 |")
    assert "1 of 2 kernels accurate on the device" in text
    assert (
        "| softmax | cuda_c sm_90a | float16 | M=4096 N=4096 K=4096 | rejected device | V207 |"
        in text
    )
    assert "not compiled: too / much memory" in text
    assert "Not run: tilelang_cuda: tilelang is not installed." in text


def test_the_page_of_the_docs_is_what_the_rows_give(tmp_path: Path) -> None:
    """Nobody writes a figure by hand; the picture of each GPU beside it shows every operator that has a limit."""
    root = Path(script.ROOT)
    rows = Rows(root / "benchmarks" / "results" / "gpu.jsonl")
    script.write_page(rows, tmp_path / "gpu-results.md")
    assert (tmp_path / "gpu-results.md").read_text() == (root / "docs/gpu-results.md").read_text()
    drawn = ""
    for picture in tmp_path.glob("*.svg"):
        assert (root / "docs" / picture.name).is_file()
        drawn += picture.read_text()
    assert all(row["gpu"] in drawn for row in rows.of("machine"))
    assert all(f"{row['op']} {row['dtype']}" in drawn for row in rows.of("speed") if "share" in row)


def test_rows_survive_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    Rows(path).add("speed", "a", ms=1.0)
    with path.open("a") as stream:
        stream.write('{"kind": "speed", "key": "b", "m')
    rows = Rows(path)
    assert rows.known("speed", "a") and rows.known("speed", "b") is None
    rows.add("speed", "b", ms=2.0)
    again = Rows(path)
    assert [row["ms"] for row in again.of("speed")] == [1.0, 2.0]
    again.add("speed", "a", ms=3.0)
    assert [row["ms"] for row in Rows(path).of("speed")] == [3.0, 2.0]  # the newest of each


def test_the_fastest_is_chosen_for_each_size_and_type(tmp_path: Path) -> None:
    rows = recorded(tmp_path / "rows.jsonl").of("speed")
    other = {**rows[0], "dims": {"M": 1, "N": 1, "K": 1}, "ms": 9.0}
    assert [row["ms"] for row in fastest([*rows, other])] == [0.2, 9.0]


def test_without_a_gpu_nothing_is_measured(
    tmp_path: Path, empty_slot: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code = script.main(["--rows", str(tmp_path / "r.jsonl"), "--page", str(tmp_path / "p.md")])
    said = capsys.readouterr().err
    assert code == 3
    assert "cuda_c: no NVIDIA GPU here (plug one in)" in said and "--dry-run" in said
    assert list(tmp_path.iterdir()) == []


def test_every_variant_of_the_data_changes_a_rule_of_a_policy() -> None:
    given = gpu_cells.settings()
    policy = gpu_cells.policy_of(
        assets.find("mappings/cuda_c.sm_90a.mapping.yaml").path.read_text()
    )
    for each in given["candidates"]:
        if each.get("backends", ["cuda_c"]) != ["cuda_c"]:
            continue
        dtype = each.get("dtypes", ["float32"])[0]
        before = json.dumps(policy)
        changed = gpu_cells.variant(policy, each, dtype)
        assert json.dumps(policy) == before  # a copy
        added = [r for r in changed["policies"]["rules"] if r not in policy["policies"]["rules"]]
        assert added and len(changed["policies"]["rules"]) == len(
            policy["policies"]["rules"]
        ) + len(added)
        new = added[-1]  # the one for all sizes
        assert {rule["match"]["dtype"] for rule in added} == {dtype}
        for key, value in each["set"].items():
            assert new[key] == value or value.items() <= new[key].items()
        assert "smaller" not in changed["policies"]  # what does not fit is refused
    with pytest.raises(LookupError):
        gpu_cells.variant(policy, {"rule": "sort", "set": {}}, "float32")


def test_a_variant_changes_the_rules_of_small_products_too() -> None:
    policy = gpu_cells.policy_of(assets.find("mappings/triton_cuda.mapping.yaml").path.read_text())
    changed = gpu_cells.variant(policy, {"rule": "gemm", "set": {"pipeline": 7}}, "float16")
    own = [r for r in changed["policies"]["rules"] if r.get("pipeline") == 7]
    ours = [
        r["match"].get("when", [])
        for r in policy["policies"]["rules"]
        if "gemm" in r["match"]["primitive"] and r["match"].get("dtype") != "float64"
    ]
    assert [r["match"].get("when", []) for r in own] == ours
    assert len(ours) >= 3 and not ours[-1]  # some for sizes only, and the rest
    rest = [r for r in changed["policies"]["rules"] if r not in own]
    assert rest == policy["policies"]["rules"]
    last = gpu_cells.variant(policy, {"rule": "*", "set": {"threads": 64}}, "float16")
    assert last["policies"]["rules"][-2]["threads"] == 64  # in its place: not before the products


def test_what_matters_most_is_measured_first() -> None:
    given = gpu_cells.settings()
    ops = gpu_cells.operators([], list(given["sizes"]))
    assert {*given["first"], *given["then"]} <= {op.name for op in ops}
    targets = [(get("cuda_c"), "sm_90a"), (get("triton_cuda"), "sm_90")]
    turns = gpu_cells.planned(ops, targets, given["dtypes"], given, small=False, candidates=True)
    plan = list(itertools.chain(*turns))
    order = [(cell.op, cell.backend, cell.dtype, cell.candidate) for _, _, cell in plan]
    assert order[:4] == [
        (op, backend, "float16", "")
        for op in ("gemm", "attention")
        for backend in ("cuda_c", "triton_cuda")
    ]
    assert (
        order[4 : 4 + 2 * len(given["then"])]
        == [entry for entry in order[4:100] if entry[0] in given["then"] and not entry[3]][
            : 2 * len(given["then"])
        ]
    )
    variant = order.index(("gemm", "triton_cuda", "float16", "128x256"))
    assert order.index(("softmax", "triton_cuda", "float16", "")) < variant
    assert variant < order.index(("gelu", "cuda_c", "float16", ""))
    assert variant < order.index(("gemm", "cuda_c", "bfloat16", ""))
    every = {
        (cell.op, backend.name, cell.dtype, cell.candidate, tuple(cell.dims.items()))
        for op in ops
        for backend, arch in targets
        for cell in gpu_cells.cells(
            op, backend, arch, given["dtypes"], given, small=False, candidates=True
        )
    }  # fmt: skip
    assert len(plan) == len(every)  # an order, nothing else


def test_sizes_name_operators_and_their_dims() -> None:
    given = gpu_cells.settings()
    ops = gpu_cells.operators([], list(given["sizes"]))
    assert [op.name for op in ops[:2]] == ["gemm", "attention"]
    assert set(given["sizes"]) <= {op.name for op in ops}
    for op in ops:
        for dims in gpu_cells.sizes(op, given, small=False):
            assert set(dims) == set(op.dims), op.name


def options(folder: Path, *more: str) -> list[str]:
    return [
        "--rows", str(folder / "rows.jsonl"), "--page", str(folder / "page.md"),
        "--backends", "cuda_c", "--only", "row_sum", "--dtypes", "float32", "--small", "--jobs", "1", *more,
    ]  # fmt: skip


@pytest.mark.wider
@pytest.mark.skipif(cuda_build.nvcc() is None, reason="needs nvcc")
def test_a_dry_run_compiles_and_goes_on_where_it_was(
    tmp_path: Path, empty_slot: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(options(tmp_path, "--dry-run", "--no-variants")) == 0
    assert "row_sum/cuda_c.sm_90a" in capsys.readouterr().out
    row = Rows(tmp_path / "rows.jsonl").of("built")[0]
    assert row["facts"]["registers"] > 0 and row["note"] == ""
    assert not (tmp_path / "page.md").exists()  # nothing was measured
    assert script.main(options(tmp_path, "--dry-run", "--no-variants")) == 0
    assert capsys.readouterr().out == ""
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only torch on a GPU can do is written down as a recording."""

    def limits(self: script.Session) -> None:
        self.rows.add("limit", "copy", gpu=self.name, what="copy", value=10.0, unit="GB/s")

    def torch_times(self: script.Session, cell: Any, problem: Any) -> str:
        self.rows.add("torch", "t", gpu=self.name, eager_ms=1.0)
        return "t"

    monkeypatch.setattr(script.Session, "_limits", limits)
    monkeypatch.setattr(script.Session, "_torch", torch_times)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(
        timing,
        "gpu_slot_of",
        lambda problem, inputs, found: timing.torch_slots(problem, [inputs], processor_time=False)[
            "fn"
        ],
    )


@pytest.mark.wider
def test_a_device_is_measured_from_the_check_to_the_page(
    tmp_path: Path, device_cuda_c: Backend, measuring: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(options(tmp_path, "--no-variants")) == 0, capsys.readouterr().out
    rows = Rows(tmp_path / "rows.jsonl")
    assert {(row["level"], row["where"]) for row in rows.of("check")} == {("accurate", "device")}
    assert len(rows.of("check")) == 2  # sample and odd dims
    (row,) = rows.of("speed")
    assert row["ms"] > 0 and row["gbytes"] > 0 and row["torch"] == "t", row
    assert row["share"] == pytest.approx(row["gbytes"] / 10.0)
    text = (tmp_path / "page.md").read_text()
    assert "## Fake GPU" in text and "2 of 2 kernels accurate" in text and "| row_sum |" in text
    size = (tmp_path / "rows.jsonl").stat().st_size
    capsys.readouterr()
    assert script.main(options(tmp_path, "--no-variants")) == 0
    assert "row_sum" not in capsys.readouterr().out  # resumed: only the machine's row is new
    added = (tmp_path / "rows.jsonl").read_bytes()[size:].decode().splitlines()
    assert {json.loads(line)["kind"] for line in added} <= {"machine", "limit"}


@pytest.mark.wider
def test_a_cell_that_fails_leaves_the_others_alone_and_is_tried_again(
    tmp_path: Path,
    device_cuda_c: Backend,
    measuring: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measure = timing.measure

    def burst(kernel: Any, *args: Any, **more: Any) -> Any:
        if "row_max" in kernel.source:
            raise MemoryError("the GPU is full")
        return measure(kernel, *args, **more)

    monkeypatch.setattr(timing, "measure", burst)
    both = options(
        tmp_path, "--no-variants", "--no-check", "--only", "row_max,row_sum", "--jobs", "4"
    )
    assert script.main(both) == 1
    assert "MemoryError: the GPU is full" in capsys.readouterr().out
    assert [row["op"] for row in Rows(tmp_path / "rows.jsonl").of("speed")] == ["row_sum"]
    assert "### Not measured" in (tmp_path / "page.md").read_text()
    monkeypatch.setattr(timing, "measure", measure)
    assert script.main(both) == 0
    assert len(Rows(tmp_path / "rows.jsonl").of("speed")) == 2
    assert "Not measured" not in (tmp_path / "page.md").read_text()


def test_no_cell_begins_when_the_time_is_over(
    tmp_path: Path, device_cuda_c: Backend, measuring: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(options(tmp_path, "--minutes", "0")) == 1
    assert "left; run again to go on" in capsys.readouterr().out
    rows = Rows(tmp_path / "rows.jsonl")
    assert not rows.of("check") and not rows.of("speed") and (tmp_path / "page.md").is_file()


def test_a_way_of_torch_that_takes_for_ever_is_given_up() -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"0\.2 s"), gpu_torch.within(0.2):
        time.sleep(30)
    assert time.monotonic() - start < 20
    with gpu_torch.within(0.2):
        pass
    time.sleep(0.4)  # no alarm is left behind


@pytest.mark.slow  # the search for the culprit compiles a lot
def test_a_kernel_that_is_wrong_on_the_device_is_not_timed(
    tmp_path: Path,
    device_cuda_c: Backend,
    plugged_in: gpu.Gpu,
    measuring: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = device_cuda_c.print_kernel

    def emit(program: Any, leaves: Any) -> Any:
        kernel = broken(program, leaves)
        text = kernel.source.replace("blockIdx.x", "(blockIdx.x / 2)")
        return kernel.with_files({n: text if n == kernel.main else t for n, t in kernel.files})

    from dataclasses import replace

    from septran.backends.cuda import backend as cuda_c

    monkeypatch.setattr(cuda_c, "CUDA_C", replace(device_cuda_c, print_kernel=emit))
    assert get("cuda_c").print_kernel is emit
    assert script.main(options(tmp_path, "--no-variants")) == 1
    rows = Rows(tmp_path / "rows.jsonl")
    assert rows.of("speed") == []
    assert any(row["exit_code"] == 1 for row in rows.of("check"))
