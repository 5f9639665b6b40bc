"""The rule `text` of Pallas kernels: what is printed is the Program, and a fault is refused. Nothing here needs JAX."""

from __future__ import annotations

import re

import pytest

from septran import backends
from septran.ir.nodes import Program
from septran.ir.text import parse_program, print_program
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.prove.printed import Unreadable
from septran.prove.sets import model
from septran.prove.text import same_text
from septran.run.prove import finish, prove_request
from tests.backends.operators import all_operators
from tests.cli.conftest import septran as septran
from tests.prove.test_text import changed, printed, refused
from tests.prove.text_mutants import text_mutants

TARGET = "pallas_tpu"


def test_a_user_sees_that_the_text_is_proved(septran):
    done = septran("prove", "--op", "conv2d", "--backend", TARGET)
    assert done.code == 0, done.err
    assert "text proved" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("op", "dims"),
    [
        ("gemm", {"M": 500, "N": 600, "K": 1100}),
        ("conv2d_stride2", {"H": 17, "W": 19}),
        ("attention_causal", {"S": 700}),
        ("transpose", {"M": 100, "N": 77}),
    ],
)
def test_edges_are_proved_too(op: str, dims: dict[str, int]):
    assert refused(*printed(op, TARGET, **dims)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("arch", backends.get(TARGET).arches)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_operator_is_the_program(arch: str, dtype: str):
    wrong = {}
    for op, (operator, _) in all_operators().items():
        if op == "cross_entropy":
            continue  # M172: int64
        for dims in ({}, *operator.odd_dims):
            request = GenRequest(op=op, backend=TARGET, arch=arch, dtype=dtype, dims=dims)
            rules = {r.rule: r for r in prove_request(request).certificate.rules}
            wrong[op, *dims.items()] = rules["text"].state, rules["text"].why
    assert {op: why for op, why in wrong.items() if why[0] != "proved"} == {}


GEMM = {"M": 700, "N": 600, "K": 2000}
A_BY, C_BY = "(256, 512), lambda i0, i1, k0: (i0, k0)", "lambda i0, i1, k0: (i0, i1)"


@pytest.mark.parametrize(
    ("op", "old", "new", "says"),
    [
        ("gemm", A_BY, A_BY.replace("(i0, k0)", "(i1, k0)"), "lies elsewhere"),
        ("gemm", A_BY, A_BY.replace("256", "255"), "is a tile of (255, 512)"),
        ("gemm", C_BY, C_BY.replace("(i0, i1)", "(i0, k0)"), "is left and taken again"),
        ("gemm", C_BY, C_BY.replace("(i0, i1)", "(i0, 0)"), "two cores hold the same block of C"),
        ("gemm", '"arbitrary"', '"parallel"', "two cores hold the same block of C"),
        ("gemm", "grid=(3, 3, 4)", "grid=(3, 3, 3)", "leaves an iteration out"),
        ("gemm", "grid=(3, 3, 4)", "grid=(3, 4, 4)", "once more"),
        ("gemm", "@pl.when(k0 == 0)", "@pl.when(k0 == 1)", "in 2 loops, in the text in 3"),
        ("gemm", "pl.program_id(0)", "pl.program_id(1)", "scalar 0 is another"),
        ("gemm", "pltpu.VMEM((256, 256)", "pltpu.VMEM((256, 512)", "in the text, not (256, 256)"),
        ("gemm", "(700, 600), jnp.float32", "(700, 600), jnp.int32", "C is made as"),
        ("gemm", "TAKES = (1, 2)", "TAKES = (2, 1)", "is B in the text"),
        ("gemm", "TAKES = (1, 2)", "TAKES = (0, 2)", "is read and replaced"),
        ("gemm", ")(A, B)", ")(B, A)", "is B in the text"),
        ("gemm", "acc[...] = leaf_mma", "C[...] = leaf_mma", "is C in the text"),
        ("conv2d", "(1, 1), (1, 1), (0, 0)", "(1, 1), (1, 0), (0, 0)", "undefined outside"),
        ("conv2d", "(1, 1), (1, 1), (0, 0)", "(1, 1), (0, 1), (0, 0)", "lies elsewhere"),
        ("conv2d", "pl.ds(k1, 1)", "pl.ds(k1 + 1, 1)", "leaves its block"),
        ("conv2d", "fori_loop(0, 3", "fori_loop(0, 2", "leaves an iteration out"),
        ("conv2d_stride2", ", stride=2", "", "lies elsewhere"),
        ("gemm", "pl.program_id(2)", "pl.program_id(3)", "axis 3 of a grid of 3"),
        ("relu", "reshape((1, 100000))", "reshape((1, 100001))", "of the 100000 of X"),
        ("gemm", "acc[...] = leaf_zero", "acc_2[...] = leaf_zero", "is not read"),
        ("softmax", "    m[...] = m_t\n", "", "is m_t in the text"),
    ],
)
def test_a_changed_text_is_refused(op: str, old: str, new: str, says: str):
    plan, lowered, kernel = printed(op, TARGET, **(GEMM if op == "gemm" else {}))
    assert says in refused(plan, lowered, changed(kernel, old, new))


@pytest.fixture(scope="module")
def halves() -> tuple[Kernel, Program]:
    """A kernel that is launched twice, each time for one half of a tensor."""
    plan = resolve(GenRequest(op="relu", backend=TARGET, dims={"N": 4000}))
    core = finish(plan, lower_plan(plan))
    text = print_program(core.program).replace("for i0 in 4", "for t in 2\n    for i0 in 2")
    head, body = text.split("    for i0 in 2", 1)
    body = body.replace("\n", "\n  ").replace("i0 * 1024", "(t * 2048) + (i0 * 1024)")
    program = parse_program(f"{head}    for i0 in 2{body.rstrip()}\n")
    leaves = library_leaves(plan.backend, program, lower_plan(plan).bound.mapping)
    return plan.backend.emit(program, leaves), program


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", ""),
        ("        input_output_aliases={1: 0},\n", "", "Y is read and replaced"),
        ("@pl.when((i0 == 0))", "@pl.when((i0 == 1))", "does not start as what it was"),
        ("Y[...] = Y_in[...]", "Y[...] = X[...]", "does not start as it was"),
        ("t=t", "t=0", "scalar 0 is another"),
        ("range(2)", "range(1)", "loops"),
    ],
)
def test_what_an_array_holds_goes_on_into_the_next_launch(
    halves: tuple[Kernel, Program], old: str, new: str, says: str
):
    kernel, program = halves
    found = _findings(changed(kernel, old, new) if says else kernel, program)
    assert says in found and bool(says) == bool(found)


