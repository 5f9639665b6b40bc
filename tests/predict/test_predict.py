"""`septran predict`: times that follow from a Program and its machine's file, and none where a figure is missing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from septran.ir.text import parse_program
from septran.ir.visits import alike, visits
from septran.machine import Machine, load_machine
from septran.mapping.space import with_values
from septran.plan import catalog
from septran.plan.cores import cores
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.predict.predict import predict
from septran.predict.prediction import Prediction, summary
from septran.run.predict import predicted, predicted_of
from tests.packaging.sources import ROOT

FILE = """name: dsa_c.odd
procs: [HOST, CLUSTER, CORE]
memories:
  GLOBAL: {visible_from: HOST}
  SHARED: {capacity: 524288, visible_from: CORE}
  REGISTER: {capacity: 131072, visible_from: CORE}
limits: {cores: 4, vec_bytes: 64}
"""
ROWS = """program rows target=cpp arch=native machine=cpp.x86_64
options {}
param w Y: GLOBAL float32[64, 256]
param r X: GLOBAL float32[64, 256]
  for i0 in 16 on CORE parallel
    leaf twice <auto> calls leaf_twice
    | w Y = Y[(i0 * 4):+4, 0:+256]
    | r X = X[(i0 * 4):+4, 0:+256]
    | prim {"name": "map", "out": "Y", "ins": [], "named": {"x": "X"}, "attrs": {"expr": "EXPR"}}
"""

ALONG = """program along target=cpp arch=native machine=cpp.x86_64
options {}
param w Y: GLOBAL OUT
param r X: GLOBAL float32[64, 256]
param r I: GLOBAL int64[64, 256]
  for i0 in 16 on CORE parallel
    leaf walk <auto> calls leaf_walk
    | w Y = Y[(i0 * 4):+4, 0:+WIDE]
    | r X = X[(i0 * 4):+4, 0:+256]
    | r I = I[(i0 * 4):+4, 0:+256]
    | prim {"name": "NAME", "out": "Y", "ins": INS, "named": {}, "attrs": {"axis": 1, "op": "max"}}
"""

PIECES = """program cols target=cpp arch=native machine=cpp.x86_64
options {}
param w Y: GLOBAL float32[64, 1024]
param r X: GLOBAL float32[64, 1024]
  for i0 in BLOCKS on CORE parallel
    leaf twice <auto> calls leaf_twice
    | w Y = Y[0:+64, (i0 * WIDE):+WIDE]
    | r X = X[0:+64, (i0 * WIDE):+WIDE]
    | prim {"name": "map", "out": "Y", "ins": [], "named": {"x": "X"}, "attrs": {"expr": "x + x"}}
"""


def told(op: str, backend: str, **dims: int) -> Prediction:
    return predicted(GenRequest(op=op, backend=backend, dims=dims)).prediction


def told_with(op: str, values: dict[str, object], **dims: int) -> Prediction:
    plan = resolve(GenRequest(op=op, backend="cpp", dims=dims, tuned=False))
    mapping = with_values(lower_plan(plan).bound.mapping, values)
    return predicted_of(plan, lower_plan(replace(plan, mapping=mapping))).prediction


def rows(machine: Machine, expr: str, *, between: int = 1000, threads: int = 1) -> Prediction:
    program = parse_program(ROWS.replace("EXPR", expr))
    return predict(program, machine, threads=threads, between=between)


@pytest.fixture
def cpp() -> Machine:
    return load_machine("cpp.x86_64")


def test_a_command_line_says_time_and_bound(septran):
    found = septran("predict", "--op", "gemm", "--backend", "dsa_c", "--json").json
    assert found["schema"] == "septran.predict/1" and found["bound"] == "MMA"
    assert found["ticks"] > found["parts"]["MMA"] == 131072  # 512 cubed / 256 a cycle / 4 cores
    assert found["flops"] == 2 * 512**3
    # A and B once per column and row of blocks (4 of each), C once
    assert found["traffic"]["GLOBAL"] == 4 * (4 + 4 + 1) * 512 * 512
    text = septran("predict", "--op", "gemm", "--backend", "dsa_c").out
    assert f"{found['ticks']:,} cycles, bound by MMA" in text


STEPS = """program steps target=cpp arch=native machine=cpp.x86_64
options {}
param w Y: GLOBAL float32[100, 8]
param r X: GLOBAL float32[100, 8]
  for i in 13 on CORE parallel
    when 1 <= i < 13
      copy Y[(i * 8):+min(8, (100 - (i * 8)))<=8, 0:+8] <- X[(i * 8):+min(8, (100 - (i * 8)))<=8, 0:+8]
    for j in COUNT
      copy Y[0:+1, j:+1] <- X[0:+1, j:+1]
