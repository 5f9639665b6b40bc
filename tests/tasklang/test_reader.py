"""A user's file runs in a confined child: whatever it does there is its own mistake, with a line and a code."""

from __future__ import annotations

import os
import re
import sys

import pytest
import torch

from septran.errors import TaskLangError
from septran.tasklang.load import load_logic
from septran.tasklang.oracle import run_oracle
from septran.tasklang.trace import trace
from septran.tasklang.tree import tree_text

LOGIC = """\
import septran.tasklang as task
from septran.reference import Reference, torch


@task.define(leaf=True)
def double(Y, X):
    task.call_primitive("map", Y, expr="x + x", x=X)


@task.define
def entry(Y, X):
    rows = task.tunable("rows", 4)
    BODY
    Yp = task.partition(Y, by="blocks", shape=(rows,))
    Xp = task.partition(X, by="blocks", shape=(rows,))
    for i in task.parallel_range(Yp.shape):
        task.launch(double, Yp[i], Xp[i])


def reference(X):
    REFERENCE
    return X + X


OPERATOR = task.Operator(
    name="double",
    about="",
    entry=entry,
    tensors={"Y": "N", "X": "N"},
    outputs=("Y",),
    dims={"N": 8},
    odd_dims=(),
    reference=Reference(fn=reference, kind="elementwise", reduction=lambda d: d["N"]),
)
TOP
"""
BODY_LINE, REFERENCE_LINE, TOP_LINE = 13, 21, 35


def written(folder, *, body="pass", reference="pass", top=""):
    path = folder / "logic.py"
    text = LOGIC.replace("BODY", body).replace("REFERENCE", reference).replace("TOP", top)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setenv("SEPTRAN_LOGIC_SECONDS", "1.5")


@pytest.mark.wider
def test_what_comes_back_is_what_is_there(tmp_path):
    logic = load_logic(written(tmp_path))
    operator = logic.operators["double"]
    assert operator.entry is logic.tasks["entry"]
    assert operator.shape("Y", {"N": 3}) == (3,)
    x = torch.arange(8.0, dtype=torch.float64)
    assert torch.equal(operator.reference.fn(X=x), x + x)
    assert operator.reference.reduction({"N": 5}) == 5
    y = torch.zeros(8)
    run_oracle(operator.entry, (y, x.float()), {"rows": 3})
    assert torch.equal(y, (x + x).float())
    assert "launch double(Yp[i0], Xp[i0])" in tree_text(trace(operator.entry, {"Y": 1, "X": 1}))


def test_nothing_of_the_file_runs_here(tmp_path):
    top = "import os, sys\nsys.modules['septran_was_here'] = os\nos.environ['SEPTRAN_WAS'] = '1'"
    load_logic(written(tmp_path, top=top))
    assert "septran_was_here" not in sys.modules
    assert "SEPTRAN_WAS" not in os.environ


def test_tensors_of_every_kind_travel(tmp_path):
    fn = load_logic(written(tmp_path, reference="return X")).operators["double"].reference.fn
    for dtype in (torch.bfloat16, torch.int64, torch.bool, torch.float16):
        for x in (
            torch.ones(3, 2, dtype=dtype),
            torch.ones((), dtype=dtype),
            torch.ones(0, dtype=dtype),
        ):
            found = fn(X=x)
            assert found.dtype == dtype and torch.equal(found, x)


@pytest.mark.wider
def test_strided_inputs_travel(tmp_path):
    fn = load_logic(written(tmp_path)).operators["double"].reference.fn
    x = torch.arange(12.0).reshape(3, 4).T
    assert torch.equal(fn(X=x), x + x)


WAYS_TO_END = {
    "exit": "__import__('sys').exit(0)",
    "os._exit": "__import__('os')._exit(0)",
    "raise": "raise ValueError('mine')",
    "interrupt": "raise KeyboardInterrupt",
    "endless": "while True: pass",
    "endless and deaf": "exec('while True:\\n try:\\n  1\\n except BaseException: pass')",
    "endless in C": "sum(range(10**12))",
    "huge list": "list(range(10**12))",
    "sleep": "__import__('time').sleep(1000)",
    "kill": "__import__('os').kill(__import__('os').getpid(), 9)",
    "kill the group": "__import__('os').killpg(0, 9)",
    "stop": "__import__('os').kill(__import__('os').getpid(), 19)",
    "fork": "__import__('os').fork()",
    "shell": "__import__('subprocess').run(['true'])",
    "exec": "__import__('os').execv('/bin/true', ['true'])",
    "segfault": "__import__('ctypes').string_at(0)",
    "abort": "__import__('os').abort()",
    "print without end": "while True: print('x' * 10**6)",
    "recursion": "(f := lambda n: f(n + 1))(0)",
    "deep recursion": "__import__('sys').setrecursionlimit(10**9); (f := lambda n: f(n + 1))(0)",
    "network": "__import__('socket').create_connection(('127.0.0.1', 9))",
    "read": "open('/etc/passwd').read()",
    "write": "open('/tmp/septran_was_here', 'w')",
    "input": "input()",
    "close all": "__import__('os').closerange(0, 100)",
    "message": "raise type('E', (Exception,), {'__str__': lambda s: 1 / 0})()",
}


