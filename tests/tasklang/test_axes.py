"""Reductions over several axes at once: what may be said, and what they mean."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from septran import backends
from septran.assets import find
from septran.bind import ArgType, bind
from septran.errors import TaskLangError
from septran.ir.nodes import Alloc, leaf_calls, walk
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.passes.interpret import interpret
from septran.passes.run import lower
from septran.tasklang.check import check_logic
from septran.tasklang.infer import output_shapes
from septran.tasklang.load import execute_logic, load_logic
from septran.tasklang.oracle import run_oracle
from septran.tasklang.tree import AllocLocal
from tests.tasklang.writing import check, marks, places, write

LOGIC = """
@task.define(leaf=True)
def leaf(Y, X):
    task.call_primitive("{name}", Y, X, op="{op}", axis={axis})

@task.define
def entry(Y, X):
    Yp, Xp = (task.partition(t, by="rows", shape=(2,)) for t in (Y, X))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(leaf, Yp[i], Xp[i])
"""
WRONG = {
    "named twice": ("reduce", (1, -1), "E126", "axis=(1, -1) names axis 1 twice"),
    "not there": ("reduce", (0, 2), "E112", "axis=(0, 2) needs axes in -2..1, got 2"),
    "none": ("reduce_acc", (), "E126", "axis=() names no axis"),
    "no number": ("reduce", (0, None), "E126", "a Python int, or a tuple of them, found None"),
    "a truth value": ("reduce", (0, True), "E126", "found True"),
    "all of them": ("reduce", None, "E126", "found None"),
    "a scan": ("scan", (0, 1), "E126", "scan works along one axis, got axis=(0, 1)"),
    "a position": ("argreduce", (0, 1), "E126", "view the tensor with task.reshape"),
    "a scan of no number": ("scan", "1", "E126", "axis= is a Python int, found '1'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_reduction_can_do_is_told_where_it_stands(name: str, tmp_path: Path) -> None:
    primitive, axis, code, told = WRONG[name]
    op = "max" if primitive == "argreduce" else "sum"
    body = f"""
    @task.define(leaf=True)
    def entry(Y, X):
        task.call_primitive("{primitive}", Y, X, op="{op}", axis={axis!r})  # error: {code}
    """
    path = write(tmp_path, body)
    with pytest.raises(TaskLangError) as caught:
        check(path, Y=2, X=2)
    assert places(caught.value, path) == marks(path)
    assert told in str(caught.value)
    tensors = (torch.zeros(1, 1), torch.zeros(3, 4))
    with pytest.raises(TaskLangError) as ran:
        run_oracle(execute_logic(path).tasks["entry"], tensors)
    assert ran.value.codes == (code,) and places(ran.value, path) == marks(path)


@pytest.mark.parametrize(("word", "code"), [("keepdims=True", "E126"), ("keepdim=False", "E126")])
def test_the_axes_always_stay_with_size_1(word: str, code: str, tmp_path: Path) -> None:
    text = LOGIC.format(name="reduce", op="sum", axis=f"(0, 1), {word}")
    with pytest.raises(TaskLangError, match="has no attribute 'keepdim") as caught:
        check(write(tmp_path, text), Y=2, X=2)
    assert caught.value.codes == (code,)


def _bound(path: Path, y: torch.Tensor, x: torch.Tensor, backend: str = "cpp"):
    logic = execute_logic(path)
    types = {
        n: ArgType(shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
        for n, t in (("Y", y), ("X", x))
    }
    policy = load_mapping(find(f"mappings/{backend}.mapping.yaml").path)
    target = backends.get(backend)
    machine = load_machine(target.machine((target.arches or ("",))[0]))
    return logic, bind(logic.tasks["entry"], policy, machine, types, tasks=logic.tasks)


def test_a_result_that_lost_its_axes_is_told_with_the_files_own_words(tmp_path: Path) -> None:
    text = LOGIC.format(name="reduce", op="sum", axis=(1, 2))
    path = write(tmp_path, text)
    for shape in ((6, 5, 1), (6, 1)):
        with pytest.raises(TaskLangError) as caught:
            _bound(path, torch.zeros(shape), torch.zeros(6, 4, 5))
        assert caught.value.codes == ("E112",)
        assert "keeps the reduced axes as 1: Y = Yp[i0" in str(caught.value)
        assert "gives (2, 1, 1)" in str(caught.value)


def _cases() -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Return operations with shapes and axes, drawn once with a fixed seed."""
    made = torch.Generator().manual_seed(13)

    def pick(n: int) -> int:
        return int(torch.randint(n, (1,), generator=made))

    found = []
    for at in range(24):
        rank = 2 + pick(3)
        shape = tuple(1 + pick(6) for _ in range(rank))
        every = [a for n in range(1, rank + 1) for a in itertools.permutations(range(rank), n)]
        axes = tuple(a - rank * pick(2) for a in every[pick(len(every))])
        found.append((("sum", "max", "min", "prod")[at % 4], shape, axes))
    return found


