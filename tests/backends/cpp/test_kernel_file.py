"""The emitted file: golden texts, the Python module and planted bugs."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from septran.backends.cpp import wasm
from septran.backends.cpp.backend import ARCHES, CPP
from septran.backends.cpp.leaves import layouts, library_leaf
from septran.errors import InputError
from septran.ir.nodes import leaf_calls
from septran.kernel import leaf_specs
from tests.backends.cpp.programs import (
    LAYERNORM,
    SOFTMAX,
    gemm,
    kernel_of,
    poisoned,
    rowwise,
    run_kernel,
)
from tests.backends.cpp.test_copies import convolution

GOLDEN = Path(__file__).parents[2] / "golden" / "cpp"
PROGRAMS = {
    "gemm": lambda: gemm(1000, 777, 345, tile=(512, 512, 512), arch="x86_64_v4"),
    "softmax": lambda: rowwise("softmax", SOFTMAX, 37, 100, 8, temporaries="ms"),
    "layernorm": lambda: rowwise(
        "layernorm",
        LAYERNORM,
        20,
        300,
        4,
        temporaries=("mu", "var"),
        vectors="gb",
        tiles="t",
        scalars=(("n", 300.0),),
    ),
    "conv": lambda: convolution(5, 7, 6, 40, packed=True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_leaves_and_hierarchy_are_as_recorded(name, request):
    source = kernel_of(PROGRAMS[name]()).source
    text = source[source.index("// ---- leaves") : source.index("// ---- Python module")]
    golden = GOLDEN / f"{name}.cpp"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_emission_is_deterministic_and_self_contained():
    source = kernel_of(gemm(64, 64, 64)).source
    assert source == kernel_of(gemm(64, 64, 64)).source
    before_python = source[: source.index("#ifdef SEPTRAN_PYBIND")]
    assert '#include "' not in before_python


def test_the_leaf_asks_for_panels_of_its_operands():
    plain, transposed = (leaf_calls(gemm(64, 64, 64, trans_b=t))[1] for t in (False, True))
    assert layouts(plain) == {"A": "panel_m:12", "B": "panel_n:32"}
    assert layouts(transposed) == {"A": "panel_m:12", "B": "panel_n_t:32"}


BUGS = {
    "a skipped tail": ("for (; j_ < n_; j_ += L) {", "for (; false; j_ += L) {"),
    "an offset by one": ("X.p + i0 * X.s[0]", "X.p + (i0 + 1) % X.n[0] * X.s[0]"),
    "a lost partial sum": ("total<Sum>(s_acc)", "splat<F>(fold<Sum>(s_acc[0]))"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_changes_the_result(bug):
    prog = PROGRAMS["softmax"]()
    found, planted = BUGS[bug]
    leaves = {}
    for _, spec in leaf_specs(prog):
        leaf = library_leaf(spec)
        assert found in leaf.source
        leaves[spec.key] = dataclasses.replace(leaf, source=leaf.source.replace(found, planted))
    x = np.random.default_rng(0).standard_normal((37, 100)).astype(np.float32) * 4
    good, bad = poisoned(x.shape), poisoned(x.shape)
    run_kernel(kernel_of(prog), [good, x])
    run_kernel(CPP.emit(prog, leaves), [bad, x])
    assert not np.allclose(good, bad, rtol=1e-5, equal_nan=False)


def test_a_loaded_kernel_takes_torch_tensors_and_refuses_wrong_ones(tmp_path):
    torch = pytest.importorskip("torch")
    kernel = kernel_of(gemm(40, 50, 60))
    call = CPP.load(kernel, tmp_path)
    a, b, c = torch.randn(40, 60), torch.randn(60, 50), torch.empty(40, 50)
    call(c, a, b)
    assert torch.allclose(c, a @ b, atol=1e-4)
    for wrong, said in [
        ((c, a), "takes 3 tensors, got 2"),
        ((c, a.double(), b), "A is float64"),
        ((c, a[:, :30], b), r"A is float32\[40, 30\]"),
        ((c, a, torch.randn(50, 60).T), "not contiguous"),
        ((c, a, 7), "B is a int"),
    ]:
        with pytest.raises(InputError, match=said) as caught:
            call(*wrong)
        assert caught.value.codes == ("K001",)


@pytest.mark.wider
@pytest.mark.parametrize("arch", ["x86_64_v3", pytest.param("generic", marks=pytest.mark.wider)])
def test_narrower_vectors_give_the_same_answers(arch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((70, 70)).astype(np.float32) for _ in range(2))
    for program in (gemm(70, 70, 70, arch=arch), gemm(70, 70, 70, arch=arch, packed=False)):
        c = poisoned((70, 70))
        run_kernel(kernel_of(program), [c, a, b])
        assert np.abs(c - a.astype(np.float64) @ b).max() < 5e-5


def test_a_compiler_error_is_reported_not_raised(tmp_path):
    kernel = kernel_of(PROGRAMS["softmax"]())
    broken = kernel.with_files({kernel.main: kernel.source + "int broken = ;\n"})
    built = CPP.build(broken, tmp_path)
    assert not built.ok
    assert "broken" in built.log
    assert str(tmp_path) not in built.log


def test_every_arch_has_flags_and_a_machine():
    from septran.machine import load_machine
    from septran.toolchain.compilers import flags_for

    for arch in ARCHES:
        flags = wasm.FLAGS if arch == wasm.ARCH else flags_for(arch)
        assert "-ffast-math" not in flags
        assert load_machine(CPP.machine(arch)).procs[0] == "HOST"
