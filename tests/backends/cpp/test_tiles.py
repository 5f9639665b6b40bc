"""Products by the processor's matrix tiles (Intel AMX), and the same calls where there are none or the system refuses them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from septran.backends import get
from septran.backends.cpp.backend import CPP
from septran.outcome import Level
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.toolchain.compilers import host_features
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from septran.verify.gate_binary import scan_shared_object
from tests.backends.cpp.programs import NP, kernel_of, leaf_program, prim, run_leaf
from tests.backends.cpp.test_leaves import check, rand
from tests.backends.cpp.test_quads import wanted, whole
from tests.verify import hosting, kernels

tiles = pytest.mark.skipif(
    not {"amx_tile", "amx_bf16", "amx_int8"} <= set(host_features().split()),
    reason="this processor has no matrix tiles",
)
FLAGS = [{}, {"trans_a": True}, {"trans_b": True}, {"trans_a": True, "trans_b": True}]
MORE = ((1, 33, 64), (200, 70, 1100), (40, 1060, 300))
SIZES = [(37, 45, 77), *(pytest.param(s, marks=pytest.mark.wider) for s in MORE)]


def inputs_of(m, n, k, flags, seed=0):
    a = rand((k, m) if flags.get("trans_a") else (m, k), "bfloat16", seed)
    b = rand((n, k) if flags.get("trans_b") else (k, n), "bfloat16", seed + 1)
    return {"A": a, "B": b}


def product(m, n, k, flags=(), seed=0):
    flags = dict(flags)
    prims = [prim("gemm", "C", "A", "B", **flags)]
    return run_leaf(prims, inputs_of(m, n, k, flags, seed), {"C": ((m, n), "float32")})["C"]


@pytest.mark.few(1)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wanted", ["1", pytest.param("0", marks=pytest.mark.wider)])
def test_rests_of_tiles(size, wanted, monkeypatch):
    """Every transposition, into new sums, kept sums and results of 16 bits, with tiles and without."""
    monkeypatch.setenv("SEPTRAN_AMX", wanted)
    m, n, k = size
    prims, inputs, outputs, kept = [], {}, {}, []
    for i, flags in enumerate(FLAGS):
        one = inputs_of(m, n, k, flags, 2 * i)
        inputs |= {f"{name}{i}": value for name, value in one.items()}
        inputs[f"S{i}"] = rand((m, n), seed=i)
        kept.append(f"S{i}")
        outputs |= {f"C{i}": ((m, n), "float32"), f"H{i}": ((m, n), "bfloat16")}
        prims += [prim("gemm", out, f"A{i}", f"B{i}", **flags) for out in (f"C{i}", f"H{i}")]
        prims.append(prim("gemm_acc", f"S{i}", f"A{i}", f"B{i}", **flags))
    check(prims, inputs, outputs, inout=tuple(kept), terms=k, ulps=4)


@pytest.mark.parametrize(
    "size", [*SIZES[:1], pytest.param((70, 40, 2100), marks=pytest.mark.wider)]
)
def test_integers_are_exact(size):
    m, n, k = size
    prims, inputs, outputs, want = [], {}, {}, {}
    for i, flags in enumerate(FLAGS):
        a, b, s = whole((m, k), seed=i), whole((k, n), seed=i + 9), whole((m, n), "int32", i)
        inputs[f"A{i}"] = np.ascontiguousarray(a.T) if flags.get("trans_a") else a
        inputs[f"B{i}"] = np.ascontiguousarray(b.T) if flags.get("trans_b") else b
        inputs[f"S{i}"] = s.copy()
        outputs[f"C{i}"] = ((m, n), "int32")
        prims.append(prim("gemm", f"C{i}", f"A{i}", f"B{i}", **flags))
        prims.append(prim("gemm_acc", f"S{i}", f"A{i}", f"B{i}", **flags))
        want |= {f"C{i}": wanted(a, b, "int32"), f"S{i}": wanted(a, b, "int32", s.astype(np.int64))}
    kept = tuple(n for n in inputs if n.startswith("S"))
    found = run_leaf(prims, inputs, outputs, inout=kept) | {n: inputs[n] for n in kept}
    for name, values in want.items():
        assert np.array_equal(found[name], values), name


@tiles
@pytest.mark.wider
def test_a_user_who_wants_none_gets_none(monkeypatch, tmp_path):
    """The instruction is in the library, or SEPTRAN_AMX=0 keeps it out; a cache holds both."""
    tensors = {"A": ((17, 64), "bfloat16"), "B": ((64, 40), "bfloat16"), "C": ((17, 40), "float32")}
    kernel = kernel_of(leaf_program([prim("gemm", "C", "A", "B")], tensors, ("C",)))
    for asked in ("1", "0"):
        monkeypatch.setenv("SEPTRAN_AMX", asked)
        built = CPP.build(kernel, tmp_path / asked)
        assert built.artifact is not None, built.log
        listing = subprocess.run(["objdump", "-d", built.artifact], capture_output=True, text=True)
        assert ("tdpbf16ps" in listing.stdout) == (asked == "1")


REFUSED = """
import ctypes, struct, sys
import numpy as np
if sys.argv[2] == "refused":  # arch_prctl fails with EPERM
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 158), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *c) for c in code))
    program = struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None)
    assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, program)
