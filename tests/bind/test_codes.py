"""Every M code of bind and the passes: a mapping that does not fit the logic or the machine."""

from __future__ import annotations

import pytest

from septran.bind.bind import ArgType, bind
from septran.errors import MappingError, TaskLangError
from septran.ir.nodes import For, walk
from septran.ir.text import print_program
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.tasklang.load import execute_logic
from tests.mapping.writing import marks, told, written
from tests.tasklang.writing import write

LOGIC = """
@task.define
def tile(C, A, B):
    bk = task.tunable("bk")
    acc = task.tensor("acc", C.shape)
    Ap = task.partition(A, by="blocks", shape=(None, bk))
    Bp = task.partition(B, by="blocks", shape=(bk, None))
    task.launch(zero, acc)
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(mma, acc, Ap[0, k], Bp[k, 0])
    task.launch(copy, C, acc)

@task.define
def gemm(C, A, B):
    bm = task.tunable("bm")
    Cp = task.partition(C, by="blocks", shape=(bm, bm))
    Ap = task.partition(A, by="blocks", shape=(bm, None))
    Bp = task.partition(B, by="blocks", shape=(None, bm))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(tile, Cp[i, j], Ap[i, 0], Bp[0, j])

@task.define(leaf=True)
def whole(C, A, B):
    task.call_primitive("gemm", C, A, B)

@task.define(leaf=True)
def sum_of_square(C, A, B, t):
    task.call_primitive("gemm", t, A, B)
    task.call_primitive("map", C, expr="t * t", t=t)

@task.define
def seed(C, A, B):
    Cp, Ap, Bp = (task.partition(t, by="blocks", shape_from="A") for t in (C, A, B))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(whole, Cp[i, j], Ap[i, :], Bp[:, j])

@task.define
def fused(C, A, B):
    Cp, Ap, Bp = (task.partition(t, by="blocks", shape_from="A") for t in (C, A, B))
    for i, j in task.parallel_range(Cp.shape):
        t = task.tensor("t", Cp[i, j].shape)
        task.launch(sum_of_square, Cp[i, j], Ap[i, :], Bp[:, j], t)

@task.define
def pointwise(C, A):
    b = task.tunable("bm")
    Cp, Ap = (task.partition(t, by="blocks", shape=(b, b)) for t in (C, A))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(copy, Cp[i, j], Ap[i, j])
"""
GOOD = """\
target: cuda_c
entrypoint: host
task_mappings:
  host: {task_name: gemm, proc: HOST, tunables: {bm: 64}, calls: {tile: tile}}
  tile:
    task_name: tile
    proc: BLOCK
    tunables: {bk: 32}
    mems: {acc: REGISTER}
    pipeline: 2
    leaf_task_bindings:
      mma: {kernel: auto, mems: {A: SHARED, B: SHARED}}
"""
SEED = """\
entrypoint: host
task_mappings:
  host: {task_name: seed_host, proc: HOST, tunables: {block_size: 64}, calls: {seed: block}}
  block:
    task_name: seed
    proc: BLOCK
    mems: {C: REGISTER, A: SHARED, B: SHARED}
"""


def bound(tmp_path, mapping, entry="gemm", arch="sm_90a", shapes=((256, 256),) * 3):
    logic = execute_logic(write(tmp_path, LOGIC))
    task = logic.tasks[entry]
    path = written(tmp_path, mapping)
    args = {p: ArgType(shape=s, dtype="float16") for p, s in zip(task.params, shapes, strict=False)}
    machine = load_machine(f"cuda_c.{arch}")
    return bind(task, load_mapping(path), machine, args, tasks=logic.tasks, arch=arch)