"""


def test_iterations_that_do_the_same_are_counted_together():
    (loop,) = parse_program(STEPS.replace("COUNT", "2")).body
    runs = list(alike(loop.body, "i", 13, {}))
    assert runs[0] == (0, 1) and runs[-1] == (12, 1) and sum(count for _, count in runs) == 13
    assert sum(count for _, count in alike(loop.body, "i", 10**9, {})) == 10**9
    found = [(times, dict(env)) for _, env, times in visits((loop,))]
    assert sum(t for t, _ in found) == 12 + 13 * 2
    # where an inner loop has a say each is its own, or a sample stands for those around it
    (mixed,) = parse_program(STEPS.replace("COUNT", "(i + 1)")).body
    assert sum(t for _, _, t in visits((mixed,))) == 12 + 13 * 14 // 2


@pytest.mark.parametrize(
    "asked",
    [
        ("gemm", "cpp", "", {"M": 10_000_000}),
        ("gemm", "dsa_c", "bm1684x", {"M": 10_000_000}),
        ("gemm", "cuda_c", "", {"M": 10_000_000}),
        pytest.param(("attention_causal", "cpp", "", {"S": 200_000}), marks=pytest.mark.wider),
    ],
)
def test_a_prediction_takes_no_longer_for_larger_sizes(asked, monkeypatch):
    """Statements that are looked at, not seconds: a few thousand whatever the size (a causal mask: so many for each of 64 rows of tiles)."""
    from septran.predict import caches, cost, windows

    looked = []
    for module in (caches, windows, cost):
        real = module.ticks
        monkeypatch.setattr(module, "ticks", lambda *a, real=real: looked.append(1) or real(*a))
    op, backend, arch, dims = asked
    request = GenRequest(op=op, backend=backend, arch=arch or None, dims=dims)
    found = predicted(request).prediction
    assert found.ticks and len(looked) < 40_000


@pytest.mark.parametrize(
    ("backend", "arch", "tflops"),
    [("hip_c", "gfx942", 1307), ("triton_hip", "gfx942", 1307), ("tilelang_hip", "gfx942", 1307),
     ("hip_c", "gfx950", 2517), ("triton_hip", "gfx950", 2517)],
)  # fmt: skip
def test_gpus_of_data_sheets_take_no_less_than_their_peak(backend, arch, tflops):
    size = 8192
    request = GenRequest(
        op="gemm", backend=backend, arch=arch, dims=dict.fromkeys("MNK", size), dtype="float16"
    )
    found = predicted(request)
    least = 2 * size**3 / (tflops * 1e12)
    assert found.prediction.seconds is not None
    assert 0.99 * least < found.prediction.seconds < 4 * least
    assert "unmeasured" in " ".join(found.to_json()["sources"])


def test_a_machine_without_figures_has_an_unknown_bound(septran):
    found = septran("predict", "--op", "gemm", "--backend", "tilelang_npuir")
    assert found.code == 3
    assert "unknown bound: configs/machines/tilelang_npuir.910b.yaml has no `speed:`" in found.out


def windowed(septran, folder: Path, depth: int, op: str, *dims: str) -> int:
    """Return the BM1684X's ticks where its policy says `pipeline: depth`."""
    name = "mappings/dsa_c.bm1684x.mapping.yaml"
    (folder / "mappings").mkdir(parents=True)
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "pipeline: 2" in text
    (folder / name).write_text(text.replace("pipeline: 2", f"pipeline: {depth}"), encoding="utf-8")
    args = [x for dim in dims for x in ("--dim", dim)]
    command = ("predict", "--op", op, "--backend", "dsa_c", "--arch", "bm1684x")
    found = septran(*command, "--dtype", "bfloat16", *args, "--project", str(folder), "--json").json
    assert found["facts_of"].endswith("never measured") and found["threads"] == 1
    return int(found["ticks"])


@pytest.mark.parametrize(("op", "dims"), [("gemm", ()), ("attention", ("S=1024",))])
def test_copies_in_windows_of_products_take_less_time(op, dims, septran, tmp_path):
    serial, beside = (windowed(septran, tmp_path / str(n), n, op, *dims) for n in (1, 2))
    assert beside < serial


def test_one_step_has_nothing_to_load_ahead(septran, tmp_path):
    serial, beside = (windowed(septran, tmp_path / str(n), n, "gemm", "K=256") for n in (1, 2))
    assert beside == serial