@pytest.mark.few(6)
@pytest.mark.parametrize(("op", "shape", "axes"), _cases())
@pytest.mark.parametrize("acc", [False, True])
def test_any_axes_are_torch_in_the_oracle_and_in_the_program(
    op: str, shape: tuple[int, ...], axes: tuple[int, ...], acc: bool, tmp_path: Path
) -> None:
    """The Program runs after all passes; its leaves reduce an axis at a time."""
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))
    gone = {a % len(shape) for a in axes}
    kept = tuple(1 if d in gone else n for d, n in enumerate(shape))
    y = torch.randn(kept, dtype=torch.float64)
    if op == "prod":
        wanted = x
        for axis in gone:
            wanted = wanted.prod(axis, keepdim=True)
    else:
        by = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}[op]
        wanted = by(x, axes, keepdim=True)
    if acc:
        join = {"sum": torch.add, "prod": torch.mul, "max": torch.maximum, "min": torch.minimum}
        wanted = join[op](y, wanted)
    body = LOGIC if 0 not in gone else LOGIC.split("    Yp")[0] + "    task.launch(leaf, Y, X)\n"
    name = "reduce_acc" if acc else "reduce"
    path = write(tmp_path, body.format(name=name, op=op, axis=axes))
    logic, bound = _bound(path, y, x)
    one, two = (y.clone() if acc else torch.full(kept, float("nan"), dtype=y.dtype) for _ in "ab")
    run_oracle(logic.tasks["entry"], (one, x))
    program = lower(bound.program, backends.get("cpp").passes)
    interpret(program, {"Y": two, "X": x})
    torch.testing.assert_close(one, wanted)
    torch.testing.assert_close(two, wanted)
    for call in leaf_calls(program):
        assert all(isinstance(p.attr("axis", 0), int) for p in call.prims)


def test_what_is_summed_in_16_bits_is_rounded_once(tmp_path: Path) -> None:
    text = LOGIC.format(name="reduce", op="sum", axis=(1, 2))
    path = write(tmp_path, text)
    made = torch.Generator().manual_seed(4)
    x = torch.rand((4, 64, 3), generator=made).bfloat16()
    y = torch.zeros(4, 1, 1, dtype=torch.bfloat16)
    _, bound = _bound(path, y, x)
    interpret(bound.program, {"Y": y, "X": x})
    once = x.double().sum((1, 2), keepdim=True).bfloat16()
    twice = x.double().sum(2, keepdim=True).bfloat16().double().sum(1, keepdim=True).bfloat16()
    assert not torch.equal(once, twice)
    torch.testing.assert_close(y, once, rtol=0, atol=0)
    (part,) = (s.buffer for s in walk(bound.program.body) if isinstance(s, Alloc))
    assert (part.shape, part.dtype) == ((2, 64, 1), "float32")


