"""The backend families that attacks are tried on, and how a changed kernel of each is built for a test.

The base of each is a small kernel that SepTran emits with library leaves: row_sum[19, 67], or a product where a family is about copies.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from septran.backends import get
from septran.backends.base import Built
from septran.backends.cuda import toolchain as cuda_build
from septran.backends.device.simulated import write_simulated
from septran.backends.triton import toolchain as triton_toolchain
from septran.ir.nodes import Prim
from septran.kernel import Kernel, Leaf, LeafParam, LeafSpec
from septran.leafgate import printed
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import place_of
from septran.verify.problem import Problem
from septran.verify.session import Sessions

TITLES = {
    "cpp": "C++ leaf",
    "host": "C++ kernel in the static host",
    "leaf": "C++ leaf on views, by its text",
    "python": "Python leaf",
    "compile": "C++ compile step",
    "cuda": "CUDA C++",
    "hip": "HIP C++",
    "triton": "Triton",
    "ascend": "Triton for Ascend",
    "tilelang": "TileLang",
    "npuir": "TileLang NPU IR",
    "dsa": "C over a vendor library",
    "cpp file": "Whole C++ file",
    "cuda file": "Whole CUDA C++ file",
    "triton file": "Whole Triton file",
    "tilelang file": "Whole TileLang file",
}
FILES = {"cpp file": ".cpp", "cuda file": ".cu", "triton file": ".py", "tilelang file": ".py"}
"""of `septran judge`: what their names end with"""
DOUBLED = (
    "import torch\ndef reference(x): return x * 2\ndef get_inputs(): return [torch.randn(300)]\n"
)


@dataclass(frozen=True)
class Family:
    """backend; `leaves`: the line before which `before` is put; `step`: the text `body` stands for.

    op, dtype, dims: of the kernel; `policy`: (old, new) texts of the shipped policy that it is bound with.
    """

    backend: str
    leaves: str
    step: str
    op: str = "row_sum"
    dtype: str = "float32"
    dims: tuple[tuple[str, int], ...] = (("M", 19), ("N", 67))
    policy: tuple[str, str] = ("", "")


FAMILIES = {
    "compile": Family("cpp", "// ---- leaves", ""),
    "cuda": Family("cuda_c", "// ---- leaves", "st::reduce_last<st::Sum, true>(acc, X);"),
    "hip": Family(
        "hip_c",
        "// ---- leaves",
        "st::gemm_mfma<st::Product<st::Tile<19, 64>, false, false, true, true>>(C, A, st::matrix(B));",
        op="gemm",
        dtype="float16",
        dims=(("M", 19), ("N", 24), ("K", 140)),
        policy=(
            "pipeline: !tune {type: choice, values: [1, 2], default: 1}",
            "pipeline: 2",
        ),  # a ring, so that slots and waits can be wrong
    ),
    "ascend": Family(
        "triton_npu",
        "@triton.jit\n",
        "C = tl.dot(A, B, C)",
        op="gemm",
        dtype="float16",
        dims=(("M", 19), ("N", 24), ("K", 140)),
    ),
    "triton": Family(
        "triton_cuda",
        "@triton.jit\n",
        "acc = (acc + tl.sum(tl.where(tl.arange(0, 128)[None, :] < 67, X, 0.0), 1, keep_dims=True)).to(tl.float32)",
    ),
    "tilelang": Family(
        "tilelang_cuda", "@T.macro\n", "acc[i] = T.if_then_else(i < 19, acc[i] + t1[i], 0.0)"
    ),
    "npuir": Family("tilelang_npuir", "@T.macro\n", "T.vadd(t1, acc, t1)"),
    "dsa": Family("dsa_c", "static void kernel(void *opaque) {", "vendor_lib_sync();"),
}


# the frame of the hand-written C++ entries: what stands for a leaf's parameters there
ENTRY = (
    "float* C = (float*)args[0]; ",
    "const float* A = (const float*)args[1]; const float* B = (const float*)args[2]; ",
    "float* C = (float*)args[0];",
    "const float* A = (const float*)args[1];",
    "const float* B = (const float*)args[2];",
)
GEMM = LeafSpec(
    task="mma",
    backend="cpp",
    arch="",
    proc="CORE",
    params=tuple(
        LeafParam(
            name=name,
            shape=shape,
            dtype="float32",
            mem="GLOBAL",
            layout="row",
            privilege=privilege,  # type: ignore[arg-type]
            ragged=(False, False),
            step=(1, 1),
        )
        for name, shape, privilege in (
            ("C", (37, 29), "w"),
            ("A", (37, 53), "r"),
            ("B", (53, 29), "r"),
        )
    ),
    scalars=(),
    prims=(Prim(name="gemm", out="C", ins=("A", "B")),),
)


def foreign_leaf(language: str, body: str, before: str) -> Leaf | None:
    """Return the leaf that an attack's texts stand for, as a writer could give it; None when they are none."""
    if language in ("python", "host") or not (body or before):  # whole kernels
        return None
    if language in ("cpp", "leaf"):
        for text in ENTRY:
            body = body.replace(text, "")
        source, spec = f"{get('cpp').signature(GEMM)} {{\n{body}\n}}\n", GEMM
    else:
        family = FAMILIES[language]
        leaves = emitted(language)[0].leaves
        known = [leaf for leaf in leaves if family.step and family.step in leaf.source]
        spec = (known or leaves)[-1].spec
        if known:
            source = known[0].source.replace(
                family.step, body.replace("HONEST", family.step) or family.step
            )
        elif language == "dsa":
            source = f"{get('dsa_c').signature(spec)} {{\n{body}\n}}\n"
        else:
            source = leaves[-1].source
    text = f"{before}\n{source}" if before else source
    return Leaf(spec=spec, writer="llm", name="attack", source=text)