def test_a_wrong_engine_of_windows_is_told(septran, in_tmp):
    name = "configs/machines/dsa_c.bm1684x.yaml"
    text = (ROOT / name).read_text(encoding="utf-8").replace("engine: MMA", "engine: MUL")
    (in_tmp / "configs/machines").mkdir(parents=True)
    (in_tmp / name).write_text(text, encoding="utf-8")
    found = septran(
        "predict", "--op", "gemm", "--backend", "dsa_c", "--arch", "bm1684x", "--project", "."
    )
    assert found.code == 2 and "engine is one of this section's engines" in found.err


def test_a_gpu_that_is_not_here_has_a_time_a_bound_and_reasons(septran):
    args = ("predict", "--op", "gemm", "--backend", "cuda_c", "--dim", "M=8192", "--dim", "N=8192")
    found = septran(*args, "--dim", "K=8192", "--dtype", "bfloat16", "--json").json
    assert found["bound"] == "arithmetic" and found["seconds"] > 0
    # 312 Tflop/s at the most, whatever else is predicted
    assert found["flops"] / found["seconds"] < 312.2e12
    assert "4096 blocks of 256 threads on 108 multiprocessors" in found["why"][0]
    text = septran("predict", "--op", "gemm", "--backend", "cuda_c").out
    assert (
        "predicted" in text
        and "16 blocks of 256 threads" in text
        and "limited by registers" in text
    )


@pytest.mark.parametrize(
    "backend",
    [
        "triton_cuda",
        *(pytest.param(b, marks=pytest.mark.wider) for b in ("cuda_c", "tilelang_cuda")),
    ],
)
def test_a_large_pointwise_operator_is_bound_by_the_memory_of_a_gpu(backend):
    found = told("add", backend, N=100_000_000)
    assert found.bound == "DRAM"
    assert found.seconds is not None and 12 * 100_000_000 / found.seconds < 3.35e12
    small = told("add", backend, N=10_000)
    assert small.bound == "launch" and small.ticks is not None


@pytest.mark.parametrize("backend", ["cuda_c", "triton_cuda", "tilelang_cuda"])
def test_blocks_that_have_more_to_do_than_others_count_by_their_mean(backend):
    """Causal attention does about half: the first block has one step, the last one all of them."""
    whole, causal = (
        told(op, backend, Z=16, S=4096, D=128).parts["arithmetic"]
        for op in ("attention", "attention_causal")
    )
    assert 0.5 < causal / whole < 0.7


@pytest.mark.wider
def test_kernels_that_ran_on_a_gpu_are_predicted_as_the_docs_say():
    from benchmarks.predicted import PAGE, on_gpu

    text = on_gpu(ROOT / "benchmarks" / "results" / "gpu.jsonl")
    assert f"<!-- predicted gpu -->\n{text}\n<!-- end -->" in PAGE.read_text()
    policies, variants = text.splitlines()[-2:]
    for said, most, rank in ((policies, 25.0, 0.8), (variants, 25.0, 0.8)):
        figures = re.search(r"median ([\d.]+)%.* rank correlation ([\d.]+)\.", said)
        assert figures and float(figures[1]) < most and float(figures[2]) > rank, said


def test_more_products_take_longer_and_few_blocks_leave_multiprocessors_idle():
    one, many = (told("gemm", "cuda_c", M=m, N=512, K=512) for m in (512, 8192))
    assert one.ticks and many.ticks and one.ticks < many.ticks < 16 * one.ticks
    assert any("15% of them work" in sentence for sentence in one.why)


def test_products_of_bfloat16_have_a_time_on_a_cpu():
    narrow, wide = (
        predicted(GenRequest(op="gemm", backend="cpp", dtype=dtype)).prediction
        for dtype in ("bfloat16", "float32")
    )
    assert narrow.bound == "arithmetic" and narrow.ticks and wide.ticks
    assert narrow.ticks < wide.ticks


