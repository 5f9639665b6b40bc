"""Compiles the dsa_c documentation's blocks as leaf bodies and runs them in the simulator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from septran.agent.docs import Block
from septran.backends.dsa import backend as dsa_c
from septran.backends.dsa import emit as dsa_emit
from septran.backends.dsa.backend import DSA_C
from septran.ir.expr import Const
from septran.ir.nodes import Alloc, Buffer, Copy, For, Param, Prim, Privilege, Program, Region, Stmt
from septran.kernel import Leaf, leaf_specs
from septran.leafgate import Refusal
from septran.plan.floor import admitted
from tests.backends.dsa_c_tools import run_text
from tests.backends.dsa_programs import call, region
from tests.dsl_docs.runner import Outcome

KINDS = ("compile", "run")
M, N, K = 7, 21, 19


@dataclass(frozen=True, slots=True)
class Case:
    """Shapes and memories of a leaf's parameters, the output first, and what it computes."""

    params: Mapping[str, tuple[tuple[int, int], str, Privilege]]
    want: Any


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


_XY: Mapping[str, tuple[tuple[int, int], str, Privilege]] = {
    "Y": ((M, N), "SHARED", "w"),
    "X": ((M, N), "SHARED", "r"),
}
_CAB: Mapping[str, tuple[tuple[int, int], str, Privilege]] = {
    "C": ((M, N), "REGISTER", "w"),
    "A": ((M, K), "SHARED", "r"),
    "B": ((K, N), "SHARED", "r"),
}
CASES = {
    "scale": Case(_XY, lambda x: 2 * x),
    "softmax": Case(_XY, _softmax),
    "bias_relu": Case({**_XY, "B": ((1, N), "SHARED", "r")}, lambda x, b: np.maximum(x + b, 0)),
    "row_sum": Case(
        {"Y": ((M, 1), "SHARED", "w"), "X": ((M, N), "SHARED", "r")},
        lambda x: x.sum(1, keepdims=True),
    ),
    "gemm_acc": Case({**_CAB, "C": ((M, N), "REGISTER", "rw")}, lambda a, b: 0.5 + a @ b),
    "gemm_relu": Case(_CAB, lambda a, b: np.maximum(a @ b, 0)),
}


def _program(case: Case) -> Program:
    stmts: list[Stmt] = []
    after: list[Stmt] = []
    args: dict[str, tuple[Region, Privilege]] = {}
    params: list[Param] = []
    for name, (shape, mem, privilege) in case.params.items():
        far = Buffer(name=name, shape=shape, dtype="float32", mem="GLOBAL")
        near = Buffer(name=f"{name}_s", shape=shape, dtype="float32", mem=mem)
        params.append(Param(buffer=far, privilege="w" if privilege != "r" else "r"))
        stmts.append(Alloc(buffer=near))
        if privilege == "r":
            stmts.append(Copy(dst=region(near), src=region(far)))
        else:
            if privilege == "rw":
                fill = Prim(name="fill", out="C", attrs=(("value", 0.5),))
                stmts.append(call("init", (fill,), {"C": (region(near), "w")}))
            after.append(Copy(dst=region(far), src=region(near)))
        args[name] = (region(near), privilege)
    meaning = Prim(name="fill", out=next(iter(args)), attrs=(("value", 0.0),))
    body = (*stmts, call("block", (meaning,), args), *after)
    loop = For(var="i", extent=Const(1), body=body, proc="CORE", parallel=True)
    return Program(
        name="doc",
        target="dsa_c",
        arch="",
        machine="dsa_c",
        params=tuple(params),
        body=(loop,),
    )


def check(block: Block, folder: Path) -> Outcome:
    """Return whether the block compiles as a leaf and computes what its case says, free of hazards."""
    if dsa_c.compiler() is None:
        pytest.skip("no gcc on PATH")
    case = CASES[block.attrs.get("case", "scale")]
    program = _program(case)
    leaves: dict[str, Leaf] = {}
    for _, spec in leaf_specs(program):
        leaf = dsa_emit.library_leaf(spec)
        assert leaf is not None
        if spec.task == "block":
            text = f"{dsa_emit.signature(spec)} {{\n  (void)scratch;\n{block.code}\n}}\n"
            try:
                leaf = admitted(Leaf(spec=spec, writer="file", name="doc", source=text), DSA_C)
            except Refusal as refused:
                return Outcome(False, refused.sentence)
        leaves[spec.key] = leaf
    kernel = DSA_C.emit(program, leaves)
    built = dsa_c.build(kernel, folder)
    if not built.ok or block.test == "compile":
        return Outcome(built.ok, built.log)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype(np.float32) for s, _, _ in case.params.values()]
    found, report = run_text(kernel, folder, arrays, "compute")
    if report["errors"]:
        return Outcome(False, "\n".join(report["errors"]))
    want = case.want(*[a.astype(np.float64) for a in arrays[1:]])
    right = np.allclose(found[0], want, rtol=1e-4, atol=1e-4)
    return Outcome(right, "" if right else f"differs by {abs(found[0] - want).max()}")


def versions() -> Mapping[str, str]:
    """Return the version of the vendor library: the simulator that ships with SepTran."""
    return {"vendor_lib": "1"}


def unknown_names(text: str) -> set[str]:
    """Return vendor_lib_*, vl_* and VL_* names in `text` that the header does not have."""
    header = (dsa_emit.runtime_folder() / "vendor_lib.h").read_text(encoding="utf-8")
    known = set(re.findall(r"\b(?:vendor_lib|vl|VL)_\w+", header)) | {"vendor_lib"}
    return set(re.findall(r"\b(?:vendor_lib|vl|VL)_\w+", text)) - known