WRONG = {
    "unknown task": (
        GOOD.replace("task_name: tile", "task_name: tyle  # error: M003@tyle"),
        "gemm",
        ["tile: task 'tyle' is not defined in the logic file; did you mean 'tile'?"],
    ),
    "a launched task without a mapping": (
        GOOD.replace("calls: {tile: tile}}", "mems: {}}  # error: M004"),
        "gemm",
        ["host: no mapping for launched task 'tile'; add it to calls"],
    ),
    "unknown processor": (
        GOOD.replace("proc: BLOCK", "proc: BLOK  # error: M005@BLOK"),
        "gemm",
        ["tile: target cuda_c.sm_90a has no processor 'BLOK'", "did you mean 'BLOCK'?"],
    ),
    "a binding of a leaf that is not launched": (
        GOOD.replace("      mma:", "      zeros: auto  # error: M006@zeros\n      mma:"),
        "gemm",
        ["leaf_task_bindings names 'zeros', which tile never launches; did you mean 'zero'?"],
    ),
    "upwards": (
        GOOD.replace("proc: HOST, ", "proc: BLOCK, ")
        .replace("proc: BLOCK\n", "proc: HOST  # error: M008@HOST\n")
        .replace("mems: {acc: REGISTER}", "mems: {acc: GLOBAL}")
        .replace("mems: {A: SHARED, B: SHARED}", "mems: {}"),
        "gemm",
        ["host (BLOCK) calls tile (HOST): a callee must run at or below its caller"],
    ),
    "unknown memory": (
        GOOD.replace("mems: {acc: REGISTER}", "mems: {acc: REGISTR}  # error: M010@REGISTR"),
        "gemm",
        ["cuda_c.sm_90a has no memory 'REGISTR'", "did you mean 'REGISTER'?"],
    ),
    "unknown memory of a binding": (
        GOOD.replace(
            "mems: {A: SHARED, B: SHARED}}", "mems: {A: SPM, B: SHARED}}  # error: M010@SPM"
        ),
        "gemm",
        ["has no memory 'SPM'"],
    ),
    "memory of nothing": (
        GOOD.replace("mems: {acc: REGISTER}", "mems: {D: REGISTER}  # error: M012@D"),
        "gemm",
        ["tile: mems names 'D'; tile has parameters ['C', 'A', 'B'] and locals ['acc']"],
    ),
    "memory of no operand": (
        GOOD.replace(
            "mems: {A: SHARED, B: SHARED}}", "mems: {X: SHARED, B: SHARED}}  # error: M012@X"
        ),
        "gemm",
        ["tile: mems of leaf mma names 'X'; it has parameters ['C', 'A', 'B']"],
    ),
    "a memory the processor cannot see": (
        GOOD.replace("tunables: {bm: 64}", "tunables: {bm: 64}, mems: {A: SHARED}").replace(
            "calls: {tile: tile}}", "calls: {tile: tile}}  # error: M013@SHARED"
        ),
        "gemm",
        ["host (HOST) cannot hold A in SHARED: SHARED is visible from BLOCK down"],
    ),
    "no value": (
        GOOD.replace("tunables: {bm: 64}, ", "")
        .replace("host: {task_name", "host: {task_name")
        .replace("calls: {tile: tile}}", "calls: {tile: tile}}  # error: M020"),
        "gemm",
        [
            "tunable 'bm' has no value in instance 'host'",
            "asked for at ",
            "add tunables: {bm: ...}",
        ],
    ),
    "no positive value": (
        GOOD.replace("{bk: 32}", "{bk: 0}  # error: M021@0"),
        "gemm",
        ["tunable bk = 0 in instance 'tile'; must be a positive int"],
    ),
    "a word as value": (
        GOOD.replace("{bk: 32}", "{bk: many}  # error: M021@many"),
        "gemm",
        ["tunable bk = 'many'"],
    ),
    "unread tunable": (
        GOOD.replace("{bk: 32}", "{bk: 32, bkk: 3}  # error: M022@bkk"),
        "gemm",
        ["tile: tunable 'bkk' is never read; did you mean 'bk'?"],
    ),
    "tiles of another rank": (
        SEED.replace("    mems:", "    tiles: {A: [64]}  # error: M022@A\n    mems:"),
        "seed",
        ["block: tiles of A has 1 entries; C has 2 dims"],
    ),
    "a panel that cannot be streamed": (
        SEED.replace("task_name: seed\n", "task_name: fused\n")
        .replace("seed_host", "fused_host")
        .replace("calls: {seed: block}", "calls: {fused: block}")
        .replace("B: SHARED}", "B: SHARED}  # error: M031"),
        "fused",
        [
            "panel A[., :] does not fit SHARED and leaf 'sum_of_square' cannot be streamed",
            "launched at",
        ],
    ),
    "blocked differently": (
        SEED.replace("    mems:", "    tiles: {A: [64, 32]}  # error: M032\n    mems:"),
        "seed",
        [
            "operands are blocked differently along the streamed dimension: A 32, B 64",
            "square block_size",
        ],
    ),
    "pipeline of nothing": (
        "entrypoint: host\ntask_mappings:\n"
        "  host: {task_name: h, proc: HOST, tunables: {bm: 64}, calls: {pointwise: tile}}\n"
        "  tile: {task_name: pointwise, proc: BLOCK, pipeline: 3}  # error: M040@3\n",
        "pointwise",
        ["tile: pipeline 3, but pointwise has no sequential or streamed loop that copies"],
    ),
    "unknown leaf kernel": (
        GOOD.replace("kernel: auto", "kernel: gemm_leaf_tensorcor").replace(
            "B: SHARED}}", "B: SHARED}}  # error: M050"
        ),
        "gemm",
        ["mma -> 'gemm_leaf_tensorcor' is no leaf kernel", "did you mean 'gemm_leaf_tensorcore'?"],
    ),
    "constraint": (
        GOOD + "constraints:\n  - bm * bk * 2 * pipeline <= 4096  # error: M060@bm\n",
        "gemm",
        ["constraint 'bm * bk * 2 * pipeline <= 4096' is false: 8192"],
    ),
    "constraint of another form": (
        GOOD
        + "constraints:\n  - bm != 64  # error: M060@bm\n  - 'select(bk < 8, 1, 0)'  # error: M060\n",
        "gemm",
        ["constraint 'bm != 64' is false: 64", "constraint 'select(bk < 8, 1, 0)' is false: 0"],
    ),
    "constraint that is no expression": (
        GOOD + "constraints:\n  - bm ** 2 < 3  # error: M062@bm\n",
        "gemm",
        ["expression 'bm ** 2 < 3'"],
    ),
    "constraint of an unknown name": (
        GOOD + "constraints:\n  - bmm < 3  # error: M062@bmm\n",
        "gemm",
        ["unknown name 'bmm'", "did you mean 'bm'?"],
    ),
    "tune left": (
        GOOD.replace(
            "{bk: 32}", "{bk: !tune {type: choice, values: [16, 32]}}  # error: M090@!tune"
        ),
        "gemm",
        ["bk is still !tune choice", "pick one of 16, 32"],
    ),
    "tune left in a binding": (
        GOOD.replace(
            "mma: {kernel: auto, mems: {A: SHARED, B: SHARED}}",
            "mma: !tune {type: choice, values: [auto, gemm_leaf_simt]}  # error: M090@!tune",
        ),
        "gemm",
        ["tile: the binding of mma is still !tune"],
    ),
    "tune left in an option": (
        GOOD.replace(
            "pipeline: 2", "pipeline: !tune {type: range, min: 2, max: 4}  # error: M090@!tune"
        ),
        "gemm",
        ["tile: pipeline is still !tune range", "pick one of 2, 3, 4"],
    ),
    "a mapped task that is never reached": (
        GOOD
        + "  other: {task_name: nowhere, proc: NOWHERE}\n"
        + "constraints: [bm < 3]  # error: M060@bm\n",
        "gemm",
        ["constraint"],
    ),
    "several at once": (
        GOOD.replace("proc: BLOCK", "proc: BLOK  # error: M005@BLOK")
        .replace("{bk: 32}", "{bk: 32, bkk: 3}  # error: M022@bkk")
        .replace("mems: {acc: REGISTER}", "mems: {D: FAST}  # error: M012@D M010@FAST"),
        "gemm",
        ["M005", "M010", "M012", "M022"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_code_place_and_text(name, tmp_path):
    mapping, entry, texts = WRONG[name]
    with pytest.raises(MappingError) as caught:
        bound(tmp_path, mapping, entry)
    path = tmp_path / "my.mapping.yaml"
    told(caught.value, path, marks(path))
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize(("mapping", "entry"), [(GOOD, "gemm"), (SEED, "seed")])
def test_the_correct_ones_bind(tmp_path, mapping, entry):
    bound(tmp_path, mapping, entry)


def test_shapes_that_do_not_fit(tmp_path):
    with pytest.raises(TaskLangError) as caught:
        bound(tmp_path, GOOD.replace("bk: 32", "bk: 64"), shapes=((256, 256), (256, 64), (32, 256)))
    assert caught.value.codes == ("E112",)
    span = caught.value.diagnostics[0].span
    line = (tmp_path / "logic.py").read_text().splitlines()[span.line - 1]
    assert "task.launch(mma, acc, Ap[0, k], Bp[k, 0])" in line
    assert "needs C[.., m, n] A[.., m, k] B[k, n]; k is 64" in str(caught.value)


def test_a_parameter_without_a_type(tmp_path):
    with pytest.raises(MappingError, match="no type or value is given for parameter 'B'") as caught:
        bound(tmp_path, GOOD, shapes=((256, 256), (256, 256)))
    assert caught.value.codes == ("M080",)


def test_tunables_are_inherited_and_the_nearest_wins(tmp_path):
    near = GOOD.replace("tunables: {bm: 64}", "tunables: {bm: 64, bk: 16}")
    text = print_program(bound(tmp_path, near).program)
    assert "A[(i0 * 64):+64, (k0 * 32):+32]" in text
    far = near.replace("    tunables: {bk: 32}\n", "")
    assert "A[(i0 * 64):+64, (k0 * 16):+16]" in print_program(bound(tmp_path, far).program)


def test_pipeline_goes_to_the_innermost_sequential_loop(tmp_path):
    loops = [s for s in walk(bound(tmp_path, GOOD).program.body) if isinstance(s, For)]
    assert [(s.proc, s.pipeline) for s in loops] == [("BLOCK", 0), ("BLOCK", 0), ("", 2)]


def test_rule_m_a_binding_stages_per_launch_and_an_instance_at_entry(tmp_path):
    per_launch = print_program(bound(tmp_path, GOOD).program)
    assert "| r A = A[(i0 * 64):+64, (k0 * 32):+32] -> SHARED" in per_launch
    whole = GOOD.replace("mems: {acc: REGISTER}", "mems: {acc: REGISTER, A: SHARED}")
    at_entry = print_program(bound(tmp_path, whole).program)
    assert "copy A_s[0:+64, 0:+256] <- A[(i0 * 64):+64, 0:+256]" in at_entry
    assert "| r A = A_s[0:+64, (k0 * 32):+32]" in at_entry


def test_none_shares_what_the_caller_holds(tmp_path):
    kept = GOOD.replace("mems: {acc: REGISTER}", "mems: {acc: REGISTER, A: NONE, C: NONE}")
    text = print_program(
        bound(tmp_path, kept.replace("mems: {A: SHARED, B: SHARED}", "mems: {}")).program
    )
    assert "A_s" not in text and "-> " not in text


POLICY = """\
target: cuda_c
policies:
  grid: BLOCK
  rules:
    - match: {primitive: [gemm, gemm_acc]}
      tiles: {m: "min(64, extent // (cores - cores))", n: 64, k: 32}
"""


@pytest.mark.parametrize(
    ("text", "code", "told_text"),
    [
        (POLICY.replace(" // (cores - cores)", ""), "M070", "no rule matches leaf"),
        (
            POLICY + '    - match: {primitive: "*"}\n',
            "M062",
            "division by zero",
        ),
    ],
)
def test_policies_that_do_not_fit(tmp_path, text, code, told_text):
    with pytest.raises(MappingError, match=told_text) as caught:
        bound(tmp_path, text)
    assert caught.value.codes == (code,)


def test_words_of_a_policy_that_the_machine_does_not_know(tmp_path):
    text = """\
target: cuda_c
policies:
  grid: BLOK  # error: M005@BLOK
  halo: SHRED  # error: M010@SHRED
  locals: {default: REGSTER}  # error: M010@REGSTER
  rules:
    - match: {primitive: "*"}
      kernel: simdd  # error: M050@simdd
      mems: {in: REGISTER, out: REGISTR}  # error: M010@REGISTR
"""
    with pytest.raises(MappingError, match="did you mean 'BLOCK'") as caught:
        bound(tmp_path, text)
    path = tmp_path / "my.mapping.yaml"
    told(caught.value, path, marks(path))
    assert "did you mean 'REGISTER'" in str(caught.value)


def test_annotated_ranks_are_checked(tmp_path):
    logic = execute_logic(
        write(
            tmp_path,
            """
            @task.define
            def entry(C: task.Tensor["M", "N"]):
                task.launch(zero, C)
            """,
        )
    )
    machine = load_machine("cuda_c.sm_90a")
    mapping = load_mapping(written(tmp_path, POLICY))
    with pytest.raises(TaskLangError, match="C is annotated with 2 dims, got 1") as caught:
        bind(
            logic.tasks["entry"],
            mapping,
            machine,
            {"C": ArgType(shape=(3,), dtype="float32")},
            tasks=logic.tasks,
        )
    assert caught.value.codes == ("E144",)