data = np.load(sys.argv[3])
a, b, c = data["a"], data["b"], np.zeros((33, 40), np.float32)
arguments = (ctypes.c_void_p * 3)(*(x.ctypes.data for x in (a, b, c)))
ctypes.CDLL(sys.argv[1])[sys.argv[4]](arguments)
np.save(sys.argv[5], c)
"""


@tiles
@pytest.mark.wider
def test_one_library_is_right_where_the_system_refuses_tiles(tmp_path):
    """The same library computes what a build without tiles does there, to the bit."""
    tensors = {"A": ((33, 96), "bfloat16"), "B": ((96, 40), "bfloat16"), "C": ((33, 40), "float32")}
    kernel = kernel_of(leaf_program([prim("gemm", "C", "A", "B")], tensors, ("C",)))
    built = CPP.build(kernel, tmp_path / "build")
    assert built.artifact is not None, built.log
    a, b = rand((33, 96), "bfloat16"), rand((96, 40), "bfloat16", 1)
    np.savez(tmp_path / "in.npz", a=a.view(np.uint16), b=b.view(np.uint16))
    found = {}
    for how in ("granted", "refused"):
        command = [sys.executable, "-c", REFUSED, built.artifact, how, tmp_path / "in.npz"]
        out = tmp_path / f"{how}.npy"
        subprocess.run([*command, kernel.entry, out], check=True)
        found[how] = np.load(out)
    want = a.astype(np.float64) @ b.astype(np.float64)
    for got in found.values():
        assert np.abs(got - want).max() < 1e-3
    assert not np.array_equal(found["granted"], found["refused"])  # other orders of adding


def test_subnormal_factors_count_and_infinities_spread():
    """Tiles take them for zero as `vdpbf16ps` does: 2^-130 times 2^120 is 2^-10, and times infinity it is infinite."""
    tiny, large = np.zeros((33, 70)), np.zeros((70, 34))
    tiny[32, 69], tiny[3, 2], large[69, :], large[2, 33] = 2.0**-130, 1.0, 2.0**120, 3.0
    endless = large.copy()
    endless[69, 33] = np.inf
    data = {"A": tiny, "B": large, "E": endless, "X": large.T, "Y": tiny.T}
    inputs = {n: np.ascontiguousarray(v).astype(NP["bfloat16"]) for n, v in data.items()}
    pairs = {"C": "AB", "H": "AB", "D": "AE", "T": "XY"}
    prims = [prim("gemm", out, *ins) for out, ins in pairs.items()]
    shapes = {n: (len(data[a]), data[b].shape[1]) for n, (a, b) in pairs.items()}
    outputs = {n: (s, "bfloat16" if n == "H" else "float32") for n, s in shapes.items()}
    found = run_leaf(prims, inputs, outputs)
    for name, (a, b) in pairs.items():
        with np.errstate(invalid="ignore"):
            want = inputs[a].astype(np.float64) @ inputs[b].astype(np.float64)
        assert np.array_equal(found[name].astype(np.float64), want, equal_nan=True), name


@pytest.mark.wider
def test_a_row_does_not_depend_on_the_rows_beside_it():
    a, b = rand((64, 130), "bfloat16"), rand((130, 48), "bfloat16", 1)
    prims = [prim("gemm", "C", "A", "B")]

    def of(rows):
        return run_leaf(prims, {"A": a[:rows], "B": b}, {"C": ((rows, 48), "float32")})["C"]

    whole = of(64)
    for m in (1, 2, 17, 33):
        assert np.array_equal(of(m), whole[:m]), m


def judged(tmp_path, *, change=None, threads=2, op="gemm", dtype="bfloat16", **dims):
    """Return the verdict on a library kernel, whose text `change` may alter."""
    plan = resolve(GenRequest(op=op, backend="cpp", dims=dims, dtype=dtype))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    if change is not None:
        files = tuple((name, change(text)) for name, text in kernel.files)
        assert files != kernel.files
        kernel = replace(kernel, files=files)
    problem = problem_of(plan, lowered.program, plan.dims)
    place = place_of(get("cpp"), kernel.arch, "auto", threads)
    return judge_kernel(place, kernel, problem, work=tmp_path).verdict


@tiles
def test_the_static_host_judges_them_and_sees_a_wrong_tail(tmp_path):
    """k = 70 fills two tiles and six elements of a third: what lies behind them must be zeros."""

    def unfilled(text):
        return text.replace(
            "std::memset(static_cast<void*>(d + words * P), 0,", "if (words < 0) std::memset(d, 0,"
        )

    right = judged(tmp_path / "right", M=33, N=47, K=70)
    assert right.level is Level.ACCURATE, right
    assert "static host" in right.enforced
    wrong = judged(tmp_path / "wrong", change=unfilled, M=33, N=47, K=70)
    assert wrong.code in ("V202", "V203", "V204"), wrong


@tiles
def test_nothing_is_remembered_in_tiles(tmp_path: Path) -> None:
    """Whoever finds tiles in use answers zeros: the host takes them back after every call, so nobody does."""
    before = """