def test_short_pieces_of_rows_are_read_more_slowly_than_whole_rows(cpp):
    def summed(columns: int) -> float:
        text = PIECES.replace("BLOCKS", str(1024 // columns)).replace("WIDE", str(columns))
        return predict(parse_program(text), cpp, threads=1, between=1 << 23).ticks or 0.0

    whole, half, short = summed(1024), summed(512), summed(64)
    # one piece a row and block: 64 rows of 2, and of 16 pieces; a block gives out two statements
    assert half - whole == pytest.approx(9 * 2 * 64 + 25 * 2, abs=60)
    assert short - whole > 9 * 16 * 64


def test_a_row_that_is_walked_alone_is_waited_for():
    one = told("softmax", "cpp", M=4096, N=1024)
    assert "first lines" not in {name for name, ticks in one.parts.items() if ticks}
    alone = told_with("softmax", {"host.rows": 1}, M=4096, N=1024)
    assert alone.parts["first lines"] == pytest.approx(4096 * 660 / cores())


def test_the_ends_of_rows_are_waited_for_where_rows_are_reduced():
    """A maximum asks each lane for NaN, a sum does not; columns have no end, and many short rows have more than few long ones."""
    ends = [
        told(op, "cpp", M=m, N=(1 << 18) // m).parts.get("ends of rows", 0.0)
        for op in ("row_max", "row_sum", "col_max")
        for m in (256, 1024)
    ]
    assert ends[0] > ends[2] > 0 == ends[4] == ends[5]
    assert ends[1] == 4 * ends[0] and ends[3] == 4 * ends[2]


def test_a_summary_says_that_nothing_was_measured():
    assert summary(told("gemm", "cuda_c")).startswith("predicted, not measured: ")
    assert summary(Prediction(ticks=None, clock=None, bound="unknown")) == ""


@pytest.mark.parametrize("command", ["predict", "tune"])
def test_a_dim_that_stays_open_has_no_time(septran, command):
    found = septran(command, "--op", "add", "--backend", "cpp", "--dim", "N=dynamic", "--json")
    assert found.code == 2 and found.json["errors"][0]["code"] == "C162"
    assert "a time needs all sizes, and N stays open" in found.out


def test_a_figure_that_is_missing_is_named_and_not_guessed(septran, tmp_path):
    shipped = (ROOT / "configs" / "machines" / "cpp.x86_64.yaml").read_text()
    own = tmp_path / "configs" / "machines" / "cpp.x86_64.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(shipped.replace(", bfloat16: 0.135}", "}"))
    words = ("predict", "--op", "gemm", "--backend", "cpp", "--dtype", "bfloat16", "--json")
    assert septran(*words).code == 0
    found = septran(*words, "--project", str(tmp_path))
    assert found.code == 3 and found.json["ticks"] is None and found.json["bound"] == "unknown"
    assert "no rate for products of bfloat16" in found.json["unknown"]


@pytest.mark.parametrize(
    "op",
    [
        name
        if (name := entry["name"]) in ("softmax", "gemm_bias_relu")
        else pytest.param(name, marks=pytest.mark.slow)
        for entry in catalog.ops()
    ],
)
@pytest.mark.parametrize("backend", ["cpp", "dsa_c"])
def test_every_operator_has_a_prediction(op, backend):
    found = told(op, backend)
    assert found.ticks and found.ticks > 0 and found.bound != "unknown"
    assert found.bound in found.parts or found.bound in ("waiting", "launch")


@pytest.mark.parametrize("backend", ["cpp", "dsa_c"])
def test_the_operators_name_says_nothing(backend, tmp_path):
    text = Path("septran/ops/gemm.py").read_text(encoding="utf-8")
    path = tmp_path / "other.py"
    path.write_text(text.replace('name="gemm"', 'name="softmax"'))
    other = predicted(GenRequest(op=None, backend=backend, logic=path))
    assert other.plan.operator.name == "softmax"
    assert other.prediction == told("gemm", backend)


def test_more_work_takes_longer(cpp):
    plain, heavy = rows(cpp, "x + x"), rows(cpp, "exp(exp(x))")
    assert plain.ticks and heavy.ticks
    assert plain.bound == "L1" and heavy.bound == "arithmetic"
    vectors = 64 * 256 // 16
    assert cpp.speed is not None
    each = cpp.speed.engines["PROCESSOR"].operations["exp"]
    assert heavy.parts["arithmetic"] == 2 * each * vectors


def along(machine: Machine, name: str) -> Prediction:
    found = name == "argreduce"
    pair = name in ("gather", "scatter_acc")
    text = ALONG.replace("NAME", name).replace("INS", '["X", "I"]' if pair else '["X"]')
    text = text.replace("OUT", "int64[64, 1]" if found else "float32[64, 256]")
    program = parse_program(text.replace("WIDE", "1" if found else "256"))
    return predict(program, machine, threads=1, between=1000)


@pytest.mark.parametrize("name", ["scan", "argreduce", "gather", "scatter_acc"])
def test_what_goes_element_by_element_costs_by_the_element(cpp, name):
    """A vector's price is a sixteenth of one element's: sums along rows were predicted sixty times too fast."""
    speed = cpp.speed
    assert speed is not None
    figures = speed.engines["PROCESSOR"]
    found = along(cpp, name)
    assert found.bound == "arithmetic"
    each = figures.elements["scan_max" if name == "scan" else name]  # a maximum asks for NaN
    assert found.parts["arithmetic"] == pytest.approx(64 * 256 * each)
    without = replace(figures, elements={})
    bare = replace(cpp, speed=replace(speed, engines={"PROCESSOR": without}))
    unknown = along(bare, name)
    assert unknown.ticks is None and f"one element of '{name}'" in unknown.unknown


def test_tensors_come_from_the_level_that_holds_what_lies_between_two_calls(cpp):
    found = [rows(cpp, "x + x", between=n) for n in (10_000, 500_000, 10_000_000, 10**9)]
    assert [p.bound for p in found] == ["L1", "L2", "L3", "DRAM"]
    times = [p.ticks or 0 for p in found]
    assert times == sorted(times) and len(set(times)) == 4


def test_blocks_are_shared_out_among_threads(cpp):
    one, two, three = (rows(cpp, "tanh(x)", threads=n).ticks or 0.0 for n in (1, 2, 3))
    assert one / two == pytest.approx(2, rel=0.05)
    assert one / three == pytest.approx(16 / 6, rel=0.05)  # one of three gets six of sixteen blocks


def test_a_long_loop_is_not_followed_to_its_end():
    """The shortcut for loops whose iterations take the same time gives what every iteration would."""
    from septran.predict import queues

    short = told("gemm", "dsa_c", M=128, N=128, K=64 * 20)
    long = told("gemm", "dsa_c", M=128, N=128, K=64 * 200 + 17)
    kept, queues._PERIOD = queues._PERIOD, 10**6
    try:
        whole = told("gemm", "dsa_c", M=128, N=128, K=64 * 200 + 17)
    finally:
        queues._PERIOD = kept
    assert long == whole
    assert short.ticks and long.ticks and 9 < long.ticks / short.ticks < 10.1


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("speed: 7\n", 8, "a mapping is expected"),
        ("speed:\n  of: x\n  engines: {V: {}}\n", 9, "where the figures are from"),
        ("speed:\n  sources: [a]\n  engines: {V: {}}\n", 9, "'of' is missing"),
        ("speed:\n  of: x\n  sources: [a]\n  engine: 1\n", 11, "did you mean 'engines'"),
        ("speed:\n  of: x\n  sources: [a]\n  engines:\n    V: {vector: vec_byte}\n", 12, "nor a limit"),
        ("speed:\n  of: x\n  sources: [a]\n  engines:\n    V: {vectors: 1}\n", 12, "did you mean 'vector'"),
        ("speed:\n  of: x\n  sources: [a]\n  engines: {V: {vector: 1}}\n  resident: {threads: 1}\n", 12, "'blocks' is missing"),
        ("speed:\n  of: x\n  sources: [a]\n  clock: -1\n  engines: {V: {}}\n", 11, "nor a limit"),
    ],
)  # fmt: skip
def test_a_wrong_section_is_told_with_its_line(septran, in_tmp, text, line, said):
    assert septran("init", ".").code == 0
    Path("configs/machines").mkdir(parents=True)
    Path("configs/machines/dsa_c.yaml").write_text(FILE + text)
    found = septran("predict", "--op", "gemm", "--backend", "dsa_c", "--json")
    assert found.code == 2
    (error,) = json.loads(found.out)["errors"]
    assert error["code"] == "C120" and said in error["message"] and error["line"] == line


def test_figures_may_be_limits_of_the_same_file():
    vec = load_machine("dsa_c").speed
    assert vec is not None
    assert vec.engines["VEC"].vector == load_machine("dsa_c").limits["vec_bytes"]
    assert vec.engines["MMA"].tile == (16, 16) and vec.units == 4


@pytest.mark.slow
@pytest.mark.parametrize("op", [entry["name"] for entry in catalog.ops()])
def test_the_simulators_cycles_are_predicted(op, tmp_path):
    from dataclasses import replace

    from septran import settings
    from septran.run.gen import gen

    request = GenRequest(op=op, backend="dsa_c")
    real = gen(
        request, settings=replace(settings.load(flags={}), home=tmp_path), progress=lambda _: None
    ).to_json()["cycles"]["total"]
    ticks = predicted(request).prediction.ticks
    assert ticks and abs(ticks / real - 1) < 0.1
