"""Bugs that are planted in each target's product: one of each class that its text can have, the same on every arch.

Classes: a wait that is lost, a wrong slot or place, an edge that is clipped, an accumulator that is not cleared. Where a target's
text cannot have a class, because its compiler makes the copies, the reason stands here in place of the change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from septran import backends
from septran.backends.base import Built
from septran.backends.cuda.toolchain import compile_emulated
from septran.backends.device.simulated import write_simulated
from septran.backends.triton import toolchain as triton
from septran.errors import SeptranError
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import Place, place_of
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify

CLASSES = ("lost wait", "wrong slot", "clipped edge", "accumulator not cleared")
DIMS = {"M": 19, "N": 24, "K": 1100}
DTYPE = "bfloat16"


@dataclass(frozen=True, slots=True)
class Edit:
    """`pattern` of the kernel's own file becomes `new`, everywhere."""

    pattern: str
    new: str


def _cleared(call: str) -> Edit:
    return Edit(rf"\n\s*{call}", "")


_OWN = "a core sees its own copies at once: there are no waits and no slots in the text"
_TRITON = "Triton's compiler makes the copies, their slots and their waits; num_stages is all that the text says"
_TILELANG = "TileLang's compiler makes the slots and waits of T.Pipelined"
_NPUIR = "the dialect's compiler makes flags and slots of a serial loop"
_PALLAS = "blocks are fetched by Pallas; kernels with rings of their own are in tests/backends/pallas/test_rings.py"
_CUDA = {
    "lost wait": Edit(r"st::cp_wait<\d+>\(\);", ";"),
    "clipped edge": Edit(r"(st::copy\(st::View<\w+, 2>\{C \+ [^;]*?\{)19,", r"\g<1>18,"),
    "accumulator not cleared": _cleared(r"leaf_zero_\w+\(acc\);"),
}
_TILES = {
    "lost wait": _TILELANG,
    "wrong slot": _TILELANG,
    "clipped edge": Edit(
        r"C\[i0 \* 19, i1 \* 24\]\)", "C[i0 * 19:i0 * 19 + 18, i1 * 24:i1 * 24 + 24])"
    ),
    "accumulator not cleared": _cleared(r"leaf_zero_\w+\(acc\)"),
}
_TRITONS = {
    "lost wait": _TRITON,
    "wrong slot": _TRITON,
    "clipped edge": Edit(r"(C_t, mask=\(tl\.arange\(0, \d+\) < )19\)", r"\g<1>18)"),
    "accumulator not cleared": Edit(r"(tl\.full\(\(\d+, \d+\), )0\.0", r"\g<1>1.0"),
}
BUGS: dict[str, dict[str, Edit | str]] = {
    "cpp": {
        "lost wait": _OWN,
        "wrong slot": _OWN,
        "clipped edge": Edit(r"(leaf_store_\w+\(\{C [^;]*?st::least\(\d+, )19 ", r"\g<1>18 "),
        "accumulator not cleared": _cleared(r"leaf_zero_\w+\([^;]*;"),
    },
    "cuda_c": {
        **_CUDA,
        "wrong slot": Edit(
            r"(leaf_mma_\w+\([^;]*B_s \+ \()k0 % (\d)", r"\g<1>(k0 + 1) % \2"
        ),
    },
    "hip_c": {**_CUDA, "wrong slot": Edit(r"\(smem \+ 2816\)", "(smem + 0)")},
    "tilelang_cuda": dict(_TILES),
    "tilelang_hip": dict(_TILES),
    "tilelang_npuir": {
        "lost wait": _NPUIR,
        "wrong slot": _NPUIR,
        "clipped edge": Edit(r"acc, C\[0:19,", "acc, C[0:18,"),
        "accumulator not cleared": Edit("initC=first", "initC=False"),
    },
    "triton_cuda": dict(_TRITONS),
    "triton_hip": dict(_TRITONS),
    "triton_npu": dict(_TRITONS),
    "pallas_tpu": {
        "lost wait": _PALLAS,
        "wrong slot": _PALLAS,
        "clipped edge": Edit(
            r"C\[\.\.\.\] = (leaf_store_\w+)\(acc\[\.\.\.\]\)", r"C[:18, :] = \1(acc[...])[:18, :]"
        ),
        "accumulator not cleared": Edit(r"acc\[\.\.\.\] = leaf_zero_\w+\(\)", "pass"),
    },
    "dsa_c": {
        "lost wait": Edit(r"\n\s*(vendor_lib|sg)_wait\((VL_Q_)?LOAD, (VL_Q_)?MMA,[^;]*;", ""),
        "wrong slot": Edit(r"((?:vendor_lib|sg)_mma\([^;]*B_s[^;]*?dsa_mod\()k0,", r"\g<1>(k0 + 1),"),
        "clipped edge": Edit(
            r"(TILE\(\w+_G\(C [^;]*?)19(, 24, [^;]*?)19(, 24, \d+, \w+\)\);)", r"\g<1>18\g<2>18\3"
        ),
        "accumulator not cleared": _cleared(r"(?:vendor_lib|sg)_fill\([^;]*;"),
    },
}  # fmt: skip


def product(name: str, arch: str) -> tuple[Kernel, Problem]:
    """Return the product that the bugs are planted in, of one arch."""
    plan = resolve(
        GenRequest(op="gemm", backend=name, arch=arch or None, dtype=DTYPE, dims=dict(DIMS))
    )
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves), problem_of(plan, lowered.program, plan.dims)


def edited(kernel: Kernel, edit: Edit) -> Kernel:
    """Return `kernel` with the bug in it."""
    text, times = re.subn(edit.pattern, edit.new, kernel.source)
    assert times, f"{kernel.backend} {kernel.arch}: {edit.pattern!r} is not in\n{kernel.source}"
    return replace(
        kernel, files=tuple((n, text if n == kernel.main else t) for n, t in kernel.files)
    )


def place(name: str, arch: str) -> Place | str:
    """Return where kernels of an arch are judged here, or what is missing."""
    try:
        found = place_of(backends.get(name), arch, "native" if name == "cpp" else "emulated", 2)
    except SeptranError:
        found = place_of(backends.get(name), arch, "auto", 2)
    return str(found.trouble) if found.trouble is not None else found


def judged(kernel: Kernel, problem: Problem, found: Place, folder: Path) -> Verdict:
    """Return the verdict of a run alone: neither gate nor proof, and no compiler for the chip."""
    there = folder / "build"
    there.mkdir(parents=True)
    backend = backends.get(kernel.backend)
    if kernel.backend in ("cuda_c", "hip_c"):
        built = compile_emulated(kernel, there)
    elif kernel.backend.startswith("triton"):
        built = Built(ok=True, artifact=triton.write(kernel, there))
    elif kernel.backend.startswith("tilelang"):
        built = Built(ok=True, artifact=write_simulated(kernel, there))
    else:
        built = found.build(kernel, there)
    request = Request(
        gate=False, language=backend.language, sessions=found.sessions, where=found.where
    )
    return verify(kernel, built, problem, run_dir=folder / "run", request=request)