static inline int in_use() {
    alignas(64) unsigned char now[64];
    asm volatile("sttilecfg\\t%0" : "=m"(now));
    return now[0];
}
static inline void leave_in_use() {
    alignas(64) unsigned char shape[64] = {1};
    shape[16] = 64, shape[48] = 16;
    asm volatile("ldtilecfg\\t%0" ::"m"(shape));
}
extern "C" int st_tiles(void);
"""
    forget = "float* C = (float*)args[0]; for (int i = 0; i < 37*29; i++) C[i] = 0; return;"
    body = f"if (st_tiles()) {{ if (in_use()) {{ {forget} }} leave_in_use(); }} {kernels.GEMM}"
    verdict = hosting.judge(body, tmp_path, before=before)
    assert verdict.level is Level.ACCURATE, verdict


@tiles
@pytest.mark.wider
def test_the_gate_knows_the_runtime_s_own_system_call_from_a_kernel_s(tmp_path: Path) -> None:
    tensors = {"A": ((2, 32), "bfloat16"), "B": ((32, 4), "bfloat16"), "C": ((2, 4), "float32")}
    kernel = kernel_of(leaf_program([prim("gemm", "C", "A", "B")], tensors, ("C",)))
    built = CPP.build(kernel, tmp_path / "own")
    assert built.artifact is not None
    assert not scan_shared_object(built.artifact).findings
    asks = 'asm volatile("syscall" ::: "rcx", "r11", "memory");'
    for name in ("st_tiles", "other"):
        text = (
            kernel.source
            + f'\nextern "C" {{ __attribute__((used, noinline)) static void {name}() {{ {asks} }} }}\n'
        )
        if name == "st_tiles":
            text = text.replace('extern "C" int st_tiles(void);', "").replace(
                "st_tiles() != 0", "true"
            )
        one = replace(kernel, files=((kernel.main, text),))
        built = CPP.build(one, tmp_path / name)
        assert built.artifact is not None, built.log
        assert "contains syscall" in str(scan_shared_object(built.artifact).findings), name
