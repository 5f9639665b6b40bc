"""The oracle: the logic alone, run on torch tensors, is torch's own operator."""

from __future__ import annotations

import pytest
import torch

from septran.errors import TaskLangError
from septran.tasklang.oracle import evaluate_map, run_oracle
from tests.bind.running import all_operators, inputs, reference, tolerance
from tests.tasklang.writing import check, write

OPERATORS = all_operators()
QUICK = {(name, i) for name in OPERATORS for i in range(1)} | {
    ("gemm", 1),
    ("softmax", 1),
    ("softmax", 2),
    ("conv2d", 1),
}
CASES = [
    pytest.param(name, i, marks=() if (name, i) in QUICK else pytest.mark.slow)
    for name, (op, _) in OPERATORS.items()
    for i in range(len(op.odd_dims))
]


@pytest.mark.few(7)
@pytest.mark.parametrize(("name", "index"), CASES)
def test_the_logic_is_the_operator_at_odd_sizes(name, index):
    op, _ = OPERATORS[name]
    dims = op.odd_dims[index]
    given = inputs(op, dims, "float64") if "float64" in op.dtypes else inputs(op, dims, "float32")
    wanted = reference(op, dims, given)
    full = op.bind_dims(dims)
    values = {**given, **op.scalar_values(full)}
    run_oracle(op.entry, tuple(values[p] for p in op.entry.params))
    limit = tolerance("float64" if "float64" in op.dtypes else "float32")
    for out in op.outputs:
        torch.testing.assert_close(
            given[out].double(), wanted[out].double(), rtol=limit, atol=limit
        )


def test_the_oracle_sees_a_wrong_logic(tmp_path):
    path = write(
        tmp_path,
        """
        @task.define
        def entry(C, A, B):
            Ap = task.partition(A, by="blocks", shape=(None, 8))
            Bp = task.partition(B, by="blocks", shape=(8, None))
            task.launch(zero, C)
            for k in task.sequential_range(2):   # wrong: three blocks
                task.launch(mma, C, Ap[0, k], Bp[k, 0])
        """,
    )
    logic = check(path, C=2, A=2, B=2)
    a, b = torch.randn(5, 20), torch.randn(20, 3)
    c = torch.full((5, 3), float("nan"))
    run_oracle(logic.tasks["entry"], (c, a, b))
    assert not torch.allclose(c, a @ b, atol=1e-3)
    torch.testing.assert_close(c, a[:, :16] @ b[:16], rtol=1e-5, atol=1e-5)


def test_locals_start_undefined(tmp_path):
    path = write(
        tmp_path,
        """
        @task.define
        def entry(C):
            t = task.tensor("t", C.shape)
            task.launch(copy, C, t)
        """,
    )
    from septran.tasklang.load import execute_logic

    c = torch.zeros(3)
    run_oracle(execute_logic(path).tasks["entry"], (c,))
    assert c.isnan().all()


def test_tunables_come_from_the_call_then_the_default(tmp_path):
    path = write(
        tmp_path,
        """
        @task.define(leaf=True)
        def count(C, n):
            task.call_primitive("map", C, expr="n", n=n)

        @task.define
        def entry(C):
            task.launch(count, C, task.tunable("rows", default=7))
        """,
    )
    entry = check(path, C=1).tasks["entry"]
    for tunables, wanted in ((None, 7), ({"rows": 5}, 5)):
        c = torch.zeros(2)
        run_oracle(entry, (c,), tunables)
        assert c.tolist() == [wanted, wanted]


def test_an_unknown_primitive_in_the_oracle(tmp_path):
    path = write(
        tmp_path,
        "@task.define(leaf=True)\ndef entry(C):\n    task.call_primitive('fil', C, value=1.0)\n",
    )
    with pytest.raises(TaskLangError, match="unknown primitive 'fil'"):
        run_oracle(check(path).tasks["entry"], (torch.zeros(2),))


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        ("max(x, 0)", [0.0, 0.0, 3.0]),
        ("min(x, 0) ** 2", [4.0, 0.0, 0.0]),
        ("select(x < 0, -x, x + 1)", [2.0, 1.0, 4.0]),
        ("select(index(0) == 2, x, 0)", [0.0, 0.0, 3.0]),
        ("abs(x) / 2 - 1", [0.0, -1.0, 0.5]),
        ("exp2(x)", [0.25, 1.0, 8.0]),
        ("+x * 2", [-4.0, 0.0, 6.0]),
        ("(x >= 0) * 1", [0.0, 1.0, 1.0]),
    ],
)
def test_map_expressions(expr, wanted):
    x = torch.tensor([-2.0, 0.0, 3.0])
    assert evaluate_map(expr, {"x": x}, torch.empty(3)).tolist() == wanted


def test_map_compares_large_integers_exactly():
    big = torch.tensor([2**24 + 1])
    assert evaluate_map("select(t == 16777216, 1, 0)", {"t": big}, torch.empty(1)).item() == 0
    assert evaluate_map("select(t == 16777217, 1, 0)", {"t": big}, torch.empty(1)).item() == 1


def test_max_and_min_keep_nan_as_torch_does():
    x = torch.tensor([float("nan"), 1.0])
    assert evaluate_map("max(x, 0)", {"x": x}, torch.empty(2))[0].isnan()
    assert evaluate_map("min(x, 0)", {"x": x}, torch.empty(2))[0].isnan()
