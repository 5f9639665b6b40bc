"""What the proofs accept and refuse: shipped kernels, planted faults, all sizes at once."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.errors import SeptranError
from septran.ir import nodes as ir
from septran.ir.expr import Bin, Const, Var
from septran.ir.spec import check_program
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.plan.symbolic import LARGEST, symbolic
from septran.plan.unmapped import Reference, unmapped
from septran.prove import RULES, Certificate, prove
from septran.run.prove import prove_request
from tests.backends.operators import all_operators
from tests.prove.mutants import mutants

TARGETS = ("cpp", "cuda_c", "tilelang_cuda", "tilelang_npuir", "dsa_c", "triton_cuda")
FEW = ("add", "gemm", "softmax", "transpose")


@functools.cache
def case(
    op: str, target: str, dims: tuple[tuple[str, int], ...] = ()
) -> tuple[ir.Program, Reference]:
    plan = resolve(GenRequest(op=op, backend=target, dims=dict(dims)))
    lowered = lower_plan(plan)
    reference = unmapped(plan, lowered.bound.mapping, lowered.passes[0].program, symbolic(plan, ()))
    return lowered.program, reference


def decide(
    program: ir.Program, op: str, target: str, dims: tuple[tuple[str, int], ...] = ()
) -> Certificate:
    _, reference = case(op, target, dims)
    return prove(program, reference.program, assumptions=reference.assumptions)


def told(certificate: Certificate) -> list[str]:
    return [str(f) for f in certificate.findings]


@pytest.mark.few(8)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", FEW)
def test_shipped_kernels_are_proven(op: str, target: str):
    certificate = prove_request(GenRequest(op=op, backend=target)).certificate
    assert certificate.holds, told(certificate)
    backend = backends.get(target)
    missing = {"order"} if backend.copies_ordered_by else set()
    missing |= set() if backend.read_back else {"text"}
    assert set(certificate.proved) == set(RULES) - missing


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted(dict(backends.BUILTIN)))
def test_every_operator_on_every_arch_is_proven(target: str):
    refused = {}
    for op, (operator, _) in all_operators().items():
        for arch in backends.get(target).arches or (None,):
            for dims in ({}, operator.odd_dims[0]):
                request = GenRequest(op=op, backend=target, arch=arch, dims=dims)
                try:
                    certificate = prove_request(request).certificate
                except SeptranError as e:
                    assert e.exit_code == 2, e  # the policy refuses the sizes or the dtype
                    continue
                if not certificate.holds:
                    refused[op, arch, tuple(dims)] = told(certificate)
    assert not refused


def test_a_streamed_panel_names_the_law_it_rests_on():
    program, reference = case("gemm_seed", "cuda_c")
    assert reference.assumptions
    certificate = decide(program, "gemm_seed", "cuda_c")
    assert certificate.holds and set(reference.assumptions) <= set(certificate.assumptions)
    assert not case("gemm", "cuda_c")[1].assumptions


# ---- all sizes at once


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("op", "target", "names"),
    [
        ("gemm", "cuda_c", ("M", "N", "K")),
        ("softmax", "dsa_c", ("M", "N")),
        ("transpose", "cpp", ("M", "N")),
        ("conv2d_stride2", "cpp", ("B",)),  # a border is no row
        pytest.param("gemm", "dsa_c", ("M", "N", "K"), marks=pytest.mark.slow),
        pytest.param("gemm", "cpp", ("M", "N", "K"), marks=pytest.mark.slow),
        pytest.param("layernorm", "tilelang_cuda", ("M", "N"), marks=pytest.mark.slow),
        pytest.param("attention_causal", "dsa_c", ("Z", "S"), marks=pytest.mark.slow),
        pytest.param("conv2d", "cuda_c", ("B", "Co"), marks=pytest.mark.slow),
    ],
)
def test_symbolic_sizes_are_proven(op: str, target: str, names: tuple[str, ...]):
    certificate = prove_request(GenRequest(op=op, backend=target), names).certificate
    assert certificate.holds, told(certificate)
    assert set(certificate.domain) == set(names)
    assert all(low == 1 for low, _ in certificate.domain.values())


POOL = """
import septran.tasklang as task
from septran.reference import F, Reference