def around_leaf(body: str, *, honest: bool) -> str:
    """Return a C++ file whose entry calls the leaf with `body` on C[37, 29], A[37, 53], B[53, 29].

    honest: the body as the gate prints it.
    """
    leaf = foreign_leaf("leaf", body, "")
    assert leaf is not None
    if honest:
        leaf = printed(leaf, signature=get("cpp").signature(GEMM), subset="cpp")
    plan = resolve(GenRequest(op="gemm", backend="cpp", dims={"M": 37, "N": 29, "K": 53}))
    lowered = lower_plan(plan)
    floor = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    runtime = plan.backend.emit(lowered.program, floor).source.partition("// ---- leaves")[0]
    views = ", ".join(
        f"{{static_cast<{kind}*>(args[{i}]), {{{m}, {n}}}, {{{n}, 1}}}}"
        for i, (kind, m, n) in enumerate(
            (("float", 37, 29), ("const float", 37, 53), ("const float", 53, 29))
        )
    )
    entry = f'extern "C" void entry(void* const* args) {{ {GEMM.symbol}({views}); }}\n'
    return f"{runtime}{leaf.source}{entry}"


class Made(NamedTuple):
    """A built kernel and how it is verified."""

    kernel: Kernel
    built: Built
    problem: Problem
    sessions: Sessions
    language: str
    where: str


def missing(language: str) -> str:
    """Return what this machine lacks, "" when nothing."""
    if (
        language in ("triton", "ascend", "triton file")
        and importlib.util.find_spec("triton") is None
    ):
        return "triton"
    if (
        language
        in ("cpp", "leaf", "host", "compile", "cuda", "hip", "dsa", "cpp file", "cuda file")
        and shutil.which("g++") is None
    ):
        return "g++"
    return ""


@functools.cache
def emitted(language: str) -> tuple[Kernel, Problem]:
    """Return the honest kernel of a family and its problem."""
    family = FAMILIES[language]
    asked = GenRequest(
        op=family.op, backend=family.backend, dtype=family.dtype, dims=dict(family.dims)
    )
    plan = resolve(asked)
    if any(family.policy):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{family.backend}.mapping.yaml"
            shipped = Path(plan.mapping.file).read_text(encoding="utf-8")
            assert family.policy[0] in shipped, f"the policy of {family.backend} is another now"
            file.write_text(shipped.replace(*family.policy), encoding="utf-8")
            plan = resolve(replace(asked, mapping=file))
            lowered = lower_plan(plan)
    else:
        lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    return kernel, problem_of(plan, lowered.program, plan.dims)


def make(
    language: str,
    folder: Path,
    *,
    body: str,
    before: str,
    edits: tuple[tuple[str, str], ...],
    source: str,
) -> Made:
    """Return the changed kernel, built for its emulation (natively for the compile step)."""
    family = FAMILIES[language]
    kernel, problem = emitted(language)
    text = source or kernel.source
    if body:
        assert family.step in text, f"the emitted {language} kernel has another step now"
        text = text.replace(family.step, body.replace("HONEST", family.step), 1)
    if before:
        assert family.leaves in text
        text = text.replace(family.leaves, f"{before}\n{family.leaves}", 1)
    for old, new in edits:
        assert old in text, f"the emitted {language} kernel no longer holds {old!r}"
        text = text.replace(old, new)
    kernel = replace(
        kernel, files=tuple((n, text if n == kernel.main else t) for n, t in kernel.files)
    )
    backend = get(family.backend)
    sessions = replace(place_of(backend, "", "emulated", 2).sessions, call_timeout_s=10.0)
    built = build(language, kernel, folder / "build")
    return Made(kernel, built, problem, sessions, backend.language, backend.where)


def build(language: str, kernel: Kernel, folder: Path) -> Built:
    """Return the kernel built for its emulation only (natively for the C++ backend)."""
    folder.mkdir(parents=True, exist_ok=True)
    match language:
        case "cuda" | "hip":
            return cuda_build.compile_emulated(kernel, folder)
        case "triton" | "ascend":
            return Built(ok=True, artifact=triton_toolchain.write(kernel, folder))
        case "tilelang" | "npuir":
            return Built(ok=True, artifact=write_simulated(kernel, folder))
        case _:
            return get(FAMILIES[language].backend).build(kernel, folder)
