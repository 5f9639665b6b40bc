"""Suites: every row names something that exists, mistakes have a place, and a page says what is held and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import assets
from septran.errors import ConfigError
from septran.plan.resolve import GenRequest, resolve
from septran.run.bench import Figure
from septran.run.bench_module import MODULES
from septran.run.suite import (
    Measured,
    Row,
    SuiteMeasured,
    bound,
    figures_of,
    load_suite,
    measure,
    page,
)
from septran.settings import load

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
        assert row.goal is None or row.goal >= row.gate
        if row.module:
            assert set(row.dims) == set(MODULES[row.module][0])
            continue
        plan = resolve(GenRequest(op=row.op, backend=suite.backend, dims=row.dims, dtype=row.dtype))
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