@task.define(leaf=True)
def first(Y, X):
    task.call_primitive("copy", Y, X)


@task.define(leaf=True)
def larger(Y, X):
    task.call_primitive("map", Y, expr="max(y, x)", y=Y, x=X)


@task.define
def tile(Y, X):
    acc = task.tensor("acc", Y.shape)
    task.launch(first, acc, task.shift(X, (0, 0, 0), Y.shape, stride=(1, 2, 2)))
    for r, s in task.sequential_range(3, 3):
        task.launch(larger, acc, task.shift(X, (0, r, s), Y.shape, stride=(1, 2, 2)))
    task.launch(first, Y, acc)


@task.define
def pool(Y, X):
    t = task.tunable("tile_H")
    Yp = task.partition(Y, by="blocks", shape=(1, t, t))
    Xp = task.partition(X, by="halo", shape=(1, t, t), window=(1, 3, 3), stride=(1, 2, 2))
    for n, i, j in task.parallel_range(Yp.shape):
        task.launch(tile, Yp[n, i, j], Xp[n, i, j])


OPERATORS = (
    task.Operator(
        name="pool",
        about="maximum of 3 x 3 windows, stride 2, no padding",
        entry=pool,
        tensors={"Y": "B (H-3)//2+1 (W-3)//2+1", "X": "B H W"},
        outputs=("Y",),
        dims={"B": 2, "H": 33, "W": 41},
        odd_dims=(),
        reference=Reference(fn=lambda X: F.max_pool2d(X, 3, 2), kind="exact"),
    ),
)
"""


def test_a_window_fits_every_size_from_its_own(tmp_path: Path):
    (tmp_path / "pool.py").write_text(POOL)
    request = GenRequest(op=None, logic=tmp_path / "pool.py", backend="cpp")
    certificate = prove_request(request, ("B", "H", "W")).certificate
    assert certificate.holds, told(certificate)
    assert certificate.domain == {"B": (1, LARGEST), "H": (3, LARGEST), "W": (3, LARGEST)}


def test_a_convolution_is_proven_for_every_batch_and_image():
    certificate = prove_request(
        GenRequest(op="conv2d_1x1", backend="cpp"), ("B", "H", "W")
    ).certificate
    assert certificate.holds, told(certificate)
    assert set(certificate.domain.values()) == {(1, LARGEST)}


def test_a_row_held_whole_limits_its_size():
    plan_dims = dict(resolve(GenRequest(op="softmax", backend="dsa_c")).dims)
    certificate = prove_request(GenRequest(op="softmax", backend="dsa_c"), ("M", "N")).certificate
    assert certificate.domain["N"] == (1, plan_dims["N"])
    assert certificate.domain["M"][1] > plan_dims["M"]


def test_an_unknown_symbolic_dim_is_the_users_mistake():
    with pytest.raises(SeptranError) as e:
        prove_request(GenRequest(op="gemm", backend="cpp"), ("KK",))
    assert e.value.codes == ("C110",) and "K" in str(e.value)


# ---- planted faults

SMALL = (("M", 200), ("N", 150), ("K", 100))


@pytest.mark.parametrize(
    ("op", "target", "dims", "fault", "code"),
    [
        ("gemm", "cuda_c", SMALL, "dim 0 shifted: copy A_s", "P010"),
        ("gemm", "cuda_c", SMALL, "one iteration more: loop i0", "P010"),
        ("gemm", "cuda_c", SMALL, "one iteration less: loop i1", "P020"),
        ("gemm", "cuda_c", SMALL, "made parallel: loop k0", "P030"),
        ("gemm", "cuda_c", SMALL, "dropped: copy B_s", "P050"),
        ("gemm", "cuda_c", SMALL, "run twice: mma", "P050"),
        ("gemm", "cuda_c", SMALL, "dim 1 clipped: copy A_s", "P050"),
        ("gemm", "dsa_c", SMALL, "wrong slot: mma", "P050"),
        ("conv2d_1x1", "triton_cuda", (), "one iteration less: loop i0", "P020"),  # nothing runs
    ],
)
def test_a_planted_fault_is_refused_by_its_rule(op, target, dims, fault, code):
    program = case(op, target, dims)[0]
    planted = [m for name, m in mutants(program) if name.startswith(fault)]
    assert planted, fault
    certificate = decide(planted[0], op, target, dims)
    assert code in {f.code for f in certificate.findings}, told(certificate)
    assert any(f.at or f.code == "P050" for f in certificate.findings)


@pytest.mark.parametrize(
    ("op", "target"),
    [
        ("softmax", "dsa_c"),
        ("add", "tilelang_cuda"),
        ("layernorm", "triton_cuda"),
        ("transpose", "cuda_c"),
    ],
)
def test_every_planted_fault_is_refused(op: str, target: str):
    program = case(op, target)[0]
    survivors = [
        name for name, m in mutants(program) if m != program and decide(m, op, target).holds
    ]
    assert survivors == []


def test_sums_in_another_order_are_refused():
    """The interpreter and a run on any inputs accept them: the products are the same."""
    program = case("gemm", "cuda_c", SMALL)[0]
    blocks = next(
        s.extent for s in ir.walk(program.body) if isinstance(s, ir.For) and s.var == "k0"
    )
    back = {"k0": blocks - 1 - Var("k0")}

    def reverse(region: ir.Region) -> ir.Region:
        from septran.ir.expr import substitute

        return replace(
            region,
            offset=tuple(substitute(o, back) for o in region.offset),
            extent=tuple(substitute(e, back) for e in region.extent),
        )

    def edit(body: tuple[ir.Stmt, ...], inside: bool) -> tuple[ir.Stmt, ...]:
        out: list[ir.Stmt] = []
        for s in body:
            match s:
                case ir.For():
                    s = replace(s, body=edit(s.body, inside or s.var == "k0"))
                case ir.Copy() if inside:
                    s = replace(s, src=reverse(s.src), dst=reverse(s.dst))
                case ir.LeafCall() if inside:
                    s = replace(s, args=tuple(replace(a, region=reverse(a.region)) for a in s.args))
            out.append(s)
        return tuple(out)

    certificate = decide(replace(program, body=edit(program.body, False)), "gemm", "cuda_c", SMALL)
    assert [r.rule for r in certificate.rules if r.state == "refused"] == ["data"], told(
        certificate
    )


def test_sets_see_the_one_iteration_that_a_sample_misses():
    program = case("gemm", "cuda_c", (("M", 4096), ("N", 4096), ("K", 256)))[0]

    def nudge(body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        out: list[ir.Stmt] = []
        for s in body:
            if isinstance(s, ir.For):
                s = replace(s, body=nudge(s.body))
            elif isinstance(s, ir.Copy) and s.src.buffer.name == "A":
                # one block of many begins far outside: max(0, 1 - (i0 - 14)^2) has no affine text, so two min
                late = Bin(
                    "max",
                    Const(0),
                    Bin("-", Const(1), Bin("max", Var("i0") - 14, Const(14) - Var("i0"))),
                )
                s = replace(
                    s, src=replace(s.src, offset=(s.src.offset[0] + late * 4096, s.src.offset[1]))
                )
            out.append(s)
        return tuple(out)

    broken = replace(program, body=nudge(program.body))
    check_program(broken)  # the sampled check sees the first and last values of each loop
    certificate = decide(broken, "gemm", "cuda_c", (("M", 4096), ("N", 4096), ("K", 256)))
    found = [f for f in certificate.findings if f.code == "P010"]
    assert found and dict(found[0].at)["i0"] == 14


def test_a_witness_names_the_statement_and_the_users_line():
    program = case("gemm", "cuda_c", SMALL)[0]
    planted = next(m for name, m in mutants(program) if name.startswith("dim 0 shifted: copy A_s"))
    finding = decide(planted, "gemm", "cuda_c", SMALL).findings[0]
    assert finding.statements and dict(finding.at).keys() >= {"i0", "i1"}
    assert any(str(p.file).endswith("gemm.py") for p in finding.places)
