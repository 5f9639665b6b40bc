"""The cycle report is a result: in the verdict, the card, bench and reports, and never one that cannot be."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from septran import settings as settings_
from septran.backends.dsa.cycles import QUEUES, possible
from septran.cli.card import cycle_rows
from septran.kernel import Kernel
from septran.passes.pipeline_loops import pipeline_loops
from septran.plan.resolve import GenRequest
from septran.report.data import read_report
from septran.report.write import write_report
from septran.run import store
from septran.run.bench import BenchRequest, bench
from septran.run.gen import Result, gen
from septran.verify.figures import believed, read_figures
from tests.backends.dsa_c_tools import kernel_of, run_text
from tests.backends.dsa_programs import gemm

REQUEST = GenRequest(op="gemm", backend="dsa_c", dims={"M": 64, "N": 48, "K": 65})


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> settings_.Settings:
    return replace(settings_.load(flags={}), home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def made(here: settings_.Settings) -> Result:
    return gen(REQUEST, settings=here, progress=lambda _: None)


def test_the_verdict_holds_it(made: Result) -> None:
    cycles = made.data["cycles"]
    assert made.data["level"] == "accurate"
    assert cycles["total"] > 0 and cycles["cores"] == 4 and not cycles["varies"]
    assert tuple(cycles["queues"]) == QUEUES
    assert cycles["macs"] == 64 * 48 * 65
    for queue in cycles["queues"].values():
        assert queue["utilisation"] == round(queue["busy"] / (4 * cycles["total"]), 4)
    inputs, outputs = 4 * (64 * 65 + 65 * 48), 4 * 64 * 48
    assert cycles["queues"]["STORE"]["bytes"] == outputs
    assert cycles["queues"]["LOAD"]["bytes"] >= inputs
    assert cycles["bytes_moved"] == sum(q["bytes"] for q in cycles["queues"].values())
    stored = json.loads((Path(made.data["run"]) / "verify" / "verdict.json").read_text())
    assert stored["cycles"] == cycles


def test_the_card_says_it_in_two_lines(made: Result) -> None:
    lines = dict(cycle_rows(made.data["cycles"]))
    assert " on 4 cores; busy: " in lines["cycles"] and "MMA" in lines["cycles"]
    assert "% of the matrix bound" in lines["overlap"]
    assert cycle_rows({}) == []


def test_bench_counts_cycles_and_not_time(here: settings_.Settings) -> None:
    request = BenchRequest(kernel=REQUEST)
    (figure,) = bench(request, settings=here, progress=lambda _: None)
    assert figure.kernel_us is None and figure.speedup["torch_eager"] is None
    engine = figure.limited_by
    assert figure.cycles is not None and engine is not None
    used = {name: q["utilisation"] for name, q in figure.cycles["queues"].items()}
    assert used[engine] == max(used.values()) == pytest.approx(figure.limit_share, rel=1e-3)


def test_reports_draw_it(made: Result, here: settings_.Settings) -> None:
    report = read_report(store.find(str(made.data["run"]), store.root(here)))
    page = write_report(report, "html")
    assert "<h2>Cycles</h2>" in page
    picture = page[page.index("<h2>Cycles</h2>") :]
    picture = picture[picture.index("<svg") : picture.index("</svg>")]
    assert "currentColor" in picture and "#010203" not in picture  # readable on light and on dark
    assert all(name in picture for name in QUEUES)
    total = made.data["cycles"]["total"]
    assert f"gemm 64 48 65 float32: {total:,}".replace(",", " ") in picture
    text = write_report(report, "md")
    assert f"| {total} |" in text[text.index("## Cycles") :]
    assert json.loads(write_report(report, "json"))["rows"][0]["cycles"] == made.data["cycles"]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kernel, dict[str, Any]]:
    import numpy as np

    kernel = kernel_of(pipeline_loops(gemm(pipeline=2)))
    arrays = [np.ones(p.shape, np.float32) for p in kernel.params]
    raw = run_text(kernel, tmp_path_factory.mktemp("honest"), arrays)[1]
    raw.pop("errors")
    return kernel, raw


Change = Callable[[dict[str, Any]], None]
FORGED: dict[str, tuple[Change, str]] = {
    "no time at all": (lambda r: r.update(cycles=0), r"is busy for \d+ of 0 cycles"),
    "half the time": (
        lambda r: r.update(cycles=r["queues"]["MMA"]["busy"] // 8),
        r"(VEC|MMA|LOAD) is busy for",
    ),
    "more cores": (lambda r: r.update(cores=64), "64 cores on a machine of 4"),
    "a negative count": (lambda r: r["queues"]["VEC"].update(busy=-1), "busy is -1"),
    "not a count": (lambda r: r.update(cycles="few"), "cycles is 'few'"),
    "nothing stored": (
        lambda r: r["queues"]["STORE"].update(bytes=0),
        "STORE moves 0 bytes, the outputs have 12288",
    ),
    "too many bytes": (
        lambda r: r["queues"]["LOAD"].update(bytes=10**9),
        "LOAD moves 1000000000 bytes in too few cycles",
    ),
    "too many products": (lambda r: r.update(macs=10**12), "1000000000000 multiply-adds"),
    "a better bound": (
        lambda r: r.update(mma_ideal=2 * r["queues"]["MMA"]["busy"]),
        "multiply-adds in",
    ),
    "no queues": (lambda r: r.pop("queues"), "queues"),
}


@pytest.mark.parametrize("name", FORGED)
def test_an_impossible_report_is_left_out(name: str, honest: tuple[Kernel, dict[str, Any]]) -> None:
    kernel, raw = honest
    assert possible(raw, kernel)["total"] == raw["cycles"]
    change, message = FORGED[name]
    forged = copy.deepcopy(raw)
    change(forged)
    found, why = believed(forged, kernel, possible)
    assert found == {}
    import re

    assert re.search(rf"the simulator's report is impossible \(.*{message}", why), why


def _write(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (lambda path: None, {}),
        (_write("nonsense"), {}),
        (_write("[1, 2]"), {}),
        (_write('{"a": NaN, "b": 1e400, "c": [1], "d": null, "e": 3}'), {"e": 3}),
        (_write('{"a": "' + 70_000 * "x" + '"}'), {}),
        (_write('{"a": "' + 500 * "x" + '"}'), {"a": 200 * "x"}),
        (_write(2000 * '{"a":' + "1" + 2000 * "}"), None),
        (lambda path: path.symlink_to("/etc/hostname"), {}),
    ],
)
def test_the_child_s_file_is_read_with_care(
    make: Callable[[Path], object], want: Mapping[str, Any] | None, tmp_path: Path
) -> None:
    make(tmp_path / "figures.json")
    found = read_figures(tmp_path)
    if want is not None:
        assert found == want
    assert len(json.dumps(found)) < 1000


@pytest.mark.parametrize(
    "body",
    [
        "vendor_lib_bind(0, 0, 0, 1);",
        "vendor_lib_report();",
        "((char *)vendor_lib_report())[0] = 0;",
        "vl_at(0);",
        "vl_me = 0;",
    ],
)
def test_a_leaf_may_not_name_the_simulator_s_own(body: str) -> None:
    from septran.leafgate import Refusal
    from septran.leafgate.cleaf import print_body

    with pytest.raises(Refusal):
        print_body(f"{{ {body} }}", names=("C",), of="c")
    assert print_body("{ vendor_lib_fill(vl_matrix(C), 0); }", names=("C",), of="c")
