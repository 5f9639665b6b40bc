"""Planted bugs in generated C: each must be reported, with the right message, whatever the numbers say."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from septran.kernel import Kernel
from septran.passes.pipeline_loops import pipeline_loops
from tests.backends.dsa_c_tools import kernel_of, run_text
from tests.backends.dsa_programs import gemm

M, N, K = 160, 64, 96


@cache
def kernel() -> Kernel:
    return kernel_of(pipeline_loops(gemm(M, N, K, tile=(32, 32, 32), pipeline=2)))


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((M, K), (K, N)))
    return [np.full((M, N), np.nan, np.float32), a, b]


def report(text: str, folder: Path, order: str = "program") -> dict:
    mutant = replace(kernel(), files=((kernel().main, text), *kernel().files[1:]))
    return run_text(mutant, folder, arrays(), order)[1]


@pytest.mark.parametrize("order", ["program", "dma", "compute"])
def test_the_kernel_itself_is_right_in_every_order(tmp_path: Path, order: str) -> None:
    data = arrays()
    found, facts = run_text(kernel(), tmp_path, data, order)
    assert facts["errors"] == [] and facts["code"] == 0
    np.testing.assert_allclose(found[0], data[1] @ data[2], rtol=1e-4, atol=1e-4)


def lines(text: str, pattern: str) -> list[int]:
    found = [i for i, line in enumerate(text.splitlines()) if re.search(pattern, line)]
    assert found, pattern
    return found


def drop(pattern: str, which: int = 0):
    def change(text: str) -> str:
        rows = text.splitlines()
        rows[lines(text, pattern)[which]] = ";"
        return "\n".join(rows)

    return change


def sub(pattern: str, new: str, which: int = 0):
    def change(text: str) -> str:
        rows = text.splitlines()
        at = lines(text, pattern)[which]
        rows[at] = re.sub(pattern, new, rows[at], count=1)
        return "\n".join(rows)

    return change


WAIT_FULL = r"vendor_lib_wait\(VL_Q_LOAD, VL_Q_MMA"
WAIT_EMPTY = r"vendor_lib_wait\(VL_Q_MMA, VL_Q_LOAD, dsa_mod"
SET_FULL = r"vendor_lib_set\(VL_Q_LOAD, VL_Q_MMA"
SET_EMPTY = r"vendor_lib_set\(VL_Q_MMA, VL_Q_LOAD, dsa_mod"
DMA = r"vendor_lib_dma_copy\(VL_TILE\(VL_S"
STORE = r"vendor_lib_dma_copy\(VL_TILE\(VL_G\(C"
MMA = r"vendor_lib_mma\("

MUTANTS = {
    "missing wait before mma": (drop(WAIT_FULL), r"posted twice|reads what LOAD writes"),
    "missing wait before refill": (
        drop(WAIT_EMPTY),
        r"posted twice|overwrites what MMA still reads",
    ),
    "missing set after load": (drop(SET_FULL), r"was never posted: MMA would wait for ever"),
    "missing set after steady load": (drop(SET_FULL, 1), r"was never posted"),
    "missing set after mma": (drop(SET_EMPTY), r"was never posted: LOAD would wait for ever"),
    "missing init": (drop(r"vendor_lib_fill"), r"C: reads ACC byte \d+, which nothing has written"),
    "missing wait mma to store": (
        drop(r"vendor_lib_wait\(VL_Q_MMA, VL_Q_STORE"),
        r"posted|STORE reads what MMA writes",
    ),
    "missing set and wait mma to store": (
        lambda t: drop(r"vendor_lib_set\(VL_Q_MMA, VL_Q_STORE")(
            drop(r"vendor_lib_wait\(VL_Q_MMA, VL_Q_STORE")(t)
        ),
        r"STORE reads what MMA writes at line \d+, and nothing orders them",
    ),
    "store not waited for by the next tile": (
        lambda t: drop(r"vendor_lib_set\(VL_Q_STORE, VL_Q_VEC")(
            drop(r"vendor_lib_wait\(VL_Q_STORE, VL_Q_VEC")(t)
        ),
        r"VEC overwrites what (MMA writes|STORE still reads)",
    ),
    "no order from fill to mma": (
        lambda t: drop(r"vendor_lib_set\(VL_Q_VEC, VL_Q_MMA")(
            drop(r"vendor_lib_wait\(VL_Q_VEC, VL_Q_MMA")(t)
        ),
        r"MMA (reads|overwrites) what VEC writes",
    ),
    "dropped sync at the end": (drop(r"vendor_lib_sync"), r"missing at the end of the kernel"),
    "wrong event number": (
        sub(SET_FULL + r", \w+\(kk", r"vendor_lib_set(VL_Q_LOAD, VL_Q_MMA, 7 + dsa_mod(kk"),
        r"never posted|left posted",
    ),
    "event out of range": (
        sub(SET_FULL + ", ", "vendor_lib_set(VL_Q_LOAD, VL_Q_MMA, 64 + "),
        r"numbers are 0\.\.63",
    ),
    "event to the queue itself": (
        sub(SET_FULL, "vendor_lib_set(VL_Q_LOAD, VL_Q_LOAD"),
        r"queues must differ",
    ),
    "event from the wrong queue": (
        sub(SET_FULL, "vendor_lib_set(VL_Q_STORE, VL_Q_MMA"),
        r"never posted",
    ),
    "slot not alternating": (
        sub(r"VL_S\(A_s \+ \(\(\(dsa_mod\(\(kk \+ 1\), 2\)", "VL_S(A_s + (((dsa_mod(kk, 2)"),
        r"overwrites what MMA still reads|reads what LOAD|never|which nothing",
    ),
    "swapped buffers": (
        lambda t: sub(r"VL_S\(A_s", "VL_S(B_s")(t),
        r"which nothing has written|hazard",
    ),
    "operands of mma swapped": (
        lambda t: (
            t.replace("VL_S(A_s + (((dsa_mod(kk, 2)", "VL_S(@")
            .replace("VL_S(B_s + (((dsa_mod(kk, 2)", "VL_S(A_s + (((dsa_mod(kk, 2)")
            .replace("VL_S(@", "VL_S(B_s + (((dsa_mod(kk, 2)")
        ),
        None,
    ),
    "scratchpad overflow": (
        sub(r"enum \{ B_s = \d+", "enum { B_s = 524000"),
        r"SPAD overflow: needs \d+ bytes, capacity is 524288",
    ),
    "accumulator overflow": (sub(r"enum \{ C_r = \d+", "enum { C_r = 131000"), r"ACC overflow"),
    "misaligned operand": (
        sub(r"enum \{ A_s = \d+", "enum { A_s = 4"),
        r"is not a multiple of 32 bytes|hazard",
    ),
    "past the end of a tensor": (
        sub(r"VL_G\(A \+ ", "VL_G(A + 15360 + "),
        r"outside every tensor|past the end of tensor A",
    ),
    "writes an input": (sub(r"VL_G\(C \+ ", "VL_G(A + "), r"writes to input tensor A"),
    "transposed flag": (sub(r"VL_F32\), 0\);", "VL_F32), VL_MMA_TRANS_B);"), None),
    "mma from the accumulator": (
        sub(r"vendor_lib_mma\(VL_TILE\(VL_A", "vendor_lib_mma(VL_TILE(VL_S"),
        r"C must be in ACC \(is in SPAD\)",
    ),
    "wrong extent of mma": (
        sub(r"(VL_S\(B_s \+ \(\(\(dsa_mod\(kk, 2\)\) \* 32\) \* 32\) \* 4\)), 32", r"\1, 16"),
        r"but A gives|B gives",
    ),
    "all cores write one tile": (
        lambda t: t.replace("const int core_id = vendor_lib_core_id();", "const int core_id = 0;"),
        r"race on GLOBAL: core \d writes what core \d writes",
    ),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_reported(name: str, tmp_path: Path) -> None:
    change, message = MUTANTS[name]
    text = kernel().source
    mutant = change(text)
    assert mutant != text
    if message is None:  # not a hazard: the numbers are wrong, which is the verifier's business
        data = arrays()
        changed = replace(kernel(), files=((kernel().main, mutant), *kernel().files[1:]))
        found, _ = run_text(changed, tmp_path, data)
        assert not np.allclose(found[0], data[1] @ data[2], rtol=1e-3, atol=1e-3)
        return
    errors = report(mutant, tmp_path)["errors"]
    assert errors, "the mutant passed"
    assert any(re.search(message, e) for e in errors), errors
    assert re.match(r"line \d+: vendor_lib_\w+: ", errors[0])
    number = int(re.match(r"line (\d+)", errors[0]).group(1))  # type: ignore[union-attr]
    called = errors[0].split(": ")[1]
    assert called in mutant.splitlines()[number - 1] or called == "vendor_lib_sync"