@pytest.mark.few(8)
@pytest.mark.parametrize("way", WAYS_TO_END)
def test_a_file_that_ends_its_process_while_it_is_read(tmp_path, way):
    path = written(tmp_path, top=WAYS_TO_END[way])
    with pytest.raises(TaskLangError) as caught:
        load_logic(path)
    check(caught.value, path, TOP_LINE, {"E150", "E151", "E154"}, way)


FEW = ("exit", "os._exit", "raise", "endless in C", "kill", "segfault", "huge list", "close all")


@pytest.mark.parametrize("way", FEW)
def test_a_body_that_ends_its_process_while_it_is_traced(tmp_path, way):
    path = written(tmp_path, body=WAYS_TO_END[way])
    entry = load_logic(path).tasks["entry"]
    with pytest.raises(TaskLangError) as caught:
        trace(entry, {"Y": 1, "X": 1})
    check(caught.value, path, BODY_LINE, {"E150", "E151", "E154"}, way)


@pytest.mark.few(3)
@pytest.mark.parametrize("way", FEW)
def test_a_reference_that_ends_its_process(tmp_path, way):
    path = written(tmp_path, reference=WAYS_TO_END[way])
    fn = load_logic(path).operators["double"].reference.fn
    with pytest.raises(TaskLangError) as caught:
        fn(X=torch.ones(8))
    check(caught.value, path, REFERENCE_LINE, {"E150", "E153", "E154"}, way)


PLACELESS = {"close all", "print without end"}


def check(error, path, line, codes, way):
    (found,) = error.diagnostics
    assert found.code in codes, found.message
    assert found.span is not None and found.span.file == str(path)
    if way not in PLACELESS:
        assert found.span.line == line, found.render()
    assert re.search("raised|ended early|did not finish", found.message)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("None", "gives None, not a tensor"),
        ("[1.0]", "gives a float, not a tensor"),
        ("X.numpy()", "gives a ndarray, not a tensor"),
        ("X.to_sparse()", "not a tensor"),
        ("X.to(torch.complex64)", "gives a tensor of torch.complex64"),
    ],
)
def test_a_reference_that_returns_something_else(tmp_path, result, told):
    path = written(tmp_path, reference=f"return {result}")
    fn = load_logic(path).operators["double"].reference.fn
    with pytest.raises(TaskLangError, match=re.escape(told)) as caught:
        fn(X=torch.ones(8))
    assert caught.value.codes == ("E153",)
    assert "the reference of operator 'double'" in str(caught.value)


@pytest.mark.parametrize("value", ["-1", "1.5", "None", "10**30", "'8'"])
def test_a_reduction_that_is_no_number_of_terms(tmp_path, value):
    path = written(tmp_path)
    path.write_text(path.read_text().replace('d["N"]', value))
    with pytest.raises(TaskLangError, match="number of terms") as caught:
        load_logic(path).operators["double"].reference.reduction({"N": 8})
    assert caught.value.codes == ("E153",)


@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(10**5): rows = rows + 1",
        "rows = 10 ** 30",
        "[task.launch(double, Y, X) for _ in range(10**5)]",
    ],
)
def test_a_tree_that_is_no_tree_of_a_logic(tmp_path, body):
    entry = load_logic(written(tmp_path, body=body)).tasks["entry"]
    with pytest.raises(TaskLangError) as caught:
        trace(entry, {"Y": 1, "X": 1})
    assert caught.value.codes[0] in ("E155", "E151", "E150")


@pytest.mark.wider
def test_prints_go_nowhere(tmp_path, capfd):
    path = written(tmp_path, top="print('loud')", body="print('loud')", reference="print('loud')")
    logic = load_logic(path)
    trace(logic.tasks["entry"], {"Y": 1, "X": 1})
    logic.operators["double"].reference.fn(X=torch.ones(2))
    assert capfd.readouterr() == ("", "")


def test_a_function_of_a_file_is_timed_by_the_clock_that_is_asked_for(tmp_path):
    """In processor time it does not pay for waiting, as the kernel beside it does not."""
    logic = load_logic(written(tmp_path, reference="import time; time.sleep(0.02)"))
    fn = logic.operators["double"].reference.fn
    given = {"X": torch.ones(8)}
    assert fn.slot(given)(2) > 0.04
    assert fn.slot(given, processor_time=True)(2) < 0.02


def test_a_function_of_a_file_is_timed_in_place_there(tmp_path):
    fn = load_logic(written(tmp_path)).operators["double"].reference.fn
    assert fn.slot_in_place({"X": torch.ones(8)}, {}) is None
    slot = fn.slot_in_place({"X": torch.ones(8)}, {0: "X"}, processor_time=True)
    assert slot is not None and slot(10) > 0
    strange = load_logic(written(tmp_path, reference="if X[0] > 0: return X"))
    assert (
        strange.operators["double"].reference.fn.slot_in_place({"X": torch.ones(8)}, {0: "X"})
        is None
    )
