"""TensorIR: any Program prints as TVMScript that parses back, is well-formed, and has the dsa.* calls."""

from __future__ import annotations

import pytest

from septran.backends.dsa import tir
from septran.backends.dsa.backend import DSA_C
from septran.backends.dsa.machine import storage
from septran.ir.nodes import Program
from septran.passes.pipeline_loops import pipeline_loops
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.backends.dsa_programs import gemm

tilelang = pytest.importorskip("tilelang")


def check(func) -> str:
    from tilelang import tvm

    text = func.script()
    again = tir.parse(text)
    assert tvm.ir.structural_equal(func, again)
    assert again.script() == text
    assert tvm.tirx.analysis.verify_well_formed(func)
    return text


def lowered(op: str, backend: str) -> Program:
    return lower_plan(resolve(GenRequest(op=op, backend=backend))).program


OPS = ("gemm", "softmax", "conv2d", "attention_causal", "transpose", "col_sum", "cross_entropy")


@pytest.mark.few(7)
@pytest.mark.parametrize("backend", ["cpp", "dsa_c", "cuda_c"])
@pytest.mark.parametrize("op", OPS)
def test_round_trip(op: str, backend: str) -> None:
    check(tir.to_prim_func(lowered(op, backend)))


def test_the_seeds_calls_are_there() -> None:
    text = check(tir.to_prim_func(gemm(pipeline=3)))
    for call in ("dsa.dma_copy", "dsa.mma", "dsa.fill"):
        assert f'"{call}"' in text
    assert '"septran.pipeline": 3' in text
    assert 'A_s = T.alloc_buffer((32, 32), scope="shared")' in text


def test_events_and_versions() -> None:
    rules = storage("dsa_c")
    ready = DSA_C.finished(pipeline_loops(gemm(pipeline=2)), {})
    text = check(tir.to_prim_func(ready, rules.stored, expand=False))
    assert '"dsa.set", "LOAD", "MMA"' in text
    assert '"dsa.wait", "MMA", "LOAD"' in text
    assert "A_s = T.alloc_buffer((2, 32, 32)" in text
    assert '"septran.places": "C_r=REGISTER:0 A_s=SHARED:0 B_s=SHARED:8192"' in text


def test_an_unknown_statement_is_named() -> None:
    from dataclasses import replace

    from septran.errors import InternalError

    with pytest.raises(InternalError, match="no rule for statement str"):
        tir.to_prim_func(replace(gemm(), body=("x",)))  # type: ignore[arg-type]


def test_tvm_builds_c_through_the_registered_function() -> None:
    import importlib

    from septran.backends.dsa.tvm_build import register

    rules = storage("dsa_c")
    program = pipeline_loops(gemm(pipeline=2))
    func = tir.to_prim_func(DSA_C.finished(program, {}), rules.stored, expand=False)
    register()
    from tilelang import tvm

    # the package exports a function of the module's name, so the module is asked for by path
    codegen_build = importlib.import_module("tvm.tirx.build").codegen_build
    module = codegen_build(tvm.IRModule({"gemm": func}), tvm.target.Target("ext_dev"))
    assert module.inspect_source() == DSA_C.emit(program, {}).source


def test_the_build_function_is_in_tvm_s_own_table() -> None:
    """Whoever looks the target up by name, as TVM's build does, finds CodeGenDSA, with the vendor asked for."""
    from septran.backends.dsa.tvm_build import BUILD_FUNCTION, register
    from septran.errors import ConfigError

    register("bdc_style")
    from tilelang import tvm

    rules = storage("dsa_c")
    func = tir.to_prim_func(DSA_C.finished(gemm(), {}), rules.stored, expand=False)
    build = tvm.get_global_func(BUILD_FUNCTION)
    module = build(tvm.IRModule({"gemm": func}), tvm.target.Target("ext_dev"))
    assert "bdc_mm(" in module.inspect_source() and "void gemm_entry(" in module.inspect_source()
    register("systolic_style")
    wrong = tir.to_prim_func(lowered("softmax", "dsa_c"), rules.stored, expand=True)
    with pytest.raises(Exception, match=r"systolic_style has no call for dsa\.vec") as told:
        tvm.get_global_func(BUILD_FUNCTION)(
            tvm.IRModule({"softmax": wrong}), tvm.target.Target("ext_dev")
        )
    assert isinstance(told.value, ConfigError) or "C122" in str(told.value)