def _findings(kernel: Kernel, program: Program) -> str:
    read_back = backends.get(TARGET).read_back
    assert read_back is not None
    try:
        return str(next(same_text(model(program), read_back(kernel, program)), ""))
    except Unreadable as e:
        return str(e)


def test_a_sample_of_planted_faults_is_refused():
    """Every loop runs more than once; a line that says again which axis a name is may go."""
    plan, lowered, kernel = printed("gemm", TARGET, **GEMM)
    left = [name for name, m in [*text_mutants(kernel)][::5] if not refused(plan, lowered, m)]
    assert [name for name in left if "pl.program_id twice" not in name] == []


@pytest.mark.slow
@pytest.mark.parametrize("op", ["gemm", "conv2d", "attention_causal", "softmax", "gemm_seed"])
def test_planted_faults_that_are_not_refused_mean_the_same(op: str):
    """Larger blocks of which nobody reads more, zeros that nobody reads, an array padded twice."""
    plan, lowered, kernel = printed(op, TARGET)
    left = [name for name, m in text_mutants(kernel) if not refused(plan, lowered, m)]
    harmless = r"line \d+: (\d+ for \d+|X_wide = jnp.pad twice|[ijk]\d = pl.program_id dropped|\w+ = pl.program_id twice)$"
    assert [name for name in left if not re.match(harmless, name)] == []
