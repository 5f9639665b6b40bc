"""Every operator under every target's policy: it binds, lowers, and each pass keeps its meaning.

The interpreter's result is torch's in float64, and whatever may run at the same time does not matter; so a
dropped copy (NaN), a missing Sync (a Hazard) or a wrong move shows at the pass that made it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from septran import backends
from septran.ir.text import print_program
from septran.mapping.text import mapping_text
from septran.passes.interpret import interpret
from tests.bind.running import all_operators, bound, fitting, inputs, outcomes, reference, tolerance

OPERATORS = all_operators()
TARGETS = [(name, arch) for name in backends.names() for arch in backends.get(name).arches or ("",)]
QUICK_TARGETS = ("cpp", "cuda_c", "dsa_c", "triton_cuda")
QUICK_OPERATORS = {
    "gemm": QUICK_TARGETS,
    "gemm_seed": ("cpp",),
    "conv2d": ("cpp", "cuda_c"),  # the slowest to interpret
    "softmax": QUICK_TARGETS,
    "attention_causal": QUICK_TARGETS,
    "cross_entropy": QUICK_TARGETS,
    "transpose": QUICK_TARGETS,
    "add": QUICK_TARGETS,
}


REFUSED = {("cross_entropy", "pallas_tpu")}
"""its labels are int64, which the target does not have"""


def _dtype(op, backend):
    return next(d for d in op.dtypes if d in backend.dtypes)


def _cases(quick):
    seen, found = set(), []
    for target, arch in TARGETS:
        for name in OPERATORS:
            if (name, target) in REFUSED:
                continue
            first = target not in seen
            chosen = quick(name, target) and first
            marks = () if chosen else pytest.mark.slow
            case = f"{name}-{target}-{arch}"
            found.append(pytest.param(name, target, arch, id=case, marks=marks))
        seen.add(target)
    return found


def _same_meaning(op, dims, dtype, programs, given):
    wanted = reference(op, dims, given)
    limit = tolerance(dtype)
    programs = list(programs)
    for stage, program in programs:
        got = {n: t.clone() for n, t in given.items()}
        # only the last pass has said where every buffer is, and when it is free again
        interpret(program, got, fresh=program is not programs[-1][1])
        for out in op.outputs:
            torch.testing.assert_close(
                got[out].double(),
                wanted[out].double(),
                rtol=limit,
                atol=limit,
                msg=lambda m, at=f"{stage}, {out}": f"after {at}: {m}",
            )


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "target", "arch"),
    _cases(lambda name, target: target in QUICK_OPERATORS.get(name, ())),
)
def test_every_pass_keeps_the_meaning_at_odd_sizes(name, target, arch):
    op, path = OPERATORS[name]
    backend = backends.get(target)
    dims, dtype = op.odd_dims[0], _dtype(op, backend)
    found = bound(op, path, backend, arch, dtype, dims)
    given = inputs(op, dims, dtype)
    _same_meaning(op, dims, dtype, outcomes(found, backend), given)


@pytest.mark.each_value  # hashes of kernels show it of every cell
@pytest.mark.parametrize(("name", "target", "arch"), _cases(lambda name, target: True))
def test_every_operator_binds_and_lowers_at_its_sample_sizes(name, target, arch):
    op, path = OPERATORS[name]
    backend = backends.get(target)
    stages = [stage for stage, _ in fitting(op, path, backend, arch, _dtype(op, backend))]
    assert stages == [
        "bind",
        *(n for n, _ in backend.passes),
        *(n for n, _ in backend.finishing({})),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [(n, t) for n in OPERATORS for t in backends.names() if (n, t) not in REFUSED],
)
def test_every_odd_size_keeps_the_meaning(name, target):
    op, path = OPERATORS[name]
    backend = backends.get(target)
    arch = (backend.arches or ("",))[0]
    dtype = _dtype(op, backend)
    for dims in op.odd_dims[1:]:
        found = bound(op, path, backend, arch, dtype, dims)
        given = inputs(op, dims, dtype)
        _same_meaning(op, dims, dtype, outcomes(found, backend), given)


@pytest.mark.parametrize(
    ("name", "target"),
    [(n, t) for n in ("gemm", "softmax", "conv2d") for t in ("cpp", "dsa_c", "triton_cuda")],
)
def test_the_printed_mapping_binds_to_the_same_program(name, target, tmp_path):
    op, path = OPERATORS[name]
    backend = backends.get(target)
    arch, dtype = (backend.arches or ("",))[0], _dtype(op, backend)
    policy = bound(op, path, backend, arch, dtype, op.odd_dims[0])
    file = tmp_path / "explicit.mapping.yaml"
    file.write_text(mapping_text(policy.mapping), encoding="utf-8")
    explicit = bound(op, path, backend, arch, dtype, op.odd_dims[0], mapping=file)
    assert explicit.program.body == policy.program.body
    assert explicit.program == policy.program


def test_an_explicit_mapping_wins_over_the_policy(tmp_path):
    op, path = OPERATORS["gemm"]
    backend = backends.get("cpp")
    policy = bound(op, path, backend, "x86_64_v3", "float32", op.dims)
    host = policy.mapping.instances["host"]
    changed = replace(host, tunables={**host.tunables, "block_size_M": 48})
    mapping = replace(policy.mapping, instances={**policy.mapping.instances, "host": changed})
    file = tmp_path / "mine.mapping.yaml"
    file.write_text(mapping_text(mapping), encoding="utf-8")
    found = bound(op, path, backend, "x86_64_v3", "float32", op.dims, mapping=file)
    assert found.program != policy.program
    assert "(i0 * 48):+" in print_program(found.program)