def test_a_local_of_float64_is_summed_in_float64(tmp_path: Path) -> None:
    body = """
    @task.define(leaf=True)
    def leaf(Y, X):
        task.call_primitive("reduce", Y, X, op="sum", axis=(0, 1))

    @task.define
    def entry(Y, X):
        wide = task.tensor("wide", X.shape, "f64")
        like = task.tensor("like", (1, 1), wide)
        less = task.tensor("less", X.shape, X)
        task.launch(copy, wide, X)
        task.launch(copy, less, X)
        task.launch(leaf, like, wide)
        task.launch(leaf, like, less)
        task.launch(leaf, Y, less)
    """
    path = write(tmp_path, body)
    traced = check_logic(execute_logic(path).tasks["entry"], {"Y": 2, "X": 2})
    (tree,) = (t for t in traced.found.values() if t.task.name == "entry")
    made = {n.tensor.name: n.dtype for n in tree.walk() if isinstance(n, AllocLocal)}
    assert made == {
        "wide": "float64",
        "like": "like:wide",
        "less": "like:X",
        "Y_part": "float64",
        "Y_part2": "float64",
        "Y_part3": "accumulate",
    }


def test_names_that_the_file_has_already_stay_its_own(tmp_path: Path) -> None:
    body = """
    @task.define(leaf=True, reads=["X"], writes=["Y", "Y_part"])
    def leaf(Y, X, Y_part):
        task.call_primitive("reduce", Y, X, op="sum", axis=(1, 2))
        task.call_primitive("reduce", Y_part, X, op="max", axis=[2, 1])

    @task.define(reads=["X"], writes=["Y"])
    def entry(Y, X):
        Y_part2 = task.tensor("Y_part2", Y.shape)
        task.launch(leaf, Y_part2, X, Y)
    """
    logic = load_logic(write(tmp_path, body))  # read by the child that reads users' files
    traces = check_logic(logic.tasks["entry"], {"Y": 3, "X": 3})
    (leaf,) = (t for t in traces.found.values() if t.task.leaf)
    assert leaf.task.params == ("Y", "X", "Y_part", "Y_part2", "Y_part_part")
    (entry,) = (t for t in traces.found.values() if not t.task.leaf)
    made = [n.tensor.name for n in entry.walk() if isinstance(n, AllocLocal)]
    assert made == ["Y_part2", "Y_part22", "Y_part_part"]


def test_what_is_not_reduced_has_the_extent_of_the_operand(tmp_path: Path) -> None:
    text = LOGIC.format(name="reduce", op="sum", axis=(-1, 2))
    logic = load_logic(write(tmp_path, text))
    ranks = {"Y": 4, "X": 4}
    traces = check_logic(logic.tasks["entry"], ranks)
    with pytest.raises(TaskLangError, match="extent 2 of output Y does not follow"):
        output_shapes(traces, traces.get(logic.tasks["entry"], ranks), {"X": (4, 5, 6, 7)})


def test_axes_that_are_reduced_at_once_fill_a_tile_together(tmp_path: Path) -> None:
    """Of 64 planes of 64 by 64, a tile of 4096 elements holds one; by the longer axis alone it was 64 planes."""
    text = LOGIC.format(name="reduce", op="sum", axis=(1, 2))
    text = text.replace("    Yp", '    rows = task.tunable("rows")\n    Yp').replace(
        "(2,)", "(rows,)"
    )
    y, x = torch.zeros(64, 1, 1), torch.zeros(64, 64, 64)
    _, bound = _bound(write(tmp_path, text), y, x, "triton_cuda")
    assert bound.mapping.instances["host"].tunables == {"rows": 1}
    assert bound.mapping.instances["entry"].mems == {"Y_part": "REGISTER"}
    (call,) = leaf_calls(bound.program)
    assert [p.attr("axis") for p in call.prims] == [2, 1]
