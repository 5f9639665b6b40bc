"""Suites: every row names something that exists, mistakes have a place, and a page says what is held and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import assets
from septran.errors import ConfigError
from septran.plan.resolve import GenRequest, resolve
from septran.run.bench import Figure
from septran.run.bench_call import CALLS
from septran.run.bench_module import MODULES
from septran.run.suite import (
    Measured,
    Row,
    Suite,
    SuiteMeasured,
    figures_of,
    load_suite,
    measure,
)
from septran.run.suite_page import bound, page
from septran.settings import load
from tests.cli.conftest import septran as septran

FIGURE = Figure(
    op="softmax", backend="cpp", arch="native", dims={"M": 4}, dtype="float32", threads=1,
    level="accurate", where="native", kernel_us=10.0, torch_us=20.0,
    speedup={"torch_eager": 1.5, "torch_compile": None}, call_us=2.0, reused=1.6, reliable=True,
    baseline="fn", low=1.4, high=1.6, gflops=None, gbytes_per_s=9.0, limit_share=0.8,
    limited_by="memory", limit_reason=None, cycles=None, reason=None, run=None, exit_code=0,
)  # fmt: skip
ROW = Row(op="softmax", dims={"M": 4}, gate=1.2, goal=2.0)


@pytest.mark.parametrize(
    "name",
    [Path(a.name).stem for a in assets.listing("configs/suites")],
)
def test_rows_of_shipped_suites_exist(name):
    suite = load_suite(name)
    labels = [row.label for row in suite.rows]
    assert len(set(labels)) == len(labels) > 0
    for row in suite.rows:
        assert (row.gate is None) != (row.cycles is None)
        assert row.goal is None or row.goal >= row.gate
        if row.module or row.call:
            known = MODULES if row.module else CALLS
            assert set(row.dims) == set(known[row.name][0])
            continue
        if row.mean:
            continue
        backend = row.backend or suite.backend
        plan = resolve(GenRequest(op=row.op, backend=backend, dims=row.dims, dtype=row.dtype))
        assert set(row.dims) <= set(plan.dims)


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("rows: []", "mapping of backend and rows", 1),
        ("backend: cpp\nrows: []\nrow: 1", "no key 'row'", 3),
        ("backend: cpp\nrows:\n  - {op: add, gates: 1}", "did you mean 'gate'", 3),
        ("backend: cpp\nrows:\n  - {op: add, dims: {N: 0}, gate: 1}", "names an op", 3),
        ("backend: cpp\nrows:\n  - {op: add}", "gate is a number", 3),
        ("backend: cpp\nrows:\n  - {op: add, gate: 1, goal: fast}", "goal is a number", 3),
        ("backend: cpp\nrows:\n  - add", "a row is a mapping", 3),
        ("backend: cpp\nrows:\n  - {module: linar, gate: 1}", "did you mean 'linear'", 3),
        ("backend: cpp\nrows:\n  - {module: linear, dims: {M: 8}, gate: 1}", "sizes M, K, N", 3),
        ("backend: cpp\nrows:\n  - {module: linear, op: add, gate: 1}", "names an op", 3),
        ("backend: cpp\nrows:\n  - {call: add_givn, gate: 1}", "did you mean 'add_given'", 3),
        ("backend: cpp\nrows:\n  - {mean: add, gate: 1}", "no row above is one of 'add'", 3),
        ("backend: cpp\nrows:\n  - {op: add, gate: 1, cycles: 3}", "in place of a gate", 3),
        ("backend: cpp\nrows:\n  - {op: add, cycles: 0}", "cycles is a number above 0", 3),
        ("backend: cpp\nwhere: here\nrows: []", "where is auto or device", 2),
    ],
)
def test_mistakes_have_a_place(tmp_path, text, said, line):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        load_suite(str(path))
    assert caught.value.codes == ("C069",)
    span = caught.value.diagnostics[0].span
    assert span is not None and span.line == line


def test_a_suite_that_is_not_there():
    with pytest.raises(ConfigError, match="cpuu"):
        load_suite("cpuu")


def test_held_missed_and_open():
    figure = {
        "held": FIGURE,
        "missed": replace(
            FIGURE, speedup={"torch_eager": 1.0, "torch_compile": None}, low=0.9, high=1.1
        ),
        "open": replace(
            FIGURE, speedup={"torch_eager": 1.25, "torch_compile": None}, low=1.1, high=1.3
        ),
    }
    found = {word: Measured(row=ROW, figure=f) for word, f in figure.items()}
    assert {w: m.held for w, m in found.items()} == {"held": True, "missed": False, "open": None}
    for word, measured in found.items():
        assert page(load_suite("cpu"), (measured,), "A machine.").count(f"| {word} |") == 1
    assert bound(found["missed"]) == "80 % of the machine's memory limit"
    assert "interval includes the gate" in bound(found["open"])


def test_a_row_without_a_figure_stays_on_the_page():
    lost = Measured(row=ROW, figure=None, reason="error[V110]: no compiler")
    text = page(load_suite("cpu"), (lost,), "A machine.")
    assert "- softmax M=4: error[V110]: no compiler" in text
    assert lost.to_json()["held"] is None


def counted(total: int) -> Measured:
    figure = replace(
        FIGURE, kernel_us=None, speedup={"torch_eager": None, "torch_compile": None}, limited_by="MMA",
        cycles={"total": total},
    )  # fmt: skip
    return Measured(row=Row(op="gemm", dims={}, cycles=1000), figure=figure, earlier=1500.0)


def test_what_a_simulator_counts_is_held_to_cycles():
    from septran.report.suite import html

    suite = Suite(name="dsa", backend="dsa_c", rows=(counted(900).row,))
    for total, held in ((900, True), (1000, True), (1001, False)):
        found = counted(total)
        assert found.held is held and found.against_earlier == 1500 / total
        text = page(suite, (found,), "A machine.")
        assert f"| gemm | {total:,} cycles |" in text and "not measured" not in text
        data = SuiteMeasured(suite="dsa", backend="dsa_c", machine={}, rows=[found.to_json()])
        drawn = html(data.to_json(), "A machine.", [bound(found)])
        assert f"{total:,} cycles" in drawn and "1,000 cycles" in drawn
        assert ("missed" if not held else "held") in drawn and "not measured" not in drawn


def test_a_mean_is_the_geometric_one_of_its_rows(tmp_path, monkeypatch):
    from septran.run import suite as suites

    path = tmp_path / "mine.yaml"
    path.write_text(
        "backend: cpp\nrows:\n  - {op: gelu, dims: {N: 1}, gate: 1}\n"
        "  - {op: gelu, dims: {N: 2}, gate: 1}\n  - {mean: gelu, gate: 1.5}\n"
    )
    given = iter((2.0, 8.0))

    def benched(request, **_):
        middle = next(given)
        speed = {"torch_eager": middle, "torch_compile": None}
        yield replace(FIGURE, speedup=speed, low=middle / 2, high=2 * middle)

    monkeypatch.setattr(suites, "bench", benched)
    found = list(measure(load_suite(str(path)), settings=load(), progress=print))
    assert found[-1].mean == pytest.approx((4.0, 2.0, 8.0)) and found[-1].held
    assert found[-1].row.label == "mean of gelu" and found[-1].to_json()["held"]
    monkeypatch.setattr(
        suites, "bench", lambda request, **_: iter([replace(FIGURE, speedup={"torch_eager": None})])
    )
    lost = list(measure(load_suite(str(path)), settings=load(), progress=print))[-1]
    assert not lost.known and "gelu N=1 has no figure" in lost.reason


def test_rows_are_chosen_by_name_and_long_ones_only_when_asked_for():
    suite = load_suite("cpu")
    plain, long = suite.only([], long=False), suite.only([], long=True)
    assert long == suite and {r.name for r in long.rows} > {r.name for r in plain.rows}
    assert {r.name for r in suite.only(["conv2d_n*", "gemm"], long=False).rows} == {
        "gemm", "conv2d_nchw", "conv2d_nchw_winograd",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="no row of gem"):
        suite.only(["gem"], long=False)


def test_a_suite_takes_op_and_refuses_what_its_rows_say(septran):
    for flags in (
        ("--dim", "M=3"),
        ("--backend", "cpp"),
        ("--dtype", "float16"),
        ("--size", "M=3"),
    ):
        found = septran("bench", "--suite", "cpu", *flags)
        assert found.code == 2 and f"--suite and {flags[0]} exclude each other" in found.err
    found = septran("bench", "--suite", "cpu", "--op", "gem", "--json")
    assert found.code == 2 and found.json["errors"][0]["code"] == "C069"


def test_a_suite_of_devices_says_that_there_is_none(septran, monkeypatch):
    from septran import gpu

    monkeypatch.setattr(gpu, "find", lambda vendor: gpu.Missing(detail="no GPU", install="buy"))
    found = septran("bench", "--suite", "gpu", "--json")
    assert found.code == 3 and found.json["errors"][0]["code"] == "V113"


def test_one_row_of_a_simulator(septran, tmp_path):
    out = tmp_path / "dsa.json"
    found = septran("bench", "--suite", "dsa", "--op", "add", "-o", str(out))
    assert found.code == 0 and "10,266 cycles" in found.out
    again = septran("bench", "--suite", "dsa", "--op", "add", "--against", str(out), "--json").json
    (row,) = again["rows"]
    assert row["held"] and row["against_earlier"] == 1.0 and row["most_cycles"] == 10266


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_calls_of_suites_are_measured(name):
    sizes = {"N": 100, "B": 1, "H": 8, "W": 8, "Ci": 16, "Co": 16}
    from septran.run.bench_call import bench_call

    dims = {n: sizes[n] for n in CALLS[name][0]}
    found = bench_call(name, dims, "cpp", None, settings=load(flags={"threads": 1}))
    assert found.speedup["torch_eager"] and found.low and found.dims == dims


def test_the_roofline_has_a_point_for_what_moves_and_computes():
    from septran.report.suite import html

    def drawn(figure):
        row = Measured(row=ROW, figure=figure).to_json()
        found = {"suite": "mine", "backend": "cpp", "rows": [row]}
        return html(found, "A machine.", ["80 % of the limit"])

    assert "<svg" not in drawn(FIGURE)  # its work is not known
    text = drawn(replace(FIGURE, gflops=12.0))
    assert "<svg" in text and text.count("softmax M=4") == 2 and "80 % of the limit" in text


@pytest.mark.slow
def test_a_module_is_measured_with_its_weights_prepared(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "backend: cpp\nrows:\n  - {module: linear_gelu, dims: {M: 3, K: 64, N: 64}, gate: 0.001}"
    )
    (found,) = measure(load_suite(str(path)), settings=load(flags={"threads": 1}), progress=print)
    assert found.held and found.figure is not None, found.reason
    assert found.figure.threads == 1 and found.figure.kernel_us
    again = figures_of(
        SuiteMeasured(suite="mine", backend="cpp", machine={}, rows=[found.to_json()]).to_json(),
        path,
    )
    assert again == {"module linear_gelu M=3 K=64 N=64": found.figure}
